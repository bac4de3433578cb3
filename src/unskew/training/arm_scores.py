"""Arms judged on the same images, with paired differences: `judge_arms`, `Scores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.evaluation.cells import Cell
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.predictions import Evaluation, evaluate_predictions
from unskew.files.plain_json import json_value
from unskew.records import Floats
from unskew.runs.output import features_table
from unskew.training.inputs import TrainingInputs

if TYPE_CHECKING:
    import pandas as pd

    from unskew.learn.ways import WayChoice


@dataclass(frozen=True, eq=False)
class Scores:
    """Models judged on the same images.

    Attributes
    ----------
    main : the arm that the run is about.
    evaluations : of every arm.
    gains : for every other arm, both judged together: the first model is the other, the second is
        main, so that every difference is main − other, paired on the same draws.
    predictions : of every arm, one table for each seed: id, y, prediction, score_<class>.
    part_only : which part of the target the figures cover, where the held-out split has no image of
        some strata of it; empty: all of it.
    choices : of every arm, the way that its (first) model was trained in.
    remarks : what else to know about the figures.
    seeds : that every arm was trained with.
    """

    main: str
    evaluations: Mapping[str, Evaluation]
    gains: Mapping[str, Evaluation]
    predictions: Mapping[str, Sequence[pd.DataFrame]] = field(repr=False)
    part_only: str = ""
    choices: Mapping[str, WayChoice] = field(repr=False, default_factory=dict)
    remarks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation of the main arm."""
        return self.evaluations[self.main]

    def to_dict(self) -> dict[str, Any]:
        """Return what metrics.json contains.

        The evaluation of the main arm as `unskew evaluate` writes it, and the arms side by side.
        """
        records = {name: evaluation.to_dict() for name, evaluation in self.evaluations.items()}
        arms = {
            name: {
                "overall": record["overall"],
                "worst": {part["column"]: part["worst"] for part in record["breakdowns"]},
            }
            for name, record in records.items()
        }
        for name, choice in self.choices.items():
            arms[name]["way"] = choice.to_dict()
        first = [*([self.part_only] if self.part_only else []), *self.remarks]
        return {
            **records[self.main],
            "notes": [*first, *records[self.main]["notes"]],
            "arm": self.main,
            "way": arms[self.main].get("way"),
            "seeds": list(self.seeds),
            "arms": arms,
            "gains": json_value(
                {name: pair.overall.difference or {} for name, pair in self.gains.items()}
            ),
            "gains_by": json_value(
                {name: _differences_by_cell(pair) for name, pair in self.gains.items()}
            ),
        }

    @property
    def has_label_sets(self) -> bool:
        """Tell whether an image may have any number of labels, instead of one class."""
        return self.evaluation.task == "multi-label"

    @property
    def metric(self) -> str:
        """The metric that arms are compared by."""
        return "label_accuracy" if self.has_label_sets else "accuracy"

    def accuracy(self, arm: str) -> MetricValue:
        """Return the accuracy on all judged images; of several labels, its mean over them."""
        return self.evaluations[arm].overall.figures[self.metric]

    def gain(self, arm: str) -> MetricValue | None:
        """Return the accuracy of main − that of another arm."""
        return (self.gains[arm].overall.difference or {}).get(self.metric)

    @property
    def judged_on_validation(self) -> bool:
        """Tell whether the held-out split is the one that also chose the epoch."""
        return self.evaluation.split.strip().lower() not in ("test", "testing")

    def worst(self, arm: str) -> tuple[str, MetricValue] | None:
        """Return the name of a breakdown, and the smallest accuracy of its cells.

        It is that of the last column that was asked for, else of the classes, else of the sources;
        of several labels, the smallest AUROC of a label.
        """
        parts = [part for part in self.evaluations[arm].breakdowns if part.worst is not None]
        order = [
            *[part for part in parts if part.column not in ("source", "label", "y")][::-1],
            *parts[::-1],
        ]
        names = dict.fromkeys(("y", "label"), "label" if self.has_label_sets else "class")
        for part in order:
            if part.worst is not None:
                return names.get(part.column, part.column), part.worst
        return None


def _differences_by_cell(pair: Evaluation) -> list[dict[str, Any]]:
    def cell_record(cell: Cell) -> dict[str, Any]:
        return {"name": cell.name, "images": cell.images, "figures": cell.difference or {}}

    return [
        {"column": part.column, "cells": [cell_record(cell) for cell in part.cells]}
        for part in pair.breakdowns
    ]


def judge_arms(
    table: pd.DataFrame,
    predictions: Mapping[str, Sequence[pd.DataFrame]],
    main: str,
    *,
    part_only: str = "",
    choices: Mapping[str, WayChoice] | None = None,
    remarks: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    **options: Any,
) -> Scores:
    """Evaluate every arm on the same images, and main against each of the others.

    ``predictions`` has one table for each seed of an arm; ``options`` are those of
    `evaluate_predictions`.
    """
    evaluations = {
        name: evaluate_predictions(table, frames, names=[name], **options)
        for name, frames in predictions.items()
    }
    gains = {
        name: evaluate_predictions(
            table, frames, second=predictions[main], names=[name, main], **options
        )
        for name, frames in predictions.items()
        if name != main
    }
    return Scores(
        main,
        evaluations,
        gains,
        predictions,
        part_only,
        choices or {},
        tuple(remarks),
        tuple(seeds),
    )


def prediction_frame(
    ids: Any, truth: Any, classes: Sequence[str], score_nm: Floats
) -> pd.DataFrame:
    """Return id, y, prediction and score_<class>, as `unskew evaluate --predictions` reads them.

    Of several labels, whose truth is (n, M): id, y_<label> and score_<label>.
    """
    import pandas as pd

    frame = pd.DataFrame({"id": list(ids)})
    if truth is not None and np.ndim(truth) == 2:
        table = pd.DataFrame(truth, columns=[f"y_{name}" for name in classes])
        scores = pd.DataFrame(score_nm, columns=[f"score_{name}" for name in classes])
        return pd.concat([frame, table, scores], axis=1)
    if truth is not None:
        frame["y"] = list(truth)
    frame["prediction"] = np.array(classes, dtype=object)[score_nm.argmax(axis=1)]
    return pd.concat(
        [frame, pd.DataFrame(score_nm, columns=[f"score_{name}" for name in classes])], axis=1
    )


def held_out_predictions(training: TrainingInputs, score_nm: Floats) -> pd.DataFrame:
    """Return the predictions of the held-out split as a table."""
    rows = training.rows(training.splits.held_out)
    names, label = np.array(training.classes, dtype=object), training.label[rows]
    return prediction_frame(
        training.inputs.pool.frame["id"].to_numpy()[rows],
        label if training.has_label_sets else names[label],
        training.classes,
        score_nm,
    )


def held_out_options(
    training: TrainingInputs, memberships: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Return how the held-out split is evaluated.

    The same as by `unskew evaluate OUT --predictions OUT/predictions.parquet`, so that both give
    the same numbers.
    """
    config = training.inputs.config
    return {
        "split": training.splits.held_out,
        "by": breakdown_columns(training),
        "attributes": features_table(training.inputs.pool),
        "bins": {} if config.target is None else dict(config.target.bins or {}),
        "private": config.report.privacy == "aggregate",
        "memberships": memberships,
    }


def try_judging(training: TrainingInputs, table: pd.DataFrame) -> None:
    """Evaluate made-up predictions, so that what cannot be evaluated fails before the training.

    An example is a column of [learn] by that does not exist.
    """
    rows, classes = training.rows(training.splits.held_out), len(training.classes)
    alike = held_out_predictions(training, np.full((rows.size, classes), 1.0 / classes))
    evaluate_predictions(table, alike, replicates=0, **held_out_options(training))


def breakdown_columns(training: TrainingInputs) -> tuple[str, ...]:
    """Return the columns of [learn] by, else the target's strata if they are not labels alone."""
    asked = training.inputs.config.learn.by
    if asked:
        return tuple(asked)
    target = training.inputs.target
    by = (
        []
        if target is None
        else [name for name in target.by if name in training.inputs.pool.frame.columns]
    )
    return ("*".join(by),) if [name for name in by if name != "label"] else ()
