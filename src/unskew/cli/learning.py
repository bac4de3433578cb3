"""The commands about learning: rehearse, forecast, train, evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks
from unskew.cli.options import (
    AsJson,
    Configuration,
    Jobs,
    Overwrite,
    Quiet,
    Results,
    Seed,
    list_unreadable,
    shows_progress,
    written_command,
)
from unskew.errors import ConfigError, UnreadableError

if TYPE_CHECKING:
    from rich.console import Console

    from unskew.runs.weighing import Refusal


def predict_gain(
    configuration: Configuration,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            help="Ways to weight that are compared, beside naive and debiased: names of baselines, "
            "or all.",
        ),
    ] = "naive,debiased",
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner", help="A scikit-learn classifier as module:name. Default: a linear probe."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for forecast.json, such as that of the run; made when it is not there.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> None:
    """What will reweighting bring? Predicted before anything is trained, from linear probes on the
    features.

    The accuracy of each way to weight on the target, with its error, and a recommendation in words.
    Everything rests on the bias model. Where the folder holds a run of the same inputs, its page
    shows the forecast from then on.
    """
    from unskew.cli import terminal
    from unskew.runs import forecast as forecast_page
    from unskew.runs import weighing as pipeline

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        bar = shows_progress(quiet, as_json)
        inputs = pipeline.read_inputs(config, progress=bar)
        named = [name.strip() for name in arms.split(",") if name.strip()]
        found, record = forecast_page.forecast_record(
            inputs, named, learner, command=written_command(), progress=bar
        )
        page = None if output is None else forecast_page.write_forecast(record, output)
    if as_json:
        print_json(record)
        return
    console = terminal.open_console(quiet)
    terminal.print_paragraph(console, "\n".join(map(terminal.visible, found.lines())))
    if page is not None:
        terminal.print_paragraph(console, f"\nAdded to the page: {terminal.visible(page)}")


def rehearse_sources(
    configuration: Configuration,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for rehearsal.json; made when it is not there."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> None:
    """Does this bias model transfer on your data? Each source in turn is the target, the others are
    weighted to it.

    The accuracy that is predicted without its labels, beside the true one on it, for naive and
    debiased training.
    """
    from unskew.cli import terminal
    from unskew.runs import probing
    from unskew.runs import weighing as pipeline

    with remarks(quiet):
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        inputs = pipeline.read_inputs(config, progress=shows_progress(quiet, as_json))
        found = probing.rehearse_inputs(inputs, progress=shows_progress(quiet, as_json))
        if output is not None:
            pipeline.write_record(found.to_dict(), output, "rehearsal.json")
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.print_paragraph(
            terminal.open_console(quiet), "\n".join(map(terminal.visible, found.lines()))
        )


def train_network(
    configuration: Configuration,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the model and the results; made when it is not there.",
        ),
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the training that the folder holds.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Throw away what the folder holds, and begin anew.")
    ] = False,
    arms: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            help="debiased, naive, or a baseline; may be repeated, and all are compared. Default: "
            "\\[learn] arms.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            help="Train with the weights of this table (id, weight) instead of the arms.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="fast, article or probe; overrides \\[learn] preset."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="A network by name, or module:factory; overrides \\[learn] model."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", help="Side of the squares in pixels; overrides \\[learn] size."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Overrides \\[learn] epochs.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            help="Also accuracy by this column, or by a*b; repeatable; overrides \\[learn] by.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, cuda or auto; overrides \\[learn] device.")
    ] = None,
    replicates: Annotated[
        int, typer.Option("--replicates", min=0, help="Bootstrap replicates behind the intervals.")
    ] = 1000,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> int:
    """Train a model with the weights, judge it on held-out images, and write its card.

    The folder holds everything that `unskew weigh` writes, and the model with its metrics. A run
    that was stopped goes on with --resume.
    """
    from unskew.cli import terminal
    from unskew.runs import weighing as pipeline
    from unskew.training import run as training

    with remarks(quiet):
        if weights is not None and arms:
            raise ConfigError(
                "--weights trains with the weights of a table instead of the arms: leave --arm "
                "out, or --weights."
            )
        config = pipeline.load_config(configuration, seed=seed, jobs=jobs)
        given = {
            "arms": arms or None,
            "preset": preset,
            "model": model,
            "size": size,
            "epochs": epochs,
            "by": by or None,
            "device": device,
        }
        config = training.override_learn(config, given)
        try:
            prepared = training.prepare_training(
                config,
                output,
                weights=weights,
                resume=resume,
                force=force,
                configuration=configuration,
                command=written_command(),
                progress=shows_progress(quiet, as_json),
            )
        except UnreadableError as error:
            raise list_unreadable(error, output) from error
        console = terminal.open_console(quiet or as_json)
        if isinstance(prepared, pipeline.Refusal):
            _tell_refusal(prepared, console, output, as_json)
            return NOT_IDENTIFIABLE
        terminal.print_paragraph(console, "\n".join(map(terminal.visible, prepared.lines())))
        trained = training.run_training(
            prepared, progress=shows_progress(quiet, as_json), replicates=replicates
        )
    if as_json:
        print_json(trained.to_dict())
    else:
        terminal.print_paragraph(console, "\n".join(map(terminal.visible, trained.lines())))
    return DONE


def _tell_refusal(refusal: Refusal, console: Console, output: Path, as_json: bool) -> None:
    from unskew.cli import terminal
    from unskew.runs import weighing as pipeline

    if as_json:
        print_json(pipeline.verdict_record(refusal))
    else:
        terminal.print_check(console, refusal.summary)
        terminal.print_place(console, output / pipeline.PAGE)


def judge_images(
    results: Results,
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER|FILE]...",
            show_default=False,
            help="Images to be judged by the model that `unskew train` wrote.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            "-p",
            help="Table: id, prediction and/or score or score_<class>; y where the weights have no "
            "label.",
        ),
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(
            "--arm", help="With images: the model of this arm. Default: the one the run is about."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="With images: a table (CSV or Parquet) for their predictions."),
    ] = None,
    second: Annotated[
        Path | None,
        typer.Option("--second", help="The predictions of another model: the two are compared."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Also by this column (an attribute or feature); may be repeated."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="The split to judge. Default: test, else all but train; or all."
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth", help="y (of the predictions) or label (of the weights), if they differ."
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option("--positive", help="Of two classes, the one to find. Default: the last."),
    ] = None,
    regression: Annotated[
        bool | None,
        typer.Option(
            "--regression/--classification",
            show_default=False,
            help="Numbers or classes? By default seen from y.",
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Judge the images that have a prediction.")
    ] = False,
    allow_extra: Annotated[
        bool, typer.Option("--allow-extra", help="Leave predictions of unknown images aside.")
    ] = False,
    replicates: Annotated[
        int, typer.Option("--replicates", min=0, help="Bootstrap replicates behind the intervals.")
    ] = 1000,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for metrics.json; made when it is not there."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")] = 0,
    jobs: Jobs = None,
) -> None:
    """How good is a model on the target? Other images with a trained run, or anybody's predictions.

    Weighted accuracy, balanced accuracy, AUROC and more, with intervals, beside the plain figures:
    over all, by source, by class and by any column; the difference of two models.
    """
    from unskew.cli import terminal
    from unskew.evaluation import predictions as evaluating

    common: dict[str, Any] = {
        "by": by or (),
        "positive": positive,
        "replicates": replicates,
        "seed": seed,
    }
    of_images = {"--arm": arm, "--save": save}
    of_predictions = {
        **{
            "--split": split,
            "--truth": truth,
            "--second": second,
            "--allow-missing": allow_missing,
            "--allow-extra": allow_extra,
        },
        **{"--regression": regression is True, "--classification": regression is False},
    }
    with remarks(quiet):
        if output is not None:
            evaluating.check_place(output, overwrite)
        _check_judged(bool(images), predictions is not None, of_images, of_predictions)
        if images:
            from unskew.training.other_images import evaluate_images

            found = evaluate_images(
                results,
                images,
                arm=arm,
                save=save,
                overwrite=overwrite,
                jobs=jobs,
                progress=shows_progress(quiet, as_json),
                **common,
            )
        else:
            assert predictions is not None
            asked: dict[str, Any] = {
                "split": split,
                "truth": truth,
                "second": second,
                "regression": regression,
            }
            found = evaluating.evaluate_run(
                results,
                predictions,
                allow_missing=allow_missing,
                allow_extra=allow_extra,
                **asked,
                **common,
            )
        written = (
            None if output is None else evaluating.write_metrics(found, output, overwrite=overwrite)
        )
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        terminal.print_evaluation(
            terminal.open_console(),
            found,
            written,
            "On these images" if images else "On the target",
        )


def _check_judged(
    images: bool, predictions: bool, of_images: Mapping[str, Any], of_predictions: Mapping[str, Any]
) -> None:
    """Images or predictions are judged, and no option is given that goes with the other of the
    two.
    """
    if images == predictions:
        raise ConfigError(
            "say what is to be judged: images (unskew evaluate OUT photos/) with the model of a "
            "run, or --predictions of anybody's "
            f"model. Got {'both' if images else 'neither'}."
        )
    others, where = (
        (of_predictions, "--predictions, not with images")
        if images
        else (of_images, "images, not with --predictions")
    )
    unused = [name for name, value in others.items() if value is not None and value is not False]
    if unused:
        raise ConfigError(
            f"{' and '.join(unused)} {'goes' if len(unused) == 1 else 'go'} with {where}."
        )
