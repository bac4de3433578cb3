"""The sources: shares of images and weight, normalizers, and the table of all their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.figures import (
    Figure,
    Key,
    Row,
    draw_rows,
    joined_marks,
    share_ticks,
    span_line,
)
from unskew.report.page.numbers import show_number, show_share
from unskew.report.page.svg import Scale, mark, scale_of
from unskew.report.page.tables import (
    PageTable,
    TableCell,
    count_cell,
    error_cell,
    name_cell,
    number_cell,
    share_cell,
    table,
)
from unskew.report.summary.record import SourceRow

# Two-sided 95% of a normal distribution.
_Z = 1.96


def plot_shares(sources: Sequence[SourceRow]) -> Figure:
    """Draw the share of the images and the share of the weight, by source."""
    shares = [share for row in sources for share in (row.share, row.weight_share)]
    scale = Scale(0.0, 1.04 * max((share for share in shares if share is not None), default=1.0))
    rows = []
    for row in sources:
        marks = joined_marks((("pool", row.share), ("debiased", row.weight_share)), scale)
        text = f"{show_share(row.share)} → {show_share(row.weight_share)}"
        rows.append(Row(name=row.name, marks=marks, text=text))
    return Figure(
        title="Share of the images, and share of the weight",
        drawing=draw_rows(rows, scale, ticks=share_ticks(scale)),
        label=f"For each of {len(sources)} sources, its share of the images and its share of the "
        "weight after debiasing.",
        table=table(
            "Shares by source",
            ("Source", "Share of images", "Share of weight"),
            (
                [name_cell(row.name), share_cell(row.share), share_cell(row.weight_share)]
                for row in sources
            ),
        ),
        meaning="A source whose weight falls short of its share holds much of what the target has "
        "little of.",
        keys=(Key("pool", "Share of images"), Key("debiased", "Share of weight")),
    )


def plot_normalizers(sources: Sequence[SourceRow]) -> Figure | None:
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
    scale = scale_of(ends, log=True)
    rows = [
        Row(row.name, _normalizer_marks(row, scale), show_number(row.normalizer)) for row in known
    ]
    return Figure(
        title="Normalizers Ω with 95% intervals",
        drawing=draw_rows(rows, scale),
        label=f"Normalizers of {len(known)} sources on a logarithmic axis, with asymptotic and "
        "bootstrap 95% intervals.",
        table=_normalizer_table(known),
        meaning="Ω is the average chance, up to scale, that the source selects an image of the "
        "target. Where the two intervals "
        "disagree, trust the wider: the asymptotic one misleads when overlap is weak.",
        keys=(Key("interval", "Asymptotic"), Key("interval-second", "Bootstrap")),
    )


def _normalizer_marks(row: SourceRow, scale: Scale) -> Markup:
    assert row.normalizer is not None
    marks = Markup("")
    for error, y, class_ in (
        (row.stderr, 10, "interval"),
        (row.stderr_bootstrap, 19, "interval second"),
    ):
        if error is not None:
            low, high = (scale.at(end) for end in _interval(row.normalizer, error))
            marks += span_line(low, high, y, class_)
    return marks + mark("debiased", scale.at(row.normalizer), 10)


def _normalizer_table(sources: Sequence[SourceRow]) -> PageTable:
    rows = (
        [
            name_cell(row.name),
            number_cell(row.normalizer),
            error_cell(row.stderr),
            error_cell(row.stderr_bootstrap),
        ]
        for row in sources
    )
    return table(
        "Normalizers and their relative standard errors",
        ("Source", "Ω", "Relative error, asymptotic", "Relative error, bootstrap"),
        rows,
    )


def _interval(value: float | None, error: float | None) -> tuple[float, float]:
    if value is None:
        return (math.nan, math.nan)
    reach = math.exp(min(_Z * (error or 0.0), 50.0))
    return (value / reach, value * reach)


def sources_table(sources: Sequence[SourceRow], *, groups: bool) -> PageTable:
    """Tabulate all numbers of the sources; those of groups only where there are groups."""
    columns = [
        "Source",
        "Images",
        *(["Groups"] if groups else []),
        "Share of images",
        "Share of weight",
        "Ω",
    ]
    columns += [
        "Error of Ω, asymptotic",
        "Error of Ω, bootstrap",
        "Effective images",
        *(["Effective groups"] if groups else []),
    ]
    columns += ["Unreadable", "Copies"]
    return table(
        "The sources", columns, (_source_cells(row, groups=groups) for row in sources)
    ).without_empty()


def _source_cells(row: SourceRow, *, groups: bool) -> list[TableCell]:
    return [
        name_cell(row.name, 120),
        count_cell(row.images),
        *([count_cell(row.groups)] if groups else []),
        share_cell(row.share),
        share_cell(row.weight_share),
        number_cell(row.normalizer),
        error_cell(row.stderr),
        error_cell(row.stderr_bootstrap),
        count_cell(row.ess),
        *([count_cell(row.ess_groups)] if groups else []),
        count_cell(row.unreadable),
        count_cell(row.copies),
    ]
