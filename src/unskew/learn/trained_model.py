"""`TrainedModel`: scores of other images; the files of a training, written atomically, read without
running code.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError, did_you_mean, missing_extra
from unskew.files.atomic import written_whole
from unskew.files.plain_json import write_json
from unskew.files.reading import check_regular, damage_named, read_json
from unskew.files.user_code import permit_code
from unskew.learn.logit_calibration import LogitCalibration
from unskew.learn.presets import DEVICES, TrainSettings, settings_dict, settings_from_file
from unskew.learn.training_data import row_blocks
from unskew.learn.ways import WayChoice
from unskew.records import Floats

CHECKPOINT, MODEL, SETTINGS, LOGS = "checkpoint.pt", "model.pt", "settings.json", "logs"
# Changes when files of an older version can no longer be read.
_FORMAT = 2
# A run may go on elsewhere: then the last bits may differ, and nothing else.
_MAY_DIFFER = ("device", "devices", "logger", "logger_options")


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
    write_json(folder / SETTINGS, {**settings, **facts})


def load_seconds(folder: Path) -> list[float]:
    """Read how long every epoch took from ``settings.json``; empty where that is missing."""
    try:
        return [float(value) for value in read_json(folder / SETTINGS)["seconds"]]
    except (ValueError, KeyError, TypeError):
        return []


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote; nothing in the file is run (``weights_only``)."""
    import torch

    try:
        check_regular(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise nearly anything
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
    there = settings_dict(settings_from_file(state["settings"]))
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


def fill_network(
    network: Any, tensors: Mapping[str, Any], model: str, path: Path, last_layer: str | None = None
) -> None:
    """Load the tensors of a checkpoint into a network; those of another model are an error.

    ``last_layer`` is the name of a layer that was refitted, and has a bias.
    """
    try:
        if last_layer is not None:
            from unskew.learn.last_layer import add_bias

            add_bias(network, last_layer)
        network.load_state_dict(tensors)
    except (RuntimeError, AttributeError) as error:
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


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model after training.

    Attributes
    ----------
    settings : what it was trained by.
    classes : the M classes as text, in the order of its scores.
    epoch : the epoch, counted from 0, whose weights it has: the one with the lowest weighted
        validation loss, or the last.
    history : one mapping for each epoch: ``epoch``, ``train_loss``, ``learning_rate`` (at its end),
        ``seconds``, and, of the validation images, ``validation_loss`` and ``validation_accuracy``
        (weighted) and ``validation_accuracy_unweighted``; of watched images the same under their
        names.
    shape : of one row of X, (h, w, 3) or (d,).
    fingerprint : of the data it was trained on, by part (images, labels, weights, ids, classes, and
        those of validation).
    network : the torch module: (b, h, w, 3) uint8 or (b, d) float32 → (b, M) logits.
    choice : the way that it was trained in, and why.
    calibration : of the logits, fitted or prescribed after training; None: there is none, or the
        network contains it.
    has_label_sets : whether an image may have any number of the ``classes``, its labels.
    """

    settings: TrainSettings
    classes: tuple[str, ...]
    epoch: int
    history: tuple[dict[str, float], ...] = field(repr=False)
    shape: tuple[int, ...]
    fingerprint: dict[str, str] = field(repr=False)
    network: Any = field(repr=False)
    choice: WayChoice | None = None
    calibration: LogitCalibration | None = field(repr=False, default=None)
    has_label_sets: bool = False

    @property
    def calibrated_on_validation(self) -> bool:
        """Tell whether the validation images calibrated its probabilities."""
        return (
            self.calibration is not None
            and self.choice is not None
            and bool(self.choice.ess)
            # These are calibrated on training images, cross-fitted.
            and self.settings.model != "probe"
            and self.choice.way != "head"
        )

    @checked
    def scores(
        self, X: npt.NDArray[Any], *, device: str = "auto", progress: bool | None = None
    ) -> Floats:
        """Compute the (m, M) probability of each class for each row of X; rows sum to 1.

        Of labels, any number of which an image may have, each probability is by itself.

        ``device``: "auto", "cpu" or "cuda".
        """
        import torch

        if X.shape[1:] != self.shape or X.dtype != (
            np.uint8 if len(self.shape) == 3 else np.float32
        ):
            kind = "uint8" if len(self.shape) == 3 else "float32"
            raise DataError(
                f"the model was trained on rows of the shape {self.shape} of {kind}; got "
                f"{X.shape[1:]} of {X.dtype}.",
                option="X",
                value=[*X.shape[1:], str(X.dtype)],
                allowed=[*self.shape, kind],
            )
        score_nm = np.empty((len(X), len(self.classes)))
        on = found_device(device)
        self.network.eval().to(on)
        with torch.inference_mode(), show_progress("images scored", len(X), progress) as advance:
            for rows in row_blocks(X):
                logit_bm = self.network(torch.from_numpy(np.array(X[rows])).to(on)).double().cpu()
                if self.calibration is not None:
                    logit_bm = torch.from_numpy(self.calibration.apply(logit_bm.numpy()))
                to_scores = torch.sigmoid if self.has_label_sets else partial(torch.softmax, dim=1)
                score_nm[rows] = to_scores(logit_bm).numpy()
                advance(len(score_nm[rows]))
        return score_nm


def found_device(device: str) -> str:
    """Return "cpu" or "cuda": what "auto" resolves to; an error where there is no graphics card."""
    import torch

    if device not in DEVICES:
        raise ConfigError(
            f"device is one of {', '.join(map(repr, DEVICES))}; got "
            f"{device!r}.{did_you_mean(device, DEVICES)}",
            option="device",
            value=device,
            allowed=list(DEVICES),
        )
    has_card = torch.cuda.is_available()
    if device == "cuda" and not has_card:
        raise ConfigError(
            "device 'cuda' is not available here: use 'cpu', or 'auto', which takes what there is.",
            option="device",
            value=device,
        )
    return "cuda" if has_card and device != "cpu" else "cpu"


def new_network(
    settings: TrainSettings,
    shape: tuple[int, ...],
    n_classes: int,
    mean: Floats | None = None,
    divisor: Floats | None = None,
) -> Any:
    """Make the network that the settings name, for rows of ``shape``, before training.

    Without ``mean`` and ``divisor`` its inputs are scaled as it was pretrained.
    """
    from unskew.learn.model_zoo import make_network

    network = make_network(
        settings.model,
        shape,
        n_classes,
        mean,
        divisor,
        pretrained=settings.normalization == "model",
    )
    return network.double() if settings.precision == "64-true" else network


def save_model(folder: Path, state: Mapping[str, Any]) -> None:
    """Write ``settings.json`` and ``model.pt``, and delete the checkpoint that they replace.

    How long epochs took is in the former: the bytes of a model depend on the data, the settings and
    the seed alone, and not on whether it was resumed.
    """
    facts = {name: state[name] for name in ("classes", "epoch", "fingerprint", "choice")}
    save_settings(
        folder, state["settings"], **facts, seconds=[row["seconds"] for row in state["history"]]
    )
    history = [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in state["history"]
    ]
    save_state(folder / MODEL, _rebuilt({**state, "history": history}))
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _rebuilt(value: Any) -> Any:
    """Copy a value such that equal values give equal bytes.

    A pickle writes a text once for each object, and what was read from a checkpoint is another
    object.
    """
    if isinstance(value, Mapping):
        return {_rebuilt(key): _rebuilt(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_rebuilt(item) for item in value])
    if isinstance(value, str):
        return sys.intern(str(value))
    return value.detach().cpu().clone() if hasattr(value, "detach") else value


@checked
def load_trained(
    folder: str | os.PathLike[str], *, allow_code: Collection[str] = ()
) -> TrainedModel:
    """Load the model that `train_model` wrote into ``folder``.

    Nothing in the file is run; a ``module:factory`` is imported and called. Its module must be
    on PYTHONPATH or imported already; one of ``folder``, the working directory or an installed
    package must be named in ``allow_code``.
    """
    path = Path(folder) / MODEL
    if not path.exists():
        unfinished = (Path(folder) / CHECKPOINT).exists()
        cause = (
            "its training has not come to an end: resume it."
            if unfinished
            else "was a model trained there?"
        )
        raise DataError(
            f"there is no trained model in {Path(folder)} ({MODEL}); {cause}", path=str(path)
        )
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "a trained model", error) from None
    state = load_state(path)
    with damage_named(path, "a trained model"):
        return _model_of(state, path, allow_code)


def _model_of(state: Mapping[str, Any], path: Path, allow_code: Collection[str]) -> TrainedModel:
    import torch

    settings = settings_from_file(state["settings"])
    # The folder of `unskew train` holds those of its arms.
    home = path.absolute().parents[2 if path.absolute().parents[1].name == "arms" else 0]
    permit_code(settings.model, allow_code, [home])
    shape, classes = tuple(state["shape"]), tuple(state["classes"])
    width = shape[-1]
    with torch.random.fork_rng([]):
        network = new_network(settings, shape, len(classes), np.zeros(width), np.ones(width))
    fill_network(network, state["network"], settings.model, path, state.get("last_layer"))
    calibration = state["calibration"]
    return TrainedModel(
        settings,
        classes,
        state["epoch"],
        with_seconds(state["history"], path.parent),
        shape,
        state["fingerprint"],
        network.eval(),
        WayChoice.from_dict(state["choice"]),
        None if calibration is None else LogitCalibration.from_dict(calibration),
        bool(state.get("has_label_sets", False)),
    )


def with_seconds(
    history: Sequence[Mapping[str, float]], folder: Path
) -> tuple[dict[str, float], ...]:
    """Add the seconds of every epoch to the history, if ``settings.json`` has them."""
    seconds = load_seconds(folder)
    if len(seconds) != len(history):
        return tuple(dict(row) for row in history)
    return tuple({**row, "seconds": time} for row, time in zip(history, seconds, strict=True))
