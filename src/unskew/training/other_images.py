"""Other images with a trained run: prepared as its own were, scored by its model, evaluated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.config.run_config import RunConfig, read_config
from unskew.errors import ConfigError, DataError, InvalidConfigError, did_you_mean, first_few
from unskew.evaluation.matching import NO_SPLITS
from unskew.evaluation.predictions import Evaluation, evaluate_predictions
from unskew.files.atomic import written_whole
from unskew.files.checksums import check_files
from unskew.files.fingerprints import find_versions, fingerprint_file, fingerprint_pool
from unskew.forecasting.probe_data import read_classes
from unskew.records import Floats, Pool
from unskew.records.arrays import Randomness
from unskew.runs.evaluate import run_rules
from unskew.runs.inputs import find_user_modules
from unskew.runs.output import CONFIGURATION, TRAINING, features_table, write_frame
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources
from unskew.training.folder import (
    ARMS_FOLDER,
    PROJECTIONS,
    check_models,
    read_record,
    represent_alike,
)
from unskew.training.result import prediction_frame

_ALL = "all images"
_NO_WEIGHTS = (
    "Every image counts the same: these images have no weights, so the figures describe "
    "them, not the target."
)


def evaluate_images(
    folder: str | os.PathLike[str],
    places: Sequence[Path],
    *,
    arm: str | None = None,
    save: Path | None = None,
    overwrite: bool = False,
    by: Sequence[str] = (),
    positive: str | None = None,
    replicates: int = 1000,
    rng: Randomness = 0,
    force: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Evaluate the model of a run on images that were no part of it.

    Labels are matched to the run's classes by name.

    Parameters
    ----------
    folder : what `unskew train` wrote; of the rest of the run only the module of a model of your
        own is needed.
    places : folders of images or tables, as for `unskew describe`.
    arm : which model, of several; default: the one that the run is about.
    save : a table for the predictions, CSV or Parquet by its name.
    force : also if the files of the run are not those that it wrote.
    """
    out = Path(folder)
    check_files(out, (TRAINING, CONFIGURATION, PROJECTIONS), force=force)
    record = read_record(out)
    name = _chosen_arm(record, arm)
    _check_save(save, overwrite)
    config = _settings(out)
    find_user_modules(config)
    pool = read_sources(find_sources(places, Path()), Path())
    _check_labels(pool, record["classes"])
    pool, X = _prepared(pool, record["preprocessing"], out, config, jobs, progress)
    score_nm = _scores(out, record, name, X, progress)
    classes, label_n = read_classes(pool, least=1)
    truth = np.array(classes, dtype=object)[label_n]
    frame = prediction_frame(pool.frame["id"].tolist(), truth, record["classes"], score_nm)
    if save is not None:
        _save(frame, save)
    roles = [role for role in ("id", "source", "label", "group") if role in pool.frame.columns]
    source = pool.frame["source"].astype(str)
    table = pool.frame[roles].assign(label=truth, source=source, sample_weight=1.0)
    private, bins = run_rules(out)
    evaluation = evaluate_predictions(
        table,
        frame,
        attributes=features_table(pool),
        by=by,
        bins=bins,
        positive=positive,
        replicates=replicates,
        rng=rng,
        regression=False,
        private=private,
    )
    return _with_origin(evaluation, out, name, pool)


def _settings(out: Path) -> RunConfig:
    """Read the settings of the run; its data need not exist any more."""
    try:
        return read_config(out / "run.toml", check_paths=False)
    except InvalidConfigError:
        return read_config(out / "run.toml", folder=out, check_paths=False)


def _chosen_arm(record: dict[str, Any], arm: str | None) -> str:
    names = list(record["arms"])
    if arm is not None and arm not in names:
        raise ConfigError(
            f"the run has no arm {arm!r}; it trained "
            f"{first_few(names, 12)}.{did_you_mean(arm, names)}",
            option="--arm",
            value=arm,
            allowed=names,
        )
    if record["status"] != "finished":
        raise DataError(
            "the training is not finished: `unskew train run.toml -o OUT --resume` continues it.",
            option="--resume",
        )
    return str(arm or record["arm"])


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
        frame.to_csv(temporary, index=False)


def _check_labels(pool: Pool, classes: Sequence[str]) -> None:
    """Refuse labels that are no class of the run, before any image is opened."""
    labels, label_n = read_classes(pool, least=1)
    unknown = [name for name in labels if name not in classes]
    if unknown:
        count = int(np.isin(label_n, [labels.index(name) for name in unknown]).sum())
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
    out: Path, record: dict[str, Any], arm: str, X: npt.NDArray[Any], progress: bool | None
) -> Floats:
    from unskew.learn.trained_model import load_trained
    from unskew.training.run import require_torch

    require_torch()
    check_models(out, record, [arm])
    model = load_trained(out / ARMS_FOLDER / arm)
    if list(model.classes) != list(record["classes"]):
        raise DataError(
            f"the model in {ARMS_FOLDER}/{arm} has other classes than training.json; was one of "
            "them replaced?",
            levels=list(model.classes),
            allowed=list(record["classes"]),
        )
    return model.scores(X, progress=progress)


def _with_origin(evaluation: Evaluation, out: Path, arm: str, pool: Pool) -> Evaluation:
    """Add where the figures come from, and notes that fit images without weights."""
    notes = [
        _NO_WEIGHTS,
        *[note for note in evaluation.notes if note != NO_SPLITS],
    ]
    seen = _seen_before(out, pool)
    if seen:
        notes.append(
            f"{seen:,} of these images are exact copies of images of the run, which flatters the "
            "model if it was trained on them."
        )
    model = out / ARMS_FOLDER / arm / "model.pt"
    fingerprints = {
        "images": fingerprint_pool(pool),
        "model": fingerprint_file(model) if model.is_file() else "unknown",
    }
    origin = {"arm": arm, "fingerprints": fingerprints, "versions": find_versions(("torch",))}
    return replace(evaluation, notes=tuple(notes), origin=origin, split=_ALL)


def _seen_before(out: Path, pool: Pool) -> int:
    import pandas as pd
    import pyarrow.parquet as pq

    features = out / "features.parquet"
    if (
        not features.is_file()
        or "content" not in pool.frame.columns
        or "content" not in pq.read_schema(features).names
    ):
        return 0
    known = pd.read_parquet(features, columns=["content"])["content"]
    return int(pool.frame["content"].isin(set(known.dropna().tolist())).sum())
