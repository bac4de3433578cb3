"""The fit of a bias model.

Gather the rows, read off what is given, maximise the likelihood over the rest, find the strata's
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.base import Bias, BiasData, Factor
from unskew.bias.class_shift import ClassShift, resolve_class_shift
from unskew.bias.fit_rows import FitRows, check_origin, exclude_rows, gather_rows, place_in_strata
from unskew.bias.fitted import FittedBias, log_likelihood
from unskew.bias.strata import (
    FittedStrata,
    Strata,
    flag_disagreement,
    flag_identifying,
    strata_of_one_source,
)
from unskew.errors import ConfigError, OverlapError
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.arrays import count_pairs, log_sums, log_sums_by
from unskew.solve.profile_likelihood import (
    DenseDerivative,
    Derivative,
    OmegaOfCells,
    Profile,
    solve_one_stratum,
    solve_strata,
)
from unskew.target.facts import cell_text

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata

# Factors are fitted in turn until a round adds less than this to the log-likelihood of an image.
_ROUND_GAIN = 1e-10
_MAX_ROUNDS = 200


def fit_parts(
    model: Bias,
    parts: Sequence[Bias],
    pool: Pool,
    target: Target | None,
    *,
    seed: int = 0,
    start: FittedBias | None = None,
    learn_anew: bool = False,
) -> FittedBias:
    """Fit all parts together.

    model, parts : the model, and its factors.
    pool, target : as for `Bias.fit`.
    seed : of folds and permutations.
    start : an earlier fit of the same model to begin from.
    learn_anew : use the earlier fit only as a starting point; learn features and make tests again.
    """
    model, target = resolve_class_shift(model, pool, target, seed)
    parts = model.parts if any(isinstance(part, ClassShift) for part in parts) else parts
    strata_part = _only_strata(parts)
    rows = gather_rows(pool, target, parts, seed)
    if strata_part is not None:
        rows = place_in_strata(rows, strata_part, pool, target)
    rows = replace(rows, data=replace(rows.data, learn_anew=learn_anew))
    others = [part for part in parts if part is not strata_part]
    earlier: Sequence[Factor | None] = [None] * len(others) if start is None else start.factors
    rows, factors, log_rk = _estimate_factors(rows, others, earlier)
    profile, strata = _profile_with_strata(rows, factors, log_rk)
    return FittedBias(
        model=model,
        target=target,
        names=pool.names,
        data=rows.data,
        row=rows.row,
        n_images=len(pool),
        factors=factors,
        strata=strata,
        judge=rows.judge,
        left_out=rows.left_out,
        profile=profile,
    )


def _only_strata(parts: Sequence[Bias]) -> Strata | None:
    strata = [part for part in parts if isinstance(part, Strata)]
    if len(strata) > 1:
        columns = [name for part in strata for name in part.columns]
        raise ConfigError(
            f"a product has one Strata part, over all attributes together: Strata({columns}). "
            "Where cells of the joint table are too thin, use Tilt on one of the attributes.",
            columns=columns,
        )
    return strata[0] if strata else None


def _estimate_factors(
    rows: FitRows, parts: Sequence[Bias], earlier: Sequence[Factor | None]
) -> tuple[FitRows, tuple[Factor, ...], Floats]:
    """(rows that are left, fitted factors, (R, K) log of their product)."""
    rows, factors = _read_off(rows, parts, earlier)
    log_parts = {at: factor.log_omega(rows.data.frame) for at, factor in factors.items()}
    for log_rk in log_parts.values():
        check_origin(rows, log_rk)
    learned = [at for at, part in enumerate(parts) if part.by_likelihood]
    if learned:
        _check_offsets([parts[at] for at in learned])
        _learn_in_turn(rows, parts, earlier, learned, factors, log_parts)
    if not parts:  # nothing but strata
        return rows, (), np.broadcast_to(0.0, (len(rows.data.frame), rows.data.n_sources))
    log_rk = _log_product(list(log_parts.values()), rows.data)
    if learned:
        check_origin(rows, log_rk)
    return rows, tuple(factors[at] for at in range(len(parts))), log_rk


def _read_off(
    rows: FitRows, parts: Sequence[Bias], earlier: Sequence[Factor | None]
) -> tuple[FitRows, dict[int, Factor]]:
    """(rows that are left, the factors that need no likelihood, by the index of their part)."""
    factors: dict[int, Factor] = {}
    for at, part in enumerate(parts):
        if not part.by_likelihood:
            factors[at] = part.estimate(rows.data, _log_product([], rows.data), earlier[at])
            if part.may_exclude:
                rows = exclude_rows(rows, factors[at], part)
    return rows, factors


def _check_offsets(learned: Sequence[Bias]) -> None:
    """Refuse a part that cannot be fitted given others, if there are others."""
    alone = [part for part in learned if not part.has_offset]
    if alone and len(learned) > 1:
        family = type(alone[0]).__name__
        raise ConfigError(
            f"{family} with such a classifier cannot be fitted together with another estimated "
            "factor: nothing tells which of the two a pattern belongs to. Put all features into "
            "one Propensity, or use classifier='logistic'.",
            option="classifier",
            value=family,
        )


def _learn_in_turn(
    rows: FitRows,
    parts: Sequence[Bias],
    earlier: Sequence[Factor | None],
    learned: Sequence[int],
    factors: dict[int, Factor],
    log_parts: dict[int, Floats],
) -> None:
    """Fit each learned part given all others, in rounds until the likelihood stops growing."""
    data, before = rows.data, -np.inf
    zeros_rk = np.zeros((len(data.frame), data.n_sources))
    log_parts |= dict.fromkeys(learned, zeros_rk)
    for _ in range(_MAX_ROUNDS):
        for at in learned:
            others = [log_rk for other, log_rk in log_parts.items() if other != at]
            # From the second round on a fit continues from its own.
            is_first = at not in factors
            factors[at] = parts[at].estimate(
                data if is_first else replace(data, learn_anew=False),
                sum(others, zeros_rk),
                earlier[at] if is_first else factors[at],
            )
            log_parts[at] = _log_on_rows(factors[at], data.frame)
        if len(learned) < 2:
            return
        value = log_likelihood(_profile(rows, sum(log_parts.values(), zeros_rk), ()))
        if value - before <= _ROUND_GAIN * len(data.frame):
            return
        before = value


def _log_product(log_parts: Sequence[Floats], data: BiasData) -> Floats:
    """(R, K) the sum of the logarithms; zeros without any."""
    if len(log_parts) == 1:
        return log_parts[0]
    return sum(log_parts, np.zeros((len(data.frame), data.n_sources)))


@dataclass(frozen=True, eq=False)
class _Jacobian:
    """∂ log ω/∂θ of all factors next to each other, on rows of the fit."""

    frame: pd.DataFrame = field(repr=False)
    factors: tuple[Factor, ...]

    def __call__(self, at: Ints) -> Floats:
        rows = self.frame.iloc[at]
        return np.concatenate([factor.jacobian(rows) for factor in self.factors], axis=2)


def _profile(rows: FitRows, log_rk: Floats, factors: Sequence[Factor]) -> Profile:
    """Solve the normalizers for these factors: the likelihood as a function of θ alone."""
    data = rows.data
    derivative, penalty = profile_derivative(data.frame, log_rk, factors)
    if rows.strata is None:
        u_ck, solved = solve_one_stratum(log_rk, data.source, data.names, data.design)
    else:
        u_ck, solved = _solve_cells(data, rows.strata, log_rk), None
    return Profile(log_rk, u_ck, data.source, data.cell, derivative, penalty, solved, data.design)


def profile_derivative(
    frame: pd.DataFrame, log_rk: Floats, factors: Sequence[Factor]
) -> tuple[Derivative | None, Floats]:
    """Return ∂ log ω/∂θ over the factors with parameters, None without any, and their penalty."""
    smooth = [factor for factor in factors if factor.n_parameters]
    if not smooth:
        return None, np.zeros((0, 0))
    from scipy.linalg import block_diag

    penalty = np.asarray(block_diag(*[factor.penalty for factor in smooth]))
    linear = smooth[0].linear_derivative(frame) if len(smooth) == 1 else None
    dense = DenseDerivative(penalty.shape[0], _Jacobian(frame, tuple(smooth)), log_rk)
    return dense if linear is None else linear, penalty


def _solve_cells(data: BiasData, strata: TargetStrata, log_rk: Floats) -> Floats:
    """(C, K) u of every stratum; an error names the stratum whose sources are not linked."""
    try:
        return solve_strata(log_rk, data.source, data.cell, data.n_cells, data.names, data.design)
    except OverlapError as error:
        for cell, levels in enumerate(strata.strata):
            at = data.cell == cell
            try:
                solve_strata(
                    log_rk[at],
                    data.source[at],
                    np.zeros(int(at.sum()), dtype=np.int64),
                    1,
                    data.names,
                )
            except OverlapError as inner:
                raise OverlapError(
                    f"in the stratum {cell_text(strata.by, levels)}: {inner}",
                    inner.overlap,
                    **inner.facts | {"level": cell_text(strata.by, levels)},
                ) from error
        raise


def _profile_with_strata(
    rows: FitRows, factors: tuple[Factor, ...], log_rk: Floats
) -> tuple[Profile, FittedStrata | None]:
    """Profile the likelihood at its maximum, with the strata's factors in ω if there are strata."""
    profile = _profile(rows, log_rk, factors)
    if rows.strata is None:
        return profile, None
    strata = _fit_strata(rows, rows.strata, profile, is_flat=not factors)
    # The factors a_k(y) take over the normalizers of their strata: with them u_k = log n_k in every
    # stratum.
    log_omega_rk: Any = OmegaOfCells(strata.log_factor, rows.data.cell)
    if factors:
        log_omega_rk = log_omega_rk[:]
        log_omega_rk += log_rk
    u_ck = np.where(np.isneginf(profile.u), -np.inf, np.log(rows.data.size_k))
    return replace(profile, log_omega=log_omega_rk, u=u_ck), strata


def fit_rival(fitted: FittedBias) -> FittedBias | None:
    """Replace every factor in doubt by its rival, the others held; None where none has one."""
    return _with_others(
        fitted,
        lambda factor, offset_rk: (
            factor.rival(fitted.data, offset_rk) or factor if factor.in_doubt else factor
        ),
    )


def fit_unpenalised(fitted: FittedBias) -> FittedBias | None:
    """Fit every penalised factor without its penalty, the others held; None where none has one."""
    if not any(factor.is_penalised for factor in fitted.factors):
        return None
    return _with_others(
        fitted, lambda factor, offset_rk: factor.unpenalised(fitted.data, offset_rk)
    )


def _with_others(
    fitted: FittedBias, other_than: Callable[[Factor, Floats], Factor]
) -> FittedBias | None:
    """Replace factors by others, each given the log of the product of those fitted before."""
    data = fitted.data
    zeros = np.zeros((len(data.frame), data.n_sources))
    log_parts = [_log_on_rows(factor, data.frame) for factor in fitted.factors]
    factors = [
        other_than(
            factor, sum((log_rk for other, log_rk in enumerate(log_parts) if other != at), zeros)
        )
        for at, factor in enumerate(fitted.factors)
    ]
    if all(rival is factor for rival, factor in zip(factors, fitted.factors, strict=True)):
        return None
    rows = FitRows(data, fitted.row, None, dict(fitted.left_out))
    if fitted.strata is not None:
        rows = replace(rows, strata=fitted.strata.target, bins=fitted.strata.bins)
    log_rk = sum((_log_on_rows(factor, data.frame) for factor in factors), zeros)
    profile, fitted_strata = _profile_with_strata(rows, tuple(factors), log_rk)
    return replace(fitted, factors=tuple(factors), strata=fitted_strata, profile=profile)


def _log_on_rows(factor: Factor, frame: pd.DataFrame) -> Floats:
    """(R, K) log ω on the rows of the fit, out of fold where the factor has that."""
    out_of_fold = factor.fitted_log_omega()
    return factor.log_omega(frame) if out_of_fold is None else out_of_fold


def _fit_strata(
    rows: FitRows, strata: TargetStrata, profile: Profile, *, is_flat: bool
) -> FittedStrata:
    """Find the factors a_k(y) = e^{u_yk} V_y/(p(y) n_k) of the strata y.

    V_y = Σ_{i in y} v_i, and v_i = 1/Σ_k e^{u_yk} ω_ik over the sources that are kept in training.
    ``is_flat``: ω = 1 within every stratum, so that v_i is the same for all of its images.
    """
    data = rows.data
    kept = np.arange(data.n_sources) != data.sample
    cell_r = data.cell[: data.n_pool]
    unit_r = strata.unit[rows.row]
    if is_flat:
        with np.errstate(divide="ignore", invalid="ignore"):  # a stratum without images
            log_total_c = np.log(
                np.bincount(cell_r, weights=unit_r, minlength=data.n_cells)
            ) - log_sums(profile.u[:, kept])
    else:
        log_v_r = -log_sums(profile.log_omega[: data.n_pool, kept] + profile.u[cell_r][:, kept])
        log_total_c = log_sums_by(log_v_r + np.log(unit_r), cell_r, data.n_cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_factor = profile.u + (log_total_c - np.log(strata.mass))[:, None] - np.log(data.size_k)
    log_factor[~np.isfinite(log_total_c) | (strata.mass <= 0)] = -np.inf
    flag_disagreement(strata)
    if len(data.names) == 1:
        return FittedStrata(strata, rows.bins, log_factor, {})
    shape = (len(strata.strata), len(data.names))
    count_ck = count_pairs(cell_r, data.source[: data.n_pool], shape)
    only = strata_of_one_source(strata, count_ck, data.names)
    return FittedStrata(strata, rows.bins, log_factor, only, flag_identifying(strata, count_ck))
