"""Nested truncation: each source sees all that the one before it sees, and more.

This is Vardi's (1985) example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unskew.engine.arguments import Count, ShareAboveZero, WholeNumbers, checked
from unskew.errors import ConfigError, DataError, OverlapError, wrong_option
from unskew.records import Floats, Ints
from unskew.records.arrays import Randomness, seed_of
from unskew.scenarios.scenario import Scenario, repeat_codes, split_sizes


@checked
def nested_sets(
    n: Count | Sequence[Count] | Ints,
    *,
    edges: Sequence[ShareAboveZero] | Floats = (0.2, 0.5, 1.0),
    rng: Randomness | np.random.Generator,
) -> Scenario:
    """Draw sources that are uniform on A_1 ⊂ A_2 ⊂ … ⊂ A_K, where A_k = [0, edge_k).

    The target is uniform on A_K = [0, 1).

    ω_k is the indicator of A_k, so Ω_k = edge_k. The label of an image is its stratum j: B_j = A_j
    − A_{j−1} (codes 0 … K−1).

    Parameters
    ----------
    n : total number of images, or one number for each source.
    edges : (K,) increasing, the last one 1.
    rng : an int or a NumPy Generator, of the draw.

    Returns
    -------
    Scenario
        ``nested_sets_solution(scenario.label, scenario.source)`` is the closed form of what the
        solver must find.

    Examples
    --------
    >>> scenario = nested_sets([50, 50, 100], edges=[0.2, 0.5, 1.0], rng=0)
    >>> scenario.normalizer.round(12).tolist(), scenario.target_mean["features"].tolist()
    ([0.2, 0.5, 1.0], [0.5])
    """
    seed = seed_of(rng)
    edge_k = np.asarray(edges, dtype=np.float64)
    mass_k = np.diff(edge_k, prepend=0.0)
    if edge_k.ndim != 1 or edge_k.size == 0 or mass_k.min() <= 0 or edge_k[-1] != 1.0:
        raise wrong_option("edges must increase from above 0 to exactly 1", edges=edge_k.tolist())
    size_k = split_sizes(n, edge_k.size)
    source_n = repeat_codes(size_k)
    z_n = np.random.default_rng(seed).uniform(size=source_n.size) * edge_k[source_n]
    stratum_n = np.searchsorted(edge_k, z_n, side="right").astype(np.int64)
    # A product rounded up to its own edge would leave its own set.
    stratum_n = np.minimum(stratum_n, source_n)
    return Scenario(
        description=f"{edge_k.size} nested sets [0, edge) with edges "
        f"{', '.join(f'{edge:g}' for edge in edge_k)}",
        log_omega=np.where(stratum_n[:, None] <= np.arange(edge_k.size), 0.0, -np.inf),
        source=source_n,
        log_normalizer=np.log(edge_k),
        target_mean={
            "label_share": mass_k,
            "features": np.array([0.5]),
            "features_squared": np.array([1.0 / 3.0]),
        },
        label=stratum_n,
        features=z_n[:, None],
    )


@dataclass(frozen=True, eq=False)
class NestedSolution:
    """The exact nonparametric maximum-likelihood estimate for nested sets.

    ``weight`` (n,) sums to 1; ``normalizer`` is (K,).
    """

    weight: Floats = field(repr=False)
    normalizer: Floats


@checked
def nested_sets_solution(stratum: WholeNumbers, source: WholeNumbers) -> NestedSolution:
    """Solve the biased-sampling equations for nested sets in closed form.

    Let N_j be the pooled number of images in stratum B_j, n_k the size of source k, and P_j the
    mass of B_j, so that Ω_k = P_1 + … + P_k. In the reversed hazards h_j = P_j/Ω_j the
    log-likelihood Σ_j N_j log P_j − Σ_k n_k log Ω_k separates into Σ_j N_j log h_j + (R_j − N_j)
    log(1 − h_j), where R_j = Σ_{i≤j} N_i − Σ_{k<j} n_k counts the images of A_j that come from
    sources j, j+1, …, K. Hence h_j = N_j/R_j and

        Ω_k = Π_{j>k} (1 − N_j/R_j),    P_j = (N_j/R_j) Ω_j,    π_i = P_j/N_j = Ω_j/R_j for an image
        i in B_j.

    This is Lynden-Bell's product-limit estimator (1971) for truncated data. It exists iff R_j > N_j
    for every j > 1: some image of a source j or later is in A_{j−1}, which is strong connectivity
    of the overlap graph.

    Parameters
    ----------
    stratum : (n,) code 0 … K−1 of the stratum of each image.
    source : (n,) code 0 … K−1 of its source; never less than the stratum.
    """
    stratum_n = np.asarray(stratum).astype(np.int64)
    source_n = np.asarray(source).astype(np.int64)
    if stratum_n.ndim != 1 or stratum_n.shape != source_n.shape or not stratum_n.size:
        raise DataError(
            "stratum and source have one entry for each image; got arrays of shapes "
            f"{stratum_n.shape} and {source_n.shape}.",
            count=stratum_n.size,
        )
    if np.any(stratum_n > source_n):
        raise ConfigError(
            "an image of source k is in A_k, so its stratum cannot exceed its source.",
            option="stratum",
        )
    n_sources = int(source_n.max()) + 1
    count_k = np.bincount(stratum_n, minlength=n_sources)
    size_k = np.bincount(source_n, minlength=n_sources)
    at_risk_k = np.cumsum(count_k) - (np.cumsum(size_k) - size_k)
    survivor_k = 1.0 - count_k[1:] / at_risk_k[1:]
    if np.any(at_risk_k[1:] == count_k[1:]):
        lacking = int(np.flatnonzero(at_risk_k[1:] == count_k[1:])[0])
        raise OverlapError(
            f"no image of a source after {lacking} is in the set of source {lacking}: the sets' "
            "masses cannot be compared.",
            source=lacking,
        )
    normalizer_k = np.append(np.cumprod(survivor_k[::-1])[::-1], 1.0)
    return NestedSolution(weight=(normalizer_k / at_risk_k)[stratum_n], normalizer=normalizer_k)
