"""Values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def json_value(value: Any) -> Any:
    """Turn NumPy's values, tuples and mappings into JSON's; infinite numbers and NaN are None."""
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
