"""The command line: parses, calls `unskew.run` and its like, prints."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.cli import learning as cli_learning
from unskew.cli import simulation as cli_simulation
from unskew.cli.addresses import local_arguments
from unskew.cli.advise import advise_run
from unskew.cli.choose import choose_model
from unskew.cli.compare import compare_results
from unskew.cli.error_messages import (
    DONE,
    NOT_IDENTIFIABLE,
    UNUSABLE,
    explain,
    print_json,
    remarks,
    say_stopped,
)
from unskew.cli.evaluate import evaluate_model
from unskew.cli.export import export_results
from unskew.cli.markdown import summary_markdown
from unskew.cli.monitor import watch_images
from unskew.cli.options import (
    Common,
    Configuration,
    Data,
    Download,
    Places,
    Results,
    summary_of_refusal,
    taking,
    written_command,
)
from unskew.cli.stop_signal import STOPPED
from unskew.cli.train import train_network
from unskew.errors import CoverageError, OverlapError

if TYPE_CHECKING:
    from unskew.runs.part_plan import Plan

app = typer.Typer(
    name="unskew",
    help="Learn from several biased image databases as if they were one unbiased one: one exact "
    "weight for every image.",
    epilog="Begin with [bold]unskew demo[/], or with [bold]unskew init photos/north photos/south "
    "-o run.toml[/], edit run.toml, then [bold]unskew weigh run.toml -o results[/].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run_from_shell() -> None:
    """Run the command that was typed, and turn every error into a message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a name still shows the rest.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    raise SystemExit(run_command(sys.argv[1:]))


def run_command(arguments: list[str], commands: typer.Typer = app) -> int:
    """Run one command; return its exit code."""
    as_json = "--json" in arguments
    try:
        # typer turns Ctrl-C into this code, or into an Abort.
        with local_arguments(arguments) as local:
            code = int(commands(local, standalone_mode=False) or DONE)
        sys.stdout.flush()  # nobody may be reading any more
        return say_stopped(as_json, arguments) if code == STOPPED else code
    except SystemExit as stop:
        # So rich and typer end where nobody reads any more (`| head -1`).
        if isinstance(stop.__context__, BrokenPipeError):
            return explain(stop.__context__, as_json, arguments)
        raise
    except (KeyboardInterrupt, Exception) as error:
        return explain(error, as_json, arguments)


def _print_version(wanted: bool) -> None:
    if wanted:
        from unskew import __version__

        typer.echo(f"unskew {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass  # the options before the command; each command is a function of its own


@app.command()
@taking("as_json", "quiet", "jobs")
def describe(
    places: Places,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Read file headers only: no image properties but the size."),
    ] = False,
    download: Download = False,
    *,
    common: Common,
) -> None:
    """Describe databases: sizes, classes, image properties, copies, unreadable files.

    One folder is one source, named like the folder; its subfolders are classes. A single folder
    whose subfolders hold class folders of their own is taken apart into one source for each
    subfolder.
    """
    from unskew.cli import terminal
    from unskew.runs.first_look import describe_folders

    with remarks(common.quiet):
        description = describe_folders(
            places, quick=quick, download=download, jobs=common.jobs, progress=common.bar
        )
    if common.as_json:
        print_json(description.to_dict())
    elif not common.quiet:
        terminal.print_description(terminal.open_console(), description)


@app.command()
@taking("as_json", "quiet", "overwrite")
def init(
    places: Places,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The configuration to write.")
    ] = Path("run.toml"),
    download: Download = False,
    *,
    common: Common,
) -> None:
    """Write a commented configuration for these databases, and try whether it runs.

    Then: `unskew check run.toml`. What it says about the target is a placeholder, to be replaced
    by what you know.
    """
    from unskew.cli import terminal
    from unskew.files.locks import path_locked
    from unskew.runs.first_look import write_starting_config

    with path_locked(output), remarks(common.quiet):
        start = write_starting_config(
            places, output, overwrite=common.overwrite, download=download, progress=common.bar
        )
    if common.as_json:
        print_json({"configuration": str(output), **asdict(start)})
    elif not common.quiet:
        terminal.print_started(terminal.open_console(), output, start)


@app.command()
@taking("target", "engine", "as_json", "as_markdown", "quiet", "seed", "allow_code", "jobs")
def check(configuration: Configuration, *, common: Common) -> int:
    """Check whether this can be debiased.

    Exit code 0: yes; 3: no, and which sources lack a link or which target mass is uncovered. Of
    several targets each is judged, and one that is not identifiable is enough for a no.
    """
    from unskew.cli import terminal
    from unskew.runs.output import verdict_record
    from unskew.runs.pipeline import check_config

    with remarks(common.quiet):
        config = common.load(configuration, forecast=False)
        try:
            summary, code = check_config(config, progress=common.bar), DONE
        except (OverlapError, CoverageError) as error:
            summary, code = summary_of_refusal(error), NOT_IDENTIFIABLE
    if common.as_json:
        print_json(verdict_record(summary))
    elif common.as_markdown:
        typer.echo(summary_markdown(summary))
    elif not common.quiet:
        terminal.print_check(terminal.open_console(), summary)
    return code


@app.command("weigh")
@taking(
    *("target", "engine", "as_json", "as_markdown", "quiet"),
    *("seed", "allow_code", "jobs", "overwrite"),
)
def give_weights(
    configuration: Configuration,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the results; created if necessary.")
    ],
    forecast: Annotated[
        bool | None,
        typer.Option(
            "--forecast/--no-forecast",
            show_default=False,
            help="Also show the forecast of `unskew forecast` on the page.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With sources.parquet: print blocks, bytes, passes and memory, and do nothing.",
        ),
    ] = False,
    *,
    common: Common,
) -> int:
    """Give every image one weight, and write a page that shows everything.

    Writes weights.parquet, memberships.parquet, solution.json, diagnostics.parquet,
    features.parquet, map.parquet (with two numeric features or more), run.toml as resolved,
    report.html and report.json; for each further target
    weights-NAME.parquet, memberships-NAME.parquet and solution-NAME.json. Where a target is not
    identifiable (exit code 3) the page says why, and there are no weights.
    """
    from unskew.cli import terminal
    from unskew.runs.output import files_of_refusal, verdict_record
    from unskew.runs.part_plan import plan_run
    from unskew.runs.pipeline import run

    bar = common.bar
    with remarks(common.quiet):
        config = common.load(configuration, forecast=forecast)
        if dry_run:
            return _print_plan(plan_run(config), common.as_json)
        try:
            done = run(
                config, output, overwrite=common.overwrite, command=written_command(), progress=bar
            )
            summary, written, code = done.summary, list(done.files), DONE
        except (OverlapError, CoverageError) as error:
            summary, written = summary_of_refusal(error), files_of_refusal(output)
            code = NOT_IDENTIFIABLE
    if common.as_json:
        print_json(verdict_record(summary) | {"folder": str(output), "files": written})
    elif common.as_markdown:
        typer.echo(summary_markdown(summary))
    elif not common.quiet:
        terminal.print_run(terminal.open_console(), summary, output, written)
    return code


def _print_plan(plan: Plan, as_json: bool) -> int:
    from unskew.cli import terminal

    if as_json:
        print_json(asdict(plan))
    else:
        terminal.print_lines(terminal.open_console(), plan.lines())
    return DONE


app.command("advise")(advise_run)
app.command("rehearse")(cli_learning.rehearse_sources)
app.command("forecast")(cli_learning.predict_gain)
app.command("train")(train_network)
app.command("choose")(choose_model)
app.command("compare")(compare_results)
app.command("evaluate")(evaluate_model)
app.command("export")(export_results)
app.command("monitor")(watch_images)


@app.command("split")
@taking("as_json", "quiet", "seed", "allow_code", "jobs", "overwrite")
def assign_splits(
    configuration: Configuration,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The table to write: id, source, path, split.")
    ] = Path("splits.csv"),
    shares: Annotated[
        str, typer.Option("--shares", help="Names and shares of the splits.")
    ] = "train=0.7,validation=0.15,test=0.15",
    *,
    common: Common,
) -> None:
    r"""Assign images to train, validation and test.

    Groups and copies stay together, and the splits are alike in sources and strata. Use the table
    with `split = { file = "splits.csv" }` in \[sources].
    """
    from unskew.cli import terminal
    from unskew.runs.splits import read_shares, write_splits

    with remarks(common.quiet):
        config = common.load(configuration)
        parts = read_shares(shares)
        counts = write_splits(
            config, output, parts, overwrite=common.overwrite, progress=common.bar
        )
    if common.as_json:
        print_json(counts)
    elif not common.quiet:
        terminal.print_splits(terminal.open_console(), counts, output)


@app.command()
@taking("as_json", "quiet", "allow_code", "jobs")
def verify(results: Results, data: Data = None, *, common: Common) -> int:
    """Recompute the weights from the fingerprinted inputs, and check every claim of the report.

    Exit code 4: something differs.
    """
    from unskew.cli import terminal
    from unskew.runs.verification import verify_run

    with remarks(common.quiet):
        checks = verify_run(
            results, data=data, jobs=common.jobs, progress=common.bar, allow_code=common.allowed
        )
    good = all(check.ok for check in checks)
    if common.as_json:
        print_json({"ok": good, "checks": [check.to_dict() for check in checks]})
    elif not common.quiet or not good:
        terminal.print_checks(terminal.open_console(), checks, only_wrong=common.quiet)
    return DONE if good else UNUSABLE


@app.command("report")
@taking("as_json", "quiet", "force")
def show_again(results: Results, *, common: Common) -> None:
    """Write the page again from report.json, with forecast and rehearsal in the same folder."""
    from unskew.cli import terminal
    from unskew.runs.page_panels import write_page_again

    with remarks(common.quiet):
        page = write_page_again(results, force=common.force)
    if common.as_json:
        print_json({"page": str(page)})
    elif not common.quiet:
        terminal.print_place(terminal.open_console(), page)


app.add_typer(cli_simulation.simulate_app)


@app.command("demo")
@taking("as_json", "quiet", "jobs")
def show_demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the images and the results.")
    ] = Path("unskew-demo"),
    *,
    common: Common,
) -> None:
    """Show every step on built-in data: describe, check, weigh, report, forecast, learn.

    The data are digits photographed by three biased cameras. Each step prints the command that does
    the same on your data.
    """
    from unskew.cli import terminal
    from unskew.cli.demo import walk_through
    from unskew.files.locks import path_locked

    with path_locked(output), remarks(common.quiet):
        shown = walk_through(
            output,
            terminal.open_console(common.quiet or common.as_json),
            jobs=common.jobs,
            progress=common.bar,
        )
    if common.as_json:
        print_json(shown)
