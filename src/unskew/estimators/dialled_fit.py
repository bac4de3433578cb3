"""A scikit-learn estimator fitted in one of the ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.target_weights import TargetWeights
from unskew.learn.dial import turn_dial
from unskew.learn.presets import TAUS, Way
from unskew.learn.sklearn_fit import AdjustedClassifier, offset_of
from unskew.learn.sklearn_routing import fit_weighted
from unskew.learn.ways import WayChoice, check_way
from unskew.records import Floats, Ints
from unskew.records.levels import level_text

# What the trials count for where they are averaged in; between 25% and 40% it hardly matters.
_OF_TRIALS = 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class WeighedImages:
    """What an estimator learns from: one entry of each for every image.

    Attributes
    ----------
    X, y : as for ``fit``.
    weight : (n,) target weights.
    count : (n,) the design weights in them, which no way touches: an image of weight 2 is two
        images; None: all 1.
    source : (n,) codes.
    group : (n,) the same entry for images that are not independent; or None.
    keep_copies : images with identical X belong together, too.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: Floats = field(repr=False)
    count: Floats | None = field(repr=False)
    source: Ints = field(repr=False)
    group: Any = field(repr=False, default=None)
    keep_copies: bool = True

    @property
    def counts(self) -> Floats:
        """(n,) how many images each row is."""
        return np.ones(self.weight.size) if self.count is None else self.count

    def take(self, rows: Ints) -> WeighedImages:
        """Return the images ``rows``."""
        from sklearn.utils import _safe_indexing

        def some(values: Any) -> Any:
            return None if values is None else np.asarray(values)[rows]

        return replace(
            self,
            X=_safe_indexing(self.X, rows),
            y=_safe_indexing(self.y, rows),
            weight=self.weight[rows],
            count=some(self.count),
            source=self.source[rows],
            group=some(self.group),
        )

    def classes(self) -> tuple[tuple[str, ...], Ints]:
        """Return the classes as text, and (n,) the code of every image's."""
        values, label_n = np.unique(np.asarray(self.y).reshape(-1), return_inverse=True)
        return tuple(level_text(value) for value in values.tolist()), label_n.astype(np.int64)


def weighed_images(images: GivenImages, weighing: TargetWeights) -> WeighedImages:
    """Return all images with their target weights."""
    design = images.sample_weight
    return WeighedImages(
        images.X,
        images.y,
        weighing.sample_weight,
        None if design is None else np.asarray(design, dtype=np.float64),
        weighing.weights.source.astype(np.int64),
        images.group,
    )


@dataclass(frozen=True, eq=False)
class DialledFit:
    """An estimator fitted with dialled weights.

    Attributes
    ----------
    estimator : fitted.
    weight : (n,) what it learned from; their sum is the number of images that they are worth.
    logit_shift : (M,) in the order of its classes, to be subtracted from its log probabilities;
        None where nothing is.
    choice : the way, and why.
    logit_scale : what the logits are multiplied by afterwards; 1 where nothing was held out.
    trials : models of half of the images that its probabilities are averaged with.
    """

    estimator: Any
    weight: Floats = field(repr=False)
    logit_shift: Floats | None
    choice: WayChoice
    logit_scale: float = 1.0
    trials: tuple[Any, ...] = ()

    @property
    def model(self) -> Any:
        """What predicts on the target."""
        return target_model(self.estimator, self.logit_shift, self.logit_scale, self.trials)


def target_model(
    estimator: Any,
    logit_shift: Floats | None,
    logit_scale: float = 1.0,
    trials: tuple[Any, ...] = (),
) -> Any:
    """Return the fitted estimator with its shift undone, averaged, and its logits multiplied."""
    if trials:
        averaged = AveragedClassifier(target_model(estimator, logit_shift), trials)
        return target_model(averaged, None, logit_scale)
    is_shifted = logit_shift is not None and np.any(logit_shift)
    if not is_shifted and logit_scale == 1.0:
        return estimator
    names = tuple(level_text(value) for value in np.asarray(estimator.classes_).tolist())
    shift_m = logit_shift if is_shifted else np.zeros(len(names))
    return AdjustedClassifier(estimator, names, np.asarray(shift_m), logit_scale)


@dataclass(frozen=True, eq=False)
class AveragedClassifier:
    """Probabilities of a model of all images, and of two of half of them that count for a third."""

    estimator: Any
    trials: tuple[Any, ...]

    @property
    def classes_(self) -> Any:
        """(M,) the classes, the same in all of them."""
        return self.estimator.classes_

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn's scorers what kind of estimator this is."""
        from sklearn.utils import get_tags

        return get_tags(self.estimator)

    def predict_proba(self, X: Any) -> Floats:
        """Return (n, M) averaged probabilities; rows sum to 1."""
        of_trials = [np.asarray(trial.predict_proba(X)) for trial in self.trials]
        return np.asarray(
            (1.0 - _OF_TRIALS) * np.asarray(self.estimator.predict_proba(X))
            + _OF_TRIALS * np.mean(of_trials, axis=0)
        )

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the (n, M) logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> Floats:
        """Return the log odds (n,) of the second of two classes, or the logits (n, M) of more."""
        logit_nm = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return logit_nm[:, 1] - logit_nm[:, 0] if logit_nm.shape[1] == 2 else logit_nm

    def predict(self, X: Any) -> Any:
        """Return the (n,) classes of the highest averaged probability."""
        return np.asarray(self.classes_)[self.predict_proba(X).argmax(axis=1)]


def check_estimator_way(way: Any, estimator: Any, y: Any) -> Way:
    """Return ``way`` if the estimator can learn so; "auto" it always can."""
    why = why_no_shift(estimator, y)
    allowed = ("auto", "weights") if why else ("auto", *TAUS)
    if way == "head":
        why = "a scikit-learn estimator has no last layer of a network that could be fitted again"
    return check_way(way, allowed, why=why)


def why_no_shift(estimator: Any, y: Any) -> str:
    """Say why no part of the weights can move into the logits; "" where it can."""
    from sklearn.base import is_regressor
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.pipeline import Pipeline

    name, last = type(estimator).__name__, estimator
    if is_regressor(estimator):
        return "a regressor has no classes whose logits could be shifted"
    shape = getattr(y, "shape", None) or np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        return "y has several columns, and a shift of the logits is for one"
    if not hasattr(estimator, "predict_proba"):
        return f"{name} has no predict_proba that could be shifted"
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    if isinstance(last, FixedThresholdClassifier | TunedThresholdClassifierCV):
        return f"{type(last).__name__} decides by a threshold of its own, which a shift would undo"
    if any(
        key.endswith("class_weight") and isinstance(value, str)
        for key, value in estimator.get_params().items()
    ):
        return f"{name} balances the classes by class_weight, which a shift would undo"
    return ""


def fit_at(
    estimator: Any, images: WeighedImages, choice: WayChoice, fit_params: Mapping[str, Any]
) -> DialledFit:
    """Fit a clone of ``estimator`` at a position of the dial, the weights taken to a power before.

    The sum of the weights is their effective number (Σ_i w_i)²/Σ_i w_i²/c_i, c_i the images that a
    row counts as: the penalty of an estimator is relative to that sum, and weights that are worth
    few images need more of it. Equal weights stay as they are.
    """
    count_n, weight_n = images.counts, images.weight
    if choice.power != 1.0:
        weight_n = np.where(weight_n > 0, (weight_n / count_n) ** choice.power * count_n, 0.0)
    shift_m = None
    if choice.tau > 0.0:
        names, label_n = images.classes()
        dialled = turn_dial(weight_n, label_n, len(names), choice.tau, count_n=images.count)
        weight_n = dialled.weight
    used = weight_n > 0
    weight_n = weight_n * (weight_n.sum() / np.sum(np.square(weight_n[used]) / count_n[used]))
    fitted = fit_weighted(estimator, images.X, images.y, weight_n, fit_params)
    if choice.tau > 0.0:
        shift_m = offset_of(fitted.classes_, names, dialled.logit_shift)
    return DialledFit(fitted, weight_n, shift_m, choice)
