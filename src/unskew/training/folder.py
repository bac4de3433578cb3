"""The output folder of a training: which run it holds, whether another may take its place, and what
a run that goes on must agree with.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.effects import MODEL_SECTIONS, effective_settings
from unskew.config.run_config import RunConfig, resolved
from unskew.errors import ConfigError, DataError, first_few
from unskew.files.fingerprints import fingerprint_file, fingerprint_pool, fingerprint_rows
from unskew.files.plain_json import json_value, write_json
from unskew.runs.differences import changed_images
from unskew.runs.output import (
    CONFIGURATION,
    DIAGNOSTICS,
    FEATURES,
    PAGE,
    SOLUTION,
    SUMMARY,
    TRAINING,
    WEIGHTS,
    check_writable,
)
from unskew.training.inputs import SPLITS, TrainingInputs
from unskew.training.projections import PROJECTIONS

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
    SOLUTION,
    DIAGNOSTICS,
    FEATURES,
    PAGE,
    SUMMARY,
)
_MODEL = "model.pt"
_SPLIT, _OUT = "sources.split", "OUT"


def check_training_folder(out: Path, *, resume: bool, force: bool) -> None:
    """May a training be written there? Said before the work. A folder that holds a run is kept
    unless ``force`` says otherwise.
    """
    if resume and force:
        raise ConfigError(
            "--resume goes on with the run of the folder, --force throws it away: say one of the "
            "two."
        )
    started = (out / RECORD).is_file()
    if started and not (resume or force):
        raise ConfigError(
            f"{str(out)!r} holds a training that was {_state(out)}. Add --resume to go on with it, "
            "--force to throw it away and begin "
            "anew, or name another folder by -o."
        )
    if not started and (out / WEIGHTS).exists() and not force:
        raise ConfigError(
            f"{str(out)!r} holds the results of another run (`unskew weigh`), and no training to "
            "go on with. Name another folder by -o, or "
            "add --force to replace them."
        )
    if not started and (out / ARMS_FOLDER).exists():
        raise ConfigError(
            f"{str(out)!r} holds a folder {ARMS_FOLDER!r} that no training of this kind wrote. "
            "Name another folder by -o, or move it away."
        )
    check_writable(out)
    names = _OWN if _holds_run(out) else (*_OWN, *_OF_RUNS)
    others = [name for name in names if (out / name).exists()]
    if others and not (started or force):
        raise _not_ours(out, others)


def check_split_table(out: Path, table: str | None) -> None:
    """splits.csv is written before a training is recorded: one that is there must be the same, or
    of a run.
    """
    path = out / SPLITS
    if table is None or not path.exists() or (out / RECORD).is_file() or _holds_run(out):
        return
    if not path.is_file() or path.read_bytes().splitlines() != table.encode().splitlines():
        raise _not_ours(out, [SPLITS])


def _holds_run(out: Path) -> bool:
    """The folder holds a run, be it one that was refused."""
    return all((out / name).is_file() for name in (CONFIGURATION, PAGE, SUMMARY))


def _not_ours(out: Path, names: Sequence[str]) -> ConfigError:
    those = "it" if len(names) == 1 else "them"
    return ConfigError(
        f"{str(out)!r} holds {first_few(names, 12)}, and no training that wrote {those}. Name "
        "another folder by -o, or add --force to "
        f"replace {those}."
    )


def _state(out: Path) -> str:
    return (
        "finished" if read_record(out).get("status") == "finished" else "started and not finished"
    )


def read_record(out: Path) -> dict[str, Any]:
    """training.json of a folder."""
    path = out / RECORD
    if not path.is_file():
        raise DataError(
            f"{str(out)!r} holds no {RECORD}, which `unskew train run.toml -o {out}` writes."
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}). Was it edited by hand?") from error
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name), kind) for name, kind in _KINDS.items()
    ):
        raise DataError(f"{path} is no record of a training.")
    return record


def fingerprint_models(out: Path, arms: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the model of every arm that has one."""
    return {
        name: fingerprint_file(path)
        for name in arms
        if (path := out / ARMS_FOLDER / name / _MODEL).is_file()
    }


def check_models(out: Path, record: Mapping[str, Any], arms: Iterable[str]) -> None:
    """A model must be the one that the training ended with; trainings of before this was recorded
    are believed.
    """
    said, have = record.get("models") or {}, fingerprint_models(out, arms)
    for name in have:
        if name in said and said[name] != have[name]:
            raise DataError(
                f"{out / ARMS_FOLDER / name / _MODEL} is not the model that this training ended "
                "with: it is the checkpoint of another "
                f"model, or damaged. Its SHA-256 begins with {have[name][:12]}, and {RECORD} says "
                f"{str(said[name])[:12]}. Put it back "
                "from a copy, or train again with --force."
            )


def write_training_record(out: Path, record: Mapping[str, Any]) -> None:
    """training.json, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RECORD, record)


def clear_training(out: Path) -> None:
    """The files of an earlier training go, and nothing else."""
    shutil.rmtree(out / ARMS_FOLDER, ignore_errors=True)
    for name in (*_OWN, SPLITS, RECORD):
        (out / name).unlink(missing_ok=True)


def describe_start(training: TrainingInputs, arms: Sequence[str], out: Path) -> dict[str, Any]:
    """What a run is made of, known before anything is trained: settings, classes, arms,
    fingerprints of the data.
    """
    pool = training.inputs.pool
    return {
        "settings": _without_place(
            flat_settings(training.inputs.config), training.inputs.config.folder, out
        ),
        "classes": list(training.classes),
        "preprocessing": training.preprocessing,
        "fingerprints": {
            **fingerprint_pool(pool),
            "splits": fingerprint_rows(_pairs(pool, pool.frame["split"].tolist())),
        },
        "trained": list(arms),
    }


def fingerprint_weights(pool: Pool, weight_n: Floats) -> str:
    """SHA-256 of id and weight of every image; what is the same to nine digits is the same."""
    return fingerprint_rows(_pairs(pool, [f"{value:.9g}" for value in weight_n.tolist()]))


def _pairs(pool: Pool, values: Sequence[Any]) -> Iterator[str]:
    return (f"{id}\x1f{value}" for id, value in zip(pool.frame["id"].tolist(), values, strict=True))


def flat_settings(config: RunConfig) -> dict[str, Any]:
    """{"learn.epochs": 4, …}: every setting that can change a model."""
    settings = {**resolved(config), "learn": config.learn.settings()}
    return {
        f"{name}.{key}": value
        for name, section in effective_settings(settings, MODEL_SECTIONS).items()
        for key, value in section.items()
    }


def _without_place(settings: dict[str, Any], home: Path, out: Path) -> dict[str, Any]:
    """A table of splits in the output folder is named from there, so that the folder may be moved:
    {"file": "OUT/splits.csv"}.
    """
    split = settings.get(_SPLIT)
    if not isinstance(split, Mapping) or not split.get("file"):
        return settings
    path, place = Path(os.path.realpath(home / str(split["file"]))), Path(os.path.realpath(out))
    if not path.is_relative_to(place):
        return settings
    return {**settings, _SPLIT: {**split, "file": f"{_OUT}/{path.relative_to(place).as_posix()}"}}


def _moved(before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a run began with; where they name splits.csv by the place it had then, as
    they would be named now.

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
    """A run goes on only with the settings and the data it began with: what differs is named."""
    settings = json_value(now["settings"])
    found = [*_changed_settings(_moved(before.get("settings", {}), settings), settings)]
    if before.get("trained") != now["trained"]:
        found.append(
            f"the arms are {', '.join(now['trained'])}, and were "
            f"{', '.join(before.get('trained', ()))}"
        )
    said, have = before.get("fingerprints", {}), now["fingerprints"]
    changed = [name for name in have if name in said and said[name] != have[name]]
    if changed:
        found += [*_changed_data(changed, pool, out)]
    if found:
        more = "" if len(found) <= _MOST_NAMED else f"; and {len(found) - _MOST_NAMED} more"
        raise ConfigError(
            f"the training in {str(out)!r} cannot go on, because it is not the same any more: "
            f"{'; '.join(found[:_MOST_NAMED])}{more}. "
            "Put that back, begin anew with --force, or name another folder by -o."
        )


def _changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            was, is_now = (
                json.dumps(each.get(key), ensure_ascii=False) if key in each else "not said"
                for each in (before, now)
            )
            yield f"{key} is {is_now}, and was {was}"


def _changed_data(changed: Sequence[str], pool: Pool, out: Path) -> Iterator[str]:
    """The images that changed by name, or which part of what is known of them."""
    import pandas as pd

    features = out / FEATURES
    if "images" in changed and features.is_file() and "content" in pool.frame.columns:
        named = list(
            changed_images(pd.read_parquet(features, columns=["id", "content"]), pool.frame)
        )
        if named:
            yield f"the images differ ({len(named)}): {first_few(named, 3)}"
            return
    what = {
        "table": "what is known of the images (labels, groups, features)",
        "images": "the images",
        "splits": "the splits",
    }
    yield f"{first_few([what.get(name, name) for name in changed])} differ"
