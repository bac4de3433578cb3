"""What is compared: debiasing weights, naive pooling, baselines by name, or weights of a table."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.learn.baselines import BASELINES, make_baseline
from unskew.learn.weights_by_id import align_by_id
from unskew.records import Floats, Ints
from unskew.training.inputs import TrainingInputs

if TYPE_CHECKING:
    from unskew.debiasing.by_split import SplitWeights
    from unskew.learn.training_data import TrainingData

DEBIASED, NAIVE, GIVEN = "debiased", "naive", "given"
ARMS = (DEBIASED, *BASELINES)
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class TrainingArm:
    """One way to weight the training images.

    Attributes
    ----------
    name : "debiased", "given", or a baseline.
    weight : (n,) in the order of the pool; those of train are trained with, those of validation
        choose the epoch.
    sentences : what it computes and assumes.
    logit_offset : (M,) subtracted from the logits before a prediction (logit adjustment, after
        training); None: nothing is.
    """

    name: str
    weight: Floats = field(repr=False)
    sentences: tuple[str, ...]
    logit_offset: Floats | None = None

    def adjusted(self, score_nm: Floats) -> Floats:
        """Return (n, M) probabilities p_m e^{−offset_m}, scaled to sum 1."""
        return score_nm if self.logit_offset is None else adjust_scores(score_nm, self.logit_offset)


def adjust_scores(score_nm: Floats, offset_m: Floats) -> Floats:
    """Return (n, M) p_m e^{−offset_m}/Σ: the offset is subtracted from the logits.

    A class with an offset of ∞ is never predicted.
    """
    moved_nm = score_nm * np.exp(-(offset_m - np.min(offset_m)))
    return np.asarray(moved_nm / moved_nm.sum(axis=1, keepdims=True))


def check_arms(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once; refuse an unknown one."""
    for name in names:
        if name not in (*ARMS, GIVEN):
            raise ConfigError(
                f"there is no arm {name!r}; there are {', '.join(ARMS)}.{did_you_mean(name, ARMS)}",
                option="--arm",
                value=name,
                allowed=list(ARMS),
            )
    return tuple(dict.fromkeys(names))


def main_arm(names: Sequence[str]) -> str:
    """Return the arm whose model the run is about: given, else debiased, else the first."""
    return next((name for name in (GIVEN, DEBIASED) if name in names), names[0])


def make_arm(
    name: str, training: TrainingInputs, weights: SplitWeights, given_n: Floats | None = None
) -> TrainingArm:
    """Weigh the images for one arm; ``given_n`` are the weights of a table.

    Validation is weighted to the target for every arm but naive, which knows no target.
    """
    sample_n = weights.sample_weight
    rows = training.rows(training.splits.train)
    if name == DEBIASED:
        return TrainingArm(name, sample_n, ("The debiasing weights of this run.",))
    if name == GIVEN:
        assert given_n is not None
        worth = worth_of(f"given for {training.splits.train}", given_n[rows])
        sentences = ("Weights that were given in a table, joined by id.", worth)
        return TrainingArm(name, given_n, sentences)
    pool = training.inputs.pool.take(rows)
    options: dict[str, Any] = {}
    if name == "density_ratio":
        from unskew.runs.probing import probe_features

        options["features"] = probe_features(training.inputs)
    baseline = make_baseline(
        name, pool, None if name == NAIVE else training.inputs.target, **options
    )
    weight_n = np.ones_like(sample_n) if name == NAIVE else sample_n.copy()
    weight_n[rows] = baseline.sample_weight
    offset_m = None
    if baseline.logit_offset is not None and baseline.classes is not None:
        known = dict(zip(baseline.classes, baseline.logit_offset.tolist(), strict=True))
        offset_m = np.array([known.get(level, np.inf) for level in training.classes])
    return TrainingArm(name, weight_n, baseline.sentences, offset_m)


def worth_of(whose: str, weight_n: Floats) -> str:
    """Say how many equally weighted images these weights are worth (Kish's effective number)."""
    from unskew.weigh.effective_size import effective_size

    return (
        f"The weights {whose} are worth {effective_size(weight_n / weight_n.sum()):,.0f} of "
        f"{weight_n.size:,} images."
    )


def read_given_weights(training: TrainingInputs, path: str | PathLike[str]) -> Floats:
    """Read (n,) weights from a table, joined by id and checked.

    The table (CSV, TSV, JSONL, Parquet) has the columns id and sample_weight or weight.
    """
    from unskew.sources.tables import read_table

    table = read_table(str(path), str(path), text=("id",)).frame
    lacking = "id" not in table.columns or not {"weight", "sample_weight"} & set(table.columns)
    if lacking:
        raise ConfigError(
            f"{Path(path).name} has the columns {', '.join(map(str, table.columns))}; a table of "
            "weights has id and weight.",
            path=str(path),
            columns=[str(column) for column in table.columns],
        )
    name = "sample_weight" if "sample_weight" in table.columns else "weight"
    named = table[["id"]].assign(id=table["id"].astype(str), weight=table[name])
    ids = training.inputs.pool.frame["id"].astype(str).tolist()
    weight_n = align_by_id(named, ids, allow_extra=True)
    extra = named["id"][~named["id"].isin(ids)].tolist()
    if extra:
        raise DataError(
            f"{len(extra)} of the {len(named)} weights belong to images that the dataset does not "
            f"contain, such as {first_few(extra, 3)}. "
            f"Remove their rows from {Path(path).name}; or are these the weights of other sources "
            "than [sources] names?",
            path=str(path),
            ids=extra,
            count=len(extra),
        )
    for split in (training.splits.train, training.splits.validation):
        if split is not None:
            align_by_id(weight_n[training.rows(split)])  # not all of them zero
    return weight_n


def take_training_rows(X: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """Return X[rows]; rows of an array mapped from a file are mapped from a temporary file."""
    if not isinstance(X, np.memmap):
        return X[rows]
    with tempfile.TemporaryFile(prefix="unskew-") as file:
        taken: npt.NDArray[Any] = np.memmap(
            file, dtype=X.dtype, mode="w+", shape=(rows.size, *X.shape[1:])
        )
    for start in range(0, rows.size, _BLOCK):
        taken[start : start + _BLOCK] = X[rows[start : start + _BLOCK]]
    return taken


def gather_training_data(training: TrainingInputs, arm: TrainingArm) -> TrainingData:
    """Gather the images of train, and those of validation, with the arm's weights."""
    from unskew.learn.training_data import TrainingData

    def part(split: str, validation: TrainingData | None) -> TrainingData:
        rows = training.rows(split)
        ids = training.inputs.pool.frame["id"].to_numpy()[rows]
        return TrainingData(
            take_training_rows(training.X, rows),
            training.label[rows],
            training.classes,
            arm.weight[rows],
            ids,
            validation,
        )

    name = training.splits.validation
    return part(training.splits.train, None if name is None else part(name, None))
