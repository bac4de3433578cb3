"""bias -> solve -> weigh in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.estimation import Estimation
from unskew.errors import (
    ConfigError,
    CoverageError,
    DataError,
    UnskewWarning,
    did_you_mean,
    first_few,
)
from unskew.records import Floats, Overlap, Pool, Solution, Status, Target, Weights
from unskew.records.arrays import count_pairs
from unskew.solve.logarithms import log_sum, log_sums
from unskew.solve.normalizers import check_overlap, overlap_of_cells
from unskew.solve.overlap import warn_if_weak, with_sigma2
from unskew.target.facts import cell_text
from unskew.weigh.estimated_omega import EstimatedRows, count_covariance
from unskew.weigh.solved_weights import debias_weights, group_codes, weigh_solved
from unskew.weigh.verdict import judge_positive, judge_weights

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias

# A stratum of a product is judged by itself from this target mass and number of images on; errors
# of smaller ones average out.
_LARGE_MASS = 0.1
_LARGE_SIZE = 50
# Of the largest term of a row: a sum so small may have lost terms to underflow.
_LOST = 1e-280
# What a caller may say of the solve; the rest of `solve_normalizers` follows from the fit.
_SOLVE = ("method", "tol", "max_steps", "throw", "seed", "jobs")


def debias(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    seed: int = 0,
    max_unlike: float = 0.2,
    judge: bool = True,
    solve: Mapping[str, Any] | None = None,
) -> Weights:
    """Fit the bias model on the pool, evaluate it, solve, and give every image one weight.

    π_i = 1/(Z Σ_k λ_k ω_k(z_i; θ̂)/Ω̂_k), the sum over the sources that are kept in training (not
    the target's own sample), Z such that Σ_i π_i = 1. Errors of ``weights.mean`` and
    ``weights.bootstrap`` account for the estimation of ω.

    Parameters
    ----------
    pool : the images of all sources.
    bias : what is known about the selection: a model of `unskew.bias`.
    target : what is known about the population; None where the model needs nothing (`Known`,
        `Subpopulation`, `Box`, `SoftBox`).
    seed : of folds, permutations and held-out images.
    max_unlike : with a sample of the target, the largest share of its images that no source may
        resemble; more is a `CoverageError`.
    judge : with a sample of the target, let a classifier try to tell it from the weighted pool
        (``weights.estimation.resemblance``).
    solve : how the normalizers are found once ω is: ``method``, ``tol`` and ``max_steps`` of
        `solve_normalizers`. The weights are then those of that method (the article's "sgd", say).
        With a `Strata` part the normalizers are known and there is nothing to solve.

    Returns
    -------
    Weights
        With the ids of the pool; ``weights.describe()`` says what was assumed and estimated,
        ``weights.overlap`` what that is worth.

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(["a", "a", "a", "b"], label=["cat", "cat", "dog", "dog"])
    >>> target = unskew.Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
    >>> unskew.debias(pool, unskew.bias.Strata("label"), target).weight.round(12).tolist()
    [0.4, 0.4, 0.1, 0.1]
    """
    from unskew.bias.base import Bias as AnyBias
    from unskew.bias.fitting import fit_parts

    if not isinstance(pool, Pool):
        raise DataError(
            f"debias takes a Pool; got {type(pool).__name__}. Make one with Pool.from_frame or "
            "Pool.from_arrays."
        )
    if not isinstance(bias, AnyBias):
        raise ConfigError(
            f"bias is a bias model such as unskew.bias.Strata('label'); got {bias!r}."
        )
    if target is not None and not isinstance(target, Target):
        raise ConfigError(
            f"target is an unskew.Target, such as Target.margins({{…}}); got {target!r}."
        )
    if not 0.0 < max_unlike <= 1.0:
        raise ConfigError(f"max_unlike is a share above 0 and at most 1; got {max_unlike!r}.")
    _check_solve(solve)
    _warn_if_unused(bias, target)
    fitted = fit_parts(bias, bias.parts, pool, target, seed=seed)
    return weigh_fitted(pool, fitted, seed=seed, max_unlike=max_unlike, judge=judge, solve=solve)


def _check_solve(solve: Mapping[str, Any] | None) -> None:
    if solve is not None and not isinstance(solve, Mapping):
        raise ConfigError(
            f"solve holds options of the solver, such as {{'method': 'sgd'}}; got {solve!r}."
        )
    unknown = [name for name in solve or () if name not in _SOLVE]
    if unknown:
        raise ConfigError(
            f"solve has no option {unknown[0]!r}; it has "
            f"{', '.join(_SOLVE)}.{did_you_mean(unknown[0], _SOLVE)}"
        )


def _warn_if_unused(bias: Bias, target: Target | None) -> None:
    """Masses of strata mean something to `Strata` only."""
    from unskew.bias.strata import Strata

    if (
        target is None
        or target.kind in ("sample", "source")
        or any(isinstance(part, Strata) for part in bias.parts)
    ):
        return
    by = " × ".join(target.by)
    warnings.warn(
        f"the target gives the distribution of {by}, which {type(bias).__name__} cannot use: the "
        "weights do not follow it. Multiply by "
        f"Strata({list(target.by)}) in a Product, or call calibrate_weights afterwards.",
        UnskewWarning,
        stacklevel=3,
    )


def evaluate_fitted(fitted: FittedBias) -> tuple[Floats, float, Floats]:
    """((number of pool rows in the fit,) π, log Z, (K,) log Ω̂ of the pool's sources)."""
    data, profile = fitted.data, fitted.profile
    n = data.n_pool
    # Without further factors all images of a stratum weigh the same.
    is_flat = fitted.strata is not None and not fitted.factors
    log_omega_nk, u_ck = profile.log_omega[:n], profile.u
    if data.sample is not None:
        # The sample is the last of the sources.
        log_omega_nk, u_ck = log_omega_nk[:, : data.sample], u_ck[:, : data.sample]
    log_v = (
        np.zeros(n)
        if is_flat
        else -log_sums(log_omega_nk + (u_ck if data.n_cells == 1 else u_ck[data.cell[:n]]))
    )
    if fitted.strata is not None:
        strata, cell = fitted.strata.target, data.cell[:n]
        part = np.exp(log_v) * strata.unit[fitted.row]
        weight = (
            strata.mass[cell] * part / np.bincount(cell, weights=part, minlength=data.n_cells)[cell]
        )
        return weight / weight.sum(), 0.0, np.zeros(len(fitted.names))
    log_total = log_sum(log_v)
    # Ω_k = n_k e^{−u_k}/Σ_i v_i over all rows, those of the target's sample included.
    log_all = log_v
    if data.sample is not None:
        log_pool = -np.logaddexp(
            -log_v, profile.log_omega[:n, data.sample] + profile.u[0, data.sample]
        )
        log_all = np.concatenate([log_pool, -log_sums(profile.log_omega[n:] + profile.u[0])])
    size_k = np.bincount(data.source, minlength=data.n_sources)
    log_normalizer_k = np.log(size_k) - profile.u[0] - log_sum(log_all)
    return np.exp(log_v - log_total), log_total, log_normalizer_k[: len(fitted.names)]


def _as_solved(fitted: FittedBias, solved: Weights) -> tuple[Floats, float, Floats] | None:
    """What `evaluate_fitted` returns, from the solver's scaled rows; None where the sample's own
    term hides the others in rounding.
    """
    data = fitted.data
    if data.sample is None:
        # The solver's weights are those of the pool, and its u such that they sum to 1.
        return solved.weight, 0.0, solved.solution.log_normalizer
    assert solved.rows is not None
    u_k = fitted.profile.u[0].copy()
    u_k[data.sample] = -np.inf
    sum_r, scale_r = solved.rows.row_sums(u_k)
    if not sum_r.min() > _LOST:
        return None
    log_v = -np.log(sum_r) if scale_r is None else -np.log(sum_r) - scale_r
    log_v = (log_v if solved.rows.inverse_n is None else log_v[solved.rows.inverse_n])[
        : data.n_pool
    ]
    log_total = log_sum(log_v)
    return np.exp(log_v - log_total), log_total, solved.solution.log_normalizer[: data.sample]


def estimated_rows(fitted: FittedBias, weight_r: Floats) -> EstimatedRows:
    """The rows of the fit with their weights, from which errors are computed; ``weight_r``: those
    of the pool.
    """
    data = fitted.data
    has_groups = "group" in data.frame.columns
    rows = EstimatedRows(
        data.names,
        data.source.astype(np.int32),
        np.concatenate([weight_r, np.zeros(data.source.size - weight_r.size)]),
        np.unique(data.fold_group, return_inverse=True)[1].astype(np.int64) if has_groups else None,
        replace(fitted.profile, solved=None),
        np.arange(data.n_sources) != data.sample,
        fitted.strata.target.covariance if fitted.strata is not None else None,
    )
    return (
        rows
        if fitted.strata is None or fitted.strata.target.share_jacobian is None
        else _with_raking_error(rows, fitted)
    )


def _with_raking_error(rows: EstimatedRows, fitted: FittedBias) -> EstimatedRows:
    """The masses were raked from the pool's own counts, which another draw of the sources would
    change: p moves by J d log N.
    """
    assert fitted.strata is not None
    strata = fitted.strata.target
    assert strata.share_jacobian is not None
    unit_r = np.concatenate([strata.unit[fitted.row], np.zeros(rows.weight.size - fitted.row.size)])
    jacobian_cc = np.divide(
        strata.share_jacobian,
        strata.size,
        out=np.zeros_like(strata.share_jacobian),
        where=strata.size > 0,
    )
    raked_cc = jacobian_cc @ count_covariance(rows, unit_r) @ jacobian_cc.T
    return replace(
        rows,
        mass_covariance=raked_cc
        if rows.mass_covariance is None
        else rows.mass_covariance + raked_cc,
    )


def weigh_fitted(
    pool: Pool,
    fitted: FittedBias,
    *,
    seed: int = 0,
    max_unlike: float = 1.0,
    judge: bool = True,
    solve: Mapping[str, Any] | None = None,
) -> Weights:
    """Weights of the pool under a fitted model, with verdict and errors."""
    data = fitted.data
    solved = None if fitted.strata is not None else _solve_fitted(pool, fitted, dict(solve or {}))
    is_reused = (
        solved is not None
        and fitted.profile.solved is not None
        and solved.solution.method == "newton"
    )
    # A fit is kept as long as its weights; the solver's rows, as large as ω, need not be.
    fitted = replace(fitted, profile=replace(fitted.profile, solved=None))
    if solved is not None and solved.solution.method != "newton":
        fitted = replace(fitted, profile=replace(fitted.profile, u=solved.solution.u[None, :]))
    evaluated = _as_solved(fitted, solved) if solved is not None and is_reused else None
    weight_r, log_total, log_normalizer_k = evaluated or evaluate_fitted(fitted)
    weight_n = np.zeros(len(pool))
    weight_n[fitted.row] = weight_r
    groups = group_codes(pool.frame["group"], len(pool)) if "group" in pool.frame.columns else None
    rows = estimated_rows(fitted, weight_r)
    u_k = (
        np.log(np.bincount(data.source, minlength=data.n_sources))
        if fitted.strata is not None
        else fitted.profile.u[0]
    )
    estimation = Estimation(pool, fitted, rows, u_k, log_total, None, seed, max_unlike)
    if solved is not None:
        solution, overlap = solved.solution, solved.overlap
        if data.sample is not None:
            solution = _without_sample(solution, log_normalizer_k)
            if overlap.verdict == "ok":
                overlap = replace(
                    overlap,
                    message=f"All {len(fitted.names)} sources and the target's sample are linked "
                    "to one another.",
                )
    else:
        overlap = _strata_overlap(fitted, weight_r)
        solution = _known_solution(fitted, overlap)
    weights = Weights(
        weight=weight_n,
        id=pool.frame["id"].to_numpy(),
        source=pool.source,
        names=pool.names,
        solution=solution,
        overlap=overlap,
        group=None if groups is None else groups[0],
        group_names=None if groups is None else groups[1],
        rows=solved.rows if solved is not None and estimation.omega_is_known else None,
        estimation=estimation,
    )
    return _judged(weights, fitted, max_unlike, judge)


def _solve_fitted(pool: Pool, fitted: FittedBias, options: dict[str, Any]) -> Weights:
    """The solved equations for the fitted ω, the target's sample among the sources; Newton's method
    begins where the fit ended.
    """
    data = fitted.data
    known = fitted.omega_is_known and "group" in pool.frame.columns
    if fitted.profile.solved is not None and not options:
        groups = group_codes(pool.frame["group"], len(pool)) if known else None
        weights = weigh_solved(fitted.profile.solved, np.arange(data.source.size), groups)
        warn_if_weak(weights.overlap)
        return weights
    return debias_weights(
        fitted.profile.log_omega,
        data.source,
        log=True,
        names=data.names,
        group=pool.frame["group"] if known else None,
        start=fitted.profile.u[0] if options.get("method", "newton") == "newton" else None,
        **options,
    )


def _without_sample(solution: Solution, log_normalizer_k: Floats) -> Solution:
    """The solution as seen from the pool: the sample's own entry, u and Ω = 1, is left out."""
    k = log_normalizer_k.size
    return replace(
        solution,
        names=solution.names[:k],
        share=solution.share[:k],
        u=solution.u[:k],
        log_normalizer=log_normalizer_k,
        hessian=None,
        hessian_exact=False,
    )


def _known_solution(fitted: FittedBias, overlap: Overlap) -> Solution:
    """Ω_k = 1: nothing to solve."""
    data = fitted.data
    share_k = (
        np.bincount(data.source, minlength=data.n_sources)[: len(fitted.names)] / data.source.size
    )
    return Solution(
        names=fitted.names,
        share=share_k,
        u=np.log(share_k),
        log_normalizer=np.zeros(share_k.size),
        method="known",
        status=Status.CONVERGED,
        gradient_norm=0.0,
        error_estimate=0.0,
        n_steps=0,
        n_passes=0,
        trace=(),
        hessian=None,
        hessian_exact=False,
    )


def _strata_overlap(fitted: FittedBias, weight_r: Floats) -> Overlap:
    """The overlap graph of the sources, with a verdict: strata alone need coverage, not links;
    other factors need links within strata.
    """
    assert fitted.strata is not None
    data, n, n_sources = fitted.data, fitted.data.n_pool, len(fitted.names)
    if fitted.factors:
        overlap = check_overlap(
            fitted.profile.log_omega[:n, :n_sources], data.source[:n], log=True, names=fitted.names
        )
    else:
        count_ck = count_pairs(data.cell[:n], data.source[:n], (data.n_cells, n_sources))
        overlap = overlap_of_cells(fitted.strata.log_factor[:, :n_sources], count_ck, fitted.names)
    by = " × ".join(fitted.strata.target.by)
    asked = (
        "stratum of the target that is not left out"
        if fitted.strata.target.uncovered
        else "stratum of the target"
    )
    known = f"with the target's distribution of {by} the normalizers are known, and every {asked}"
    if fitted.factors:
        weak = _weak_link(fitted)
        message = (
            weak
            or f"Within each stratum its sources are linked to one another; {known} has images."
        )
        return judge_weights(
            replace(overlap, verdict="weak" if weak else "ok", message=message), weight_r
        )
    links = (
        "There is one source, which needs no link"
        if len(fitted.names) == 1
        else "The sources are linked to one another, though they need not be"
        if overlap.connected
        else f"The sources are not linked to one another ({len(overlap.components)} separate "
        "groups) and need not be"
    )
    return judge_weights(
        replace(overlap, verdict="ok", message=f"{links}: {known} has images."), weight_r
    )


def _weak_link(fitted: FittedBias) -> str:
    """What is weak in a product with strata, or "": links between sources within strata, or
    parameters of a source that shares none.

    All strata together are judged as one solve is, by σ₂ of the sum of their Hessians, and a
    stratum by itself where it is large.
    """
    assert fitted.strata is not None
    data, profile = fitted.data, fitted.profile
    seen_ck = np.zeros(profile.u.shape, dtype=np.bool_)
    seen_ck[data.cell, data.source] = True
    shared_k = seen_ck[seen_ck.sum(axis=1) > 1].any(axis=0)
    if profile.n_parameters and data.n_sources > 1 and not shared_k.all():
        alone = [
            f"`{name}`" for name, shared in zip(data.names, shared_k, strict=True) if not shared
        ]
        return (
            f"No stratum has images both of {first_few(alone)} and of another source, so that "
            "nothing tells how it selects within strata: "
            "what the other factors say of it is a guess. Use coarser strata, or Strata alone."
        )
    mass_c, size_c = fitted.strata.target.mass, np.bincount(data.cell, minlength=data.n_cells)
    large_c = (mass_c >= _LARGE_MASS) & (size_c >= _LARGE_SIZE) & (seen_ck.sum(axis=1) > 1)
    judged = [
        (
            f"In the stratum {cell_text(fitted.strata.target.by, fitted.strata.target.strata[c])}: ",
            data.cell == c,
            seen_ck[c],
        )
        for c in np.flatnonzero(large_c)
    ]
    for where, row_r, present_k in [
        (
            "Within strata: ",
            np.ones(data.cell.size, dtype=np.bool_),
            np.ones(data.n_sources, dtype=np.bool_),
        ),
        *judged,
    ]:
        at, present = np.flatnonzero(row_r), np.flatnonzero(present_k)
        cells = np.unique(data.cell[at])
        code = np.searchsorted(present, data.source[at])
        overlap = check_overlap(
            profile.log_omega[np.ix_(at, present)],
            code,
            log=True,
            names=[data.names[k] for k in present],
        )
        if overlap.verdict == "ok" and present.size > 1:
            overlap = with_sigma2(
                overlap,
                profile.information.h_ckk[cells].sum(axis=0)[np.ix_(present, present)] / at.size,
            )
        if overlap.verdict == "weak":
            return f"{where}{overlap.message}"
    return ""


def _judged(weights: Weights, fitted: FittedBias, max_unlike: float, judge: bool) -> Weights:
    """The verdict of families that are positive everywhere, and of a target that can be looked
    at.
    """
    from unskew.bias.resemblance import compare_with_target

    assert weights.estimation is not None
    _check_coverage(fitted, max_unlike)
    overlap = weights.overlap
    if (fitted.strata is None or fitted.factors) and not np.isneginf(
        fitted.profile.log_omega
    ).any():
        overlap = judge_positive(overlap, weights.weight[fitted.row])
    resemblance = compare_with_target(fitted, weights.weight[fitted.row]) if judge else None
    if resemblance is not None and resemblance.unlike > max_unlike:
        raise CoverageError(
            f"{resemblance.message} That is more than max_unlike = {max_unlike:g}: the target is "
            "not identifiable from these sources."
        )
    # What the solve already warned of is not said twice.
    if fitted.strata is not None or overlap.message != weights.overlap.message:
        warn_if_weak(overlap)
    return replace(
        weights, overlap=overlap, estimation=replace(weights.estimation, resemblance=resemblance)
    )


def _check_coverage(fitted: FittedBias, max_unlike: float) -> None:
    """Images of the target that no source of the pool could have produced."""
    data = fitted.data
    if data.sample is None:
        return
    lacking, shown = fitted.uncovered
    if lacking > max_unlike:
        raise CoverageError(
            f"{lacking:.1%} of the target's images have {first_few(shown)}, which no source has, "
            f"more than max_unlike = {max_unlike:g}. "
            "Collect such images, or leave them out of the sample: results then speak of the rest "
            "of the target."
        )
    log_rk = fitted.profile.log_omega[data.n_pool :, : len(fitted.names)]
    share = float(np.mean(np.isneginf(log_rk).all(axis=1)))
    if share > max_unlike:
        raise CoverageError(
            f"{share:.1%} of the target's images lie where no source selects anything (omega is 0 "
            "for every source), more than max_unlike "
            f"= {max_unlike:g}. Collect such images, or make the target smaller."
        )
