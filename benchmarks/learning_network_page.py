"""docs/ways-networks.md from the results of networks, and of forecasts, that are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from learning_came_true import network_forecast_section
from learning_page import TITLES, lead, means, measured_facts, spread_text
from learning_results import Key, Record, by_seed, seeds_text
from solver_table import write_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ways-networks.md"


def write_network_page(path: Path = PAGE, folder: Path | None = None) -> None:
    """Write the page from the results in ``folder``; default: those of the checkout."""
    from learning import RESULTS, results_of

    network, forecast = (
        results_of(part, folder or RESULTS).read() for part in ("network", "forecast")
    )
    parts = [
        header(network, forecast),
        network_section(network),
        network_forecast_section(forecast, network, TITLES),
    ]
    write_page(path, "\n\n".join(part for part in parts if part) + "\n")


def header(network: Mapping[Key, Record], forecast: Mapping[Key, Record]) -> str:
    return f"""# Ways to learn: networks trained from scratch

**{network_verdict(network)}**

Written by `python benchmarks/learning.py --part page` from results of
`python benchmarks/learning.py --data FOLDER --part network`; do not edit by hand. Probes of a
pretrained network, with every recipe, are on [another page](ways-performance.md).

{measured_facts((network, forecast))}"""


def network_verdict(records: Mapping[Key, Record]) -> str:
    """How `auto` compares with the best other arm of each setting that a network was trained on."""
    leads = {}
    for setting in dict.fromkeys(key[0] for key in records):
        own = by_seed(records, setting, "auto")
        arms = {key[2] for key in records if key[0] == setting} - {"auto"}
        others = [
            lead(own, by_seed(records, setting, arm), lambda record: record["accuracy"])
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
        accuracy, worst, error = means(own)
        gain_s = lead(own, naive, lambda record: record["accuracy"])
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
