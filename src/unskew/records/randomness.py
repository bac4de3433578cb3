"""Randomness that a caller controls: an integer, or a NumPy Generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.errors import ConfigError

Randomness = int | np.random.Generator


def seed_of(rng: Randomness) -> int:
    """Return a seed: an integer unchanged, or one drawn from a Generator.

    The latter is below 2³¹, which every library accepts as a seed.
    """
    value: Any = rng
    if isinstance(value, np.random.Generator):
        return int(value.integers(2**31))
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
        raise ConfigError(
            f"rng must be an integer, 0 or more, or a numpy.random.Generator; got {value!r}.",
            option="rng",
            value=repr(value),
        )
    return int(value)
