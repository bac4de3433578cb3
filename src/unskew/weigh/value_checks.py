"""Values of the images and the coverage of an interval, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError
from unskew.records import Floats


def check_order(values: Any, id_n: npt.NDArray[Any]) -> None:
    """Refuse a pandas Series whose index holds the ids in another order.

    Values are taken by position, so they would go to the wrong images.
    """
    index: Any = getattr(values, "index", None)
    if not hasattr(index, "equals") or len(index) != id_n.size:
        return
    label_n = np.asarray(index)
    if not np.array_equal(label_n, id_n) and set(label_n.tolist()) == set(id_n.tolist()):
        raise DataError(
            "the index of values holds the ids of the weights in another order; pass "
            "values.loc[weights.id].",
            option="values",
        )


def check_values(values: npt.ArrayLike, n: int) -> Floats:
    """Return ``values`` as n finite floats; anything else is a `DataError`."""
    value_n = np.asarray(values)
    if value_n.dtype.kind not in "biuf":
        raise DataError(
            f"values must be numbers, one per image; got an array of type {value_n.dtype}.",
            value=str(value_n.dtype),
        )
    if value_n.ndim != 1 or value_n.size != n:
        raise DataError(
            f"values must be one number per image: one dimension of length {n}, in the order of "
            f"weights.id; got shape {value_n.shape}. "
            "For several quantities call once for each.",
            count=n,
            value=list(value_n.shape),
        )
    value_n = value_n.astype(np.float64)
    if not np.isfinite(value_n).all():
        row = int(np.flatnonzero(~np.isfinite(value_n))[0])
        raise DataError(
            f"values must be finite, but image {row} has {value_n[row]}. Leave such images out "
            "before the weights are computed.",
            row=row,
            value=float(value_n[row]),
        )
    return value_n


def check_level(level: float) -> None:
    """Refuse a level that is not a coverage strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ConfigError(
            "level is the coverage of the interval, strictly between 0 and 1 (for instance 0.95); "
            f"got {level!r}.",
            option="level",
            value=level,
        )
