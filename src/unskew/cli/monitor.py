"""The command `unskew monitor`: do new images still fit the solved weights?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks
from unskew.cli.options import Common, Results, taking

if TYPE_CHECKING:
    from rich.console import Console

    from unskew.records.monitoring import MonitoredStream, Monitoring


@taking("as_json", "quiet", "allow_code", "jobs")
def watch_images(
    results: Results,
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            show_default=False,
            help="Folder or table of new images, read as the sources of the run are.",
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option("--source", help="The source of all new images, if they do not name it."),
    ] = None,
    of_target: Annotated[
        bool, typer.Option("--of-target", help="The new images are of the target, not of a source.")
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option("--batch", help="Column, such as a date: each of its values is one look."),
    ] = None,
    max_uncovered: Annotated[
        float,
        typer.Option(
            "--max-uncovered", help="Share of the target's images that the pool need not cover."
        ),
    ] = 0.05,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="Folder for what is remembered between looks; default: RESULTS/monitor."
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget earlier looks, and start again.")
    ] = False,
    *,
    common: Common,
) -> int:
    """Tell whether new images still fit the solved weights; look as often as you like.

    Run it with every batch of new images. Over all looks and all tests together, a false alarm has
    a probability of 5% at most. Exit code 3: a source, or the target, has drifted.
    """
    from unskew.cli import terminal
    from unskew.runs.monitor import monitor_run

    with remarks(common.quiet):
        monitoring = monitor_run(
            results,
            new,
            source=source,
            of_target=of_target,
            batch=batch,
            max_uncovered=max_uncovered,
            state=state,
            restart=restart,
            jobs=common.jobs,
            progress=common.bar,
            allow_code=common.allowed,
        )
    if common.as_json:
        print_json(monitoring.to_dict())
    elif not common.quiet:
        print_monitoring(terminal.open_console(), monitoring)
    return NOT_IDENTIFIABLE if monitoring.drifted else DONE


def print_monitoring(console: Console, monitoring: Monitoring) -> None:
    """Print the verdict, one line for each stream, and what to do."""
    from rich.text import Text

    from unskew.cli.terminal import print_pairs, print_place, print_table, visible
    from unskew.records.solution import count_of

    style = "red" if monitoring.drifted else "green"
    console.print(
        Text("Do new images still fit the weights? ", style="bold")
        + Text("No" if monitoring.drifted else "Yes", style=f"bold {style}")
    )
    console.print(Text(visible(monitoring.headline)))
    print_pairs(console, [("·", sentence) for sentence in monitoring.sentences])
    print_pairs(console, [("·", note) for note in monitoring.notes])
    console.print()
    print_table(
        console,
        f"Look {len(monitoring.looks)} ({monitoring.looks[-1]}), "
        f"{count_of(monitoring.counted, 'image')} added; an alarm needs evidence "
        f"{10**monitoring.log10_alarm:.0f}",
        ["source", "most evidence for a change of", "evidence", "old units", "new", "outside"],
        [_stream_row(stream) for stream in monitoring.streams],
        text_columns=2,
    )
    console.print(Text("What to do next", style="bold"))
    print_pairs(console, [(f"{k}.", step) for k, step in enumerate(monitoring.next_steps, 1)])
    console.print()
    print_place(console, Path(monitoring.files[1]))


def _stream_row(stream: MonitoredStream) -> list[str]:
    from unskew.cli.terminal import number, percent
    from unskew.records.monitoring import show_evidence

    best = stream.strongest
    return [
        stream.name,
        "–" if best is None else best.variable,
        "–" if best is None else show_evidence(best.log10_peak),
        number(stream.reference_units),
        number(stream.units),
        percent(None if stream.outside is None else stream.outside.share),
    ]
