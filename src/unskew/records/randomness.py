"""Randomness that a caller controls: an integer, or a NumPy Generator."""

from __future__ import annotations

import numpy as np

from unskew.errors import ConfigError


def seed_of(rng: int | np.random.Generator) -> int:
    """Return a seed: an integer unchanged, or one drawn from a Generator."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63 - 1))
    seed: object = rng
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(
            f"rng must be an integer, 0 or more, or a numpy.random.Generator; got {rng!r}.",
            option="rng",
            value=repr(rng),
        )
    return int(seed)
