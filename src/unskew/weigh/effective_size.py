"""How many images carry the weights: effective sample size and tail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.records.clustered_mean import effective_size

if TYPE_CHECKING:
    from unskew.records import Floats, Weights

# Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling", JMLR 25(72):
# above 0.7 the mean of the weights converges so slowly that no practical sample size helps.
PARETO_K_LIMIT = 0.7

# Below five exceedances the estimator rests on its prior alone (the same bound as in loo and
# ArviZ).
SMALLEST_TAIL = 5


@dataclass(frozen=True)
class SourceDiagnosis:
    """The weights of one source.

    Attributes
    ----------
    name : the source.
    images : n_k, number of images.
    groups : number of groups that have an image in this source, None without groups.
    share : λ_k = n_k/n, share of the images.
    weight_share : Σ_{i in k} π_i, share of the weight.
    ess : (Σ_{i in k} π_i)²/Σ_{i in k} π_i², effective number of images; 0 if the source carries no
        weight.
    design_effect : n_k/ess ≥ 1; infinite if the source carries no weight.
    ess_groups : the same with the weight of each group summed first, None without groups.
    """

    name: str
    images: int
    groups: int | None
    share: float
    weight_share: float
    ess: float
    design_effect: float
    ess_groups: float | None


@dataclass(frozen=True)
class Diagnosis:
    """What the weights cost, and whether their tail can be trusted.

    Attributes
    ----------
    images : n.
    groups : number of groups, None without groups. Copies of one image (`Weights.unit`) are one
        group, and join the groups that they are in.
    ess : Kish's 1/Σ_i π_i²; between 1 and n, equal to n iff all weights are equal.
    design_effect : n/ess ≥ 1, the factor by which unequal weights multiply the variance of a mean
        of unrelated values.
    ess_groups : 1/Σ_g (Σ_{i in g} π_i)², None without groups.
    design_effect_groups : groups/ess_groups, None without groups.
    pareto_k : shape of the generalized Pareto tail of the weights (see `fit_pareto_k`); −inf: a
        flat top, None: too few to tell.
    pareto_k_threshold : min(1 − 1/log₁₀ n, 0.7), above which a sample of this size is too small for
        such a tail.
    pareto_k_limit : 0.7, above which no practical sample size helps.
    largest_weight : max_i π_i.
    largest_sample_weight : n max_i π_i, how many average images the heaviest image counts for.
    top_percent_share : share of the weight carried by the ⌈n/100⌉ heaviest images; 0.01 (or
        ⌈n/100⌉/n) iff all weights are equal.
    zero_weights : number of images with weight 0.
    by_source : one `SourceDiagnosis` per source, in the order of the names.
    """

    images: int
    groups: int | None
    ess: float
    design_effect: float
    ess_groups: float | None
    design_effect_groups: float | None
    pareto_k: float | None
    pareto_k_threshold: float
    pareto_k_limit: float
    largest_weight: float
    largest_sample_weight: float
    top_percent_share: float
    zero_weights: int
    by_source: tuple[SourceDiagnosis, ...]

    @property
    def tail_ok(self) -> bool | None:
        """Is pareto_k below its threshold? None where pareto_k is."""
        return None if self.pareto_k is None else self.pareto_k < self.pareto_k_threshold


def diagnose_weights(weights: Weights) -> Diagnosis:
    """Diagnose the weights, in total and by source.

    That is effective sample size, design effect, concentration and Pareto-k. Weights of a solve
    that failed are NaN, and so is what follows from them; pareto_k is None.
    """
    weight_n = weights.weight
    n = weight_n.size
    ess = effective_size(weight_n)
    ess_groups = groups = None
    if weights.unit is not None:
        weight_g = add_by_unit(weights.unit, weight_n)
        groups, ess_groups = weight_g.size, effective_size(weight_g)
    top = math.ceil(n / 100)
    largest = float(weight_n.max())
    return Diagnosis(
        images=n,
        groups=groups,
        ess=ess,
        design_effect=n / ess,
        ess_groups=ess_groups,
        design_effect_groups=None if groups is None or ess_groups is None else groups / ess_groups,
        pareto_k=fit_pareto_k(weight_n),
        pareto_k_threshold=pareto_k_threshold(n),
        pareto_k_limit=PARETO_K_LIMIT,
        largest_weight=largest,
        largest_sample_weight=n * largest,
        top_percent_share=float(np.partition(weight_n, n - top)[n - top :].sum() / weight_n.sum()),
        zero_weights=int(np.count_nonzero(weight_n == 0)),
        by_source=_diagnose_sources(weights),
    )


def _diagnose_sources(weights: Weights) -> tuple[SourceDiagnosis, ...]:
    weight_n, source_n, n_sources = weights.weight, weights.source, len(weights.names)
    images_k = np.bincount(source_n, minlength=n_sources)
    weight_k = add_by_code(source_n, weight_n, n_sources)
    ess_k = _effective_size_by_source(weight_n, source_n, n_sources)
    groups_k: list[int | None] = [None] * n_sources
    ess_groups_k: list[float | None] = [None] * n_sources
    if weights.unit is not None:
        # A group that spans sources counts once in each of them, with the weight it has there.
        _, group_n = np.unique(weights.unit, return_inverse=True)
        pair_p, pair_n = np.unique(
            group_n.astype(np.int64) * n_sources + source_n, return_inverse=True
        )
        pair_source_p = pair_p % n_sources
        pair_weight_p = add_by_code(pair_n, weight_n, pair_p.size)
        groups_k = np.bincount(pair_source_p, minlength=n_sources).tolist()
        ess_groups_k = _effective_size_by_source(pair_weight_p, pair_source_p, n_sources).tolist()
    return tuple(
        SourceDiagnosis(
            name=name,
            images=int(images_k[k]),
            groups=groups_k[k],
            share=float(images_k[k] / weight_n.size),
            weight_share=float(weight_k[k]),
            ess=float(ess_k[k]),
            design_effect=float(images_k[k] / ess_k[k]) if ess_k[k] != 0 else math.inf,
            ess_groups=ess_groups_k[k],
        )
        for k, name in enumerate(weights.names)
    )


def _effective_size_by_source(
    weight_n: Floats, source_n: npt.NDArray[Any], n_sources: int
) -> Floats:
    if np.isnan(weight_n).any():
        return np.full(n_sources, np.nan)
    largest_k = np.zeros(n_sources)
    np.maximum.at(largest_k, source_n, weight_n)
    scale_k = np.where(largest_k > 0, largest_k, 1.0)
    scaled_n = weight_n / scale_k[source_n]
    sum_k = add_by_code(source_n, scaled_n, n_sources)
    square_k = add_by_code(source_n, np.square(scaled_n), n_sources)
    return np.divide(sum_k**2, square_k, out=np.zeros(n_sources), where=square_k > 0)


def add_by_code(code_n: npt.NDArray[Any], value_n: Floats, size: int) -> Floats:
    """Sum the values of each code 0 … size − 1: (size,)."""
    return np.asarray(np.bincount(code_n, weights=value_n, minlength=size), dtype=np.float64)


def add_by_unit(unit_n: npt.NDArray[Any], value_n: Floats) -> Floats:
    """Sum the values of each unit, whatever its code: (number of units,)."""
    unit_u, code_n = np.unique(unit_n, return_inverse=True)
    return add_by_code(code_n, value_n, unit_u.size)


def pareto_k_threshold(n: int) -> float:
    """Return min(1 − 1/log₁₀ n, 0.7), the largest tail shape for which n draws suffice.

    It is 0 up to n = 10 (Vehtari et al. 2024, section 3.2.4).
    """
    return min(1.0 - 1.0 / math.log10(n), PARETO_K_LIMIT) if n > 10 else 0.0


def fit_pareto_k(weight_n: Floats) -> float | None:
    """Fit the shape k of a generalized Pareto distribution to the largest weights.

    The tail is the M = ⌈min(n/5, 3√n)⌉ largest weights, measured from the next smaller one; k is
    estimated as Zhang & Stephens (2009) propose, with the weak prior of Pareto smoothed importance
    sampling (Vehtari et al. 2024). Weights with a tail of shape k have finite moments up to order
    1/k; the mean of a bounded value is reliable for k below `pareto_k_threshold`.

    Scaling the weights changes nothing. Only weights strictly above the threshold belong to the
    tail, because tied weights (strata) would put a point mass at its lower end.

    Parameters
    ----------
    weight_n : (n,) non-negative weights; zeros are left out.

    Returns
    -------
    k, or −inf if the tail is flat on top (equal weights: M or more share the largest value, or all
    weights above the threshold are equal), or None if fewer than five weights lie above the
    threshold (as always for n ≤ 20): too few to tell.
    """
    positive_n = weight_n[weight_n > 0]
    n = positive_n.size
    n_tail = math.ceil(min(0.2 * n, 3.0 * math.sqrt(n)))
    if n_tail < SMALLEST_TAIL:
        return None
    largest_m = np.partition(positive_n, n - n_tail - 1)[n - n_tail - 1 :]
    cutoff = largest_m[0]
    excess_m = np.sort(largest_m[largest_m > cutoff]) - cutoff
    # Weights that differ by rounding only are equal: the solver knows them to about 1e-10.
    if excess_m.size == 0 or excess_m[-1] <= 1e-9 * largest_m.max():
        return -math.inf
    if excess_m.size < SMALLEST_TAIL:
        return None
    if excess_m[-1] - excess_m[0] <= 1e-9 * excess_m[-1]:
        return -math.inf
    return _generalized_pareto_shape(excess_m / excess_m[-1])


def _generalized_pareto_shape(excess_m: Floats) -> float:
    """Compute the posterior-mean shape of a generalized Pareto distribution.

    The distribution is 1 − (1 + k x/σ)^{−1/k}; ``excess_m`` is sorted and positive. Zhang &
    Stephens (2009, Technometrics 51) reparametrise by b = −k/σ: for given b the likelihood is
    maximal at k(b) = mean_i log(1 − b x_i), and the profile log likelihood is m (log(−b/k) − k −
    1). They average b over a grid of its prior quantiles. Vehtari et al. (2024, appendix) then
    shrink k towards 0.5 with the strength of ten observations.
    """
    m = excess_m.size
    n_grid = 30 + int(math.sqrt(m))
    # Weights may span hundreds of decades; 1/quartile must stay finite.
    quartile = max(excess_m[int(m / 4 + 0.5) - 1], 1e-300)
    b_g = 1.0 / excess_m[-1] + (1.0 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))) / (
        3.0 * quartile
    )
    b_g = b_g[b_g != 0.0]
    shape_g = np.log1p(-b_g[:, None] * excess_m).mean(axis=1)
    log_profile_g = m * (np.log(-b_g / shape_g) - shape_g - 1.0)
    posterior_g = np.exp(log_profile_g - log_profile_g.max())
    b = float(b_g @ posterior_g / posterior_g.sum())
    shape = float(np.log1p(-b * excess_m).mean())
    return (m * shape + 10 * 0.5) / (m + 10)
