"""Small weighed data sets for tests of standard errors and replicates."""

import warnings

import numpy as np

import unskew
from unskew.scenarios import tilts

THETA = np.array([-0.7, 0.0, 0.8])


def draw(seed=0, n_k=(60, 90, 120), theta=THETA, group_size=None):
    """Draw z, ω, source and group of three Gaussian sources, ω_k = exp(θ_k z).

    The target is standard normal.
    """
    scenario = tilts(n_k, theta=np.reshape(theta, (-1, 1)), group_size=group_size, rng=seed)
    return scenario.features[:, 0], scenario.omega, scenario.source, scenario.group


def weigh(omega, source, **options):
    with warnings.catch_warnings():
        # Small data sets are weakly linked; that is what the tests are about.
        warnings.simplefilter("ignore", unskew.errors.WeakOverlapWarning)
        return unskew.debias_weights(omega, source, **options)
