"""The training of a network: one epoch after the other, each judged, saved and logged.

Everything random in epoch e comes from (seed, e), so that a run that was killed and resumed ends in
the same bits (on a CPU) as one that was not.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.engine.progress import show_progress
from unskew.errors import DataError, diverged
from unskew.learn.augment import augment_images, draw_changes
from unskew.learn.batch_norm import fix_batch_norm, update_batch_norm
from unskew.learn.dial import Dialled, turn_dial
from unskew.learn.network_ways import finish_network, fit_start, judge_rows
from unskew.learn.optimization import learning_rate_at, make_optimizer, set_learning_rate
from unskew.learn.presets import TAUS, TrainSettings, settings_dict
from unskew.learn.recipes import DEFERRED_SHARE, Recipe
from unskew.learn.sampling.sampling_schemes import plan_draws
from unskew.learn.trained_model import (
    CHECKPOINT,
    LOGS,
    fill_network,
    load_state,
    new_network,
    save_model,
    save_state,
)
from unskew.learn.training_data import DeviceRows, TrainingData, scale_inputs
from unskew.learn.training_logs import TrainingLogs, describe_epoch
from unskew.learn.ways import START

logger = logging.getLogger(__name__)

# Pixels and images that batch normalisation's statistics are estimated from, after every epoch: its
# own running averages remember fewer.
_STATISTICS_FROM, _FEWEST_IMAGES = 8192 * 32 * 32, 1024
# Images that a network sees before its first step.
_LOOKED_AT = 4096
# Steps between looks at the loss: on a graphics card each look makes it wait.
_LOOK = 50


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What every process of a training knows.

    ``head``: what the last layer is refitted on; ``report``: is called with a line for each epoch.
    """

    data: TrainingData
    settings: TrainSettings
    folder: Path
    watched: dict[str, TrainingData]
    fingerprint: dict[str, str]
    progress: bool | None
    logs: bool
    recipe: Recipe | None = None
    head: TrainingData | None = None
    report: Callable[[str], None] | None = None

    @property
    def judged(self) -> dict[str, TrainingData]:
        """The sets that are judged after every epoch, by name."""
        validation = self.data.validation
        return ({} if validation is None else {"validation": validation}) | self.watched

    @property
    def tau(self) -> float:
        """The position of the dial."""
        return 0.0 if self.recipe is not None else TAUS.get(self.settings.way, START)

    @property
    def refits(self) -> str:
        """What refits the last layer after training; empty: nothing does."""
        if self.recipe is not None:
            return "classifier retraining" if self.recipe.form == "retrained" else ""
        return "" if self.head is None else "way 'head'"

    def facts(self) -> dict[str, Any]:
        """Describe the run for its files."""
        return {
            "settings": settings_dict(self.settings),
            "classes": list(self.data.classes),
            "shape": list(self.data.X.shape[1:]),
            "fingerprint": self.fingerprint,
            "watched": list(self.watched),
            "has_label_sets": self.data.has_label_sets,
        }


class TrainingLoop:
    """The loop: every epoch trains, re-estimates batch normalisation, judges, saves, logs."""

    def __init__(self, fabric: Any, run: TrainingRun) -> None:
        import torch

        self.fabric, self.run, self.settings = fabric, run, run.settings
        data, settings = run.data, run.settings
        torch.manual_seed(_seed(settings.seed))
        scale = scale_inputs(data, settings)
        self.network = new_network(settings, data.X.shape[1:], len(data.classes), *scale)
        self.last_layer = self._last_layer()
        self.rows = DeviceRows(data, fabric.device)
        self.start = self._start_from_probe()
        self.backbone = self._backbone()
        self._show_images()
        head = self.last_layer.name if settings.apart and self.last_layer else None
        self.inner_optimizer = make_optimizer(self.network, settings, head)
        self.model, self.optimizer = fabric.setup(self.network, self.inner_optimizer)
        self.fill = (
            self.network.mean.round().clamp(0, 255).to(fabric.device, torch.uint8)
            if data.holds_images
            else None
        )
        self.judged = {
            name: DeviceRows(images, fabric.device) for name, images in run.judged.items()
        }
        self.losses, self.sampler = self._losses_and_sampler()
        # Whole batches only, so that every image counts the same: another part is left out in each
        # epoch.
        self.batch = min(settings.batch, len(data) - len(data) % fabric.world_size)
        if not self.batch:
            raise DataError(
                f"{len(data)} images cannot be shared by {fabric.world_size} devices: use one.",
                count=len(data),
                limit=fabric.world_size,
            )
        self.n_steps = len(data) // self.batch
        self.history: list[dict[str, float]] = []
        self.rate = settings.learning_rate
        self.kept: dict[str, Any] = {}
        self._take_up(run.folder / CHECKPOINT)

    def _losses_and_sampler(self) -> tuple[dict[int, Callable[..., Any]], Any]:
        """Make the loss, by the epoch that it is used from, and the sampler."""
        from unskew.learn.loss import make_batch_loss

        data, recipe, settings = self.run.data, self.run.recipe, self.settings
        dialled = turn_dial(data.weight, data.label, len(data.classes), self.run.tau)
        if recipe is not None and recipe.training_shift is not None:
            dialled = replace(dialled, logit_shift=recipe.training_shift)
        factor_m = None if recipe is None else recipe.logit_factor
        is_deferred = recipe is not None and recipe.form == "deferred"
        if is_deferred:
            settings = replace(settings, weighting="loss")
        make_loss = functools.partial(
            make_batch_loss,
            factor_m=factor_m,
            settings=settings,
            device=self.fabric.device,
            smooth_m=None if recipe is None else recipe.offset_after,
        )
        losses = {0: make_loss(dialled)}
        if recipe is not None and is_deferred:
            late = replace(dialled, weight=dialled.weight * recipe.class_weight(data.label))
            first = math.ceil(DEFERRED_SHARE * settings.epochs)
            losses[first] = make_loss(late)
        return losses, _make_sampler(dialled, settings)

    def _last_layer(self) -> Any:
        """Find the last layer, if something sets it apart from the others."""
        from unskew.learn.last_layer import need_last_layer

        what = self.run.refits or self.settings.apart
        if not what:
            return None
        shape, n_classes = self.run.data.X.shape[1:], len(self.run.data.classes)
        return need_last_layer(self.network, self.settings.model, shape, n_classes, what)

    def _start_from_probe(self) -> dict[str, Any] | None:
        """Let the last layer start as a probe, if it is to; return all that training may change.

        A checkpoint has the start of its run.
        """
        if not self.settings.probe_start or self.last_layer is None:
            return None
        from unskew.learn.last_layer import add_bias

        self.network.to(self.fabric.device)
        linear = add_bias(self.network, self.last_layer.name)
        if self.fabric.global_rank == 0 and not (self.run.folder / CHECKPOINT).exists():
            linear = fit_start(self.network, self.last_layer, self.run)
        linear.load_state_dict(self.fabric.broadcast(linear.state_dict()))
        return _copied(self.network)

    def _backbone(self) -> list[Any]:
        """List the parameters that are fixed while the last layer is trained alone.

        The first ones (`frozen_share`) are fixed for good, and where it is always alone, all.
        """
        settings = self.settings
        own = "" if self.last_layer is None else f"{self.last_layer.name}."
        backbone = [
            parameter
            for name, parameter in self.network.named_parameters()
            if parameter.requires_grad and not (own and name.startswith(own))
        ]
        n_fixed = round(settings.frozen_share * len(backbone))
        if settings.head_epochs == settings.epochs:
            n_fixed = len(backbone)
        for parameter in backbone[:n_fixed]:
            parameter.requires_grad_(False)
        return backbone[n_fixed:] if settings.head_epochs else []

    def _set_mode(self, epoch: int) -> None:
        """Train all layers, or the last one on the others as they were pretrained."""
        is_head_only = epoch < self.settings.head_epochs
        self.model.train(not is_head_only)
        if self.settings.fix_batch_norm:
            fix_batch_norm(self.model)
        for parameter in self.backbone:
            parameter.requires_grad_(not is_head_only)

    def _show_images(self) -> None:
        """Show a weighted sample to a network that looks at images before its first step.

        Such a network has the method ``look_at``.
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
        """Train the epochs that are left, then save the model."""
        first, settings = self.fabric.global_rank == 0, self.settings
        logs = TrainingLogs(
            self.run.folder / LOGS if self.run.logs and first else None, self.history, settings
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
                    "epoch": self._best(),
                    "history": self.history,
                    **finish_network(
                        self.network,
                        self.kept,
                        self.run,
                        self.judged,
                        self.last_layer,
                        self.start,
                    ),
                },
            )
        self.fabric.barrier()

    def _one_epoch(self, epoch: int, advance: Callable[[int], None]) -> None:
        began = time.perf_counter()
        loss = self._train(epoch, advance)
        self._update_batch_norm(epoch)
        row = {"epoch": epoch, "train_loss": loss, "learning_rate": self.rate}
        for name, rows in self.judged.items():
            row |= {
                f"{name}_{measure}": value
                for measure, value in judge_rows(self.network, rows, self.fabric).items()
            }
        if not all(math.isfinite(value) for value in row.values()):
            raise diverged(epoch, row["train_loss"], self.settings.learning_rate)
        row["seconds"] = time.perf_counter() - began
        self.history.append(row)
        if self._best() == epoch:
            self.kept = _copied(self.network)
        if self.fabric.global_rank == 0:
            line = describe_epoch(row, self.settings.epochs)
            logger.info("%s", line)
            if self.run.report is not None:
                self.run.report(line)
        self._save()

    def _train(self, epoch: int, advance: Callable[[int], None]) -> float:
        """Pass over the images once, and return the mean loss of the steps."""
        import torch

        settings, fabric = self.settings, self.fabric
        torch.manual_seed(_seed(settings.seed, epoch, 0, fabric.global_rank))
        generator = torch.Generator(fabric.device).manual_seed(_seed(settings.seed, epoch, 1))
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(self.run.data))
        if self.sampler is not None:
            order = self.sampler.draw_epoch(epoch)
        self._set_mode(epoch)
        batch_loss = self.losses[max(first for first in self.losses if first <= epoch)]
        total = torch.zeros((), dtype=torch.float64, device=fabric.device)
        mine = slice(fabric.global_rank, None, fabric.world_size)
        for step in range(self.n_steps):
            rows = order[step * self.batch : (step + 1) * self.batch][mine]
            images, label = self.rows.take(rows)
            if settings.augment and self.fill is not None:
                images = self._augment(images, generator, mine)
            self.rate = learning_rate_at(
                settings.schedule,
                settings.learning_rate,
                epoch * self.n_steps + step,
                settings.epochs * self.n_steps,
                settings.epochs,
                settings.milestones,
                settings.warmup,
            )
            set_learning_rate(self.inner_optimizer, self.rate)
            loss = batch_loss(self.model(images), label, rows)
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

    def _augment(self, images: Any, generator: Any, mine: slice) -> Any:
        settings = self.settings
        # Drawn for the whole batch, so that a run does not depend on the number of processes.
        changes = draw_changes(
            self.batch,
            images.shape[1:3],
            generator,
            pad=settings.pad if settings.crop == "shift" else 0,
            flip=settings.flip,
            smallest_crop=settings.smallest_crop if settings.crop == "resized" else None,
            jitter=settings.jitter,
        )
        return augment_images(
            images,
            changes.take(mine),
            padding=settings.padding,
            cutout=settings.cutout,
            fill=self.fill,
        )

    def _update_batch_norm(self, epoch: int) -> None:
        """Estimate the running statistics on a weighted sample, without augmentation."""
        settings = self.settings
        is_kept = settings.fix_batch_norm or not settings.update_batch_norm
        if is_kept or epoch < settings.head_epochs:
            return
        n, weight_n = len(self.run.data), self.run.data.weight
        pixels = math.prod(self.run.data.X.shape[1:-1])
        enough = max(_STATISTICS_FROM // pixels, _FEWEST_IMAGES)
        drawn = plan_draws(weight_n, min(n, enough)).draw(
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
        """Return the epoch whose weights are kept: the lowest validation loss, or the last."""
        if self.run.data.validation is None:
            return len(self.history) - 1
        loss = [row["validation_loss"] for row in self.history]
        return loss.index(min(loss))

    def _is_over(self) -> bool:
        if self.settings.patience is None or not self.history:
            return False
        return len(self.history) - 1 - self._best() >= self.settings.patience

    def _save(self) -> None:
        if self.fabric.global_rank == 0:
            state: dict[str, Any] = {
                "network": _copied(self.network),
                "optimizer": self.inner_optimizer.state_dict(),
                "precision": self.fabric.strategy.precision.state_dict(),
            }
            if self.sampler is not None:
                state["sampler"] = self.sampler.state_dict(epoch=len(self.history), consumed=0)
            state |= {"history": self.history, "kept": self.kept, "start": self.start}
            save_state(self.run.folder / CHECKPOINT, {**self.run.facts(), **state})
        self.fabric.barrier()

    def _take_up(self, path: Path) -> None:
        """Continue from a checkpoint, if there is one; other processes need not see its file."""
        first = self.fabric.global_rank == 0
        state = self.fabric.broadcast(load_state(path) if first and path.exists() else None)
        if state is None:
            return
        fill_network(self.network, state["network"], self.settings.model, path)
        try:
            self.inner_optimizer.load_state_dict(state["optimizer"])
        except ValueError as error:
            raise DataError(
                f"{path} was written by another version of this training ({error}): start again "
                "with --force.",
                path=str(path),
            ) from error
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        if self.sampler is not None:
            self.sampler.load_state_dict(state["sampler"])
        self.history, self.kept, self.start = (
            list(state["history"]),
            state["kept"],
            state.get("start"),
        )
        logger.info("resumed after epoch %d", len(self.history))


def _copied(network: Any) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


def _make_sampler(dialled: Dialled, settings: TrainSettings) -> Any:
    from unskew.learn.sampling.sampler import WeightedSampler

    if settings.weighting == "loss":
        return None
    # One draw for all processes; each takes its share of every batch.
    return WeightedSampler(
        dialled.image_weight, scheme=settings.scheme, seed=settings.seed, num_replicas=1, rank=0
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
