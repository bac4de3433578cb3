"""The page of `unskew monitor`: verdict, evidence over time, changes and coverage."""

from __future__ import annotations

from markupsafe import Markup

from unskew.records.monitoring import MonitoredStream, Monitoring, VariableEvidence, show_evidence
from unskew.report.page import svg, tables
from unskew.report.page.html import render_template

_HEIGHT = 150
# Beyond this an alarm is an alarm; the axis ends there.
_HIGHEST, _LOWEST = 6.0, -3.0


def render_monitoring(monitoring: Monitoring) -> str:
    """Return the page: one HTML document that requests nothing; names are escaped."""
    return render_template(
        "monitor.html",
        monitoring=monitoring,
        figures=_figures(monitoring),
        alarm=tables.show_number(10**monitoring.log10_alarm),
        plots=[plot_evidence(stream, monitoring) for stream in monitoring.streams],
        legend=[svg.Key("line-debiased", "Evidence"), svg.Key("line-even", "Alarm")],
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
        ("Looks", tables.show_count(len(monitoring.looks))),
        ("New images", tables.show_count(sum(stream.images for stream in streams))),
        ("New units", tables.show_count(sum(stream.units for stream in streams))),
        ("Added now", tables.show_count(monitoring.counted)),
        ("Known before", tables.show_count(monitoring.known)),
    ]


def plot_evidence(stream: MonitoredStream, monitoring: Monitoring) -> svg.Figure:
    """Draw the evidence of one stream at every look, on a logarithmic axis, with the alarm."""
    scale = svg.Scale(_LOWEST, _HIGHEST)
    n = len(stream.trace)
    at = [(k + 0.5) / n if n < 3 else k / (n - 1) for k in range(n)]
    points = [(x, scale.at(value)) for x, value in zip(at, stream.trace, strict=True)]
    if n == 1:
        points = [(0.0, points[0][1]), (1.0, points[0][1])]
    alarm = scale.at(monitoring.log10_alarm)
    drawing = svg.canvas(
        _powers(scale),
        svg.stretched(
            svg.stretch_lines([(0.0, alarm), (1.0, alarm)], "line even"),
            svg.stretch_lines(points, "line debiased"),
            y=0,
            height=_HEIGHT,
        ),
        height=_HEIGHT,
    ) + svg.canvas(_look_ticks(monitoring.looks), height=20)
    rows = [
        (tables.name_cell(look), tables.TableCell(show_evidence(value), value))
        for look, value in zip(monitoring.looks, stream.trace, strict=True)
    ]
    word = "an alarm" if stream.drifted else "no alarm"
    return svg.Figure(
        title=stream_title(stream),
        drawing=drawing,
        label=f"Evidence of {stream_title(stream)} at {n} looks: {word}.",
        table=tables.table("Evidence by look", ["Look", "Evidence"], rows),
    )


def _powers(scale: svg.Scale) -> Markup:
    """Draw horizontal lines at 1/1000, 1, 1000 …"""
    powers = ((-2, "0.01"), (0, "1"), (2, "100"), (4, "10⁴"))
    return svg.level_lines((_HEIGHT * (1 - scale.at(power)), text) for power, text in powers)


def _look_ticks(looks: tuple[str, ...]) -> Markup:
    """Name the first, the middle and the last look."""
    n = len(looks)
    chosen = sorted({0, n // 2, n - 1}) if n > 4 else sorted({0, n - 1})
    scale = svg.Scale(0.0, max(n - 1.0, 1.0))
    ticks = [float(k) for k in chosen]
    return svg.axis_ticks(scale, ticks=ticks, shown=[looks[k][:16] for k in chosen])


def change_table(stream: MonitoredStream, monitoring: Monitoring) -> tables.PageTable:
    """List the variables of a stream: evidence, and the change with its error."""
    columns: list[tables.TableColumn | str] = [
        tables.TableColumn("Variable", numeric=False),
        "Evidence",
        "Largest",
        tables.TableColumn("Most likely since", numeric=False),
        "Units",
        tables.TableColumn("Level", numeric=False),
        "Before",
        "Now",
        "Difference",
    ]
    made = tables.table(
        stream_title(stream), columns, [_change_row(one, monitoring) for one in stream.variables]
    )
    marked = frozenset(
        k for k, one in enumerate(stream.variables) if one.log10_peak >= monitoring.log10_alarm
    )
    return tables.PageTable(made.caption, made.columns, made.rows, marked=marked).cut()


def _change_row(one: VariableEvidence, monitoring: Monitoring) -> list[tables.TableCell]:
    change, is_alarm = one.change, one.log10_peak >= monitoring.log10_alarm
    row = [
        tables.name_cell(one.variable),
        tables.TableCell(show_evidence(one.log10_evidence), one.log10_evidence),
        tables.TableCell(show_evidence(one.log10_peak), one.log10_peak),
        tables.name_cell(one.since if is_alarm else tables.MISSING),
        tables.count_cell(one.units),
    ]
    if change is None:
        return [*row, *[tables.TableCell(tables.MISSING)] * 4]
    if change.level is None:
        difference = (
            f"{tables.show_signed(change.difference)} ± {tables.show_number(change.stderr, 2)}"
        )
        cells = [
            tables.TableCell(tables.MISSING),
            tables.number_cell(change.before),
            tables.number_cell(change.now),
        ]
    else:
        points, error = 100 * change.difference, 100 * change.stderr
        difference = f"{tables.show_signed(points)} ± {tables.show_number(error, 2)} points"
        cells = [
            tables.name_cell(change.level),
            tables.share_cell(change.before),
            tables.share_cell(change.now),
        ]
    return [*row, *cells, tables.TableCell(difference, change.difference)]


def _coverage_table(monitoring: Monitoring) -> tables.PageTable:
    return tables.list_rows(
        "New units outside what the pool covers",
        [(stream, stream.outside) for stream in monitoring.streams if stream.outside is not None],
        ("Source", lambda pair: tables.name_cell(stream_title(pair[0]))),
        ("Old units", lambda pair: tables.count_cell(pair[0].reference_units)),
        ("New images", lambda pair: tables.count_cell(pair[0].images)),
        ("New units", lambda pair: tables.count_cell(pair[0].units)),
        ("Outside", lambda pair: tables.count_cell(pair[1].outside)),
        ("Share outside", lambda pair: tables.share_cell(pair[1].share)),
        (
            "95% interval, for all looks together",
            lambda pair: tables.TableCell(
                f"{tables.show_share(pair[1].low)} to {tables.show_share(pair[1].high)}",
                pair[1].high,
            ),
        ),
    )


def _unseen_table(monitoring: Monitoring) -> tables.PageTable:
    rows = [
        (
            tables.name_cell(level),
            tables.name_cell(column),
            tables.name_cell(stream_title(stream)),
            tables.count_cell(count),
        )
        for stream in monitoring.streams
        if stream.kind != "all"
        for column, level, count in stream.unseen
    ]
    columns = [tables.TableColumn(name, numeric=False) for name in ("Level", "Column", "Source")]
    return tables.table("Levels that no image of the pool has", [*columns, "Units"], rows)
