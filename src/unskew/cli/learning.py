"""The commands that look ahead of training: forecast and rehearse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.markdown import forecast_markdown
from unskew.cli.options import (
    AllowCode,
    AsJson,
    AsMarkdown,
    Configuration,
    Jobs,
    OneTarget,
    Quiet,
    Seed,
    check_one_form,
    shows_progress,
    written_command,
)


def predict_gain(
    configuration: Configuration,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            help="Ways to weight to compare with naive and debiased: names of baselines, or all.",
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
    target: OneTarget = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    quiet: Quiet = False,
    seed: Seed = None,
    allow_code: AllowCode = None,
    jobs: Jobs = None,
) -> None:
    """Forecast, before training, what reweighting will bring, from linear probes on the features.

    It shows the accuracy of each way to weight on the target, with its error, and a recommendation.
    Everything rests on the bias model. If the folder contains a run of the same inputs, its page
    shows the forecast from then on.
    """
    from unskew.cli import terminal
    from unskew.files.user_code import permit_code
    from unskew.learn.ways import check_way
    from unskew.runs.forecast import forecast_record, write_forecast
    from unskew.runs.inputs import load_config, read_inputs

    check_one_form(as_json, as_markdown)
    with remarks(quiet):
        config = load_config(
            configuration, seed=seed, jobs=jobs, target=target, allow_code=allow_code or ()
        )
        if learner is not None:
            permit_code(learner, allow_code or (), [config.folder], typed=True)
        bar = shows_progress(quiet, as_json or as_markdown)
        inputs = read_inputs(config, progress=bar)
        named = [name.strip() for name in arms.split(",") if name.strip()]
        forecast, record = forecast_record(
            inputs,
            named,
            learner,
            None if way is None else check_way(way),
            command=written_command(),
            progress=bar,
        )
        page = None if output is None else write_forecast(record, output)
    if as_json:
        print_json(record)
        return
    if as_markdown:
        typer.echo(forecast_markdown(forecast))
        return
    console = terminal.open_console(quiet)
    terminal.print_lines(console, forecast.lines())
    if page is not None:
        terminal.print_paragraph(console, f"\nAdded to the page: {terminal.visible(page)}")


def rehearse_sources(
    configuration: Configuration,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for rehearsal.json; created if necessary."),
    ] = None,
    target: OneTarget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    allow_code: AllowCode = None,
    jobs: Jobs = None,
) -> None:
    """Rehearse on your data: each source in turn is the target, the others are weighted to it.

    The table compares the accuracy predicted without the labels of that source with the true one,
    for naive and debiased training: does the bias model transfer?
    """
    from unskew.cli import terminal
    from unskew.files.atomic import written_together
    from unskew.files.plain_json import write_json
    from unskew.runs.forecast import rehearse_inputs
    from unskew.runs.inputs import load_config, read_inputs

    with remarks(quiet):
        config = load_config(
            configuration, seed=seed, jobs=jobs, target=target, allow_code=allow_code or ()
        )
        inputs = read_inputs(config, progress=shows_progress(quiet, as_json))
        rehearsal = rehearse_inputs(inputs, progress=shows_progress(quiet, as_json))
        if output is not None:
            with written_together(output, ()) as folder:
                write_json(folder / "rehearsal.json", rehearsal.to_dict())
    if as_json:
        print_json(rehearsal.to_dict())
    else:
        terminal.print_lines(terminal.open_console(quiet), rehearsal.lines())
