"""The command line: parses, calls the pipeline, prints."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unskew import cli_paper
from unskew.errors import UnreadableError
from unskew.explaining import DONE, NOT_IDENTIFIABLE, STOPPED, UNUSABLE, explain, print_json, remarks, say_stopped

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

Places = Annotated[
    list[Path],
    typer.Argument(
        metavar="FOLDER|FILE",
        show_default=False,
        help="Folders of images, one a source, or a table (CSV, Parquet, JSONL, COCO JSON, npz).",
    ),
]
Configuration = Annotated[
    Path, typer.Argument(metavar="RUN.TOML", show_default=False, help="The configuration, as `unskew init` writes it.")
]
Results = Annotated[Path, typer.Argument(metavar="RESULTS", show_default=False, help="The folder that `unskew weigh` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, and nothing printed but errors (and JSON).")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Of everything random; overrides \\[engine] seed.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Cores to use; all of them by default.")]
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
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a name still shows the rest.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    raise SystemExit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    as_json = "--json" in arguments
    try:
        # typer turns Ctrl-C into this code, or into an Abort.
        code = int(app(arguments, standalone_mode=False) or DONE)
        return say_stopped(as_json) if code == STOPPED else code
    except (KeyboardInterrupt, Exception) as error:
        return explain(error, as_json)


def _progress(quiet: bool, as_json: bool = False) -> bool | None:
    """A bar where there is a terminal, unless nothing else shall be printed."""
    return False if quiet or as_json else None


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

    with remarks(quiet):
        description = pipeline.describe_places(places, quick=quick, download=download, jobs=jobs, progress=_progress(quiet, as_json))
    if as_json:
        print_json(description.to_dict())
    elif not quiet:
        terminal.print_description(terminal.open_console(), description)


@app.command()
def init(
    places: Places,
    output: Annotated[Path, typer.Option("--output", "-o", help="The configuration to write.")] = Path("run.toml"),
    overwrite: Overwrite = False,
    download: Download = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a starting configuration from what was found, with comments to learn from.

    It runs as it stands: `unskew weigh run.toml -o results`. What it says about the target is a guess, to be replaced by what you know.
    """
    from unskew import pipeline, terminal

    with remarks(quiet):
        pipeline.write_starting_config(places, output, overwrite=overwrite, download=download)
    if as_json:
        print_json({"configuration": str(output)})
    elif not quiet:
        terminal.print_started(terminal.open_console(), output)


@app.command()
def check(configuration: Configuration, as_json: AsJson = False, quiet: Quiet = False, seed: Seed = None, jobs: Jobs = None) -> int:
    """Can this be debiased? Exit code 0: yes; 3: no, and which sources lack a link or which target mass is uncovered."""
    from unskew import pipeline, terminal

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        run = pipeline.weigh_inputs(pipeline.read_inputs(config, progress=_progress(quiet, as_json)))
    if as_json:
        print_json(pipeline.verdict_record(run))
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

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        pipeline.check_output(output, overwrite, configuration)
        try:
            inputs = pipeline.read_inputs(config, progress=_progress(quiet, as_json))
        except UnreadableError as error:
            raise _listed(error, output) from error
        run = pipeline.weigh_inputs(inputs, command=_command())
        written = pipeline.write_run(run, output)
    if as_json:
        print_json(pipeline.verdict_record(run) | {"folder": str(output), "files": written})
    elif not quiet:
        terminal.print_run(terminal.open_console(), run.summary, output, written)
    return NOT_IDENTIFIABLE if isinstance(run, pipeline.Refusal) else DONE


@app.command()
def export(
    results: Results,
    to: Annotated[Format, typer.Option("--to", help="The format.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File or folder to write; default: beside the weights.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Weights in another format: CSV, JSONL, a table of class weights, a Hugging Face dataset, WebDataset shards."""
    from unskew import pipeline, terminal

    with remarks(quiet):
        written = pipeline.export_results(results, to.value, output, overwrite=overwrite, progress=_progress(quiet, as_json))
    if as_json:
        print_json({"path": str(written.path), "images": written.images, "notes": list(written.notes)})
    elif not quiet:
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

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        parts = pipeline.read_shares(shares)
        counts = pipeline.write_splits(config, output, parts, overwrite=overwrite, progress=_progress(quiet, as_json))
    if as_json:
        print_json(counts)
    elif not quiet:
        terminal.print_splits(terminal.open_console(), counts, output)


@app.command()
def verify(
    results: Results,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Where the paths of run.toml start, if the data lie elsewhere now than when it was written."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> int:
    """Recompute the weights from the fingerprinted inputs and check every claim of the report. Exit code 4: something differs."""
    from unskew import terminal, verifying

    with remarks(quiet):
        checks = verifying.verify_run(results, data=data, jobs=jobs, progress=_progress(quiet, as_json))
    good = all(each.ok for each in checks)
    if as_json:
        print_json({"ok": good, "checks": [each.to_dict() for each in checks]})
    elif not quiet or not good:
        terminal.print_checks(terminal.open_console(), checks, only_wrong=quiet)
    return DONE if good else UNUSABLE


@app.command("forecast")
def predict_gain(
    configuration: Configuration,
    arms: Annotated[
        str, typer.Option("--arms", help="Ways to weight that are compared, beside naive and debiased: names of baselines, or all.")
    ] = "naive,debiased",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for forecast.json; made when it is not there.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> None:
    """What will reweighting bring? Predicted before anything is trained, from linear probes on the features.

    The accuracy of each way to weight on the target, with its error, and a recommendation in words. Everything rests on the bias model.
    """
    from unskew import pipeline, probing, terminal

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        inputs = pipeline.read_inputs(config, progress=_progress(quiet, as_json))
        named = [name.strip() for name in arms.split(",") if name.strip()]
        found = probing.forecast_inputs(inputs, named, progress=_progress(quiet, as_json))
        if output is not None:
            pipeline.write_record(found.to_dict(), output, "forecast.json")
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.print_paragraph(terminal.open_console(quiet), "\n".join(map(terminal.visible, found.lines())))


@app.command("rehearse")
def rehearse_sources(
    configuration: Configuration,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for rehearsal.json; made when it is not there.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> None:
    """Does this bias model transfer on your data? Each source in turn is the target, the others are weighted to it.

    The accuracy that is predicted without its labels, beside the true one on it, for naive and debiased training.
    """
    from unskew import pipeline, probing, terminal

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        inputs = pipeline.read_inputs(config, progress=_progress(quiet, as_json))
        found = probing.rehearse_inputs(inputs, progress=_progress(quiet, as_json))
        if output is not None:
            pipeline.write_record(found.to_dict(), output, "rehearsal.json")
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.print_paragraph(terminal.open_console(quiet), "\n".join(map(terminal.visible, found.lines())))


@app.command("evaluate")
def judge_predictions(
    results: Results,
    predictions: Annotated[
        Path,
        typer.Option("--predictions", "-p", help="Table: id, prediction and/or score or score_<class>; y where the weights have no label."),
    ],
    second: Annotated[Path | None, typer.Option("--second", help="The predictions of another model: the two are compared.")] = None,
    by: Annotated[list[str] | None, typer.Option("--by", help="Also by this column (an attribute or feature); may be repeated.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="The split to judge. Default: test, else all but train; or all.")] = None,
    truth: Annotated[str | None, typer.Option("--truth", help="y (of the predictions) or label (of the weights), if they differ.")] = None,
    positive: Annotated[str | None, typer.Option("--positive", help="Of two classes, the one to find. Default: the last.")] = None,
    regression: Annotated[
        bool | None, typer.Option("--regression/--classification", show_default=False, help="Numbers or classes? By default seen from y.")
    ] = None,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Judge the images that have a prediction.")] = False,
    allow_extra: Annotated[bool, typer.Option("--allow-extra", help="Leave predictions of unknown images aside.")] = False,
    replicates: Annotated[int, typer.Option("--replicates", min=0, help="Bootstrap replicates behind the intervals.")] = 1000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for metrics.json; made when it is not there.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")] = 0,
) -> None:
    """How good are these predictions on the target? Anybody's model: weights in, predictions back.

    Weighted accuracy, balanced accuracy, AUROC and more, with intervals, beside the plain figures: over all, by source, by class and by any
    column; the difference of two models.
    """
    from unskew import evaluating, terminal

    with remarks(quiet):
        if output is not None:
            evaluating.check_place(output, overwrite)
        found = evaluating.evaluate_run(
            results,
            predictions,
            second=second,
            by=by or (),
            split=split,
            truth=truth,
            positive=positive,
            regression=regression,
            allow_missing=allow_missing,
            allow_extra=allow_extra,
            replicates=replicates,
            seed=seed,
        )
        written = None if output is None else evaluating.write_metrics(found, output, overwrite=overwrite)
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        terminal.print_evaluation(terminal.open_console(), found, written)


@app.command("report")
def show_again(results: Results, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Write the page again from report.json."""
    from unskew import pipeline, terminal

    with remarks(quiet):
        page = pipeline.write_page_again(results)
    if as_json:
        print_json({"page": str(page)})
    elif not quiet:
        terminal.print_place(terminal.open_console(), page)


app.add_typer(cli_paper.simulate_app)
app.add_typer(cli_paper.paper_app)


@app.command("demo")
def show_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the images and the results.")] = Path("unskew-demo"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
) -> None:
    """The whole way on embedded data: digits from three biased cameras, described, checked, weighed, reported, learned.

    Each step prints the command that does the same on your data.
    """
    from unskew import pipeline, terminal
    from unskew.demo import CAMERAS, SEEDS, compare_learners, describe_scores, prepare_demo

    configuration, results = prepare_demo(output), output / "results"
    console, progress = terminal.open_console(quiet or as_json), _progress(quiet, as_json)
    command = f"unskew weigh {configuration} -o {results}"
    with remarks(quiet):
        terminal.print_heading(console, f"unskew describe {' '.join(str(output / name) for name in CAMERAS)}")
        told = pipeline.describe_places([output / name for name in CAMERAS], jobs=jobs, progress=progress)
        terminal.print_description(console, told)
        terminal.print_heading(console, f"unskew check {configuration}")
        run = pipeline.weigh_inputs(
            pipeline.read_inputs(pipeline.load_config(configuration, jobs=jobs), progress=progress), command=command
        )
        terminal.print_check(console, run.summary)
        terminal.print_heading(console, command)
        terminal.print_written(console, results, pipeline.write_run(run, results))
        terminal.print_heading(console, "What it is worth: logistic regression, scored on pictures drawn without bias")
        scores = [compare_learners(seed) for seed in SEEDS]
        terminal.print_paragraph(console, "\n".join(describe_scores(scores)))
    page = (results / "report.html").resolve()
    terminal.print_paragraph(console, f"\nThe page: {page}")
    if as_json:
        print_json({"page": str(page), "scores": [{name: asdict(each) for name, each in trial.items()} for trial in scores]})


def _listed(error: UnreadableError, output: Path) -> UnreadableError:
    """The same, once the images that cannot be used stand in a file."""
    from unskew.pipeline import write_unreadable

    if error.set_aside is None:
        return error
    return UnreadableError(f"{error} All of those found are listed in {write_unreadable(error.set_aside, output)}.", error.set_aside)


def _command() -> str:
    import shlex

    return shlex.join(["unskew", *sys.argv[1:]])
