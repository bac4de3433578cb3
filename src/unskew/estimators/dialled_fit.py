"""A scikit-learn estimator fitted in one of the ways: checked, or chosen by trials on held-out
images.
"""

from __future__ import annotations

import warnings
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
from unskew.learn.ways import LEAST_ESS, HeldOutHits, WayChoice, check_way, choose_way, too_few
from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size
from unskew.records.levels import level_text
from unskew.splits.folds import deal_folds, find_copies, join_units

# Mean weights of classes whose logarithms differ by less are the same.
_SAME = 1e-9


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
    weight : (n,) what it learned from; their sum is that of the target weights.
    logit_shift : (M,) in the order of its classes, to be subtracted from its log probabilities;
        None where nothing is.
    choice : the way, and why.
    """

    estimator: Any
    weight: Floats = field(repr=False)
    logit_shift: Floats | None
    choice: WayChoice

    @property
    def model(self) -> Any:
        """What predicts on the target."""
        return target_model(self.estimator, self.logit_shift)


def target_model(estimator: Any, logit_shift: Floats | None) -> Any:
    """Return the fitted estimator with its shift undone."""
    if logit_shift is None or not np.any(logit_shift):
        return estimator
    names = tuple(level_text(value) for value in np.asarray(estimator.classes_).tolist())
    return AdjustedClassifier(estimator, names, logit_shift)


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


def fit_in_way(
    estimator: Any,
    images: WeighedImages,
    way: Way,
    *,
    seed: int = 0,
    fit_params: Mapping[str, Any] | None = None,
) -> DialledFit:
    """Fit a clone of ``estimator`` in a way that `check_estimator_way` accepted.

    "auto" tries out "half" and one other way on 50% of the images (units whole, sources and classes
    in their shares), judges them on the others by their target weights, and leaves the choice to
    `choose_way`. A trial costs less than the fit on all images, so that with two of them the cost
    is less than that of three fits, also of learners whose cost hardly depends on the number of
    images. There are no trials where the others are worth fewer than `LEAST_ESS` images, or where
    all ways are the same fit.
    """
    why = why_no_shift(estimator, images.y)
    if way != "auto":
        choice = WayChoice(way, None, f"{way}: asked for.")
    elif why:
        choice = WayChoice("weights", None, f"weights: {why}.")
    else:
        choice = _choose(estimator, images, seed, fit_params or {})
    return _fit_at(estimator, images, choice, fit_params or {})


def _fit_at(
    estimator: Any, images: WeighedImages, choice: WayChoice, fit_params: Mapping[str, Any]
) -> DialledFit:
    if choice.tau == 0.0:
        fitted = fit_weighted(estimator, images.X, images.y, images.weight, fit_params)
        return DialledFit(fitted, images.weight, None, choice)
    names, label_n = images.classes()
    dialled = turn_dial(images.weight, label_n, len(names), choice.tau, count_n=images.count)
    # The penalty of an estimator is relative to the sum of the weights.
    weight_n = dialled.weight * (images.weight.sum() / dialled.weight.sum())
    fitted = fit_weighted(estimator, images.X, images.y, weight_n, fit_params)
    shift_m = offset_of(fitted.classes_, names, dialled.logit_shift)
    return DialledFit(fitted, weight_n, shift_m, choice)


def _choose(
    estimator: Any, images: WeighedImages, seed: int, fit_params: Mapping[str, Any]
) -> WayChoice:
    names, label_n = images.classes()
    whole = turn_dial(images.weight, label_n, len(names), 1.0, count_n=images.count)
    if np.abs(whole.logit_shift).max() < _SAME:
        reason = "weights: every class has the same mean weight, so that all ways are the same fit."
        return WayChoice("weights", None, reason)
    unit_n = join_units(
        label_n.size, images.group, find_copies(images.X) if images.keep_copies else None
    )
    judging_n = np.zeros(label_n.size, dtype=bool)
    if unit_n.any():  # more than one unit
        stratum_n = images.source * len(names) + label_n
        judging_n = deal_folds(unit_n, stratum_n, 2, seed) == 0
    train, judge = np.flatnonzero(~judging_n), np.flatnonzero(judging_n)
    weight_u = np.bincount(unit_n[judge], weights=images.weight[judge])
    ess = effective_size(weight_u.astype(np.float64))
    if ess < LEAST_ESS:
        return WayChoice("half", None, too_few(ess), ess=ess)
    ways: tuple[Way, ...] = ("half", _rival(images, np.exp(-whole.logit_shift)[label_n]))
    try:
        hits = [_hits(estimator, images, way, train, judge, fit_params) for way in ways]
    except ValueError as error:
        # As of a search inside that needs more images of a class; a mistake is met again.
        reason = f"half, the starting point: a trial on {train.size} images failed: {error}"
        return WayChoice("half", None, reason, ess=ess)
    tau_c = np.array([TAUS[way] for way in ways])
    judged = HeldOutHits(
        tau_c, np.full(tau_c.size, np.nan), np.array(hits), images.weight[judge], unit_n[judge]
    )
    return choose_way(judged, seed=seed)


def _rival(images: WeighedImages, factor_n: Floats) -> Way:
    """Return the way that may beat "half"; ``factor_n`` is a(y_i).

    Bayes' rule moves the shares of the classes for any model, so that where the weights are mostly
    the label's, more of them can move into the logits. Where they are mostly something else's, the
    classes themselves look different on the target, and only weights say how.
    """
    used = images.weight > 0
    count_n = np.ones(factor_n.size) if images.count is None else images.count
    weight_n = images.weight[used] / count_n[used]
    weight_n = weight_n / np.average(weight_n, weights=count_n[used])
    of_label = float(count_n[used] @ np.square(factor_n[used] - 1.0))
    return (
        "logit" if 2.0 * of_label > float(count_n[used] @ np.square(weight_n - 1.0)) else "weights"
    )


def _hits(
    estimator: Any,
    images: WeighedImages,
    way: Way,
    train: Ints,
    judge: Ints,
    fit_params: Mapping[str, Any],
) -> Any:
    """Return whether a trial on the images ``train`` is right on each of ``judge``."""
    from sklearn.utils.validation import _check_method_params

    other = images.take(judge)
    some_params = _check_method_params(images.X, dict(fit_params), indices=train)
    # What a trial warns of, the fit on all images warns of, too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = _fit_at(estimator, images.take(train), WayChoice(way, None, ""), some_params)
        predicted_m = np.asarray(trial.model.predict(other.X)).reshape(-1)
    return predicted_m == np.asarray(other.y).reshape(-1)
