"""The page of `unskew monitor`: verdict, evidence over time, changes and coverage."""

from __future__ import annotations

from markupsafe import Markup

from unskew.records.monitoring import (
    MonitoredStream,
    Monitoring,
    VariableEvidence,
    show_evidence,
)
from unskew.report.page.html import render_template
from unskew.report.page.svg import (
    Figure,
    Key,
    Scale,
    axis_ticks,
    canvas,
    level_lines,
    stretch_lines,
    stretched,
)
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    TableColumn,
    count_cell,
    list_rows,
    name_cell,
    number_cell,
    share_cell,
    show_count,
    show_number,
    show_share,
    show_signed,
    table,
)

_HEIGHT = 150
# Beyond this an alarm is an alarm; the axis ends there.
_HIGHEST, _LOWEST = 6.0, -3.0


def render_monitoring(monitoring: Monitoring) -> str:
    """Return the page: one HTML document that requests nothing; names are escaped."""
    return render_template(
        "monitor.html",
        monitoring=monitoring,
        figures=_figures(monitoring),
        alarm=show_number(10**monitoring.log10_alarm),
        plots=[plot_evidence(stream, monitoring) for stream in monitoring.streams],
        legend=[Key("line-debiased", "Evidence"), Key("line-even", "Alarm")],
        changes=[change_table(stream, monitoring) for stream in monitoring.streams],
        coverage=_coverage_table(monitoring),
        unseen=_unseen_table(monitoring),
    )


def stream_title(stream: MonitoredStream) -> str:
    """Name a stream for a reader."""
    return {"all": "All sources together", "target": "The target"}.get(stream.kind, stream.name)


def _figures(monitoring: Monitoring) -> list[tuple[str, str]]:
    streams = [stream for stream in monitoring.streams if stream.kind != "all"]
    return [
        ("Looks", show_count(len(monitoring.looks))),
        ("New images", show_count(sum(stream.images for stream in streams))),
        ("New units", show_count(sum(stream.units for stream in streams))),
        ("Added now", show_count(monitoring.counted)),
        ("Known before", show_count(monitoring.known)),
    ]


def plot_evidence(stream: MonitoredStream, monitoring: Monitoring) -> Figure:
    """Draw the evidence of one stream at every look, on a logarithmic axis, with the alarm."""
    scale = Scale(_LOWEST, _HIGHEST)
    n = len(stream.trace)
    at = [(k + 0.5) / n if n < 3 else k / (n - 1) for k in range(n)]
    points = [(x, scale.at(value)) for x, value in zip(at, stream.trace, strict=True)]
    if n == 1:
        points = [(0.0, points[0][1]), (1.0, points[0][1])]
    alarm = scale.at(monitoring.log10_alarm)
    drawing = canvas(
        _powers(scale),
        stretched(
            stretch_lines([(0.0, alarm), (1.0, alarm)], "line even"),
            stretch_lines(points, "line debiased"),
            y=0,
            height=_HEIGHT,
        ),
        height=_HEIGHT,
    ) + canvas(_look_ticks(monitoring.looks), height=20)
    rows = [
        (name_cell(look), TableCell(show_evidence(value), value))
        for look, value in zip(monitoring.looks, stream.trace, strict=True)
    ]
    word = "an alarm" if stream.drifted else "no alarm"
    return Figure(
        title=stream_title(stream),
        drawing=drawing,
        label=f"Evidence of {stream_title(stream)} at {n} looks: {word}.",
        table=table("Evidence by look", ["Look", "Evidence"], rows),
    )


def _powers(scale: Scale) -> Markup:
    """Draw horizontal lines at 1/1000, 1, 1000 …"""
    powers = ((-2, "0.01"), (0, "1"), (2, "100"), (4, "10⁴"))
    return level_lines((_HEIGHT * (1 - scale.at(power)), text) for power, text in powers)


def _look_ticks(looks: tuple[str, ...]) -> Markup:
    """Name the first, the middle and the last look."""
    n = len(looks)
    chosen = sorted({0, n // 2, n - 1}) if n > 4 else sorted({0, n - 1})
    scale = Scale(0.0, max(n - 1.0, 1.0))
    ticks = [float(k) for k in chosen]
    return axis_ticks(scale, ticks=ticks, shown=[looks[k][:16] for k in chosen])


def change_table(stream: MonitoredStream, monitoring: Monitoring) -> PageTable:
    """List the variables of a stream: evidence, and the change with its error."""
    columns: list[TableColumn | str] = [
        TableColumn("Variable", numeric=False),
        "Evidence",
        "Largest",
        TableColumn("Most likely since", numeric=False),
        "Units",
        TableColumn("Level", numeric=False),
        "Before",
        "Now",
        "Difference",
    ]
    made = table(
        stream_title(stream), columns, [_change_row(one, monitoring) for one in stream.variables]
    )
    marked = frozenset(
        k for k, one in enumerate(stream.variables) if one.log10_peak >= monitoring.log10_alarm
    )
    return PageTable(made.caption, made.columns, made.rows, marked=marked).cut()


def _change_row(one: VariableEvidence, monitoring: Monitoring) -> list[TableCell]:
    change, is_alarm = one.change, one.log10_peak >= monitoring.log10_alarm
    row = [
        name_cell(one.variable),
        TableCell(show_evidence(one.log10_evidence), one.log10_evidence),
        TableCell(show_evidence(one.log10_peak), one.log10_peak),
        name_cell(one.since if is_alarm else MISSING),
        count_cell(one.units),
    ]
    if change is None:
        return [*row, *[TableCell(MISSING)] * 4]
    if change.level is None:
        difference = f"{show_signed(change.difference)} ± {show_number(change.stderr, 2)}"
        cells = [TableCell(MISSING), number_cell(change.before), number_cell(change.now)]
    else:
        difference = (
            f"{show_signed(100 * change.difference)} ± {show_number(100 * change.stderr, 2)} points"
        )
        cells = [name_cell(change.level), share_cell(change.before), share_cell(change.now)]
    return [*row, *cells, TableCell(difference, change.difference)]


def _coverage_table(monitoring: Monitoring) -> PageTable:
    return list_rows(
        "New units outside what the pool covers",
        [(stream, stream.outside) for stream in monitoring.streams if stream.outside is not None],
        ("Source", lambda pair: name_cell(stream_title(pair[0]))),
        ("Old units", lambda pair: count_cell(pair[0].reference_units)),
        ("New images", lambda pair: count_cell(pair[0].images)),
        ("New units", lambda pair: count_cell(pair[0].units)),
        ("Outside", lambda pair: count_cell(pair[1].outside)),
        ("Share outside", lambda pair: share_cell(pair[1].share)),
        (
            "95% interval, for all looks together",
            lambda pair: TableCell(
                f"{show_share(pair[1].low)} to {show_share(pair[1].high)}", pair[1].high
            ),
        ),
    )


def _unseen_table(monitoring: Monitoring) -> PageTable:
    rows = [
        (name_cell(level), name_cell(column), name_cell(stream_title(stream)), count_cell(count))
        for stream in monitoring.streams
        if stream.kind != "all"
        for column, level, count in stream.unseen
    ]
    columns = [TableColumn(name, numeric=False) for name in ("Level", "Column", "Source")]
    return table("Levels that no image of the pool has", [*columns, "Units"], rows)
