"""Other images with a trained run: prepared as its own were, scored by its model, evaluated."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.config.code_references import refuse_code
from unskew.config.run_config import RunConfig, read_config, resolved
from unskew.errors import ConfigError, DataError, InvalidConfigError, did_you_mean, first_few
from unskew.evaluation.matching import NO_SPLITS, read_predictions
from unskew.files.atomic import written_whole
from unskew.files.checksums import check_files
from unskew.files.fingerprints import find_versions, fingerprint_pool
from unskew.files.reading import parquet_columns, read_parquet
from unskew.files.spreadsheet_text import guard_table
from unskew.forecasting.probe_data import read_classes, read_label_sets
from unskew.records import Floats, Pool
from unskew.records.arrays import Randomness
from unskew.records.levels import level_text
from unskew.runs.evaluate import run_rules
from unskew.runs.output import CONFIGURATION, TRAINING, features_table, write_frame
from unskew.runs.projections import PROJECTIONS, represent_alike
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources
from unskew.training.arm_scores import Scores, judge_arms, prediction_frame
from unskew.training.folder import (
    ARMS_FOLDER,
    PREDICTIONS,
    RECORD,
    arm_folders,
    check_models,
    fingerprint_models,
    read_record,
    recorded_folders,
    recorded_seeds,
)

_ALL = "all images"
_NO_WEIGHTS = (
    "Every image counts the same: these images have no weights, so the figures describe "
    "them, not the target."
)


def evaluate_images(
    folder: str | os.PathLike[str],
    places: Sequence[Path],
    *,
    arms: Sequence[str] = (),
    second: str | os.PathLike[str] | None = None,
    save: Path | None = None,
    overwrite: bool = False,
    by: Sequence[str] = (),
    positive: str | None = None,
    replicates: int = 1000,
    rng: Randomness = 0,
    force: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
    allow_code: Collection[str] = (),
) -> Scores:
    """Evaluate the models of a run on images that were no part of it, and compare them.

    Labels are matched to the run's classes by name. Of an arm that was trained with several seeds,
    all models are judged.

    Parameters
    ----------
    folder : what `unskew train` wrote; of the rest of the run only the module of a model of your
        own is needed.
    places : folders of images or tables, as for `unskew describe`.
    arms : which models, the one that the others are compared with first; default: all of them, the
        one that the run is about first.
    second : one more arm, or a file with the predictions of any other model for these images.
    save : a table for the predictions of the first arm (and its first seed), CSV or Parquet by its
        name.
    allow_code : modules, and files of networks, of the folder or the working directory that may
        run.
    force : also if the files of the run are not those that it wrote.
    """
    out = Path(folder)
    check_files(out, (TRAINING, CONFIGURATION, PROJECTIONS), force=force)
    record = read_record(out)
    names = _chosen_arms(record, arms)
    other = None if second is None else find_second(out, second)
    if other is not None and other.arm is not None:
        names = list(dict.fromkeys([*(names if arms else names[:1]), other.arm]))
    _check_save(save, overwrite)
    config = _settings(out)
    used = ("learn",) if record["preprocessing"].get("kind") == "images" else ("learn", "represent")
    refuse_code(resolved(config), allow_code, [out, config.folder], used)
    has_sets = bool(record.get("has_label_sets"))
    pool = read_sources(_find_labelled(places, config, has_sets), Path())
    _check_labels(pool, record["classes"], has_sets)
    pool, X = _prepared(pool, record["preprocessing"], out, config, jobs, progress)
    truth, shown = _read_truth(pool, record["classes"], has_sets)
    ids, seeds = pool.frame["id"].tolist(), recorded_seeds(record)
    predictions: dict[str, list[Any]] = {
        name: [
            prediction_frame(ids, truth, record["classes"], score_nm)
            for score_nm in _scores(out, record, name, X, allow_code, progress)
        ]
        for name in names
    }
    if save is not None:
        _save(predictions[names[0]][0], save)
    if other is not None and other.arm is None:
        if other.name in predictions:
            other = replace(other, name=str(second))
        predictions[other.name] = [read_predictions(other.files[0])] * len(seeds)
    roles = [role for role in ("id", "source", "label", "group") if role in pool.frame.columns]
    source = pool.frame["source"].astype(str)
    private, bins = run_rules(out)
    scores = judge_arms(
        pool.frame[roles].assign(label=shown, source=source, sample_weight=1.0),
        predictions,
        names[0],
        seeds=seeds,
        attributes=features_table(pool),
        by=by,
        bins=bins,
        positive=positive,
        replicates=replicates,
        rng=rng,
        regression=None if has_sets else False,
        private=private,
    )
    return _with_origin(scores, out, record, names, pool)


@dataclass(frozen=True)
class SecondModel:
    """The predictions that a model is compared with: an arm of the run, or a file."""

    name: str
    files: tuple[Path, ...]
    arm: str | None = None


def find_second(out: Path, second: str | os.PathLike[str]) -> SecondModel:
    """Find the arm of a run, with the predictions of all its seeds, or the file of that name."""
    name, path = os.fspath(second), Path(second)
    record = read_record(out) if (out / RECORD).is_file() else {"arms": {}}
    if name in record["arms"]:
        folders = arm_folders(name, recorded_seeds(record))
        files = tuple(out / ARMS_FOLDER / folder / PREDICTIONS for folder in folders)
        return SecondModel(name, files, name)
    if not path.is_file():
        arms = list(record["arms"])
        trained = f" nor an arm of the run ({first_few(arms, 12)})" if arms else ""
        raise ConfigError(
            f"--second {name!r} is no file{trained}.{did_you_mean(name, arms)} Name a table of "
            "predictions, or an arm that `unskew train` trained in this folder.",
            option="--second",
            value=name,
            allowed=arms,
        )
    return SecondModel(path.stem, (path,))


def _settings(out: Path) -> RunConfig:
    """Read the settings of the run; its data need not exist any more."""
    try:
        return read_config(out / "run.toml", check_paths=False, allow_code=None)
    except InvalidConfigError:
        return read_config(out / "run.toml", folder=out, check_paths=False, allow_code=None)


def _chosen_arms(record: dict[str, Any], arms: Sequence[str]) -> list[str]:
    """Return the arms to be judged: those named, or all, the main one first."""
    trained = list(record["arms"])
    for arm in arms:
        if arm not in trained:
            raise ConfigError(
                f"the run has no arm {arm!r}; it trained "
                f"{first_few(trained, 12)}.{did_you_mean(arm, trained)}",
                option="--arm",
                value=arm,
                allowed=trained,
            )
    if record["status"] != "finished":
        raise DataError(
            "the training is not finished: `unskew train run.toml -o OUT --resume` continues it.",
            option="--resume",
        )
    return list(dict.fromkeys(arms or [record["arm"], *trained]))


def _check_save(save: Path | None, overwrite: bool) -> None:
    if save is None:
        return
    if save.suffix.lower() not in (".csv", ".parquet"):
        raise ConfigError(
            f"predictions are saved as .csv or .parquet; got {str(save)!r}.", path=str(save)
        )
    if not save.absolute().parent.is_dir():
        raise ConfigError(
            f"{str(save)!r} cannot be written: there is no folder {str(save.parent)!r}. Create it "
            "first.",
            path=str(save.parent),
        )
    if save.exists() and not overwrite:
        raise ConfigError(
            f"{str(save)!r} exists already. Add --overwrite to replace it, or give another name.",
            path=str(save),
        )


def _save(frame: Any, save: Path) -> None:
    if save.suffix.lower() == ".parquet":
        write_frame(frame, save)
        return
    with written_whole(save) as temporary:
        guard_table(frame).to_csv(temporary, index=False)


def _find_labelled(places: Sequence[Path], config: RunConfig, has_sets: bool) -> dict[str, Any]:
    """Find the sources; several labels are written as in those of the run."""
    settings, own = find_sources(places, Path()), config.sources
    if has_sets and ("manifest" in settings or "folders" in settings):
        written = {"labels": own.labels, "label_separator": own.label_separator}
        settings |= {name: value for name, value in written.items() if value is not None}
        if own.labels is not None:
            settings.pop("label", None)
    return settings


def _read_truth(
    pool: Pool, classes: Sequence[str], has_sets: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the truth for predictions, and for the table of images: a class, or labels of each."""
    if not has_sets:
        names, label_n = read_classes(pool, least=1)
        truth_n = np.array(names, dtype=object)[label_n]
        return truth_n, truth_n
    names, own_nm = read_label_sets(pool, varying=False)
    truth_nm = np.zeros((len(pool), len(classes)))
    truth_nm[:, [list(classes).index(name) for name in names]] = own_nm
    lists = np.empty(len(pool), dtype=object)
    lists[:] = [[classes[m] for m in np.flatnonzero(row_m == 1).tolist()] for row_m in truth_nm]
    return truth_nm, lists


def _check_labels(pool: Pool, classes: Sequence[str], has_sets: bool) -> None:
    """Refuse labels that are no class of the run, before any image is opened."""
    if has_sets:
        labels, present_nm = read_label_sets(pool, varying=False)
        with_label = [np.flatnonzero(present_nm[:, m] == 1) for m in range(len(labels))]
    else:
        labels, label_n = read_classes(pool, least=1)
        with_label = [np.flatnonzero(label_n == m) for m in range(len(labels))]
    unknown = [name for name in labels if name not in classes]
    if unknown:
        rows = [own for name, own in zip(labels, with_label, strict=True) if name in unknown]
        count = int(np.unique(np.concatenate(rows)).size)
        raise DataError(
            f"{count} of {len(pool)} images have labels that are no class of the run: "
            f"{first_few(unknown)}. Its classes are "
            f"{first_few(classes, 12)}.{did_you_mean(unknown[0], classes)} Write labels as the run "
            "does, or leave these images out.",
            column="label",
            levels=unknown,
            allowed=list(classes),
            count=count,
        )


def _prepared(
    pool: Pool,
    how: dict[str, Any],
    out: Path,
    config: RunConfig,
    jobs: int | None,
    progress: bool | None,
) -> tuple[Pool, npt.NDArray[Any]]:
    """Return (the pool without unusable images, what the model takes)."""
    options: dict[str, Any] = {
        "jobs": jobs,
        "tolerance": config.sources.tolerance,
        "max_pixels": config.sources.max_pixels,
    }
    if how["kind"] == "images":
        from unskew.represent.feature_cache import hash_images
        from unskew.represent.square_pixels import square_images

        if pool.images is None:
            raise DataError("the model needs pixels, but this is a table without images.")
        squared, X = square_images(pool, how["size"], how["resize"], progress=progress, **options)
        options.pop("max_pixels")
        return hash_images(squared, progress=progress, **options), X
    if how["features"]:
        if pool.images is None:
            raise DataError("the model needs features of images, but this is a table without them.")
        pool = represent_alike(pool, config.features(), out, progress=progress, **options)
    lacking = [name for name in how["columns"] if name not in pool.frame.columns]
    if lacking:
        raise DataError(
            f"the model needs {len(how['columns'])} numbers of each image, and these images lack "
            f"{first_few(lacking)}.",
            columns=lacking,
        )
    return pool, pool.frame[how["columns"]].to_numpy(dtype=np.float32)


def _scores(
    out: Path,
    record: dict[str, Any],
    arm: str,
    X: npt.NDArray[Any],
    allow_code: Collection[str],
    progress: bool | None,
) -> Iterator[Floats]:
    """Score the images with the model of every seed of an arm."""
    from unskew.learn.trained_model import load_trained
    from unskew.training.run import require_torch

    require_torch()
    folders = arm_folders(arm, recorded_seeds(record))
    check_models(out, record, folders)
    for folder in folders:
        model = load_trained(out / ARMS_FOLDER / folder, allow_code=allow_code)
        if list(model.classes) != list(record["classes"]):
            raise DataError(
                f"the model in {ARMS_FOLDER}/{folder} has other classes than training.json; was "
                "one of them replaced?",
                levels=list(model.classes),
                allowed=list(record["classes"]),
            )
        yield model.scores(X, progress=progress)


def _with_origin(
    scores: Scores, out: Path, record: dict[str, Any], arms: Sequence[str], pool: Pool
) -> Scores:
    """Add where the figures come from, and notes that fit images without weights."""
    evaluation = scores.evaluation
    notes = [_NO_WEIGHTS, *[note for note in evaluation.notes if note != NO_SPLITS]]
    seen = _seen_before(out, pool)
    if seen:
        notes.append(
            f"Exact copies of images of the run: {seen:,} of these images, which flatters the "
            "model if it was trained on them."
        )
    lost = record.get("unlearned", [])
    if record.get("has_label_sets"):
        words = f"The model could not learn {first_few(lost)}: train has no image with, or without."
        notes += [words] * bool(lost)
        unlearned = 0
    else:
        unlearned = pool.frame["label"].map(level_text).isin(lost).sum()
    if unlearned:
        notes.append(
            f"{unlearned:,} of {len(pool):,} images are of classes that train had no image of, and "
            "that no model could learn. They count as wrong in every figure."
        )
    fingerprints = {
        "images": fingerprint_pool(pool),
        "models": fingerprint_models(out, recorded_folders(record, arms)),
    }
    origin = {
        "arms": list(arms),
        "fingerprints": fingerprints,
        "versions": find_versions(("torch",)),
    }
    main = replace(evaluation, notes=tuple(notes), origin=origin, split=_ALL)
    return replace(scores, evaluations={**scores.evaluations, scores.main: main})


def _seen_before(out: Path, pool: Pool) -> int:
    features = out / "features.parquet"
    if (
        not features.is_file()
        or "content" not in pool.frame.columns
        or "content" not in parquet_columns(features)
    ):
        return 0
    known = read_parquet(features, ["content"])["content"]
    return int(pool.frame["content"].isin(set(known.dropna().tolist())).sum())
