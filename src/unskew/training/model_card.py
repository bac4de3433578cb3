"""The model card: what was trained, on what, how good it is, and what it is not for.

The text is in templates/model-card.md.jinja; this file gathers its facts and escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from unskew.evaluation.metric_value import MetricValue
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.plain_json import json_value
from unskew.learn.presets import OF_PROBES
from unskew.report.page.tables import MISSING, show_count, show_number, show_share
from unskew.report.summary.privacy import PRIVACY_RULE
from unskew.training.arm_scores import Scores
from unskew.training.folder import ARMS_FOLDER
from unskew.training.result import (
    LABEL_METRICS,
    Preparation,
    seeds_phrase,
    uses_of_validation,
)

if TYPE_CHECKING:
    from unskew.evaluation.predictions import Evaluation
    from unskew.learn.trained_model import TrainedModel
    from unskew.learn.ways import WayChoice
    from unskew.report.summary.record import Summary
    from unskew.training.inputs import TrainingInputs

LABELS = tuple(LABEL_METRICS.items())
_METRICS = {
    "accuracy": ("accuracy", "percent"),
    "balanced_accuracy": ("balanced accuracy", "percent"),
    "worst_class": ("worst class", "percent"),
    "sensitivity": ("sensitivity", "percent"),
    "specificity": ("specificity", "percent"),
    "calibration_error": ("calibration error", "percent"),
    "auroc": ("AUROC", "decimal"),
    "label_accuracy": ("accuracy, mean of the labels", "percent"),
    "subset_accuracy": ("all labels right", "percent"),
    **{f"macro_{name}": (f"{words}, mean of the labels", "decimal") for name, words in LABELS},
    **{f"micro_{name}": (f"{words}, labels pooled", "decimal") for name, words in LABELS},
    "worst_label": ("worst label's AUROC", "decimal"),
    "log_loss": ("log-loss", "decimal"),
}
_MOST_ROWS, _MOST_CLASSES, _MOST_COLUMNS = 50, 40, 12


@dataclass(frozen=True)
class CardFacts:
    """What a card tells besides the metrics.

    Attributes
    ----------
    title : of the run; None without one.
    summary : of the weights, as the page shows it: private values are withheld there already.
    settings : of the training, by name: those that the model reads.
    input : what the model takes, as a phrase.
    classes : names of the classes; None where privacy withholds them.
    images : images of each split, by name; None is withheld.
    parameters : of the network; None where that is not known.
    fingerprints : of data, weights and model.
    arm, sentences : the arm of the model, and what its weights are.
    epoch, epochs : whose weights it has, counted from 1, and how many were trained.
    versions, command : what made it.
    choice : the way that it was trained in, and why; None where that is not known.
    calibrated : whether the validation images calibrated its probabilities.
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
    choice: WayChoice | None = None
    calibrated: bool = False


def gather_facts(prepared: Preparation, model: TrainedModel) -> CardFacts:
    """Gather what the card says about the model of the main arm."""
    training, summary, arm = prepared.training, prepared.run.summary, prepared.arms[0]
    fingerprints = {**prepared.record["fingerprints"]}
    model_file = prepared.out / ARMS_FOLDER / arm.name / "model.pt"
    if model_file.is_file():
        fingerprints["model"] = fingerprint_file(model_file)
    parameters = 0
    if hasattr(model.network, "parameters"):
        parameters = sum(array.numel() for array in model.network.parameters())
    settings = asdict(prepared.settings)
    if prepared.settings.model == "probe":
        settings = {name: settings[name] for name in OF_PROBES}
    return CardFacts(
        title=training.inputs.config.report.title,
        summary=summary,
        settings=json_value(settings),
        input=_describe_input(training),
        classes=None if summary.privacy == "aggregate" else training.classes,
        images={row.name: row.images for row in summary.splits},
        parameters=parameters or None,
        fingerprints=fingerprints,
        arm=arm.name,
        sentences=arm.sentences,
        epoch=model.epoch + 1,
        epochs=len(model.history),
        versions=find_versions(("torch", "lightning")),
        command=str(summary.provenance.get("command", "")),
        choice=model.choice,
        calibrated=model.calibrated_on_validation,
    )


def _describe_input(training: TrainingInputs) -> str:
    columns, learn = training.columns, training.inputs.config.learn
    if not columns:
        side = training.X.shape[1]
        return f"images as squares of {side} × {side} pixels ({learn.resize})"
    more = " …" if len(columns) > _MOST_COLUMNS else ""
    return f"{len(columns)} numbers: {', '.join(columns[:_MOST_COLUMNS])}{more}"


def render_card(facts: CardFacts, scores: Scores) -> str:
    """Return the card as Markdown.

    Names come from other people's files and tables: everything that the template inserts is
    escaped, so that none of it is read as markup.
    """
    from markupsafe import Markup

    evaluation = scores.evaluations[scores.main]
    card: str = _template().render(
        facts=replace(facts, choice=scores.choices.get(scores.main, facts.choice)),
        summary=facts.summary,
        scores=scores,
        evaluation=evaluation,
        accuracy=scores.accuracy(scores.main),
        worst=scores.worst(scores.main),
        level=f"{100 * evaluation.level:g}% interval",
        metrics=_METRICS,
        label_metrics=LABEL_METRICS,
        kind="decimal" if scores.has_label_sets else "percent",
        unknown=MetricValue(None),
        uses=uses_of_validation(facts.epochs, facts.calibrated),
        any_few=any(cell.few for part in evaluation.breakdowns for cell in part.cells),
        seeds=seeds_phrase(scores.seeds) if len(scores.seeds) > 1 else "",
        difference=partial(_difference_in_cell, scores.metric),
        most_rows=_MOST_ROWS,
        most_classes=_MOST_CLASSES,
        privacy_rule=PRIVACY_RULE,
        command=Markup(" ".join(facts.command.split())),  # an indented block: nothing is markup
    )
    return card.rstrip() + "\n"


def _difference_in_cell(metric: str, pair: Evaluation, column: str, name: str) -> MetricValue:
    """Return the difference of two models' accuracies in one cell."""
    cells = [cell for part in pair.breakdowns if part.column == column for cell in part.cells]
    differences = [cell.difference or {} for cell in cells if cell.name == name]
    return differences[0].get(metric, MetricValue(None)) if differences else MetricValue(None)


@cache
def _template() -> Any:
    import jinja2
    from markupsafe import Markup

    def escape(value: Any) -> Any:
        return value if isinstance(value, Markup) else Markup(escape_markdown(value))

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unskew.training", "templates"),
        # `finalize` comes first, so nothing is left for the HTML escaping; it marks what is safe.
        autoescape=True,
        finalize=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {
        "count": show_count,
        "number": show_number,
        "share": show_share,
        "amount": _show_amount,
        "interval": _show_interval,
        "with_interval": _show_with_interval,
        "code": _show_code,
    }
    for name, show in filters.items():
        environment.filters[name] = lambda *args, show=show: Markup(show(*args))
    return environment.get_template("model-card.md.jinja")


def escape_markdown(text: Any) -> str:
    """Return text in which nothing is markup: Markdown's signs escaped, invisible signs shown."""
    shown = MISSING if text is None else str(text)
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in " ".join(shown.split())
    )
    return re.sub(r"([\\`*_\[\]<>|#~!])", r"\\\1", shown)


def _show_code(text: Any) -> str:
    """Return a code span, in which only backticks and the bars of a table are markup."""
    shown = " ".join(str(text).split()).replace("`", "'").replace("|", r"\|")
    return f"`{shown}`"


def _show_amount(value: float | None, kind: str = "percent") -> str:
    if value is None:
        return MISSING
    if kind == "decimal":
        return f"{value:.3f}"
    if kind == "spread":
        return f"{100 * value:.1f}"
    return f"{100 * value:+.1f}" if kind == "points" else f"{100 * value:.1f}%"


def _show_interval(interval: tuple[float, float] | None, kind: str = "percent") -> str:
    if interval is None:
        return MISSING
    return " to ".join(_show_amount(limit, kind) for limit in interval)


def _show_with_interval(figure: MetricValue, kind: str = "percent") -> str:
    interval = "" if figure.interval is None else f" ({_show_interval(figure.interval, kind)})"
    return _show_amount(figure.value, kind) + interval
