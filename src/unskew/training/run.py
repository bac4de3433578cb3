"""Weighted training from a configuration: a model with its metrics and its card.

`prepare_training` reads and weighs as `unskew weigh` does, `run_training` trains and evaluates;
both together are `unskew train`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.key_rules import unread_keys
from unskew.config.run_config import RunConfig, with_settings
from unskew.errors import ConfigError, CoverageError, OverlapError, missing_extra
from unskew.files.atomic import write_text, written_together, written_whole
from unskew.files.checksums import check_files
from unskew.files.fingerprints import fingerprint_file
from unskew.files.plain_json import write_json
from unskew.records import Floats
from unskew.report.files import write_summary
from unskew.runs.evaluate import read_memberships_table
from unskew.runs.output import (
    PAGE,
    WEIGHTS,
    unreadable_listed,
    write_frame,
    write_refusal,
    write_run,
)
from unskew.runs.page_panels import join_panels
from unskew.runs.pipeline import Run
from unskew.runs.pipeline import run as run_in_memory
from unskew.runs.projections import PROJECTIONS, write_projections
from unskew.training.arm_scores import (
    Scores,
    held_out_options,
    held_out_predictions,
    judge_arms,
    try_judging,
)
from unskew.training.folder import (
    ARMS_FOLDER,
    CARD,
    HISTORY,
    METRICS,
    PREDICTIONS,
    RECORD,
    arm_folders,
    check_models,
    check_same,
    check_split_table,
    check_training_folder,
    clear_training,
    describe_start,
    fingerprint_models,
    fingerprint_weights,
    read_record,
    recorded_folders,
    refuse_links,
    write_training_record,
)
from unskew.training.inputs import (
    GIVEN,
    SPLITS,
    TrainingArm,
    TrainingInputs,
    check_arms,
    check_label_arms,
    gather_training_data,
    main_arm,
    make_arm,
    read_given_weights,
    read_training_inputs,
    settings_for,
    take_training_rows,
    write_split_table,
)
from unskew.training.learnable import check_learnable, untaught_labels
from unskew.training.model_card import gather_facts, render_card
from unskew.training.result import Preparation, TrainingResult, show_training
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
            option = "--milestone" if name == "milestones" else f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} goes with {owner}: leave it out.", option=option)
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
    targets, config = tuple(config.targets), config.for_target()
    is_probe = config.learn.preset == "probe" and config.learn.model in (None, "probe")
    names = (GIVEN,) if weights is not None else check_arms(config.learn.arms, probe=is_probe)
    require_torch()
    from unskew.learn.training_logs import find_logger

    _check_device(config)
    check_training_folder(out, resume=resume, force=force)
    before = _read_earlier(out) if resume else None
    with unreadable_listed(out):
        training = read_training_inputs(config, out, progress=progress)
    if training.has_label_sets:
        check_label_arms(names)
    settings = settings_for(training)
    find_logger(settings.logger)
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
        run = _with_split_table(run, training, out)
    _check_taught(training, run, arms[0])
    seeds = _seeds(config, is_probe)
    record = _start_record(start, arms, before) | {"seeds": list(seeds)}
    record["unlearned"] = _unlearned(training, arms[0])
    write_training_record(out, record)
    write_run(run, out)
    if training.columns:
        write_projections(training.inputs, out, progress=progress)
    is_continued = resume and before is not None
    return Preparation(
        out, training, run, arms, settings, record, command, is_continued, seeds, targets
    )


def _check_taught(training: TrainingInputs, run: Run, arm: TrainingArm) -> None:
    """Refuse to train where no held-out image with weight is of a class that train can teach."""
    splits, pool = training.splits, training.inputs.pool
    train, judged = training.rows(splits.train), training.rows(splits.held_out)
    check_learnable(
        pool,
        training.classes,
        training.label,
        train[arm.weight[train] > 0],
        judged[run.weights.sample_weight[judged] > 0],
        (splits.train, splits.held_out),
    )


def _unlearned(training: TrainingInputs, arm: TrainingArm) -> list[str]:
    """Name the classes of which train has no image with weight, or labels it cannot teach."""
    rows = training.rows(training.splits.train)
    if training.has_label_sets:
        label_nm = training.label[rows[arm.weight[rows] > 0]]
        return [name for names in untaught_labels(label_nm, training.classes) for name in names]
    taught = set(training.label[rows[arm.weight[rows] > 0]].tolist())
    return [name for m, name in enumerate(training.classes) if m not in taught]


def _seeds(config: RunConfig, is_probe: bool) -> tuple[int, ...]:
    """Return the seeds that every arm is trained with; one for a probe, which is fitted exactly."""
    count, first = 1 if is_probe else config.learn.seeds, config.engine.seed
    return tuple(range(first, first + count))


def _read_earlier(out: Path) -> dict[str, Any] | None:
    """Read the record of the training in the folder, whose models must be unchanged; None: none."""
    if not (out / RECORD).is_file():
        return None
    check_files(out, (RECORD,))
    record = read_record(out)
    check_models(out, record, recorded_folders(record))
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
    return join_panels(run, out)


def _with_split_table(run: Run, training: TrainingInputs, out: Path) -> Run:
    """Add the splits that were written after the images were weighed to what results come from."""
    if training.split_table is None:
        return run
    provenance = run.summary.provenance
    prints = provenance["fingerprints"]
    files = {**prints["files"], "sources.split.file": fingerprint_file(out / SPLITS)}
    provenance = {**provenance, "fingerprints": {**prints, "files": files}}
    return replace(run, summary=replace(run.summary, provenance=provenance))


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
    from unskew.learn.trained_model import new_network

    shape: tuple[int, ...] = training.X.shape[1:]
    n_classes = len(training.classes)
    network = new_network(settings, shape, n_classes)
    refitting = ["way 'head'"] if settings.way == "head" else []
    refitting += [settings.apart] if settings.apart else []
    refitting += [name for name in names if name == "classifier_retraining"]
    for what in refitting if settings.model != "probe" else ():
        need_last_layer(network, settings.model, shape, n_classes, what)


def run_training(
    prepared: Preparation,
    *,
    progress: bool | None = None,
    replicates: int = 1000,
    report: Callable[[str], None] | None = None,
) -> TrainingResult:
    """Train every arm, evaluate them on the held-out split, and write the results.

    ``report`` is called with a plain line for each arm and epoch.
    """
    from unskew.learn.train import train_model

    training, out = prepared.training, prepared.out
    models: dict[str, list[TrainedModel]] = {}
    for arm in prepared.arms:
        data = gather_training_data(training, arm)
        models[arm.name] = []
        folders = arm_folders(arm.name, prepared.seeds)
        for seed, name in zip(prepared.seeds, folders, strict=True):
            folder = out / ARMS_FOLDER / name
            refuse_links(out, folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            if report is not None and len(prepared.arms) * len(folders) > 1:
                report(f"Training {name}.")
            model = train_model(
                data,
                replace(prepared.settings, seed=seed),
                folder,
                resume=prepared.resume,
                force=not prepared.resume,
                progress=progress,
                recipe=arm.recipe,
                report=report,
            )
            models[arm.name].append(model)
    held_out = take_training_rows(training.X, training.rows(training.splits.held_out))
    predictions = {
        name: [
            held_out_predictions(training, model.scores(held_out, progress=progress))
            for model in trained
        ]
        for name, trained in models.items()
    }
    scores = judge_arms(
        join_weights(training.inputs.pool, prepared.run.weights.frame()),
        predictions,
        prepared.arms[0].name,
        part_only=prepared.part_only(training.splits.held_out),
        choices={
            name: choice.without_labels() if prepared.run.summary.privacy != "full" else choice
            for name, trained in models.items()
            if (choice := trained[0].choice) is not None
        },
        remarks=[*prepared.unlearnable(), *prepared.unjudged()],
        seeds=prepared.seeds,
        replicates=replicates,
        **held_out_options(training, read_memberships_table(out)),
    )
    return _write_results(prepared, models, scores)


def _write_results(
    prepared: Preparation, models: Mapping[str, Sequence[TrainedModel]], scores: Scores
) -> TrainingResult:
    out, main, seeds = prepared.out, prepared.arms[0].name, prepared.seeds
    for name, frames in scores.predictions.items():
        for arm_folder, frame in zip(arm_folders(name, seeds), frames, strict=True):
            write_frame(frame, out / ARMS_FOLDER / arm_folder / PREDICTIONS)
    folders = [arm_folder for name in models for arm_folder in arm_folders(name, seeds)]
    record = {**prepared.record, "status": "finished", "models": fingerprint_models(out, folders)}
    with written_together(out, ()) as folder:
        write_frame(scores.predictions[main][0], folder / PREDICTIONS)
        write_history(folder / HISTORY, models, seeds)
        write_json(folder / METRICS, scores.to_dict())
        write_text(folder / CARD, render_card(gather_facts(prepared, models[main][0]), scores))
        write_summary(replace(prepared.run.summary, training=show_training(scores)), folder / PAGE)
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
    epochs = {name: (arm[0].epoch + 1, len(arm[0].history)) for name, arm in models.items()}
    return TrainingResult(
        out,
        scores,
        tuple(name for name in files if (out / name).exists()),
        epochs,
        models[main][0].calibrated_on_validation,
    )


def write_history(
    path: Path, models: Mapping[str, Sequence[TrainedModel]], seeds: Sequence[int]
) -> None:
    """Write history.csv: one row for each arm, seed and epoch, epochs counted from 1."""
    import pandas as pd

    rows = [
        {"arm": name, "seed": seed, **epoch, "epoch": int(epoch["epoch"]) + 1}
        for name, trained in models.items()
        for seed, model in zip(seeds, trained, strict=True)
        for epoch in model.history
    ]
    with written_whole(path) as temporary:
        pd.DataFrame(rows or {"arm": [], "seed": [], "epoch": []}).to_csv(temporary, index=False)
