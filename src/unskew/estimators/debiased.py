"""The scikit-learn door: `DebiasedClassifier` and `DebiasedRegressor`.

Their base classes are scikit-learn's, which this file therefore loads; `unskew` itself loads this
file only when one of them is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from unskew.engine.arguments import (
    AnyTable,
    AnyValues,
    Numbers,
    OpenShare,
    ShareAboveZero,
    check_arguments,
    checked,
)
from unskew.engine.frames import read_frame
from unskew.errors import ConfigError, wrong_option
from unskew.estimators.dialled_fit import check_estimator_way, target_model, weighed_images
from unskew.estimators.held_out import cross_fit_scores
from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.record_params import RecordParams
from unskew.estimators.target_score import find_scorer, score_images, warn_if_not_the_target
from unskew.estimators.target_weights import TargetWeights, draw_seed, weigh_images
from unskew.estimators.way_trials import fit_in_way
from unskew.learn.presets import Way
from unskew.records import Estimate, Target


def _inner_has(method: str) -> Any:
    def check(self: _Debiased) -> bool:
        # The error of the inner estimator says why it lacks the method.
        getattr(self.estimator_ if hasattr(self, "estimator_") else self._inner(), method)
        return True

    return check


class _Debiased(MetaEstimatorMixin, RecordParams, BaseEstimator):  # type: ignore[misc]
    """What the two estimators share; each adds a mixin and its default inner estimator."""

    # What only debiasing reads is routed here without being asked for.
    __metadata_request__fit = {"source": True, "group": True, "attributes": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any = None,
        bias: Any = None,
        target: Target | None = None,
        way: Way = "auto",
        *,
        moments: Mapping[str, Any] | None = None,
        max_uncovered: ShareAboveZero = 0.2,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.bias = bias
        self.target = target
        self.way = way
        self.moments = moments
        self.max_uncovered = max_uncovered
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _default_estimator(self) -> Any:
        raise NotImplementedError

    def _inner(self) -> Any:
        return self._default_estimator() if self.estimator is None else self.estimator

    @checked
    def fit(
        self,
        X: AnyTable,
        y: AnyValues,
        *,
        source: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: Numbers | None = None,
        attributes: AnyTable = None,
        **fit_params: Any,
    ) -> Self:
        """Compute the debiasing weights, then fit a clone of ``estimator`` with them, in its way.

        Parameters
        ----------
        X : (n, p) what the model learns from; the columns of a DataFrame, or x_0, x_1, … of an
            array, may be named by the bias model.
        y : (n,) the column "label" of the bias model and the target; of a classifier its values are
            classes, also where they are numbers.
        source : (n,) the database of every image; None: all come from one.
        group : (n,) images of one group (patient, burst) are not independent.
        sample_weight : (n,) design weights: inverse chances with which the source drew the images.
            They enter the fit of the bias model, and the weights contain them; 0 leaves an image
            out.
        attributes : DataFrame (or dict of arrays) with columns that the bias model and the target
            may name and the model does not see.
        **fit_params : for ``fit`` of the inner estimator; with metadata routing enabled, what it
            requested.
        """
        from sklearn import get_config
        from sklearn.utils.metadata_routing import process_routing

        self._check_settings()
        # Nothing but the names and the number of features is checked here: what X may hold is the
        # inner estimator's business.
        validate_data(self, X, "no_validation" if y is None else y, skip_check_array=True)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        check_consistent_length(X, y)
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        way = check_estimator_way(self.way, self._inner(), y)
        images = GivenImages(X, y, source, group, sample_weight, attributes)
        seed = draw_seed(self.random_state)
        weighing = self._weigh(images, seed)
        fitted = fit_in_way(
            self._inner(), weighed_images(images, weighing), way, seed=seed, fit_params=fit_params
        )
        self.estimator_ = fitted.estimator
        self.way_ = fitted.choice
        self.sample_weight_ = fitted.weight
        self.logit_shift_ = fitted.logit_shift
        self.logit_scale_ = fitted.logit_scale
        self.trials_ = fitted.trials
        self.weights_ = weighing.weights
        self.calibration_ = weighing.calibration
        self.source_names_ = weighing.weights.names
        return self

    def _check_settings(self) -> None:
        """Refuse what is no setting; and a regressor in a classifier, or the reverse."""
        from sklearn.base import is_classifier, is_regressor

        check_arguments(type(self).__init__, self.get_params(False), type(self).__name__)
        if isinstance(self._inner(), type) or not hasattr(self._inner(), "fit"):
            raise wrong_option("estimator is a scikit-learn estimator", estimator=self._inner())
        is_other, kind, door = (
            (is_regressor, "regressor", "Regressor")
            if is_classifier(self)
            else (is_classifier, "classifier", "Classifier")
        )
        if is_other(self._inner()):
            raise ConfigError(
                f"{type(self._inner()).__name__} is a {kind}; wrap it in Debiased{door}, not in "
                f"{type(self).__name__}.",
                option="estimator",
                value=type(self._inner()).__name__,
            )

    def _weigh(self, images: GivenImages, seed: int) -> TargetWeights:
        from sklearn.base import is_classifier

        images = replace(images, has_classes=is_classifier(self))
        return weigh_images(
            images,
            self.bias,
            self.target,
            self.moments,
            max_uncovered=self.max_uncovered,
            seed=seed,
        )

    @checked
    def target_score(
        self,
        X: AnyTable,
        y: AnyValues,
        source: npt.ArrayLike | None = None,
        *,
        group: npt.ArrayLike | None = None,
        sample_weight: Numbers | None = None,
        attributes: AnyTable = None,
        scoring: Any = None,
        cv: Any = 5,
        keep_copies_together: bool = True,
        level: OpenShare = 0.95,
    ) -> Estimate:
        """Estimate the score on the target from held-out images of the biased sources.

        With ``cv`` folds the model is trained on all folds but one (with the weights of the whole
        pool; with ``way="auto"`` in the way chosen on these folds, at up to three times the cost)
        and scored on that one; the result is the mean of the folds' scores S_f, each by the
        target weight of its fold. For a score that is a mean over images (accuracy, log loss,
        squared error …) this is Σ_i p_i s_i, s_i the score of image i by the model that has not
        seen it. Any other score (ROC AUC, F1, R² …) is linearised in the weights: s_i = S_f +
        derivative of S_f towards image i (the infinitesimal jackknife). The standard error is that
        of the debiased mean of s_i, with all that goes into it: sources, groups, the estimation of
        the biasing functions.

        It describes these trained models, as the k-fold test error of Bayle et al. (2020) does: how
        much they would differ on other training images is not part of it, and a model fitted to all
        images is usually a little better. A score that does not depend smoothly on the weights (a
        quantile, a maximum; ``neg_median_absolute_error`` is taken care of) has no valid standard
        error.

        Where the weights describe another population than the target (it was restricted to what has
        images by ``uncovered="restrict"``, or the bias model reaches a part of the population only,
        as `Box`, `SoftBox` and `Subpopulation` may), a warning says which.

        Parameters
        ----------
        X, y, source, group, sample_weight, attributes : as for ``fit``.
        scoring : a name, or a callable ``scorer(estimator, X, y, sample_weight=…)``; None:
            accuracy, or R² for a regressor.
        cv : number of folds; a scikit-learn splitter, each image in one test set; or None: the
            fitted estimator is scored on these images, which it must not have seen in ``fit``.
        keep_copies_together : images with identical X are copies of one another and stay in one
            fold, as groups always do. False where equal X does not mean the same image (a few
            coarse features).
        level : of the interval.
        """
        images = GivenImages(X, y, source, group, sample_weight, attributes)
        if cv is None:
            check_is_fitted(self, "estimator_")
        self._check_settings()
        way = check_estimator_way(self.way, self._inner(), y)
        scoring = self._default_scoring if scoring is None else scoring
        find_scorer(scoring)
        seed = draw_seed(self.random_state)
        weighing = self._weigh(images, seed)
        warn_if_not_the_target(weighing)
        model = self._model() if cv is None else self._inner()
        held_out = cross_fit_scores(
            model,
            images,
            weighing,
            cv,
            way=way,
            keep_copies_together=keep_copies_together,
            seed=seed,
            n_jobs=self.n_jobs,
        )
        return score_images(held_out, scoring, weighing, level)

    def _ask(self, method: str, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        # Names only: the inner estimator's messages on shapes say more.
        X = read_frame(X)
        validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
        return getattr(self._model(), method)(X)

    def _model(self) -> Any:
        return target_model(self.estimator_, self.logit_shift_, self.logit_scale_, self.trials_)

    @available_if(_inner_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict on the target."""
        return self._ask("predict", X)

    def get_metadata_routing(self) -> MetadataRouter:
        """Route source, group and attributes here, the rest to the inner estimator.

        sample_weight goes where it is requested.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._inner(), method_mapping=mapping)
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        tags.target_tags.required = True
        tags.no_validation = inner.no_validation
        tags.non_deterministic = inner.non_deterministic
        if tags.classifier_tags is not None and inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
        if tags.regressor_tags is not None and inner.regressor_tags is not None:
            tags.regressor_tags = inner.regressor_tags
        return tags


class DebiasedClassifier(ClassifierMixin, _Debiased):  # type: ignore[misc]
    """A scikit-learn classifier that learns from biased sources as if from the target.

    ``fit`` makes a `Pool` of X, y and source, computes π = `unskew.debias` (pool, bias, target),
    and fits a clone of ``estimator`` with the weights π_i, which contain ``sample_weight``. Their
    sum is the number of images that they are worth, 1/Σ_i π_i²: penalties are relative to it, and
    few images need more. An estimator that would ignore weights is refused. ``score`` is
    scikit-learn's own, on the images it is shown; ``target_score`` estimates the score on the
    target.

    A weight is a(y) · b, a(y) the mean debiasing weight of class y. In the ``way`` "weights" the
    estimator learns from a(y) · b; "logit" from b alone, and its predicted probabilities are
    multiplied by a(y) afterwards (logit adjustment towards the target); "half" from a(y)^½ · b, and
    a(y)^½ afterwards. Design weights always stay weights.

    Parameters
    ----------
    estimator : the classifier, or a pipeline that ends in one; default ``LogisticRegression()``.
    bias : the bias model (`unskew.bias`), naming columns of X or of ``attributes``, or "label".
        None: `Strata` over the attributes of the target; the best of what `unskew.choose_bias`
        proposes where the target is a sample or a source; or, without a target, equal weights for
        images that must then come from one source.
    target : the `Target`, naming the same columns.
    way : "weights", "half", "logit" or "auto" (default). "auto" tries out two ways on 50% of the
        images, and compares their Brier score and accuracy on the target, estimated from the
        remaining images (groups and copies of an image on one side). Where the weights vary mostly
        between classes, these are "weights" and "logit", and it is "half" unless one of them is
        better; else they are the weights and equal weights, and it is the square roots of the
        weights unless one of them is better. The two trials stay in the predictions (``trials_``)
        unless their mean is clearly worse, or the model has coefficients (``coef_``), which would
        then no longer be what predicts. Logits are multiplied by one number (``logit_scale_``)
        where held-out probabilities are clearly too sure or not sure enough.
        Nothing is tried where the remaining images are worth fewer than 300. Three fits at most.
        Without ``predict_proba``, with a threshold or balanced class weights of its own, or with
        several columns of y it is "weights".
    moments : known target means, ``{column: mean}`` or ``{column: {"mean": 41.0, "sd": 12.0}}``, of
        numeric columns ("label" of a regressor among them): the weights are calibrated to them,
        moving as little as possible (`unskew.calibrate_weights`).
    max_uncovered : as for `unskew.debias`.
    random_state : of the bias model's fit (as for `unskew.debias`), and of the folds of
        ``target_score``: a whole number (default 0, so that results are repeatable), a
        numpy.random.RandomState, which every fit and score advances, or None, NumPy's global one.
        The inner estimator has its own.
    n_jobs : how many models ``target_score`` trains at the same time: None is one (or what
        joblib.parallel_config says), −1 as many as there are cores. Results do not depend on it.

    Attributes
    ----------
    estimator_ : the fitted inner estimator.
    way_ : the way, and why (``way_.reason``, ``way_.scores``); ``way_.power`` is 1, ½ for square
        roots of the weights, 0 for equal ones.
    weights_ : the debiasing `Weights`, with diagnosis and standard errors.
    calibration_ : what the moments did to them; None without moments.
    sample_weight_ : (n,) the weights that the inner estimator learned from: debiasing weights, with
        design weights in them, calibrated, to the power ``way_.power``; in the ways "half" and
        "logit" divided by a(y)^½ or a(y). Their sum is the number of images that they are worth.
    logit_shift_ : (M,) subtracted from the log probabilities of ``estimator_`` in every prediction,
        in the order of ``classes_``; None where nothing is. ``estimator_`` alone predicts for the
        images as they were weighted, not for the target.
    logit_scale_ : what the logits are multiplied by after that, the inverse of a temperature: it
        changes probabilities and no prediction; 1.0 where nothing is.
    trials_ : the two models of half of the images that count for a third of the predicted
        probabilities; empty where ``estimator_`` predicts alone.
    source_names_ : names of the sources.
    classes_ : the classes.
    n_features_in_, feature_names_in_ : number of columns of X, and their names where they are all
        text.

    Examples
    --------
    >>> import numpy as np, unskew
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 0, 1], [900, 100, 300, 700])
    >>> X = y[:, None] + rng.standard_normal((2000, 1))
    >>> source = np.repeat(["day", "night"], 1000)
    >>> target = unskew.Target.margins({"label": {0: 0.2, 1: 0.8}})
    >>> model = unskew.DebiasedClassifier(target=target).fit(X, y, source=source)
    >>> round(float(model.weights_.mean(y).value), 6), bool(model.predict([[0.5]])[0])
    (0.8, True)
    """

    _default_scoring = "accuracy"

    def _default_estimator(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()

    @property
    def classes_(self) -> Any:
        """The classes, as the fitted inner estimator knows them."""
        return self.estimator_.classes_

    @available_if(_inner_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities on the target: ``estimator_``'s, shifted and scaled."""
        return self._ask("predict_proba", X)

    @available_if(_inner_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithms of ``predict_proba``."""
        return self._ask("predict_log_proba", X)

    @available_if(_inner_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Compute decision values that agree with ``predict``.

        Those of the inner estimator or, where probabilities are shifted, the log odds of the second
        of two classes, and the logits of more than two (`unskew.learn.AdjustedClassifier`).
        """
        return self._ask("decision_function", X)


class DebiasedRegressor(RegressorMixin, _Debiased):  # type: ignore[misc]
    """A regressor that learns from biased sources as if from the target.

    It wraps any scikit-learn regressor, and fits it with debiasing weights.

    As `DebiasedClassifier`. What is known about the numeric label enters by bins,
    ``Target.margins({"label": …}, bins={"label": edges})``, or by ``moments={"label": {"mean": …,
    "sd": …}}``.

    Parameters
    ----------
    estimator : the regressor, or a pipeline that ends in one; default ``Ridge()``.
    bias, target, moments, max_uncovered, random_state, n_jobs : as for `DebiasedClassifier`.
    way : "auto" or "weights", which are the same: a regressor has no logits.

    Attributes
    ----------
    estimator_, way_, weights_, calibration_, sample_weight_, source_names_, n_features_in_,
        feature_names_in_ : as for `DebiasedClassifier`.

    Examples
    --------
    >>> import numpy as np, unskew
    >>> X = np.arange(12.0)[:, None]
    >>> model = unskew.DebiasedRegressor(moments={"label": 15.0}).fit(X, 2.0 * X[:, 0])
    >>> round(model.calibration_.means["label: mean"], 9), round(model.calibration_.ess_after, 2)
    (15.0, 8.82)
    """

    _default_scoring = "r2"

    def _default_estimator(self) -> Any:
        from sklearn.linear_model import Ridge

        return Ridge()
