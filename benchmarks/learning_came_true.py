"""What forecasts predicted, what probes and networks then gained, and whether that was asked for:
sections of docs/ways-performance.md and docs/ways-networks.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from learning_results import Key, Record, seeds_text

WAYS = ("auto", "weights", "half", "logit")


@dataclass(frozen=True)
class Outcome:
    """The gain of one way over naive on one draw, in points: predicted, and come true."""

    setting: str
    seed: int
    way: str
    predicted: float
    interval: tuple[float, float]
    true: float

    @property
    def error(self) -> float:
        return self.predicted - self.true

    @property
    def holds(self) -> bool:
        # Equal weights make the gain exactly 0, in forecast and truth.
        return self.interval[0] - 1e-9 <= self.true <= self.interval[1] + 1e-9


def pair_up(forecasts: Mapping[Key, Record], measured: Mapping[Key, Record]) -> list[Outcome]:
    """Every way of every forecast whose gain was measured on the same draw."""
    outcomes = []
    for (setting, seed), forecast in forecasts.items():
        naive = measured.get((setting, seed, "naive"))
        for way in WAYS:
            own, predicted = measured.get((setting, seed, way)), forecast["arms"].get(way)
            if naive and own and predicted:
                gain = predicted["gain"]
                true = own["accuracy"] - naive["accuracy"]
                bounds = gain["low"], gain["high"]
                outcomes.append(Outcome(setting, seed, way, gain["value"], bounds, true))
    return outcomes


def ordered_rightly(outcomes: Iterable[Outcome], least: float) -> tuple[int, int]:
    """Of the pairs of arms of a draw that truly differ by more than ``least`` points, naive among
    them: how many a forecast has in the right order, and how many there are.
    """
    draws: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for outcome in outcomes:
        draw = draws.setdefault((outcome.setting, outcome.seed), [(0.0, 0.0)])
        draw.append((outcome.predicted, outcome.true))
    right = [
        (one[0] > other[0]) == (one[1] > other[1])
        for draw in draws.values()
        for one, other in combinations(draw, 2)
        if abs(one[1] - other[1]) > least
    ]
    return sum(right), len(right)


@dataclass(frozen=True)
class Bar:
    """One requirement: what was measured, what was asked for."""

    what: str
    measured: str
    asked: str
    met: bool

    @property
    def row(self) -> str:
        return (
            f"| {self.what} | {self.asked} | {self.measured} | {'yes' if self.met else '**no**'} |"
        )


def forecast_bars(outcomes: Sequence[Outcome], agree: Sequence[bool]) -> list[Bar]:
    """The requirements on forecasts; ``agree``: whether forecast and training chose one way."""
    right, decided = ordered_rightly(outcomes, 1.0)
    auto = [outcome for outcome in outcomes if outcome.way == "auto"]
    bars = [
        Bar(
            "the better of two arms is right where they truly differ by more than 1 point",
            f"{right} of {decided}",
            "all",
            right == decided,
        )
    ]
    for own, words in ((outcomes, "of every way"), (auto, "of `auto` alone")):
        error = float(np.mean([abs(outcome.error) for outcome in own]))
        share = 100.0 * float(np.mean([outcome.holds for outcome in own]))
        bars += [
            Bar(f"mean absolute error of the gain {words}", f"{error:.2f}", "≤ 1", error <= 1.0),
            Bar(
                f"95% intervals {words} that hold the gain on the test images",
                f"{share:.0f}% of {len(own)}",
                "≥ 90%",
                share >= 90.0,
            ),
        ]
    same = f"{sum(agree)} of {len(agree)}"
    return [*bars, Bar("the way it names is the one that `auto` took", same, "all", all(agree))]


def forecast_section(
    forecasts: Mapping[Key, Record], probes: Mapping[Key, Record], titles: Mapping[str, str]
) -> str:
    """Forecasts of probes, way by way."""
    naives = {
        (*key, "naive"): {"accuracy": record["naive_on_test"]} for key, record in forecasts.items()
    }
    outcomes = pair_up(forecasts, {**probes, **naives})
    if not outcomes:
        return ""
    agree = [
        forecast["way"] == probes[(*key, "auto")]["way"]
        for key, forecast in forecasts.items()
        if (*key, "auto") in probes
    ]
    seconds = np.median([record["cpu"] for record in forecasts.values()])
    lines = [
        "## Forecasts",
        "",
        "`unskew.forecast_gain` sees only the drawn images (copies of one image stay on one side "
        "of every fold); what came true is what the probe gained over naive on the test images, "
        "trained on the same draw (part probe). Naive has the ridge that its own images choose, as "
        "in `unskew train`; in the tables above it has the one that is best for the target. "
        "`auto` is the row `debiased` of a forecast; its "
        "way, and the reason, are the forecast's recommendation. A forecast's ways are calibrated "
        "to the target as `auto` is, those of the part probe are not. The test images have errors "
        f"of their own, and they are another sample. A forecast takes {seconds:.0f} s of one core "
        "(median; fitting the bias model and checking its fit included).",
        "",
        "`python benchmarks/learning.py --data FOLDER --part forecast --seeds "
        f"{' '.join(map(str, sorted({outcome.seed for outcome in outcomes})))}`",
        "",
        "| over all settings and seeds | asked for | measured | met |",
        "|---|---|---|---|",
        *(bar.row for bar in forecast_bars(outcomes, agree)),
        "",
        "Gains over naive in points, means over seeds; the interval is the mean one that forecasts "
        "state:",
        "",
        "| setting | way | predicted gain | 95% interval | gain on the test images | seeds |",
        "|---|---|---|---|---|---|",
        *_rows(outcomes, titles),
    ]
    return "\n".join(lines)


def _rows(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> list[str]:
    rows = []
    for setting, title in titles.items():
        for way in WAYS:
            own = [o for o in outcomes if (o.setting, o.way) == (setting, way)]
            if own:
                predicted, true = (np.mean([(o.predicted, o.true) for o in own], axis=0)).tolist()
                low, high = np.mean([o.interval for o in own], axis=0).tolist()
                rows.append(
                    f"| {title} | {way} | {predicted:+.1f} | {low:+.1f} – {high:+.1f} | "
                    f"{true:+.1f} | {seeds_text(o.seed for o in own)} |"
                )
    return rows


def network_forecast_section(
    forecasts: Mapping[Key, Record], networks: Mapping[Key, Record], titles: Mapping[str, str]
) -> str:
    """Forecasts made with a probe, and what networks trained from scratch gained."""
    outcomes = pair_up(forecasts, networks)
    if not outcomes:
        return ""
    large = [outcome for outcome in outcomes if abs(outcome.true) > 2.0]
    right = sum((outcome.predicted > 0) == (outcome.true > 0) for outcome in large)
    error = float(np.mean([abs(outcome.error) for outcome in outcomes]))
    worst = max(outcomes, key=lambda outcome: abs(outcome.error))
    lines = [
        "## Forecasts and networks",
        "",
        "The same forecasts, made with a probe on an embedding before any network is trained, and "
        "what a small network trained from scratch on nine tenths of the same draw gained over its "
        "own naive (part network). Take the sign from them, not the size: where the network's gain "
        f"or loss exceeds 2 points, the sign is right in {right} of {len(large)}; sizes are off by "
        f"{error:.1f} points on average, at most by {abs(worst.error):.1f} ({titles[worst.setting]}"
        f", {worst.way}: {worst.predicted:+.1f} predicted, {worst.true:+.1f} came true)"
        f"{_compared_sizes(large)}.",
        "",
        "| setting | way | predicted gain | 95% interval | gain of the network | seeds |",
        "|---|---|---|---|---|---|",
        *_rows(outcomes, titles),
    ]
    return "\n".join(lines)


def _compared_sizes(large: Sequence[Outcome]) -> str:
    """What the network gained, as a multiple of what was predicted."""
    ratios = [o.true / o.predicted for o in large if o.predicted > 0 and o.true > 0]
    if not ratios:
        return ""
    return (
        f"; where both gain, the network gained {np.median(ratios):.1f} times what was predicted "
        f"(median; {min(ratios):.1f} to {max(ratios):.1f})"
    )
