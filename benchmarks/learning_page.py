"""docs/learning-performance.md from the results that are there."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learning_bars import BARS, Key, Outcome, Summary, forecast_bars, met, pair_up, summarize
from learning_results import Record
from solver_table import machine_facts, write_page

from paper.settings import ARTICLE, BEYOND

PAGE = Path(__file__).resolve().parents[1] / "docs" / "learning-performance.md"
TITLES = {setting.key: setting.title for setting in (*BEYOND, *ARTICLE)}
BASELINE_ARMS = ("class_balanced", "logit_adjustment", "subsample", "one_source", "density_ratio")


def write_learning_page(cache: Path, path: Path = PAGE) -> None:
    from learning import results_of

    results = {
        part: results_of(part, cache).read()
        for part in ("probe", "samplers", "curve", "forecast", "truth", "network")
    }
    probes = {key: record for key, record in results["probe"].items() if key[2] != "all"}
    parts = [
        header(results),
        probe_section(probes),
        sampler_section(results["samplers"]),
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
    return f"""# What weights bring on real images

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
of the training images, each divided by the fourth root of its variance; multinomial logistic
regression weighted by the image weights, ridge 0.003 (`unskew.learn.probe.fit_probe`).

Arms: **reference**, an unbiased sample of the same size, drawn with replacement; **naive**, all
images alike; **debiased**, the weights of `unskew.debias` with the family that a user who knows the
setting would choose (`Strata("label")` with the target's margin; for the background a `Tilt` on
either side of the median and a `Box`, with the unbiased source as the target); **oracle**, the
weights of the true ω. ± is the standard deviation over seeds, each of which draws all sources
again."""


def probe_section(probes: Mapping[Key, Record]) -> str:
    lines = [
        "## Settings where weights matter",
        "",
        "The figures asked for are those of a trial; met: the mean, as printed, reaches them.",
        "",
        "`python benchmarks/learning.py --data FOLDER --part probe`",
        "",
        "| setting | arm | accuracy | asked for | met | worst group | asked for | met | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for setting in (row.key for row in BEYOND):
        for arm in ("reference", "naive", "debiased", "box", "oracle", *BASELINE_ARMS):
            summary = summarize(probes, setting, arm)
            if summary is not None:
                lines.append(probe_row(setting, arm, summary))
    lines += [
        "",
        "The worst group is the class with the lowest accuracy; for the background the worst of "
        "animal or vehicle × dark or bright. "
        f"Naive has no bar. Baselines: `unskew.learn.make_baseline`. {better_baselines(probes)}",
        "",
        "The article's own settings, for the forecasts below:",
        "",
        "| setting | naive | debiased | difference | seeds |",
        "|---|---|---|---|---|",
    ]
    for setting in (row.key for row in ARTICLE):
        naive, debiased = (summarize(probes, setting, arm) for arm in ("naive", "debiased"))
        if naive is not None and debiased is not None:
            lines.append(
                f"| {TITLES[setting]} | {points(naive)} | {points(debiased)} | "
                f"{debiased.accuracy - naive.accuracy:+.2f} "
                f"| {seeds_text(debiased.seeds)} |"
            )
    return "\n".join(lines)


def better_baselines(probes: Mapping[Key, Record]) -> str:
    """Where a baseline beats the debiasing weights by more than their differences between seeds, in
    a sentence.
    """
    lines = []
    for setting in (row.key for row in BEYOND):
        debiased = summarize(probes, setting, "debiased")
        for arm in BASELINE_ARMS:
            other = summarize(probes, setting, arm)
            if (
                debiased
                and other
                and other.accuracy - debiased.accuracy
                > max(0.2, debiased.accuracy_sd, other.accuracy_sd)
            ):
                lines.append(
                    f"{arm} by {other.accuracy - debiased.accuracy:.1f} ({TITLES[setting]})"
                )
    if not lines:
        return "None of them beats the debiasing weights."
    return (
        f"Better than the debiasing weights: {'; '.join(lines)}. Where sources differ in the "
        "shares of classes alone, all images may keep "
        "their full weight and only the logits be shifted, which costs no effective images; where "
        "images of a class differ, too, that does "
        "nothing."
    )


def probe_row(setting: str, arm: str, summary: Summary) -> str:
    accuracy_bar, worst_bar = BARS.get(setting, {}).get(arm, (None, None))
    cells = [
        TITLES[setting],
        arm,
        points(summary),
        bar_text(accuracy_bar, 1),
        met_text(summary.accuracy, accuracy_bar, arm, 1),
        f"{summary.worst:.0f} ± {summary.worst_sd:.0f}",
        bar_text(worst_bar, 0),
        met_text(summary.worst, worst_bar, arm, 0),
        seeds_text(summary.seeds),
    ]
    return f"| {' | '.join(cells)} |"


def points(summary: Summary) -> str:
    return f"{summary.accuracy:.1f} ± {summary.accuracy_sd:.1f}"


def bar_text(bar: float | None, digits: int) -> str:
    return "" if bar is None else f"{bar:.{digits}f}"


def met_text(value: float, bar: float | None, arm: str, digits: int) -> str:
    if bar is None or arm == "naive":
        return ""
    return "yes" if met(value, bar, digits) else "**no**"


def seeds_text(seeds: Iterable[int]) -> str:
    ordered = sorted(seeds)
    run = ordered == list(range(ordered[0], ordered[-1] + 1)) and len(ordered) > 2
    return f"{ordered[0]}–{ordered[-1]}" if run else ", ".join(map(str, ordered))


def sampler_section(records: Mapping[Key, Record]) -> str:
    if not records:
        return ""
    lines = [
        "## Weights in the loss, or by resampling",
        "",
        "The probe with the debiasing weights in its loss, or trained unweighted on one resample "
        "of the pool's size (two of each kind).",
        "",
        "`python benchmarks/learning.py --data FOLDER --part samplers`",
        "",
        "| setting | loss | systematic resample | multinomial resample | systematic − loss | "
        "multinomial − loss | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting in dict.fromkeys(key[0] for key in records):
        by_arm = {
            kind: by_seed(records, setting, kind) for kind in ("loss", "systematic", "multinomial")
        }
        seeds = sorted(set.intersection(*(set(values) for values in by_arm.values())))
        if seeds:
            value = {kind: np.array([by_arm[kind][seed] for seed in seeds]) for kind in by_arm}
            cells = [f"{values.mean():.2f}" for values in value.values()]
            cells += [
                spread_text(value[kind] - value["loss"]) for kind in ("systematic", "multinomial")
            ]
            lines.append(f"| {TITLES[setting]} | {' | '.join(cells)} | {seeds_text(seeds)} |")
    return "\n".join([*lines, "", "± is the standard error over seeds of the paired difference."])


def by_seed(records: Mapping[Key, Record], setting: str, kind: str) -> dict[int, float]:
    """Mean accuracy of the arms of that kind, seed by seed."""
    by_seed: dict[int, list[float]] = {}
    for (own, seed, arm), record in records.items():
        if own == setting and arm.split()[0] == kind:
            by_seed.setdefault(seed, []).append(record["accuracy"])
    return {seed: float(np.mean(values)) for seed, values in by_seed.items()}


def spread_text(value_s: Any) -> str:
    error = value_s.std(ddof=1) / np.sqrt(value_s.size) if value_s.size > 1 else float("nan")
    return f"{value_s.mean():+.2f} ± {error:.2f}"


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
