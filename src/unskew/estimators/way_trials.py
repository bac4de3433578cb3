"""Which way suits an estimator: two of them tried out on half of the images."""

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
from unskew.learn.ways import LEAST_ESS, WayChoice, WayScore
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

    "auto" tries out two ways on 50% of the images (units whole, sources and classes in their
    shares), and judges them on the others by their target weights. A trial costs less than the fit
    on all images, so that with two of them the cost is less than that of three fits, also of
    learners whose cost hardly depends on the number of images. There are no trials where the others
    are worth fewer than `LEAST_ESS` images, or where all weights are equal. Where the mean of the
    two trials is clearly better than the one that is taken, as it is for trees, both stay in the
    predictions.
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
    return replace(fitted, logit_scale=scale, trials=trials)


def _choose(
    estimator: Any, images: WeighedImages, seed: int, fit_params: Mapping[str, Any]
) -> tuple[WayChoice, float, tuple[Any, ...]]:
    """Return the choice, what the logits are to be multiplied by, and trials to be averaged in."""
    used, count_n = images.weight > 0, images.counts
    if np.ptp(np.log(images.weight[used] / count_n[used])) < _SAME:
        reason = "weights: they are equal, and all ways the same fit."
        return WayChoice("weights", None, reason), 1.0, ()
    names, label_n = images.classes()
    start, rival = _candidates(images, label_n, len(names))
    unit_n = join_units(
        label_n.size, images.group, find_copies(images.X) if images.keep_copies else None
    )
    judging_n = np.zeros(label_n.size, dtype=bool)
    if unit_n.any():  # more than one unit
        judging_n = deal_folds(unit_n, images.source * len(names) + label_n, 2, seed) == 0
    train, judge = np.flatnonzero(~judging_n), np.flatnonzero(judging_n)
    judges = replace(images.take(judge), group=unit_n[judge])
    ess = effective_size(np.bincount(unit_n[judge], weights=judges.weight).astype(np.float64))
    if ess < LEAST_ESS:
        reason = (
            f"the held-out images are worth {ess:.0f} equally weighted ones, and a choice needs "
            f"{LEAST_ESS:.0f}"
        )
        return _untried(start, reason, ess), 1.0, ()
    try:
        tried = [
            _try_out(estimator, images, way, train, judges, fit_params) for way in (start, rival)
        ]
    except ValueError as error:
        # As of a search inside that needs more images of a class; a mistake is met again.
        reason = f"a trial on {train.size} images failed: {error}"
        return _untried(start, reason, ess), 1.0, ()
    choice = replace(_compare(judges, tried[0], tried[1], seed), ess=ess)
    taken = tried[(choice.way, choice.power) == (rival.way, rival.power)]
    mean = _average(tried[0], tried[1])
    if mean is None or not _is_clear(*_gains(judges, taken, mean)):
        return choice, taken.logit_scale(judges), ()
    reason = f"{choice.reason} Both trials are averaged in: their mean is clearly better than one."
    return (
        replace(choice, reason=reason),
        mean.logit_scale(judges),
        tuple(trial.model for trial in tried),
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """A way on the images that judge: whether it was right, its probabilities, their classes.

    ``label_n`` holds the columns of the true classes; −1 where the trial has not seen the class.
    """

    choice: WayChoice
    hit_n: Floats
    proba_nm: Floats
    label_n: Ints
    model: Any

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
        logit_nm = np.log(np.where(proba_nm > 0, proba_nm, _NEVER))
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


def _average(start: _Trial, rival: _Trial) -> _Trial | None:
    """Return the mean of two trials; None where they know other classes."""
    if not np.array_equal(start.model.classes_, rival.model.classes_):
        return None
    proba_nm = (start.proba_nm + rival.proba_nm) / 2.0
    hit_n = (proba_nm.argmax(axis=1) == start.label_n).astype(np.float64)
    return replace(start, hit_n=hit_n, proba_nm=proba_nm)


def _candidates(
    images: WeighedImages, label_n: Ints, n_classes: int
) -> tuple[WayChoice, WayChoice]:
    """Return where the choice starts, and what is tried beside it.

    Where most of the variance of the weights is between classes, "half": moving a part of it into
    the logits keeps effective images, and costs least where the model is wrong; there "weights" are
    better. Where it is within classes, little can be moved: "weights", and equal weights are better
    where the model is nearly right and the weights are worth few images.
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
        return WayChoice("half", None, ""), weights
    return weights, replace(weights, power=0.0)


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
    return _Trial(choice, hit_n, proba_nm, label_n, model)


def _compare(judges: WeighedImages, start: _Trial, rival: _Trial, seed: int) -> WayChoice:
    """Take the rival if its Brier score is clearly better and its accuracy not lower.

    Equal weights are right for a model that is, and sees what decides about them; where they are
    neither clearly better nor clearly worse than the weights, the middle is taken, the square roots
    (Shimodaira 2000).
    """
    gain_2, covariance_22 = _gains(judges, start, rival)
    stderr_2 = _errors(covariance_22)
    score, other = (
        float(np.average(trial.hit_n, weights=judges.weight)) for trial in (start, rival)
    )
    rows = tuple(
        WayScore(trial.choice.way, None, *numbers, trial.choice.power)
        for trial, numbers in (
            (start, (score, 0.0, 0.0)),
            (rival, (other, float(gain_2[0]), float(stderr_2[0]))),
        )
    )
    measured = (
        f"accuracy {100 * gain_2[0]:+.1f} ± {100 * stderr_2[0]:.1f} points, Brier score "
        f"{-gain_2[1]:+.4f} ± {stderr_2[1]:.4f} on held-out images weighted to the target"
    )
    # How much higher the accuracy of the choice is on the images that it was made on, had the
    # gains been drawn about those seen; times √2 as in `choose_way`.
    drawn_r2 = np.random.default_rng(seed).multivariate_normal(gain_2, covariance_22, _DRAWS)
    taken_r = _is_clear(drawn_r2, covariance_22)
    flattery = math.sqrt(2.0) * max(float(np.mean((drawn_r2[:, 0] - gain_2[0]) * taken_r)), 0.0)
    if _is_clear(gain_2, covariance_22):
        reason = f"{_name(rival.choice)}, clearly better than {start.choice.way}: {measured}."
        return replace(rival.choice, reason=reason, scores=rows, score=other - flattery)
    if rival.choice.power == 0.0 and (gain_2 >= -stderr_2).all():
        reason = (
            "square roots of the weights: equal weights are neither clearly better nor clearly "
            f"worse than weights: {measured}."
        )
        return replace(start.choice, power=0.5, reason=reason, scores=rows)
    reason = f"{start.choice.way}: {_name(rival.choice)} not clearly better: {measured}."
    return replace(start.choice, reason=reason, scores=rows, score=score - flattery)


def _gains(judges: WeighedImages, start: _Trial, rival: _Trial) -> tuple[Floats, Floats]:
    """Return what the rival gains in accuracy and in the Brier score, and the covariance."""
    gains = [rival.hit_n - start.hit_n, rival.quadratic_n - start.quadratic_n]
    return _mean_and_covariance(gains, judges.weight, judges.group)


def _errors(covariance_22: Floats) -> Floats:
    return np.asarray(np.maximum(np.sqrt(np.diag(covariance_22)), _SAME))


def _is_clear(gain_2: Floats, covariance_22: Floats) -> Any:
    """Tell whether accuracy is not lower, and the Brier score better by more than its error."""
    return (gain_2[..., 0] >= 0.0) & (gain_2[..., 1] > _errors(covariance_22)[1])


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


def _name(choice: WayChoice) -> str:
    return choice.way if choice.power == 1.0 else "equal weights"
