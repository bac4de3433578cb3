"""What the columns of a table of predictions say: the task, the truth, classes, predicted classes,
scores and numbers.
"""

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
    """The columns of one model: its predictions, one score (of two classes), or scores of each
    class.
    """

    prediction: str | None = None
    score: str | None = None
    by_class: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prediction or self.score or self.by_class)


def find_columns(names: Sequence[str], levels: Sequence[str], *, second: bool = False) -> Columns:
    """The columns of the first model (prediction, score, score_<class>) or of a second one in the
    same table (prediction_b, score_b …).

    A column ``score_b`` is the score of the class b where there is such a class.
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
    """The truth and where it comes from: y of the predictions, the label of the weights, or, where
    there are both, either if they agree.

    Where they agree, the label is the truth of images without y.
    """
    if choice not in (None, "y", "label"):
        raise ConfigError(
            f"truth is 'y' (of the predictions) or 'label' (of the weights); got {choice!r}."
        )
    labels = None if labels is None or labels.isna().all() else labels
    y = None if y is None or y.isna().all() else y
    if (choice == "label" and labels is None) or (choice == "y" and y is None):
        raise DataError(
            "the weights hold no labels."
            if choice == "label"
            else "the predictions have no column 'y' with the truth."
        )
    if labels is None and y is None:
        raise DataError(
            "nothing says what is true: the weights hold no labels, and the predictions have no "
            "column 'y'. Add a column 'y' to them."
        )
    if y is None or choice == "label":
        assert labels is not None
        return labels, "label"
    if labels is not None and choice is None:
        both = (labels.notna() & y.notna()).to_numpy()
        said, found = (each[both].map(_text).to_numpy(dtype=object) for each in (labels, y))
        wrong = np.flatnonzero(said != found)
        if wrong.size:
            key = labels.index[both].tolist()
            shown = first_few([f"{key[at]} (label {said[at]}, y {found[at]})" for at in wrong], 3)
            raise DataError(
                f"y of the predictions and the label of the weights differ for {wrong.size} of "
                f"{int(both.sum())} images: {shown}. Say which is the truth: --truth y or --truth "
                "label (y may be another question than the label)."
            )
        if both.any() and (y.isna() & labels.notna()).any():
            y = y.where(y.notna(), labels)
    return y, "y"


def check_single(truth: pd.Series[Any]) -> None:
    """An image has one class, or it is an error."""
    if any(is_list(value) for value in truth.tolist()):
        raise DataError(
            "images have several labels each, and none is the class to be predicted. Judge one "
            "label at a time: a column y of 0 and 1 in the predictions, and --truth y."
        )


def _text(value: Any) -> str:
    return str([level_text(each) for each in value]) if is_list(value) else level_text(value)


def is_regression(
    truth: pd.Series[Any], predicted: pd.Series[Any] | None, has_scores: bool, choice: bool | None
) -> bool:
    """Are numbers to be predicted? Yes where truth and predictions are numbers and not all of them
    whole; ``choice`` decides otherwise.
    """
    if choice is not None:
        return choice
    if predicted is None or has_scores or not (_is_number(truth) and _is_number(predicted)):
        return False
    y_n, said_n = (each.dropna().to_numpy(dtype=np.float64) for each in (truth, predicted))
    if not (np.any(y_n % 1 != 0) or np.any(said_n % 1 != 0)):
        return False
    if np.unique(y_n).size <= 2 and said_n.size and said_n.min() >= 0 and said_n.max() <= 1:
        shown = first_few([level_text(each) for each in np.unique(y_n).tolist()])
        raise DataError(
            f"y has the values {shown}, and the column prediction numbers between 0 and 1: these "
            "look like scores. Call the column score, or say --regression if numbers are to be "
            "predicted."
        )
    return True


def _is_number(column: pd.Series[Any]) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def read_finite(column: pd.Series[Any], name: str) -> Floats:
    """(n,) the numbers of a column, NaN where there is none; text and infinities are errors."""
    value_n = read_number_column(column, name)
    wrong = np.flatnonzero(np.isinf(value_n))
    if wrong.size:
        raise DataError(
            f"the column {name!r} holds infinite numbers, {wrong.size} of them; the first is that "
            f"of {column.index[wrong[0]]}."
        )
    return value_n


def read_class_column(
    truth: pd.Series[Any], further: Sequence[str], positive: str | None
) -> tuple[Truth, Mask]:
    """The classes (those that occur and ``further`` ones), that of every image, and which images
    have one.

    The positive class of two is the one named, else the last in the order of numbers or of the
    alphabet (1, True, yes, positive).
    """
    levels, code_n = text_levels(truth, "the truth")
    classes = sort_levels({*levels, *further} - {MISSING})
    known_n = np.array([level != MISSING for level in levels], dtype=np.bool_)[code_n]
    if positive is not None and positive not in classes:
        raise ConfigError(
            f"the positive class is one of {first_few(classes, 12)}; got "
            f"{positive!r}.{did_you_mean(positive, classes)}"
        )
    if positive is not None and len(classes) != 2:
        raise ConfigError(
            f"a positive class is told where there are two; here are {len(classes)}: "
            f"{first_few(classes, 12)}."
        )
    place = {name: at for at, name in enumerate(classes)}
    at_l = np.array([place.get(level, 0) for level in levels], dtype=np.int64)
    chosen = None if len(classes) != 2 else place[positive] if positive is not None else 1
    return Truth(tuple(classes), at_l[code_n], None, chosen), known_n


def sort_levels(levels: Any) -> list[str]:
    """Numbers by size, other levels by alphabet."""
    every = sorted(levels)
    try:
        return sorted(every, key=float)
    except ValueError:
        return every


def read_class_answers(
    table: pd.DataFrame, columns: Columns, truth: Truth, said: str, notes: list[str]
) -> tuple[Answers, Mask]:
    """What a classifier said of every image, and of which images it said something."""
    usable_n = np.ones(len(table), dtype=np.bool_)
    probability_nk, score_n = None, None
    if columns.by_class and columns.score:
        raise DataError(
            f"{said} have both {columns.score!r} and "
            f"{first_few(list(columns.by_class.values()))}: keep one kind of scores."
        )
    if columns.by_class:
        probability_nk, score_n = _read_class_scores(table, columns, truth, said)
        usable_n &= ~np.isnan(probability_nk).any(axis=1)
    elif columns.score:
        probability_nk, score_n = _read_one_score(table, columns.score, truth, said, notes)
        usable_n &= ~np.isnan(score_n)
    if columns.prediction:
        predicted_n, known_n = _read_predicted(table[columns.prediction], truth, said, notes)
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
    table: pd.DataFrame, columns: Columns, truth: Truth, said: str
) -> tuple[Floats, Floats | None]:
    lacking = [name for name in truth.classes if name not in columns.by_class]
    if lacking:
        raise DataError(
            f"{said} have no column of scores for the class {first_few(lacking)}; they have "
            f"{first_few(list(columns.by_class.values()), 12)}. Scores are columns score_<class>, "
            "classes written as the labels are; one that the model does not know has a column of "
            "zeros."
        )
    score_nk = np.column_stack(
        [
            read_finite(table[columns.by_class[name]], columns.by_class[name])
            for name in truth.classes
        ]
    )
    total_n = score_nk.sum(axis=1)
    wrong = np.flatnonzero((score_nk < 0).any(axis=1) | (np.abs(total_n - 1.0) > _SUM_TOLERANCE))
    if wrong.size:
        at = int(wrong[0])
        shown = first_few([f"{each:.4g}" for each in score_nk[at].tolist()])
        raise DataError(
            "the scores of an image are probabilities, not negative and 1 in sum, but those of "
            f"{wrong.size} of {len(table)} images are not; the first is {table.index[at]}: "
            f"{shown}, sum {total_n[at]:.4g}. Are they logits? Then apply a softmax first."
        )
    # As they are: divided by their sum, scores that are equal would differ in the last digit, and a
    # tie be lost.
    return score_nk, None if truth.positive is None else score_nk[:, truth.positive]


def _read_one_score(
    table: pd.DataFrame, name: str, truth: Truth, said: str, notes: list[str]
) -> tuple[Floats | None, Floats]:
    if truth.positive is None:
        raise DataError(
            f"{said} have one column {name!r}, which is the score of one of two classes, but "
            f"there are {len(truth.classes)}: {first_few(truth.classes, 6)}. Give a column "
            "score_<class> for each."
        )
    score_n = read_finite(table[name], name)
    if np.nanmin(score_n, initial=0.0) < 0 or np.nanmax(score_n, initial=0.0) > 1:
        notes.append(
            f"{name} is not between 0 and 1, so it is no probability: it ranks (AUROC), but has "
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
    column: pd.Series[Any], truth: Truth, said: str, notes: list[str]
) -> tuple[npt.NDArray[np.int64], Mask]:
    levels, code_n = text_levels(column, f"{column.name} of {said}")
    place = {name: at for at, name in enumerate(truth.classes)}
    at_l = np.array([place.get(level, -1) for level in levels], dtype=np.int64)
    unknown = [level for level in levels if level not in place and level != MISSING]
    if unknown and len(unknown) == len([level for level in levels if level != MISSING]):
        raise DataError(
            f"not one of the classes that {said} name is a class of the images: they say "
            f"{first_few(unknown)}, the truth is {first_few(truth.classes)}. Write the classes as "
            "the labels are written."
        )
    if unknown:
        count = int(np.isin(code_n, [levels.index(level) for level in unknown]).sum())
        notes.append(
            f"{count} predictions name classes that no image has, and count as wrong: "
            f"{first_few(sort_levels(unknown))}."
        )
    known_n = np.array([level != MISSING for level in levels], dtype=np.bool_)[code_n]
    return at_l[code_n], known_n
