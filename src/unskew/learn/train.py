"""Weighted training of an image classifier: data in, a model out. Read it top to bottom.

The settings are those of presets.py. Networks are trained by the loop of training_loop.py, which
runs on Lightning Fabric: the same call trains on a CPU, a graphics card, or several of them. A
probe is one exact fit.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.engine.parent_watch import call_watched, children_ended
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError, UnskewError, first_few, missing_extra
from unskew.files.user_code import import_elsewhere
from unskew.learn.label_probes import LabelProbes, tune_label_probes
from unskew.learn.network_ways import judge_rows, split_head
from unskew.learn.presets import PRESETS, TAUS, TrainSettings, settings_dict, settings_of
from unskew.learn.probe_grid import FOLDS, RIDGES, WITHIN, TunedProbe, tune_probe
from unskew.learn.processes import (
    NextTraining,
    follows,
    receive_training,
    send_training,
    start_fabric,
)
from unskew.learn.recipes import Recipe, check_label_recipe, check_probe_recipe
from unskew.learn.trained_model import (
    CHECKPOINT,
    LOGS,
    MODEL,
    TrainedModel,
    load_state,
    load_trained,
    new_network,
    prepare_folder,
    refuse_other_run,
    save_model,
)
from unskew.learn.training_data import (
    DeviceRows,
    TrainingData,
    check_alike,
    measure_scale,
    row_blocks,
)
from unskew.learn.training_logs import TrainingLogs, find_logger
from unskew.learn.training_loop import TrainingLoop, TrainingRun
from unskew.learn.ways import AS_DEFINED, WAYS_OF_PROBE, check_way

__all__ = [
    "PRESETS",
    "TrainSettings",
    "TrainedModel",
    "TrainingData",
    "load_trained",
    "settings_of",
    "train_model",
]

logger = logging.getLogger(__name__)


@checked
def train_model(
    data: TrainingData,
    settings: TrainSettings,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    force: bool = False,
    progress: bool | None = None,
    logs: bool = True,
    watch: Mapping[str, TrainingData] | None = None,
    recipe: Recipe | None = None,
    report: Callable[[str], None] | None = None,
) -> TrainedModel:
    """Train a model on weighted images; write checkpoints, logs and the model into ``folder``.

    Parameters
    ----------
    folder : made if need be. ``checkpoint.pt`` after every epoch, ``model.pt`` and
        ``settings.json`` at the end, ``logs`` of a local logger (TensorBoard by default).
    resume : go on after the last complete epoch of ``folder``; begin where there is none. Other
        data or settings are an error.
    force : replace a run that ``folder`` already holds.
    progress : of the bar; None: where the error stream is a terminal.
    logs : use the logger of the settings; False: none.
    watch : further images to be judged after every epoch, by name: what weighting gains, epoch by
        epoch.
    recipe : of a baseline, which is then trained as it is defined, whatever the way of the
        settings.
    report : is called with a plain line after every epoch; it must be picklable where several
        devices are used.

    Under torchrun every process makes this call; the data of rank 0 are trained on, and each
    process takes its share of every batch, so that all together draw what one alone would.
    """
    _need_torch()
    path = Path(folder)
    if follows():
        take_part(receive_training())
        return load_trained(path, allow_code=[settings.model])
    try:
        run = _prepare_run(
            data, settings, path, resume, force, progress, logs, watch or {}, recipe, report
        )
        if run is not None and settings.model == "probe":
            _train_probe(run)
            run = None
    except UnskewError as error:
        send_training(NextTraining(error=error))
        raise
    send_training(NextTraining(run))
    take_part(NextTraining(run))
    return load_trained(path, allow_code=[settings.model])


def take_part(training: NextTraining) -> None:
    """Train what this process is to train of it; raise the error that the training ended with."""
    if training.error is not None:
        raise training.error
    if training.run is None:
        return
    # Bound to the function: Fabric takes arguments apart, looking for networks in them.
    train = functools.partial(_train_network, run=training.run)
    watched = functools.partial(call_watched, os.getpid(), train)
    with children_ended():
        error = start_fabric(training.run.settings).launch(watched)
    if error is not None:
        raise error


def _prepare_run(
    data: TrainingData,
    settings: TrainSettings,
    path: Path,
    resume: bool,
    force: bool,
    progress: bool | None,
    logs: bool,
    watch: Mapping[str, TrainingData],
    recipe: Recipe | None,
    report: Callable[[str], None] | None,
) -> TrainingRun | None:
    """Check everything, and prepare the folder; None: it contains the model already."""
    if not isinstance(settings, TrainSettings):
        raise ConfigError(
            "settings are TrainSettings, as settings_of('fast') gives them; got "
            f"{type(settings).__name__}.",
            option="settings",
            value=type(settings).__name__,
        )
    if logs:
        find_logger(settings.logger)
    if settings.model == "probe":
        check_way(settings.way, WAYS_OF_PROBE, why="a probe is nothing but its last layer")
        check_probe_recipe(recipe)
    else:
        data = replace(data, judge_weight=None)
    data = data.without_zeros()
    if data.has_label_sets:
        check_label_recipe(recipe)
        _check_varying(data)
    if settings.model != "probe" and len(data) < 2:
        # One image has no batch statistics.
        raise DataError(
            "a network learns from two images or more, but only one image has a weight above "
            "zero. Check the weights.",
            count=len(data),
            limit=2,
        )
    watched = {name: images.without_zeros() for name, images in watch.items()}
    _check_watched(data, watched)
    fingerprint = data.fingerprint() | ({"recipe": recipe.fingerprint()} if recipe else {})
    head = None
    if settings.way == "head" and recipe is None:
        data, head = split_head(data, settings.seed)
    prepare_folder(path, resume=resume, force=force)
    saved = next((name for name in (MODEL, CHECKPOINT) if (path / name).exists()), None)
    if saved is not None:
        refuse_other_run(
            load_state(path / saved),
            settings_dict(settings),
            fingerprint,
            list(watched),
            path / saved,
        )
    if saved == MODEL:
        logger.info("the run in %s is complete; nothing is left to be trained", path)
        return None
    return TrainingRun(
        data, settings, path, watched, fingerprint, progress, logs, recipe, head, report
    )


def _check_varying(data: TrainingData) -> None:
    """Refuse labels none of which some images have and others lack."""
    used_nm = data.label[data.weight > 0]
    if not ((used_nm == 1).any(axis=0) & (used_nm == 0).any(axis=0)).any():
        raise DataError(
            f"nothing can be learned: of {first_few(list(data.classes))} there is no label that "
            "some training images have and others lack.",
            column="label",
            levels=list(data.classes),
        )


def _check_watched(data: TrainingData, watched: Mapping[str, TrainingData]) -> None:
    for name, images in watched.items():
        if name in ("validation", "train"):
            raise ConfigError(
                f"watched images need another name than {name!r}, which the history already uses.",
                option="watch",
                value=name,
            )
        check_alike(data, images, f"the watched images {name!r}")


def _need_torch() -> None:
    try:
        import_elsewhere("lightning.fabric")
        import torch  # noqa: F401
    except ImportError as error:
        raise missing_extra("torch", "training", error) from None


def _train_network(fabric: Any, run: TrainingRun) -> UnskewError | None:
    """Train in every process, and return an error as a value.

    Another process' exception would come back as text.
    """
    import torch

    on_card = [fabric.device] if fabric.device.type == "cuda" else []
    try:
        # The caller's random numbers go on as if nothing had been trained.
        with torch.random.fork_rng(on_card):
            TrainingLoop(fabric, run).go()
    except UnskewError as error:
        return error
    return None


def _train_probe(run: TrainingRun) -> None:
    """Fit exactly, by `tune_probe`, instead of in epochs."""
    import torch

    began = time.perf_counter()
    data, settings = run.data, run.settings
    with torch.random.fork_rng([]):
        network = new_network(
            settings, data.X.shape[1:], len(data.classes), *measure_scale(data, settings.scaling)
        )
    with torch.inference_mode():
        scaled = [
            network.scale(torch.from_numpy(np.array(data.X[rows]))).flatten(1).float().numpy()
            for rows in row_blocks(data.X)
        ]
    recipe = Recipe() if run.recipe is None else run.recipe
    is_retrained = recipe.form == "retrained"
    is_free = run.recipe is None and settings.way == "auto"
    taus = tuple(TAUS.values()) if is_free else (run.tau,)
    ridges = RIDGES if settings.ridge is None else (settings.ridge,)
    options: dict[str, Any] = {
        "taus": taus,
        "ridges": ridges,
        "unit_n": data.group,
        "judge_weight_n": data.judge_weight,
        "calibrate": run.recipe is None,
        "seed": settings.seed,
    }
    n_tried = len(taus) + (len(WITHIN) if is_free else 0)
    n_fits = n_tried * len(ridges) * FOLDS * (len(data.classes) if data.has_label_sets else 1)
    tuned: LabelProbes | TunedProbe
    with show_progress("probes", n_fits, run.progress) as advance:
        if data.has_label_sets:
            tuned = tune_label_probes(
                np.concatenate(scaled),
                data.label,
                data.weight,
                data.classes,
                advance=advance,
                **options,
            )
        else:
            tuned = tune_probe(
                np.concatenate(scaled),
                data.label,
                data.weight * recipe.class_weight(data.label) if is_retrained else data.weight,
                len(data.classes),
                logit_offset_m=None if is_retrained else recipe.logit_offset,
                advance=advance,
                **options,
            )
    choice = tuned.choice
    if run.recipe is not None:
        reason = AS_DEFINED.format(words=", with a ridge of the grid that all arms get")
        choice = replace(choice, reason=reason)
    network.network.take(tuned.probe)
    last = tuned.calibration.of_spread() if isinstance(tuned, TunedProbe) else None
    row: dict[str, float] = {"epoch": 0, "learning_rate": 0.0}
    for name, images in {"train": data, **run.judged}.items():
        row |= {
            f"{name}_{measure}": value
            for measure, value in judge_rows(
                network, DeviceRows(images, torch.device("cpu"))
            ).items()
        }
    row = {name: value for name, value in row.items() if not name.startswith("train_accuracy")}
    row["seconds"] = time.perf_counter() - began
    with closing(TrainingLogs(run.folder / LOGS if run.logs else None, [row], settings)):
        save_model(
            run.folder,
            {
                **run.facts(),
                "network": network.state_dict(),
                "epoch": 0,
                "history": [row],
                "choice": choice.to_dict(),
                "calibration": None if last is None else last.to_dict(),
            },
        )
