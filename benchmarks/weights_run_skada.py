"""skada's reweighting adapters: pool as the source domain, target sample as the target domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import skada
from weights_columns import columns

PACKAGES = ("skada", "scikit-learn", "numpy", "scipy", "POT")
Compute = Callable[[], np.ndarray]
GAMMAS = [0.01, 0.1, 1.0, 10.0]


def _adapter(
    make: Callable[[], Any], invert: bool = False
) -> Callable[[dict[str, np.ndarray]], Compute]:
    def prepare(data: dict[str, np.ndarray]) -> Compute:
        pool, sample = columns(data)
        x = np.concatenate([pool, sample])
        domain = np.concatenate([np.ones(len(pool), dtype=int), np.full(len(sample), -2)])

        def compute() -> np.ndarray:
            adapter = make().fit(x, sample_domain=domain)
            weight = adapter.compute_weights(x, sample_domain=domain)[: len(pool)]
            return 1.0 / weight if invert else weight

        return compute

    return prepare


def _nearest(data: dict[str, np.ndarray]) -> Compute:
    """Counts for each image of the pool the target images nearest to it, by the adapter's own
    function on the two samples.

    Its compute_weights takes the complement of an array of row numbers where a mask was meant, and
    so counts images of the pool too.
    """
    pool, sample = columns(data)
    return lambda: skada.NearestNeighborReweightAdapter()._get_weights(pool, sample)


METHODS = {
    "skada_density": _adapter(skada.DensityReweightAdapter),
    "skada_gaussian": _adapter(skada.GaussianReweightAdapter),
    "skada_discriminator": _adapter(skada.DiscriminatorReweightAdapter, invert=True),
    "skada_discriminator_released": _adapter(skada.DiscriminatorReweightAdapter),
    "skada_kliep": _adapter(lambda: skada.KLIEPReweightAdapter(gamma=list(GAMMAS), random_state=0)),
    "skada_nearest": _nearest,
    "skada_nearest_released": _adapter(skada.NearestNeighborReweightAdapter),
    "skada_kmm": _adapter(skada.KMMReweightAdapter),
}
