"""What forecasts were to reach, and whether they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from learning_results import Record

Key = tuple[Any, ...]
NAMES = ("naive", "debiased", "gain")
NORMAL = 1.96


@dataclass(frozen=True)
class Outcome:
    """One forecast and its outcome, in points; ``truth`` has value and stderr of naive,
    debiased and gain.
    """

    setting: str
    seed: int
    forecast: Record
    truth: Record

    def true(self, name: str) -> float:
        return float(self.truth[name]["value"])

    def predicted(self, name: str) -> float:
        return float(self.forecast[name]["value"])

    def error(self, name: str) -> float:
        return self.predicted(name) - self.true(name)

    def covered(self, *, truth_errs: bool) -> list[bool]:
        """Does each of the three intervals hold what came true? With ``truth_errs`` widened by the
        error of the truth itself.
        """
        inside = []
        for name in NAMES:
            half = (self.forecast[name]["high"] - self.forecast[name]["low"]) / 2.0
            stderr, further = (
                self.forecast[name]["stderr"],
                self.truth[name]["stderr"] if truth_errs else 0.0,
            )
            quantile = half / stderr if stderr > 0 else NORMAL
            # Equal weights make the gain exactly 0, in forecast and truth.
            inside.append(
                abs(self.error(name)) <= quantile * float(np.hypot(stderr, further)) + 1e-9
            )
        return inside

    def widths(self) -> list[float]:
        return [self.forecast[name]["high"] - self.forecast[name]["low"] for name in NAMES]


def pair_up(
    forecasts: Mapping[Key, Record], truths: Mapping[Key, Record], measured_on: str
) -> list[Outcome]:
    """Forecasts whose truth is there, on the ``place`` "population" or "test"."""
    return [
        Outcome(*key, forecast, truths[key][measured_on])
        for key, forecast in forecasts.items()
        if key in truths
    ]


@dataclass(frozen=True)
class Bar:
    """One requirement: what was measured, what was asked for."""

    what: str
    measured: str
    asked: str
    met: bool


def forecast_bars(outcomes: Sequence[Outcome]) -> list[Bar]:
    """The requirements on forecasts, over all settings and seeds."""
    decided = [outcome for outcome in outcomes if abs(outcome.true("gain")) > 1.0]
    right = sum(
        (outcome.predicted("gain") > 0) == (outcome.true("gain") > 0) for outcome in decided
    )
    error = float(np.mean([abs(outcome.error("gain")) for outcome in outcomes]))
    gainful = [abs(outcome.error("gain")) for outcome in outcomes if outcome.true("gain") > 1.0]
    large = float(np.mean(gainful)) if gainful else 0.0
    arms = float(
        np.mean(
            [abs(outcome.error(name)) for outcome in outcomes for name in ("naive", "debiased")]
        )
    )
    width = float(np.median([value for outcome in outcomes for value in outcome.widths()]))
    return [
        Bar(
            "winner right where the true difference exceeds 1 point",
            f"{right} of {len(decided)}",
            "all",
            right == len(decided),
        ),
        Bar("mean absolute error of the predicted gain", f"{error:.2f}", "≤ 1", error <= 1.0),
        Bar(
            "the same where the true gain exceeds 1",
            f"{large:.2f} ({len(gainful)} forecasts)",
            "≤ 1.5",
            large <= 1.5,
        ),
        Bar("mean absolute error of an arm's accuracy", f"{arms:.2f}", "≤ 1.5", arms <= 1.5),
        coverage_bar("95% intervals that hold the measured truth", outcomes, truth_errs=False),
        coverage_bar(
            "the same, with the error of the measured truth counted", outcomes, truth_errs=True
        ),
        Bar("median width of these intervals", f"{width:.2f}", "≤ 4", width <= 4.0),
    ]


def coverage_bar(what: str, outcomes: Sequence[Outcome], *, truth_errs: bool) -> Bar:
    held_o3 = np.array([outcome.covered(truth_errs=truth_errs) for outcome in outcomes])
    share, by_kind = 100 * held_o3.mean(), 100 * held_o3.mean(axis=0)
    measured = (
        f"{share:.0f}% (naive {by_kind[0]:.0f}%, debiased {by_kind[1]:.0f}%, gain "
        f"{by_kind[2]:.0f}%)"
    )
    return Bar(what, measured, "≥ 90%", bool(share >= 90.0))
