"""What was to be reached, and whether it was: the trial's figures, and the bars of the forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from learning_results import Record

Key = tuple[Any, ...]
# setting: arm -> (accuracy, worst group or None), of a trial with 4 seeds.
BARS: dict[str, dict[str, tuple[float, float | None]]] = {
    "classes-0.1-0.5": {"reference": (84.6, None), "naive": (80.4, None), "debiased": (84.0, None), "oracle": (83.9, None)},
    "classes-0.1-0.3": {"reference": (84.6, None), "naive": (70.7, 33), "debiased": (81.7, 74), "oracle": (81.7, None)},
    "missing-2000": {"reference": (84.6, None), "naive": (77.8, 27), "debiased": (81.9, 53), "oracle": (81.9, None)},
    "missing-500": {"reference": (84.6, None), "naive": (73.0, 7), "debiased": (79.0, 35), "oracle": (79.0, None)},
    "background-500": {
        "reference": (84.6, None),
        "naive": (82.3, 74),
        "box": (82.7, None),
        "debiased": (83.4, 79),
        "oracle": (83.4, 79),
    },
}


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over the seeds, in points."""

    accuracy: float
    accuracy_sd: float
    worst: float
    worst_sd: float
    seeds: tuple[int, ...]


def summarize(records: Mapping[Key, Record], setting: str, arm: str) -> Summary | None:
    """Accuracy and the worst group's of each seed, over the seeds that are there."""
    found = {key[1]: record for key, record in records.items() if key[0] == setting and key[2] == arm}
    if not found:
        return None
    accuracy_s = np.array([record["accuracy"] for record in found.values()])
    worst_s = np.array([min(record["by_group"]) for record in found.values()])
    spread = 1 if len(found) > 1 else 0
    return Summary(accuracy_s.mean(), accuracy_s.std(ddof=spread), worst_s.mean(), worst_s.std(ddof=spread), tuple(sorted(found)))


def met(value: float, bar: float, digits: int = 1) -> bool:
    """As printed, at least the bar."""
    return round(value, digits) >= bar


@dataclass(frozen=True)
class Outcome:
    """One forecast beside the truth, in points."""

    setting: str
    seed: int
    forecast: Record
    naive: float
    debiased: float

    @property
    def gain(self) -> float:
        return self.debiased - self.naive

    @property
    def gain_error(self) -> float:
        return float(self.forecast["gain"]["value"]) - self.gain

    @property
    def arm_errors(self) -> tuple[float, float]:
        return self.forecast["naive"]["value"] - self.naive, self.forecast["debiased"]["value"] - self.debiased

    def covered(self) -> list[bool]:
        """Does each of the three intervals (two accuracies and the gain) hold what came true?"""
        pairs = (("naive", self.naive), ("debiased", self.debiased), ("gain", self.gain))
        return [self.forecast[name]["low"] <= truth <= self.forecast[name]["high"] for name, truth in pairs]

    def widths(self) -> list[float]:
        return [self.forecast[name]["high"] - self.forecast[name]["low"] for name in ("naive", "debiased", "gain")]


def pair_up(forecasts: Mapping[Key, Record], probes: Mapping[Key, Record]) -> list[Outcome]:
    """Forecasts whose truth is there."""
    found = []
    for (setting, seed), forecast in forecasts.items():
        true = [probes.get((setting, seed, arm)) for arm in ("naive", "debiased")]
        if true[0] is not None and true[1] is not None:
            found.append(Outcome(setting, seed, forecast, true[0]["accuracy"], true[1]["accuracy"]))
    return found


@dataclass(frozen=True)
class Bar:
    """One requirement: what was measured, what was asked for."""

    what: str
    measured: str
    asked: str
    met: bool


def forecast_bars(outcomes: Sequence[Outcome]) -> list[Bar]:
    """The requirements on forecasts, over all settings and seeds."""
    decided = [each for each in outcomes if abs(each.gain) > 1.0]
    right = sum((each.forecast["gain"]["value"] > 0) == (each.gain > 0) for each in decided)
    error = float(np.mean([abs(each.gain_error) for each in outcomes]))
    gainful = [abs(each.gain_error) for each in outcomes if each.gain > 1.0]
    large = float(np.mean(gainful)) if gainful else 0.0
    arms = float(np.mean([abs(value) for each in outcomes for value in each.arm_errors]))
    covered = [inside for each in outcomes for inside in each.covered()]
    by_kind = np.mean([each.covered() for each in outcomes], axis=0)
    width = float(np.median([value for each in outcomes for value in each.widths()]))
    said = f"{100 * np.mean(covered):.0f}% (naive {100 * by_kind[0]:.0f}%, debiased {100 * by_kind[1]:.0f}%, gain {100 * by_kind[2]:.0f}%)"
    return [
        Bar("winner right where the true difference exceeds 1 point", f"{right} of {len(decided)}", "all", right == len(decided)),
        Bar("mean absolute error of the predicted gain", f"{error:.2f}", "≤ 1", error <= 1.0),
        Bar(f"the same where the true gain exceeds 1 ({len(gainful)} forecasts)", f"{large:.2f}", "≤ 1.5", large <= 1.5),
        Bar("mean absolute error of an arm's accuracy", f"{arms:.2f}", "≤ 1.5", arms <= 1.5),
        Bar("95% intervals that hold the truth", said, "≥ 90%", bool(np.mean(covered) >= 0.9)),
        Bar("median width of these intervals", f"{width:.2f}", "≤ 4", width <= 4.0),
    ]
