"""Draw the tables: how far every arm of every row is from an unbiased sample of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.cifar_data import TITLES
from paper.plotting import COLOURS, new_figure
from paper.table_settings import ARMS, Row
from paper.table_text import Entry

# The arms that are drawn; the chosen family and the product would hide the arms they equal.
_MARKS = {
    "naive": "s",
    "article": "v",
    "as_published": "X",
    "exact": "o",
    "soft_box": "D",
    "product": "P",
    "true": "|",
}
_COLOURS = {**COLOURS, "product": "#009e73"}
_ROW_HEIGHT = 0.27
# Differences up to so many points are on a linear scale, larger ones on a logarithmic one.
_LINEAR = 1.0
_LONG = 55


def draw_entries(entries: Sequence[Entry], rows: Sequence[Row]) -> Any | None:
    """Draw a panel for each data set: test accuracy − fair Ref's, mean and two standard deviations.

    None where no row has a fair Ref.
    """
    value = {
        (entry.dataset, entry.setting, entry.arm): entry.accuracy
        for entry in entries
        if entry.accuracy is not None
    }
    datasets = list(dict.fromkeys(key[0] for key in value if key[2] == "fair_ref"))
    shown = [row for row in rows if any((name, row.key, "fair_ref") in value for name in datasets)]
    if not shown:
        return None
    figure, axes = new_figure(
        1, len(datasets), 3.6 + 3.6 * len(datasets), 1.4 + _ROW_HEIGHT * len(shown), sharey=True
    )
    arms = [arm for arm in _MARKS if any(key[2] == arm for key in value)]
    for axis, name in zip(axes[0], datasets, strict=True):
        for at, row in enumerate(shown):
            _draw_row(
                axis, at, {arm: value.get((name, row.key, arm)) for arm in ("fair_ref", *arms)}
            )
        axis.axvline(0.0, color="#000000", linewidth=0.8)
        axis.set_xscale("symlog", linthresh=_LINEAR, linscale=0.6)
        axis.set_xlim(left=1.2 * axis.get_xlim()[0])
        ticks = [tick for tick in (-50, -20, -10, -5, -2, -1, 0, 1) if tick >= axis.get_xlim()[0]]
        axis.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
        axis.minorticks_off()
        axis.set_title(TITLES.get(name, name))
        axis.set_xlabel("points from an unbiased sample of the same size")
    axes[0, 0].set_yticks(range(len(shown)), [_label(row) for row in shown])
    axes[0, 0].invert_yaxis()
    handles = [
        axes[0, 0].plot([], [], _MARKS[arm], color=_COLOURS[arm], markersize=5, label=ARMS[arm])[0]
        for arm in arms
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _draw_row(axis: Any, at: int, value: dict[str, tuple[float, float | None] | None]) -> None:
    fair = value.pop("fair_ref")
    drawn = {arm: pair for arm, pair in value.items() if pair is not None}
    if fair is None:
        return
    if at % 2:
        axis.axhspan(at - 0.5, at + 0.5, color="#f3f3f3", linewidth=0)
    for order, (arm, (mean, spread)) in enumerate(drawn.items()):
        height = at + 0.6 * ((order + 0.5) / len(drawn) - 0.5)
        axis.plot(
            mean - fair[0],
            height,
            _MARKS[arm],
            color=_COLOURS[arm],
            markersize=7 if arm == "true" else 4,
        )
        if spread:
            axis.plot(
                [mean - fair[0] - spread, mean - fair[0] + spread],
                [height, height],
                color=_COLOURS[arm],
                linewidth=0.8,
            )


def _label(row: Row) -> str:
    """Return a short label with the table's name; rows of the article give γ alone."""
    section = {
        "classes": "classes, ",
        "balanced": "acquisition, ",
        "imbalanced": "acquisition, n_k ∝ 0.75^k, ",
    }.get(row.table, "")
    return (
        (section + row.label).replace("; ", ",\n")
        if len(row.label) > _LONG
        else section + row.label
    )
