"""Run the article's experiments: ``python -m paper figures|tables``, from a checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.cli.app import run_command
from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import AsJson, Jobs, Quiet, shows_progress

app = typer.Typer(
    name="paper",
    help="The article's figures and tables, reproduced.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_DATA = (
    "Where CIFAR-10 and CIFAR-100 are: the folder of the official archives, packed or not, of "
    "torchvision's or Hugging Face's copies, of train/CLASS and test/CLASS, or of packed sheets."
)
Download = Annotated[
    bool,
    typer.Option("--download", help="Fetch what --data lacks (162 MB each), checked by its MD5."),
]


class TableLearner(StrEnum):
    """The learners of `python -m paper tables`."""

    probe = "probe"
    fast = "fast"
    article = "article"


@app.command("figures")
def draw_figures(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the figures; created if needed."),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help=f"{_DATA} Figures 1, 2, 3 and B3 to B7 need none."),
    ] = None,
    download: Download = False,
    only: Annotated[
        str,
        typer.Option("--only", help="Numbers of figures, such as 5,8,B2; all of them by default."),
    ] = "",
    runs: Annotated[
        int,
        typer.Option("--runs", min=1, help="Draws of the databases wherever the article has 8."),
    ] = 8,
    digits: Annotated[
        list[str] | None,
        typer.Option(
            "--digits",
            help="For figure 1: NAME=FOLDER of a digit database, a subfolder for each class; may "
            "be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compute everything again.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> None:
    """Draw every figure of the article and a few more (B1 to B7), each with its table as CSV.

    Figures that exist with the same settings are kept; after Ctrl-C the same command resumes.
    """
    from paper.digit_databases import parse_folders
    from paper.figures import write_figures
    from unskew.cli import terminal
    from unskew.engine.threads import available_jobs

    console = terminal.open_console(quiet or as_json)

    def report(drawn: Any) -> None:
        terminal.print_heading(
            console, f"Figure {drawn.number}: {drawn.title}{'' if drawn.is_new else ' (kept)'}"
        )
        terminal.print_paragraph(
            console, "\n".join([*drawn.findings, f"{output / drawn.files[1]}, .svg, .csv, .json"])
        )

    with remarks(quiet):
        if download:
            _fetch(console, data)
        done = write_figures(
            data,
            output,
            only=[number for number in only.split(",") if number.strip()],
            runs=runs,
            force=force,
            jobs=jobs or available_jobs(),
            progress=shows_progress(quiet, as_json),
            report=report,
            digits=parse_folders(digits or []),
        )
    if as_json:
        print_json(
            {
                "folder": str(output),
                "figures": [figure.to_dict() for figure in done.figures],
                "notes": list(done.notes),
            }
        )
    else:
        terminal.print_paragraph(console, "\n".join(["", *done.notes]))


@app.command("tables")
def compute_tables(
    data: Annotated[Path, typer.Option("--data", help=_DATA)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the tables; created if needed."),
    ],
    download: Download = False,
    learner: Annotated[
        TableLearner, typer.Option("--learner", help="What is trained on the weighted images.")
    ] = TableLearner.probe,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Draws of the databases.")] = 8,
    datasets: Annotated[
        str, typer.Option("--datasets", help="cifar10, cifar100 or both, with a comma.")
    ] = "",
    settings: Annotated[
        str, typer.Option("--settings", help="Rows of the tables, such as classes-0.1,missing-500.")
    ] = "",
    arms: Annotated[
        str, typer.Option("--arms", help="Columns of the tables, such as naive,exact.")
    ] = "",
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            help="Folder of cached features for the probe. Default: .cache in the output folder.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--force", help="Go on where a run stopped, or compute the request again."
        ),
    ] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> None:
    """Compute the article's tables and further rows: test accuracy and worst class of every arm.

    The numbers that the article prints are in the last column. Every cell is saved as soon as it is
    computed; after Ctrl-C the same command resumes.
    """
    from paper.tables import write_tables
    from unskew.cli import terminal
    from unskew.engine.threads import available_jobs

    console = terminal.open_console(quiet or as_json)

    def names(text: str) -> list[str]:
        return [name.strip() for name in text.split(",") if name.strip()]

    with remarks(quiet):
        if download:
            _fetch(console, data, names(datasets))
        done = write_tables(
            data,
            output,
            learner.value,
            runs=runs,
            datasets=names(datasets),
            settings=names(settings),
            arms=names(arms),
            features=features,
            force=not resume,
            # A network uses all cores by itself.
            jobs=jobs or (available_jobs() if learner is TableLearner.probe else 1),
            progress=shows_progress(quiet, as_json),
            report=lambda sentence: terminal.print_paragraph(console, sentence),
        )
    if as_json:
        print_json(
            {
                "folder": str(output),
                "files": list(done.files),
                "computed": done.computed,
                "cells": done.cells,
                "notes": list(done.notes),
            }
        )
    else:
        sentence = (
            f"{done.computed} cells computed, {done.cells} available: "
            f"{', '.join(str(output / name) for name in done.files)}"
        )
        terminal.print_paragraph(console, "\n".join([sentence, *done.notes]))


def _fetch(console: Any, data: Path | None, names: Sequence[str] = ()) -> None:
    """Fetch the data sets that the folder lacks."""
    from paper.arguments import check_names
    from paper.cifar_data import DATA_SETS, TITLES, download_sets
    from unskew.cli import terminal
    from unskew.errors import ConfigError

    if data is None:
        raise ConfigError(
            "--download saves CIFAR in the folder that --data names: add --data FOLDER.",
            option="--download",
        )
    check_names("data set", names, DATA_SETS)
    for name in download_sets(data, names or DATA_SETS):
        terminal.print_paragraph(console, f"{TITLES[name]} fetched into {data}.")


def run_paper(arguments: list[str]) -> int:
    """Run one command of the article and return its exit code."""
    return run_command(arguments, app)


if __name__ == "__main__":
    raise SystemExit(run_paper(sys.argv[1:]))
