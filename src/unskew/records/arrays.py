"""Names for the arrays that everybody passes around, codes counted, and randomness that a caller controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError

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
