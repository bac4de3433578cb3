"""Figures by row: shares and normalizers of sources, balance of columns, sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.summary.record import BalanceRow, SensitivityRow, SourceRow

# Two-sided 95% of a normal distribution.
_Z = 1.96


def plot_shares(sources: Sequence[SourceRow]) -> svg.Figure:
    """Draw the share of the images and the share of the weight, by source."""
    shares = [share for row in sources for share in (row.share, row.weight_share)]
    scale = svg.Scale(
        0.0, 1.04 * max((share for share in shares if share is not None), default=1.0)
    )
    rows = []
    for row in sources:
        marks = svg.joined_marks((("pool", row.share), ("debiased", row.weight_share)), scale)
        text = f"{tables.show_share(row.share)} → {tables.show_share(row.weight_share)}"
        rows.append(svg.Row(name=row.name, marks=marks, text=text))
    return svg.Figure(
        title="Share of the images, and share of the weight",
        drawing=svg.draw_rows(rows, scale, ticks=svg.share_ticks(scale)),
        label=f"For each of {len(sources)} sources, its share of the images and its share of the "
        "weight after debiasing.",
        table=tables.list_rows(
            "Shares by source",
            sources,
            ("Source", lambda row: tables.name_cell(row.name)),
            ("Share of images", lambda row: tables.share_cell(row.share)),
            ("Share of weight", lambda row: tables.share_cell(row.weight_share)),
        ),
        meaning="A source whose weight falls short of its share holds much of what the target has "
        "little of.",
        keys=(svg.Key("pool", "Share of images"), svg.Key("debiased", "Share of weight")),
    )


def plot_normalizers(sources: Sequence[SourceRow]) -> svg.Figure | None:
    """Draw Ω_k with both 95% intervals, Ω_k exp(±1.96 s), s the standard error of log Ω_k.

    None where no Ω has an error.
    """
    known = [row for row in sources if row.normalizer is not None and row.normalizer > 0]
    if not any(row.stderr or row.stderr_bootstrap for row in known):
        return None
    ends = [
        end
        for row in known
        for end in (
            *_interval(row.normalizer, row.stderr),
            *_interval(row.normalizer, row.stderr_bootstrap),
        )
    ]
    scale = svg.scale_of(ends, log=True)
    rows = [
        svg.Row(row.name, _normalizer_marks(row, scale), tables.show_number(row.normalizer))
        for row in known
    ]
    return svg.Figure(
        title="Average chance of selection (Ω), with 95% intervals",
        drawing=svg.draw_rows(rows, scale),
        label=f"Ω of {len(known)} sources on a logarithmic axis, with two 95% intervals: by a "
        "formula and by the bootstrap.",
        table=_normalizer_table(known),
        meaning="How likely the source is to select an image of the target; only ratios between "
        "sources mean something. Where the two intervals disagree, trust the wider: the formula "
        "misleads when overlap is weak.",
        keys=(
            svg.Key("interval", "By a formula"),
            svg.Key("interval-second", "By drawing the images again (bootstrap)"),
        ),
    )


def _normalizer_marks(row: SourceRow, scale: svg.Scale) -> Markup:
    marks = Markup("")
    for error, y, class_ in (
        (row.stderr, 10, "interval"),
        (row.stderr_bootstrap, 19, "interval second"),
    ):
        if error is not None:
            marks += svg.interval_line(_interval(row.normalizer, error), scale, class_, y)
    return marks + svg.value_mark("debiased", row.normalizer, scale, 10)


def _normalizer_table(sources: Sequence[SourceRow]) -> tables.PageTable:
    return tables.list_rows(
        "Average chance of selection (Ω), and its relative standard errors",
        sources,
        ("Source", lambda row: tables.name_cell(row.name)),
        ("Ω", lambda row: tables.number_cell(row.normalizer)),
        ("Relative error, by a formula", lambda row: tables.error_cell(row.stderr)),
        ("Relative error, by the bootstrap", lambda row: tables.error_cell(row.stderr_bootstrap)),
    )


def _interval(value: float | None, error: float | None) -> tuple[float, float]:
    if value is None:
        return (math.nan, math.nan)
    reach = math.exp(min(_Z * (error or 0.0), 50.0))
    return (value / reach, value * reach)


def sources_table(sources: Sequence[SourceRow], *, groups: bool) -> tables.PageTable:
    """Tabulate all numbers of the sources; those of groups only where there are groups."""
    of_groups: list[tuple[str, Callable[[SourceRow], tables.TableCell]]] = [
        ("Groups", lambda row: tables.count_cell(row.groups)),
        ("Effective groups", lambda row: tables.count_cell(row.ess_groups)),
    ]
    # With the target's masses of the strata every Ω is 1 by definition, without an error.
    known = all(row.normalizer in (None, 1.0) and not row.stderr for row in sources)
    of_normalizers: list[tuple[str, Callable[[SourceRow], tables.TableCell]]] = [
        ("Average chance of selection, Ω", lambda row: tables.number_cell(row.normalizer)),
        ("Error of Ω, formula", lambda row: tables.error_cell(row.stderr)),
        ("Error of Ω, bootstrap", lambda row: tables.error_cell(row.stderr_bootstrap)),
    ]
    return tables.list_rows(
        "The sources",
        sources,
        ("Source", lambda row: tables.name_cell(row.name, 120)),
        ("Images", lambda row: tables.count_cell(row.images)),
        *(of_groups[:1] if groups else ()),
        ("Share of images", lambda row: tables.share_cell(row.share)),
        ("Share of weight", lambda row: tables.share_cell(row.weight_share)),
        *(() if known else of_normalizers),
        ("Effective images", lambda row: tables.count_cell(row.ess)),
        *(of_groups[1:] if groups else ()),
        ("Unreadable", lambda row: tables.count_cell(row.unreadable)),
        ("Copies", lambda row: tables.count_cell(row.copies)),
    ).without_empty()


# A standardised difference below this is commonly taken as negligible (Austin 2009, Statistics in
# Medicine 28:3083).
NEGLIGIBLE = 0.1


def plot_balance(rows: Sequence[BalanceRow], title: str, meaning: str) -> svg.Figure:
    """Draw the love plot: standardised differences from the target, largest first."""
    ordered = sorted(rows, key=lambda row: -max(abs(row.before or 0.0), abs(row.after or 0.0)))
    scale = svg.scale_of(
        [value for row in ordered for value in (row.before, row.after)],
        symmetric=True,
        include=(-0.15, 0.15),
    )
    drawn = []
    for row in ordered:
        marks = svg.joined_marks((("pool", row.before), ("debiased", row.after)), scale)
        text = f"{_hundredths(row.before)} → {_hundredths(row.after)}"
        drawn.append(svg.Row(name=balance_name(row), marks=marks, text=text))
    return svg.Figure(
        title=title,
        drawing=svg.draw_rows(drawn, scale, guides=(-NEGLIGIBLE, 0.0, NEGLIGIBLE)),
        label="Standardised difference from the target before and after weighting, for "
        f"{len(rows)} columns or levels.",
        table=tables.list_rows(
            title,
            ordered,
            ("Column", lambda row: tables.name_cell(balance_name(row))),
            ("Pool", lambda row: _mean_cell(row, row.pool)),
            ("Debiased", lambda row: _mean_cell(row, row.weighted)),
            ("Target", lambda row: _mean_cell(row, row.target)),
            ("Difference before", lambda row: tables.signed_cell(row.before)),
            ("Difference after", lambda row: tables.signed_cell(row.after)),
            note="Levels: share of the images; numbers: their mean. Differences are in standard "
            "deviations of the pool.",
        ),
        meaning=meaning,
        keys=(
            svg.Key("pool", "Before: pool as collected"),
            svg.Key("debiased", "After: debiased"),
            svg.Key("guide", "0, and ±0.1 (negligible)"),
        ),
    )


def plot_moves(rows: Sequence[BalanceRow], title: str, meaning: str) -> svg.Figure:
    """Draw how far weighting moved columns without a known target, in standard deviations."""
    ordered = sorted(rows, key=lambda row: -abs(row.after or 0.0))
    scale = svg.scale_of([row.after for row in ordered], symmetric=True, include=(-0.15, 0.15))
    drawn = []
    for row in ordered:
        line = svg.interval_line((0.0, row.after), scale, "move")
        marks = line + svg.value_mark("debiased", row.after, scale)
        drawn.append(svg.Row(balance_name(row), marks, _hundredths(row.after)))
    return svg.Figure(
        title=title,
        drawing=svg.draw_rows(drawn, scale, guides=(-NEGLIGIBLE, 0.0, NEGLIGIBLE)),
        label=f"Change under weighting of {len(rows)} columns or levels outside the target, in "
        "standard deviations of the pool.",
        table=tables.list_rows(
            title,
            ordered,
            ("Column", lambda row: tables.name_cell(balance_name(row))),
            ("Pool", lambda row: _mean_cell(row, row.pool)),
            ("Debiased", lambda row: _mean_cell(row, row.weighted)),
            ("Change, in standard deviations", lambda row: tables.signed_cell(row.after)),
        ),
        meaning=meaning,
        keys=(
            svg.Key("debiased", "Change under weighting"),
            svg.Key("guide", "0, and ±0.1 (small)"),
        ),
    )


def balance_name(row: BalanceRow) -> str:
    """Return ``species = fox``, or the column's name alone."""
    return row.column if row.level is None else f"{row.column} = {row.level}"


def _mean_cell(row: BalanceRow, value: float | None) -> tables.TableCell:
    return tables.number_cell(value) if row.level is None else tables.share_cell(value)


def _hundredths(value: float | None) -> str:
    """Show a standardised difference to the precision that matters."""
    if value is None:
        return tables.MISSING
    return f"{value:+.2f}".replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")


_MOST_OUTCOMES = 12


def plot_sensitivity(rows: Sequence[SensitivityRow]) -> svg.Figure:
    """Draw the range of target means if selection differs from the model by a hidden factor."""
    outcomes = list(dict.fromkeys(row.outcome for row in rows))
    drawn = [
        svg.tag("p", svg.tag("bdi", tables.shorten(outcome, 90)), class_="outcome")
        + _draw_ranges([row for row in rows if row.outcome == outcome])
        for outcome in outcomes[:_MOST_OUTCOMES]
    ]
    scopes = "; ".join(dict.fromkeys(row.scope for row in rows if row.scope))
    return svg.Figure(
        title="If selection differs from the model by a hidden factor",
        drawing=svg.join(drawn),
        label=f"Range of {len(outcomes)} target means when a hidden selection factor may vary.",
        table=_range_table(rows),
        meaning="No data can show how likely all sources together are to miss a kind of image. If "
        f"that chance varied within the factor{f' ({scopes})' if scopes else ''}, the estimate "
        "could be anywhere in the range; a conclusion that holds across it does not depend on the "
        "assumption.",
        keys=(
            svg.Key("debiased", "Estimate"),
            svg.Key("interval", "Range"),
            svg.Key("interval-second", "Range with sampling error (95%)"),
        ),
    )


def _range_table(rows: Sequence[SensitivityRow]) -> tables.PageTable:
    return tables.list_rows(
        "Sensitivity of target means",
        rows,
        ("Outcome", lambda row: tables.name_cell(row.outcome)),
        ("Factor", lambda row: tables.number_cell(row.factor)),
        (tables.words("Varies"), lambda row: tables.TableCell(row.scope or tables.MISSING)),
        ("Estimate", lambda row: tables.number_cell(row.value)),
        ("Lowest", lambda row: tables.number_cell(row.low)),
        ("Highest", lambda row: tables.number_cell(row.high)),
        ("Interval from", lambda row: tables.number_cell(row.interval[0])),
        ("Interval to", lambda row: tables.number_cell(row.interval[1])),
    ).without_empty()


def _draw_ranges(rows: Sequence[SensitivityRow]) -> Markup:
    scale = svg.scale_of(
        [value for row in rows for value in (row.value, row.low, row.high, *row.interval)]
    )
    drawn = []
    for row in rows:
        marks = svg.interval_line((row.low, row.high), scale, "interval", 10)
        marks += svg.interval_line(row.interval, scale, "interval second", 19)
        marks += svg.value_mark("debiased", row.value, scale, 10)
        text = f"{tables.show_number(row.low)} to {tables.show_number(row.high)}"
        drawn.append(
            svg.Row(name=f"factor {tables.show_number(row.factor)}", marks=marks, text=text)
        )
    return svg.draw_rows(drawn, scale)
