"""What is expected of each arm on the target: from hits on held-out images to accuracies.

Accuracies are numbers from 0 to 1; in sentences and tables they are points, 0 to 100.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.special

from unskew.engine.arguments import checked
from unskew.errors import DataError, first_few
from unskew.forecasting.cross_fitting import (
    Deal,
    Hits,
    ProbeArm,
    curve_factor_error,
    extrapolate,
    training_variance,
)
from unskew.learn.presets import Way
from unskew.learn.ways import WayChoice
from unskew.records import Estimate, Floats, Ints
from unskew.records.clustered_mean import LEVEL, effective_size, plain_mean

if TYPE_CHECKING:
    import pandas as pd

# "3% of the images carry 60% of the weight"
HEAVY = 0.6

TargetMean = Callable[[Floats], Estimate]


@dataclass(frozen=True)
class ArmForecast:
    """What is expected of one arm.

    Attributes
    ----------
    name : "naive", "debiased", a way to learn from the debiasing weights ("weights", "half",
        "logit"), a baseline, or an arm of the user's.
    accuracy : on the target, of the model trained on all images.
    gain : over naive, with its paired error; None for naive itself.
    held_out : accuracy on the target of the models trained on all folds but one, before the
        learning curve is extrapolated.
    by_class : accuracy within each class that the target has; of images with any number of labels,
        the accuracy of each label.
    worst_class : the class with the lowest of these; the lowest of many uncertain numbers is a
        little too low.
    ess : Kish's effective number of images of the weights that it is trained with.
    way : how it learns from the debiasing weights; None for other arms.
    ridge : of a probe, chosen or given; None for other learners, and where labels differ in it.
    gain_by_label : of several labels, the gain over naive in the accuracy of each.
    """

    name: str
    accuracy: Estimate
    gain: Estimate | None
    held_out: float
    by_class: Mapping[str, Estimate] = field(repr=False)
    worst_class: str
    ess: float
    way: Way | None = None
    ridge: float | None = None
    gain_by_label: Mapping[str, Estimate] = field(repr=False, default_factory=dict)

    @property
    def worst(self) -> Estimate:
        """Accuracy in the worst class."""
        return self.by_class[self.worst_class]


@dataclass(frozen=True, repr=False)
class Forecast:
    """The gain of reweighting, predicted before training.

    Attributes
    ----------
    verdict : "reweight", "don't bother", "don't" or "unclear".
    recommendation : the verdict with its reason, as a sentence.
    gain : accuracy of debiased − accuracy of naive on the target, with paired error.
    arms : every arm, naive and debiased first; then the ways that debiased was chosen from.
    choice : the way and ridge of debiased, and why.
    class_share, class_ess : target share of every class, and the effective number of images behind
        it; of labels, the share of images that have it, and those.
    images, ess, design_effect : n, Kish's 1/Σπ², and their ratio: the factor by which unequal
        weights multiply the variance of a mean.
    ess_units : the same in units that are independent (groups, distinct images); None where images
        are.
    heavy_share : the smallest share of the images that carries 60% of the weight.
    pareto_k : tail index of the weights (above 0.7: averages are unreliable); None where there are
        too few to tell.
    condition : what it is conditional on, the bias model.
    objection : how the sources contradict the bias model, by `unskew.check_fit`; None if they do
        not.
    fit_p_value : of that test; None where nothing can be tested.
    method : how it was computed.
    notes : what else the reader should know.
    learner, n_folds, seed : the settings.
    labels : how many labels an image may have, whose mean all accuracies are; None: it has a class.
    features : what the learner learned from, in words.
    """

    verdict: str
    recommendation: str
    gain: Estimate
    arms: tuple[ArmForecast, ...]
    choice: WayChoice
    class_share: Mapping[str, float]
    class_ess: Mapping[str, float]
    images: int
    ess: float
    design_effect: float
    ess_units: float | None
    heavy_share: float
    pareto_k: float | None
    condition: str
    objection: str | None
    fit_p_value: float | None
    method: str
    notes: tuple[str, ...]
    learner: str
    n_folds: int
    seed: int
    labels: int | None = None
    features: str = ""

    @checked
    def arm(self, name: str) -> ArmForecast:
        """Return the arm of that name."""
        arms = {arm.name: arm for arm in self.arms}
        if name not in arms:
            raise DataError(
                f"there is no arm {name!r}; the arms are {first_few(list(arms), 12)}.",
                value=name,
                allowed=list(arms),
            )
        return arms[name]

    def table(self) -> pd.DataFrame:
        """Tabulate the arms, in points.

        Accuracy with standard error and interval, worst class, gain over naive, effective images.
        """
        import pandas as pd

        return pd.DataFrame([_row(arm) for arm in self.arms])

    def lines(self) -> list[str]:
        """Return the lines that the command line prints."""
        from unskew.forecasting.sentences import forecast_lines

        return forecast_lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts for JSON; what is not a finite number is None."""
        values: dict[str, Any] = finite({**asdict(self), "choice": self.choice.to_dict()})
        return values

    def _repr_html_(self) -> str:
        from unskew.report.notebook import forecast_html

        return forecast_html(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        from unskew.forecasting.sentences import summarize_forecast

        return summarize_forecast(self)


def _row(arm: ArmForecast) -> dict[str, Any]:
    low, high = arm.accuracy.interval
    gain = arm.gain
    return {
        "arm": arm.name,
        "accuracy": 100 * arm.accuracy.value,
        "stderr": 100 * arm.accuracy.stderr,
        "low": 100 * low,
        "high": 100 * high,
        "worst": 100 * arm.worst.value,
        "worst_class": arm.worst_class,
        "gain": math.nan if gain is None else 100 * gain.value,
        "gain_stderr": math.nan if gain is None else 100 * gain.stderr,
        "ess": arm.ess,
        "way": arm.way,
        "ridge": arm.ridge,
    }


def finite(value: Any) -> Any:
    """Replace tuples by lists, and numbers that JSON does not have by None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def share_mean(weight_n: Floats, value_n: Floats, unit_n: Ints, level: float = LEVEL) -> Estimate:
    """Estimate a share as `plain_mean` does, with an interval that holds near 0 and 1, too.

    The interval is that of Clopper and Pearson for x = n* p̂ hits among n* images (Korn & Graubard
    1998), n* = p̂ (1 − p̂)/variance, times the squared ratio of Student's quantiles for the images
    and for the units, and at most Kish's number: exact for images of equal weight. Where all images
    are right, or none, the variance says nothing and n* is Kish's number of units: 8 of 8 give 63%
    to 100%. There the standard error is that of Jeffreys' posterior, Beta(x + ½, n* − x + ½).
    """
    plain = plain_mean(weight_n, value_n, unit_n, level)
    share = min(max(plain.value, 0.0), 1.0)
    unit_weight_u = np.bincount(unit_n, weights=weight_n).astype(np.float64)
    if 0.0 < share < 1.0 and 0.0 < plain.stderr < math.inf:
        free, free_units = (np.count_nonzero(weight) - 1 for weight in (weight_n, unit_weight_u))
        quantile, quantile_units = scipy.special.stdtrit([free, free_units], 0.5 + level / 2)
        # Of independent images, p̂ (1 − p̂)/(n − 1).
        variance = (plain.stderr * quantile_units / quantile) ** 2 * free / (free + 1)
        size = min(share * (1.0 - share) / variance, effective_size(weight_n))
    else:
        size = effective_size(unit_weight_u)
    hits, misses = share * size, (1.0 - share) * size
    tail = (1.0 - level) / 2
    low = float(scipy.special.betaincinv(hits, misses + 1, tail)) if hits > 0 else 0.0
    high = float(scipy.special.betaincinv(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0
    stderr = plain.stderr
    if not 0.0 < stderr < math.inf:
        stderr = math.sqrt((hits + 0.5) * (misses + 0.5) / (size + 2)) / (size + 1)
    return Estimate(share, stderr, (low, high), level)


def widen(estimate: Estimate, further: float) -> Estimate:
    """Add an independent error to an estimate."""
    if further <= 0.0 or not math.isfinite(estimate.stderr):
        return estimate
    stderr = math.hypot(estimate.stderr, further)
    low, high = estimate.interval
    # Student's quantile of the interval, kept for the larger error; the normal one where there was
    # none.
    quantile = (
        (high - low) / (2.0 * estimate.stderr)
        if estimate.stderr > 0
        else float(scipy.special.ndtri(0.5 + estimate.level / 2))
    )
    return Estimate(
        estimate.value,
        stderr,
        (estimate.value - quantile * stderr, estimate.value + quantile * stderr),
        estimate.level,
    )


def shifted(estimate: Estimate, by: float) -> Estimate:
    """Add a number to an estimate."""
    low, high = estimate.interval
    return Estimate(estimate.value + by, estimate.stderr, (low + by, high + by), estimate.level)


def bounded(estimate: Estimate) -> Estimate:
    """Clip an accuracy to [0, 1], which extrapolation may leave."""
    low, high = (min(max(bound, 0.0), 1.0) for bound in estimate.interval)
    return Estimate(
        min(max(estimate.value, 0.0), 1.0), estimate.stderr, (low, high), estimate.level
    )


@dataclass(frozen=True, eq=False)
class HitJudge:
    """What turns hits into accuracies on the target.

    Attributes
    ----------
    weight : (n,) the debiasing weights, sum 1.
    mean : means under them, with errors.
    label, classes : the class of every image, and their names.
    unit : (n,) what is independent.
    deal : the folds.
    """

    weight: Floats = field(repr=False)
    mean: TargetMean = field(repr=False)
    label: npt.NDArray[Any] = field(repr=False)
    classes: Sequence[str]
    unit: Ints = field(repr=False)
    deal: Deal = field(repr=False)

    def accuracy(self, hits: Hits) -> Estimate:
        """Estimate the target mean of v_i, of an arm or of the difference of two.

        The error includes what held-out images alone do not show: how the learning curve goes on,
        on which images a model happened to be trained, and one image more or less: that no image
        changed sides among the m effective ones does not mean that none ever will (1/m², as if one
        more had, either way). What the choice of ridge and way flatters is taken off, and counts as
        an error of that size. Two arms whose models never differ are taken for the same.
        """
        if not (hits.full.any() or hits.half.any() or hits.split.any()):
            return self.mean(hits.full)
        n_folds = self.deal.n_folds
        curve = curve_factor_error(n_folds) * float(self.weight @ (hits.full - hits.half))
        trained = math.sqrt(training_variance(hits, self.weight, self.deal))
        one_more = 1.0 / effective_size(
            np.bincount(self.unit, weights=self.weight).astype(np.float64)
        )
        further = math.hypot(curve, trained, one_more, hits.optimism)
        return shifted(widen(self.mean(extrapolate(hits, n_folds)), further), -hits.optimism)

    def forecast(self, arm: ProbeArm, hits: Hits, naive: Hits | None) -> ArmForecast:
        """Estimate one arm's accuracy, overall and by class, and its gain over ``naive``.

        ``naive`` is None for naive itself.
        """
        gap = None if naive is None else hits.minus(naive)
        by_class, gain_by_label = dict[str, Estimate](), dict[str, Estimate]()
        if hits.labels:
            pairs = zip(self.classes, hits.labels, strict=True)
            by_class = {name: bounded(self.accuracy(own)) for name, own in pairs}
            gaps = zip(self.classes, gap.labels if gap is not None else (), strict=gap is not None)
            gain_by_label = {name: self.accuracy(own) for name, own in gaps}
        else:
            value_n = extrapolate(hits, self.deal.n_folds)
            by_class = class_accuracies(value_n, self.weight, self.label, self.classes, self.unit)
        return ArmForecast(
            name=arm.name,
            accuracy=bounded(self.accuracy(hits)),
            gain=None if gap is None else self.accuracy(gap),
            held_out=float(self.weight @ hits.full),
            by_class=by_class,
            worst_class=min(by_class, key=lambda name: by_class[name].value),
            ess=effective_size(arm.weight),
            way=arm.way,
            ridge=arm.ridge,
            gain_by_label=gain_by_label,
        )


def class_accuracies(
    value_n: Floats,
    weight_n: Floats,
    label_n: Ints,
    classes: Sequence[str],
    unit_n: Ints,
    level: float = LEVEL,
) -> dict[str, Estimate]:
    """Estimate the accuracy within every class of positive weight, given the weights."""
    by_class = {}
    for code, name in enumerate(classes):
        own = np.flatnonzero((label_n == code) & (weight_n > 0))
        if own.size:
            unit_m = np.unique(unit_n[own], return_inverse=True)[1]
            share_m = weight_n[own] / weight_n[own].sum()
            by_class[name] = share_mean(share_m, value_n[own], unit_m, level)
    return by_class


def heavy_share(weight_n: Floats, carried: float = HEAVY) -> float:
    """Return the smallest share of the images that carries the share ``carried`` of the weight.

    It is ``carried`` itself iff all weights are equal.
    """
    falling_n = np.sort(weight_n)[::-1]
    # 1e-12, so that rounding does not ask for one image more.
    count = int(np.searchsorted(np.cumsum(falling_n), (carried - 1e-12) * falling_n.sum())) + 1
    return min(count, weight_n.size) / weight_n.size
