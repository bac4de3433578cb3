"""Replicates of weights: images (or groups) drawn again within sources, and solved again.

Where ω was estimated, the model is fitted again in every replicate, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from unskew.engine.arguments import OpenShare, checked
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError
from unskew.records import Estimate, Floats, Ints
from unskew.records.arrays import seed_of
from unskew.solve.newton import resolve
from unskew.solve.overlap import is_strongly_connected
from unskew.weigh.curvature import check_solved
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import Units, check_order, check_values, find_units

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights
    from unskew.solve.omega_rows import Rows


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
        """(K,) standard errors of log Ω̂.

        They are infinite with fewer than two usable replicates, or with a single unit in every
        stratum.
        """
        return np.sqrt(np.diagonal(self.covariance()))

    def covariance(self) -> Floats:
        """Compute the (K, K) covariance of log Ω̂ over replicates; infinite where ``stderr`` is."""
        n_usable, n_sources = self.log_normalizer.shape
        if not self._has_spread:
            return np.full((n_sources, n_sources), np.inf)
        deviation_bk = self.log_normalizer - self.log_normalizer.mean(axis=0)
        covariance_kk: Floats = deviation_bk.T @ deviation_bk / (n_usable - 1)
        return covariance_kk

    @checked
    def estimate(self, level: OpenShare = 0.95) -> Estimate:
        """Return the target mean with the replicates' standard deviation and percentile interval.

        Percentiles stay within the range of the values (a share stays between 0 and 1) and follow
        monotone transformations, which neither the reflected ("basic") interval nor the one from
        normal quantiles does. Where a large part of the replicates is disconnected, both numbers
        are too small: they describe only the data sets that could be solved.
        """
        if self.mean is None or self.value is None:
            raise ConfigError(
                "these replicates hold no mean: pass the values to the bootstrap, "
                "weights.bootstrap(values=values).",
                option="values",
            )
        if not self._has_spread:
            return Estimate(self.value, math.inf, (-math.inf, math.inf), level)
        low, high = np.quantile(self.mean, [0.5 - level / 2, 0.5 + level / 2])
        return Estimate(self.value, float(self.mean.std(ddof=1)), (float(low), float(high)), level)


@dataclass(frozen=True, eq=False)
class Replicate:
    """A model fitted again on drawn images: their rows in the pool, their weights, and log Ω̂.

    ``reference_m``: the drawn rows of the target's sample, or of the source that is the target,
    among the rows of the original fit.
    """

    row_m: Ints
    weight_m: Floats
    log_normalizer_k: Floats
    reference_m: Ints


def bootstrap_weights(
    weights: Weights,
    replicates: int = 200,
    rng: int | np.random.Generator = 0,
    values: npt.ArrayLike | None = None,
) -> Bootstrap:
    """Draw the images of every source again, with replacement, and solve again, many times.

    Where there are groups, whole groups are drawn: within their source or, where groups span
    sources, within the sources that are linked by such groups (see `Units`); the sources' sizes
    then vary from replicate to replicate. Every replicate is first checked for connectivity; those
    without a solution are counted and left out, never an error.
    """
    seed = seed_of(rng)
    check_order(values, weights)
    value_n = None if values is None else check_values(values, weights.weight.size)
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return bootstrap_fit(weights.estimation, replicates, seed, value_n)
    check_solved(weights)
    return _bootstrap_solve(weights, replicates, seed, value_n)


def _bootstrap_solve(
    weights: Weights, replicates: int, seed: int, value_n: Floats | None
) -> Bootstrap:
    """Solve for every replicate; ω is taken as known."""
    # A replicate starts at the solution and reads its rows a few times: a hundred cost as much more
    # in plain NumPy as compiling is worth.
    rows, start_k = weights.rows, weights.solution.u
    rows = replace(rows, numbers=rows.n_stored * rows.n_sources * replicates / 100)
    links = rows.link_count()
    may_disconnect = not _always_connected(links, rows.size_k)
    log_normalizer_bk, mean_b = [], []
    n_disconnected = n_failed = 0
    units = find_units(weights)
    for count_n in draw_counts(units, replicates, np.random.default_rng(seed)):
        if weights.design_weight is not None:
            count_n = _with_design(count_n, weights)
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
        n_replicates=replicates,
        n_disconnected=n_disconnected,
        n_failed=n_failed,
        n_strata=units.size_s.size,
        n_single=int(np.count_nonzero(units.size_s == 1)),
    )


def _with_design(count_n: Floats, weights: Weights) -> Floats:
    """Return how often the drawn images count by their design weights."""
    assert weights.design_weight is not None
    n_sources = len(weights.names)
    counted_n = count_n * weights.design_weight
    total_k = add_by_code(weights.source, counted_n, n_sources)
    drawn_k = add_by_code(weights.source, count_n, n_sources)
    scale_k = np.divide(drawn_k, total_k, out=np.zeros(n_sources), where=total_k > 0)
    return np.asarray(counted_n * scale_k[weights.source])


def bootstrap_fit(
    estimation: Estimation, replicates: int, seed: int, value_n: Floats | None
) -> Bootstrap:
    """Fit the model again on the drawn images of every source and of the target's sample.

    Whole groups are drawn where there are groups; the masses of strata are drawn within their
    error. Replicates that lack a link or leave a stratum of the target without images are counted
    and left out.
    """
    units, drawn = find_units(estimation.rows), draw_fits(estimation, replicates, seed)
    fits = [fit for fit in drawn if isinstance(fit, Replicate)]
    names, row_r = estimation.fitted.names, estimation.fitted.row
    mean_b = value = None
    if value_n is not None:
        mean_b = np.array([float(fit.weight_m @ value_n[fit.row_m]) for fit in fits])
        value = float(estimation.rows.weight[: row_r.size] @ value_n[row_r])
    return Bootstrap(
        names=names,
        log_normalizer=np.reshape([fit.log_normalizer_k for fit in fits], (-1, len(names))),
        mean=mean_b,
        value=value,
        n_replicates=replicates,
        n_disconnected=drawn.count("disconnected"),
        n_failed=drawn.count("failed"),
        n_strata=units.size_s.size,
        n_single=int(np.count_nonzero(units.size_s == 1)),
    )


def draw_fits(estimation: Estimation, replicates: int, seed: int) -> list[Replicate | str]:
    """Fit the model again on drawn rows, many times; a fit without a solution is the reason why."""
    kept = estimation.replicates
    if (replicates, seed) not in kept:
        kept.clear()
        rng, drawn = np.random.default_rng(seed), []
        # A hundred fits of boosted trees take minutes, of 3,000 images already.
        with show_progress("model fitted again", replicates) as advance:
            for count_r in draw_counts(find_units(estimation.rows), replicates, rng):
                drawn.append(estimation.fit_again(count_r, rng))
                advance(1)
        kept[replicates, seed] = drawn
    return kept[replicates, seed]


def draw_counts(units: Units, n: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Draw how often each image counts, (n_images,), in each of ``n`` replicates."""
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
    """Compute a replicate's log Ω̂ and target mean.

    Identical images share one of the rows; ``counted_value_n`` is count_i h_i of every image.

    π_i = count_i w_i/Σ_j count_j w_j and Ω_k = n_k e^{−u_k}/Σ_j count_j w_j, with w_i = 1/Σ_k
    e^{u_k} ω_ik.
    """
    sum_r, scale_r = drawn.row_sums(u_k)
    log_sum_r = np.log(sum_r) if scale_r is None else np.log(sum_r) + scale_r
    smallest = float(log_sum_r.min(where=drawn.count_n > 0, initial=np.inf))
    # Rows that were not drawn may be below the smallest one that was; their count of 0 takes them
    # out.
    weight_r = np.exp(np.minimum(smallest - log_sum_r, 0.0))
    total = float((drawn.count_n * weight_r).sum())
    log_normalizer_k = np.log(drawn.size_k) - u_k + smallest - math.log(total)
    if counted_value_n is None:
        return log_normalizer_k, math.nan
    value_r = counted_value_n
    if drawn.inverse_n is not None:
        value_r = add_by_code(drawn.inverse_n, counted_value_n, weight_r.size)
    return log_normalizer_k, float((value_r * weight_r).sum()) / total


def _always_connected(link_kk: Any, size_l: Floats) -> bool:
    """Say whether the sources are connected by edges k→l that hold for every image of source l."""
    link = scipy.sparse.coo_array(link_kk)
    certain = link.data >= size_l[link.col]
    return is_strongly_connected(
        scipy.sparse.csr_array(
            (certain[certain], (link.row[certain], link.col[certain])), shape=link.shape
        )
    )


def _still_connected(link_kk: Any, original_kk: Any) -> bool:
    """Say whether the graph of a replicate is strongly connected."""
    positive = link_kk > 0
    return positive.sum() == (original_kk > 0).sum() or is_strongly_connected(positive)
