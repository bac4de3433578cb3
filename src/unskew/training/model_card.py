"""The model card: what was trained, on what, how good it is, and what it is not for; in
Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.report.page.numbers import show_count, show_number, show_share
from unskew.report.summary.privacy import PRIVACY_RULE
from unskew.training.scores import Scores

if TYPE_CHECKING:
    from unskew.evaluation.bootstrap import MetricValue
    from unskew.evaluation.predictions import Breakdown
    from unskew.report.summary.record import Summary

_SHARES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "worst_class": "worst class",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "calibration_error": "calibration error",
}
_NUMBERS = {"auroc": "AUROC", "log_loss": "log-loss"}
_MOST_ROWS = 50


@dataclass(frozen=True)
class CardFacts:
    """What a card tells beside the metrics.

    Attributes
    ----------
    title : of the run; None without one.
    summary : of the weights, as the page shows it: privacy is taken care of there.
    settings : of the training, by name.
    input : what the model takes, in words.
    classes : names of the classes; None where privacy keeps them.
    images : images of each split, by name; None is withheld.
    parameters : of the network; None where that is not known.
    fingerprints : of data, weights and model.
    arm, sentences : the arm of the model, and what its weights are.
    epoch, epochs : whose weights it has, counted from 1, and how many were trained.
    versions, command : what made it.
    """

    title: str | None
    summary: Summary
    settings: Mapping[str, Any]
    input: str
    classes: Sequence[str] | None
    images: Mapping[str, int | None]
    parameters: int | None
    fingerprints: Mapping[str, str]
    arm: str
    sentences: Sequence[str]
    epoch: int
    epochs: int
    versions: Mapping[str, str]
    command: str


def write_card(facts: CardFacts, scores: Scores) -> str:
    """The card as Markdown. Names come from files and tables of others: nothing in them is read as
    markup.
    """
    parts = [
        *_head(facts, scores),
        *_data(facts),
        *_weights(facts),
        *_metrics(scores),
        *_limits(facts, scores),
        *_origin(facts),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _head(facts: CardFacts, scores: Scores) -> list[str]:
    summary, found = facts.summary, scores.evaluations[scores.main]
    accuracy = scores.accuracy(scores.main)
    worst = scores.worst(scores.main)
    lines = [
        f"# Model card: {safe(facts.title)}" if facts.title else "# Model card",
        "",
        "A classifier trained with one weight for every image, so that it is fitted to "
        f"{safe(summary.verdict.population)}, not to the "
        f"images as they were collected. On held-out images ({safe(found.split)}), weighted to "
        "that population, its accuracy is "
        f"**{_value(accuracy, True)}**.",
    ]
    if worst is not None:
        lines[-1] += f" Worst {safe(worst[0])}: {safe(worst[1].where)}, {_value(worst[1], True)}."
    if scores.part_only:
        lines[-1] += (
            f" **These figures speak of a part of the population only.** {safe(scores.part_only)}"
        )
    classes = (
        "withheld"
        if facts.classes is None
        else f"{len(facts.classes)}: {', '.join(safe(name) for name in facts.classes[:40])}"
    )
    classes += " …" if facts.classes is not None and len(facts.classes) > 40 else ""
    size = "" if facts.parameters is None else f", {facts.parameters:,} parameters"
    rows = [
        ("model", f"{safe(facts.settings['model'])}{size}"),
        ("input", safe(facts.input)),
        ("classes", classes),
        ("preset", safe(facts.settings["preset"])),
        ("epoch", f"{facts.epoch} of {facts.epochs} trained"),
        ("weights enter by", safe(facts.settings["weighting"])),
        ("arm", f"{safe(facts.arm)}: {safe(' '.join(facts.sentences))}"),
        ("seed", str(facts.settings["seed"])),
    ]
    return [*lines, "", *_table(("what", "value"), rows), ""]


def _data(facts: CardFacts) -> list[str]:
    summary = facts.summary
    rows = [
        (
            safe(row.name),
            show_count(row.images),
            show_share(row.share),
            show_share(row.weight_share),
        )
        for row in summary.sources
    ]
    lines = [
        "## Trained on",
        "",
        *_table(("source", "images (train)", "share", "share of the weight"), rows[:_MOST_ROWS]),
        "",
    ]
    lines += _table(
        ("split", "images"),
        [(safe(name), show_count(count)) for name, count in facts.images.items()],
    )
    return [
        *lines,
        "",
        *_table(
            ("fingerprint (SHA-256)", ""),
            [(safe(k), f"`{v}`") for k, v in facts.fingerprints.items()],
        ),
        "",
    ]


def _weights(facts: CardFacts) -> list[str]:
    summary = facts.summary
    lines = ["## Target population, bias model, weights", ""]
    lines += [f"- Target: {safe(line)}" for line in summary.target] or [
        f"- Target: {safe(summary.verdict.population)}"
    ]
    if summary.bias is not None:
        lines += [f"- Bias model: {safe(summary.bias.family)}."]
        lines += [f"- Assumed: {safe(line)}" for line in summary.bias.assumed]
        lines += [f"- Estimated: {safe(line)}" for line in summary.bias.estimated]
        if summary.bias.fit_message:
            lines.append(f"- Fit: {safe(summary.bias.fit_message)}")
    if summary.weights is not None:
        which = "debiasing weights (not those given)" if facts.arm == "given" else "weights"
        lines.append(
            f"- The {which} of the {show_count(summary.weights.images)} training images are worth "
            f"{show_count(summary.weights.ess)} "
            f"equally weighted ones (design effect {show_number(summary.weights.design_effect)})."
        )
    lines.append(f"- Verdict: {safe(summary.verdict.headline)}")
    return [*lines, ""]


def _metrics(scores: Scores) -> list[str]:
    found = scores.evaluations[scores.main]
    level = f"{100 * found.level:g}% interval"
    lines = [
        "## How good it is",
        "",
        f"Held-out split: {safe(found.split)}, {show_count(found.coverage.judged)} images, ",
    ]
    lines[-1] += (
        "weighted to the target; intervals by bootstrap of "
        f"{'groups' if found.overall.groups is not None else 'images'} within sources."
    )
    rows = []
    for name, words in {**_SHARES, **_NUMBERS}.items():
        figure = found.overall.figures.get(name)
        if figure is not None:
            share = name in _SHARES
            label = words if figure.where is None else f"{words} ({safe(figure.where)})"
            rows.append(
                (
                    label,
                    _amount(figure.value, share),
                    _interval(figure, share),
                    _amount(figure.naive, share),
                )
            )
    lines += ["", *_table(("metric", "weighted", level, "unweighted"), rows), ""]
    for part in found.breakdowns:
        lines += _breakdown(part, level)
    return [*lines, *_compared(scores, level)]


def _breakdown(part: Breakdown, level: str) -> list[str]:
    rows = []
    for cell in part.cells[:_MOST_ROWS]:
        figure = cell.figures.get("accuracy")
        value, interval = (
            ("–", "–") if figure is None else (_amount(figure.value, True), _interval(figure, True))
        )
        rows.append(
            (
                safe(cell.name) + (" (few)" if cell.few else ""),
                show_count(cell.images),
                value,
                interval,
            )
        )
    if not rows:
        return []
    column = "class" if part.column in ("y", "label") else safe(part.column)
    lines = [*_table((column, "images", "accuracy", level), rows)]
    if len(part.cells) > _MOST_ROWS:
        lines.append(f"\n… and {len(part.cells) - _MOST_ROWS} more in metrics.json.")
    if part.worst is not None:
        lines.append(f"\nWorst: {safe(part.worst.where)}, {_value(part.worst, True)}.")
    if part.withheld:
        lines.append(f"\n{part.withheld} are withheld.")
    return [*lines, ""]


def _compared(scores: Scores, level: str) -> list[str]:
    if not scores.gains:
        return []
    rows = [(safe(name), _value(scores.accuracy(name), True), "–", "–") for name in (scores.main,)]
    for name, cell in scores.gains.items():
        gap = (cell.difference or {}).get("accuracy")
        shown = ("–", "–") if gap is None else (_points(gap.value), _points_interval(gap))
        rows.append((safe(name), _value(scores.accuracy(name), True), *shown))
    heads = ("arm", "accuracy", f"{safe(scores.main)} − arm, points", level)
    return ["Arms, on the same images:", "", *_table(heads, rows), ""]


def _limits(facts: CardFacts, scores: Scores) -> list[str]:
    summary, found = facts.summary, scores.evaluations[scores.main]
    lines = [
        "## What it is not for",
        "",
        f"- Populations other than {safe(summary.verdict.population)}: the weights, and every "
        "figure above, are for that one.",
        "- All of this is conditional on the bias model. If the sources select by something that "
        "it does not know, the weights are wrong, "
        "and the intervals do not tell: they say how much depends on which images happen to be "
        "there.",
        "- Classes that no image of train shows, or images of weight 0 only, are not learned, and "
        "predictions of them mean nothing. No "
        "figure speaks of images of other kinds than those of the sources.",
    ]
    if facts.epochs > 1 and found.split.strip().lower() not in ("test", "testing"):
        lines.append(
            "- The figures are of the split that also chose the epoch: they flatter it a little. A "
            "test split would not."
        )
    if any(cell.few for part in found.breakdowns for cell in part.cells):
        lines.append(
            f"- Cells marked (few) have fewer than {found.few_effective:g} effective images "
            "(groups): hardly known."
        )
    lines += [f"- {safe(line)}" for line in summary.not_corrected.assumed]
    if summary.privacy == "aggregate":
        lines.append(
            f"- Privacy: {safe(PRIVACY_RULE)} The weights of the model itself may still remember "
            "training images."
        )
    return [*lines, ""]


def _origin(facts: CardFacts) -> list[str]:
    settings = [(safe(name), f"`{value}`") for name, value in facts.settings.items()]
    versions = [(safe(name), safe(value)) for name, value in facts.versions.items()]
    lines = [
        "## How it was made",
        "",
        f"    {' '.join(facts.command.split())}" if facts.command else "",
        "",
    ]
    return [
        *lines,
        *_table(("setting", "value"), settings),
        "",
        *_table(("software", "version"), versions),
        "",
    ]


def safe(text: Any) -> str:
    """Text in which nothing is markup: Markdown's signs are escaped, and what is invisible is
    shown.
    """
    shown = "–" if text is None else str(text)
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in " ".join(shown.split())
    )
    return re.sub(r"([\\`*_\[\]<>|#~!])", r"\\\1", shown)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = "|".join(["", *["---"] * len(heads), ""])
    return [f"| {' | '.join(heads)} |", line, *[f"| {' | '.join(row)} |" for row in rows]]


def _amount(value: float | None, share: bool) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}%" if share else f"{value:.3f}"


def _points(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.1f}"


def _interval(figure: MetricValue, share: bool) -> str:
    if figure.interval is None:
        return "–"
    low, high = (_amount(each, share) for each in figure.interval)
    return f"{low} to {high}"


def _points_interval(figure: MetricValue) -> str:
    return "–" if figure.interval is None else " to ".join(map(_points, figure.interval))


def _value(figure: MetricValue, share: bool) -> str:
    return _amount(figure.value, share) + (
        "" if figure.interval is None else f" ({_interval(figure, share)})"
    )
