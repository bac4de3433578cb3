"""The scores of a classifier as users give them: read, checked, and as logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.errors import DataError, did_you_mean, first_few
from unskew.records import Floats, Ints, Weights
from unskew.records.arrays import check_length, refuse_entries
from unskew.records.levels import MISSING, level_text
from unskew.target.label_shift import LabelledScores

# Fewer labelled images of a class (Kish's effective number, and number of groups) do not show how
# its scores spread.
_LEAST_IMAGES = 5
# Probabilities in half precision sum to 1 within this.
_SUM_TOLERANCE = 5e-3


@dataclass(frozen=True)
class ClassifierScores:
    """What a classifier gave on the target's and on the labelled images, as read."""

    classes: tuple[str, ...]
    target: Floats
    unit: Ints
    validation: LabelledScores


def read_scores(
    target_scores: Any,
    validation_scores: Any,
    validation_labels: Any,
    classes: Sequence[Any] | None,
    validation_weights: Any,
    group: Any,
    validation_group: Any,
) -> ClassifierScores:
    """Read scores, labels, weights within classes and groups; refuse what cannot be used."""
    names = _class_names(target_scores, validation_scores, validation_labels, classes)
    target_mc = _read_matrix(target_scores, names, "target_scores")
    validation_vc = _read_matrix(validation_scores, names, "validation_scores")
    label_v = _read_labels(validation_labels, names, validation_vc.shape[0])
    weight_v = _read_weights(validation_weights, label_v.size)
    unit_v = _read_groups(validation_group, label_v.size, "validation_group")
    used_v = weight_v > 0
    label_v, weight_v, unit_v = label_v[used_v], weight_v[used_v], unit_v[used_v]
    _check_counts(names, label_v, weight_v, unit_v)
    within_c = np.bincount(label_v) / np.bincount(label_v, weights=weight_v)
    # A score of 0 is taken for half the smallest one that is not.
    positive = validation_vc[validation_vc > 0]
    floor = 0.5 * min(float(positive.min()), 0.1)
    validation = LabelledScores(
        np.log(np.maximum(validation_vc[used_v], floor)),
        label_v,
        weight_v * within_c[label_v],
        np.unique(unit_v, return_inverse=True)[1].astype(np.int64),
    )
    unit_m = _read_groups(group, target_mc.shape[0], "group")
    return ClassifierScores(names, np.log(np.maximum(target_mc, floor)), unit_m, validation)


def _class_names(
    target_scores: Any, validation_scores: Any, labels: Any, classes: Sequence[Any] | None
) -> tuple[str, ...]:
    """Return the classes: as given, by the columns of a table, or the labels in order."""
    if classes is not None:
        names = [level_text(name) for name in classes]
    elif hasattr(target_scores, "columns"):
        names = [level_text(name) for name in target_scores.columns]
    elif hasattr(validation_scores, "columns"):
        names = [level_text(name) for name in validation_scores.columns]
    else:
        label_v = np.asarray(labels)
        known = label_v[[level_text(label) != MISSING for label in label_v.tolist()]]
        names = [level_text(name) for name in np.unique(known).tolist()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(
            f"a classifier has two or more classes, each once; got {first_few(names, 12)}.",
            option="classes",
            levels=names,
        )
    return tuple(names)


def _read_matrix(scores: Any, names: tuple[str, ...], option: str) -> Floats:
    """(n, C) probabilities, rows divided by their sums, which are 1 up to rounding."""
    if hasattr(scores, "columns"):
        columns = {level_text(column): column for column in scores.columns}
        lacking = [name for name in names if name not in columns]
        if lacking:
            raise DataError(
                f"{option} has no column for the class {first_few(lacking)}; its columns are "
                f"{first_few(list(columns), 12)}.{did_you_mean(lacking[0], columns)}",
                option=option,
                levels=lacking,
                columns=list(columns),
            )
        scores = scores[[columns[name] for name in names]]
    try:
        score_nc = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{option} must be numbers: {error}.", option=option) from error
    if score_nc.ndim == 1 and len(names) == 2:
        score_nc = np.column_stack([1.0 - score_nc, score_nc])
    if score_nc.ndim != 2 or score_nc.shape[1] != len(names):
        raise DataError(
            f"{option} has one row for each image and one column for each of the "
            f"{len(names)} classes ({first_few(names, 12)}); got the shape {score_nc.shape}. Of "
            "two classes the probability of the second will do. Name the classes with classes=[…].",
            option=option,
            value=list(score_nc.shape),
            limit=len(names),
        )
    if score_nc.shape[0] == 0:
        raise DataError(f"{option} has no rows.", option=option)
    total_n = score_nc.sum(axis=1)
    bad_n = ~((score_nc >= 0).all(axis=1) & (np.abs(total_n - 1) <= _SUM_TOLERANCE))
    if bad_n.any():
        row = int(np.argmax(bad_n))
        raise DataError(
            f"{option} must be probabilities: not negative, each row summing to 1; row {row} has "
            f"{first_few([f'{score:.4g}' for score in score_nc[row]])}, sum {total_n[row]:.4g} "
            f"({int(bad_n.sum())} such rows). Of logits take the softmax.",
            option=option,
            row=row,
            count=int(bad_n.sum()),
        )
    return np.asarray(score_nc / total_n[:, None])


def _read_labels(labels: Any, names: tuple[str, ...], n: int) -> Ints:
    if np.ndim(labels) != 1:
        raise DataError("validation_labels has one dimension.", option="validation_labels")
    texts = [level_text(label) for label in np.asarray(labels).tolist()]
    if len(texts) != n:
        raise DataError(
            f"validation_labels has {len(texts)} entries, validation_scores {n} rows.",
            option="validation_labels",
            count=len(texts),
            limit=n,
        )
    index = {name: at for at, name in enumerate(names)}
    unknown = sorted({text for text in texts if text not in index})
    if unknown:
        raise DataError(
            f"validation_labels has {first_few(unknown)}, which is no class of the scores; those "
            f"are {first_few(names, 12)}. Leave images without a label out, and name the classes "
            "in the order of the columns with classes=[…].",
            option="validation_labels",
            levels=unknown,
        )
    return np.array([index[text] for text in texts], dtype=np.int64)


def _read_weights(weights: Any, n: int) -> Floats:
    if weights is None:
        return np.ones(n)
    if isinstance(weights, Weights):
        weights = weights.sample_weight
    weight_v = np.asarray(weights, dtype=np.float64)
    check_length(weight_v, n, "validation_weights")
    bad_v = ~(np.isfinite(weight_v) & (weight_v >= 0))
    refuse_entries(bad_v, weight_v, "validation_weights", "finite and not negative")
    return weight_v


def _read_groups(group: Any, n: int, option: str) -> Ints:
    if group is None:
        return np.arange(n, dtype=np.int64)
    if np.ndim(group) != 1:
        raise DataError(f"{option} has one dimension.", option=option)
    texts = np.array([level_text(value) for value in np.asarray(group).tolist()], dtype=object)
    if texts.shape != (n,) or MISSING in texts:
        raise DataError(
            f"{option} names the group of each of {n} images; got {texts.size} entries, "
            f"{int((texts == MISSING).sum())} of them missing.",
            option=option,
            count=int(texts.size),
            limit=n,
        )
    return np.unique(texts.astype(str), return_inverse=True)[1].astype(np.int64)


def _check_counts(names: tuple[str, ...], label_v: Ints, weight_v: Floats, unit_v: Ints) -> None:
    """Refuse classes whose labelled images are too few, or carried by a few weights."""
    few = {}
    for at, name in enumerate(names):
        own_v = label_v == at
        squares = float(np.square(weight_v[own_v]).sum())
        effective = float(weight_v[own_v].sum()) ** 2 / squares if squares else 0.0
        number = min(effective, np.unique(unit_v[own_v]).size)
        if number < _LEAST_IMAGES:
            few[name] = number
    if few:
        shown = first_few([f"{name} ({number:.3g})" for name, number in few.items()])
        raise DataError(
            f"the validation images show too little of {shown}: at least {_LEAST_IMAGES} labelled "
            "images of each class (after weighting, in different groups) are needed to see how its "
            "scores spread. Label more, or merge the class with another in scores and labels.",
            option="validation_labels",
            levels=list(few),
            count=min(few.values()),
            limit=_LEAST_IMAGES,
        )
