"""Records as HTML in a notebook: the verdict and one or two figures of the page, at most 100 KB.

Names are escaped as on the page. The page's style holds within the card only (``@scope``); where a
viewer removes styles, the text remains.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.report.page import plots_forecast, plots_overlap, plots_rows, plots_weights, svg, tables
from unskew.report.page.html import render_template
from unskew.report.summary.columns import bin_codes, round_edges
from unskew.report.summary.forecast_panel import show_forecast
from unskew.report.summary.record import Histogram, SourceRow, WeightsPanel
from unskew.report.summary.weights_panel import show_overlap

if TYPE_CHECKING:
    import pandas as pd

    from unskew.records import Overlap, Pool, Target, Weights

LARGEST_CARD = 100_000
_MOST_ROWS = 30
_LEVELS = {"ok": "ok", "weak": "weak", "disconnected": "no"}


@dataclass(frozen=True)
class CardTable:
    """A few rows of text."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Card:
    """What a notebook shows of a record. ``level``: ok, weak, no, or nothing to judge."""

    headline: str
    sentences: tuple[str, ...] = ()
    level: str = ""
    figures: tuple[svg.Figure, ...] = ()
    table: CardTable | None = None


def render_notebook(card: Card) -> str:
    """Return the HTML of a card; what would make it too large is left out, the last first."""
    while True:
        text = render_template("notebook.html", card=card, figures=card.figures, table=card.table)
        # A notebook is no document: what names the root of the page names the card.
        text = re.sub(r":root\b", ":scope", text)
        if len(text.encode()) <= LARGEST_CARD:
            return text
        if card.figures:
            card = replace(card, figures=card.figures[:-1])
        elif card.table is not None:
            card = replace(card, table=None)
        else:
            card = Card(tables.shorten(card.headline, 500), level=card.level)


class InlinePage:
    """A whole page in a frame of the notebook; ``html`` is the page."""

    def __init__(self, page: str, height: int = 800) -> None:
        self.html, self.height = page, height

    def __repr__(self) -> str:
        return f"InlinePage of {len(self.html):,} characters; open it in a notebook."

    def _repr_html_(self) -> str:
        # The page's own policy forbids requests; the frame forbids the rest.
        return (
            f'<iframe sandbox="allow-scripts" style="width: 100%; height: {self.height}px; '
            f'border: 1px solid #8b9097" srcdoc="{html.escape(self.html, quote=True)}"></iframe>'
        )


def weights_html(weights: Weights) -> str:
    """Show how the weights spread, and which sources they favour."""
    n, ess = weights.weight.size, weights.ess
    first, *others = str(weights).split("\n")
    figures = (
        plots_weights.plot_histogram(_weights_panel(weights)),
        plots_rows.plot_shares(_source_rows(weights)),
    )
    return render_notebook(
        Card(
            f"{first}. As informative as {ess:,.0f} images of the target ({ess / n:.0%}).",
            (weights.overlap.message, *others[-1:]),
            _LEVELS[weights.overlap.verdict],
            tuple(figure for figure in figures if figure is not None),
        )
    )


def _weights_panel(weights: Weights) -> WeightsPanel:
    weight_n = weights.sample_weight
    log_m = np.log10(weight_n[weight_n > 0])
    edges = round_edges(log_m, 0, _MOST_ROWS)
    count = np.bincount(bin_codes(log_m, edges), minlength=max(len(edges) - 1, 0))
    nothing: dict[str, Any] = dict.fromkeys(
        ("groups", "ess", "ess_groups", "design_effect", "pareto_k")
    )
    nothing |= dict.fromkeys(("pareto_k_threshold", "largest_sample_weight", "top_percent_share"))
    return WeightsPanel(
        images=weight_n.size,
        zero_weights=int(weight_n.size - log_m.size),
        histogram=Histogram(edges, tuple(count.tolist())),
        quantiles={},
        concentration=(),
        by_source=(),
        by_label=(),
        **nothing,
    )


def _source_rows(weights: Weights) -> list[SourceRow]:
    size_k = np.bincount(weights.source, minlength=len(weights.names))
    mass_k = np.bincount(weights.source, weights=weights.weight, minlength=len(weights.names))
    nothing = dict.fromkeys(("groups", "normalizer", "stderr", "stderr_bootstrap", "ess"))
    nothing |= dict.fromkeys(("ess_groups", "unreadable", "copies"))
    return [
        SourceRow(
            name=weights.names[k],
            images=int(size_k[k]),
            share=float(size_k[k] / weights.weight.size),
            weight_share=float(mass_k[k]),
            **nothing,
        )
        for k in np.argsort(-size_k, kind="stable")[:_MOST_ROWS]
    ]


def overlap_html(overlap: Overlap) -> str:
    """Show whether the sources are linked, and how much each pair has in common."""
    size_k = np.ones(len(overlap.names))
    panel, note = show_overlap(overlap, 0, size_k, np.zeros(size_k.size, dtype=np.bool_), False)
    figure = plots_overlap.plot_heat(panel)
    return render_notebook(
        Card(
            f"Overlap of {len(overlap.names)} sources: {overlap.verdict}",
            tuple(text for text in (overlap.message, note) if text),
            _LEVELS[overlap.verdict],
            () if figure is None else (figure,),
        )
    )


def pool_html(pool: Pool) -> str:
    """Show the sources with their images, and the classes of each."""
    frame = pool.frame
    has_classes = "label" in frame.columns and not frame["label"].map(_is_several).any()
    rows = []
    for name, size in zip(pool.names, pool.sizes, strict=True):
        cells: tuple[str, ...] = (name, f"{int(size):,}", f"{size / len(frame):.1%}")
        if has_classes:
            label = frame["label"][(frame["source"] == name).to_numpy()]
            counts = label.value_counts().head(5)
            cells += (", ".join(f"{level} {count:,}" for level, count in counts.items()),)
        rows.append(cells)
    names = ("source", "images", "share", *(("most frequent labels",) if has_classes else ()))
    table = CardTable(names, tuple(rows[:_MOST_ROWS]), max(len(rows) - _MOST_ROWS, 0))
    pixels = "with pixels" if pool.images is not None else "a table without pixels"
    headline = f"{len(frame):,} images from {len(pool.names):,} sources, {pixels}"
    columns = f"Columns: {', '.join(map(str, frame.columns[:60]))}"
    return render_notebook(Card(headline, (tables.shorten(columns, 500),), table=table))


def _is_several(label: Any) -> bool:
    return isinstance(label, list | tuple | np.ndarray)


def target_html(target: Target) -> str:
    """Show what is known of the population."""
    headline, *sentences = target.describe()
    rows = [
        (" × ".join(map(str, cell)), mass)
        for fact in target.facts
        for cell, mass in zip(fact.cells, fact.mass, strict=True)
    ]
    scale = svg.Scale(0.0, 1.04 * max((mass for _, mass in rows), default=1.0))
    figure = svg.Figure(
        title="Shares of the target",
        drawing=svg.draw_rows(
            [
                svg.Row(name, svg.value_mark("target", mass, scale), tables.show_share(mass))
                for name, mass in rows[:_MOST_ROWS]
            ],
            scale,
            ticks=svg.share_ticks(scale),
        ),
        label=f"Shares of {len(rows)} levels or cells.",
        table=tables.list_rows("Shares", rows, ("Level", lambda row: tables.name_cell(row[0]))),
    )
    return render_notebook(Card(headline, tuple(sentences), figures=(figure,) if rows else ()))


def forecast_html(forecast: Any) -> str:
    """Show what reweighting is expected to bring: accuracies, and gains."""
    asked: dict[str, Any] = {"asked": [], "asked_way": None, "learner_reference": None}
    panel = show_forecast({**forecast.to_dict(), **asked})
    figures = (plots_forecast.plot_arms(panel), plots_forecast.plot_gains(panel))
    level = {"reweight": "ok", "unclear": "weak"}.get(forecast.verdict, "")
    return render_notebook(
        Card(
            f"Forecast: {forecast.verdict}",
            (panel.recommendation, panel.condition, *filter(None, (panel.objection,))),
            level,
            tuple(figure for figure in figures if figure is not None),
        )
    )


def choice_html(choice: Any) -> str:
    """Show the candidates, and why one of them was chosen."""
    headline = "No bias model can be used" if choice.best is None else f"Chosen: {choice.name}"
    columns = [name for name in choice.table.columns if choice.table[name].notna().any()]
    return render_notebook(
        Card(
            headline,
            (choice.reason, *choice.notes),
            "no" if choice.best is None else "weak" if choice.undecided else "ok",
            table=frame_table(choice.table[columns], choice.table.index.name or "candidate"),
        )
    )


def rehearsal_html(rehearsal: Any) -> str:
    """Show predicted and true accuracy of each source."""
    level = {"transfers": "ok", "does not transfer": "no"}.get(rehearsal.verdict, "weak")
    table = frame_table(rehearsal.table(), None)
    return render_notebook(
        Card(f"Rehearsal: {rehearsal.verdict}", (rehearsal.message,), level, table=table)
    )


def frame_table(frame: pd.DataFrame, index: str | None) -> CardTable:
    """Return the first rows of a table as text; ``index``: the name of its rows, if shown."""
    rows = [
        (*(() if index is None else (str(name),)), *map(_cell, row))
        for name, *row in frame.head(_MOST_ROWS).itertuples(name=None)
    ]
    names = (*(() if index is None else (index,)), *map(str, frame.columns))
    return CardTable(names, tuple(rows), max(len(frame) - _MOST_ROWS, 0))


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return tables.show_number(float(value))
    return tables.MISSING if value is None else str(value)
