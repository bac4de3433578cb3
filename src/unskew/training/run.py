"""Weighted training from a configuration: images in, weights as `unskew weigh` computes them, a
model with its metrics and its card out.

`prepare_training` reads and weighs, `run_training` trains and judges; both together are `unskew
train`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.config.learn_keys import unread_keys
from unskew.config.run_config import RunConfig, with_settings
from unskew.errors import ConfigError, CoverageError, OverlapError, first_few, missing_extra
from unskew.evaluation.predictions import population_sentences
from unskew.files.atomic import write_text, written_whole
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.plain_json import json_value, write_json
from unskew.records import Floats
from unskew.runs.forecast import join_forecast
from unskew.runs.output import (
    PAGE,
    WEIGHTS,
    unreadable_listed,
    write_frame,
    write_refusal,
    write_run,
)
from unskew.runs.pipeline import Run
from unskew.runs.pipeline import run as run_in_memory
from unskew.training.arms import (
    GIVEN,
    TrainingArm,
    check_arms,
    gather_training_data,
    main_arm,
    make_arm,
    read_given_weights,
    take_training_rows,
    worth_of,
)
from unskew.training.folder import (
    ARMS_FOLDER,
    CARD,
    HISTORY,
    METRICS,
    PREDICTIONS,
    RECORD,
    check_models,
    check_same,
    check_split_table,
    check_training_folder,
    clear_training,
    describe_start,
    fingerprint_models,
    fingerprint_weights,
    read_record,
    write_training_record,
)
from unskew.training.inputs import (
    SPLITS,
    TrainingInputs,
    read_training_inputs,
    settings_for,
    write_split_table,
)
from unskew.training.model_card import CardFacts, write_card
from unskew.training.projections import PROJECTIONS, write_projections
from unskew.training.scores import Scores, held_out_predictions, judge_arms, try_judging
from unskew.weigh.weights_table import join_weights

if TYPE_CHECKING:
    from unskew.evaluation.bootstrap import MetricValue
    from unskew.learn.presets import TrainSettings
    from unskew.learn.trained_model import TrainedModel

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Preparation:
    """Everything a training needs, read and weighed; nothing is trained yet.

    Attributes
    ----------
    training : the images, their classes and splits.
    run : the weights, as `unskew weigh` computes them.
    arms : what is trained, the main one first.
    settings : of the training.
    record : what training.json says.
    """

    out: Path
    training: TrainingInputs
    run: Run
    arms: tuple[TrainingArm, ...]
    settings: TrainSettings
    record: dict[str, Any] = field(repr=False)
    command: str = ""
    resume: bool = False

    def lines(self) -> list[str]:
        """What is about to happen, in words."""
        training, splits, parts = self.training, self.training.splits, self.run.weights.parts
        counts = ", ".join(f"{part.name} {part.images:,}" for part in parts)
        made = f" (made here: {SPLITS})" if training.split_table is not None else ""
        kind = "pixels" if not training.columns else f"{len(training.columns)} features"
        lines = [
            f"{len(training.label):,} images of {len(training.inputs.pool.names)} sources, "
            f"{len(training.classes)} classes, as {kind}; "
            f"{counts}{made}.",
        ]
        given = self.arms[0].name == GIVEN
        whose, weight_n = (
            ("given for", self.arms[0].weight[training.rows(splits.train)])
            if given
            else ("of", parts[0].weight)
        )
        lines.append(worth_of(f"{whose} {splits.train}", weight_n))
        epochs = (
            ""
            if training.columns
            else f", {self.settings.epochs} epochs of batches of {self.settings.batch}"
        )
        named = ", ".join(arm.name for arm in self.arms)
        lines.append(
            f"Training {named}: preset {self.settings.preset}, model {self.settings.model}{epochs}."
        )
        if splits.validation is None:
            lines.append("There is no validation split: no epoch is chosen, the last one counts.")
        lines += self.unlearned()
        partly = self.part_only(splits.held_out)
        return [*lines, *([partly] if partly else [])]

    def part_only(self, split: str) -> str:
        """What the weighted images of a split speak of, where the weights, or its strata, are of a
        part of the target; empty: of all.
        """
        said = population_sentences(self.run.summary.verdict.population)
        if any(part.uncovered for part in self.run.weights.parts if part.name == split):
            told = [row.note for row in self.run.summary.splits if row.name == split and row.note]
            said.append(f"{split}: {told[0] if told else 'Speaks of a part of the target.'}")
        return " ".join(said)

    def unlearned(self) -> list[str]:
        """Sentences on classes that train has no image of, or images of weight 0 only."""
        training, train = self.training, self.training.splits.train
        label_n, n_classes = training.label[training.rows(train)], len(training.classes)
        count_m = np.bincount(label_n, minlength=n_classes)
        mass_m = np.bincount(
            label_n, weights=self.arms[0].weight[training.rows(train)], minlength=n_classes
        )
        absent = [training.classes[m] for m in np.flatnonzero(count_m == 0)]
        light = [
            f"{training.classes[m]} ({count_m[m]:,})"
            for m in np.flatnonzero((count_m > 0) & ~(mass_m > 0))
        ]
        end = "cannot be learned, and predictions of it mean nothing."
        said = (
            [f"{train} has no image of {first_few(absent)}: such a class {end}"] if absent else []
        )
        return said + (
            [
                f"All images of {first_few(light)} in {train} have weight 0 ({self.arms[0].name}): "
                f"such a class {end}"
            ]
            if light
            else []
        )


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A finished training: where it lies, and how good the models are."""

    out: Path
    scores: Scores
    files: tuple[str, ...]
    epochs: Mapping[str, tuple[int, int]]

    def lines(self) -> list[str]:
        """What came out, for somebody who sees it for the first time."""
        scores, main = self.scores, self.scores.main
        found, accuracy = scores.evaluations[main], scores.accuracy(main)
        best, trained = self.epochs[main]
        where = "a part of the target" if scores.part_only else "the target"
        lines = [
            "",
            f"Accuracy on {where}: {show_figure(accuracy)}, from {found.coverage.judged:,} "
            f"held-out images ({found.split}).",
        ]
        lines += [scores.part_only] if scores.part_only else []
        worst = scores.worst(main)
        if worst is not None:
            few = " (few effective images: hardly known)" if worst[1].few else ""
            lines.append(f"Worst {worst[0]}: {worst[1].where}, {show_figure(worst[1])}{few}.")
        if "calibration_error" in found.overall.figures:
            lines.append(
                f"Calibration error: {show_figure(found.overall.figures['calibration_error'])}."
            )
        for name, cell in scores.gains.items():
            gap = (cell.difference or {}).get("accuracy")
            if gap is not None:
                lines.append(
                    f"Against {name} ({show_figure(scores.accuracy(name))}): "
                    f"{show_figure(gap, points=True)}."
                )
        if trained > 1:
            lines.append(f"The model has the weights of epoch {best} of {trained}.")
        if trained > 1 and found.split.strip().lower() not in ("test", "testing"):
            lines.append(
                "The same images chose the epoch, which flatters the model a little; a test split "
                "would not (`unskew split`)."
            )
        lines.append("All of this rests on the bias model; the page says what it assumes.")
        lines += [
            "",
            f"Written to {self.out}: {', '.join(self.files)}",
            f"The card: {self.out / CARD}",
            f"The page: {self.out / PAGE}",
        ]
        return [*lines, f"Other images: unskew evaluate {self.out} FOLDER"]

    def to_dict(self) -> dict[str, Any]:
        """metrics.json, and where the files are."""
        return {**self.scores.to_dict(), "folder": str(self.out), "files": list(self.files)}


def show_figure(figure: MetricValue, *, points: bool = False) -> str:
    """``84.1 % (83.0 to 85.2)``, or a difference in points."""
    if figure.value is None:
        return "unknown"
    value = f"{100 * figure.value:+.1f} points" if points else f"{100 * figure.value:.1f} %"
    sign = "+" if points else ""
    interval = (
        ""
        if figure.interval is None
        else " ({} to {})".format(*(f"{100 * each:{sign}.1f}" for each in figure.interval))
    )
    return f"{value}{interval}"


def override_learn(config: RunConfig, given: Mapping[str, Any]) -> RunConfig:
    """The configuration with what the command line says of [learn]; keys of the file that go with
    another model are left out, and named.
    """
    said = {name: value for name, value in given.items() if value is not None}
    unread = unread_keys(config.learn.settings() | said)
    for name, what in unread.items():
        if name in said:
            raise ConfigError(f"--{name} goes with {what}: leave it out.")
    if said and unread:
        log.warning(
            "[learn] of the configuration has keys for another kind of model than this one, which "
            "are left out: %s.",
            ", ".join(unread),
        )
    return with_settings(config, "learn", said, without=unread)


def require_torch() -> None:
    """Said before images are read and weighed."""
    for name in ("torch", "lightning"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            raise missing_extra("torch", "unskew train", error) from None


def _check_device(config: RunConfig) -> None:
    """A graphics card that is not there is missed before images are read and weighed."""
    from unskew.learn.trained_model import found_device

    if config.learn.device is not None:
        found_device(config.learn.device)


def prepare_training(
    config: RunConfig,
    out: Path,
    *,
    weights: Path | None = None,
    resume: bool = False,
    force: bool = False,
    command: str = "",
    progress: bool | None = None,
) -> Preparation:
    """Read, split and weigh, and write what `unskew weigh` writes.

    Where the target is not identifiable, the page that says why is written and the error of
    `unskew.run` is raised.

    Parameters
    ----------
    weights : a table of id and weight to train with, instead of the arms of [learn].
    resume : continue the run of the same settings and data in the folder, if there is one.
    force : throw away what the folder holds, once everything else is in order.
    """
    names = (GIVEN,) if weights is not None else check_arms(config.learn.arms)
    require_torch()
    _check_device(config)
    check_training_folder(out, resume=resume, force=force)
    before = _read_earlier(out) if resume else None
    with unreadable_listed(out):
        training = read_training_inputs(config, out, progress=progress)
    settings = settings_for(training)
    _try_network(settings, training)
    given_n = None if weights is None else read_given_weights(training, weights)
    start = describe_start(training, names, out)
    if before is not None:
        check_same(before, start, training.inputs.pool, out)
    if not force:
        check_split_table(out, training.split_table)
        write_split_table(training, out)
    run = _weigh(training, out, force=force, command=command, progress=progress)
    arms = _make_arms(names, training, run, given_n)
    start["fingerprints"] |= _fingerprints_of_weights(training, arms)
    if before is not None:
        check_same(before, start, training.inputs.pool, out)
    elif force:
        clear_training(out)
        write_split_table(training, out)
    record = _start_record(start, arms, before)
    write_training_record(out, record)
    write_run(run, out)
    if training.columns:
        write_projections(training.inputs, out, progress=progress)
    is_continued = resume and before is not None
    return Preparation(out, training, run, arms, settings, record, command, is_continued)


def _read_earlier(out: Path) -> dict[str, Any] | None:
    """Read the record of the training in the folder, whose models must be unchanged; None: none."""
    if not (out / RECORD).is_file():
        return None
    record = read_record(out)
    check_models(out, record, record["arms"])
    return record


def _weigh(
    training: TrainingInputs, out: Path, *, force: bool, command: str, progress: bool | None
) -> Run:
    """Weigh the images in memory; write the page of a refusal."""
    try:
        run = run_in_memory(training.inputs, command=command, progress=progress)
    except (OverlapError, CoverageError) as error:
        if force:
            clear_training(out)
            write_split_table(training, out)
        write_refusal(training.inputs, error.summary, out)
        raise
    try_judging(training, join_weights(training.inputs.pool, run.weights.frame()))
    return run if run.forecast is not None else join_forecast(run, out)


def _make_arms(
    names: Sequence[str], training: TrainingInputs, run: Run, given_n: Floats | None
) -> tuple[TrainingArm, ...]:
    """Make the arms, the main one first."""
    order = sorted(names, key=lambda name: name != main_arm(names))
    return tuple(make_arm(name, training, run.weights, given_n) for name in order)


def _fingerprints_of_weights(
    training: TrainingInputs, arms: Sequence[TrainingArm]
) -> dict[str, str]:
    pool = training.inputs.pool
    return {f"weights of {arm.name}": fingerprint_weights(pool, arm.weight) for arm in arms}


def _start_record(
    start: Mapping[str, Any], arms: Sequence[TrainingArm], before: Mapping[str, Any] | None
) -> dict[str, Any]:
    offsets = {
        arm.name: None
        if arm.logit_offset is None
        else [_offset(value) for value in arm.logit_offset]
        for arm in arms
    }
    models = {} if before is None else {"models": before.get("models", {})}
    return {"status": "started", "arm": arms[0].name, "arms": offsets, **start, **models}


def _try_network(settings: TrainSettings, training: TrainingInputs) -> None:
    """A network that cannot be made, or whose output has another size than the classes, is an error
    before anything is weighed.
    """
    from unskew.learn.model_zoo import make_network

    shape: tuple[int, ...] = training.X.shape[1:]
    make_network(
        settings.model, shape, len(training.classes), np.zeros(shape[-1]), np.ones(shape[-1])
    )


def _offset(value: float) -> float | str:
    return float(value) if np.isfinite(value) else "never"


def run_training(
    prepared: Preparation, *, progress: bool | None = None, replicates: int = 1000
) -> TrainingResult:
    """Train every arm, judge them on the held-out split, write predictions, metrics, history and
    card.
    """
    from unskew.learn.train import train_model

    training, out = prepared.training, prepared.out
    models = {}
    for arm in prepared.arms:
        folder = out / ARMS_FOLDER / arm.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        models[arm.name] = train_model(
            gather_training_data(training, arm),
            prepared.settings,
            folder,
            resume=prepared.resume,
            force=not prepared.resume,
            progress=progress,
        )
    held_out = take_training_rows(training.X, training.rows(training.splits.held_out))
    predictions = {
        arm.name: held_out_predictions(
            training, arm.adjusted(models[arm.name].scores(held_out, progress=progress))
        )
        for arm in prepared.arms
    }
    table = join_weights(training.inputs.pool, prepared.run.weights.frame())
    scores = judge_arms(
        training,
        table,
        predictions,
        prepared.arms[0].name,
        replicates=replicates,
        part_only=prepared.part_only(training.splits.held_out),
    )
    return _write_results(prepared, models, scores)


def _write_results(
    prepared: Preparation, models: Mapping[str, TrainedModel], scores: Scores
) -> TrainingResult:
    out, main = prepared.out, prepared.arms[0].name
    for name, frame in scores.predictions.items():
        write_frame(frame, out / ARMS_FOLDER / name / PREDICTIONS)
    write_frame(scores.predictions[main], out / PREDICTIONS)
    write_history(out / HISTORY, models)
    write_json(out / METRICS, scores.to_dict())
    write_text(out / CARD, write_card(_card_facts(prepared, models[main]), scores))
    write_training_record(
        out, {**prepared.record, "status": "finished", "models": fingerprint_models(out, models)}
    )
    files = [
        SPLITS,
        PROJECTIONS,
        RECORD,
        METRICS,
        PREDICTIONS,
        HISTORY,
        CARD,
        ARMS_FOLDER,
        WEIGHTS,
        PAGE,
    ]
    epochs = {name: (model.epoch + 1, len(model.history)) for name, model in models.items()}
    return TrainingResult(
        out, scores, tuple(name for name in files if (out / name).exists()), epochs
    )


def write_history(path: Path, models: Mapping[str, TrainedModel]) -> None:
    """history.csv: one row for each arm and epoch, epochs counted from 1."""
    import pandas as pd

    rows = [
        {"arm": name, **each, "epoch": int(each["epoch"]) + 1}
        for name, model in models.items()
        for each in model.history
    ]
    with written_whole(path) as beside:
        pd.DataFrame(rows or {"arm": [], "epoch": []}).to_csv(beside, index=False)


def _card_facts(prepared: Preparation, model: TrainedModel) -> CardFacts:
    training, summary, arm = prepared.training, prepared.run.summary, prepared.arms[0]
    private = summary.privacy == "aggregate"
    learn = training.inputs.config.learn
    shape = (
        f"{len(training.columns)} numbers: "
        f"{', '.join(training.columns[:12])}{' …' if len(training.columns) > 12 else ''}"
    )
    words = (
        shape
        if training.columns
        else f"images as squares of {learn.size} × {learn.size} pixels ({learn.resize})"
    )
    model_file = prepared.out / ARMS_FOLDER / arm.name / "model.pt"
    fingerprints = {**prepared.record["fingerprints"]}
    if model_file.is_file():
        fingerprints["model"] = fingerprint_file(model_file)
    parameters = (
        sum(each.numel() for each in model.network.parameters())
        if hasattr(model.network, "parameters")
        else None
    )
    return CardFacts(
        title=training.inputs.config.report.title,
        summary=summary,
        settings=json_value(asdict(prepared.settings)),
        input=words,
        classes=None if private else training.classes,
        images={row.name: row.images for row in summary.splits},
        parameters=parameters or None,
        fingerprints=fingerprints,
        arm=arm.name,
        sentences=arm.sentences,
        epoch=model.epoch + 1,
        epochs=len(model.history),
        versions=find_versions(("torch", "lightning")),
        command=str(summary.provenance.get("command", "")),
    )
