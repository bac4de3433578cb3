"""Records as text for a terminal: tables and verdicts, coloured only on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from unskew.report.summary.record import Summary, VerdictPanel
    from unskew.runs.differences import Check
    from unskew.runs.export_tables import Export
    from unskew.runs.first_look import Start
    from unskew.sources.description import LevelCount, PoolDescription

_STYLE = {"ok": "green", "weak": "yellow", "no": "red"}
_WORD = {"ok": "Yes", "weak": "Yes, but weakly", "no": "No"}
# Longer tables are cut here, and say so.
_MOST_ROWS = 40
# With more sources a column for each would not fit on a screen.
_MOST_SOURCES = 8


def open_console(quiet: bool = False) -> Console:
    """Open standard output; piped text is neither coloured nor cut to a screen's width."""
    from rich.console import Console

    console = Console(highlight=False, quiet=quiet)
    return console if console.is_terminal else Console(highlight=False, width=140, quiet=quiet)


def print_at_once(line: str) -> None:
    """Print a plain line that a pipe or a log file shows at once."""
    import sys

    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_table(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    text_columns: int = 1,
) -> None:
    """Print a table below its title, which a narrow table does not fold."""
    from rich.text import Text

    console.print(Text(title, style="bold"))
    console.print(make_console_table(columns, rows, text_columns=text_columns))
    console.print()


def make_console_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, text_columns: int = 1
) -> Table:
    """Make a table whose first ``text_columns`` columns are text, the others numbers.

    Numbers are aligned right. Nothing in the table is read as markup.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(
            Text(visible(column)), justify="left" if at < text_columns else "right", overflow="fold"
        )
    shown = list(rows)
    for row in shown[:_MOST_ROWS]:
        table.add_row(*[Text(visible(cell)) for cell in row])
    if len(shown) > _MOST_ROWS:
        table.caption = f"… and {len(shown) - _MOST_ROWS} more (see --json)"
        table.caption_justify = "left"
    return table


def visible(value: Any) -> str:
    """Return text with control characters shown: a newline in a file name, an escape sequence."""
    text = "–" if value is None else str(value)
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def percent(share: float | None) -> str:
    """Return ``12.3 %``; a dash for None."""
    return "–" if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """Return a number with thousands separated, whole if large; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def effective(value: float | None) -> str:
    """Return an effective number of images: whole if large, else with one decimal."""
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def print_verdict(console: Console, verdict: VerdictPanel) -> None:
    """Print whether it can be debiased, why, and what to do next."""
    from rich.text import Text

    answer, style = _WORD[verdict.level], _STYLE[verdict.level]
    if verdict.placeholder:
        answer, style = f"{answer}, for a placeholder target", "red" if style == "red" else "yellow"
    console.print(
        Text("Can this be debiased? ", style="bold") + Text(answer, style=f"bold {style}")
    )
    console.print(Text(visible(verdict.headline)))
    print_pairs(console, [("·", sentence) for sentence in verdict.sentences])
    console.print()
    print_pairs(console, verdict.figures)
    if verdict.next_steps:
        console.print(Text("\nWhat to do next", style="bold"))
        print_pairs(
            console, [(f"{at}.", step) for at, step in enumerate(verdict.next_steps, start=1)]
        )
    console.print()


def print_pairs(console: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Print two columns, of which the second is wrapped below itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), pad_edge=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, text in pairs:
        grid.add_row(Text(f" {visible(name)}"), Text(visible(text)))
    console.print(grid)


def print_sources(console: Console, summary: Summary) -> None:
    """Print sizes and weights of the sources."""
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
    part = summary.verdict.part
    print_table(
        console,
        "Sources" if part is None else f"Sources: images of the split {visible(part)} alone",
        ("source", "images", "share", "share of weight", "effective images", "unreadable"),
        rows,
    )
    if summary.splits:
        print_table(
            console,
            "Splits: the bias model is fitted on the first, and each has weights of its own",
            ("split", "images", "effective images"),
            [(row.name, number(row.images), effective(row.ess)) for row in summary.splits],
        )


def print_written(console: Console, folder: Path, files: Sequence[str]) -> None:
    """Print where the results are."""
    from rich.text import Text

    console.print(Text(f"Written to {visible(folder)}: {', '.join(files)}"))
    if "features.parquet" in files and "map.parquet" not in files:
        console.print(Text("There is no map.parquet: it takes two numeric features or more."))
    if "report.html" in files:
        console.print(
            Text("The page: ", style="bold") + Text(str((folder / "report.html").resolve()))
        )


def print_description(console: Console, description: PoolDescription) -> None:
    """Print what is in a pool: sources, classes, splits, columns, groups, copies."""
    rows = [
        (
            row.name,
            number(row.images),
            percent(row.share),
            number(row.groups),
            number(row.unreadable),
        )
        for row in description.sources
    ]
    print_table(console, "Sources", ("source", "images", "share", "groups", "unreadable"), rows)
    names = [row.name for row in description.sources]
    for title, levels in (("Classes", description.labels), ("Splits", description.splits)):
        if levels:
            _print_levels(console, title, levels, names)
    if description.labels and description.unlabelled:
        print_paragraph(console, f"{number(description.unlabelled)} images have no label.\n")
    if description.columns:
        print_table(
            console,
            "Attributes and image properties",
            ("column", "values", "missing"),
            _column_rows(description),
            text_columns=2,
        )
    _print_groups_and_copies(console, description)
    if description.unreadable:
        reasons = [(row.reason, number(row.images)) for row in description.unreadable]
        print_table(console, "Unusable images, and why", ("reason", "images"), reasons)


def _print_levels(
    console: Console, title: str, levels: Sequence[LevelCount], names: Sequence[str]
) -> None:
    if len(names) > _MOST_SOURCES:
        rows = [
            (
                row.level,
                number(row.images),
                number(sum(count > 0 for count in row.by_source.values())),
            )
            for row in levels
        ]
        print_table(console, title, (title.lower(), "images", "sources that have it"), rows)
        return
    print_table(
        console,
        f"{title}: images in all, and in each source",
        (title.lower(), "all", *names),
        [
            (row.level, number(row.images), *[number(row.by_source[name]) for name in names])
            for row in levels
        ],
    )


def _print_groups_and_copies(console: Console, description: PoolDescription) -> None:
    groups = description.groups
    if groups is not None:
        shared = f"; {number(groups.shared)} have images in several sources"
        print_paragraph(
            console,
            f"{number(groups.groups)} groups, the largest of {number(groups.largest)} "
            f"images{shared if groups.shared else ''}.\n",
        )
    if description.copies:
        pairs = [
            (row.source, row.other if row.other != row.source else "itself", number(row.images))
            for row in description.copies
        ]
        columns = ("source", "with a copy in", "images of the source")
        print_table(console, "Exact copies", columns, pairs, text_columns=2)
    elif description.copies is not None:
        print_paragraph(console, "No image is an exact copy of another.\n")


def _column_rows(description: PoolDescription) -> list[tuple[str, str, str]]:
    rows = []
    for column in description.columns:
        if column.kind == "number" and column.median is not None:
            text = f"{column.low:.4g} to {column.high:.4g}, median {column.median:.4g}"
            text = f"{column.low:.4g} throughout" if column.low == column.high else text
        else:
            shown = ", ".join(f"{level} {count:,}" for level, count in column.levels[:6])
            text = f"{column.n_levels} levels: {shown}" if column.n_levels > 6 else shown
        rows.append((column.name, text, number(column.missing)))
    return rows


def print_check(console: Console, summary: Summary) -> None:
    """Print the sources, of several targets the verdict on each, and the verdict."""
    print_sources(console, summary)
    if summary.targets is not None:
        from unskew.cli.target_tables import print_target_panel

        print_target_panel(console, summary.targets)
    print_verdict(console, summary.verdict)


def print_run(console: Console, summary: Summary, folder: Path, files: Sequence[str]) -> None:
    """Print the sources, the verdict, and where the results are."""
    print_check(console, summary)
    print_written(console, folder, files)


def print_place(console: Console, path: Path) -> None:
    """Print where something was written."""
    from rich.text import Text

    console.print(Text(f"Written: {visible(path)}"))


def print_export(console: Console, written: Export) -> None:
    """Print where the weights of how many images were written, and notes about the format."""
    print_paragraph(console, f"Written: {visible(written.path)} ({number(written.images)} images)")
    for note in written.notes:
        print_paragraph(console, visible(note))


def print_started(console: Console, path: Path, start: Start) -> None:
    """Print whether a new configuration runs, and what to do with it."""
    print_place(console, path)
    if start.problem is not None:
        print_paragraph(console, f"It does not run yet: {visible(start.problem)}")
    elif not start.tried:
        print_paragraph(console, f"With {number(start.images)} images it was not tried.")
    else:
        unusable = f", {number(start.unusable)} of which cannot be used" if start.unusable else ""
        print_paragraph(console, f"It runs on {number(start.images)} images{unusable}.")
    for line in (
        "Its target is a placeholder: replace it by what you know, and remove guessed = true.",
        f"  unskew check {visible(path)}",
        f"  unskew weigh {visible(path)} -o results",
    ):
        print_paragraph(console, line)


def print_paragraph(console: Console, text: str) -> None:
    """Print text unchanged."""
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
    """Print the command of a step as its heading."""
    from rich.text import Text

    console.print()
    console.print(Text(visible(text), style="bold cyan"))


def print_splits(console: Console, counts: Mapping[str, Mapping[str, int]], path: Path) -> None:
    """Print the number of images of each source in each split."""
    splits = list(next(iter(counts.values())))
    rows = [(source, *[number(row[name]) for name in splits]) for source, row in counts.items()]
    print_table(console, "Images in each split", ("source", *splits), rows)
    print_place(console, path)


def print_checks(console: Console, checks: Sequence[Check], only_wrong: bool = False) -> None:
    """Print what was verified, or only what does not hold."""
    from rich.text import Text

    for check in checks:
        if check.ok and only_wrong:
            continue
        mark = Text("ok      ", style="green") if check.ok else Text("DIFFERS ", style="bold red")
        console.print(mark + Text(f"{visible(check.claim)}: {visible(check.found)}"))
    wrong = sum(not check.ok for check in checks)
    if wrong:
        verdict = f"{wrong} of {len(checks)} claims do not hold: do not rely on these results."
        console.print(Text(verdict, style="bold red"))
    else:
        console.print(Text("Everything agrees.", style="bold green"))
