"""The commands about learning: rehearse, forecast, train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli_options import AsJson, Configuration, Jobs, Overwrite, Quiet, Results, Seed, shows_progress
from unskew.explaining import print_json, remarks


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
        inputs = pipeline.read_inputs(config, progress=shows_progress(quiet, as_json))
        named = [name.strip() for name in arms.split(",") if name.strip()]
        found = probing.forecast_inputs(inputs, named, progress=shows_progress(quiet, as_json))
        if output is not None:
            pipeline.write_record(found.to_dict(), output, "forecast.json")
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.print_paragraph(terminal.open_console(quiet), "\n".join(map(terminal.visible, found.lines())))


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
        inputs = pipeline.read_inputs(config, progress=shows_progress(quiet, as_json))
        found = probing.rehearse_inputs(inputs, progress=shows_progress(quiet, as_json))
        if output is not None:
            pipeline.write_record(found.to_dict(), output, "rehearsal.json")
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.print_paragraph(terminal.open_console(quiet), "\n".join(map(terminal.visible, found.lines())))


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
