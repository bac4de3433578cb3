"""The command line: parses, calls the pipeline, prints. Exit codes: 0 done; 2 wrong call or configuration; 3 not identifiable;
4 data unusable; 130 stopped by Ctrl-C; 1 a bug of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
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

Places = Annotated[list[Path], typer.Argument(help="Folders of images, one a source, or a table (CSV, Parquet, JSONL, COCO JSON, npz).")]
Configuration = Annotated[Path, typer.Argument(help="The configuration, as `unskew init` writes it.")]
Results = Annotated[Path, typer.Argument(help="The folder that `unskew weigh` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, and nothing printed but errors (and JSON).")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of everything random; overrides \\[engine] seed.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Cores to use; all of them by default.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch a CIFAR archive that is not there from its home page, and check it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


class Format(StrEnum):
    """What `unskew export` writes."""

    csv = "csv"
    jsonl = "jsonl"
    class_weights = "class-weights"
    hf = "hf"
    webdataset = "webdataset"


def main() -> None:
    """The entry point: runs the command and turns every error into words and an exit code."""
    raise SystemExit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        # typer turns Ctrl-C into this code, or into an Abort.
        code = int(app(arguments, standalone_mode=False) or DONE)
        return _say_stopped() if code == STOPPED else code
    except KeyboardInterrupt:
        _complain("Stopped. No file was left half-written, and what was computed is kept: run the same command again to go on from there.")
        return STOPPED
    except Exception as error:
        return _explain(error)


def _say_stopped() -> int:
    _complain("Stopped. No file was left half-written, and what was computed is kept: run the same command again to go on from there.")
    return STOPPED


def _explain(error: Exception) -> int:
    """Print what went wrong, and say which exit code that is."""
    # typer brings click along under one name or another, so its exceptions are known by what they carry.
    code = getattr(error, "exit_code", None)
    if type(error).__name__ == "Abort":
        return _say_stopped()
    if code is not None:
        if hasattr(error, "show"):
            error.show()
        return int(code)
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
def _remarks(quiet: bool) -> Iterator[None]:
    """Warnings of the library as one line each, without the place in our code; none where nothing is to be printed."""
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            _remark(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _progress(quiet: bool, as_json: bool = False) -> bool | None:
    """A bar where there is a terminal, unless nothing else shall be printed."""
    return False if quiet or as_json else None


def _remark(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text("note: ", style="bold yellow") + Text(text))


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@app.command()
def describe(
    places: Places,
    quick: Annotated[bool, typer.Option("--quick", help="Read file headers only: no image properties but the size.")] = False,
    download: Download = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> None:
    """What is in these databases: sizes, classes, image properties, copies, unreadable files.

    One folder is one source, named like the folder; its subfolders are classes. A single folder whose subfolders hold class folders of
    their own is taken apart into one source for each subfolder.
    """
    from unskew import pipeline, terminal

    with _remarks(quiet):
        description = pipeline.describe_places(places, quick=quick, download=download, jobs=jobs, progress=_progress(quiet, as_json))
    if as_json:
        _print_json(description.to_dict())
    elif not quiet:
        terminal.print_description(terminal.open_console(), description)


@app.command()
def init(
    places: Places,
    output: Annotated[Path, typer.Option("--output", "-o", help="The configuration to write.")] = Path("run.toml"),
    overwrite: Overwrite = False,
    download: Download = False,
    quiet: Quiet = False,
) -> None:
    """Write a starting configuration from what was found, with comments to learn from.

    It runs as it stands: `unskew weigh run.toml -o results`. What it says about the target is a guess, to be replaced by what you know.
    """
    from unskew import pipeline, terminal

    with _remarks(quiet):
        pipeline.write_starting_config(places, output, overwrite=overwrite, download=download)
    if not quiet:
        terminal.print_started(terminal.open_console(), output)


@app.command()
def check(configuration: Configuration, as_json: AsJson = False, quiet: Quiet = False, seed: Seed = None, jobs: Jobs = None) -> int:
    """Can this be debiased? Exit code 0: yes; 3: no, and which sources lack a link or which target mass is uncovered."""
    from unskew import pipeline, terminal

    with _remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        run = pipeline.check_inputs(pipeline.read_inputs(config, progress=_progress(quiet, as_json)))
    if as_json:
        _print_json(pipeline.verdict_record(run))
    elif not quiet:
        terminal.print_check(terminal.open_console(), run.summary)
    return NOT_IDENTIFIABLE if isinstance(run, pipeline.Refusal) else DONE


@app.command("weigh")
def give_weights(
    configuration: Configuration,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; made when it is not there.")],
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> int:
    """Give every image one weight, and write a page that shows everything.

    Writes weights.parquet, solution.json, diagnostics.parquet, features.parquet, run.toml as resolved, report.html and report.json. Where
    the target is not identifiable (exit code 3) the page says why, and there are no weights.
    """
    from unskew import pipeline, terminal

    with _remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        pipeline.check_output(output, overwrite)
        inputs = pipeline.read_inputs(config, progress=_progress(quiet, as_json))
        run = pipeline.weigh_inputs(inputs, command=_command())
        written = pipeline.write_run(run, output)
    if as_json:
        _print_json(pipeline.verdict_record(run) | {"folder": str(output), "files": written})
    elif not quiet:
        terminal.print_run(terminal.open_console(), run.summary, output, written)
    return NOT_IDENTIFIABLE if isinstance(run, pipeline.Refusal) else DONE


@app.command()
def export(
    results: Results,
    to: Annotated[Format, typer.Option("--to", help="The format.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File or folder to write; default: beside the weights.")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Weights in another format: CSV, JSONL, a table of class weights, a Hugging Face dataset, WebDataset shards."""
    from unskew import pipeline, terminal

    with _remarks(quiet):
        written = pipeline.export_results(results, to.value, output, overwrite=overwrite, progress=_progress(quiet))
    if not quiet:
        terminal.print_export(terminal.open_console(), written)


@app.command("split")
def deal_splits(
    configuration: Configuration,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write: id, source, path, split.")] = Path("splits.csv"),
    shares: Annotated[str, typer.Option("--shares", help="Names and shares of the splits.")] = "train=0.7,validation=0.15,test=0.15",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> None:
    """Train, validation and test that keep groups and copies together and are alike in sources and strata.

    Use it with `split = { file = "splits.csv" }` in [sources].
    """
    from unskew import pipeline, terminal

    with _remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        parts = pipeline.read_shares(shares)
        counts = pipeline.write_splits(config, output, parts, overwrite=overwrite, progress=_progress(quiet, as_json))
    if as_json:
        _print_json(counts)
    elif not quiet:
        terminal.print_splits(terminal.open_console(), counts, output)


@app.command()
def verify(results: Results, as_json: AsJson = False, quiet: Quiet = False, jobs: Jobs = None) -> int:
    """Recompute the weights from the fingerprinted inputs and check every claim of the report. Exit code 4: something differs."""
    from unskew import terminal, verifying

    with _remarks(quiet):
        checks = verifying.verify_run(results, jobs=jobs)
    good = all(each.ok for each in checks)
    if as_json:
        _print_json({"ok": good, "checks": [each.to_dict() for each in checks]})
    elif not quiet or not good:
        terminal.print_checks(terminal.open_console(), checks)
    return DONE if good else UNUSABLE


@app.command("report")
def show_again(results: Results, quiet: Quiet = False) -> None:
    """Write the page again from report.json."""
    from unskew import pipeline, terminal

    page = pipeline.write_page_again(results)
    if not quiet:
        terminal.print_place(terminal.open_console(), page)


@app.command("demo")
def show_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the images and the results.")] = Path("unskew-demo"),
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> None:
    """The whole way on embedded data: digits from three biased cameras, described, checked, weighed, reported, learned.

    Each step prints the command that does the same on your data.
    """
    from unskew import pipeline, terminal
    from unskew.demo import CAMERAS, SEEDS, compare_learners, describe_scores, prepare_demo

    configuration = prepare_demo(output)
    console = terminal.open_console(quiet)
    with _remarks(quiet):
        terminal.print_heading(console, f"unskew describe {' '.join(str(output / name) for name in CAMERAS)}")
        told = pipeline.describe_places([output / name for name in CAMERAS], jobs=jobs, progress=_progress(quiet))
        terminal.print_description(console, told)
        terminal.print_heading(console, f"unskew check {configuration}")
        config = pipeline.load_config(configuration, jobs=jobs)
        inputs = pipeline.read_inputs(config, progress=_progress(quiet))
        run = pipeline.weigh_inputs(inputs, command=f"unskew weigh {configuration} -o {output / 'results'}")
        terminal.print_check(console, run.summary)
        terminal.print_heading(console, f"unskew weigh {configuration} -o {output / 'results'}")
        terminal.print_written(console, output / "results", pipeline.write_run(run, output / "results"))
        terminal.print_heading(console, "What it is worth: logistic regression, scored on pictures drawn without bias")
        terminal.print_paragraph(console, "\n".join(describe_scores([compare_learners(seed) for seed in SEEDS])))
    terminal.print_paragraph(console, f"\nThe page: {(output / 'results' / 'report.html').resolve()}")


def _command() -> str:
    import shlex

    return shlex.join(["unskew", *sys.argv[1:]])
