"""Randomness that a caller controls: an integer, or a NumPy Generator."""

from __future__ import annotations

import numpy as np

from unskew.errors import ConfigError


def seed_of(rng: int | np.random.Generator) -> int:
    """Return a seed: an integer unchanged, or one drawn from a Generator."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63 - 1))
    if isinstance(rng, bool) or not hasattr(rng, "__index__") or rng < 0:
        raise ConfigError(
            f"rng must be an integer, 0 or more, or a numpy.random.Generator; got {rng!r}.",
            option="rng",
            value=rng if isinstance(rng, int | float | str) else type(rng).__name__,
        )
    return int(rng)
