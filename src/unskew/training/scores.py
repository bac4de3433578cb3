"""How good the trained models are on held-out images: predictions, metrics, arms compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.evaluation.bootstrap import MetricValue
from unskew.evaluation.cells import Cell
from unskew.evaluation.predictions import Evaluation, evaluate_predictions
from unskew.files.plain_json import json_value
from unskew.records import Floats
from unskew.runs.output import features_table
from unskew.training.inputs import TrainingInputs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Scores:
    """Models judged on the held-out split.

    Attributes
    ----------
    main : the arm that the run is about.
    evaluations : of every arm.
    gains : for every other arm, main − other of every metric, paired on the same draws.
    predictions : of every arm: id, y, prediction, score_<class>.
    part_only : which part of the target the figures cover, where the held-out split has no image of
        some strata of it; empty: all of it.
    """

    main: str
    evaluations: Mapping[str, Evaluation]
    gains: Mapping[str, Cell]
    predictions: Mapping[str, pd.DataFrame] = field(repr=False)
    part_only: str = ""

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
        gains = {name: cell.difference or {} for name, cell in self.gains.items()}
        notes = [*([self.part_only] if self.part_only else []), *records[self.main]["notes"]]
        return {
            **records[self.main],
            "notes": notes,
            "arm": self.main,
            "arms": arms,
            "gains": json_value(gains),
        }

    def accuracy(self, arm: str) -> MetricValue:
        """Return the accuracy on all held-out images, weighted to the target."""
        return self.evaluations[arm].overall.figures["accuracy"]

    @property
    def judged_on_validation(self) -> bool:
        """Tell whether the held-out split is the one that also chose the epoch."""
        return self.evaluations[self.main].split.strip().lower() not in ("test", "testing")

    def worst(self, arm: str) -> tuple[str, MetricValue] | None:
        """Return the name of a breakdown, and the smallest accuracy of its cells.

        It is that of the last column that was asked for, else of the classes, else of the sources.
        """
        parts = [part for part in self.evaluations[arm].breakdowns if part.worst is not None]
        order = [
            *[part for part in parts if part.column not in ("source", "label", "y")][::-1],
            *parts[::-1],
        ]
        names = {"y": "class", "label": "class"}
        for part in order:
            if part.worst is not None:
                return names.get(part.column, part.column), part.worst
        return None


def prediction_frame(
    ids: Any, truth: Any, classes: Sequence[str], score_nm: Floats
) -> pd.DataFrame:
    """Return id, y, prediction and score_<class>, as `unskew evaluate --predictions` reads them."""
    import pandas as pd

    frame = pd.DataFrame({"id": list(ids)})
    if truth is not None:
        frame["y"] = list(truth)
    frame["prediction"] = np.array(classes, dtype=object)[score_nm.argmax(axis=1)]
    return pd.concat(
        [frame, pd.DataFrame(score_nm, columns=[f"score_{name}" for name in classes])], axis=1
    )


def held_out_predictions(training: TrainingInputs, score_nm: Floats) -> pd.DataFrame:
    """Return the predictions of the held-out split as a table."""
    rows = training.rows(training.splits.held_out)
    names = np.array(training.classes, dtype=object)
    return prediction_frame(
        training.inputs.pool.frame["id"].to_numpy()[rows],
        names[training.label[rows]],
        training.classes,
        score_nm,
    )


def judge_arms(
    training: TrainingInputs,
    table: pd.DataFrame,
    predictions: Mapping[str, pd.DataFrame],
    main: str,
    *,
    replicates: int = 1000,
    part_only: str = "",
) -> Scores:
    """Evaluate every arm on the held-out split with the weights of the run, and compare them.

    It makes the same call as `unskew evaluate OUT --predictions OUT/predictions.parquet`, so that
    both give the same numbers.
    """
    config = training.inputs.config
    options: dict[str, Any] = {
        "split": training.splits.held_out,
        "by": breakdown_columns(training),
        "attributes": features_table(training.inputs.pool),
        "bins": {} if config.target is None else dict(config.target.bins or {}),
        "private": config.report.privacy == "aggregate",
        "replicates": replicates,
    }
    evaluations = {
        name: evaluate_predictions(table, frame, **options) for name, frame in predictions.items()
    }
    others = [name for name in predictions if name != main]
    gains = {
        name: evaluate_predictions(
            table, predictions[name], second=predictions[main], **{**options, "by": ()}
        ).overall
        for name in others
    }
    return Scores(main, evaluations, gains, predictions, part_only)


def try_judging(training: TrainingInputs, table: pd.DataFrame) -> None:
    """Evaluate made-up predictions, so that what cannot be evaluated fails before the training.

    An example is a column of [learn] by that does not exist.
    """
    rows, classes = training.rows(training.splits.held_out), len(training.classes)
    alike = held_out_predictions(training, np.full((rows.size, classes), 1.0 / classes))
    judge_arms(training, table, {"trial": alike}, "trial", replicates=0)


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
