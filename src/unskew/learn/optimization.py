"""The optimiser of a training, and its learning rate at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from unskew.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from unskew.learn.presets import TrainSettings

Schedule = Literal["steps", "one_cycle", "cosine", "constant"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
Optimizer = Literal["sgd", "adamw"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
# Of the highest rate, at the first step of the cycle (airbench).
FIRST_SHARE = 0.2
# Of the epochs: what a milestone may miss the beginning of an epoch by, for rounding.
_ROUNDING = 1e-9


def learning_rate_at(
    schedule: Schedule,
    highest: float,
    step: int,
    n_steps: int,
    epochs: int,
    milestones: Sequence[float] = (),
    warmup: float = 0.25,
) -> float:
    """Return the rate of step ``step`` = 0 … n_steps − 1, all ``epochs`` together.

    With t = step/n_steps and the warm-up r: "one_cycle": highest·(0.2 + 0.8 t/r) up to t = r, then
    highest·(1 − t)/(1 − r). "cosine": highest·(step + 1)/(r n_steps) up to t = r, then highest·(1 +
    cos(π (t − r)/(1 − r)))/2. "steps": highest/10^(number of milestones, as shares of the epochs,
    that the epoch has reached), epochs counted from 0.
    """
    if schedule == "constant":
        return highest
    if schedule == "steps":
        epoch = step * epochs // n_steps
        return highest / 10.0 ** sum(
            epoch >= milestone * epochs - _ROUNDING for milestone in milestones
        )
    t = step / n_steps
    if schedule == "one_cycle":
        return highest * (
            FIRST_SHARE + (1 - FIRST_SHARE) * t / warmup if t < warmup else (1 - t) / (1 - warmup)
        )
    if schedule == "cosine":
        if t < warmup:
            return highest * min((step + 1) / (warmup * n_steps), 1.0)
        return highest * (1 + math.cos(math.pi * (t - warmup) / (1 - warmup))) / 2
    raise ConfigError(
        f"schedule is one of {', '.join(map(repr, SCHEDULES))}; got {schedule!r}.",
        option="schedule",
        value=schedule,
        allowed=list(SCHEDULES),
    )


def make_optimizer(
    network: torch.nn.Module, settings: TrainSettings, head: str | None
) -> torch.optim.Optimizer:
    """Make the optimiser of everything that can be trained.

    ``head`` names the last layer, which learns at the whole rate, the others at ``backbone_rate``
    times it; None: all learn at the whole rate. AdamW does not decay what has one dimension: biases
    and the factors of normalisation.
    """
    import torch

    groups = _groups(network, settings, head)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(
            groups, lr=settings.learning_rate, betas=(settings.momentum, 0.999)
        )
    return torch.optim.SGD(
        groups,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
    )


def _groups(
    network: torch.nn.Module, settings: TrainSettings, head: str | None
) -> list[dict[str, Any]]:
    """Group parameters by the share of the rate that they learn at, and by their decay."""
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        is_head = head is None or name.startswith(f"{head}.")
        decays = settings.optimizer == "sgd" or parameter.ndim > 1
        key = (
            1.0 if is_head else settings.backbone_rate,
            settings.weight_decay if decays else 0.0,
        )
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": parameters, "rate_share": share, "weight_decay": decay}
        for (share, decay), parameters in groups.items()
    ]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group to its share of ``rate``."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_share"]
