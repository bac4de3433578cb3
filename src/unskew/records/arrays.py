"""Names for the arrays that everybody passes around, and how two codes are counted."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


def count_pairs(row_n: Ints, column_n: Ints, shape: tuple[int, int]) -> Ints:
    """(R, C) how often each pair of codes occurs; as ``np.add.at``, ten times faster."""
    return np.bincount(row_n * shape[1] + column_n, minlength=shape[0] * shape[1]).reshape(shape)
