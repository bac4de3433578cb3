"""An outcome model for doubly robust means, cross-fitted on the images of the pool."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.features import FeatureMap, expand_features, learn_column
from unskew.engine.arguments import Folds, checked
from unskew.engine.threads import one_openmp_thread
from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.learn.sklearn_fit import fit_positive_rows
from unskew.records import Floats, Ints, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.records.content_keys import content_keys
from unskew.splits.folds import deal_folds, join_units, tell_copies
from unskew.weigh.sampling_units import check_order, check_values

if TYPE_CHECKING:
    import pandas as pd

    from unskew.debiasing.estimation import Estimation

# Squares and products of more numbers than this are too many to be worth their noise.
_MOST_SQUARED = 10
# Boosted trees are tried from this many images on: below, ridge regression predicts better.
_ENOUGH_FOR_TREES = 1000
# Fewer rows are boosted faster by one thread.
_WORTH_THREADS = 20_000
_PENALTIES = np.logspace(-2, 5, 15)


@dataclass(frozen=True, eq=False)
class OutcomePredictions:
    """Predictions of an outcome by models that did not learn from the image itself.

    Attributes
    ----------
    predicted : (n,) for the images of the pool.
    target_predicted : (m,) for the images of the target's sample; None if the target is a source of
        the pool.
    model_stderr : error of T̂ − Σ π m that comes from learning the model: the jackknife over folds.
        Next to nothing if the weights are right; otherwise the model extrapolates.
    folds : number of folds.
    r2 : share of the outcome's weighted variance that ``predicted`` explains; may be negative.
    features : what the models read.
    learner : what was trained.
    """

    predicted: Floats = field(repr=False)
    target_predicted: Floats | None = field(repr=False)
    model_stderr: float
    folds: int
    r2: float
    features: tuple[str, ...]
    learner: str


@checked
def predict_outcome(
    weights: Weights,
    values: npt.ArrayLike,
    *,
    features: Sequence[str] | None = None,
    learner: Any = None,
    folds: Folds = 5,
    rng: Randomness = 0,
) -> OutcomePredictions:
    """Predict an outcome from features, for the images of the pool and of the target.

    The images are divided into folds, groups and copies on one side. Those of fold f are predicted
    by a model m_f that was trained with weights on the other folds, the target's images by Σ_f w_f
    m_f, w_f the weight of fold f: a constant that one of the models is off by cancels from the
    augmented mean.

    Parameters
    ----------
    weights : from `unskew.debias` with `Target.sample` or `Target.source`.
    values : (n,) h_i, finite.
    features : columns that the pool and the target's sample have. Default: those that the bias
        model reads. The robustness rests on them: name what the outcome depends on.
    learner : a scikit-learn regressor or, for values 0 and 1, a classifier with predict_proba; it
        must accept sample_weight. Default: ridge regression on the features (of up to ten numbers
        also their squares and products) or, from 1,000 images on, boosted trees where they predict
        held-out images better.
    folds : number of parts; at least 2.
    rng : seed of the folds.

    Raises
    ------
    ConfigError : weights without a model, or a target without images.
    DataError : a feature that the target's sample lacks, values of the wrong length.
    """
    check_order(values, weights)
    value_n = check_values(values, weights.weight.size)
    estimation = weights.estimation
    if estimation is None or not estimation.fitted.is_reference_r.any():
        raise ConfigError(
            "an outcome model is averaged over images of the target, and these weights have none: "
            "use unskew.debias with Target.sample or Target.source, or predict the outcome "
            "yourself and pass predicted and target_predicted.",
            option="predicted",
        )
    frame, sample = estimation.pool.frame, _sample(estimation)
    names = _feature_names(estimation, features, frame, sample)
    # Held-out images of a source that is the target have no weight, but are the target's.
    is_used_n = weights.weight > 0
    if sample is None:
        reference = estimation.fitted.data.source[estimation.fitted.is_reference_r][0]
        is_used_n = is_used_n | (weights.source == reference)
    used = np.flatnonzero(is_used_n)
    tables = [frame.iloc[used], *([] if sample is None else [sample])]
    fold_m = _folds(frame.iloc[used], names, folds, seed_of(rng))
    with one_openmp_thread(used.size < _WORTH_THREADS):
        candidates = [
            _cross_fit(estimator, X, value_n[used], weights.weight[used], fold_m)
            for estimator, X in _candidates(learner, tables, names, value_n[used])
        ]
    best = max(candidates, key=lambda candidate: candidate.r2)
    predicted_n = np.full(value_n.size, float(weights.weight[used] @ best.predicted_m))
    predicted_n[used] = best.predicted_m
    if sample is None:
        is_target_m = weights.source[used] == reference
        shift_f = best.of_pool_fm[:, is_target_m].mean(axis=1)
    else:
        shift_f = best.of_target_ft.mean(axis=1)
    shift_f = shift_f - best.of_pool_fm @ weights.weight[used]
    n_folds = shift_f.size
    return OutcomePredictions(
        predicted_n,
        None if sample is None else best.target_t,
        math.sqrt((n_folds - 1) * float(shift_f.var())),
        n_folds,
        best.r2,
        tuple(names),
        best.name,
    )


def _sample(estimation: Estimation) -> pd.DataFrame | None:
    """Return the whole sample of the target, held-out images included."""
    if estimation.fitted.data.sample is None:
        return None
    assert estimation.fitted.target is not None
    reference = estimation.fitted.target.compare(estimation.pool).sample
    assert reference is not None
    return reference.frame


def _feature_names(
    estimation: Estimation,
    features: Sequence[str] | None,
    frame: pd.DataFrame,
    sample: pd.DataFrame | None,
) -> list[str]:
    if features is None:
        read = [name for part in estimation.fitted.model.parts for name in part.columns]
        features = list(dict.fromkeys(read))
        if not features:
            raise ConfigError(
                "the bias model reads no feature that could predict the outcome: name some with "
                "unskew.predict_outcome(weights, values, features=[…]).",
                option="features",
            )
    names = expand_features(frame, features, "the outcome model")
    lacking = [] if sample is None else [name for name in names if name not in sample.columns]
    if lacking:
        raise DataError(
            f"the target's sample lacks {first_few(lacking)}, which the outcome model reads. Add "
            "the columns to the sample, or name other features.",
            columns=lacking,
        )
    return names


def _folds(frame: pd.DataFrame, names: Sequence[str], folds: int, seed: int) -> Ints:
    """(m,) fold of every image; groups and copies are not separated, the order has no say."""
    group: npt.NDArray[Any] | None = None
    if "group" in frame.columns:
        alone = np.char.add("(alone) ", np.arange(len(frame)).astype(str))
        group = np.where(frame["group"].isna(), alone, frame["group"].astype(str))
    unit_m = join_units(len(frame), group, tell_copies(frame))
    key_m = content_keys(frame, ("source", *names))
    source_m = np.unique(frame["source"].astype(str), return_inverse=True)[1]
    return deal_folds(unit_m, source_m, folds, seed, key_m)


def _candidates(
    learner: Any, tables: Sequence[pd.DataFrame], names: Sequence[str], value_m: Floats
) -> Iterator[tuple[Any, list[Floats]]]:
    """Yield estimators with what they read of every table."""
    columns = tuple(learn_column(_stacked(tables, names), name) for name in names)
    plain = [FeatureMap(columns).read(table) for table in tables]
    if learner is not None:
        _check_learner(learner, value_m)
        yield learner, plain
        return
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    ridge = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES))
    n_numbers = sum(column.is_numeric for column in columns)
    if 0 < n_numbers <= _MOST_SQUARED:
        yield ridge, [FeatureMap(columns, 2).read(table) for table in tables]
    else:
        yield ridge, plain
    if value_m.size >= _ENOUGH_FOR_TREES:
        from sklearn.ensemble import HistGradientBoostingRegressor

        yield (
            HistGradientBoostingRegressor(
                max_iter=100, max_leaf_nodes=15, l2_regularization=1.0, random_state=0
            ),
            plain,
        )


def _stacked(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([table[list(names)] for table in tables], ignore_index=True)


def _check_learner(learner: Any, value_m: Floats) -> None:
    if not hasattr(learner, "fit"):
        raise wrong_option(
            "the learner must be a scikit-learn estimator", learner=type(learner).__name__
        )
    if _is_classifier(learner) and not np.isin(value_m, [0.0, 1.0]).all():
        raise ConfigError(
            f"{type(learner).__name__} is a classifier, which predicts the probability of values "
            "0 and 1; these are others. Use a regressor.",
            option="learner",
            value=type(learner).__name__,
        )


def _is_classifier(learner: Any) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(learner))


@dataclass(frozen=True, eq=False)
class _CrossFit:
    """What a learner predicts: out of fold, on the target, and by the model of every fold."""

    predicted_m: Floats
    target_t: Floats
    of_pool_fm: Floats
    of_target_ft: Floats
    r2: float
    name: str


def _cross_fit(
    estimator: Any, X: Sequence[Floats], value_m: Floats, weight_m: Floats, fold_m: Ints
) -> _CrossFit:
    """Train on all folds but one, in turn; ``X`` is of the pool and, if there is one, the sample.

    The mean of the other folds is small where that of a fold is large, so that a model which has
    learned nothing but this mean would seem to predict the wrong way round. So its mean is replaced
    by that of all images.
    """
    mean, of_pool, of_target, share = float(weight_m @ value_m), [], [], []
    for fold in range(int(fold_m.max()) + 1):
        train_m = np.where(fold_m == fold, 0.0, weight_m)
        if not train_m.any():
            raise DataError(
                "a fold holds all images that have a weight; use fewer folds, or predict the "
                "outcome yourself.",
                option="folds",
            )
        predict = _trained(estimator, X[0], value_m, train_m)
        offset = mean - float(train_m @ value_m) / float(train_m.sum())
        of_pool.append(predict(X[0]) + offset)
        of_target.append(predict(X[1]) + offset if len(X) > 1 else np.zeros(0))
        share.append(float(weight_m[fold_m == fold].sum()))
    of_pool_fm, of_target_ft = np.array(of_pool), np.array(of_target)
    predicted_m = of_pool_fm[fold_m, np.arange(value_m.size)]
    spread = float(weight_m @ (value_m - mean) ** 2)
    rest = float(weight_m @ (value_m - predicted_m) ** 2)
    return _CrossFit(
        predicted_m,
        np.array(share) @ of_target_ft,
        of_pool_fm,
        of_target_ft,
        1.0 - rest / spread if spread > 0 else 0.0,
        type(estimator[-1] if hasattr(estimator, "steps") else estimator).__name__,
    )


def _trained(estimator: Any, X_md: Floats, value_m: Floats, weight_m: Floats) -> Any:
    """Train a clone, and return what predicts: numbers, or the probability of value 1."""
    seen = np.unique(value_m[weight_m > 0])
    if seen.size == 1:
        return lambda X: np.full(len(X), seen[0])
    fitted = fit_positive_rows(estimator, X_md, value_m, weight_m)
    if not _is_classifier(estimator):
        return lambda X: np.asarray(fitted.predict(X), dtype=np.float64)
    one = int(np.flatnonzero(np.asarray(fitted.classes_) == 1.0)[0])
    return lambda X: np.asarray(fitted.predict_proba(X)[:, one], dtype=np.float64)
