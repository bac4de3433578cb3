"""Weighted training from a configuration: a model with its metrics and its card.

`prepare_training` reads and weighs as `unskew weigh` does, `run_training` trains and evaluates;
both together are `unskew train`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.config.key_rules import unread_keys
from unskew.config.run_config import RunConfig, with_settings
from unskew.errors import ConfigError, CoverageError, OverlapError, missing_extra
from unskew.files.atomic import write_text, written_together, written_whole
from unskew.files.checksums import check_files
from unskew.files.plain_json import write_json
from unskew.records import Floats
from unskew.runs.evaluate import read_memberships_table
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
from unskew.training.folder import (
    ARMS_FOLDER,
    CARD,
    HISTORY,
    METRICS,
    PREDICTIONS,
    PROJECTIONS,
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
    write_projections,
    write_training_record,
)
from unskew.training.inputs import (
    GIVEN,
    SPLITS,
    TrainingArm,
    TrainingInputs,
    check_arms,
    gather_training_data,
    main_arm,
    make_arm,
    read_given_weights,
    read_training_inputs,
    settings_for,
    take_training_rows,
    write_split_table,
)
from unskew.training.model_card import gather_facts, render_card
from unskew.training.result import (
    Preparation,
    Scores,
    TrainingResult,
    held_out_predictions,
    judge_arms,
    try_judging,
)
from unskew.weigh.weights_table import join_weights

if TYPE_CHECKING:
    from unskew.learn.presets import TrainSettings
    from unskew.learn.trained_model import TrainedModel

log = logging.getLogger(__name__)


def override_learn(config: RunConfig, options: Mapping[str, Any]) -> RunConfig:
    """Let options of the command line override [learn]; None: not set.

    Keys of the file that belong to another kind of model are left out, with a warning.
    """
    overridden = {name: value for name, value in options.items() if value is not None}
    unread = unread_keys(config.learn.settings() | overridden)
    for name, owner in unread.items():
        if name in overridden:
            raise ConfigError(f"--{name} goes with {owner}: leave it out.", option=f"--{name}")
    if overridden and unread:
        log.warning(
            "[learn] of the configuration has keys for another kind of model than this one, which "
            "are left out: %s.",
            ", ".join(unread),
        )
    return with_settings(config, "learn", overridden, without=unread)


def require_torch() -> None:
    """Refuse, before images are read and weighed, to train without PyTorch and Lightning."""
    for name in ("torch", "lightning"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            raise missing_extra("torch", "unskew train", error) from None


def _check_device(config: RunConfig) -> None:
    """Refuse, before images are read and weighed, a device that does not exist."""
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

    Of several targets the main one counts. Where it is not identifiable, the page that says why is
    written and the error of `unskew.run` is raised.

    Parameters
    ----------
    weights : a table of id and weight to train with, instead of the arms of [learn].
    resume : continue the run of the same settings and data in the folder, if there is one.
    force : throw away what the folder holds, once everything else is in order.
    """
    config = config.for_target()
    is_probe = config.learn.preset == "probe" and config.learn.model in (None, "probe")
    names = (GIVEN,) if weights is not None else check_arms(config.learn.arms, probe=is_probe)
    require_torch()
    _check_device(config)
    check_training_folder(out, resume=resume, force=force)
    before = _read_earlier(out) if resume else None
    with unreadable_listed(out):
        training = read_training_inputs(config, out, progress=progress)
    settings = settings_for(training)
    _try_network(settings, training, names)
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
    check_files(out, (RECORD,))
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
    forms = {arm.name: None if arm.recipe is None else arm.recipe.form for arm in arms}
    models = {} if before is None else {"models": before.get("models", {})}
    return {"status": "started", "arm": arms[0].name, "arms": forms, **start, **models}


def _try_network(settings: TrainSettings, training: TrainingInputs, names: Sequence[str]) -> None:
    """Refuse, before anything is weighed, a network that cannot be made or has other outputs."""
    from unskew.learn.last_layer import need_last_layer
    from unskew.learn.model_zoo import make_network

    shape: tuple[int, ...] = training.X.shape[1:]
    n_classes = len(training.classes)
    network = make_network(
        settings.model, shape, n_classes, np.zeros(shape[-1]), np.ones(shape[-1])
    )
    refitting = ["way 'head'"] if settings.way == "head" else []
    refitting += [name for name in names if name == "classifier_retraining"]
    for what in refitting if settings.model != "probe" else ():
        need_last_layer(network, settings.model, shape, n_classes, what)


def run_training(
    prepared: Preparation, *, progress: bool | None = None, replicates: int = 1000
) -> TrainingResult:
    """Train every arm, evaluate them on the held-out split, and write the results."""
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
            recipe=arm.recipe,
        )
    held_out = take_training_rows(training.X, training.rows(training.splits.held_out))
    predictions = {
        arm.name: held_out_predictions(
            training, models[arm.name].scores(held_out, progress=progress)
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
        choices={name: model.choice for name, model in models.items() if model.choice},
        memberships=read_memberships_table(out),
    )
    return _write_results(prepared, models, scores)


def _write_results(
    prepared: Preparation, models: Mapping[str, TrainedModel], scores: Scores
) -> TrainingResult:
    out, main = prepared.out, prepared.arms[0].name
    for name, frame in scores.predictions.items():
        write_frame(frame, out / ARMS_FOLDER / name / PREDICTIONS)
    record = {**prepared.record, "status": "finished", "models": fingerprint_models(out, models)}
    with written_together(out, ()) as folder:
        write_frame(scores.predictions[main], folder / PREDICTIONS)
        write_history(folder / HISTORY, models)
        write_json(folder / METRICS, scores.to_dict())
        write_text(folder / CARD, render_card(gather_facts(prepared, models[main]), scores))
        write_json(folder / RECORD, record)
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
        out,
        scores,
        tuple(name for name in files if (out / name).exists()),
        epochs,
        models[main].calibrated_on_validation,
    )


def write_history(path: Path, models: Mapping[str, TrainedModel]) -> None:
    """Write history.csv: one row for each arm and epoch, epochs counted from 1."""
    import pandas as pd

    rows = [
        {"arm": name, **epoch, "epoch": int(epoch["epoch"]) + 1}
        for name, model in models.items()
        for epoch in model.history
    ]
    with written_whole(path) as temporary:
        pd.DataFrame(rows or {"arm": [], "epoch": []}).to_csv(temporary, index=False)
