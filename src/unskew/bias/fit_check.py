"""Given ω, does each source look like ω_k p̃/Ω_k? Score tests with bootstrap p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from unskew.bias.base import Bias
from unskew.bias.comparisons import find_comparisons
from unskew.bias.features import expand_features
from unskew.bias.fit_tests import FeatureCheck, JointCheck, run_tests
from unskew.bias.fitted import FittedBias
from unskew.engine.arguments import TestReplicates, checked
from unskew.errors import ConfigError, DataError
from unskew.records import Ints, Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.records.holm import OBJECTION, holm
from unskew.records.weights import holds_ids
from unskew.solve.profile_likelihood import Profile

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("id", "source", "group", "split", "path", "content", "design_weight")


@dataclass(frozen=True)
class FitCheck:
    """How well the bias model describes the sources.

    Attributes
    ----------
    p_value : of all tests together; NaN where nothing can be tested (one source, or sources that
        share no image).
    features : every feature by itself.
    n_replicates : bootstrap replicates behind the p-values.
    message : the outcome as a sentence.
    joint : all columns together; None with fewer than two.
    notes : sentences on columns that were left out, or compared between some sources only.
    n_redrawn : images whose sources were drawn again in the replicates: all, or of many some 5,000
        at random, whose spread is scaled to all; 0 where nothing can be compared.
    """

    p_value: float
    features: tuple[FeatureCheck, ...]
    n_replicates: int
    message: str = field(repr=False)
    joint: JointCheck | None = None
    notes: tuple[str, ...] = ()
    n_redrawn: int = 0

    def __str__(self) -> str:
        lines = [
            f"  {check.feature}: p = {check.p_value:.3g}; off most for {check.source} at "
            f"{check.place} ({check.excess:+.3f})"
            for check in self.features
        ]
        if self.joint is not None:
            lines.append(
                f"  all together: p = {self.joint.p_value:.3g}; off most for {self.joint.source} "
                f"at {self.joint.place} ({self.joint.excess:+.3f})"
            )
        return "\n".join([self.message, *lines, *(f"  Note: {note}" for note in self.notes)])


@checked
def check_fit(
    pool: Pool,
    bias: Bias | FittedBias | None,
    target: Target | None = None,
    *,
    weights: Weights,
    features: Sequence[str] | None = None,
    replicates: TestReplicates = 999,
    rng: Randomness = 0,
) -> FitCheck:
    """Compare every source with what the model expects it to look like.

    Under the model image i comes from source k with probability q_ik, so that S_k(f) = Σ_i (1{s_i =
    k} − q_ik) f(z_i) has mean 0 for every function f. Of a feature by itself f runs over the
    indicators of levels, and of being below some fifteen quantiles: S_k(f)/n_k is the source's
    share minus the expected one, Σ_i π_i ω_ik f(z_i)/Ω_k. Of all columns together, the label
    included, f runs over products of functions of two columns, over random functions of all columns
    (cosines, whose squares sum to a Gaussian kernel), and over these times the label. A statistic
    is Σ_k Σ_f S_k(f)²/variance; that of all features is the largest relative to its mean, that of
    all columns together the one with the smallest p-value.

    Their distribution comes from replicates in which every image's source is drawn again from q and
    the model fitted again by a Newton step, or, where there are groups or copies of images, from a
    multiplier bootstrap by these (`unskew.bias.redrawn_sources`). Both account for the estimation
    of normalizers and parameters. What is observed is summed over all images; the spread comes from
    5,000 of them (or groups) at random if there are more, more with very many parameters and fewer
    with very many columns, and is scaled to all (``n_redrawn``). ``p_value`` is that of
    the smaller of both p-values (Westfall & Young 1993).

    A column that some source lacks, such as the label of an unlabelled sample of the target, is
    compared between the other sources, with q_ik/Σ_l q_il over these. A source in which some images
    lack a value counts as one that lacks the column; ``notes`` says so.

    A small p-value says that some ω is wrong. A large one says nothing about c(z), the factor
    common to all sources, to which q is blind; docs/method.md lists what else no test here sees.

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
    seed = seed_of(rng)
    model = bias.model if isinstance(bias, FittedBias) else bias
    _check_model(model, target, weights)
    rows = _rows(pool, weights)
    comparisons, notes = find_comparisons(
        rows.frame, rows.profile.source, rows.names, _columns(rows.frame, model, features)
    )
    outcomes = [
        run_tests(rows.profile, rows.unit, rows.names, comparison, replicates=replicates, seed=seed)
        for comparison in comparisons
    ]
    checks = tuple(check for outcome in outcomes for check in outcome.features)
    p_values = [outcome.p_value for outcome in outcomes if outcome.p_value is not None]
    if not p_values:
        why = "there is one source only" if len(rows.names) == 1 else _why_untestable(rows.profile)
        message = f"The model cannot be tested: {why}."
        return FitCheck(float("nan"), checks, replicates, message, notes=notes)
    p_value = _smallest(p_values)
    joint = _joined([outcome.joint for outcome in outcomes if outcome.joint is not None])
    message = _message(p_value, checks, joint)
    n_redrawn = min(outcome.n_redrawn for outcome in outcomes if outcome.p_value is not None)
    return FitCheck(p_value, checks, replicates, message, joint, notes, n_redrawn)


def _smallest(p_values: Sequence[float]) -> float:
    return min(holm((str(at), p_value) for at, p_value in enumerate(p_values)).values())


def _joined(checks: Sequence[JointCheck]) -> JointCheck | None:
    """Return the test of all columns with the smallest p-value, which counts how many there are."""
    if not checks:
        return None
    worst = min(checks, key=lambda check: check.p_value)
    return replace(worst, p_value=_smallest([check.p_value for check in checks]))


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


def _why_untestable(profile: Profile) -> str:
    if profile.shares_images:
        return (
            "it fits these features exactly, whatever the images (strata of the features "
            "themselves); name others by features=[…]"
        )
    return "no image could have come from more than one source"


def _message(p_value: float, checks: Sequence[FeatureCheck], joint: JointCheck | None) -> str:
    together = "" if joint is None else ", by themselves and together"
    if p_value >= OBJECTION:
        return (
            f"The sources look as the bias model expects (p = {p_value:.2g} over {len(checks)} "
            f"column{'s' if len(checks) != 1 else ''}{together}). That says nothing about c(z)."
        )
    return f"The bias model does not describe the sources (p = {p_value:.2g}): " + _where_it_is_off(
        checks, joint
    )


def _where_it_is_off(checks: Sequence[FeatureCheck], joint: JointCheck | None) -> str:
    """Write where the model is off most: a feature, or a product of two."""
    worst = min(checks, key=lambda check: (check.p_value, -check.statistic), default=None)
    if worst is None or (joint is not None and joint.p_value < worst.p_value):
        assert joint is not None
        return (
            f"{joint.place} of `{joint.source}` is off most, which no column shows by itself: its "
            f"mean is {abs(joint.excess):.3f} {'above' if joint.excess > 0 else 'below'} what the "
            "model expects."
        )
    return (
        f"{worst.feature} of `{worst.source}` is off most, at {worst.place} its share of images is "
        f"{abs(worst.excess):.3f} {'above' if worst.excess > 0 else 'below'} what the model "
        "expects."
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a fit, those of the target's sample included."""

    frame: pd.DataFrame
    profile: Profile
    unit: Ints | None
    names: tuple[str, ...]


def _rows(pool: Pool, weights: Weights) -> _Rows:
    if weights.estimation is not None:
        data, rows = weights.estimation.fitted.data, weights.estimation.rows
        if len(pool) != len(weights.estimation.pool) or not holds_ids(pool.frame["id"], weights):
            raise DataError(
                "pool and weights hold different images, or another order; pass the pool that was "
                "weighed.",
                count=len(pool),
                limit=len(weights.estimation.pool),
            )
        return _Rows(data.frame, rows.profile, rows.unit, rows.names)
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
        log_nk,
        np.zeros((1, len(weights.names))),
        source_n,
        np.zeros(source_n.size, dtype=np.int64),
        design=weights.design_weight,
    )
    return _Rows(pool.frame, profile, weights.unit, weights.names)


def _columns(frame: pd.DataFrame, model: Bias | None, features: Sequence[str] | None) -> list[str]:
    if features is not None:
        return expand_features(frame, features)
    read = [] if model is None else [name for part in model.parts for name in part.columns]
    if read:
        names = expand_features(frame, list(dict.fromkeys(read)))
        return names + (["label"] if "label" in frame.columns and "label" not in names else [])
    return [str(name) for name in frame.columns if name not in _ROLES]
