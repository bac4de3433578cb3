"""The commands that look ahead of training: forecast and rehearse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.markdown import forecast_markdown
from unskew.cli.options import Common, Configuration, taking, written_command


@taking("target", "as_json", "as_markdown", "quiet", "seed", "allow_code", "jobs")
def predict_gain(
    configuration: Configuration,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            help="Arms to compare: naive, debiased, and baselines by name; or all.",
        ),
    ] = "naive,debiased",
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner", help="A scikit-learn classifier as module:name. Default: a linear probe."
        ),
    ] = None,
    way: Annotated[
        str | None,
        typer.Option(
            "--way",
            help="How debiased learns from the weights: weights, half, logit, or auto, the best of "
            "them. Default: way of \\[learn].",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for forecast.json, such as that of the run; created if necessary.",
        ),
    ] = None,
    *,
    common: Common,
) -> None:
    """Forecast, before training, what reweighting will bring, from linear probes on the features.

    It shows the accuracy of each way to weight on the target, with its error, and a recommendation.
    Everything rests on the bias model. If the folder contains a run of the same inputs, its page
    shows the forecast from then on.
    """
    from unskew.cli import terminal
    from unskew.files.locks import folder_locked
    from unskew.files.user_code import permit_code
    from unskew.learn.ways import check_way
    from unskew.runs.forecast import forecast_record
    from unskew.runs.inputs import read_inputs
    from unskew.runs.output import FORECAST
    from unskew.runs.page_panels import write_with_panel

    with folder_locked(output), remarks(common.quiet):
        config = common.load(configuration)
        if learner is not None:
            permit_code(learner, common.allowed, [config.folder], typed=True)
        bar = common.bar
        inputs = read_inputs(config, progress=bar, beyond="sample")
        named = [name.strip() for name in arms.split(",") if name.strip()]
        forecast, record = forecast_record(
            inputs,
            named,
            learner,
            None if way is None else check_way(way),
            command=written_command(),
            progress=bar,
        )
        page = None if output is None else write_with_panel(record, output, FORECAST)
    if common.as_json:
        print_json(record)
        return
    if common.as_markdown:
        typer.echo(forecast_markdown(forecast))
        return
    console = terminal.open_console(common.quiet)
    terminal.print_lines(console, forecast.lines())
    if page is not None:
        terminal.print_paragraph(console, f"\nAdded to the page: {terminal.visible(page)}")


@taking("target", "as_json", "quiet", "seed", "allow_code", "jobs")
def rehearse_sources(
    configuration: Configuration,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for rehearsal.json; the page of a run in it gets a panel.",
        ),
    ] = None,
    *,
    common: Common,
) -> None:
    """Rehearse on your data: each source in turn is the target, the others are weighted to it.

    The table compares the accuracy predicted without the labels of that source with the true one,
    for naive and debiased training: does the bias model transfer?
    """
    from unskew.cli import terminal
    from unskew.files.locks import folder_locked
    from unskew.runs.inputs import read_inputs
    from unskew.runs.output import REHEARSAL
    from unskew.runs.page_panels import write_with_panel
    from unskew.runs.rehearsal import rehearsal_record

    with folder_locked(output), remarks(common.quiet):
        config = common.load(configuration)
        inputs = read_inputs(config, progress=common.bar, beyond="sample")
        rehearsal, record = rehearsal_record(inputs, command=written_command(), progress=common.bar)
        page = None if output is None else write_with_panel(record, output, REHEARSAL)
    if common.as_json:
        print_json(record)
        return
    console = terminal.open_console(common.quiet)
    terminal.print_lines(console, rehearsal.lines())
    if page is not None:
        terminal.print_paragraph(console, f"\nAdded to the page: {terminal.visible(page)}")
