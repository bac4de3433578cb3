"""Truth and predictions joined: which columns are which model's, and which images have both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.answers import (
    Columns,
    Mask,
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
    usable: Mask
    reasons: list[tuple[str, Mask]]
    notes: list[str]


def read_case(
    judged: Judged,
    table: pd.DataFrame,
    aligned: Sequence[pd.DataFrame],
    choice: str | None,
    regression: bool | None,
    positive: str | None,
) -> Case:
    """Read truth and answers of every image of the split; ``choice`` names the truth."""
    labels = judged.frame["label"] if "label" in judged.frame.columns else None
    y = next((predictions["y"] for predictions in aligned if "y" in predictions.columns), None)
    column, origin = read_truth_column(labels, y, choice)
    if origin == "y":
        _check_same_truth([table["y"] for table in aligned if "y" in table.columns])
    check_single(column)
    models = _models(aligned, text_levels(column, "the truth")[0])
    first = models[0]
    predicted = aligned[0][first.prediction] if first.prediction else None
    notes: list[str] = []
    numbers = is_regression(column, predicted, bool(first.score or first.by_class), regression)
    if regression is None and numbers:
        notes.append(
            "The truth and the predictions are numbers that are not all whole: judged as a "
            "regression (--classification: as classes)."
        )
    if numbers:
        truth, known_n = Truth(value=read_finite(column, origin)), column.notna().to_numpy()
        answers, answered = _number_answers(aligned, models)
    else:
        further = _further_classes(models, table if origin == "label" else None)
        truth, known_n = read_class_column(column, further, positive)
        answers, answered = _class_answers(aligned, models, truth, notes)
        if positive is None and truth.positive is not None:
            notes.append(
                f"The positive class is {truth.positive_class!r}, the last of the two; "
                "--positive names the other."
            )
    reasons = _reasons(known_n, answered)
    usable_n = ~np.any([lacking_n for _, lacking_n in reasons], axis=0)
    return Case(truth, answers, origin, usable_n, reasons, notes)


def _further_classes(models: Sequence[Columns], table: pd.DataFrame | None) -> list[str]:
    """List classes that the split may lack: those of scores, else those of all splits' labels."""
    further = {name for columns in models for name in columns.by_class}
    if not further and table is not None:
        further = {level_text(value) for value in table["label"].dropna().unique().tolist()}
    return sorted(further)


def _reasons(known_n: Mask, answered: Sequence[Mask]) -> list[tuple[str, Mask]]:
    """Say why images cannot be judged: (reason, (n,) which images)."""
    names = (
        ["have no prediction"]
        if len(answered) == 1
        else ["have no prediction of the first model", "have none of the second"]
    )
    lacking = [~answered_n for answered_n in answered]
    return [("have no truth", ~known_n), *zip(names, lacking, strict=True)]


def _check_same_truth(columns: Sequence[pd.Series[Any]]) -> None:
    if len(columns) < 2:
        return
    both = (columns[0].notna() & columns[1].notna()).to_numpy()
    one, other = (column[both].map(level_text).to_numpy(dtype=object) for column in columns)
    wrong = np.flatnonzero(one != other)
    if wrong.size:
        ids = columns[0].index[both][wrong].tolist()
        raise DataError(
            f"the two files of predictions have different y for {wrong.size} of {int(both.sum())} "
            f"images: {first_few(ids)}. They must be judged against the same truth.",
            column="y",
            count=int(wrong.size),
            ids=ids,
        )


def _models(aligned: Sequence[pd.DataFrame], levels: Sequence[str]) -> list[Columns]:
    """Find the columns of each model.

    Those of the second are in a table of its own, or are the columns …_b of the first.
    """
    models = [find_columns(list(table.columns), levels) for table in aligned]
    for columns, table in zip(models, aligned, strict=True):
        if not columns:
            raise DataError(
                "predictions have a column 'prediction', 'score' or 'score_<class>'; these have "
                f"{first_few(list(table.columns), 12)}.",
                columns=[str(column) for column in table.columns],
            )
    other = find_columns(list(aligned[0].columns), levels, second=True)
    if other and len(aligned) == 2:
        raise ConfigError(
            "the second model is in a file of its own, and also in columns prediction_b or "
            "score_b of the first: keep one of them.",
            option="second",
        )
    return [*models, other] if other else models


def _tables_of(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns]
) -> list[tuple[pd.DataFrame, Columns, str]]:
    """List (table, columns, name for messages) of each model."""
    names = ["the predictions", "the predictions of the second model"]
    return [
        (aligned[min(number, len(aligned) - 1)], columns, names[number])
        for number, columns in enumerate(models)
    ]


def _number_answers(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns]
) -> tuple[list[Answers], list[Mask]]:
    answers, answered = [], []
    for table, columns, name in _tables_of(aligned, models):
        if columns.prediction is None:
            raise DataError(
                f"a regression needs a column 'prediction' of numbers; {name} have "
                f"{first_few(list(table.columns), 12)}.",
                column="prediction",
                columns=[str(column) for column in table.columns],
            )
        value_n = read_finite(table[columns.prediction], columns.prediction)
        answers.append(Answers(value=value_n))
        answered.append(~np.isnan(value_n))
    return answers, answered


def _class_answers(
    aligned: Sequence[pd.DataFrame], models: Sequence[Columns], truth: Truth, notes: list[str]
) -> tuple[list[Answers], list[Mask]]:
    read = [
        read_class_answers(table, columns, truth, name, notes)
        for table, columns, name in _tables_of(aligned, models)
    ]
    return [answers for answers, _ in read], [answered_n for _, answered_n in read]
