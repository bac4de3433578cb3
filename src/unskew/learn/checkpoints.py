"""Files of a training, written atomically and read without running code; TensorBoard logs."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, DataError, missing_extra
from unskew.files.atomic import write_text, written_whole


class TrainingLogs:
    """Writes one point per epoch and measure under ``folder``.

    What an earlier run wrote there is written again from its history.
    """

    def __init__(self, folder: Path | None, history: Sequence[dict[str, float]]) -> None:
        self._writer: Any = None
        if folder is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing_extra(
                "torch", "writing logs for TensorBoard (logs=False: none)", error
            ) from None
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = SummaryWriter(str(folder))
        ended = time.time() - sum(row["seconds"] for row in history)
        for row in history:
            ended += row["seconds"]
            self.add(row, ended)

    def add(self, row: dict[str, float], ended: float | None = None) -> None:
        """Add one epoch; names become groups: ``validation/accuracy``."""
        if self._writer is None:
            return
        for name, value in row.items():
            if name not in ("epoch", "seconds"):
                self._writer.add_scalar(_grouped(name), value, int(row["epoch"]), walltime=ended)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _grouped(name: str) -> str:
    for measure in ("accuracy_unweighted", "accuracy", "loss"):
        if name.endswith(f"_{measure}"):
            return f"{name.removesuffix(f'_{measure}')}/{measure}"
    return f"train/{name}"


CHECKPOINT, MODEL, SETTINGS, LOGS = "checkpoint.pt", "model.pt", "settings.json", "logs"
# Changes when files of an older version can no longer be read.
_FORMAT = 1
# A run may go on elsewhere: then the last bits may differ, and nothing else.
_MAY_DIFFER = ("device", "devices")


def prepare_folder(folder: Path, *, resume: bool, force: bool) -> None:
    """Make the folder; refuse one that holds a run, unless it is to be resumed or replaced."""
    if resume and force:
        raise ConfigError(
            "resume goes on with the run in the folder, force replaces it: give one of the two.",
            option="resume",
            path=str(folder),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the folder {folder} cannot be made ({error.strerror or error}).", path=str(folder)
        ) from error
    # What a killed process was writing.
    for name in (MODEL, CHECKPOINT):
        for rest in folder.glob(f".{name}.*.part"):
            rest.unlink(missing_ok=True)
    held = [name for name in (MODEL, CHECKPOINT) if (folder / name).exists()]
    if not held or resume:
        return
    if not force:
        state = "a finished run" if MODEL in held else "an unfinished run"
        raise ConfigError(
            f"{folder} already holds {state} ({', '.join(held)}), which is not overwritten. Take "
            "another folder, resume it (resume), or replace it (force).",
            path=str(folder),
            value=held,
        )
    # The model goes first: what a kill leaves behind is then at worst an unfinished run.
    for name in (MODEL, SETTINGS, CHECKPOINT):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / LOGS, ignore_errors=True)


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors and plain values atomically."""
    import torch

    # With a path, torch would write the temporary name into the file.
    with written_whole(path) as temporary, temporary.open("wb") as file:
        torch.save({"format": _FORMAT, **state}, file)


def save_settings(folder: Path, settings: Mapping[str, Any], **facts: Any) -> None:
    """Write ``settings.json``: the settings and some facts about the run."""
    write_text(
        folder / SETTINGS, json.dumps({**settings, **facts}, indent=2, ensure_ascii=False) + "\n"
    )


def load_seconds(folder: Path) -> list[float]:
    """Read how long every epoch took from ``settings.json``; empty where that is missing."""
    try:
        seconds = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["seconds"]
        return [float(value) for value in seconds]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote; nothing in the file is run (``weights_only``)."""
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, KeyError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise DataError(
            f"{path} cannot be read: the file is damaged, or was written by something else "
            f"({type(error).__name__}: {first}). Restore it from a copy, or train again with "
            "--force (in Python force=True).",
            path=str(path),
        ) from error
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        actual = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise DataError(
            f"{path} is not a checkpoint of this version of unskew: its format is {actual!r}, "
            f"expected {_FORMAT}.",
            path=str(path),
            value=actual,
            allowed=[_FORMAT],
        )
    return state


def refuse_other_run(
    state: Mapping[str, Any],
    settings: Mapping[str, Any],
    fingerprint: Mapping[str, str],
    watched: Sequence[str],
    path: Path,
) -> None:
    """Refuse to resume a run with other settings or data than it began with, and name them."""
    there = state["settings"]
    differing = [
        f"{name} ({there.get(name)!r} there, {settings.get(name)!r} now)"
        for name in sorted(set(there) | set(settings))
        if name not in _MAY_DIFFER and _plain(there.get(name)) != _plain(settings.get(name))
    ]
    before = state["fingerprint"]
    differing += [
        f"the {name}"
        for name in sorted(set(before) | set(fingerprint))
        if before.get(name) != fingerprint.get(name)
    ]
    if sorted(state["watched"]) != sorted(watched):
        differing.append(
            f"the watched sets ({', '.join(state['watched']) or 'none'} there, "
            f"{', '.join(watched) or 'none'} now)"
        )
    if differing:
        raise ConfigError(
            f"the run in {path} cannot be resumed, because it was begun with other data or "
            f"settings. What differs: {'; '.join(differing)}. Resume it with what it was begun "
            "with, take another folder, or replace it (force).",
            path=str(path),
            value=differing,
        )


def fill_network(network: Any, tensors: Mapping[str, Any], model: str, path: Path) -> None:
    """Load the tensors of a checkpoint into a network; those of another model are an error."""
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).strip().splitlines()
        raise DataError(
            f"{path} holds the weights of another model than {model!r}: "
            f"{first[min(1, len(first) - 1)].strip()[:300]} "
            "Was the network's code changed since, or the file copied from another run?",
            path=str(path),
            value=model,
        ) from error


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
