"""Three tilted sources whose pooled mean is right by symmetry, weighed or as a pool."""

import numpy as np

import unskew
from unskew.records import Pool, Target

THETA = np.array([-1.0, 0.0, 1.0])


def tilted(seed=0, sizes=(60, 60, 60)):
    """Sources N(θ_k, 1), target N(0, 1): by symmetry the mean of even sources is right, that of
    uneven ones is not.
    """
    rng = np.random.default_rng(seed)
    source_n = np.repeat(np.arange(3), sizes)
    z_n = THETA[source_n] + rng.standard_normal(source_n.size)
    return z_n, source_n, unskew.debias_weights(np.exp(np.outer(z_n, THETA)), source_n)


def tilted_pool(seed=0, sizes=(60, 60, 60), n_sample=60):
    rng = np.random.default_rng(seed)
    source_n = np.repeat(np.arange(3), sizes)
    z_n = THETA[source_n] + rng.standard_normal(source_n.size)
    pool = Pool.from_arrays(np.array(["a", "b", "c"])[source_n], z=z_n)
    return pool, Target.sample(
        Pool.from_arrays(np.full(n_sample, "target"), z=rng.standard_normal(n_sample))
    )
