"""How far off may the estimates be? Asymptotic standard errors for known ω, robust to groups, and a
bootstrap beside them.

Notation: q_i the memberships of image i, π_i its weight, λ_k the shares, H the Hessian of the
objective at the solution, and H⁻ the generalized inverse of H with H⁻λ = 0 (H has the null vector
1: the constant in u, which is fixed by convention).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.special

from unskew.errors import ConfigError, DataError
from unskew.records import Estimate
from unskew.solve.overlap import is_strongly_connected
from unskew.weigh.curvature import (
    check_solved,
    invert_hessian,
    read_hessian,
    read_memberships,
    solve_hessian,
)
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import (
    Units,
    centre_units,
    centre_within_sources,
    design_effect,
    find_units,
)

if TYPE_CHECKING:
    from unskew.records import Floats, Ints, Weights
    from unskew.solve.omega_rows import Rows


def weighted_mean(weights: Weights, values: npt.ArrayLike, level: float = 0.95) -> Estimate:
    """Target mean μ̂ = Σ_i π_i h_i with a standard error that accounts for the estimated
    normalizers; ω is taken as known.

    The influence of image i on μ̂ (n times the derivative with respect to how often it counts) is,
    up to a constant per source,

        ψ_i = n π_i (h_i − μ̂) + aᵀ q_i,   H a = c,   c_k = Σ_i π_i q_ik (h_i − μ̂).

    The numbers of images per source are fixed, so ψ is centred within sources, and the variance is
    n⁻² Σ_j T_j²/(1 − leverage_j)^{a_j}, with T_j the sum of the centred ψ over unit j (a group, or
    an image without groups), leverage and a_j as `centre_units` explains. Hence duplicating every
    image within its group changes no standard error, and one source with equal weights has the
    textbook's s/√n.

    A source with one unit has no spread of its own: there ψ is centred at a_k instead, its
    expectation in source k under the model. If there is one unit altogether, or one group of
    several images in every source, no standard error exists, and it is infinite.

    That sandwich sees only what happened: a link that could have produced an image but produced
    none adds nothing to it, and where the answer rests on such links it comes out near 0. So the
    larger of it and the model-based variance (`_influence`) is reported, which counts every link by
    its probability. Where the links produced images, the two agree up to noise.

    The interval uses Student's t with the degrees of freedom of Welch and Satterthwaite, (Σ_s
    v_s)²/Σ_s (v_s²/(m_s − 1)), over the strata s with m_s units and variance v_s: exact for one
    source of normal values with equal weights, wide where few groups carry the variance.

    Parameters
    ----------
    weights : the weights, with the ω they were solved from.
    values : (n,) h_i, finite.
    level : coverage of the interval, between 0 and 1.
    """
    check_order(values, weights.id)
    value_n = check_values(values, weights.weight.size)
    check_level(level)
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return weights.estimation.mean(value_n, level)
    check_solved(weights)
    mean = float(weights.weight @ value_n)
    deviation_n = value_n - mean
    scale = float(np.abs(deviation_n).max())
    if scale <= 1e-15 * abs(mean):
        return Estimate(mean, 0.0, (mean, mean), level)
    units = find_units(weights)
    if units.cannot_vary:
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    deviation_n /= scale
    spread_m, model_variance = spread_of_mean(weights, units, deviation_n)
    variance_s = add_by_code(units.stratum_m, np.square(spread_m), units.size_s.size)
    variance = max(
        float(variance_s.sum()), model_variance * design_effect(weights, units, deviation_n)
    )
    if variance == 0.0:
        return Estimate(mean, 0.0, (mean, mean), level)
    stderr = scale * math.sqrt(variance)
    half_width = stderr * float(
        scipy.special.stdtrit(degrees_of_freedom(variance_s, units.size_s), 0.5 + level / 2)
    )
    if not math.isfinite(half_width):
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    return Estimate(mean, stderr, (mean - half_width, mean + half_width), level)


def spread_of_mean(weights: Weights, units: Units, deviation_n: Floats) -> tuple[Floats, float]:
    """((m,) what each unit adds to μ̂, centred, whose squares add up to its variance; the
    model-based variance for independent images).
    """
    influence_n, expected_k, model_variance = _influence(weights, deviation_n)
    excess_n = influence_n - expected_k[weights.source]
    # At weak links a is huge, and what is left of a difference of its size is rounding.
    excess_n[np.abs(excess_n) <= 16 * np.finfo(np.float64).eps * np.abs(expected_k).max()] = 0.0
    return centre_within_sources(weights, units, excess_n), model_variance


def degrees_of_freedom(variance_s: Floats, size_s: Ints) -> float:
    """(Σ_s v_s)²/Σ_s (v_s²/(m_s − 1)); of all strata together where none has a spread of its
    own.
    """
    free_s = np.maximum(size_s - 1, 1)
    largest = float(variance_s.max())
    if not 0.0 < largest < math.inf:
        return float(free_s.sum())
    # Relative to the largest, so that squares neither overflow nor vanish.
    relative_s = variance_s / largest
    return float(relative_s.sum() ** 2 / (relative_s**2 / free_s).sum())


def influence_of_mean(weights: Weights, deviation_n: Floats) -> tuple[Floats, Floats]:
    """(n,) ψ_i of `weighted_mean` for h_i − μ̂ = ``deviation_n``, and (K,) a_k, the expectation of
    ψ in each source.
    """
    return _influence(weights, deviation_n)[:2]


def _influence(weights: Weights, deviation_n: Floats) -> tuple[Floats, Floats, float]:
    """ψ and a as `influence_of_mean` gives them, and the model-based variance of μ̂ for independent
    images.

    Under the model image i came from source k with probability q_ik, and there ψ has expectation
    a_k, so the variance is

        n⁻² Σ_i Σ_k q_ik (ψ_i − a_k)² = Σ_i π_i² (h_i − μ̂)² + aᵀHa/n,   aᵀHa = aᵀc,

    because Σ_k q_ik (ψ_i − a_k) = n π_i (h_i − μ̂) and Σ_i q_i (1 − q_i)ᵀ is n H. For K = 1 it is
    Σ_i π_i² (h_i − μ̂)².

    Two passes over the memberships, with a few vectors of length n in memory.
    """
    pull_n = weights.weight * deviation_n
    pull_k = np.zeros(len(weights.names))
    for rows, q_bk in read_memberships(weights):
        pull_k += q_bk.T @ pull_n[rows]
    a_k = solve_hessian(read_hessian(weights), pull_k)
    a_k -= a_k.mean()
    influence_n = pull_n.size * pull_n
    for rows, q_bk in read_memberships(weights):
        influence_n[rows] += q_bk @ a_k
    # aᵀc rather than aᵀHa: where links are weak a is huge, and differences within well linked
    # sources would lose their digits.
    curved = max(float(a_k @ pull_k), 0.0)
    return influence_n, a_k, float(pull_n @ pull_n) + curved / pull_n.size


def log_normalizer_covariance(weights: Weights) -> Floats:
    """(K, K) covariance of log Ω̂, the normalizers relative to that of the target (ω ≡ 1), for
    known ω.

    Without groups it is the model-based covariance of Kong, McCullagh, Meng, Nicolae & Tan (2003),
    which MBAR writes as Θ = Wᵀ(I − W N Wᵀ)⁺W with the target added as a state without images. In
    terms of H⁻, with r = Σ_i π_i q_i − λ and b = H⁻r,

        n Cov = H⁻ − Λ⁻¹ − b1ᵀ − 1bᵀ + (n Σ_i π_i² + rᵀb) 11ᵀ,

    which needs (K, K) matrices only, and whose one singular direction is known exactly rather than
    found by a tolerance. K = 1 gives Σ_i π_i² − 1/n.

    With groups it is the sandwich of the influence functions ψ_ik = (H⁻q_i)_k − n π_i − bᵀq_i of
    log Ω̂_k, centred and summed as in `weighted_mean`; this holds K + 1 numbers for every group in
    memory. It is infinite where there is one group altogether, or one group of several images in
    every source.
    """
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return weights.estimation.covariance()
    share_k, weight_n = weights.solution.share, weights.weight
    target_k = np.zeros(share_k.size)
    for rows, q_bk in read_memberships(weights):
        target_k += q_bk.T @ weight_n[rows]
    inverse_kk = invert_hessian(read_hessian(weights), share_k)
    excess_k = target_k - share_k
    shift_k = inverse_kk @ excess_k
    if weights.group is not None:
        return _clustered_covariance(weights, inverse_kk, shift_k)
    covariance_kk = inverse_kk - shift_k[:, None] - shift_k[None, :]
    covariance_kk += weight_n.size * float(weight_n @ weight_n) + float(excess_k @ shift_k)
    diagonal_k = np.diagonal(covariance_kk) - 1.0 / share_k
    # The differences cancel where ω ≡ 1 is nearly one of the sources; a variance is never negative.
    np.fill_diagonal(covariance_kk, np.maximum(diagonal_k, 0.0))
    return covariance_kk / weight_n.size


def _clustered_covariance(weights: Weights, inverse_kk: Floats, shift_k: Floats) -> Floats:
    """n⁻² Σ_j T_j T_jᵀ/(1 − leverage_j)^{a_j}, with T_j the sum over unit j of the centred
    influence functions of log Ω̂.
    """
    units = find_units(weights)
    if units.cannot_vary:
        return np.full_like(inverse_kk, np.inf)
    share_k, n, n_sources = weights.solution.share, weights.weight.size, shift_k.size
    total_mk = np.zeros((units.stratum_m.size, n_sources))
    sum_kk = np.zeros((n_sources, n_sources))
    for rows, q_bk in read_memberships(weights, max_rows=max(1, _DENSE_BLOCK // n_sources)):
        influence_bk = q_bk @ inverse_kk - (n * weights.weight[rows] + q_bk @ shift_k)[:, None]
        _add_rows(total_mk, units.unit_n[rows], influence_bk)
        _add_rows(sum_kk, weights.source[rows], influence_bk)
    # Σ_i q_ik ψ_i/n_k, the expectation in source k under the model, in closed form.
    expected_kk = inverse_kk - np.diag(1.0 / share_k) - shift_k[:, None]
    mean_kk = sum_kk / np.bincount(weights.source)[:, None]
    spread_mk = centre_units(weights, units, total_mk, mean_kk, expected_kk)
    return spread_mk.T @ spread_mk


# Numbers in the largest dense temporary, 16 MB.
_DENSE_BLOCK = 2**21


def _add_rows(total_mk: Floats, code_b: npt.NDArray[Any], block_bk: Floats) -> None:
    """total[code_i] += block_i for every row i of the block."""
    code_u, position_b = np.unique(code_b, return_inverse=True)
    sum_ub = scipy.sparse.csr_array(
        (np.ones(code_b.size), (position_b, np.arange(code_b.size))),
        shape=(code_u.size, code_b.size),
    )
    total_mk[code_u] += sum_ub @ block_bk


def check_order(values: Any, id_n: npt.NDArray[Any]) -> None:
    """A pandas Series whose index holds the ids in another order would be joined wrongly by
    position: an error that says so.
    """
    index: Any = getattr(values, "index", None)
    if not hasattr(index, "equals") or len(index) != id_n.size:
        return
    label_n = np.asarray(index)
    if not np.array_equal(label_n, id_n) and set(label_n.tolist()) == set(id_n.tolist()):
        raise DataError(
            "values have the ids of the weights as index, but in another order; pass "
            "values.loc[weights.id]."
        )


def check_values(values: npt.ArrayLike, n: int) -> Floats:
    """``values`` as n finite floats, or a `DataError` that says what is wrong with them."""
    value_n = np.asarray(values)
    if value_n.dtype.kind not in "biuf":
        raise DataError(
            f"values must be numbers, one per image; got an array of type {value_n.dtype}."
        )
    if value_n.ndim != 1 or value_n.size != n:
        raise DataError(
            f"values must be one number per image: one dimension of length {n}, in the order of "
            f"weights.id; got shape {value_n.shape}. "
            "For several quantities call once for each."
        )
    value_n = value_n.astype(np.float64)
    if not np.isfinite(value_n).all():
        row = int(np.flatnonzero(~np.isfinite(value_n))[0])
        raise DataError(
            f"values must be finite, but image {row} has {value_n[row]}. Leave such images out "
            "before the weights are computed."
        )
    return value_n


def check_level(level: float) -> None:
    """A level is a coverage strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ConfigError(
            "level is the coverage of the interval, strictly between 0 and 1 (for instance 0.95); "
            f"got {level!r}."
        )


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Replicates of the estimates on resampled data.

    Attributes
    ----------
    names : names of the K sources.
    log_normalizer : (B, K) log Ω̂ in each replicate that could be solved.
    mean : (B,) target mean of the values in each of them, None without values.
    value : the target mean on the data themselves, None without values.
    n_replicates : replicates drawn.
    n_disconnected : of these, the replicates whose sources lack a link (or an image), so that no
        normalizers exist.
    n_failed : of these, the replicates whose solve did not converge.
    n_strata : strata within which the units (images or groups) were drawn.
    n_single : of these, the strata with a single unit, which every replicate draws: they add
        nothing to the spread, which is too small then; where all strata are such, the standard
        errors are infinite.
    """

    names: tuple[str, ...]
    log_normalizer: Floats = field(repr=False)
    mean: Floats | None = field(repr=False)
    value: float | None
    n_replicates: int
    n_disconnected: int
    n_failed: int
    n_strata: int
    n_single: int

    @property
    def _has_spread(self) -> bool:
        return self.log_normalizer.shape[0] >= 2 and self.n_single < self.n_strata

    @property
    def stderr(self) -> Floats:
        """(K,) standard errors of log Ω̂; infinite with fewer than two usable replicates, or with a
        single unit in every stratum.
        """
        return np.sqrt(np.diagonal(self.covariance()))

    def covariance(self) -> Floats:
        """(K, K) covariance of log Ω̂ over the replicates; infinite where ``stderr`` is."""
        n_usable, n_sources = self.log_normalizer.shape
        if not self._has_spread:
            return np.full((n_sources, n_sources), np.inf)
        deviation_bk = self.log_normalizer - self.log_normalizer.mean(axis=0)
        covariance_kk: Floats = deviation_bk.T @ deviation_bk / (n_usable - 1)
        return covariance_kk

    def estimate(self, level: float = 0.95) -> Estimate:
        """The target mean with the replicates' standard deviation and their percentile interval.

        Percentiles stay within the range of the values (a share stays between 0 and 1) and follow
        monotone transformations, which neither the reflected ("basic") interval nor the one from
        normal quantiles does. Where a large part of the replicates is disconnected, both numbers
        are too small: they describe only the data sets that could be solved.
        """
        check_level(level)
        if self.mean is None or self.value is None:
            raise ConfigError(
                "these replicates hold no mean: pass the values to the bootstrap, "
                "weights.bootstrap(n, seed, values)."
            )
        if not self._has_spread:
            return Estimate(self.value, math.inf, (-math.inf, math.inf), level)
        low, high = np.quantile(self.mean, [0.5 - level / 2, 0.5 + level / 2])
        return Estimate(self.value, float(self.mean.std(ddof=1)), (float(low), float(high)), level)


def bootstrap_weights(
    weights: Weights, n: int = 200, seed: int = 0, values: npt.ArrayLike | None = None
) -> Bootstrap:
    """Draw the images of every source anew, with replacement, and solve again, ``n`` times; ω is
    taken as known.

    Where there are groups, whole groups are drawn: within their source or, where groups span
    sources, within the sources that are linked by such groups (see `Units`); the sources' sizes
    then vary from replicate to replicate. Every replicate is first checked for connectivity; those
    without a solution are counted and left out, never an error.
    """
    from unskew.solve.newton import resolve

    if n < 1:
        raise ConfigError(f"the number of replicates must be at least 1; got {n!r}.")
    check_order(values, weights.id)
    value_n = None if values is None else check_values(values, weights.weight.size)
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return weights.estimation.bootstrap(n, seed, value_n)
    check_solved(weights)
    rows, start_k = weights.rows, weights.solution.u
    links = rows.link_count()
    may_disconnect = not _always_connected(links, rows.size_k)
    log_normalizer_bk, mean_b = [], []
    n_disconnected = n_failed = 0
    units = find_units(weights)
    for count_n in draw_counts(units, n, np.random.default_rng(seed)):
        drawn = rows.with_counts(count_n)
        if drawn.size_k.min() == 0 or (
            may_disconnect and not _still_connected(drawn.link_count(), links)
        ):
            n_disconnected += 1
            continue
        u_k, converged = resolve(drawn, start_k)
        if not converged:
            n_failed += 1
            continue
        log_normalizer_k, mean = _estimates(
            drawn, u_k, None if value_n is None else count_n * value_n
        )
        log_normalizer_bk.append(log_normalizer_k)
        mean_b.append(mean)
    return Bootstrap(
        names=weights.names,
        log_normalizer=np.reshape(log_normalizer_bk, (-1, start_k.size)),
        mean=None if value_n is None else np.array(mean_b, dtype=np.float64),
        value=None if value_n is None else float(weights.weight @ value_n),
        n_replicates=n,
        n_disconnected=n_disconnected,
        n_failed=n_failed,
        n_strata=units.size_s.size,
        n_single=int(np.count_nonzero(units.size_s == 1)),
    )


def draw_counts(units: Units, n: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each image counts, (n_images,), in each of ``n`` replicates."""
    order_m = np.argsort(units.stratum_m, kind="stable")
    members = np.split(order_m, np.cumsum(units.size_s)[:-1])
    count_m = np.empty(units.stratum_m.size, dtype=np.int64)
    for _ in range(n):
        for member in members:
            count_m[member] = np.bincount(
                rng.integers(member.size, size=member.size), minlength=member.size
            )
        yield count_m[units.unit_n].astype(np.float64)


def _estimates(drawn: Rows, u_k: Floats, counted_value_n: Floats | None) -> tuple[Floats, float]:
    """The replicate's log Ω̂ and target mean, from its rows (identical images share one) and
    count_i h_i of every image.

    π_i = count_i w_i/Σ_j count_j w_j and Ω_k = n_k e^{−u_k}/Σ_j count_j w_j, with w_i = 1/Σ_k
    e^{u_k} ω_ik.
    """
    sum_r, scale_r = drawn.row_sums(u_k)
    log_sum_r = np.log(sum_r) if scale_r is None else np.log(sum_r) + scale_r
    smallest = float(log_sum_r.min(where=drawn.count_n > 0, initial=np.inf))
    # Rows that were not drawn may lie below the smallest one that was; their count of 0 takes them
    # out.
    weight_r = np.exp(np.minimum(smallest - log_sum_r, 0.0))
    total = float((drawn.count_n * weight_r).sum())
    log_normalizer_k = np.log(drawn.size_k) - u_k + smallest - math.log(total)
    if counted_value_n is None:
        return log_normalizer_k, math.nan
    value_r = (
        counted_value_n
        if drawn.inverse_n is None
        else add_by_code(drawn.inverse_n, counted_value_n, weight_r.size)
    )
    return log_normalizer_k, float((value_r * weight_r).sum()) / total


def _always_connected(link_kk: Any, size_l: Floats) -> bool:
    """Do the edges k→l on which every image of source l lies connect the sources? No replicate with
    images of all sources loses them.
    """
    link = scipy.sparse.coo_array(link_kk)
    certain = link.data >= size_l[link.col]
    return is_strongly_connected(
        scipy.sparse.csr_array(
            (certain[certain], (link.row[certain], link.col[certain])), shape=link.shape
        )
    )


def _still_connected(link_kk: Any, original_kk: Any) -> bool:
    """Is the graph of a replicate, whose edges are among the original ones, strongly connected?
    Surely if none is lost.
    """
    positive = link_kk > 0
    return positive.sum() == (original_kk > 0).sum() or is_strongly_connected(positive)
