"""The command line: parses, calls the pipeline, prints. Exit codes: 0 done; 2 wrong call or configuration; 3 not identifiable;
4 data unusable; 130 stopped by Ctrl-C; 1 a bug of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError, OverlapError, UnskewError

app = typer.Typer(
    name="unskew",
    help="Learn from several biased image databases as if they were one unbiased one: one exact weight for every image.",
    epilog="Begin with [bold]unskew demo[/], or with [bold]unskew init photos/north photos/south -o run.toml[/], edit run.toml, "
    "then [bold]unskew weigh run.toml -o results[/].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DONE, BUG, WRONG_CALL, NOT_IDENTIFIABLE, UNUSABLE, STOPPED = 0, 1, 2, 3, 4, 130

Places = Annotated[list[Path], typer.Argument(help="Folders of images, one for each source, or a table (CSV, Parquet, JSONL, COCO JSON, npz).")]
Configuration = Annotated[Path, typer.Argument(help="The configuration, as `unskew init` writes it.")]
Results = Annotated[Path, typer.Argument(help="The folder that `unskew weigh` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, and nothing printed but errors (and JSON).")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of everything random; overrides \\[engine] seed.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Cores to use; all of them by default.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def main() -> None:
    """The entry point: runs the command and turns every error into words and an exit code."""
    raise SystemExit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        return int(app(arguments, standalone_mode=False) or DONE)
    except KeyboardInterrupt:
        _complain(
            "Stopped. No file was left half-written, and what was computed is kept: run the same command again to go on from there."
        )
        return STOPPED
    except Exception as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    """Print what went wrong, and say which exit code that is."""
    import click

    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.Abort):
        return STOPPED
    if isinstance(error, click.ClickException):
        error.show()
        return WRONG_CALL
    if isinstance(error, BrokenPipeError):
        # Somebody reads the first lines only (`unskew describe … | head`): that is no error, and nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    if isinstance(error, UnskewError | OSError | MemoryError):
        _complain(_words(error))
        return exit_code(error)
    import traceback

    traceback.print_exception(error)
    _complain("This is a bug in unskew, not a mistake of yours. Please report it with the lines above and the command.")
    return BUG


def exit_code(error: BaseException) -> int:
    """Which exit code an error stands for."""
    if isinstance(error, ConfigError):
        return WRONG_CALL
    if isinstance(error, OverlapError | CoverageError | ConvergenceError):
        return NOT_IDENTIFIABLE
    return UNUSABLE if isinstance(error, DataError | OSError | MemoryError) else BUG


def _words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Use fewer features or sources at once, or a machine with more."
    if isinstance(error, OSError) and not isinstance(error, UnskewError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}. Nothing was left half-written; put that right and run the same command again."
    return str(error)


def _complain(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text("unskew: ", style="bold red") + Text(text))


@contextmanager
def _settled(quiet: bool, as_json: bool) -> Iterator[None]:
    """Progress bars off where they would disturb; warnings of the library as one line each."""
    import warnings

    from unskew import progress

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            _remark(str(message))

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        with progress.quiet() if quiet or as_json else progress.shown():
            yield
    finally:
        warnings.showwarning = before


def _remark(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text("note: ", style="bold yellow") + Text(text))


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
