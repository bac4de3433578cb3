"""What a forecast trains: the linear probe, or clones of a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError
from unskew.learn.probe import Probe, fit_probe
from unskew.learn.sklearn_fit import fit_positive_rows
from unskew.learn.ways import DEFAULT_RIDGE
from unskew.records import Floats, Ints


class TrainedProbe(Protocol):
    """A model that predicts a class, as a code, for every image."""

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        """Return the (n,) class of every image, after subtracting the offset from the logits."""
        ...


class Learner(Protocol):
    """What is trained: the probe, or any scikit-learn classifier.

    ``adds_weights``: whether an image twice is the same as once with the sum of the weights; then
    copies cost nothing. ``shifts_logits``: whether its logits can be shifted.
    """

    adds_weights: ClassVar[bool]

    @property
    def shifts_logits(self) -> bool: ...

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        ridge: float | None = None,
        start: Any = None,
    ) -> TrainedProbe:
        """Train on (n, d) features with weights; ``start`` is a model to start from."""
        ...


@dataclass(frozen=True)
class ProbeLearner:
    """The linear probe (`fit_probe`)."""

    # Closer to the minimum hardly a prediction changes.
    tol: float = 1e-4
    adds_weights: ClassVar[bool] = True
    shifts_logits: ClassVar[bool] = True

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        ridge: float | None = None,
        start: Any = None,
    ) -> Probe:
        return fit_probe(
            X_nd,
            label_n,
            weight_n,
            n_classes,
            ridge=DEFAULT_RIDGE if ridge is None else ridge,
            tol=self.tol,
            start=start,
        )


@dataclass(frozen=True)
class EstimatorLearner:
    """Clones of a scikit-learn classifier, fitted with weights."""

    estimator: Any
    # A tree that wants so many images in a leaf counts rows.
    adds_weights: ClassVar[bool] = False

    @property
    def shifts_logits(self) -> bool:
        return hasattr(self.estimator, "predict_proba")

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        ridge: float | None = None,
        start: Any = None,
    ) -> TrainedProbe:
        seen = np.unique(label_n[weight_n > 0])
        if seen.size == 1:
            return _Constant(int(seen[0]))
        return _TrainedEstimator(fit_positive_rows(self.estimator, X_nd, label_n, weight_n))


@dataclass(frozen=True)
class _Constant:
    """A model that learned from one class alone."""

    code: int

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        return np.full(len(X_nd), self.code, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _TrainedEstimator:
    fitted: Any

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        if logit_offset is None:
            return np.asarray(self.fitted.predict(X_nd), dtype=np.int64)
        if not hasattr(self.fitted, "predict_proba"):
            raise ConfigError(
                f"logit adjustment needs predict_proba, which {type(self.fitted).__name__} does "
                "not have.",
                option="learner",
                value=type(self.fitted).__name__,
            )
        class_m = np.asarray(self.fitted.classes_, dtype=np.int64)
        with np.errstate(divide="ignore"):
            logit_nm = np.log(self.fitted.predict_proba(X_nd)) - logit_offset[class_m]
        return np.asarray(class_m[logit_nm.argmax(axis=1)])


def find_learner(learner: Any) -> tuple[Learner, str]:
    """Return what is trained, and its name: the probe for None, or clones of a classifier."""
    if learner is None:
        return ProbeLearner(), "a linear probe"
    if isinstance(learner, type):
        raise ConfigError(
            "learner is a scikit-learn classifier, not its class: write "
            f"learner={learner.__name__}(…).",
            option="learner",
            value=learner.__name__,
        )
    if not hasattr(learner, "fit") or not hasattr(learner, "predict"):
        raise ConfigError(
            f"learner is a scikit-learn classifier, or None for the linear probe; got {learner!r}.",
            option="learner",
            value=repr(learner),
        )
    from sklearn.base import is_regressor

    if is_regressor(learner):
        raise ConfigError(
            f"learner must be a classifier, but {type(learner).__name__} predicts numbers: "
            "accuracy is that of classes.",
            option="learner",
            value=type(learner).__name__,
        )
    return EstimatorLearner(learner), type(learner).__name__
