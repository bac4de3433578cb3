"""The learning rate at each step of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from unskew.errors import ConfigError

Schedule = Literal["steps", "one_cycle", "constant"]
SCHEDULES: tuple[Schedule, ...] = ("steps", "one_cycle", "constant")
# Of the highest rate, at the first step of the cycle (airbench); its rise takes this share of the
# steps.
FIRST_SHARE = 0.2
RISE = 0.25


def learning_rate_at(
    schedule: Schedule,
    highest: float,
    step: int,
    n_steps: int,
    epochs: int,
    milestones: Sequence[int] = (),
) -> float:
    """Return the rate of step ``step`` = 0 … n_steps − 1, all ``epochs`` together.

    "one_cycle", with t = step/n_steps: highest·(0.2 + 0.8 t/0.25) up to t = 1/4, then highest·(1 −
    t)/0.75. "steps": highest/10^(number of milestones that the epoch has reached), epochs counted
    from 0.
    """
    if schedule == "constant":
        return highest
    if schedule == "steps":
        epoch = step * epochs // n_steps
        return highest / 10.0 ** sum(epoch >= milestone for milestone in milestones)
    if schedule == "one_cycle":
        t = step / n_steps
        return highest * (
            FIRST_SHARE + (1 - FIRST_SHARE) * t / RISE if t < RISE else (1 - t) / (1 - RISE)
        )
    raise ConfigError(
        f"schedule is one of {', '.join(map(repr, SCHEDULES))}; got {schedule!r}.",
        option="schedule",
        value=schedule,
        allowed=list(SCHEDULES),
    )
