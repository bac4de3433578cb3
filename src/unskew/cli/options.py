"""What several commands share: arguments, options, progress bars, the command as it was typed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.errors import ConfigError, CoverageError, OverlapError

if TYPE_CHECKING:
    from unskew.report.summary.record import Summary

Places = Annotated[
    list[Path],
    typer.Argument(
        metavar="FOLDER|FILE",
        show_default=False,
        help="Folders of images, one a source, or a table (CSV, Parquet, JSONL, COCO JSON, npz).",
    ),
]
Configuration = Annotated[
    Path,
    typer.Argument(
        metavar="RUN.TOML",
        show_default=False,
        help="The configuration, as `unskew init` writes it.",
    ),
]
Results = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS", show_default=False, help="The folder that `unskew weigh` wrote."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for machines instead of text.")
]
AsMarkdown = Annotated[
    bool,
    typer.Option("--markdown", help="Print Markdown, for a pull request or the summary of a job."),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress bar, and nothing printed but errors (and JSON)."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Of everything random; overrides \\[engine] seed."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Cores to use; all of them by default.")
]
MostCells = Annotated[
    int | None,
    typer.Option(
        "--cells",
        min=1,
        show_default=False,
        help="Of mixture: the most cells. Default: weights within a cell differ by at most 5%.",
    ),
]
OneTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        show_default=False,
        help="Of several targets (\\[targets.NAME]) this one alone. Default: all in check, weigh "
        "and evaluate, else the first.",
    ),
]
Replicates = Annotated[
    int, typer.Option("--replicates", min=0, help="Bootstrap replicates behind the intervals.")
]
Download = Annotated[
    bool,
    typer.Option(
        "--download", help="Fetch a missing CIFAR archive from its home page, and check it."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        show_default=False,
        help="Where the paths of run.toml start, if the data have been moved since it was written.",
    ),
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-code",
        metavar="NAME",
        help="A module, or file of a network, next to the configuration or in the working "
        "directory that may run; repeatable.",
    ),
]
UseAnyway = Annotated[
    bool,
    typer.Option(
        "--force", help="Use the files also if they are not those that one run wrote (files.json)."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files or folders.")]


def shows_progress(quiet: bool, as_json: bool = False) -> bool | None:
    """Return None (a bar where there is a terminal), or False if nothing shall be printed."""
    return False if quiet or as_json else None


def check_one_form(as_json: bool, as_markdown: bool) -> None:
    """Refuse two forms of output at once."""
    if as_json and as_markdown:
        raise ConfigError("--json and --markdown are two forms of one output; choose one.")


def written_command() -> str:
    """Return the command as it was typed, to be kept with its results."""
    import shlex

    return shlex.join(["unskew", *sys.argv[1:]])


def summary_of_refusal(error: OverlapError | CoverageError) -> Summary:
    """Return what the page of a refused run shows; an error of another step is raised again."""
    if error.summary is None:
        raise error
    summary: Summary = error.summary
    return summary
