"""Records as text for a terminal: tables, verdicts in words, colours only where there is a
terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from unskew.evaluation.bootstrap import MetricValue
    from unskew.evaluation.cells import Cell
    from unskew.evaluation.predictions import Evaluation
    from unskew.report.summary.record import Summary, VerdictPanel
    from unskew.runs.differences import Check
    from unskew.runs.export_tables import Export
    from unskew.sources.description import PoolDescription

_STYLE = {"ok": "green", "weak": "yellow", "no": "red"}
_WORD = {"ok": "Yes", "weak": "Yes, but weakly", "no": "No"}
# Longer tables are cut here, and say so.
_MOST_ROWS = 40
# With more sources a column for each would not fit on a screen.
_MOST_SOURCES = 8


def open_console(quiet: bool = False) -> Console:
    """Standard output; text that is piped on is neither coloured nor cut to a screen's width."""
    from rich.console import Console

    console = Console(highlight=False, quiet=quiet)
    return console if console.is_terminal else Console(highlight=False, width=140, quiet=quiet)


def print_table(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    text_columns: int = 1,
) -> None:
    """A table below its title, which a narrow table does not fold."""
    from rich.text import Text

    console.print(Text(title, style="bold"))
    console.print(make_console_table(columns, rows, text_columns=text_columns))
    console.print()


def make_console_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, text_columns: int = 1
) -> Table:
    """A table whose first ``text_columns`` columns are text; the others are numbers, aligned right.
    Nothing in it is read as markup.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(
            Text(column), justify="left" if at < text_columns else "right", overflow="fold"
        )
    shown = list(rows)
    for row in shown[:_MOST_ROWS]:
        table.add_row(*[Text(visible(cell)) for cell in row])
    if len(shown) > _MOST_ROWS:
        table.caption = f"… and {len(shown) - _MOST_ROWS} more (see --json)"
        table.caption_justify = "left"
    return table


def visible(value: Any) -> str:
    """Text in which control characters (a newline in a file name, an escape sequence) are shown,
    not obeyed.
    """
    text = "–" if value is None else str(value)
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def percent(share: float | None) -> str:
    """``12.3 %``; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """Thousands separated, whole where large; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def effective(value: float | None) -> str:
    """An effective number of images: whole where large, else with one decimal throughout."""
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def print_verdict(console: Console, verdict: VerdictPanel) -> None:
    """Can it be debiased, why, and what to do next."""
    from rich.text import Text

    console.print(
        Text("Can this be debiased? ", style="bold")
        + Text(_WORD[verdict.level], style=f"bold {_STYLE[verdict.level]}")
    )
    console.print(Text(visible(verdict.headline)))
    _print_pairs(console, [("·", sentence) for sentence in verdict.sentences])
    console.print()
    _print_pairs(console, verdict.figures)
    if verdict.next_steps:
        console.print(Text("\nWhat to do next", style="bold"))
        _print_pairs(
            console, [(f"{at}.", step) for at, step in enumerate(verdict.next_steps, start=1)]
        )
    console.print()


def _print_pairs(console: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Two columns, of which the second is wrapped below itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), pad_edge=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, text in pairs:
        grid.add_row(Text(f" {visible(name)}"), Text(visible(text)))
    console.print(grid)


def print_sources(console: Console, summary: Summary) -> None:
    """Sizes and weights of the sources."""
    rows = [
        (
            row.name,
            number(row.images),
            percent(row.share),
            percent(row.weight_share),
            effective(row.ess),
            number(row.unreadable),
        )
        for row in summary.sources
    ]
    print_table(
        console,
        "Sources",
        ("source", "images", "share", "share of weight", "effective images", "unreadable"),
        rows,
    )


def print_written(console: Console, folder: Path, files: Sequence[str]) -> None:
    """Where the results lie."""
    from rich.text import Text

    console.print(Text(f"Written to {visible(folder)}: {', '.join(files)}"))
    if "report.html" in files:
        console.print(
            Text("The page: ", style="bold") + Text(str((folder / "report.html").resolve()))
        )


def print_description(console: Console, told: PoolDescription) -> None:
    """What `unskew describe` found."""
    names = [row.name for row in told.sources]
    rows = [
        (
            row.name,
            number(row.images),
            percent(row.share),
            number(row.groups),
            number(row.unreadable),
        )
        for row in told.sources
    ]
    print_table(console, "Sources", ("source", "images", "share", "groups", "unreadable"), rows)
    for title, levels in (("Classes", told.labels), ("Splits", told.splits)):
        if levels and len(names) <= _MOST_SOURCES:
            cells = [
                (row.level, number(row.images), *[number(row.by_source[name]) for name in names])
                for row in levels
            ]
            print_table(
                console,
                f"{title}: images in all, and in each source",
                (title.lower(), "all", *names),
                cells,
            )
        elif levels:
            cells = [
                (
                    row.level,
                    number(row.images),
                    number(sum(count > 0 for count in row.by_source.values())),
                )
                for row in levels
            ]
            print_table(console, title, (title.lower(), "images", "sources that have it"), cells)
    if told.labels and told.unlabelled:
        print_paragraph(console, f"{number(told.unlabelled)} images have no label.\n")
    if told.columns:
        print_table(
            console,
            "Attributes and image properties",
            ("column", "values", "missing"),
            _column_rows(told),
            text_columns=2,
        )
    if told.groups is not None:
        shared = (
            f"; {number(told.groups.shared)} have images in several sources"
            if told.groups.shared
            else ""
        )
        print_paragraph(
            console,
            f"{number(told.groups.groups)} groups, the largest of {number(told.groups.largest)} "
            f"images{shared}.\n",
        )
    if told.copies:
        pairs = [
            (row.source, row.other if row.other != row.source else "(itself)", number(row.images))
            for row in told.copies
        ]
        print_table(console, "Exact copies", ("source", "and", "images"), pairs, text_columns=2)
    elif told.copies is not None:
        print_paragraph(console, "No image is an exact copy of another.\n")
    if told.unreadable:
        reasons = [(row.reason, number(row.images)) for row in told.unreadable]
        print_table(console, "Unusable images, and why", ("reason", "images"), reasons)


def _column_rows(told: PoolDescription) -> list[tuple[str, str, str]]:
    rows = []
    for column in told.columns:
        if column.kind == "number" and column.median is not None:
            text = f"{column.low:.4g} to {column.high:.4g}, median {column.median:.4g}"
            text = f"{column.low:.4g} throughout" if column.low == column.high else text
        else:
            shown = ", ".join(f"{level} {count:,}" for level, count in column.levels[:6])
            text = f"{column.n_levels} levels: {shown}" if column.n_levels > 6 else shown
        rows.append((column.name, text, number(column.missing)))
    return rows


def print_check(console: Console, summary: Summary) -> None:
    """The answer of `unskew check`."""
    print_sources(console, summary)
    print_verdict(console, summary.verdict)


def print_run(console: Console, summary: Summary, folder: Path, files: Sequence[str]) -> None:
    """What `unskew weigh` found, and where it lies."""
    print_check(console, summary)
    print_written(console, folder, files)


def print_place(console: Console, place: Path) -> None:
    """Where something was written."""
    from rich.text import Text

    console.print(Text(f"Written: {visible(place)}"))


def print_export(console: Console, written: Export) -> None:
    """Where the weights of how many images were written, and what to know about the format."""
    print_paragraph(console, f"Written: {visible(written.path)} ({number(written.images)} images)")
    for note in written.notes:
        print_paragraph(console, visible(note))


def print_started(console: Console, place: Path) -> None:
    """What to do with a new configuration."""
    print_place(console, place)
    for line in (
        "It runs as it stands; what it says about the target is a guess, to be replaced by what "
        "you know.",
        f"  unskew check {visible(place)}",
        f"  unskew weigh {visible(place)} -o results",
    ):
        print_paragraph(console, line)


def print_paragraph(console: Console, text: str) -> None:
    """Text as it is."""
    from rich.text import Text

    console.print(Text(text))


def print_lines(console: Console, lines: Sequence[str]) -> None:
    """Print lines of text, control characters made visible."""
    print_paragraph(console, "\n".join(map(visible, lines)))


def print_refusal(console: Console, summary: Summary, folder: Path, *, as_json: bool) -> None:
    """Print why a target is not identifiable, and where the page is."""
    from unskew.cli.error_messages import print_json
    from unskew.runs.output import PAGE, verdict_record

    if as_json:
        print_json(verdict_record(summary))
    else:
        print_check(console, summary)
        print_place(console, folder / PAGE)


def print_heading(console: Console, text: str) -> None:
    """A step, with the command that does it."""
    from rich.text import Text

    console.print()
    console.print(Text(visible(text), style="bold cyan"))


def print_splits(console: Console, counts: Mapping[str, Mapping[str, int]], place: Path) -> None:
    """Images of each source in each split."""
    splits = list(next(iter(counts.values())))
    rows = [(source, *[number(row[name]) for name in splits]) for source, row in counts.items()]
    print_table(console, "Images in each split", ("source", *splits), rows)
    print_place(console, place)


def print_checks(console: Console, checks: Sequence[Check], only_wrong: bool = False) -> None:
    """What was verified, or only what does not hold."""
    from rich.text import Text

    for check in checks:
        if check.ok and only_wrong:
            continue
        mark = Text("ok      ", style="green") if check.ok else Text("DIFFERS ", style="bold red")
        console.print(mark + Text(f"{visible(check.claim)}: {visible(check.found)}"))
    wrong = sum(not check.ok for check in checks)
    said = (
        "Everything agrees."
        if not wrong
        else f"{wrong} of {len(checks)} claims do not hold: do not rely on these results."
    )
    console.print(Text(said, style="bold green" if not wrong else "bold red"))


# Metrics as a person reads them, and whether they are shares.
_METRICS = {
    "accuracy": ("accuracy", True),
    "balanced_accuracy": ("balanced accuracy", True),
    "worst_class": ("worst class", True),
    "auroc": ("AUROC", False),
    "sensitivity": ("sensitivity", True),
    "specificity": ("specificity", True),
    "log_loss": ("log-loss", False),
    "calibration_error": ("calibration error", True),
    "mae": ("mean absolute error", False),
    "rmse": ("root mean squared error", False),
    "r2": ("R²", False),
}
# Of these, the ones that a breakdown has room for; with two models there is less.
_IN_BREAKDOWNS = ("accuracy", "auroc", "sensitivity", "specificity", "mae", "r2")
_COMPARED = ("accuracy", "mae")


def print_evaluation(
    console: Console, found: Evaluation, written: Path | None, title: str = "On the target"
) -> None:
    """What `unskew evaluate` found."""
    covered, cell = found.coverage, found.overall
    groups = "" if cell.ess_groups is None else f", {effective(cell.ess_groups)} effective groups"
    ess = f"{effective(cell.ess)} effective images{groups}"
    head = (
        f"{found.task.capitalize()}, {visible(found.split)}: {number(covered.judged)} of "
        f"{number(covered.images)} images judged, {ess}."
    )
    print_paragraph(console, f"{head}\n")
    interval = f"{100 * found.level:g} % interval"
    columns = ["metric", "weighted", interval, "naive", "effective"]
    columns += [] if cell.second is None else ["second", "second − first", interval]
    print_table(
        console,
        title,
        columns,
        [_metric_row(cell, name) for name in _METRICS if name in cell.figures],
    )
    for part in found.breakdowns:
        wanted = _IN_BREAKDOWNS if cell.second is None else _COMPARED
        names = [name for name in wanted if any(name in each.figures for each in part.cells)]
        heads = [_METRICS[name][0] for name in names]
        heads += [] if cell.second is None else ["second − first"] * len(names)
        if part.cells:
            rows = [_cell_row(each, names) for each in part.cells]
            print_table(
                console,
                f"By {visible(part.column)}",
                (part.column, "images", "weight", "effective", *heads),
                rows,
            )
        if part.worst is not None and cell.second is None:
            print_paragraph(
                console,
                f"Worst: {visible(part.worst.where)}, {_with_interval(part.worst, True)}.\n",
            )
        if part.withheld:
            print_paragraph(
                console,
                f"By {visible(part.column)}: {part.withheld} withheld, fewer than ten or telling "
                "of them.\n",
            )
    if any(each.few for each in cell.figures.values()) or any(
        each.few for part in found.breakdowns for each in part.cells
    ):
        print_paragraph(
            console,
            f"* fewer than {found.few_effective:g} effective images (groups, where there are any): "
            "hardly known.",
        )
    _print_pairs(console, [("·", note) for note in found.notes])
    if written is not None:
        print_place(console, written)


def _metric_row(cell: Cell, name: str) -> list[str]:
    figure = cell.figures[name]
    label, share = _METRICS[name]
    label += ("" if figure.where is None else f" ({figure.where})") + ("*" if figure.few else "")
    row = [
        label,
        _amount(figure.value, share),
        _interval(figure, share),
        _amount(figure.naive, share),
        effective(figure.effective),
    ]
    if cell.second is not None and cell.difference is not None:
        other, gap = cell.second.get(name), cell.difference.get(name)
        row += [
            "–" if other is None else _amount(other.value, share),
            _signed(gap, share),
            _interval(gap, share),
        ]
    return row


def _cell_row(cell: Cell, names: Sequence[str]) -> list[str]:
    row = [cell.name + ("*" if cell.few else ""), number(cell.images), percent(cell.weight_share)]
    row.append(effective(cell.ess if cell.ess_groups is None else cell.ess_groups))
    row += [_with_interval(cell.figures.get(name), _METRICS[name][1]) for name in names]
    if cell.difference is not None:
        row += [
            _with_interval(cell.difference.get(name), _METRICS[name][1], signed=True)
            for name in names
        ]
    return row


def _with_interval(figure: MetricValue | None, share: bool, signed: bool = False) -> str:
    if figure is None or figure.value is None:
        return "–"
    value = _signed(figure, share) if signed else _amount(figure.value, share)
    return value if figure.interval is None else f"{value} ({_interval(figure, share)})"


def _amount(value: float | None, share: bool, plus: str = "") -> str:
    if value is None:
        return "–"
    return (
        f"{100 * value:{plus}.1f} %"
        if share
        else f"{value:{plus}.3f}"
        if abs(value) < 100
        else f"{value:{plus}.4g}"
    )


def _signed(figure: MetricValue | None, share: bool) -> str:
    # Shares differ by points, not by percent.
    return "–" if figure is None else _amount(figure.value, share, "+").replace(" %", " pt")


def _interval(figure: MetricValue | None, share: bool) -> str:
    if figure is None or figure.interval is None:
        return "–"
    low, high = (_amount(each, share).removesuffix(" %") for each in figure.interval)
    return f"{low} to {high}"
