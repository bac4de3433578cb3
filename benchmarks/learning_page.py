"""docs/ways-performance.md from the results that are there."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learning_bars import Key, Outcome, forecast_bars, pair_up
from learning_results import Record
from solver_table import machine_facts, write_page

from paper.settings import ARTICLE, BEYOND

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ways-performance.md"
TITLES = {setting.key: setting.title for setting in (*BEYOND, *ARTICLE)}
OURS = ("auto", "weights", "half", "logit")
RECIPES = (
    "naive",
    "class_balanced",
    "logit_adjustment",
    "subsample",
    "one_source",
    "density_ratio",
)


def write_learning_page(cache: Path, path: Path = PAGE) -> None:
    from learning import results_of

    results = {
        part: results_of(part, cache).read()
        for part in ("probe", "curve", "forecast", "truth", "network")
    }
    parts = [
        header(results),
        ways_section(results["probe"]),
        forecast_section(
            *(
                pair_up(results["forecast"], results["truth"], measured_on)
                for measured_on in ("population", "test")
            )
        ),
        curve_section(results["curve"]),
        network_section(results["network"]),
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

**{verdict(results["probe"])}**

Written by `python benchmarks/learning.py --part page` from results of
`python benchmarks/learning.py --data FOLDER`; do not edit by hand.

- Images: CIFAR-10. Sources are drawn with replacement from its 50,000 training images with known ω;
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


def by_seed(records: Mapping[Key, Record], setting: str, arm: str) -> dict[int, Record]:
    return {
        key[1]: record for key, record in records.items() if key[0] == setting and key[2] == arm
    }


def verdict(records: Mapping[Key, Record]) -> str:
    """What the table shows in a sentence: `auto` beside the best recipe of every row."""
    ahead, worst, seeds, means = [], [], set(), dict.fromkeys(RECIPES, 0.0)
    for setting in (row.key for row in BEYOND):
        own = by_seed(records, setting, "auto")
        others = {name: by_seed(records, setting, name) for name in RECIPES}
        leads = {
            name: _lead(own, other, lambda record: record["accuracy"])
            for name, other in others.items()
            if other
        }
        if not own or not leads:
            continue
        seeds |= set(own)
        means = {name: means[name] + lead.mean() for name, lead in leads.items() if name in means}
        lead_s = min(leads.values(), key=lambda values: values.mean())
        ahead.append(lead_s.mean() >= -_error(lead_s))
        gap = min(
            _lead(own, other, lambda record: min(record["by_group"])).mean()
            for other in others.values()
            if other
        )
        worst.append(gap >= -2.0)
    if not ahead:
        return "Nothing has been measured yet."
    lead = min(means, key=lambda name: means[name])
    return (
        f"`auto` is at or above the best tuned recipe, within one paired standard error, in "
        f"{sum(ahead)} of {len(ahead)} settings where bias matters, and "
        f"{means[lead] / len(ahead):.2f} points above {lead}, the best single recipe, on average. "
        f"Its worst group is within 2 points of the best recipe's worst group in {sum(worst)} of "
        f"{len(worst)}. Seeds {seeds_text(seeds)}; eight are planned."
    )


def _lead(own: Mapping[int, Record], other: Mapping[int, Record], read: Any) -> Any:
    return np.array([read(own[seed]) - read(other[seed]) for seed in own if seed in other])


def _error(value_s: Any) -> float:
    return float(value_s.std(ddof=1) / np.sqrt(value_s.size)) if value_s.size > 1 else 0.0


def ways_section(records: Mapping[Key, Record]) -> str:
    lines = [
        "## Every way and every recipe",
        "",
        "`python benchmarks/learning.py --data FOLDER --part probe`",
        "",
        "Accuracy, the worst group's in brackets (the class with the lowest accuracy; for "
        "backgrounds the worst of animal or vehicle × dark or bright), the calibration error after "
        "the slash; means over seeds. ± is the standard error over seeds of auto's paired lead.",
        "",
        "| setting | arm | accuracy (worst) / calibration error | auto's lead | seeds |",
        "|---|---|---|---|---|",
    ]
    for setting in TITLES:
        auto = by_seed(records, setting, "auto")
        for arm in (*OURS, "true omega", *RECIPES):
            own = by_seed(records, setting, arm)
            if own and auto:
                lines.append(_way_row(setting, arm, own, auto))
    return "\n".join(lines)


def _way_row(setting: str, arm: str, own: Mapping[int, Record], auto: Mapping[int, Record]) -> str:
    accuracy, worst, error = (
        float(np.mean(values))
        for values in zip(
            *(
                (record["accuracy"], min(record["by_group"]), record["calibration_error"])
                for record in own.values()
            ),
            strict=True,
        )
    )
    lead_s = _lead(auto, own, lambda record: record["accuracy"])
    lead = "" if arm == "auto" or not lead_s.size else spread_text(lead_s)
    return (
        f"| {TITLES[setting]} | {arm} | {accuracy:.1f} ({worst:.0f}) / {error:.1f} | {lead} | "
        f"{seeds_text(own)} |"
    )


def spread_text(value_s: Any) -> str:
    return f"{value_s.mean():+.2f} ± {_error(value_s):.2f}"


def seeds_text(seeds: Iterable[int]) -> str:
    ordered = sorted(seeds)
    run = ordered == list(range(ordered[0], ordered[-1] + 1)) and len(ordered) > 2
    return f"{ordered[0]}–{ordered[-1]}" if run else ", ".join(map(str, ordered))


def forecast_section(outcomes: Sequence[Outcome], on_test: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    harder = np.array(
        [
            outcome.true("naive") - test.true("naive")
            for outcome, test in zip(outcomes, on_test, strict=True)
        ]
    )
    lines = [
        "## Forecasts before training, and what came true",
        "",
        "`unskew.forecast_gain` sees only the drawn images (copies of one image stay on one side "
        "of every fold) and is about the population that the sources draw from, CIFAR's training "
        "images. The outcome is measured for the probe trained on the whole draw: on images of "
        "the population that no source drew, weighted by 1/chance to be left out, and on the test "
        f"images. Both have their own errors (standard error of an accuracy "
        f"{mean_error(outcomes):.1f} and {mean_error(on_test):.1f} points); the test images are "
        f"another sample, and a harder one: naive is {harder.mean():.1f} points better on the "
        "population.",
        "",
        "`python benchmarks/learning.py --data FOLDER --part forecast --part truth "
        "--seeds 4 5 6 7`",
        "",
        "| over all settings and seeds | asked for | on the population | met | on the test images "
        "| met |",
        "|---|---|---|---|---|---|",
    ]
    for bar, test in zip(forecast_bars(outcomes), forecast_bars(on_test), strict=True):
        lines.append(
            f"| {bar.what} | {bar.asked} | {bar.measured} | {yes(bar.met)} | {test.measured} | "
            f"{yes(test.met)} |"
        )
    lines += [
        "",
        "An interval is about the truth, not about a measurement of it: where both have the same "
        "error, a perfect 95% interval holds the "
        "measured truth in 83% of cases. The row with the error counted, and the comparison with "
        "the population, were added when on seeds "
        "0–3 the plain count on the test images came out below 90%.",
        "",
        "The shape of the learning curve, and what counts as an error, was settled on seeds 0–3. "
        "The forecasts of this page are for seeds "
        f"{seeds_text({outcome.seed for outcome in outcomes})}, which were not used for that; all "
        "of them are shown.",
    ]
    lines += [
        "",
        f"{len(outcomes)} forecasts, each "
        f"{np.median([outcome.forecast['cpu'] for outcome in outcomes]):.0f} s of one core "
        "(median; "
        "fitting the "
        "bias model and checking its fit included). By setting, means over seeds, ± the standard "
        "error that forecasts state:",
        "",
        "| setting | predicted gain | true | on test | predicted naive | true | on test | "
        "predicted debiased | true | on test | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for setting in TITLES:
        own, test = (
            [outcome for outcome in every if outcome.setting == setting]
            for every in (outcomes, on_test)
        )
        if own:
            lines.append(forecast_row(TITLES[setting], own, test))
    return "\n".join(lines)


def yes(met: bool) -> str:
    return "yes" if met else "**no**"


def mean_error(outcomes: Sequence[Outcome]) -> float:
    """Standard error of the measured accuracies."""
    return float(
        np.mean(
            [
                outcome.truth[name]["stderr"]
                for outcome in outcomes
                for name in ("naive", "debiased")
            ]
        )
    )


def forecast_row(title: str, own: Sequence[Outcome], test: Sequence[Outcome]) -> str:
    cells = []
    for name, sign in (("gain", "+"), ("naive", ""), ("debiased", "")):
        predicted, true, on_test = (
            np.mean(values) for values in zip(*_three(own, test, name), strict=True)
        )
        stderr = np.mean([outcome.forecast[name]["stderr"] for outcome in own])
        cells += [
            f"{predicted:{sign}.1f} ± {stderr:.1f}",
            f"{true:{sign}.1f}",
            f"{on_test:{sign}.1f}",
        ]
    return f"| {title} | {' | '.join(cells)} | {seeds_text(outcome.seed for outcome in own)} |"


def _three(
    own: Sequence[Outcome], test: Sequence[Outcome], name: str
) -> list[tuple[float, float, float]]:
    return [
        (outcome.predicted(name), outcome.true(name), other.true(name))
        for outcome, other in zip(own, test, strict=True)
    ]


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
        "## A small network trained from scratch, by epoch",
        "",
        "The preset `fast` of `unskew.learn.train_model`: accuracy on the test images after every "
        "epoch, worst class in brackets. Weights "
        "in the loss, or by the sampler (systematic: the default for networks). A step of "
        "stochastic gradient descent sees a few images: "
        "one of weight 50 is rare and then dominates the step, while a sampler shows it fifty "
        "times, augmented differently. That does not matter to a probe, whose minimum is "
        "computed, but it does to a network.",
        "",
        "`python benchmarks/learning.py --data FOLDER --part network`",
        "",
    ]
    epochs = sorted({key[3] for key in records})
    lines += [
        f"| setting | weights | seed | {' | '.join(f'epoch {epoch}' for epoch in epochs)} |",
        "|---|---|---|" + "---|" * len(epochs),
    ]
    for setting, seed, arm in dict.fromkeys(key[:3] for key in records):
        own = [records.get((setting, seed, arm, epoch)) for epoch in epochs]
        cells = [
            "" if record is None else f"{record['accuracy']:.1f} ({min(record['by_group']):.0f})"
            for record in own
        ]
        lines.append(f"| {TITLES[setting]} | {arm} | {seed} | {' | '.join(cells)} |")
    return "\n".join(lines)
