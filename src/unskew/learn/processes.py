"""Where a training runs: one process, several that it starts, or several that torchrun started.

Under torchrun the process of rank 0 leads: it prepares a training and sends it to the others, which
take their share of every batch. They read no images, and need none of its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from unskew.errors import ConfigError, UnskewError
from unskew.files.user_code import import_elsewhere
from unskew.learn.presets import TrainSettings

# How long a process waits for the others: the leading one may read and weigh images for hours.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class NextTraining:
    """What rank 0 sends before each training: the run, or an error; None: nothing to be trained."""

    run: Any = None
    error: Exception | None = None
    is_last: bool = False


def outside_processes() -> tuple[int, int]:
    """Return (rank, number of processes) as torchrun set them; (0, 1): there is one."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def follows() -> bool:
    """Tell whether torchrun started this process, and another one leads."""
    return outside_processes()[0] > 0


def send_training(training: NextTraining) -> None:
    """Send what comes next to the processes that follow, if there are any."""
    if outside_processes()[1] > 1:
        _broadcast(training)


def receive_training() -> NextTraining:
    """Wait for what the leading process sends."""
    received: NextTraining = _broadcast(None)
    return received


def _broadcast(value: Any) -> Any:
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_PATIENCE)
    values = [value]
    distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values[0]


@contextmanager
def leading() -> Iterator[None]:
    """Lead the processes that follow, if there are any, and release them at the end.

    An error ends this process, and torchrun then ends the others.
    """
    yield
    if outside_processes()[1] > 1:
        send_training(NextTraining(is_last=True))
        _end_group()


def _end_group() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def follow_trainings() -> None:
    """Take part in every training that the leading process sends, until it ends.

    That process shows the error of a training.
    """
    from unskew.learn.train import take_part

    while not (training := receive_training()).is_last:
        with suppress(UnskewError):
            take_part(training)
    _end_group()


def start_fabric(settings: TrainSettings) -> Any:
    """Make the Fabric that the settings, or torchrun, ask for."""
    from unskew.learn.trained_model import found_device

    Fabric = import_elsewhere("lightning.fabric").Fabric

    device, n_processes = found_device(settings.device), outside_processes()[1]
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if n_processes > 1 else settings.devices
    n_nodes = n_processes // here if n_processes > 1 else 1
    if settings.batch % (here * n_nodes):
        raise ConfigError(
            f"a batch of {settings.batch} images cannot be shared equally by {here * n_nodes} "
            "devices: choose a multiple.",
            option="batch",
            value=settings.batch,
        )
    precision: Any = found_precision(settings.precision, device)
    strategy = _strategy(settings, is_outside=n_processes > 1, n_processes=here * n_nodes)
    try:
        return Fabric(
            accelerator=device,
            devices=here,
            num_nodes=n_nodes,
            strategy=strategy,
            precision=precision,
        )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"training cannot run on {here} × {device} at {precision}: {error}",
            option="devices",
            value=here,
        ) from error


def _strategy(settings: TrainSettings, *, is_outside: bool, n_processes: int) -> Any:
    from lightning.fabric.strategies.ddp import DDPStrategy

    if n_processes == 1:
        return "auto"
    # Layers that are fixed at first have no gradient then.
    waits = 0 < settings.head_epochs < settings.epochs
    options: dict[str, Any] = {"find_unused_parameters": True} if waits else {}
    # Spawned processes run the training alone: what calls it, a command that prints and writes,
    # runs once.
    return DDPStrategy(start_method="popen" if is_outside else "spawn", **options)


def found_precision(precision: str, device: str) -> str:
    """Resolve "auto": mixed on a graphics card (bfloat16 where it has it), "32-true" on a CPU."""
    import torch

    if precision != "auto":
        return precision
    if device != "cuda":
        return "32-true"
    return "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed"
