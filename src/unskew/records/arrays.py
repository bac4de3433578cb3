"""Names for the arrays that everybody passes around, how two codes are counted, what is missing."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


def count_pairs(row_n: Ints, column_n: Ints, shape: tuple[int, int]) -> Ints:
    """Count (R, C) how often each pair of codes occurs; as ``np.add.at``, ten times faster."""
    return np.bincount(row_n * shape[1] + column_n, minlength=shape[0] * shape[1]).reshape(shape)


def is_missing(value: object) -> bool:
    """Tell whether this is None, NaN, or pandas' NA or NaT."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | np.floating) and bool(np.isnan(value)))
    )
