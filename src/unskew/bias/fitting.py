"""The fit of a bias model: gather the rows, read off what is given, maximise the likelihood over
the rest, find the strata's factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.base import Bias, BiasData, Factor
from unskew.bias.fitted import SAMPLE, FittedBias, log_likelihood
from unskew.bias.strata import (
    FittedStrata,
    Strata,
    find_cells,
    flag_identifying,
    rescaled_masses,
    strata_of_one_source,
    stratify_for,
)
from unskew.errors import ConfigError, DataError, OverlapError, first_few, impossible_origin
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.arrays import count_pairs
from unskew.solve.logarithms import log_sums, log_sums_by
from unskew.solve.profile_likelihood import (
    DenseDerivative,
    Derivative,
    Profile,
    solve_one_stratum,
    solve_strata,
)
from unskew.splits.folds import FOLD_GROUP
from unskew.target.facts import cell_text
from unskew.target.holdout import held_out_rows

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata

# Factors are fitted in turn until a round adds less than this to the log-likelihood of an image.
_ROUND_GAIN = 1e-10
_MAX_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class _Gathered:
    """The rows of the fit before anything is estimated; ``row`` says where the pool's rows stand in
    the pool.
    """

    data: BiasData
    row: Ints
    judge: pd.DataFrame | None
    left_out: dict[str, int]
    strata: TargetStrata | None = None
    bins: Any = None


def fit_parts(
    model: Bias,
    parts: Sequence[Bias],
    pool: Pool,
    target: Target | None,
    *,
    seed: int = 0,
    start: FittedBias | None = None,
    learn_anew: bool = False,
    masses: Mapping[tuple[str, ...], float] | None = None,
) -> FittedBias:
    """Fit all parts together.

    Parameters
    ----------
    model, parts : the model, and its factors.
    pool, target : as for `Bias.fit`.
    seed : of folds and permutations.
    start : an earlier fit of the same model to begin from.
    learn_anew : the earlier fit only says where to begin; features are learned, and tests made,
        anew.
    masses : masses of the strata in place of the target's (redrawn within their error).
    """
    strata_part = _only_strata(parts)
    gathered = _gather(pool, target, parts, seed)
    if strata_part is not None:
        gathered = _place_in_strata(gathered, strata_part, pool, target, masses)
    rest = [part for part in parts if part is not strata_part]
    earlier: Sequence[Factor | None] = [None] * len(rest) if start is None else start.factors
    gathered = replace(gathered, data=replace(gathered.data, learn_anew=learn_anew))
    gathered, factors, log_rk = _estimate_factors(gathered, rest, earlier)
    return _assemble(model, pool, target, gathered, factors, log_rk)


def _only_strata(parts: Sequence[Bias]) -> Strata | None:
    strata = [part for part in parts if isinstance(part, Strata)]
    if len(strata) > 1:
        raise ConfigError(
            "a product has one Strata part, over all attributes together: "
            f"Strata({[name for part in strata for name in part.columns]}). "
            "Where cells of the joint table are too thin, use Tilt on one of the attributes."
        )
    return strata[0] if strata else None


def _gather(pool: Pool, target: Target | None, parts: Sequence[Bias], seed: int) -> _Gathered:
    """The pool's rows and, of a target sample, those that fit; the rest of it judges."""
    import pandas as pd

    named = [part.reference_source for part in parts if part.reference_source is not None]
    compared = (
        None if target is None or target.kind not in ("sample", "source") else target.compare(pool)
    )
    if (
        compared is not None
        and compared.source is not None
        and any(name != compared.source for name in named)
    ):
        raise ConfigError(
            f"the target is the source {compared.source!r}, but the bias model names {named[0]!r} "
            "as its reference; name one."
        )
    if compared is not None and compared.sample is not None and named:
        raise ConfigError(
            f"the target is a sample, and the bias model names {named[0]!r} as its reference; only "
            "one can be the reference."
        )
    rng = np.random.default_rng(seed)
    judge, row, left_out = None, np.arange(len(pool)), {}
    frame, source_r, names, sample = pool.frame, pool.source.astype(np.int64), pool.names, None
    reference = None
    if compared is not None and compared.source is not None:
        reference = names.index(compared.source)
        held = np.zeros(len(pool), dtype=np.bool_)
        held[np.flatnonzero(source_r == reference)] = held_out_rows(
            pool.frame[source_r == reference], compared.holdout, rng
        )
        if held.any():
            judge, row = frame[held], np.flatnonzero(~held)
            left_out[f"held out of {compared.source} to judge"] = int(held.sum())
            frame, source_r = frame.iloc[row].reset_index(drop=True), source_r[row]
    if compared is not None and compared.sample is not None:
        held = held_out_rows(compared.sample.frame, compared.holdout, rng)
        fitting = compared.sample.frame[~held]
        judge = compared.sample.frame[held] if held.any() else None
        sample = reference = len(names)
        _check_sample(frame, fitting, names, parts)
        # Side by side with numbers of the sample, categories of the pool would be numbers again.
        categories = [
            name
            for name in frame.columns
            if name != "source" and isinstance(frame[name].dtype, pd.CategoricalDtype)
        ]
        frame = pd.concat(
            [table.assign(source=table["source"].astype(object)) for table in (frame, fitting)],
            ignore_index=True,
        )
        frame = frame.astype(dict.fromkeys(categories, "category")) if categories else frame
        source_r = np.concatenate([source_r, np.full(len(fitting), sample)])
        names = (*names, SAMPLE)
    one_cell_r = np.zeros(len(frame), dtype=np.int64)
    image_id = pool.frame["id"].to_numpy()
    data = BiasData(
        frame,
        source_r,
        names,
        row.size,
        sample,
        reference,
        one_cell_r,
        1,
        _fold_groups(frame),
        seed,
        image_id,
    )
    return _Gathered(data, row, judge, left_out)


def _fold_groups(frame: pd.DataFrame) -> Ints:
    """(R,) code of each row's group; a row without one (the sample has no groups, but the pool has)
    is a group by itself.
    """
    import pandas as pd

    column = FOLD_GROUP if FOLD_GROUP in frame.columns else "group"
    if column not in frame.columns:
        return np.arange(len(frame))
    code_r = np.asarray(pd.factorize(frame[column])[0], dtype=np.int64)
    lone = np.flatnonzero(code_r < 0)
    code_r[lone] = int(code_r.max(initial=-1)) + 1 + np.arange(lone.size)
    return code_r


def _check_sample(
    frame: pd.DataFrame, sample: pd.DataFrame, names: Sequence[str], parts: Sequence[Bias]
) -> None:
    if len(sample) < 2:
        raise DataError(
            f"the target's sample has {len(sample)} images left to fit with; give a larger one, or "
            "hold out less of it."
        )
    if SAMPLE in names:
        raise DataError(
            f"a source is called {SAMPLE!r}, which is the name of the target's sample; rename it."
        )
    for column in dict.fromkeys(column for part in parts for column in part.columns):
        _check_shared(column, frame, sample)


def _check_shared(column: str, frame: pd.DataFrame, sample: pd.DataFrame) -> None:
    """Side by side with the pool, a column that one of the two lacks would look like missing
    values.
    """
    tables = {"the pool": frame, "the target's sample": sample}
    has = {
        which: {name for name in table.columns if name == column or name.startswith(f"{column}_")}
        for which, table in tables.items()
    }
    for which, other in (("the pool", "the target's sample"), ("the target's sample", "the pool")):
        lacking = sorted({column} & has[other] or has[other]) if column not in has[which] else []
        lacking = [name for name in lacking if name not in has[which]]
        if lacking:
            unlabelled = lacking == ["label"] and which != "the pool"
            hint = (
                " Without labels it cannot give their distribution: use Tilt or Propensity on "
                "features."
                if unlabelled
                else ""
            )
            shown = first_few([repr(name) for name in lacking])
            raise DataError(
                f"{which} has no column {shown}, which the bias model reads and {other} has.{hint}"
            )


def _place_in_strata(
    gathered: _Gathered,
    part: Strata,
    pool: Pool,
    target: Target | None,
    masses: Mapping[tuple[str, ...], float] | None,
) -> _Gathered:
    """Every row in its stratum; rows outside the target's scope, and those of strata without mass,
    leave.
    """
    data = gathered.data
    reference = None if data.reference is None else data.frame[data.source == data.reference]
    strata, over = stratify_for(part, pool, target, reference)
    if masses is not None:
        strata = rescaled_masses(strata, masses)
    code_r = strata.code[gathered.row]
    if data.sample is not None:
        code_r = np.concatenate(
            [code_r, find_cells(data.frame.iloc[data.n_pool :], strata, over.bins)]
        )
    dropped_r = code_r < 0
    empty_r = ~dropped_r & (strata.mass[code_r] <= 0)
    left_out = dict(gathered.left_out)
    if empty_r[: data.n_pool].any():
        left_out[f"their {' × '.join(strata.by)} has no mass in the target"] = int(
            empty_r[: data.n_pool].sum()
        )
    if dropped_r[: data.n_pool].any():
        left_out["outside the target"] = int(dropped_r[: data.n_pool].sum())
    keep_r = ~(dropped_r | empty_r)
    find_cell = partial(find_cells, target=strata, bins=over.bins)
    data = replace(
        data, cell=np.where(keep_r, code_r, 0), n_cells=len(strata.strata), find_cell=find_cell
    )
    gathered = replace(gathered, data=data, strata=strata, bins=over.bins, left_out=left_out)
    return _without(gathered, keep_r) if not keep_r.all() else gathered


def _without(gathered: _Gathered, keep_r: npt.NDArray[np.bool_]) -> _Gathered:
    data = gathered.data
    kept = data.kept(keep_r)
    lost = [name for k, name in enumerate(data.names) if not np.any(kept.source == k)]
    if kept.n_pool == 0:
        raise DataError(
            "no image of the pool is left: the bias model and the target leave every one out."
        )
    if lost:
        raise DataError(
            f"no image of {first_few(lost)} is left, because the bias model and the target leave "
            "them out. Drop the source."
        )
    return replace(gathered, data=kept, row=gathered.row[keep_r[: data.n_pool]])


def _estimate_factors(
    gathered: _Gathered, parts: Sequence[Bias], earlier: Sequence[Factor | None]
) -> tuple[_Gathered, tuple[Factor, ...], Floats]:
    """(rows that are left, fitted factors, (R, K) log of their product)."""
    fitted: dict[int, Factor] = {}
    for at, part in enumerate(parts):
        if not part.by_likelihood:
            fitted[at] = part.estimate(
                gathered.data,
                np.zeros((len(gathered.data.frame), gathered.data.n_sources)),
                earlier[at],
            )
            if part.may_exclude:
                gathered = _exclude(gathered, fitted[at], part)
    data = gathered.data
    log_part = {at: factor.log_omega(data.frame) for at, factor in fitted.items()}
    for log_rk in log_part.values():
        _check_origin(gathered, log_rk)
    zeros = np.zeros((len(data.frame), data.n_sources))
    learned = [at for at, part in enumerate(parts) if part.by_likelihood]
    log_part |= {at: zeros for at in learned}
    alone = [parts[at] for at in learned if not parts[at].has_offset]
    if alone and len(learned) > 1:
        raise ConfigError(
            f"{type(alone[0]).__name__} with such a classifier cannot be fitted together with "
            "another estimated factor: nothing tells "
            "which of the two a pattern belongs to. Put all features into one Propensity, or use "
            "classifier='logistic'."
        )
    before = -np.inf
    for _ in range(_MAX_ROUNDS):
        for at in learned:
            offset = sum((log_part[other] for other in log_part if other != at), zeros)
            # From the second round on the fit goes on from its own.
            first = at not in fitted
            fitted[at] = parts[at].estimate(
                data if first else replace(data, learn_anew=False),
                offset,
                fitted.get(at, earlier[at]),
            )
            log_part[at] = _log_on_rows(fitted[at], data.frame)
        if len(learned) < 2:
            break
        value = log_likelihood(_profile(gathered, sum(log_part.values(), zeros), ()))
        if value - before <= _ROUND_GAIN * len(data.frame):
            break
        before = value
    log_rk = next(iter(log_part.values())) if len(log_part) == 1 else sum(log_part.values(), zeros)
    if learned:
        _check_origin(gathered, log_rk)
    return gathered, tuple(fitted[at] for at in range(len(parts))), log_rk


def _check_origin(gathered: _Gathered, log_rk: Floats) -> None:
    """An image that its own source could not have produced contradicts the model; the likelihood
    would be 0.
    """
    data = gathered.data
    impossible = np.flatnonzero(np.isneginf(log_rk[np.arange(data.source.size), data.source]))
    if impossible.size:
        row = int(impossible[0])
        raise impossible_origin(
            int(gathered.row[row]) if row < data.n_pool else row, data.names[data.source[row]]
        )


def _exclude(gathered: _Gathered, factor: Factor, part: Bias) -> _Gathered:
    """Images that their own source's ω excludes get weight 0 and leave before the shares are
    computed.
    """
    data = gathered.data
    own_r = factor.log_omega(data.frame)[np.arange(data.source.size), data.source]
    keep_r = ~np.isneginf(own_r)
    if keep_r.all():
        return gathered
    left_out = {
        **gathered.left_out,
        f"outside their own source's {part.family}": int((~keep_r).sum()),
    }
    return _without(replace(gathered, left_out=left_out), keep_r)


@dataclass(frozen=True, eq=False)
class _Jacobian:
    """∂ log ω/∂θ of all factors side by side on rows of the fit; a class, because weights are
    pickled and a closure cannot be.
    """

    frame: pd.DataFrame = field(repr=False)
    factors: tuple[Factor, ...]

    def __call__(self, at: Ints) -> Floats:
        rows = self.frame.iloc[at]
        return np.concatenate([factor.jacobian(rows) for factor in self.factors], axis=2)


def _profile(gathered: _Gathered, log_rk: Floats, factors: Sequence[Factor]) -> Profile:
    data = gathered.data
    smooth = [factor for factor in factors if factor.n_parameters]
    derivative: Derivative | None = None
    penalty = np.zeros((0, 0))
    if smooth:
        from scipy.linalg import block_diag

        penalty = np.asarray(block_diag(*[factor.penalty for factor in smooth]))
        derivative = smooth[0].linear_derivative(data.frame) if len(smooth) == 1 else None

        if derivative is None:
            derivative = DenseDerivative(
                penalty.shape[0], _Jacobian(data.frame, tuple(smooth)), log_rk
            )
    if gathered.strata is None:
        u_ck, solved = solve_one_stratum(log_rk, data.source, data.names)
        return Profile(log_rk, u_ck, data.source, data.cell, derivative, penalty, solved)
    return Profile(
        log_rk,
        _solve_cells(data, gathered.strata, log_rk),
        data.source,
        data.cell,
        derivative,
        penalty,
    )


def _solve_cells(data: BiasData, strata: TargetStrata, log_rk: Floats) -> Floats:
    try:
        return solve_strata(log_rk, data.source, data.cell, data.n_cells, data.names)
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
                    f"in the stratum {cell_text(strata.by, levels)}: {inner}", inner.overlap
                ) from error
        raise


def _assemble(
    model: Bias,
    pool: Pool,
    target: Target | None,
    gathered: _Gathered,
    factors: tuple[Factor, ...],
    log_rk: Floats,
) -> FittedBias:
    data = gathered.data
    profile, strata = _weighed_profile(gathered, factors, log_rk)
    return FittedBias(
        model,
        target,
        pool.names,
        data,
        gathered.row,
        len(pool),
        factors,
        strata,
        gathered.judge,
        gathered.left_out,
        profile,
    )


def _weighed_profile(
    gathered: _Gathered, factors: tuple[Factor, ...], log_rk: Floats
) -> tuple[Profile, FittedStrata | None]:
    """The likelihood at its maximum, with the strata's factors among ω if there are strata."""
    profile = _profile(gathered, log_rk, factors)
    if gathered.strata is None:
        return profile, None
    strata = _fit_strata(gathered, gathered.strata, profile, is_flat=not factors)
    # The factors a_k(y) take over the normalizers of their strata: with them u_k = log n_k in every
    # stratum.
    log_omega_rk = strata.log_factor.take(gathered.data.cell, axis=0)
    if factors:
        log_omega_rk += log_rk
    return replace(profile, log_omega=log_omega_rk, u=_known_u(gathered.data, profile.u)), strata


def fit_rival(fitted: FittedBias) -> FittedBias | None:
    """The model with each factor in doubt replaced by its rival, the other factors held; None where
    no factor has one.
    """
    data = fitted.data
    zeros = np.zeros((len(data.frame), data.n_sources))
    log_part = [_log_on_rows(factor, data.frame) for factor in fitted.factors]
    factors = list(fitted.factors)
    for at, factor in enumerate(fitted.factors):
        if factor.in_doubt:
            offset = sum((log_rk for other, log_rk in enumerate(log_part) if other != at), zeros)
            factors[at] = factor.rival(data, offset) or factor
    if all(rival is factor for rival, factor in zip(factors, fitted.factors, strict=True)):
        return None
    gathered = _Gathered(data, fitted.row, None, dict(fitted.left_out))
    if fitted.strata is not None:
        gathered = replace(gathered, strata=fitted.strata.target, bins=fitted.strata.bins)
    log_rk = sum((_log_on_rows(factor, data.frame) for factor in factors), zeros)
    profile, fitted_strata = _weighed_profile(gathered, tuple(factors), log_rk)
    return replace(fitted, factors=tuple(factors), strata=fitted_strata, profile=profile)


def _log_on_rows(factor: Factor, frame: pd.DataFrame) -> Floats:
    out_of_fold = factor.fitted_log_omega()
    return factor.log_omega(frame) if out_of_fold is None else out_of_fold


def _known_u(data: BiasData, u_ck: Floats) -> Floats:
    size_k = np.bincount(data.source, minlength=data.n_sources)
    return np.where(np.isneginf(u_ck), -np.inf, np.log(size_k))


def _fit_strata(
    gathered: _Gathered, strata: TargetStrata, profile: Profile, *, is_flat: bool
) -> FittedStrata:
    """a_k(y) = e^{u_yk} V_y/(p(y) n_k) with V_y = Σ_{i in y} v_i, v_i = 1/Σ_k e^{u_yk} ω_ik over
    the sources that are kept in training.

    ``is_flat``: ω = 1 within every stratum, so that v_i is the same for all of its images.
    """
    data = gathered.data
    kept = np.arange(data.n_sources) != data.sample
    cell_r = data.cell[: data.n_pool]
    unit_r = strata.unit[gathered.row]
    if is_flat:
        with np.errstate(divide="ignore", invalid="ignore"):  # a stratum without images
            log_total_c = np.log(
                np.bincount(cell_r, weights=unit_r, minlength=data.n_cells)
            ) - log_sums(profile.u[:, kept])
    else:
        log_v_r = -log_sums(profile.log_omega[: data.n_pool, kept] + profile.u[cell_r][:, kept])
        log_total_c = log_sums_by(log_v_r + np.log(unit_r), cell_r, data.n_cells)
    size_k = np.bincount(data.source, minlength=data.n_sources)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_factor = profile.u + (log_total_c - np.log(strata.mass))[:, None] - np.log(size_k)
    log_factor[~np.isfinite(log_total_c) | (strata.mass <= 0)] = -np.inf
    if len(data.names) == 1:
        return FittedStrata(strata, gathered.bins, log_factor, {})
    count_ck = count_pairs(
        data.cell[: data.n_pool], data.source[: data.n_pool], (len(strata.strata), len(data.names))
    )
    only, flags = (
        strata_of_one_source(strata, count_ck, data.names),
        flag_identifying(strata, count_ck),
    )
    return FittedStrata(strata, gathered.bins, log_factor, only, flags)
