"""The output folder of a training: which run it holds, and whether another may replace it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.run_config import MODEL_SECTIONS, RunConfig, effective_settings, resolved
from unskew.errors import ConfigError, DataError, first_few
from unskew.files.atomic import written_together
from unskew.files.fingerprints import fingerprint_file, fingerprint_pool, fingerprint_rows
from unskew.files.plain_json import json_value, write_json
from unskew.files.reading import read_json, read_parquet
from unskew.records import Pool
from unskew.runs.differences import changed_images
from unskew.runs.image_map import MAP
from unskew.runs.output import (
    CONFIGURATION,
    DIAGNOSTICS,
    FEATURES,
    MEMBERSHIPS,
    PAGE,
    SOLUTION,
    SUMMARY,
    TRAINING,
    WEIGHTS,
    check_writable,
    is_in_parts,
)
from unskew.runs.projections import PROJECTIONS
from unskew.training.inputs import SPLITS, TrainingInputs

if TYPE_CHECKING:
    from unskew.records import Floats, Pool

RECORD, METRICS, PREDICTIONS = TRAINING, "metrics.json", "predictions.parquet"
HISTORY, CARD, ARMS_FOLDER = "history.csv", "model-card.md", "arms"
_KINDS = {"status": str, "arm": str, "arms": dict, "classes": list, "preprocessing": dict}
_MOST_NAMED = 4
# What only a training writes, and what every run writes; images that cannot be read are listed also
# where there is no run.
_OWN = (METRICS, PREDICTIONS, HISTORY, CARD, PROJECTIONS)
_OF_RUNS = (
    MEMBERSHIPS,
    SOLUTION,
    DIAGNOSTICS,
    FEATURES,
    MAP,
    PAGE,
    SUMMARY,
)
_MODEL = "model.pt"
_SPLIT, _OUT = "sources.split", "OUT"


def check_training_folder(out: Path, *, resume: bool, force: bool) -> None:
    """Refuse, before the work, a folder that a training must not be written into.

    A folder that contains a run is refused unless ``resume`` or ``force`` is set.
    """
    if resume and force:
        raise ConfigError(
            "--resume continues the run of the folder, --force throws it away: use one of the two.",
            option="--resume",
        )
    started = (out / RECORD).is_file()
    if started and not (resume or force):
        raise ConfigError(
            f"{str(out)!r} contains a training that was {_state(out)}. Add --resume to continue "
            "it, --force to throw it away and start again, or name another folder with -o.",
            path=str(out),
            value=_state(out),
        )
    if not started and (out / WEIGHTS).exists() and not force:
        raise ConfigError(
            f"{str(out)!r} contains the results of another run (`unskew weigh`), and no training "
            "to continue. Name another folder with -o, or add --force to replace them.",
            path=str(out),
        )
    if is_in_parts(out):
        raise ConfigError(
            f"{str(out)!r} contains the results of a run over Parquet parts. Name another folder "
            "with -o.",
            path=str(out),
        )
    if not started and (out / ARMS_FOLDER).exists():
        raise ConfigError(
            f"{str(out)!r} contains a folder {ARMS_FOLDER!r} that no training of this kind wrote. "
            "Name another folder with -o, or move it away.",
            path=str(out / ARMS_FOLDER),
        )
    check_writable(out)
    names = _OWN if _holds_run(out) else (*_OWN, *_OF_RUNS)
    others = [name for name in names if (out / name).exists()]
    if others and not (started or force):
        raise _not_ours(out, others)


def check_split_table(out: Path, table: str | None) -> None:
    """Refuse to replace a splits.csv that differs and belongs to no run.

    The file is written before a training is recorded, so its record may be missing.
    """
    path = out / SPLITS
    if table is None or not path.exists() or (out / RECORD).is_file() or _holds_run(out):
        return
    if not path.is_file() or path.read_bytes().splitlines() != table.encode().splitlines():
        raise _not_ours(out, [SPLITS])


def _holds_run(out: Path) -> bool:
    """Tell whether the folder contains a run, finished or refused."""
    return all((out / name).is_file() for name in (CONFIGURATION, PAGE, SUMMARY))


def _not_ours(out: Path, names: Sequence[str]) -> ConfigError:
    those = "it" if len(names) == 1 else "them"
    return ConfigError(
        f"{str(out)!r} contains {first_few(names, 12)}, and no training that wrote {those}. Name "
        f"another folder with -o, or add --force to replace {those}.",
        path=str(out / names[0]),
    )


def _state(out: Path) -> str:
    is_finished = read_record(out).get("status") == "finished"
    return "finished" if is_finished else "started and not finished"


def read_record(out: Path) -> dict[str, Any]:
    """Read training.json of a folder."""
    path = out / RECORD
    if not path.is_file():
        raise DataError(
            f"{str(out)!r} contains no {RECORD}, which `unskew train run.toml -o {out}` writes.",
            path=str(path),
        )
    record = read_json(path)
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name), kind) for name, kind in _KINDS.items()
    ):
        raise DataError(f"{path} is no record of a training.", path=str(path))
    return record


def arm_folders(arm: str, seeds: Sequence[int]) -> list[str]:
    """Name the folders of an arm's trainings: that of the first seed is called like the arm."""
    return [arm, *[f"{arm}-seed-{seed}" for seed in seeds[1:]]]


def recorded_seeds(record: Mapping[str, Any]) -> list[int]:
    """Return the seeds that every arm of a recorded training was trained with."""
    seeds = record.get("seeds")
    return [int(seed) for seed in seeds] if isinstance(seeds, list) and seeds else [0]


def recorded_folders(record: Mapping[str, Any], arms: Iterable[str] | None = None) -> list[str]:
    """Name the folders of all trainings of a record, or of some of its arms."""
    names, seeds = list(record["arms"] if arms is None else arms), recorded_seeds(record)
    return [folder for name in names for folder in arm_folders(name, seeds)]


def fingerprint_models(out: Path, folders: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the model of every folder of arms/ that has one."""
    return {
        name: fingerprint_file(path)
        for name in folders
        if (path := out / ARMS_FOLDER / name / _MODEL).is_file()
    }


def check_models(out: Path, record: Mapping[str, Any], folders: Iterable[str]) -> None:
    """Refuse a model that is not the one that the training ended with.

    Trainings from before this was recorded are not checked.
    """
    recorded = record.get("models") or {}
    for name, digest in fingerprint_models(out, folders).items():
        if recorded.get(name, digest) != digest:
            path = out / ARMS_FOLDER / name / _MODEL
            raise DataError(
                f"{path} is not the model that this training ended with: it is the checkpoint of "
                f"another model, or damaged. Its SHA-256 begins with {digest[:12]}, and {RECORD} "
                f"says {str(recorded[name])[:12]}. Restore it from a copy, or train again with "
                "--force.",
                path=str(path),
            )


def write_training_record(out: Path, record: Mapping[str, Any]) -> None:
    """Write training.json atomically, with its checksum."""
    with written_together(out, ()) as folder:
        write_json(folder / RECORD, record)


def clear_training(out: Path) -> None:
    """Delete the files of an earlier training, and nothing else."""
    shutil.rmtree(out / ARMS_FOLDER, ignore_errors=True)
    for name in (*_OWN, SPLITS, RECORD):
        (out / name).unlink(missing_ok=True)


def refuse_links(out: Path, folder: Path) -> None:
    """Refuse a link within ``out``, by which a training would write, and delete, elsewhere."""
    for path in (folder / "logs", folder, *folder.parents):
        if path == out:
            return
        if path.is_symlink():
            raise DataError(
                f"{str(path)!r} is a link, through which the training would write. Delete it.",
                path=str(path),
            )


def describe_start(training: TrainingInputs, arms: Sequence[str], out: Path) -> dict[str, Any]:
    """Describe what a training starts from: settings, classes, arms, fingerprints of the data."""
    pool = training.inputs.pool
    return {
        "settings": _movable(
            flat_settings(training.inputs.config), training.inputs.config.folder, out
        ),
        "classes": list(training.classes),
        "has_label_sets": training.has_label_sets,
        "preprocessing": training.preprocessing,
        "fingerprints": {
            **fingerprint_pool(pool),
            "splits": fingerprint_rows(_pairs(pool, pool.frame["split"].tolist())),
        },
        "trained": list(arms),
    }


def fingerprint_weights(pool: Pool, weight_n: Floats) -> str:
    """Return the SHA-256 of id and weight (to nine digits) of every image."""
    return fingerprint_rows(_pairs(pool, [f"{value:.9g}" for value in weight_n.tolist()]))


def _pairs(pool: Pool, values: Sequence[Any]) -> Iterator[str]:
    return (f"{id}\x1f{value}" for id, value in zip(pool.frame["id"].tolist(), values, strict=True))


def flat_settings(config: RunConfig) -> dict[str, Any]:
    """Return every setting that can change a model: {"learn.epochs": 4, …}."""
    settings = {**resolved(config), "learn": config.learn.settings()}
    return {
        f"{name}.{key}": value
        for name, section in effective_settings(settings, MODEL_SECTIONS).items()
        for key, value in section.items()
        if (name, key) != ("learn", "seeds")  # how many models, not which
    }


def _movable(settings: dict[str, Any], home: Path, out: Path) -> dict[str, Any]:
    """Name a table of splits in the output folder from there, so that the folder may be moved.

    It becomes {"file": "OUT/splits.csv"}.
    """
    split = settings.get(_SPLIT)
    if not isinstance(split, Mapping) or not split.get("file"):
        return settings
    path, folder = Path(os.path.realpath(home / str(split["file"]))), Path(os.path.realpath(out))
    if not path.is_relative_to(folder):
        return settings
    return {**settings, _SPLIT: {**split, "file": f"{_OUT}/{path.relative_to(folder).as_posix()}"}}


def _moved(before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that a run began with, with the path that its splits.csv has now.

    Whether the splits themselves are the same is seen from their fingerprint.
    """
    was, is_now = before.get(_SPLIT), now.get(_SPLIT)
    if (
        is_now == {"file": f"{_OUT}/{SPLITS}"}
        and isinstance(was, Mapping)
        and Path(str(was.get("file"))).name == SPLITS
    ):
        return {**before, _SPLIT: is_now}
    return before


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], pool: Pool, out: Path) -> None:
    """Refuse to continue a training with other settings or data than it began with."""
    settings = json_value(now["settings"])
    changes = [*_changed_settings(_moved(before.get("settings", {}), settings), settings)]
    if before.get("trained") != now["trained"]:
        changes.append(
            f"the arms are {', '.join(now['trained'])}, and were "
            f"{', '.join(before.get('trained', ()))}"
        )
    old, new = before.get("fingerprints", {}), now["fingerprints"]
    changed = [name for name in new if name in old and old[name] != new[name]]
    if changed:
        changes += [*_changed_data(changed, pool, out)]
    if changes:
        more = "" if len(changes) <= _MOST_NAMED else f"; and {len(changes) - _MOST_NAMED} more"
        raise ConfigError(
            f"the training in {str(out)!r} cannot continue, because it is not the same any more: "
            f"{'; '.join(changes[:_MOST_NAMED])}{more}. "
            "Undo that, start again with --force, or name another folder with -o.",
            path=str(out),
        )


def _changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            was, is_now = (
                json.dumps(settings[key], ensure_ascii=False) if key in settings else "not set"
                for settings in (before, now)
            )
            yield f"{key} is {is_now}, and was {was}"


def _changed_data(changed: Sequence[str], pool: Pool, out: Path) -> Iterator[str]:
    """Name the images that changed, or which part of what is known about them did."""
    features = out / FEATURES
    if "images" in changed and features.is_file() and "content" in pool.frame.columns:
        named = list(changed_images(read_parquet(features, ["id", "content"]), pool.frame))
        if named:
            yield f"the images differ ({len(named)}): {first_few(named, 3)}"
            return
    what = {
        "table": "what is known about the images (labels, groups, features)",
        "images": "the images",
        "splits": "the splits",
    }
    yield f"{first_few([what.get(name, name) for name in changed])} differ"
