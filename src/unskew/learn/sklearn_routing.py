"""How weights reach the step of a scikit-learn estimator that learns from them, or a refusal when
they would be dropped on the way.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unskew.errors import ConfigError
from unskew.records import Floats


@dataclass(frozen=True)
class WeightPath:
    """The way of the weights: the ``keywords`` of the outermost ``fit`` that take them, and the
    estimators that must learn from them.
    """

    keywords: tuple[str, ...]
    learners: tuple[Any, ...]


def fit_weighted(
    estimator: Any, X: Any, y: Any, weight_n: Floats, fit_params: Mapping[str, Any] | None = None
) -> Any:
    """A clone of ``estimator`` fitted with ``weight_n``, which reach its predictor; `ConfigError`
    where they could not.

    In a pipeline every step that takes weights gets them (a scaler then scales by the target's
    spread), under the names of the steps (``logisticregression__sample_weight``); with metadata
    routing enabled, as ``sample_weight``, unless a step requested not to.
    """
    from sklearn import clone, get_config

    fit_params = fit_params or {}
    fitted = clone(estimator)
    path = find_weight_path(fitted)
    keywords = path.keywords
    if get_config()["enable_metadata_routing"] and len(path.learners) > 1:
        keywords = ("sample_weight",)
        _request_weights(fitted, path)
    twice = [name for name in fit_params if name in (*keywords, *path.keywords)]
    if twice:
        raise ConfigError(
            f"{twice[0]} is set by the debiasing weights; pass your own as sample_weight, and both "
            "are multiplied."
        )
    return fitted.fit(X, y, **dict.fromkeys(keywords, weight_n), **fit_params)


def find_weight_path(estimator: Any) -> WeightPath:
    """Follow pipelines and wrappers down to the predictor; an error that names the step where the
    weights would be lost.
    """
    from sklearn import get_config
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        return _pipeline_path(estimator)
    inner_paths = [find_weight_path(child) for child in _children(estimator)]
    learners = (estimator, *(each for path in inner_paths for each in path.learners))
    is_routed = get_config()["enable_metadata_routing"]
    if _takes_weights(estimator.fit):
        if not is_routed:
            _check_inside(estimator)
        return WeightPath(("sample_weight",), learners)
    if not is_routed and hasattr(estimator, "estimators"):
        for child, path in zip(_children(estimator), inner_paths, strict=True):
            if path.keywords != ("sample_weight",):
                raise _loses_weights(estimator, child)
    if inner_paths and _takes_anything(estimator.fit):
        # Ensembles name the weights alike for all their members; a wrapper of one estimator hands
        # its keywords on as they are.
        return WeightPath(
            ("sample_weight",) if hasattr(estimator, "estimators") else inner_paths[0].keywords,
            learners,
        )
    raise _ignores_weights(estimator)


def _check_inside(estimator: Any) -> None:
    """Without routing, a wrapper that takes weights hands them on as ``sample_weight`` to an
    ``estimator`` that has it, else not at all.
    """
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor
    from sklearn.frozen import FrozenEstimator

    for child in _wrapped(estimator):
        if isinstance(child, FrozenEstimator):
            # It learns nothing more; the weights are for what is learned around it.
            continue
        if _takes_weights(child.fit):
            find_weight_path(child)
        elif not isinstance(estimator, BaggingClassifier | BaggingRegressor):
            # Bagging draws by the weights, or refuses by itself (scikit-learn before 1.8).
            raise _loses_weights(estimator, child)


def _pipeline_path(pipeline: Any) -> WeightPath:
    name, last = pipeline.steps[-1]
    if not hasattr(last, "fit"):
        raise ConfigError(
            f"the last step of the pipeline, {name!r}, is no predictor, so nothing can learn from "
            "the weights."
        )
    inner = find_weight_path(last)
    on_the_way = [
        f"{step}__sample_weight" for step, each in pipeline.steps[:-1] if _transforms_weighted(each)
    ]
    return WeightPath(
        (*on_the_way, *(f"{name}__{keyword}" for keyword in inner.keywords)),
        (pipeline, *inner.learners),
    )


def _transforms_weighted(step: Any) -> bool:
    """Does the pipeline's call of ``fit_transform``, with weights, reach a ``fit`` that takes
    them?
    """
    if not hasattr(step, "fit") or not _takes_weights(step.fit):
        return False
    method = getattr(step, "fit_transform", step.fit)
    return _takes_weights(method) or _takes_anything(method)


def _takes_weights(method: Any) -> bool:
    return "sample_weight" in inspect.signature(method).parameters


def _takes_anything(method: Any) -> bool:
    return any(
        each.kind is each.VAR_KEYWORD for each in inspect.signature(method).parameters.values()
    )


def _children(estimator: Any) -> list[Any]:
    """The estimators inside that must learn from the weights, too."""
    from sklearn.calibration import CalibratedClassifierCV

    members = getattr(estimator, "estimators", None)
    if isinstance(members, list):
        return [each[1] for each in members if isinstance(each, tuple) and hasattr(each[1], "fit")]
    # Only where it hands the weights on: a wrapper that uses them itself (bagging draws by them)
    # needs no such estimator inside.
    if _takes_weights(estimator.fit) and not isinstance(estimator, CalibratedClassifierCV):
        return []
    return _wrapped(estimator)


def _wrapped(estimator: Any) -> list[Any]:
    found = [getattr(estimator, name, None) for name in ("estimator", "regressor")]
    return [each for each in found if hasattr(each, "fit") and not inspect.isclass(each)][:1]


def _ignores_weights(estimator: Any) -> ConfigError:
    name = type(estimator).__name__
    return ConfigError(
        f"{name}.fit has no parameter sample_weight, so weights that differ between images would "
        "be dropped in silence and the model would "
        "learn the biased pool. Use an estimator that takes sample_weight (in a pipeline the last "
        "step counts), or fit it on "
        "images drawn in proportion to their weights; among baselines, 'subsample' needs none."
    )


def _loses_weights(estimator: Any, child: Any) -> ConfigError:
    name, inner = type(estimator).__name__, type(child).__name__
    return ConfigError(
        f"{name} hands the weights on as sample_weight, which {inner}.fit does not have: they "
        f"would be dropped on the way, and the {inner} "
        "would learn the biased pool. Enable sklearn.set_config(enable_metadata_routing=True), by "
        "which they get there, or wrap the "
        f"predictor alone: make_pipeline(StandardScaler(), {name}(…))."
    )


def _request_weights(estimator: Any, path: WeightPath) -> None:
    """Whoever takes weights and has not decided asks for them; a learner that decided against them
    is an error.
    """
    from sklearn.utils.metadata_routing import get_routing_for_object

    for each in [estimator, *estimator.get_params(deep=True).values()]:
        if not hasattr(each, "set_fit_request"):
            continue
        routing = get_routing_for_object(each)
        requests = getattr(routing, "_self_request", routing)
        request = requests.fit.requests.get("sample_weight", True)
        if request is None:
            each.set_fit_request(sample_weight=True)
        elif request is not True and any(each is learner for learner in path.learners):
            raise ConfigError(
                f"{type(each).__name__} must learn from the weights, but its request for "
                f"sample_weight is {request!r}; call "
                "set_fit_request(sample_weight=True) on it, or leave the request unset."
            )
        # A search inside then chooses by its score on the target.
        if requests.score.requests.get("sample_weight", True) is None:
            each.set_score_request(sample_weight=True)
