"""Randomness of public functions: ``rng`` is an int or a Generator, inside it is a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.errors import ConfigError


def seed_of(rng: int | np.random.Generator) -> int:
    """Turn ``rng`` into a seed: an int is its own, a Generator is asked for one integer.

    That integer is below 2³¹, which every library accepts as a seed.
    """
    value: Any = rng  # of any kind where it comes from a user
    if isinstance(value, np.random.Generator):
        return int(value.integers(2**31))
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ConfigError(
        f"rng is a whole number or a numpy.random.Generator; got {rng!r}.",
        option="rng",
        value=repr(rng),
    )
