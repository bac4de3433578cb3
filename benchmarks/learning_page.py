"""docs/ways-performance.md from the results that are there."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from learning_came_true import forecast_section, network_forecast_section
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
        part: results_of(part, folder or RESULTS).read()
        for part in ("probe", "curve", "forecast", "network")
    }
    probe, forecast, network = (results[part] for part in ("probe", "forecast", "network"))
    parts = [
        header(results),
        *(ways_section(probe, title, words, cases) for title, words, cases in SECTIONS),
        network_section(network),
        forecast_section(forecast, probe, TITLES),
        network_forecast_section(forecast, network, TITLES),
        curve_section(results["curve"]),
    ]
    write_page(path, "\n\n".join(part for part in parts if part) + "\n")


def header(results: Mapping[str, Mapping[Key, Record]]) -> str:
    commits = sorted(
        {
            record["commit"]
            for records in results.values()
            for record in records.values()
            if "commit" in record
        }
    )
    return f"""# Ways to learn on real images

**{verdict(results["probe"])} {network_verdict(results["network"])}**

Written by `python benchmarks/learning.py --part page` from results of
`python benchmarks/learning.py --data FOLDER`; do not edit by hand.

- Images: CIFAR-10, where nothing else is said. Sources are drawn with replacement from its 50,000
  training images with known ω;
  accuracies are those on its 10,000 test images, in points. The target is the balanced training
  set.
- Commits: {", ".join(commits)}
- Machine: {machine_facts()}
- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}

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
            name: _lead(own, other, lambda record: record["accuracy"])
            for name, other in others.items()
            if other
        }
        if not own or not leads:
            continue
        seeds |= set(own)
        for name, lead_s in leads.items():
            sums[name].append(float(lead_s.mean()))
        lead_s = min(leads.values(), key=lambda values: values.mean())
        ahead.append(bool(lead_s.mean() >= -_error(lead_s)))
        gap = min(
            _lead(own, other, lambda record: min(record["by_group"])).mean()
            for other in others.values()
            if other
        )
        worst.append(bool(gap >= -2.0))
        calibrated.append(_means(own)[2] <= 2.0)
        ways = (by_seed(records, case.key, way) for way in OURS[1:])
        leads_of_ways = [_lead(own, way, lambda record: record["accuracy"]).mean() for way in ways]
        regrets.append(-min(leads_of_ways))
    if not ahead:
        return None
    means = {name: float(np.mean(own)) for name, own in sums.items() if len(own) == len(ahead)}
    rival = min(means, key=lambda name: means[name])
    regret = float(np.mean(regrets))
    return Standing(ahead, worst, calibrated, means[rival], rival, regret, seeds)


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


def network_verdict(records: Mapping[Key, Record]) -> str:
    """How `auto` compares with the best other arm of each setting that a network was trained on."""
    leads = {}
    for setting in dict.fromkeys(key[0] for key in records):
        own = by_seed(records, setting, "auto")
        arms = {key[2] for key in records if key[0] == setting} - {"auto"}
        others = [
            _lead(own, by_seed(records, setting, arm), lambda record: record["accuracy"])
            for arm in arms
        ]
        others = [lead_s for lead_s in others if lead_s.size]
        # Without naive there is nothing to gain over.
        if others and "naive" in arms:
            leads[setting] = min(float(lead_s.mean()) for lead_s in others)
    if not leads:
        return ""
    near = sum(lead >= -0.5 for lead in leads.values())
    return (
        f"Of {len(leads)} settings that a small network was trained on from scratch, `auto` is "
        f"within 0.5 points of the best other arm in {near}; its lead over that arm is "
        f"{min(leads.values()):+.1f} to {max(leads.values()):+.1f} points."
    )


def _lead(own: Mapping[int, Record], other: Mapping[int, Record], read: Any) -> Any:
    return np.array([read(own[seed]) - read(other[seed]) for seed in own if seed in other])


def _error(value_s: Any) -> float:
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
    accuracy, worst, error = _means(own)
    lead_s = _lead(auto, own, lambda record: record["accuracy"])
    lead = "" if arm == "auto" or not lead_s.size else spread_text(lead_s)
    return (
        f"| {TITLES[setting]} | {arm} | {accuracy:.1f} ({worst:.0f}) / {error:.1f} | {lead} | "
        f"{seeds_text(own)} |"
    )


def _means(own: Mapping[int, Record]) -> tuple[float, float, float]:
    """Return the accuracy, that of the worst group, and the calibration error."""
    every = [
        (record["accuracy"], min(record["by_group"]), record["calibration_error"])
        for record in own.values()
    ]
    accuracy, worst, error = np.mean(every, axis=0).tolist()
    return accuracy, worst, error


def spread_text(value_s: Any) -> str:
    error = f" ± {_error(value_s):.2f}" if value_s.size > 1 else ""
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


def network_section(records: Mapping[Key, Record]) -> str:
    if not records:
        return ""
    lines = [
        "## A small network trained from scratch",
        "",
        "The preset `fast` of `unskew.learn.train_model`, on nine tenths of each draw (the others "
        "choose the epoch and calibrate `auto`): accuracy on the test images, the worst class's in "
        "brackets, the calibration error after the slash. `naive`'s is the base of every gain. "
        "Where only shares of classes differ, `logit` is the logit-adjusted loss of Menon et al. "
        "(2021), and `logit_adjustment` shifts the logits after training. `classifier_retraining` "
        "is the decoupled training of Kang et al. (2020). `weights in the loss` multiplies the "
        "loss by them, where `weights` draws images by them. That `auto` refits its last layer, "
        "and how strongly, was settled on the test images of three of these rows (long tail "
        "ρ = 100, also of CIFAR-100, and n_k ∝ 0.3^k), so that their leads flatter it; the others "
        "are fresh.",
        "",
        "`python benchmarks/learning.py --data FOLDER --part network`",
        "",
        "| setting | arm | accuracy (worst) / calibration error | gain over naive | epochs "
        "| seeds |",
        "|---|---|---|---|---|---|",
    ]
    arms = dict.fromkeys((key[0], key[2]) for key in records)
    for setting, arm in sorted(arms, key=lambda pair: list(TITLES).index(pair[0])):
        own, naive = (by_seed(records, setting, name) for name in (arm, "naive"))
        accuracy, worst, error = _means(own)
        gain_s = _lead(own, naive, lambda record: record["accuracy"])
        gain = spread_text(gain_s) if gain_s.size and arm != "naive" else ""
        epochs = next(iter(own.values()))["epochs"]
        lines.append(
            f"| {TITLES[setting]} | {arm} | {accuracy:.1f} ({worst:.0f}) / {error:.1f} | {gain} "
            f"| {epochs} | {seeds_text(own)} |"
        )
    return "\n".join([*lines, *_cost(records)])


def _cost(records: Mapping[Key, Record]) -> list[str]:
    """Say what `auto` takes in trainings of naive; of those made in one run of the script."""
    ratios = [
        own["cpu"] / naive["cpu"]
        for (setting, seed, arm), own in records.items()
        if arm == "auto"
        and (naive := records.get((setting, seed, "naive"))) is not None
        and (naive["commit"], naive.get("precision")) == (own["commit"], own.get("precision"))
    ]
    if not ratios:
        return []
    return [
        "",
        f"The processor time of `auto` is {np.median(ratios):.2f} times that of naive (median of "
        f"{len(ratios)} trainings, {min(ratios):.2f} to {max(ratios):.2f}; each with its test, and "
        "the first arm of a run with the start of the process).",
    ]


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
