"""How weights reach the step of a scikit-learn estimator that learns from them, or an error when
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
    """How weights are passed: the ``keywords`` of the outermost ``fit``, and who must learn."""

    keywords: tuple[str, ...]
    learners: tuple[Any, ...]


def fit_weighted(
    estimator: Any, X: Any, y: Any, weight_n: Floats, fit_params: Mapping[str, Any] | None = None
) -> Any:
    """Fit a clone of ``estimator`` with ``weight_n``, which must reach its predictor.

    `ConfigError` where they would not. In a pipeline every step that takes weights gets them (a
    scaler then scales by the target's spread), under the names of the steps
    (``logisticregression__sample_weight``); with metadata routing enabled, as ``sample_weight``,
    unless a step requested not to.
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
            "are multiplied.",
            option=twice[0],
        )
    return fitted.fit(X, y, **dict.fromkeys(keywords, weight_n), **fit_params)


def find_weight_path(estimator: Any) -> WeightPath:
    """Follow pipelines and wrappers down to the predictor.

    Where the weights would be lost, the error names the step.
    """
    from sklearn import get_config
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        return _pipeline_path(estimator)
    inner_paths = [find_weight_path(child) for child in _children(estimator)]
    learners = (estimator, *(learner for path in inner_paths for learner in path.learners))
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
        # Ensembles name the weights alike for all their members; a wrapper of one estimator passes
        # its keywords on unchanged.
        return WeightPath(
            ("sample_weight",) if hasattr(estimator, "estimators") else inner_paths[0].keywords,
            learners,
        )
    raise _ignores_weights(estimator)


def _check_inside(estimator: Any) -> None:
    """Refuse a wrapper that takes weights and would not pass them on.

    Without routing, it passes them as ``sample_weight`` to an ``estimator`` that has it, else not
    at all.
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
            f"the last step of the pipeline, {name!r}, is not a predictor, so nothing can learn "
            "from the weights.",
            option="estimator",
            value=name,
        )
    inner = find_weight_path(last)
    on_the_way = [
        f"{step}__sample_weight"
        for step, transformer in pipeline.steps[:-1]
        if _transforms_weighted(transformer)
    ]
    return WeightPath(
        (*on_the_way, *(f"{name}__{keyword}" for keyword in inner.keywords)),
        (pipeline, *inner.learners),
    )


def _transforms_weighted(step: Any) -> bool:
    """Tell whether weights in the pipeline's call of ``fit_transform`` reach the step's ``fit``."""
    if not hasattr(step, "fit") or not _takes_weights(step.fit):
        return False
    method = getattr(step, "fit_transform", step.fit)
    return _takes_weights(method) or _takes_anything(method)


def _takes_weights(method: Any) -> bool:
    return "sample_weight" in inspect.signature(method).parameters


def _takes_anything(method: Any) -> bool:
    return any(
        parameter.kind is parameter.VAR_KEYWORD
        for parameter in inspect.signature(method).parameters.values()
    )


def _children(estimator: Any) -> list[Any]:
    """List the estimators inside that must learn from the weights, too."""
    from sklearn.calibration import CalibratedClassifierCV

    members = getattr(estimator, "estimators", None)
    if isinstance(members, list):
        pairs = [member for member in members if isinstance(member, tuple)]
        return [pair[1] for pair in pairs if hasattr(pair[1], "fit")]
    # Only where it passes the weights on: a wrapper that uses them itself (bagging draws by them)
    # needs no such estimator inside.
    if _takes_weights(estimator.fit) and not isinstance(estimator, CalibratedClassifierCV):
        return []
    return _wrapped(estimator)


def _wrapped(estimator: Any) -> list[Any]:
    inner = [getattr(estimator, name, None) for name in ("estimator", "regressor")]
    return [child for child in inner if hasattr(child, "fit") and not inspect.isclass(child)][:1]


def _ignores_weights(estimator: Any) -> ConfigError:
    name = type(estimator).__name__
    return ConfigError(
        f"{name}.fit has no parameter sample_weight, so weights that differ between images would "
        "be dropped silently and the model would learn the biased pool. Use an estimator that "
        "takes sample_weight (in a pipeline the last step counts), or fit it on images drawn in "
        "proportion to their weights; among baselines, 'subsample' needs none.",
        option="estimator",
        value=name,
    )


def _loses_weights(estimator: Any, child: Any) -> ConfigError:
    name, inner = type(estimator).__name__, type(child).__name__
    return ConfigError(
        f"{name} passes the weights on as sample_weight, which {inner}.fit does not have: they "
        f"would be dropped on the way, and the {inner} would learn the biased pool. Enable "
        "sklearn.set_config(enable_metadata_routing=True), which passes them through, or wrap the "
        f"predictor alone: make_pipeline(StandardScaler(), {name}(…)).",
        option="estimator",
        value=inner,
    )


def _request_weights(estimator: Any, path: WeightPath) -> None:
    """Make whoever takes weights and has not decided request them.

    A learner that decided against them is an error.
    """
    from sklearn.utils.metadata_routing import get_routing_for_object

    for part in [estimator, *estimator.get_params(deep=True).values()]:
        if not hasattr(part, "set_fit_request"):
            continue
        routing = get_routing_for_object(part)
        requests = getattr(routing, "_self_request", routing)
        request = requests.fit.requests.get("sample_weight", True)
        if request is None:
            part.set_fit_request(sample_weight=True)
        elif request is not True and any(part is learner for learner in path.learners):
            raise ConfigError(
                f"{type(part).__name__} must learn from the weights, but its request for "
                f"sample_weight is {request!r}; call set_fit_request(sample_weight=True) on it, or "
                "leave the request unset.",
                option="estimator",
                value=type(part).__name__,
            )
        # A search inside then chooses by its score on the target.
        if requests.score.requests.get("sample_weight", True) is None:
            part.set_score_request(sample_weight=True)
