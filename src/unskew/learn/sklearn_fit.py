"""A scikit-learn estimator with weights; and its probabilities moved to other class shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from unskew.engine.arguments import Numbers, Positive, checked
from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.learn.sklearn_routing import fit_weighted
from unskew.records import Floats
from unskew.records.levels import level_text


def fit_positive_rows(estimator: Any, X: Any, y: Any, weight_n: Floats) -> Any:
    """Fit a clone of ``estimator`` on the rows of positive weight.

    The weights have mean 1 there, and are not passed if they are all the same. Where they differ
    they must reach its predictor: `ConfigError` where a step or a wrapper would drop them.
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing

    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise wrong_option("estimator is a scikit-learn estimator", estimator=estimator)
    for name, values in (("X", X), ("y", y)):
        n_rows = values.shape[0] if getattr(values, "shape", ()) else len(values)
        if n_rows != weight_n.size:
            raise DataError(
                f"{name} has one row for each of the {weight_n.size} images of the pool, in its "
                f"order; got {n_rows}.",
                option=name,
                count=n_rows,
                limit=weight_n.size,
            )
    rows = np.flatnonzero(weight_n > 0)
    weight_m = weight_n[rows] / weight_n[rows].mean()
    if rows.size < weight_n.size:
        X, y = _safe_indexing(X, rows), _safe_indexing(y, rows)
    # Equal up to rounding: then any estimator can be used.
    return (
        clone(estimator).fit(X, y)
        if np.ptp(weight_m) <= 1e-12
        else fit_weighted(estimator, X, y, weight_m)
    )


@checked
@dataclass(frozen=True, eq=False)
class AdjustedClassifier:
    """A fitted classifier with post-hoc logit adjustment: (p_y e^{−offset_y})^scale, normalised.

    Without offsets its predictions and decision values are the classifier's own.

    Attributes
    ----------
    estimator : the fitted classifier, with ``predict_proba``.
    classes : the M classes as text.
    logit_offset : (M,) subtracted from the logits.
    scale : what they are then multiplied by, the inverse of a temperature.
    """

    estimator: Any
    classes: tuple[str, ...]
    logit_offset: Floats
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise ConfigError(
                f"logit adjustment needs predict_proba, which {type(self.estimator).__name__} does "
                "not have.",
                option="estimator",
                value=type(self.estimator).__name__,
            )
        offset_of(self.estimator.classes_, self.classes, self.logit_offset)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn's scorers what kind of estimator this is."""
        from sklearn.utils import get_tags

        return get_tags(self.estimator)

    def fit(self, X: Any, y: Any) -> AdjustedClassifier:
        """Refuse: it is fitted already."""
        raise ConfigError(
            "this classifier is fitted, and its offsets belong to the pool it was fitted on; use "
            "Baseline.fit."
        )

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """(M,) the classes in the order of the columns of ``predict_proba``."""
        return np.asarray(self.estimator.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """Return (n, M) adjusted probabilities; rows sum to 1."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the (n, M) logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            logit_nm = self.scale * (np.log(self.estimator.predict_proba(X)) - self._offset_m)
        return np.asarray(scipy.special.log_softmax(logit_nm, axis=1), dtype=np.float64)

    def decision_function(self, X: Any) -> Floats:
        """Return the log odds (n,) of the second of two classes, or the logits (n, M) of more.

        Where the probabilities of the estimator are the softmax of its own decision values, as
        those of a logistic regression are, these less the offsets; they do not saturate. Otherwise
        the logarithms of the adjusted probabilities, which are finite here.
        """
        if not np.any(self.logit_offset):
            return np.asarray(self.estimator.decision_function(X), dtype=np.float64)
        proba_nm = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        logit_nm = np.log(np.maximum(proba_nm, np.finfo(np.float64).tiny))
        if hasattr(self.estimator, "decision_function"):
            own = np.asarray(self.estimator.decision_function(X), dtype=np.float64)
            own_nm = np.column_stack([np.zeros(len(own)), own]) if own.ndim == 1 else own
            if own_nm.shape == proba_nm.shape and np.allclose(
                scipy.special.softmax(own_nm, axis=1), proba_nm, rtol=0, atol=1e-6
            ):
                logit_nm = own_nm
        logit_nm = self.scale * (logit_nm - self._offset_m)
        return logit_nm[:, 1] - logit_nm[:, 0] if logit_nm.shape[1] == 2 else logit_nm

    @property
    def _offset_m(self) -> Floats:
        return offset_of(self.classes_, self.classes, self.logit_offset)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the (n,) classes with the largest adjusted probability."""
        if not np.any(self.logit_offset):
            return np.asarray(self.estimator.predict(X))
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Numbers | None = None) -> float:
        """Compute the accuracy, as every classifier of scikit-learn does."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))


def offset_of(wanted: Any, classes: Sequence[str], logit_offset: Floats) -> Floats:
    """Return the offsets in the order of the classes ``wanted``, compared as text."""
    position = {name: m for m, name in enumerate(classes)}
    unknown = [value for value in wanted if level_text(value) not in position]
    if unknown:
        raise DataError(
            f"the classifier knows the classes {first_few(unknown)}, which the labels of the pool "
            f"do not have; they are {first_few(classes, 12)}. Was it fitted with other labels, or "
            "with codes instead of names?",
            levels=[level_text(value) for value in unknown],
        )
    return logit_offset[[position[level_text(value)] for value in wanted]]
