"""Truth and predictions joined: which columns are which model's, and which images have both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """Truth and answers of every image of the split, and which images have both.

    ``answers`` of each model are those of its trainings.
    """

    truth: Truth
    answers: list[tuple[Answers, ...]]
    origin: str
    usable: Mask
    reasons: list[tuple[str, Mask]]
    notes: list[str]


class ModelColumns(NamedTuple):
    """The table of a model, its columns there, and its name for messages."""

    table: pd.DataFrame
    columns: Columns
    name: str


def read_case(
    judged: Judged,
    table: pd.DataFrame,
    aligned: Sequence[pd.DataFrame],
    names: Sequence[str],
    trainings: int,
    choice: str | None,
    regression: bool | None,
    positive: str | None,
) -> Case:
    """Read truth and answers of every image of the split; ``choice`` names the truth.

    ``aligned`` has the tables of all trainings, model by model, and ``names`` their names.
    """
    labels = judged.frame["label"] if "label" in judged.frame.columns else None
    y = next((predictions["y"] for predictions in aligned if "y" in predictions.columns), None)
    column, origin = read_truth_column(labels, y, choice)
    if origin == "y":
        _check_same_truth([table["y"] for table in aligned if "y" in table.columns])
    check_single(column)
    models = _models(aligned, names, text_levels(column, "the truth")[0])
    first = models[0].columns
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
        answers, answered = _number_answers(models)
    else:
        further = _further_classes(models, table if origin == "label" else None)
        truth, known_n = read_class_column(column, further, positive)
        answers, answered = _class_answers(models, truth, notes)
        if positive is None and truth.positive is not None:
            notes.append(
                f"The positive class is {truth.positive_class!r}, the last of the two; "
                "--positive names the other."
            )
    reasons = [("have no truth", ~known_n)]
    reasons += [
        (f"have no {model.name.replace('predictions', 'prediction', 1)}", ~answered_n)
        for model, answered_n in zip(models, answered, strict=True)
    ]
    usable_n = ~np.any([lacking_n for _, lacking_n in reasons], axis=0)
    by_model = [
        tuple(answers[start : start + trainings]) for start in range(0, len(answers), trainings)
    ]
    return Case(truth, by_model, origin, usable_n, reasons, notes)


def _further_classes(models: Sequence[ModelColumns], table: pd.DataFrame | None) -> list[str]:
    """List classes that the split may lack: those of scores, else those of all splits' labels."""
    further = {name for model in models for name in model.columns.by_class}
    if not further and table is not None:
        further = {level_text(value) for value in table["label"].dropna().unique().tolist()}
    return sorted(further)


def _check_same_truth(columns: Sequence[pd.Series[Any]]) -> None:
    for other in columns[1:]:
        both = (columns[0].notna() & other.notna()).to_numpy()
        pair = [
            column[both].map(level_text).to_numpy(dtype=object) for column in (columns[0], other)
        ]
        wrong = np.flatnonzero(pair[0] != pair[1])
        if not wrong.size:
            continue
        ids = columns[0].index[both][wrong].tolist()
        raise DataError(
            f"two files of predictions have different y for {wrong.size} of {int(both.sum())} "
            f"images: {first_few(ids)}. They must be judged against the same truth.",
            column="y",
            count=int(wrong.size),
            ids=ids,
        )


def _models(
    aligned: Sequence[pd.DataFrame], names: Sequence[str], levels: Sequence[str]
) -> list[ModelColumns]:
    """Find the columns of each model.

    Those of the second are in a table of its own, or are the columns …_b of the first.
    """
    models = [
        ModelColumns(table, find_columns(list(table.columns), levels), name)
        for table, name in zip(aligned, names, strict=True)
    ]
    for model in models:
        if not model.columns:
            raise DataError(
                "predictions have a column 'prediction', 'score' or 'score_<class>'; these have "
                f"{first_few(list(model.table.columns), 12)}.",
                columns=[str(column) for column in model.table.columns],
            )
    other = find_columns(list(aligned[0].columns), levels, second=True)
    if other and len(aligned) > 1:
        raise ConfigError(
            "the second model is in a file of its own, and also in columns prediction_b or "
            "score_b of the first: keep one of them.",
            option="second",
        )
    second = ModelColumns(aligned[0], other, "predictions of the second model")
    return [*models, second] if other else models


def _number_answers(models: Sequence[ModelColumns]) -> tuple[list[Answers], list[Mask]]:
    answers, answered = [], []
    for model in models:
        if model.columns.prediction is None:
            raise DataError(
                f"a regression needs a column 'prediction' of numbers; the {model.name} have "
                f"{first_few(list(model.table.columns), 12)}.",
                column="prediction",
                columns=[str(column) for column in model.table.columns],
            )
        value_n = read_finite(model.table[model.columns.prediction], model.columns.prediction)
        answers.append(Answers(value=value_n))
        answered.append(~np.isnan(value_n))
    return answers, answered


def _class_answers(
    models: Sequence[ModelColumns], truth: Truth, notes: list[str]
) -> tuple[list[Answers], list[Mask]]:
    read = [
        read_class_answers(model.table, model.columns, truth, f"the {model.name}", notes)
        for model in models
    ]
    return [answers for answers, _ in read], [answered_n for _, answered_n in read]
