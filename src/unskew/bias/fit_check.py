"""Given ω, does each source look like ω_k p̃/Ω_k? Score tests with bootstrap p-values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from unskew.bias.base import Bias
from unskew.bias.features import check_columns, expand_features, is_numeric, read_numbers
from unskew.bias.fitted import FittedBias
from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import seed_of
from unskew.records.levels import holds_lists, level_text, text_levels
from unskew.solve.profile_likelihood import Profile

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("id", "source", "group", "split", "path", "content")
# Thresholds at which the distribution of a numeric feature is compared, and the most levels of a
# categorical one.
_THRESHOLDS = 15
_MOST_LEVELS = 30
# A residual whose variance is this small relative to that of the labels themselves is rounding:
# nothing there can be tested.
_NO_VARIANCE = 1e-10
# Of more units than this, as many bundles are drawn from: what bundling adds to a variance has mean
# 0 and a relative spread of 1/√50,000, far below that of 999 replicates; signs of a million units
# would fill 4 GB.
_MOST_UNITS = 50_000


@dataclass(frozen=True)
class FeatureCheck:
    """One feature: its p-value, and where the model is off most.

    That is the source and the ``place`` (a level, or below a threshold); ``excess`` is the share of
    that source's images there minus the share that the model expects.
    """

    feature: str
    statistic: float
    p_value: float
    source: str
    place: str
    excess: float


@dataclass(frozen=True)
class FitCheck:
    """How well the bias model describes the sources.

    Attributes
    ----------
    p_value : of all features together; NaN where nothing can be tested (one source, or sources that
        share no image).
    features : every feature by itself.
    n_replicates : bootstrap replicates behind the p-values.
    message : the outcome as a sentence.
    """

    p_value: float
    features: tuple[FeatureCheck, ...]
    n_replicates: int
    message: str = field(repr=False)

    def __str__(self) -> str:
        lines = [
            f"  {check.feature}: p = {check.p_value:.3g}; off most for {check.source} at "
            f"{check.place} ({check.excess:+.3f})"
            for check in self.features
        ]
        return "\n".join([self.message, *lines])


def check_fit(
    pool: Pool,
    bias: Bias | FittedBias | None,
    target: Target | None = None,
    *,
    weights: Weights,
    features: Sequence[str] | None = None,
    replicates: int = 999,
    rng: int | np.random.Generator = 0,
) -> FitCheck:
    """Compare every source with what the model expects it to look like, feature by feature.

    Under the model image i comes from source k with probability q_ik, so that S_k(f) = Σ_i (1{s_i =
    k} − q_ik) f(z_i) has mean 0 for every function f. Here f runs over the indicators of levels,
    and of being below some fifteen quantiles. S_k(f)/n_k is the source's share minus the expected
    one, Σ_i π_i ω_ik f(z_i)/Ω_k. A feature's statistic is Σ_k Σ_f S_k(f)²/variance; that of all,
    the largest relative to its mean. Their distribution comes from a multiplier bootstrap of the
    influence functions ψ_i = r_ik f(z_i) − bᵀI⁻¹ score_i, in which the estimation of normalizers
    and parameters is accounted for (score and information as in `unskew.solve.profile_likelihood`),
    by group where there are groups, copies of an image together.

    A small p-value says that some ω is wrong. A large one says nothing about c(z), the factor
    common to all sources, to which q is blind.

    Parameters
    ----------
    pool : the images, as they were weighed.
    bias : the model behind the weights, fitted or not, to name its features (another one is an
        error); None: all columns.
    target : the target behind the weights (another one is an error); None: not compared.
    weights : what `debias` (or `debias_weights`, in the order of the pool) made of the pool.
    features : columns to compare; default: those that the model reads and the label, without a
        model all columns.
    replicates : bootstrap replicates.
    rng : seed of the bootstrap, or a Generator.
    """
    if replicates < 19:
        raise ConfigError(
            f"replicates is the number of bootstrap replicates, at least 19; got {replicates!r}.",
            option="replicates",
            value=replicates,
            limit=19,
        )
    seed = seed_of(rng)
    model = bias.model if isinstance(bias, FittedBias) else bias
    _check_model(model, target, weights)
    frame, profile, group_r, names = _rows(pool, weights)
    columns = _columns(frame, model, features)
    unit_rm = _units(group_r, len(frame), seed)
    sign_bm = _random_signs((replicates, unit_rm.shape[1]), seed)
    outcomes = [_check_feature(frame, name, profile, unit_rm, sign_bm, names) for name in columns]
    usable = [(check, null_b) for check, null_b in outcomes if null_b is not None]
    checks = tuple(check for check, _ in outcomes)
    if not usable:
        why = "there is one source only" if len(names) == 1 else _why_untestable(profile)
        return FitCheck(float("nan"), checks, replicates, f"The model cannot be tested: {why}.")
    null_fb = np.array([null_b for _, null_b in usable])
    scale_f = null_fb.mean(axis=1)
    observed = max(
        check.statistic / scale for (check, _), scale in zip(usable, scale_f, strict=True)
    )
    p_value = _p_value(observed, (null_fb / scale_f[:, None]).max(axis=0))
    return FitCheck(p_value, checks, replicates, _message(p_value, checks))


def _check_model(model: Bias | None, target: Target | None, weights: Weights) -> None:
    """Refuse another model or target than those behind the weights, which are what is tested."""
    if weights.estimation is None:
        return
    own = weights.estimation.fitted
    if model is not None and not _is_same(model, own.model):
        other = _model_text(model)
        tested = _model_text(own.model)
        raise ConfigError(
            f"these weights were computed with {tested}, and that is what can be checked, not "
            f"{other if other != tested else 'with other settings'}. Compute weights with the "
            "other model, or pass None and name columns by features=[…].",
            option="bias",
            value=other,
        )
    if target is not None and not _is_same(target, own.target):
        raise ConfigError(
            f"these weights were computed for another target than this one ({target.kind}). "
            "Compute weights for it, or leave target out.",
            option="target",
            value=target.kind,
        )


def _model_text(model: Bias) -> str:
    return " × ".join(f"{type(part).__name__}({', '.join(part.columns)})" for part in model.parts)


def _is_same(one: Any, other: Any) -> bool:
    """Compare settings, whatever they are made of: models, arrays, tables, functions, learners."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        pairs = [
            (setting.name, getattr(one, setting.name), getattr(other, setting.name))
            for setting in fields(one)
        ]
        # A reference that is not named is the target's.
        return all(
            _is_same(first, second) or (name == "reference" and (first is None or second is None))
            for name, first, second in pairs
        )
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(
            _is_same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if scipy.sparse.issparse(one):
        return bool(one.shape == other.shape and (one != other).nnz == 0)
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    if hasattr(one, "__code__"):
        return bool(one.__code__ == other.__code__)
    if hasattr(one, "get_params"):
        return repr(one) == repr(other)
    return bool(np.array_equal(one, other))


def _random_signs(shape: tuple[int, int], seed: int) -> Any:
    """(B, M) −1 or 1, in single precision: many millions of them."""
    bits = np.random.default_rng(seed).integers(0, 2, size=shape, dtype=np.int8)
    return bits.astype(np.float32) * 2 - 1


def _why_untestable(profile: Profile) -> str:
    shared = any(bool((q_bk.max(axis=1) < 1.0).any()) for _, _, q_bk in profile.blocks())
    if shared:
        return (
            "it fits these features exactly, whatever the images (strata of the features "
            "themselves); name others by features=[…]"
        )
    return "no image could have come from more than one source"


def _message(p_value: float, checks: Sequence[FeatureCheck]) -> str:
    if p_value >= 0.05:
        return (
            f"The sources look as the bias model expects (p = {p_value:.2g} over {len(checks)} "
            "features). That says nothing about c(z)."
        )
    worst = min(checks, key=lambda check: (check.p_value, -check.statistic))
    return (
        f"The bias model does not describe the sources (p = {p_value:.2g}): {worst.feature} of "
        f"`{worst.source}` is off most, at "
        f"{worst.place} its share of images is {abs(worst.excess):.3f} "
        f"{'above' if worst.excess > 0 else 'below'} what the model expects."
    )


def _rows(
    pool: Pool, weights: Weights
) -> tuple[pd.DataFrame, Profile, Ints | None, tuple[str, ...]]:
    """(table, likelihood, groups, names of the sources), with the rows of the target's sample."""
    if weights.estimation is not None:
        data, rows = weights.estimation.fitted.data, weights.estimation.rows
        if (
            len(pool) != len(weights.estimation.pool)
            or not (pool.frame["id"].to_numpy() == weights.id).all()
        ):
            raise DataError(
                "pool and weights hold different images, or another order; pass the pool that was "
                "weighed.",
                count=len(pool),
                limit=len(weights.estimation.pool),
            )
        return data.frame, rows.profile, rows.unit, rows.names
    if weights.rows is None:
        raise ConfigError(
            "check_fit needs omega, which these weights do not carry: they were read from a file "
            "or made by hand.",
            option="weights",
        )
    if len(pool) != weights.weight.size:
        raise DataError(
            f"the pool has {len(pool)} images, but there are {weights.weight.size} weights; pass "
            "the pool that was weighed.",
            count=len(pool),
            limit=weights.weight.size,
        )
    q_nk = np.concatenate(
        [
            np.asarray(q_bk.toarray() if scipy.sparse.issparse(q_bk) else q_bk)
            for _, q_bk in weights.rows.memberships(weights.solution.u)
        ]
    )
    with np.errstate(divide="ignore"):
        log_nk = np.log(q_nk)
    source_n = weights.source.astype(np.int64)
    profile = Profile(
        log_nk, np.zeros((1, len(weights.names))), source_n, np.zeros(source_n.size, dtype=np.int64)
    )
    return pool.frame, profile, weights.unit, weights.names


def _columns(frame: pd.DataFrame, model: Bias | None, features: Sequence[str] | None) -> list[str]:
    if features is not None:
        return expand_features(frame, features)
    read = [] if model is None else [name for part in model.parts for name in part.columns]
    if read:
        names = expand_features(frame, list(dict.fromkeys(read)))
        names += ["label"] if "label" in frame.columns and "label" not in names else []
    else:
        names = [str(name) for name in frame.columns if name not in _ROLES]
    usable = [name for name in names if not bool(frame[name].isna().any())]
    if not usable:
        raise DataError(
            "there is no column to compare the sources by: "
            f"{first_few(names) or 'the pool has none'} (columns with missing values are left "
            "out).",
            columns=names,
        )
    return usable


def _units(group_r: Ints | None, n_rows: int, seed: int) -> Any:
    """(R, M) sparse indicator of each row's unit.

    Of very many units, (R, bundles): each unit is in one bundle, with a random sign.
    """
    code_r = np.arange(n_rows) if group_r is None else np.unique(group_r, return_inverse=True)[1]
    n_units, value_r = int(code_r.max()) + 1, np.ones(n_rows)
    if n_units > _MOST_UNITS:
        # A count sketch (Charikar et al. 2002): sums over bundles have the covariance of sums over
        # units, up to terms of mean 0.
        rng = np.random.default_rng([seed, n_units])
        value_r = rng.choice([-1.0, 1.0], size=n_units)[code_r]
        code_r, n_units = rng.integers(0, _MOST_UNITS, size=n_units)[code_r], _MOST_UNITS
    return scipy.sparse.csr_array((value_r, (np.arange(n_rows), code_r)), shape=(n_rows, n_units))


def _indicators(frame: pd.DataFrame, name: str) -> tuple[Floats, list[str]]:
    """(R, T) indicators f(z_r), and what each says."""
    check_columns(frame, [name])
    if is_numeric(frame[name]):
        value_r = read_numbers(frame[name], name)
        cut_t = np.unique(np.quantile(value_r, np.arange(1, _THRESHOLDS + 1) / (_THRESHOLDS + 1)))
        cut_t = cut_t[cut_t < value_r.max()]
        return (value_r[:, None] <= cut_t).astype(np.float64), [
            f"{name} ≤ {cut:.4g}" for cut in cut_t
        ]
    if holds_lists(frame[name]):
        return _list_indicators(frame[name], name)
    levels, code_r = text_levels(frame[name], name)
    largest = np.argsort(-np.bincount(code_r), kind="stable")[:_MOST_LEVELS]
    return (code_r[:, None] == largest).astype(np.float64), [
        f"{name} = {levels[at]}" for at in largest
    ]


def _list_indicators(column: pd.Series[Any], name: str) -> tuple[Floats, list[str]]:
    """Tell for a column of lists which images have each of the levels."""
    own_r = [{level_text(item) for item in value} for value in column]
    count = Counter(level for own in own_r for level in sorted(own))
    largest = [level for level, _ in count.most_common(_MOST_LEVELS)]
    indicator_rt = np.array(
        [[level in own for level in largest] for own in own_r], dtype=np.float64
    ).reshape(len(own_r), len(largest))
    return indicator_rt, [f"{name} has {level}" for level in largest]


def _check_feature(
    frame: pd.DataFrame,
    name: str,
    profile: Profile,
    unit_rm: Any,
    sign_bm: Any,
    names: tuple[str, ...],
) -> tuple[FeatureCheck, Floats | None]:
    """(outcome, (B,) the statistic under the model); None where nothing can be tested."""
    indicator_rt, places = _indicators(frame, name)
    n_sources, n_places = len(names), len(places)
    if not places:
        return FeatureCheck(name, 0.0, 1.0, names[0], f"{name} (constant)", 0.0), None
    sum_kt, unit_mj = _influence(profile, indicator_rt, unit_rm)
    variance_kt = np.square(unit_mj).sum(axis=0, dtype=np.float64).reshape(n_sources, n_places)
    size_k = np.bincount(profile.source, minlength=n_sources)
    # One scale for each source: thresholds near the ends, where little varies, count little.
    scale_k = variance_kt.mean(axis=1)
    usable_k = scale_k > _NO_VARIANCE * size_k
    excess_kt = sum_kt / size_k[:, None]
    worst_k, worst_t = np.unravel_index(int(np.argmax(np.abs(excess_kt))), excess_kt.shape)
    outcome = (names[int(worst_k)], places[int(worst_t)], float(excess_kt[worst_k, worst_t]))
    if not usable_k.any():
        return FeatureCheck(name, 0.0, 1.0, *outcome), None
    weight_k = np.divide(1.0, scale_k, out=np.zeros(n_sources), where=usable_k)
    statistic = float((np.square(sum_kt) * weight_k[:, None]).sum())
    null_bkt = (sign_bm @ unit_mj).astype(np.float64).reshape(-1, n_sources, n_places)
    null_b = np.einsum("bkt,k->b", np.square(null_bkt), weight_k)
    return FeatureCheck(name, statistic, _p_value(statistic, null_b), *outcome), null_b


def _influence(profile: Profile, indicator_rt: Floats, unit_rm: Any) -> tuple[Floats, Any]:
    """((K, T) S_k(f_t), (M, K·T) the influence of every unit on them)."""
    (n_cells, n_sources), n_places, p = profile.u.shape, indicator_rt.shape[1], profile.n_parameters
    g_cklt = np.zeros((n_cells, n_sources, n_sources, n_places))
    g_pkt = np.zeros((p, n_sources, n_places))
    for cell, at, q_bk in profile.blocks(n_places):
        f_bt = indicator_rt[at]
        # ∂ Σ_i q_ik f_t(z_i)/∂(u_l, θ) = Σ_i f_t q_ik (1{k = l} − q_il), Σ_i f_t q_ik (J_ik − J̄_i)
        for t in range(n_places):
            g_cklt[cell, :, :, t] -= q_bk.T @ (q_bk * f_bt[:, [t]])
        g_cklt[cell, np.arange(n_sources), np.arange(n_sources)] += q_bk.T @ f_bt
        if profile.derivative is not None:
            g_pkt += profile.derivative.slopes(at, q_bk, f_bt)
    a_ckj, a_pj = _solve_columns(
        profile, g_cklt.reshape(n_cells, n_sources, -1), g_pkt.reshape(p, n_sources * n_places)
    )
    sum_kt = np.zeros((n_sources, n_places))
    unit_mj = np.zeros((unit_rm.shape[1], n_sources * n_places), dtype=np.float32)
    for cell, at, q_bk in profile.blocks(n_places):
        residual_bk, f_bt = profile.residuals(at, q_bk), indicator_rt[at]
        sum_kt -= residual_bk.T @ f_bt
        influence_bj = (residual_bk[:, :, None] * f_bt[:, None, :]).reshape(
            at.size, -1
        ) - residual_bk @ a_ckj[cell]
        if profile.derivative is not None:
            influence_bj -= profile.derivative.by_row(at, residual_bk) @ a_pj
        own = unit_rm[at].tocoo()
        np.add.at(unit_mj, own.col, (own.data[:, None] * influence_bj[own.row]).astype(np.float32))
    return sum_kt, unit_mj


def _solve_columns(profile: Profile, g_ckj: Floats, g_pj: Floats) -> tuple[Floats, Floats]:
    """Compute I⁻¹g for many right-hand sides at once."""
    solved = [profile.information.solve(g_ckj[:, :, j], g_pj[:, j]) for j in range(g_ckj.shape[2])]
    return np.stack([a_ck for a_ck, _ in solved], axis=2), np.stack(
        [a_p for _, a_p in solved], axis=1
    )


def _p_value(observed: float, null_b: Floats) -> float:
    return float((1 + np.count_nonzero(null_b >= observed)) / (1 + null_b.size))
