"""The command `unskew evaluate`: other images with a trained model, predictions, or pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import Common, Results, taking
from unskew.errors import ConfigError

if TYPE_CHECKING:
    from unskew.evaluation.predictions import Evaluation
    from unskew.runs.evaluate import EvaluationsByTarget
    from unskew.training.arm_scores import Scores

Images = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER|FILE]...",
        show_default=False,
        help="Images to be judged by the model that `unskew train` wrote.",
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also by this column (an attribute or feature); may be repeated."),
]


@taking("target", "as_json", "quiet", "allow_code", "jobs", "overwrite", "force")
def evaluate_model(
    results: Results,
    images: Images = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            "-p",
            help="Table: id, prediction and/or score or score_<class>; y where the weights have no "
            "label.",
        ),
    ] = None,
    arms: Annotated[
        list[str] | None,
        typer.Option(
            "--arm", help="With images: the model of this arm; may be repeated. Default: every arm."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="With images: a table (CSV or Parquet) for their predictions."),
    ] = None,
    second: Annotated[
        str | None,
        typer.Option(
            "--second",
            metavar="FILE|ARM",
            help="Another model to compare with: a table of its predictions, or an arm of the run.",
        ),
    ] = None,
    target_predictions: Annotated[
        Path | None,
        typer.Option(
            "--target-predictions",
            help="The model's probabilities on unlabelled images of the target: id and score or "
            "score_<class>.",
        ),
    ] = None,
    by: By = None,
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
        typer.Option("--positive", help="The positive one of two classes. Default: the last."),
    ] = None,
    regression: Annotated[
        bool | None,
        typer.Option(
            "--regression/--classification",
            show_default=False,
            help="Numbers or classes? By default decided from y.",
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Judge only the images that have a prediction.")
    ] = False,
    allow_extra: Annotated[
        bool, typer.Option("--allow-extra", help="Ignore predictions of unknown images.")
    ] = False,
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates", min=0, help="Bootstrap replicates behind the intervals. Default: 1000."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for metrics.json (pairs.json and pairs.html); created if necessary.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the bootstrap. Default: 0.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", help="Table of compared images: id_a, id_b, same, score."),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option("--threshold", help="With pairs: error rates at this one; may be repeated."),
    ] = None,
    fmr: Annotated[
        list[float] | None,
        typer.Option(
            "--fmr",
            help="With pairs: at the threshold with this false match rate; may be repeated. "
            "Default: 0.01 and 0.001.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            "--within", help="With pairs: both images in a subgroup (default), or either."
        ),
    ] = None,
    genuine_by: Annotated[
        str | None,
        typer.Option("--genuine-by", help="With pairs: genuine pairs count by person or image."),
    ] = None,
    distance: Annotated[
        bool, typer.Option("--distance", help="With pairs: scores are distances, small if alike.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Evaluate a model on the target: predictions, compared pairs, or images with a trained run.

    Weighted accuracy, balanced accuracy, AUROC and more, with intervals, and the unweighted figures
    for comparison: over all, by source, by class and by any column; every arm of a trained run, and
    the paired differences of models.
    """
    from unskew.cli.evaluation_tables import print_judged
    from unskew.cli.target_tables import print_targets
    from unskew.cli.terminal import open_console
    from unskew.files.locks import folder_locked, path_locked
    from unskew.runs.evaluate import EvaluationsByTarget, check_place, write_metrics
    from unskew.training.other_images import evaluate_images, find_second

    both: dict[str, Any] = {
        "by": by or (),
        "positive": positive,
        "replicates": 1000 if replicates is None else replicates,
        "rng": seed or 0,
    }
    of_images: dict[str, Any] = {"arm": arms or None, "save": save}
    of_predictions: dict[str, Any] = {
        "split": split,
        "truth": truth,
        "target_predictions": target_predictions,
        "regression": regression,
        "allow_missing": allow_missing,
        "allow_extra": allow_extra,
        "target": common.target,
    }
    of_pairs: dict[str, Any] = {
        "threshold": threshold,
        "fmr": fmr,
        "within": within,
        "genuine_by": genuine_by,
        "distance": distance,
    }
    if pairs is not None:
        unused = of_images | of_predictions | {"positive": positive, "second": second}
        unused |= {"replicates": replicates, "seed": seed}
        _check_pairs_mode(bool(images) or predictions is not None, unused)
        of_pairs |= {"by": by or (), "split": split, "allow_extra": allow_extra}
        of_pairs |= {"target": common.target, "force": common.force}
        _evaluate_pairs(results, pairs, of_pairs, output, common)
        return
    _refuse_unused(of_pairs, "--pairs")
    with folder_locked(output), path_locked(save), remarks(common.quiet):
        if output is not None:
            check_place(output, common.overwrite)
        _check_mode(bool(images), predictions is not None, of_images, of_predictions)
        if images:
            here: dict[str, Any] = {"overwrite": common.overwrite, "jobs": common.jobs}
            here |= {"allow_code": common.allowed, "force": common.force, "progress": common.bar}
            judged: Evaluation | EvaluationsByTarget | Scores = evaluate_images(
                results, images, arms=arms or (), second=second, save=save, **here, **both
            )
        else:
            assert predictions is not None
            if second is not None:
                other = find_second(results, second)
                of_predictions |= {"second": other.files, "second_name": other.name}
            judged = _judge_predictions(
                results, predictions, of_predictions | both | {"force": common.force}
            )
        file = None if output is None else write_metrics(judged, output, overwrite=common.overwrite)
    if common.as_json:
        print_json(judged.to_dict())
    elif isinstance(judged, EvaluationsByTarget):
        print_targets(open_console(common.quiet), judged, file)
    elif not common.quiet:
        print_judged(open_console(), judged, file, "On these images" if images else "On the target")


def _judge_predictions(
    results: Path, predictions: Path, settings: Mapping[str, Any]
) -> Evaluation | EvaluationsByTarget:
    """Judge on the target that is named, or the only one; else on every target of the run."""
    from unskew.runs.evaluate import evaluate_run, evaluate_run_targets
    from unskew.runs.output import read_target_names

    if settings["target"] is None and len(read_target_names(results)) > 1:
        others = {name: value for name, value in settings.items() if name != "target"}
        return evaluate_run_targets(results, predictions, **others)
    return evaluate_run(results, predictions, **settings)


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
    shared = ("split", "allow_extra", "target")
    unused = {name: value for name, value in others.items() if name not in shared}
    _refuse_unused(unused, "images or --predictions, not with --pairs")


def _evaluate_pairs(
    results: Path, pairs: Path, settings: dict[str, Any], output: Path | None, common: Common
) -> None:
    from unskew.cli.pair_tables import print_pair_evaluation
    from unskew.cli.terminal import open_console
    from unskew.files.locks import folder_locked
    from unskew.runs.pairs import check_pairs_place, evaluate_pairs_run, write_pairs

    settings = settings | {"thresholds": settings["threshold"] or ()}
    settings["within"] = settings["within"] or "both"
    del settings["threshold"]
    with folder_locked(output), remarks(common.quiet):
        if output is not None:
            check_pairs_place(output, common.overwrite)
        evaluation = evaluate_pairs_run(results, pairs, **settings)
        page = (
            None if output is None else write_pairs(evaluation, output, overwrite=common.overwrite)
        )
    if common.as_json:
        print_json(evaluation.to_dict())
    elif not common.quiet:
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
