"""Models and the images that they have not seen: cross-fitting for scores on the target."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.parent_watch import call_watched
from unskew.errors import ConfigError, DataError
from unskew.estimators.dialled_fit import weighed_images
from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.target_weights import TargetWeights
from unskew.estimators.way_trials import fit_in_way
from unskew.learn.presets import Way
from unskew.records import Floats, Ints
from unskew.splits.folds import check_folds, deal_folds, find_copies, join_units


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Images of the pool (``rows``) and a model that has not seen them."""

    rows: Ints
    model: Remembering
    y: npt.NDArray[Any] = field(repr=False)


class Remembering:
    """A fitted model that predicts for its held-out images once, and remembers.

    Scores are evaluated at many weights.
    """

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X
        self.answers: dict[str, npt.NDArray[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        attribute = getattr(self.model, name)
        if name not in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            return attribute

        def remembered(X: Any) -> Any:
            if X is not self.X:
                return attribute(X)
            if name not in self.answers:
                self.answers[name] = attribute(X)
            return self.answers[name]

        # scikit-learn reads off the name what kind of response it got.
        remembered.__name__ = name
        return remembered

    def __sklearn_is_fitted__(self) -> bool:
        return True


def cross_fit_scores(
    model: Any,
    images: GivenImages,
    weighing: TargetWeights,
    cv: Any,
    *,
    way: Way = "weights",
    keep_copies_together: bool,
    seed: int,
    n_jobs: int | None = None,
) -> list[HeldOut]:
    """Train a model for each fold on the other folds, with the weights of the whole pool.

    The way "auto" is chosen on the other folds, too: no image judges a model that it chose. With
    ``cv=None`` the model is used unchanged. ``n_jobs`` models are trained at the same time.
    """
    from sklearn.utils import _safe_indexing
    from sklearn.utils.parallel import Parallel, delayed

    y_n = np.asarray(images.y)
    n = len(images)
    if cv is None:
        rows = np.arange(n)
        return [HeldOut(rows, Remembering(model, images.X), y_n)]
    unit_n = join_units(n, images.group, find_copies(images.X) if keep_copies_together else None)
    fold_n = _folds(cv, images, unit_n, weighing, seed)
    folds = range(int(fold_n.max()) + 1)
    trains = [np.flatnonzero(fold_n != fold) for fold in folds]
    for train in trains:
        _check_classes(model, y_n, train, weighing.sample_weight)
    # Units are joined already.
    weighed = replace(weighed_images(images, weighing), group=unit_n, keep_copies=False)
    fitted = Parallel(n_jobs=n_jobs)(
        delayed(call_watched)(os.getpid(), fit_in_way, model, weighed.take(train), way, seed=seed)
        for train in trains
    )
    tests = [np.flatnonzero(fold_n == fold) for fold in folds]
    return [
        HeldOut(test, Remembering(one.model, _safe_indexing(images.X, test)), y_n[test])
        for one, test in zip(fitted, tests, strict=True)
    ]


def _check_classes(model: Any, y_n: npt.NDArray[Any], train: Ints, weight_n: Floats) -> None:
    """Refuse folds that leave a classifier the images of one class."""
    from sklearn.base import is_classifier

    left = np.unique(y_n[train[weight_n[train] > 0]])
    if is_classifier(model) and left.size == 1 and np.unique(y_n).size > 1:
        raise DataError(
            f"with one fold held out, the images left show class {str(left[0])!r} only: the other "
            "classes have too few images, or groups, to be in every fold. Score with cv=None on "
            "images that did not train the model, or leave those classes out.",
            levels=[str(left[0])],
        )


def _folds(cv: Any, images: GivenImages, unit_n: Ints, weighing: TargetWeights, seed: int) -> Ints:
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if cv < 2:
            raise ConfigError(
                f"cv is the number of folds, at least 2, a splitter, or None; got {cv}.",
                option="cv",
                value=int(cv),
            )
        stratum_n = weighing.weights.source.astype(np.int64)
        label_n = np.asarray(images.y)
        # Few labels are classes: every fold then gets its share of every class of every source.
        if label_n.ndim == 1 and np.unique(label_n).size <= max(2, label_n.size // (2 * int(cv))):
            label_code_n = np.unique(label_n, return_inverse=True)[1]
            stratum_n = stratum_n * (int(label_code_n.max()) + 1) + label_code_n
        return deal_folds(unit_n, stratum_n, int(cv), seed)
    if isinstance(cv, str) or not hasattr(cv, "split"):
        shown = f"a {type(cv).__name__}" if isinstance(cv, list | tuple | np.ndarray) else repr(cv)
        raise ConfigError(
            "cv is a number of folds, a scikit-learn splitter such as KFold(5), or None; got "
            f"{shown}.",
            option="cv",
            value=shown,
        )
    with warnings.catch_warnings():
        # Whether a splitter heeds the groups is checked on what it does.
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        tests = [np.asarray(test) for _, test in cv.split(images.X, images.y, groups=unit_n)]
    return check_folds(tests, unit_n)
