"""Reads the columns of predictions: the task, the truth, classes, scores and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.evaluation.matching import read_number_column
from unskew.evaluation.metrics import Answers, Truth
from unskew.records import Floats
from unskew.records.levels import MISSING, level_text, text_levels
from unskew.weigh.weights_table import is_list

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]
# Rounded probabilities add up to 1 within this.
_SUM_TOLERANCE = 0.02


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of one model: predictions, one score (of two classes), or one for each class."""

    prediction: str | None = None
    score: str | None = None
    by_class: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prediction or self.score or self.by_class)


def find_columns(names: Sequence[str], levels: Sequence[str], *, second: bool = False) -> Columns:
    """Find the columns of a model: prediction, score, score_<class>.

    Those of a second model in the same table are prediction_b, score_b and score_b_<class>. Where
    there is a class b, ``score_b`` is its score.
    """
    ending, stem = ("_b", "score_b") if second else ("", "score")
    prediction = f"prediction{ending}" if f"prediction{ending}" in names else None
    by_class = {level: f"{stem}_{level}" for level in levels if f"{stem}_{level}" in names}
    taken = set(by_class.values())
    own = {f"score_{level}" for level in levels}
    for name in names:
        of_second = name == "score_b" or name.startswith("score_b_")
        if (
            name.startswith(f"{stem}_")
            and name not in taken
            and name not in own
            and of_second == second
        ):
            by_class[name.removeprefix(f"{stem}_")] = name
    score = stem if stem in names and not (second and stem in own) else None
    return Columns(prediction, score, by_class)


def read_truth_column(
    labels: pd.Series[Any] | None, y: pd.Series[Any] | None, choice: str | None
) -> tuple[pd.Series[Any], str]:
    """Find the truth and its name: y of the predictions, or label of the weights.

    Where both exist they must agree, unless ``choice`` names one of them; the label is then the
    truth of images without y.
    """
    if choice not in (None, "y", "label"):
        raise ConfigError(
            f"truth is 'y' (of the predictions) or 'label' (of the weights); got {choice!r}.",
            option="truth",
            value=choice,
            allowed=["y", "label"],
        )
    labels = None if labels is None or labels.isna().all() else labels
    y = None if y is None or y.isna().all() else y
    if (choice == "label" and labels is None) or (choice == "y" and y is None):
        raise DataError(
            "the weights have no labels."
            if choice == "label"
            else "the predictions have no column 'y' with the truth.",
            column=choice,
        )
    if labels is None and y is None:
        raise DataError(
            "the truth is unknown: the weights have no labels, and the predictions have no column "
            "'y'. Add a column 'y' to them.",
            columns=["y", "label"],
        )
    if y is None or choice == "label":
        assert labels is not None
        return labels, "label"
    if labels is not None and choice is None:
        agree = _check_agreement(labels, y)
        if agree and (y.isna() & labels.notna()).any():
            y = y.where(y.notna(), labels)
    return y, "y"


def _check_agreement(labels: pd.Series[Any], y: pd.Series[Any]) -> bool:
    """Raise an error if y and label differ; tell whether they agree somewhere."""
    both = (labels.notna() & y.notna()).to_numpy()
    label_text, y_text = (column[both].map(_text).to_numpy(dtype=object) for column in (labels, y))
    wrong = np.flatnonzero(label_text != y_text)
    if wrong.size:
        ids = labels.index[both][wrong].tolist()
        shown = [
            f"{id} (label {label_text[row]}, y {y_text[row]})"
            for id, row in zip(ids, wrong, strict=True)
        ]
        raise DataError(
            f"y of the predictions and the label of the weights differ for {wrong.size} of "
            f"{int(both.sum())} images: {first_few(shown, 3)}. Choose the truth with --truth y "
            "or --truth label (y may be another question than the label).",
            option="truth",
            count=int(wrong.size),
            ids=ids,
        )
    return bool(both.any())


def check_single(truth: pd.Series[Any]) -> None:
    """Raise an error if images have several classes."""
    if any(is_list(value) for value in truth.tolist()):
        raise DataError(
            "images have several labels each, and none is the class to be predicted. Judge all "
            "labels: columns score_<label> and y_<label> of 0 and 1 in the predictions, and no "
            "column y; or one label: a column y of 0 and 1, and --truth y.",
            column="label",
        )


def _text(value: Any) -> str:
    return str([level_text(part) for part in value]) if is_list(value) else level_text(value)


def is_regression(
    truth: pd.Series[Any], predicted: pd.Series[Any] | None, has_scores: bool, choice: bool | None
) -> bool:
    """Tell whether numbers are to be predicted.

    They are if truth and predictions are numbers, not all of them whole; ``choice`` overrides.
    """
    if choice is not None:
        return choice
    if predicted is None or has_scores or not (_is_number(truth) and _is_number(predicted)):
        return False
    y_n, predicted_n = (column.dropna().to_numpy(dtype=np.float64) for column in (truth, predicted))
    if not (np.any(y_n % 1 != 0) or np.any(predicted_n % 1 != 0)):
        return False
    within = predicted_n.size and predicted_n.min() >= 0 and predicted_n.max() <= 1
    if np.unique(y_n).size <= 2 and within:
        shown = first_few([level_text(value) for value in np.unique(y_n).tolist()])
        raise DataError(
            f"y has the values {shown}, and the column prediction numbers between 0 and 1: these "
            "look like scores. Name the column score, or add --regression if numbers are to be "
            "predicted.",
            option="regression",
            column="prediction",
        )
    return True


def _is_number(column: pd.Series[Any]) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def read_finite(column: pd.Series[Any], name: str) -> Floats:
    """Read the numbers of a column, (n,), NaN where missing; text and infinities are errors."""
    value_n = read_number_column(column, name)
    wrong = np.flatnonzero(np.isinf(value_n))
    if wrong.size:
        raise DataError(
            f"the column {name!r} contains infinite numbers ({wrong.size}); the first is that of "
            f"{column.index[wrong[0]]}.",
            column=name,
            count=int(wrong.size),
            id=column.index[wrong[0]],
        )
    return value_n


def read_class_column(
    truth: pd.Series[Any], further: Sequence[str], positive: str | None
) -> tuple[Truth, Mask]:
    """Read the classes: (the truth of every image, which images have one).

    The classes are those that occur and ``further`` ones. The positive class of two is the one
    named, else the last in the order of numbers or of the alphabet (1, True, yes, positive).
    """
    levels, code_n = text_levels(truth, "the truth")
    classes = sort_levels({*levels, *further} - {MISSING})
    known_n = np.array([level != MISSING for level in levels], dtype=np.bool_)[code_n]
    if positive is not None and positive not in classes:
        raise ConfigError(
            f"the positive class is one of {first_few(classes, 12)}; got "
            f"{positive!r}.{did_you_mean(positive, classes)}",
            option="positive",
            value=positive,
            allowed=classes,
        )
    if positive is not None and len(classes) != 2:
        raise ConfigError(
            f"only one of two classes can be the positive one; there are {len(classes)}: "
            f"{first_few(classes, 12)}.",
            option="positive",
            value=positive,
            count=len(classes),
        )
    code = {name: number for number, name in enumerate(classes)}
    code_l = np.array([code.get(level, 0) for level in levels], dtype=np.int64)
    chosen = None if len(classes) != 2 else code[positive] if positive is not None else 1
    return Truth(tuple(classes), code_l[code_n], None, chosen), known_n


def sort_levels(levels: Any) -> list[str]:
    """Sort numbers by size, other levels by alphabet."""
    by_alphabet = sorted(levels)
    try:
        return sorted(by_alphabet, key=float)
    except ValueError:
        return by_alphabet


def read_class_answers(
    table: pd.DataFrame, columns: Columns, truth: Truth, name: str, notes: list[str]
) -> tuple[Answers, Mask]:
    """Read a classifier's answers: (those for every image, which images have one).

    ``name`` is what messages call the table.
    """
    usable_n = np.ones(len(table), dtype=np.bool_)
    probability_nk, score_n = None, None
    if columns.by_class and columns.score:
        raise DataError(
            f"{name} have both {columns.score!r} and "
            f"{first_few(list(columns.by_class.values()))}: keep one kind of scores.",
            columns=[columns.score, *columns.by_class.values()],
        )
    if columns.by_class:
        probability_nk, score_n = _read_class_scores(table, columns, truth, name)
        usable_n &= ~np.isnan(probability_nk).any(axis=1)
    elif columns.score:
        probability_nk, score_n = _read_one_score(table, columns.score, truth, name, notes)
        usable_n &= ~np.isnan(score_n)
    if columns.prediction:
        predicted_n, known_n = _read_predicted(table[columns.prediction], truth, name, notes)
        usable_n &= known_n
    elif probability_nk is None:
        predicted_n = None
    elif truth.positive is not None:
        predicted_n = np.where(
            probability_nk[:, truth.positive] >= 0.5, truth.positive, 1 - truth.positive
        )
    else:
        predicted_n = np.nan_to_num(probability_nk).argmax(axis=1)
    return Answers(predicted_n, probability_nk, score_n), usable_n


def _read_class_scores(
    table: pd.DataFrame, columns: Columns, truth: Truth, name: str
) -> tuple[Floats, Floats | None]:
    lacking = [level for level in truth.classes if level not in columns.by_class]
    if lacking:
        raise DataError(
            f"{name} have no column of scores for the class {first_few(lacking)}; they have "
            f"{first_few(list(columns.by_class.values()), 12)}. Scores are columns score_<class>, "
            "with the classes spelled as in the labels; a class that the model does not know gets "
            "a column of zeros.",
            levels=lacking,
            columns=list(columns.by_class.values()),
        )
    by_class = [columns.by_class[level] for level in truth.classes]
    score_nk = np.column_stack([read_finite(table[column], column) for column in by_class])
    total_n = score_nk.sum(axis=1)
    wrong = np.flatnonzero((score_nk < 0).any(axis=1) | (np.abs(total_n - 1.0) > _SUM_TOLERANCE))
    if wrong.size:
        row = int(wrong[0])
        shown = first_few([f"{score:.4g}" for score in score_nk[row].tolist()])
        raise DataError(
            "the scores of an image are probabilities, not negative and 1 in sum, but those of "
            f"{wrong.size} of {len(table)} images are not; the first is {table.index[row]}: "
            f"{shown}, sum {total_n[row]:.4g}. Are they logits? Then apply a softmax first.",
            columns=by_class,
            count=int(wrong.size),
            id=table.index[row],
        )
    # Not divided by their sum: equal scores would differ in the last digit, and ties be lost.
    return score_nk, None if truth.positive is None else score_nk[:, truth.positive]


def _read_one_score(
    table: pd.DataFrame, column: str, truth: Truth, name: str, notes: list[str]
) -> tuple[Floats | None, Floats]:
    if truth.positive is None:
        raise DataError(
            f"{name} have one column {column!r}, which is the score of one of two classes, but "
            f"there are {len(truth.classes)}: {first_few(truth.classes, 6)}. Give one column "
            "score_<class> for each class.",
            column=column,
            count=len(truth.classes),
        )
    score_n = read_finite(table[column], column)
    if np.nanmin(score_n, initial=0.0) < 0 or np.nanmax(score_n, initial=0.0) > 1:
        notes.append(
            f"{column} is not between 0 and 1, so it is no probability: it ranks (AUROC), but has "
            "no log-loss and no calibration."
        )
        return None, score_n
    probability_nk = np.empty((score_n.size, 2))
    probability_nk[:, truth.positive], probability_nk[:, 1 - truth.positive] = (
        score_n,
        1.0 - score_n,
    )
    return probability_nk, score_n


def _read_predicted(
    column: pd.Series[Any], truth: Truth, name: str, notes: list[str]
) -> tuple[npt.NDArray[np.int64], Mask]:
    levels, code_n = text_levels(column, f"{column.name} of {name}")
    code = {level: number for number, level in enumerate(truth.classes)}
    code_l = np.array([code.get(level, -1) for level in levels], dtype=np.int64)
    unknown = [level for level in levels if level not in code and level != MISSING]
    if unknown and len(unknown) == len([level for level in levels if level != MISSING]):
        raise DataError(
            f"not one of the classes that {name} name is a class of the images: they name "
            f"{first_few(unknown)}, the truth is {first_few(truth.classes)}. Spell the classes as "
            "in the labels.",
            levels=unknown,
            allowed=list(truth.classes),
        )
    if unknown:
        count = int(np.isin(code_n, [levels.index(level) for level in unknown]).sum())
        notes.append(
            f"{count} predictions name classes that no image has, and count as wrong: "
            f"{first_few(sort_levels(unknown))}."
        )
    known_n = np.array([level != MISSING for level in levels], dtype=np.bool_)[code_n]
    return code_l[code_n], known_n
