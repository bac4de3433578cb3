"""Weighted training of an image classifier: data in, one epoch after the other, a model out. Read
it top to bottom.

The settings are those of presets.py. The loop runs on Lightning Fabric: the same call trains on a
CPU, a graphics card, or several of them. Everything random in epoch e comes from (seed, e), so that
a run that was killed and resumed ends in the same bits (on a CPU) as one that was not.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError, UnskewError, diverged, missing_extra
from unskew.learn.augment import augment_images, draw_changes
from unskew.learn.batch_norm import update_batch_norm
from unskew.learn.checkpoints import (
    CHECKPOINT,
    LOGS,
    MODEL,
    fill_network,
    load_state,
    prepare_folder,
    refuse_other_run,
    save_state,
)
from unskew.learn.device_rows import DeviceRows
from unskew.learn.presets import PRESETS, TrainSettings, settings_dict, settings_of
from unskew.learn.probe import fit_probe
from unskew.learn.sampling_schemes import plan_draws
from unskew.learn.schedules import learning_rate_at
from unskew.learn.trained_model import (
    TrainedModel,
    found_device,
    load_trained,
    new_network,
    save_model,
)
from unskew.learn.training_data import (
    TrainingData,
    check_alike,
    measure_scale,
    row_blocks,
    rows_at_once,
)
from unskew.learn.training_logs import TrainingLogs

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

# Images that batch normalisation's statistics are estimated from, after every epoch: its own
# running averages remember fewer.
_STATISTICS_FROM = 8192
# Images that a network sees before its first step.
_LOOKED_AT = 4096
# Steps between looks at the loss: on a graphics card each look makes it wait.
_LOOK = 50


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
) -> TrainedModel:
    """Train a model on weighted images; checkpoints, logs and the model are written into
    ``folder``.

    Parameters
    ----------
    folder : made if need be. ``checkpoint.pt`` after every epoch, ``model.pt`` and
        ``settings.json`` at the end, ``logs`` for TensorBoard.
    resume : go on after the last complete epoch of ``folder``; begin where there is none. Other
        data or settings are an error.
    force : a run that ``folder`` already holds is replaced.
    progress : of the bar; None: where the error stream is a terminal.
    logs : write TensorBoard's.
    watch : further images to be judged after every epoch, by name: what weighting gains, epoch by
        epoch.
    """
    if not isinstance(settings, TrainSettings):
        raise ConfigError(
            "settings are TrainSettings, as settings_of('fast') gives them; got "
            f"{type(settings).__name__}."
        )
    _need_torch()
    data = data.without_zeros()
    if settings.model != "probe" and data.label.size < 2:
        # One image has no batch statistics.
        raise DataError(
            "a network learns from two images or more, and one image alone has a weight above "
            "zero. Check the weights."
        )
    watched = {name: each.without_zeros() for name, each in (watch or {}).items()}
    _check_watched(data, watched)
    place = Path(folder)
    prepare_folder(place, resume=resume, force=force)
    run = _Run(data, settings, place, watched, data.fingerprint(), progress, logs)
    saved = next((name for name in (MODEL, CHECKPOINT) if (place / name).exists()), None)
    if saved is not None:
        refuse_other_run(
            load_state(place / saved),
            settings_dict(settings),
            run.fingerprint,
            list(watched),
            place / saved,
        )
    if saved == MODEL:
        logger.info("the run in %s is complete; nothing is left to be trained", place)
    elif settings.model == "probe":
        _train_probe(run)
    else:
        # Bound to the function: Fabric takes arguments apart, looking for networks in them.
        outcome = _start_fabric(settings).launch(functools.partial(_train_network, run=run))
        if outcome is not None:
            raise outcome
    return load_trained(place)


@dataclass(frozen=True, eq=False)
class _Run:
    """What every process of a training knows."""

    data: TrainingData
    settings: TrainSettings
    folder: Path
    watched: dict[str, TrainingData]
    fingerprint: dict[str, str]
    progress: bool | None
    logs: bool

    @property
    def judged(self) -> dict[str, TrainingData]:
        """The sets that are judged after every epoch, by name."""
        return (
            {} if self.data.validation is None else {"validation": self.data.validation}
        ) | self.watched

    def facts(self) -> dict[str, Any]:
        """What a file of this run says of it."""
        return {
            **{
                "settings": settings_dict(self.settings),
                "classes": list(self.data.classes),
                "shape": list(self.data.X.shape[1:]),
            },
            **{"fingerprint": self.fingerprint, "watched": list(self.watched)},
        }


def _check_watched(data: TrainingData, watched: Mapping[str, TrainingData]) -> None:
    for name, each in watched.items():
        if name in ("validation", "train"):
            raise ConfigError(
                f"watched images need another name than {name!r}, which the history already uses."
            )
        check_alike(data, each, f"the watched images {name!r}")


def _need_torch() -> None:
    try:
        import lightning.fabric  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise missing_extra("torch", "training", error) from None


def _start_fabric(settings: TrainSettings) -> Any:
    from lightning.fabric import Fabric

    device = found_device(settings.device)
    if settings.devices > 1 and settings.batch % settings.devices:
        raise ConfigError(
            f"a batch of {settings.batch} images cannot be shared by {settings.devices} devices "
            "equally: choose a multiple."
        )
    # Spawned processes run the training alone: what calls it, a command that prints and writes,
    # runs once.
    strategy = "ddp_spawn" if settings.devices > 1 else "auto"
    precision: Any = settings.precision
    try:
        return Fabric(
            accelerator=device, devices=settings.devices, strategy=strategy, precision=precision
        )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"training cannot run on {settings.devices} × {device} at {settings.precision}: {error}"
        ) from error


def _train_network(fabric: Any, run: _Run) -> UnskewError | None:
    """In every process; an error goes back as a value, because another process' exception would
    come back as text.
    """
    import torch

    on_card = [fabric.device] if fabric.device.type == "cuda" else []
    try:
        # The caller's random numbers go on as if nothing had been trained.
        with torch.random.fork_rng(on_card):
            _Training(fabric, run).go()
    except UnskewError as error:
        return error
    return None


class _Training:
    """The loop: every epoch trains, re-estimates batch normalisation, judges, saves, logs."""

    def __init__(self, fabric: Any, run: _Run) -> None:
        import torch

        self.fabric, self.run, self.settings = fabric, run, run.settings
        data, settings = run.data, run.settings
        torch.manual_seed(_seed(settings.seed))
        mean, divisor = measure_scale(data, settings.scaling)
        self.network = new_network(settings, data.X.shape[1:], len(data.classes), mean, divisor)
        self._show_images()
        self.sgd = torch.optim.SGD(
            [each for each in self.network.parameters() if each.requires_grad],
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov and settings.momentum > 0,
        )
        self.model, self.optimizer = fabric.setup(self.network, self.sgd)
        self.rows = DeviceRows(data, fabric.device)
        self.fill = (
            torch.as_tensor(np.rint(mean), dtype=torch.uint8, device=fabric.device)
            if data.holds_images
            else None
        )
        self.judged = {name: DeviceRows(each, fabric.device) for name, each in run.judged.items()}
        self.loss = _make_loss(data, settings)
        self.sampler = _make_sampler(data, settings)
        # Whole batches only, so that every image counts the same: another part is left out in each
        # epoch.
        self.batch = min(settings.batch, len(data) - len(data) % fabric.world_size)
        if not self.batch:
            raise DataError(
                f"{len(data)} images cannot be shared by {fabric.world_size} devices: use one."
            )
        self.n_steps = len(data) // self.batch
        self.history: list[dict[str, float]] = []
        self.kept: dict[str, Any] = {}
        self._take_up(run.folder / CHECKPOINT)

    def _show_images(self) -> None:
        """A weighted sample to a network that wants to look at images before its first step
        (``look_at``).
        """
        import torch

        look_at = getattr(self.network.network, "look_at", None)
        if look_at is not None:
            data = self.run.data
            rows = plan_draws(data.weight, min(len(data), _LOOKED_AT)).draw(
                np.random.default_rng([self.settings.seed, 3])
            )
            look_at(self.network.scale(torch.from_numpy(np.array(data.X[np.sort(rows)]))))

    def go(self) -> None:
        first, settings = self.fabric.global_rank == 0, self.settings
        logs = TrainingLogs(
            self.run.folder / LOGS if self.run.logs and first else None, self.history
        )
        left = (settings.epochs - len(self.history)) * self.n_steps * self.batch
        with (
            closing(logs),
            show_progress(
                "images trained on", left, self.run.progress if first else False
            ) as advance,
        ):
            while len(self.history) < settings.epochs and not self._is_over():
                self._one_epoch(len(self.history), advance)
                logs.add(self.history[-1])
        if first:
            save_model(
                self.run.folder,
                {
                    **self.run.facts(),
                    "network": self.kept,
                    "epoch": self._best(),
                    "history": self.history,
                },
            )
        self.fabric.barrier()

    def _one_epoch(self, epoch: int, advance: Callable[[int], None]) -> None:
        began = time.perf_counter()
        loss = self._train(epoch, advance)
        self._update_batch_norm(epoch)
        row = {"epoch": epoch, "train_loss": loss, "learning_rate": self.sgd.param_groups[0]["lr"]}
        for name, rows in self.judged.items():
            row |= {
                f"{name}_{measure}": value
                for measure, value in _judge(self.network, rows, self.fabric).items()
            }
        if not all(math.isfinite(value) for value in row.values()):
            raise diverged(epoch, row["train_loss"], self.settings.learning_rate)
        row["seconds"] = time.perf_counter() - began
        self.history.append(row)
        if self._best() == epoch:
            self.kept = {
                name: value.detach().cpu().clone()
                for name, value in self.network.state_dict().items()
            }
        if self.fabric.global_rank == 0:
            logger.info(
                "epoch %d of %d: %s",
                epoch + 1,
                self.settings.epochs,
                ", ".join(f"{key} {value:.4g}" for key, value in row.items()),
            )
        self._save()

    def _train(self, epoch: int, advance: Callable[[int], None]) -> float:
        """One pass over the images; the mean loss of its steps."""
        import torch

        settings, fabric = self.settings, self.fabric
        torch.manual_seed(_seed(settings.seed, epoch, 0, fabric.global_rank))
        generator = torch.Generator(fabric.device).manual_seed(_seed(settings.seed, epoch, 1))
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(self.run.data))
        if self.sampler is not None:
            order = self.sampler.draw_epoch(epoch)
        self.model.train()
        total = torch.zeros((), dtype=torch.float64, device=fabric.device)
        mine = slice(fabric.global_rank, None, fabric.world_size)
        for step in range(self.n_steps):
            rows = order[step * self.batch : (step + 1) * self.batch][mine]
            images, label = self.rows.take(rows)
            if settings.augment and self.fill is not None:
                # Drawn for the whole batch, so that a run does not depend on the number of
                # processes.
                changes = draw_changes(
                    self.batch, images.shape[1:3], generator, pad=settings.pad
                ).take(mine)
                images = augment_images(
                    images,
                    changes,
                    padding=settings.padding,
                    cutout=settings.cutout,
                    fill=self.fill,
                )
            self.sgd.param_groups[0]["lr"] = learning_rate_at(
                *(
                    settings.schedule,
                    settings.learning_rate,
                    epoch * self.n_steps + step,
                    settings.epochs * self.n_steps,
                ),
                *(settings.epochs, settings.milestones),
            )
            loss = self.loss(self.model(images), label, rows)
            fabric.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            total += loss.detach()
            advance(self.batch)
            if step % _LOOK == 0 and not math.isfinite(
                fabric.all_reduce(total.clone(), reduce_op="sum").item()
            ):
                raise diverged(epoch, math.nan, settings.learning_rate)
        return float(fabric.all_reduce(total, reduce_op="mean").item() / self.n_steps)

    def _update_batch_norm(self, epoch: int) -> None:
        """A weighted sample as the network will see images, without augmentation, decides the
        running statistics.
        """
        n, weight_n = len(self.run.data), self.run.data.weight
        drawn = plan_draws(weight_n, min(n, _STATISTICS_FROM)).draw(
            np.random.default_rng([self.settings.seed, epoch, 2])
        )
        whole = drawn[: max(drawn.size // self.batch, 1) * self.batch][
            self.fabric.global_rank :: self.fabric.world_size
        ]
        size = self.batch // self.fabric.world_size
        parts = (
            self.rows.take(whole[start : start + size]) for start in range(0, whole.size, size)
        )
        with self.fabric.autocast():
            update_batch_norm(self.network, parts)

    def _best(self) -> int:
        """The epoch whose weights are kept: with the lowest weighted validation loss, or the
        last.
        """
        if self.run.data.validation is None:
            return len(self.history) - 1
        return min(
            range(len(self.history)), key=lambda epoch: self.history[epoch]["validation_loss"]
        )

    def _is_over(self) -> bool:
        patience = self.settings.patience
        return (
            patience is not None
            and bool(self.history)
            and len(self.history) - 1 - self._best() >= patience
        )

    def _save(self) -> None:
        if self.fabric.global_rank == 0:
            now = {name: value.detach().cpu() for name, value in self.network.state_dict().items()}
            state = {
                "network": now,
                "optimizer": self.sgd.state_dict(),
                "precision": self.fabric.strategy.precision.state_dict(),
            }
            state["sampler"] = (
                None
                if self.sampler is None
                else self.sampler.state_dict(epoch=len(self.history), consumed=0)
            )
            save_state(
                self.run.folder / CHECKPOINT,
                {**self.run.facts(), **state, "history": self.history, "kept": self.kept},
            )
        self.fabric.barrier()

    def _take_up(self, path: Path) -> None:
        """Go on where a checkpoint was written, if there is one."""
        if not path.exists():
            return
        state = load_state(path)
        fill_network(self.network, state["network"], self.settings.model, path)
        try:
            self.sgd.load_state_dict(state["optimizer"])
        except ValueError as error:
            raise DataError(
                f"{path} was written by another version of this training ({error}): begin anew "
                "with --force."
            ) from error
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        if self.sampler is not None:
            self.sampler.load_state_dict(state["sampler"])
        self.history, self.kept = list(state["history"]), state["kept"]
        logger.info("resumed after epoch %d", len(self.history))


def _judge(network: Any, rows: DeviceRows, fabric: Any = None) -> dict[str, float]:
    """Loss and accuracy under the weights, Σ_i w_i ℓ_i/Σ_i w_i, and accuracy without them; each
    process judges its share.
    """
    import torch

    rank, n_processes = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
    mine = np.arange(rank, len(rows), n_processes)
    size = rows_at_once(rows.data.X.shape[1:])
    sums = torch.zeros(5, dtype=torch.float64, device=rows.device)
    network.eval()
    with torch.inference_mode(), nullcontext() if fabric is None else fabric.autocast():
        for start in range(0, mine.size, size):
            part = mine[start : start + size]
            images, label = rows.take(part)
            logits = network(images).double()
            weight = rows.weight(part)
            loss = torch.nn.functional.cross_entropy(logits, label, reduction="none")
            hit = (logits.argmax(1) == label).double()
            sums += torch.stack(
                [
                    (weight * loss).sum(),
                    (weight * hit).sum(),
                    weight.sum(),
                    hit.sum(),
                    torch.ones_like(hit).sum(),
                ]
            )
    if fabric is not None:
        sums = fabric.all_reduce(sums, reduce_op="sum")
    lost, right, weight_sum, hits, count = sums.tolist()
    return {
        "loss": lost / weight_sum,
        "accuracy": right / weight_sum,
        "accuracy_unweighted": hits / count,
    }


def _make_loss(data: TrainingData, settings: TrainSettings) -> Callable[..., Any]:
    """(logits, labels, rows) → the loss of a batch."""
    from torch.nn.functional import cross_entropy

    from unskew.learn.loss import WeightedLoss

    plain = functools.partial(cross_entropy, label_smoothing=settings.label_smoothing)
    if settings.weighting == "loss":
        return WeightedLoss(plain, data.weight)
    return lambda logits, label, rows: plain(logits, label)


def _make_sampler(data: TrainingData, settings: TrainSettings) -> Any:
    from unskew.learn.sampler import WeightedSampler

    if settings.weighting == "loss":
        return None
    # One draw for all processes; each takes its share of every batch.
    return WeightedSampler(
        data.weight, scheme=settings.scheme, seed=settings.seed, num_replicas=1, rank=0
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _train_probe(run: _Run) -> None:
    """One exact fit, `fit_probe`, in the place of epochs."""
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
    probe = fit_probe(
        np.concatenate(scaled), data.label, data.weight, len(data.classes), ridge=settings.ridge
    )
    network.network.take(probe)
    row: dict[str, float] = {"epoch": 0, "learning_rate": 0.0}
    for name, each in {"train": data, **run.judged}.items():
        row |= {
            f"{name}_{measure}": value
            for measure, value in _judge(network, DeviceRows(each, torch.device("cpu"))).items()
        }
    row = {name: value for name, value in row.items() if not name.startswith("train_accuracy")}
    row["seconds"] = time.perf_counter() - began
    with closing(TrainingLogs(run.folder / LOGS if run.logs else None, [row])):
        save_model(
            run.folder,
            {**run.facts(), "network": network.state_dict(), "epoch": 0, "history": [row]},
        )
