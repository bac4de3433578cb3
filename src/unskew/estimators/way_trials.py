"""Which way suits an estimator: the ends of a line, tried out on half of the images."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special

from unskew.estimators.dialled_fit import DialledFit, WeighedImages, fit_at, why_no_shift
from unskew.learn.logit_calibration import fit_logit_calibration
from unskew.learn.presets import Way
from unskew.learn.sklearn_fit import AdjustedClassifier
from unskew.learn.ways import LEAST_ESS, WayChoice, WayScore, few_judge
from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size
from unskew.records.levels import level_text
from unskew.splits.folds import deal_folds, find_copies, join_units

# Weights that differ by less are the same.
_SAME = 1e-9
# What a probability of 0, as of a forest, counts as where logits are calibrated.
_NEVER = 1e-3
# The logits are multiplied only where that makes the held-out log loss smaller by so many standard
# errors: the trials learned from half of the images, and were a little too sure of themselves.
_CLEARLY = 2.0
# Of the gains, for the score that is corrected for the choice.
_DRAWS = 2000


def fit_in_way(
    estimator: Any,
    images: WeighedImages,
    way: Way,
    *,
    seed: int = 0,
    fit_params: Mapping[str, Any] | None = None,
) -> DialledFit:
    """Fit a clone of ``estimator`` in a way that `check_estimator_way` accepted.

    "auto" tries out the two ends of a line on 50% of the images (units whole, sources and classes
    in their shares), and judges them on the others by their target weights; without a winner it
    takes the middle. A trial costs less than the fit on all images, so that with two of them the
    cost is less than that of three fits, also of learners whose cost hardly depends on the number
    of images. There are no trials where the others are worth fewer than `LEAST_ESS` images, or
    where all weights are equal. The trials stay in the predictions of a model without coefficients,
    such as trees, unless their mean is clearly worse than the better one.
    """
    why, fit_params = why_no_shift(estimator, images.y), fit_params or {}
    if way != "auto":
        return fit_at(estimator, images, WayChoice(way, None, f"{way}: asked for."), fit_params)
    if why:
        return fit_at(estimator, images, WayChoice("weights", None, f"weights: {why}."), fit_params)
    choice, scale, trials = _choose(estimator, images, seed, fit_params)
    fitted = fit_at(estimator, images, choice, fit_params)
    if any(not np.array_equal(trial.classes_, fitted.estimator.classes_) for trial in trials):
        trials = ()
    if trials:
        choice = replace(choice, reason=f"{choice.reason} Both trials are averaged in.")
    return replace(fitted, choice=choice, logit_scale=scale, trials=trials)


def _choose(
    estimator: Any, images: WeighedImages, seed: int, fit_params: Mapping[str, Any]
) -> tuple[WayChoice, float, tuple[Any, ...]]:
    """Return the choice, what the logits are to be multiplied by, and trials to be averaged in."""
    used, count_n = images.weight > 0, images.counts
    if np.ptp(np.log(images.weight[used] / count_n[used])) < _SAME:
        reason = "weights: they are equal, and all ways the same fit."
        return WayChoice("weights", None, reason), 1.0, ()
    names, label_n = images.classes()
    line = _line(images, label_n, len(names))
    unit_n = join_units(
        label_n.size, images.group, find_copies(images.X) if images.keep_copies else None
    )
    judging_n = np.zeros(label_n.size, dtype=bool)
    if unit_n.any():  # more than one unit
        judging_n = deal_folds(unit_n, images.source * len(names) + label_n, 2, seed) == 0
    train, judge = np.flatnonzero(~judging_n), np.flatnonzero(judging_n)
    judges = replace(images.take(judge), group=unit_n[judge])
    ess = _worth(images.weight, label_n, unit_n, judge)
    if ess < LEAST_ESS:
        return _untried(line.untried, few_judge(ess), ess), 1.0, ()
    try:
        first, second = (
            _try_out(estimator, images, end, train, judges, fit_params)
            for end in (line.weights, line.other)
        )
    except ValueError as error:
        # As of a search inside that needs more images of a class; a mistake is met again.
        reason = f"a trial on {train.size} images failed: {error}"
        return _untried(line.untried, reason, ess), 1.0, ()
    mean = first.mixed((first.proba_nm + second.proba_nm) / 2.0)
    gains = _Gains.of(judges, first, second, mean)
    winner = int(gains.winner(gains.mean, line.between_classes))
    choice = replace(_describe(judges, line, gains, winner, (first, second), seed), ess=ess)
    if not (_has_coefficients(first.model) or gains.mean_brings_nothing(winner)):
        return choice, mean.logit_scale(judges), (first.model, second.model)
    # Half-way between two linear models are the means of their logits.
    logit_nm = (_logits(first.proba_nm) + _logits(second.proba_nm)) / 2.0
    judged = (first.mixed(scipy.special.softmax(logit_nm, axis=1)), second, first)[winner]
    return choice, judged.logit_scale(judges), ()


def _worth(weight_n: Floats, label_n: Ints, unit_n: Ints, judge: Ints) -> float:
    """Return how many equally weighted units judge: 1/(q² + (1 − q)²/ess), ess that of ``judge``.

    q is the share of the weight of classes that they lack, such as one of a single image: they say
    nothing of that part of the target, which counts as one unit.
    """
    ess = effective_size(np.bincount(unit_n[judge], weights=weight_n[judge]).astype(np.float64))
    seen_n = np.isin(label_n, label_n[judge[weight_n[judge] > 0]])
    lost = float(weight_n[~seen_n].sum() / weight_n.sum())
    return 1.0 / (lost**2 + (1.0 - lost) ** 2 / ess) if ess > 0 and lost > 0 else ess


def _has_coefficients(model: Any) -> bool:
    """Tell whether a model is its coefficients, which a mean of several models has not."""
    from sklearn.pipeline import Pipeline

    inner = getattr(model, "estimator", model) if isinstance(model, AdjustedClassifier) else model
    inner = getattr(inner, "best_estimator_", inner)
    while isinstance(inner, Pipeline):
        inner = inner.steps[-1][1]
    return hasattr(inner, "coef_")


@dataclass(frozen=True)
class _Line:
    """Two ways that are tried, what is between them, and what is taken without a trial.

    ``between_classes``: the ends differ in where the factors of the classes are.
    """

    weights: WayChoice
    other: WayChoice
    middle: WayChoice
    untried: WayChoice
    between_classes: bool


@dataclass(frozen=True, eq=False)
class _Trial:
    """A way on the images that judge: whether it was right, its probabilities, their classes.

    ``label_n`` holds the columns of the true classes; −1 where the trial has not seen the class.
    """

    hit_n: Floats
    proba_nm: Floats
    label_n: Ints
    model: Any

    def mixed(self, proba_nm: Floats) -> _Trial:
        """Return a mixture of this trial and another one."""
        hit_n = (proba_nm.argmax(axis=1) == self.label_n).astype(np.float64)
        return replace(self, hit_n=hit_n, proba_nm=proba_nm)

    @property
    def quadratic_n(self) -> Floats:
        """(n,) 2 p_y − Σ_m p_m²: 1 less the Brier score."""
        own_n = self.proba_nm[np.arange(self.label_n.size), self.label_n]
        own_n = np.where(self.label_n >= 0, own_n, 0.0)
        return np.asarray(2.0 * own_n - np.square(self.proba_nm).sum(axis=1))

    def logit_scale(self, judges: WeighedImages) -> float:
        """Return what makes the probabilities hold on the target; 1 where they nearly do."""
        known = np.flatnonzero((self.label_n >= 0) & (judges.weight > 0))
        proba_nm, label_n = self.proba_nm[known], self.label_n[known]
        logit_nm = _logits(proba_nm)
        weight_n, unit_n = judges.weight[known], judges.group[known]
        fitted = fit_logit_calibration(logit_nm, label_n, weight_n, unit_n, biases=False)
        scale = float(fitted.scale)
        loss_n, before_n = (
            scipy.special.logsumexp(factor * logit_nm, axis=1)
            - factor * logit_nm[np.arange(label_n.size), label_n]
            for factor in (scale, 1.0)
        )
        (gain,), ((variance,),) = _mean_and_covariance([before_n - loss_n], weight_n, unit_n)
        return scale if gain > _CLEARLY * math.sqrt(variance) else 1.0


def _logits(proba_nm: Floats) -> Floats:
    return np.asarray(np.log(np.where(proba_nm > 0, proba_nm, _NEVER)))


def _line(images: WeighedImages, label_n: Ints, n_classes: int) -> _Line:
    """Return what is tried: the ends of one of two lines.

    Where most of the variance of the weights is between classes, "weights" and "logit", with "half"
    between them: shifts keep effective images, and weights are better where the model is wrong.
    Where it is within classes, little can be moved into the logits: weights and equal weights, with
    their square roots between them (Shimodaira 2000). Equal weights are better where the model is
    nearly right, sees what decides about the weights, and these are worth few images.
    """
    used, count_n = images.weight > 0, images.counts
    ratio_n = images.weight[used] / count_n[used]
    ratio_n = ratio_n / np.average(ratio_n, weights=count_n[used])
    count_m, sum_m = (
        np.bincount(label_n[used], weights=part_n, minlength=n_classes)
        for part_n in (count_n[used], count_n[used] * ratio_n)
    )
    of_label = float(count_m @ np.square(sum_m / np.maximum(count_m, _SAME) - 1.0))
    weights = WayChoice("weights", None, "")
    if 2.0 * of_label > float(count_n[used] @ np.square(ratio_n - 1.0)):
        half = WayChoice("half", None, "")
        return _Line(weights, WayChoice("logit", None, ""), half, half, between_classes=True)
    equal, roots = replace(weights, power=0.0), replace(weights, power=0.5)
    return _Line(weights, equal, roots, weights, between_classes=False)


def _untried(start: WayChoice, reason: str, ess: float) -> WayChoice:
    return replace(start, reason=f"{start.way}, the starting point: {reason}.", ess=ess)


def _try_out(
    estimator: Any,
    images: WeighedImages,
    choice: WayChoice,
    train: Ints,
    judges: WeighedImages,
    fit_params: Mapping[str, Any],
) -> _Trial:
    from sklearn.utils.validation import _check_method_params

    some_params = _check_method_params(images.X, dict(fit_params), indices=train)
    # What a trial warns of, the fit on all images warns of, too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit_at(estimator, images.take(train), choice, some_params).model
        predicted_n = np.asarray(model.predict(judges.X)).reshape(-1)
        proba_nm = np.asarray(model.predict_proba(judges.X), dtype=np.float64)
    column = {level_text(value): m for m, value in enumerate(np.asarray(model.classes_).tolist())}
    names, label_n = judges.classes()
    label_n = np.array([column.get(name, -1) for name in names])[label_n]
    hit_n = (predicted_n == np.asarray(judges.y).reshape(-1)).astype(np.float64)
    return _Trial(hit_n, proba_nm, label_n, model)


@dataclass(frozen=True, eq=False)
class _Gains:
    """What the other end gains on weights, and both on their mean; with the covariance.

    (4,) accuracy and Brier score of the other end less those of weights; the Brier scores of
    weights and of the other end less that of the mean.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, judges: WeighedImages, weights: _Trial, other: _Trial, mean: _Trial) -> _Gains:
        values = [
            other.hit_n - weights.hit_n,
            other.quadratic_n - weights.quadratic_n,
            weights.quadratic_n - mean.quadratic_n,
            other.quadratic_n - mean.quadratic_n,
        ]
        return cls(*_mean_and_covariance(values, judges.weight, judges.group))

    @property
    def stderr(self) -> Floats:
        return np.asarray(np.maximum(np.sqrt(np.diag(self.covariance)), _SAME))

    def winner(self, drawn: Floats, between_classes: bool) -> Any:
        """Return 1 where the other end is taken, −1 where weights are, 0 where the middle is.

        An end is better by more than one standard error of the Brier score, and its accuracy is
        not lower. Where the factors of classes are moved, it must be better than the mean of both
        by more than one, too.
        """
        accuracy, brier, of_weights, of_other = np.moveaxis(drawn, -1, 0)
        least = self.stderr[1]
        takes_other, takes_weights = (
            (sign * accuracy >= 0.0)
            & (sign * brier > least)
            & ((on_mean > error) | (not between_classes))
            for sign, on_mean, error in (
                (1.0, of_other, self.stderr[3]),
                (-1.0, of_weights, self.stderr[2]),
            )
        )
        return takes_other * 1 - takes_weights * 1

    def mean_brings_nothing(self, winner: int) -> bool:
        """Tell whether the winner, or the better end, is clearly better than the mean of both.

        Or the same, as of naive Bayes where weights depend on the class alone.
        """
        row = 3 if winner > 0 or (winner == 0 and self.mean[1] > 0) else 2
        return bool(self.mean[row] > self.stderr[row] or self.stderr[row] <= _SAME)


def _describe(
    judges: WeighedImages,
    line: _Line,
    gains: _Gains,
    winner: int,
    trials: tuple[_Trial, _Trial],
    seed: int,
) -> WayChoice:
    """Return the winner, or the middle, in words; with a score corrected for the choice."""
    scores = [float(np.average(trial.hit_n, weights=judges.weight)) for trial in trials]
    gain, error = float(gains.mean[0]), float(gains.stderr[0])
    rows = (
        WayScore("weights", None, scores[0], 0.0, 0.0),
        WayScore(line.other.way, None, scores[1], gain, error, line.other.power),
    )
    other = line.other.name
    sign = -1.0 if winner < 0 else 1.0
    measured = (
        f"accuracy {100 * sign * gain:+.1f} ± {100 * error:.1f} points, Brier score "
        f"{-sign * gains.mean[1]:+.4f} ± {gains.stderr[1]:.4f} on held-out images weighted to the "
        "target"
    )
    if winner == 0:
        reason = (
            f"{line.middle.name}, between weights and {other}, neither of which is clearly better "
            f"({other} against weights: {measured})."
        )
        return replace(line.middle, reason=reason, scores=rows)
    # How much higher the accuracy of the winner is on the images that it won on, had the gains
    # been drawn about those seen; times √2 as in `choose_way`.
    drawn_r4 = np.random.default_rng(seed).multivariate_normal(
        gains.mean, gains.covariance, _DRAWS, method="eigh"
    )
    luck_r = (drawn_r4[:, 0] - gain) * gains.winner(drawn_r4, line.between_classes) / 2.0
    score = scores[winner > 0] - math.sqrt(2.0) * max(float(np.mean(luck_r)), 0.0)
    if winner > 0:
        reason = f"{other}, better than weights: {measured}."
        return replace(line.other, reason=reason, scores=rows, score=score)
    reason = f"weights, better than {other}: {measured}."
    return replace(line.weights, reason=reason, scores=rows, score=score)


def _mean_and_covariance(
    values: Sequence[Floats], weight_n: Floats, unit_n: Ints
) -> tuple[Floats, Floats]:
    """Return the weighted means and their covariance over units, the weights taken as given."""
    code_n = np.unique(unit_n, return_inverse=True)[1]
    share_n = weight_n / weight_n.sum()
    value_cn = np.stack(values)
    mean_c = value_cn @ share_n
    pull_cu = np.stack(
        [np.bincount(code_n, weights=share_n * pull_n) for pull_n in value_cn - mean_c[:, None]]
    ).astype(np.float64)
    return mean_c, pull_cu @ pull_cu.T
