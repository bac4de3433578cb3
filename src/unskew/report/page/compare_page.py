"""The page of `unskew compare`: two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unskew.report.page import plots_rows, plots_weights, svg, tables
from unskew.report.page.html import render_template
from unskew.report.page.plots_forecast import show_error, show_points
from unskew.report.summary.record import BalanceRow, Summary

_MOST_ROWS = 60
Changed = Sequence[tuple[str, str | None, str | None]]


@dataclass(frozen=True)
class WeightAgreement:
    """How far the weights of two runs agree, over the images that both weighed.

    ``distance``: total variation ½ Σ |π_a − π_b|, the share of the weight that moved;
    ``rank_correlation``: of Spearman; None where a run gives all images one weight.
    """

    images: int
    only_first: int
    only_second: int
    distance: float | None
    rank_correlation: float | None


def render_comparison(
    names: tuple[str, str],
    summaries: tuple[Summary, Summary],
    settings: Changed,
    weights: WeightAgreement | None,
) -> str:
    """Return the page: one HTML document that requests nothing; names are escaped."""
    shares = _plot_pairs(
        "Share of the weight by source",
        [[(row.name, row.weight_share) for row in summary.sources] for summary in summaries],
    )
    return render_template(
        "compare.html",
        runs=list(zip("AB", names, summaries, strict=True)),
        figures=_figures(summaries),
        settings=_settings(settings),
        weights=weights,
        histograms=[
            None if one.weights is None else plots_weights.plot_histogram(one.weights)
            for one in summaries
        ],
        shares=shares,
        balance=_plot_balance([one.balance for one in summaries]),
        forecast=_forecast(summaries),
    )


def _figures(summaries: Sequence[Summary]) -> tables.PageTable:
    values = [dict(summary.verdict.figures) for summary in summaries]
    rows = [
        [
            tables.name_cell(name),
            *(tables.TableCell(one.get(name, tables.MISSING)) for one in values),
        ]
        for name in dict.fromkeys([*values[0], *values[1]])
    ]
    return tables.table("Key numbers", ("", "A", "B"), rows)


def _settings(settings: Changed) -> tables.PageTable:
    rows = [
        [tables.name_cell(key), *(tables.TableCell(_setting(value)) for value in values)]
        for key, *values in settings
    ]
    wide = tables.words("A", wide=True), tables.words("B", wide=True)
    return tables.table("What changed in the settings", ("Setting", *wide), rows)


def _setting(value: str | None) -> str:
    return "(not set)" if value is None else tables.shorten(value, 200)


def _plot_pairs(
    title: str, values: Sequence[Sequence[tuple[str, float | None]]]
) -> svg.Figure | None:
    """Draw one line for each name, with the value of either run."""
    a, b = (dict(one) for one in values)
    names = list(dict.fromkeys([*a, *b]))[:_MOST_ROWS]
    if not names:
        return None
    known = [value for one in (a, b) for value in one.values() if value is not None]
    scale = svg.Scale(0.0, 1.04 * max(known, default=1.0))
    rows = [
        svg.Row(
            name,
            svg.joined_marks((("baseline", a.get(name)), ("debiased", b.get(name))), scale),
            f"{tables.show_share(a.get(name))} → {tables.show_share(b.get(name))}",
        )
        for name in names
    ]
    return svg.Figure(
        title=title,
        drawing=svg.draw_rows(rows, scale, ticks=svg.share_ticks(scale)),
        label=f"{title} in run A and in run B.",
        table=tables.list_rows(
            title,
            names,
            ("Name", tables.name_cell),
            ("A", lambda name: tables.share_cell(a.get(name))),
            ("B", lambda name: tables.share_cell(b.get(name))),
        ),
        keys=(svg.Key("baseline", "A"), svg.Key("debiased", "B")),
    )


def _plot_balance(balances: Sequence[Sequence[BalanceRow]]) -> svg.Figure | None:
    """Draw one love plot: each column before weighting, after A and after B."""
    a, b = ({plots_rows.balance_name(row): row for row in rows} for rows in balances)
    names = [name for name in dict.fromkeys([*a, *b]) if _is_known(a.get(name), b.get(name))]

    def differences(name: str) -> list[float | None]:
        before = next((one[name].before for one in (a, b) if name in one), None)
        return [before, *(one[name].after if name in one else None for one in (a, b))]

    names.sort(key=lambda name: -max(abs(value or 0.0) for value in differences(name)))
    names = names[:_MOST_ROWS]
    if not names:
        return None
    values = {name: differences(name) for name in names}
    scale = svg.scale_of(
        [value for three in values.values() for value in three],
        symmetric=True,
        include=(-0.15, 0.15),
    )
    marks = ("pool", "baseline", "debiased")
    rows = [
        svg.Row(
            name,
            svg.joined_marks(zip(marks, three, strict=True), scale),
            " → ".join(tables.show_signed(value, 2) for value in three[1:]),
        )
        for name, three in values.items()
    ]
    headings = ("Before", "After A", "After B")
    return svg.Figure(
        title="Difference from the target",
        drawing=svg.draw_rows(rows, scale, guides=(-0.1, 0.0, 0.1)),
        label="Standardised difference from the target before weighting, after A and after B.",
        table=tables.table(
            "Difference from the target",
            ("Column", *headings),
            [[tables.name_cell(name), *map(tables.signed_cell, values[name])] for name in names],
            note="In standard deviations of the pool. Before: the pool of A against the target of "
            "A. Where B has another target, After B is against that one.",
        ),
        keys=tuple(svg.Key(mark, text) for mark, text in zip(marks, headings, strict=True)),
    )


def _is_known(*rows: BalanceRow | None) -> bool:
    return any(row is not None and row.target is not None for row in rows)


def _forecast(summaries: Sequence[Summary]) -> tables.PageTable | None:
    """Tabulate the forecasts, where a run has one."""
    panels = [summary.forecast for summary in summaries]
    if all(panel is None for panel in panels):
        return None
    arms = [{} if panel is None else {arm.name: arm for arm in panel.arms} for panel in panels]
    rows = []
    for name in dict.fromkeys([*arms[0], *arms[1]]):
        cells = [tables.name_cell(name)]
        for one in arms:
            arm = one.get(name)
            cells.append(
                tables.TableCell(tables.MISSING)
                if arm is None
                else tables.TableCell(show_error(arm.accuracy, arm.stderr), arm.accuracy)
            )
            gain = None if arm is None else arm.gain
            cells.append(tables.TableCell(show_points(gain, signed=True), gain))
        rows.append(cells)
    columns = ("Arm", "Accuracy A", "Gain A", "Accuracy B", "Gain B")
    return tables.table("Forecasts, in points", columns, rows)
