"""docs/ways-performance.md from the results of probes and forecasts that are there."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from learning_came_true import forecast_section
from learning_results import Key, Record, by_seed, seeds_text
from learning_settings import CASES, HUNDRED, MATTERS, TAILS, Case
from solver_table import machine_facts, write_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ways-performance.md"
TITLES = {key: case.title for key, case in CASES.items()}
ARTICLE = [case for case in CASES.values() if case not in {*MATTERS, *TAILS, *HUNDRED}]
OURS = ("auto", "weights", "half", "logit")
RECIPES = (
    "naive",
    "class_balanced",
    "logit_adjustment",
    "subsample",
    "one_source",
    "density_ratio",
)


def write_learning_page(path: Path = PAGE, folder: Path | None = None) -> None:
    """Write the page from the results in ``folder``; default: those of the checkout."""
    from learning import RESULTS, results_of

    results = {
        part: results_of(part, folder or RESULTS).read() for part in ("probe", "curve", "forecast")
    }
    probe = results["probe"]
    parts = [
        header(results),
        *(ways_section(probe, title, words, cases) for title, words, cases in SECTIONS),
        forecast_section(results["forecast"], probe, TITLES),
        curve_section(results["curve"]),
    ]
    write_page(path, "\n\n".join(part for part in parts if part) + "\n")


def measured_facts(results: Iterable[Mapping[Key, Record]]) -> str:
    """Say on which images, by which commit, where and when."""
    commits = sorted({own["commit"] for records in results for own in records.values()})
    return f"""\
- Images: CIFAR-10, where nothing else is said. Sources are drawn with replacement from its
  50,000 training images with known ω; accuracies are those on its 10,000 test images, in points.
  The target is the balanced training set.
- Commit: {", ".join(commits)}
- Machine: {machine_facts()}
- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}"""


def header(results: Mapping[str, Mapping[Key, Record]]) -> str:
    return f"""# Ways to learn on real images

**{verdict(results["probe"])}** Networks trained from scratch have
[a page of their own](ways-networks.md).

Written by `python benchmarks/learning.py --part page` from results of
`python benchmarks/learning.py --data FOLDER`; do not edit by hand.

{measured_facts(results.values())}

The probe: EfficientNet-lite0 sees each image at 128 × 128 pixels; the outputs of blocks 4, 7, 10,
12, 14, 15 and of its last layer, averaged over positions, are reduced to 384 principal components
of the training images, each divided by the fourth root of its variance; then weighted multinomial
logistic regression. [The ways](ways.md) learn from the weights of `unskew.debias`, with the family
that a user who knows the setting would choose. Recipes get the same five ridges, each the one with
the highest cross-fitted accuracy weighted to the target."""


@dataclass(frozen=True)
class Standing:
    """`auto` beside the recipes, over the settings that were measured.

    Attributes
    ----------
    ahead : for each setting, whether it is within one paired standard error of the best recipe.
    worst : whether its worst group is within 2 points of the best recipe's worst group.
    calibrated : whether its mean calibration error is at most 2 points.
    lead : its mean lead over the recipe that comes nearest, ``rival``.
    regret : how far it is below the best of the ways, on average.
    """

    ahead: list[bool]
    worst: list[bool]
    calibrated: list[bool]
    lead: float
    rival: str
    regret: float
    seeds: set[int]


def stand(records: Mapping[Key, Record], cases: Sequence[Case]) -> Standing | None:
    """Compare `auto` with every recipe that all of these settings have."""
    ahead, worst, calibrated, regrets, seeds = [], [], [], [], set()
    sums: dict[str, list[float]] = {name: [] for name in RECIPES}
    for case in cases:
        own = by_seed(records, case.key, "auto")
        others = {name: by_seed(records, case.key, name) for name in RECIPES}
        leads = {
            name: lead(own, other, lambda record: record["accuracy"])
            for name, other in others.items()
            if other
        }
        if not own or not leads:
            continue
        seeds |= set(own)
        for name, lead_s in leads.items():
            sums[name].append(float(lead_s.mean()))
        lead_s = min(leads.values(), key=lambda values: values.mean())
        ahead.append(bool(lead_s.mean() >= -error_of(lead_s)))
        gap = min(
            lead(own, other, lambda record: min(record["by_group"])).mean()
            for other in others.values()
            if other
        )
        worst.append(bool(gap >= -2.0))
        calibrated.append(means(own)[2] <= 2.0)
        ways = (by_seed(records, case.key, way) for way in OURS[1:])
        leads_of_ways = [lead(own, way, lambda record: record["accuracy"]).mean() for way in ways]
        regrets.append(-min(leads_of_ways))
    if not ahead:
        return None
    mean_of = {name: float(np.mean(own)) for name, own in sums.items() if len(own) == len(ahead)}
    rival = min(mean_of, key=lambda name: mean_of[name])
    regret = float(np.mean(regrets))
    return Standing(ahead, worst, calibrated, mean_of[rival], rival, regret, seeds)


def verdict(records: Mapping[Key, Record]) -> str:
    """What the tables show, in a sentence for each group of settings."""
    sentences = []
    for cases, words in (
        (MATTERS, "settings where bias matters"),
        (TAILS, "long-tailed data sets"),
        (HUNDRED, "settings on CIFAR-100"),
        (ARTICLE, "settings of the article, where it hardly matters"),
    ):
        standing = stand(records, cases)
        # One seed says nothing about errors.
        if standing is not None and len(standing.seeds) > 1:
            above = "above" if standing.lead >= 0 else "below"
            below = "below" if standing.regret >= 0 else "above"
            sentences.append(
                f"In {len(standing.ahead)} {words} (seeds {seeds_text(standing.seeds)}) `auto` is "
                "at or above the best tuned recipe, within one paired standard error, in "
                f"{sum(standing.ahead)}, and {abs(standing.lead):.2f} points {above} "
                f"{standing.rival}, the best single recipe, on average; it is "
                f"{abs(standing.regret):.2f} points {below} the best of our own ways; its worst "
                f"group is within 2 points of the best recipe's in {sum(standing.worst)}, and "
                f"its calibration error at most 2 points in {sum(standing.calibrated)}."
            )
    return " ".join(sentences) or "Nothing has been measured yet."


def lead(own: Mapping[int, Record], other: Mapping[int, Record], read: Any) -> Any:
    return np.array([read(own[seed]) - read(other[seed]) for seed in own if seed in other])


def error_of(value_s: Any) -> float:
    return float(value_s.std(ddof=1) / np.sqrt(value_s.size)) if value_s.size > 1 else 0.0


def ways_section(
    records: Mapping[Key, Record], title: str, words: str, cases: Sequence[Case]
) -> str:
    lines = [
        f"## {title}",
        "",
        words,
        "",
        "| setting | arm | accuracy (worst) / calibration error | auto's lead | seeds |",
        "|---|---|---|---|---|",
    ]
    head = len(lines)
    for case in cases:
        auto = by_seed(records, case.key, "auto")
        for arm in (*OURS, "true omega", *RECIPES):
            own = by_seed(records, case.key, arm)
            if own and auto:
                lines.append(_way_row(case.key, arm, own, auto))
    return "\n".join(lines) if len(lines) > head else ""


def _way_row(setting: str, arm: str, own: Mapping[int, Record], auto: Mapping[int, Record]) -> str:
    accuracy, worst, error = means(own)
    lead_s = lead(auto, own, lambda record: record["accuracy"])
    shown = "" if arm == "auto" or not lead_s.size else spread_text(lead_s)
    return (
        f"| {TITLES[setting]} | {arm} | {accuracy:.1f} ({worst:.0f}) / {error:.1f} | {shown} | "
        f"{seeds_text(own)} |"
    )


def means(own: Mapping[int, Record]) -> tuple[float, float, float]:
    """Return the accuracy, that of the worst group, and the calibration error."""
    every = [
        (record["accuracy"], min(record["by_group"]), record["calibration_error"])
        for record in own.values()
    ]
    accuracy, worst, error = np.mean(every, axis=0).tolist()
    return accuracy, worst, error


def spread_text(value_s: Any) -> str:
    error = f" ± {error_of(value_s):.2f}" if value_s.size > 1 else ""
    return f"{value_s.mean():+.2f}{error}"


def curve_section(records: Mapping[Key, Record]) -> str:
    """The learning curve that forecasts extrapolate."""
    if not records:
        return ""
    lines = [
        "### The learning curve",
        "",
        "Forecasts train on four fifths of the images and on two fifths, and extrapolate: a(1) = "
        "a(0.8) + ρ (a(0.8) − a(0.4)), ρ = 0.2, "
        "the curve a − b/f. What probes trained on so many of the images reached on the test "
        "images, means over seeds:",
        "",
        "`python benchmarks/learning.py --data FOLDER --part curve`",
        "",
        "| setting | arm | 0.4 | 0.8 | 1 | ρ | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting, arm in dict.fromkeys((key[0], key[2]) for key in records):
        own = {
            key[1]: record["accuracy"]
            for key, record in records.items()
            if (key[0], key[2]) == (setting, arm)
        }
        low, high, full = np.mean(list(own.values()), axis=0)
        lines.append(
            f"| {TITLES[setting]} | {arm} | {low:.2f} | {high:.2f} | {full:.2f} | "
            f"{(full - high) / (high - low):.2f} | {seeds_text(own)} |"
        )
    return "\n".join(lines)


SECTIONS = (
    (
        "Every way and every recipe",
        "`python benchmarks/learning.py --data FOLDER --part probe`\n\nAccuracy, the worst "
        "group's in brackets (the class with the lowest accuracy; for backgrounds the worst of "
        "animal or vehicle × dark or bright), the calibration error after the slash; means over "
        "seeds. ± is the standard error over seeds of auto's paired lead.",
        MATTERS,
    ),
    (
        "Long tails",
        "The protocol of papers on rare classes (Cao et al. 2019): one source, whose classes fall "
        "exponentially in size by the factor ρ in all, and a target of equal shares. Published "
        "with ResNets trained from scratch on CIFAR-10: ρ = 100, 77.5 naive and 80.7 by logit "
        "adjustment (ResNet-34, mmpretrain); ρ = 200, 74.0 naive, 79.8 by balanced meta-softmax "
        "and 81.8 decoupled (Ren et al. 2020). The probe's features come from a pretrained "
        "network, so that gains compare and levels do not.\n\n"
        "`python benchmarks/learning.py --data FOLDER --part probe --settings tail-100 tail-200 "
        "cifar100-tail-100 cifar100-tail-200`",
        TAILS,
    ),
    (
        "CIFAR-100",
        "`python benchmarks/learning.py --data FOLDER --part probe --settings "
        "cifar100-classes-0.1-0.3 cifar100-both-500`",
        HUNDRED,
    ),
    (
        "The article's settings",
        "Here bias hardly matters: what counts is that nothing is lost.",
        ARTICLE,
    ),
)
