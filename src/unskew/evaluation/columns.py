"""Truth and predictions side by side: which columns are which model's, what is true, which images
have both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.answers import (
    Columns,
    check_single,
    find_columns,
    is_regression,
    read_class_answers,
    read_class_column,
    read_finite,
    read_truth_column,
)
from unskew.evaluation.matching import Judged
from unskew.evaluation.metrics import Answers, Truth
from unskew.records.levels import level_text, text_levels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Case:
    """Truth and answers of every image of the split, and which images have both."""

    truth: Truth
    answers: list[Answers]
    origin: str
    usable: npt.NDArray[np.bool_]
    reasons: list[tuple[str, npt.NDArray[np.bool_]]]
    notes: list[str]


def read_case(
    judged: Judged,
    table: pd.DataFrame,
    aligned: Sequence[pd.DataFrame],
    choice: str | None,
    regression: bool | None,
    positive: str | None,
) -> Case:
    """What is true and what was said of every image of the split."""
    labels = judged.frame["label"] if "label" in judged.frame.columns else None
    y = next((each["y"] for each in aligned if "y" in each.columns), None)
    column, origin = read_truth_column(labels, y, choice)
    if len(aligned) == 2 and origin == "y" and all("y" in each.columns for each in aligned):
        _check_same_truth(aligned[0]["y"], aligned[1]["y"])
    check_single(column)
    levels = text_levels(column, "the truth")[0]
    models = _models(aligned, levels)
    first = models[0]
    said = aligned[0][first.prediction] if first.prediction else None
    notes: list[str] = []
    numbers = is_regression(column, said, bool(first.score or first.by_class), regression)
    if regression is None and numbers:
        notes.append(
            "The truth and the predictions are numbers that are not all whole: judged as a "
            "regression (--classification: as classes)."
        )
    if numbers:
        truth, known_n = Truth(value=read_finite(column, origin)), column.notna().to_numpy()
        answers, heard = _number_answers(aligned, models)
    else:
        # Classes that the split does not have may be among the scores, and make two of one.
        further = {name for each in models for name in each.by_class}
        if origin == "label":
            further |= (
                {level_text(value) for value in table["label"].dropna().unique().tolist()}
                if not further
                else set()
            )
        truth, known_n = read_class_column(column, sorted(further), positive)
        answers, heard = _class_answers(aligned, models, truth, notes)
        if positive is None and truth.positive is not None:
            notes.append(
                f"The positive class is {truth.classes[truth.positive]!r}, the last of the two; "
                "--positive names the other."
            )
    reasons = [("have no truth", ~known_n)]
    names = (
        ["have no prediction"]
        if len(models) == 1
        else ["have no prediction of the first model", "have none of the second"]
    )
    reasons += [(name, ~heard_n) for name, heard_n in zip(names, heard, strict=True)]
    usable_n = known_n.copy()
    for heard_n in heard:
        usable_n &= heard_n
    return Case(truth, answers, origin, usable_n, reasons, notes)


def _check_same_truth(one: pd.Series[Any], other: pd.Series[Any]) -> None:
    both = (one.notna() & other.notna()).to_numpy()
    wrong = np.flatnonzero(
        one[both].map(level_text).to_numpy(dtype=object)
        != other[both].map(level_text).to_numpy(dtype=object)
    )
    if wrong.size:
        raise DataError(
            f"the two files of predictions have different y for {wrong.size} of {int(both.sum())} "
            f"images: {first_few(one.index[both][wrong].tolist())}. They must be judged against "
            "the same truth."
        )


def _models(aligned: Sequence[pd.DataFrame], levels: Sequence[str]) -> list[Columns]:
    """The columns of the models; the second is in a table of its own, or in the columns …_b of the
    first.
    """
    models = [find_columns(list(each.columns), levels) for each in aligned]
    for columns, each in zip(models, aligned, strict=True):
        if not columns:
            raise DataError(
                "predictions have a column 'prediction', 'score' or 'score_<class>'; these have "
                f"{first_few(list(each.columns), 12)}."
            )
    other = find_columns(list(aligned[0].columns), levels, second=True)
    if other and len(aligned) == 2:
        raise ConfigError(
            "the second model is in a file of its own, and in columns prediction_b or score_b of "
            "the first: keep one of them."
        )
    return [*models, other] if other else models


def _tables_of(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns]
) -> list[tuple[pd.DataFrame, Columns, str]]:
    said = ["the predictions", "the predictions of the second model"]
    return [
        (aligned[min(at, len(aligned) - 1)], columns, said[at]) for at, columns in enumerate(models)
    ]


def _number_answers(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns]
) -> tuple[list[Answers], list[npt.NDArray[np.bool_]]]:
    answers, heard = [], []
    for table, columns, said in _tables_of(aligned, models):
        if columns.prediction is None:
            raise DataError(
                f"a regression needs a column 'prediction' of numbers; {said} have "
                f"{first_few(list(table.columns), 12)}."
            )
        value_n = read_finite(table[columns.prediction], columns.prediction)
        answers.append(Answers(value=value_n))
        heard.append(~np.isnan(value_n))
    return answers, heard


def _class_answers(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns], truth: Truth, notes: list[str]
) -> tuple[list[Answers], list[npt.NDArray[np.bool_]]]:
    found = [
        read_class_answers(table, columns, truth, said, notes)
        for table, columns, said in _tables_of(aligned, models)
    ]
    return [answers for answers, _ in found], [heard_n for _, heard_n in found]
