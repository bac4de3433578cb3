"""The command `unskew evaluate`: other images with a trained model, predictions, or pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import (
    AsJson,
    Jobs,
    Overwrite,
    Quiet,
    Replicates,
    Results,
    shows_progress,
)
from unskew.errors import ConfigError

Images = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER|FILE]...",
        show_default=False,
        help="Images to be judged by the model that `unskew train` wrote.",
    ),
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        "--predictions",
        "-p",
        help="Table: id, prediction and/or score or score_<class>; y where the weights have no "
        "label.",
    ),
]
Arm = Annotated[
    str | None,
    typer.Option("--arm", help="With images: the model of this arm. Default: the main one."),
]
Save = Annotated[
    Path | None,
    typer.Option("--save", help="With images: a table (CSV or Parquet) for their predictions."),
]
Second = Annotated[
    Path | None,
    typer.Option("--second", help="The predictions of another model: the two are compared."),
]
TargetPredictions = Annotated[
    Path | None,
    typer.Option(
        "--target-predictions",
        help="The model's probabilities on unlabelled images of the target: id and score or "
        "score_<class>.",
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also by this column (an attribute or feature); may be repeated."),
]
Split = Annotated[
    str | None,
    typer.Option("--split", help="The split to judge. Default: test, else all but train; or all."),
]
Truth = Annotated[
    str | None,
    typer.Option(
        "--truth", help="y (of the predictions) or label (of the weights), if they differ."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option("--positive", help="Of two classes, the one to find. Default: the last."),
]
Regression = Annotated[
    bool | None,
    typer.Option(
        "--regression/--classification",
        show_default=False,
        help="Numbers or classes? By default decided from y.",
    ),
]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Judge only the images that have a prediction.")
]
AllowExtra = Annotated[
    bool, typer.Option("--allow-extra", help="Ignore predictions of unknown images.")
]
MetricsFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Folder for metrics.json (pairs.json and pairs.html); created if necessary.",
    ),
]
Pairs = Annotated[
    Path | None,
    typer.Option("--pairs", help="Table of compared images: id_a, id_b, same, score."),
]
Thresholds = Annotated[
    list[float] | None,
    typer.Option("--threshold", help="With pairs: error rates at this one; may be repeated."),
]
MatchRates = Annotated[
    list[float] | None,
    typer.Option(
        "--fmr",
        help="With pairs: at the threshold with this false match rate; may be repeated. Default: "
        "0.01 and 0.001.",
    ),
]
Within = Annotated[
    str | None,
    typer.Option("--within", help="With pairs: both images in a subgroup (default), or either."),
]
GenuineBy = Annotated[
    str | None,
    typer.Option("--genuine-by", help="With pairs: genuine pairs count by person or image."),
]
Distance = Annotated[
    bool, typer.Option("--distance", help="With pairs: scores are distances, small if alike.")
]
BootstrapSeed = Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")]


def evaluate_model(
    results: Results,
    images: Images = None,
    predictions: Predictions = None,
    arm: Arm = None,
    save: Save = None,
    second: Second = None,
    target_predictions: TargetPredictions = None,
    by: By = None,
    split: Split = None,
    truth: Truth = None,
    positive: Positive = None,
    regression: Regression = None,
    allow_missing: AllowMissing = False,
    allow_extra: AllowExtra = False,
    replicates: Replicates = 1000,
    output: MetricsFolder = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: BootstrapSeed = 0,
    jobs: Jobs = None,
    pairs: Pairs = None,
    threshold: Thresholds = None,
    fmr: MatchRates = None,
    within: Within = None,
    genuine_by: GenuineBy = None,
    distance: Distance = False,
) -> None:
    """Evaluate a model on the target: predictions, compared pairs, or images with a trained run.

    Weighted accuracy, balanced accuracy, AUROC and more, with intervals, and the unweighted figures
    for comparison: over all, by source, by class and by any column; the difference of two models.
    """
    from unskew.cli.evaluation_tables import print_evaluation
    from unskew.cli.terminal import open_console
    from unskew.runs.evaluate import check_place, evaluate_run, write_metrics

    both: dict[str, Any] = {
        "by": by or (),
        "positive": positive,
        "replicates": replicates,
        "rng": seed,
    }
    of_images: dict[str, Any] = {"arm": arm, "save": save}
    of_predictions: dict[str, Any] = {
        "split": split,
        "truth": truth,
        "second": second,
        "target_predictions": target_predictions,
        "regression": regression,
        "allow_missing": allow_missing,
        "allow_extra": allow_extra,
    }
    of_pairs: dict[str, Any] = {
        "threshold": threshold,
        "fmr": fmr,
        "within": within,
        "genuine_by": genuine_by,
        "distance": distance,
    }
    if pairs is not None:
        unused = of_images | of_predictions | {"positive": positive}
        _check_pairs_mode(bool(images) or predictions is not None, unused)
        common = {"by": by or (), "split": split, "allow_extra": allow_extra}
        _evaluate_pairs(results, pairs, of_pairs | common, output, overwrite, as_json, quiet)
        return
    _refuse_unused(of_pairs, "--pairs")
    with remarks(quiet):
        if output is not None:
            check_place(output, overwrite)
        _check_mode(bool(images), predictions is not None, of_images, of_predictions)
        if images:
            from unskew.training.other_images import evaluate_images

            bar = shows_progress(quiet, as_json)
            here: dict[str, Any] = {"overwrite": overwrite, "jobs": jobs, "progress": bar}
            evaluation = evaluate_images(results, images, **of_images, **here, **both)
        else:
            assert predictions is not None
            evaluation = evaluate_run(results, predictions, **of_predictions, **both)
        file = None if output is None else write_metrics(evaluation, output, overwrite=overwrite)
    if as_json:
        print_json(evaluation.to_dict())
    elif not quiet:
        population = "On these images" if images else "On the target"
        print_evaluation(open_console(), evaluation, file, population)


def _check_mode(
    has_images: bool,
    has_predictions: bool,
    of_images: Mapping[str, Any],
    of_predictions: Mapping[str, Any],
) -> None:
    """Refuse both or neither of images and predictions, and options of the mode not chosen."""
    if has_images == has_predictions:
        raise ConfigError(
            "name what to judge: images (unskew evaluate OUT photos/) with the model of a run, or "
            f"--predictions of any model. Got {'both' if has_images else 'neither'}.",
            option="--predictions",
        )
    others, mode = (
        (of_predictions, "--predictions, not with images")
        if has_images
        else (of_images, "images, not with --predictions")
    )
    _refuse_unused(others, mode)


def _check_pairs_mode(has_others: bool, others: Mapping[str, Any]) -> None:
    """Refuse pairs together with images or predictions, and options that go with those."""
    if has_others:
        raise ConfigError(
            "name one thing to judge: images, --predictions, or --pairs.", option="--pairs"
        )
    shared = ("split", "allow_extra")
    unused = {name: value for name, value in others.items() if name not in shared}
    _refuse_unused(unused, "images or --predictions, not with --pairs")


def _evaluate_pairs(
    results: Path,
    pairs: Path,
    settings: dict[str, Any],
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from unskew.cli.pair_tables import print_pair_evaluation
    from unskew.cli.terminal import open_console
    from unskew.runs.pairs import check_pairs_place, evaluate_pairs_run, write_pairs

    settings = settings | {"thresholds": settings["threshold"] or ()}
    settings["within"] = settings["within"] or "both"
    del settings["threshold"]
    with remarks(quiet):
        if output is not None:
            check_pairs_place(output, overwrite)
        evaluation = evaluate_pairs_run(results, pairs, **settings)
        page = None if output is None else write_pairs(evaluation, output, overwrite=overwrite)
    if as_json:
        print_json(evaluation.to_dict())
    elif not quiet:
        print_pair_evaluation(open_console(), evaluation, page)


def _refuse_unused(others: Mapping[str, Any], mode: str) -> None:
    unused = [_option(name, value) for name, value in others.items() if _is_set(name, value)]
    if unused:
        verb = "goes" if len(unused) == 1 else "go"
        raise ConfigError(f"{' and '.join(unused)} {verb} with {mode}.", option=unused[0])


def _is_set(name: str, value: Any) -> bool:
    return value is not None and (value is not False or name == "regression")


def _option(name: str, value: Any) -> str:
    return (
        "--classification" if name == "regression" and not value else f"--{name.replace('_', '-')}"
    )
