"""A trained model: what it was trained by, how it went, and its scores of other images."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError, did_you_mean, missing_extra
from unskew.learn.checkpoints import (
    CHECKPOINT,
    MODEL,
    fill_network,
    load_seconds,
    load_state,
    save_settings,
    save_state,
)
from unskew.learn.presets import DEVICES, TrainSettings
from unskew.learn.training_data import row_blocks
from unskew.records import Floats


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
    """

    settings: TrainSettings
    classes: tuple[str, ...]
    epoch: int
    history: tuple[dict[str, float], ...] = field(repr=False)
    shape: tuple[int, ...]
    fingerprint: dict[str, str] = field(repr=False)
    network: Any = field(repr=False)

    def scores(
        self, X: npt.NDArray[Any], *, device: str = "auto", progress: bool | None = None
    ) -> Floats:
        """Compute the (m, M) probability of each class for each row of X; rows sum to 1.

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
                logits = self.network(torch.from_numpy(np.array(X[rows])).to(on))
                score_nm[rows] = torch.softmax(logits.double(), dim=1).cpu().numpy()
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
    settings: TrainSettings, shape: tuple[int, ...], n_classes: int, mean: Floats, divisor: Floats
) -> Any:
    """Make the network that the settings name, for rows of ``shape``, before training."""
    from unskew.learn.model_zoo import make_network

    network = make_network(settings.model, shape, n_classes, mean, divisor)
    return network.double() if settings.precision == "64-true" else network


def save_model(folder: Path, state: Mapping[str, Any]) -> None:
    """Write ``settings.json`` and ``model.pt``, and delete the checkpoint that they replace.

    How long epochs took is in the former: the bytes of a model depend on the data, the settings and
    the seed alone, and not on whether it was resumed.
    """
    facts = {name: state[name] for name in ("classes", "epoch", "fingerprint")}
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


def load_trained(folder: str | os.PathLike[str]) -> TrainedModel:
    """Load the model that `train_model` wrote into ``folder``.

    Nothing in the file is run; a ``module:factory`` is imported and called.
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
        import torch
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "a trained model", error) from None
    state = load_state(path)
    settings = TrainSettings(**state["settings"])
    shape, classes = tuple(state["shape"]), tuple(state["classes"])
    width = shape[-1]
    with torch.random.fork_rng([]):
        network = new_network(settings, shape, len(classes), np.zeros(width), np.ones(width))
    fill_network(network, state["network"], settings.model, path)
    history = with_seconds(state["history"], Path(folder))
    return TrainedModel(
        settings, classes, state["epoch"], history, shape, state["fingerprint"], network.eval()
    )


def with_seconds(
    history: Sequence[Mapping[str, float]], folder: Path
) -> tuple[dict[str, float], ...]:
    """Add the seconds of every epoch to the history, if ``settings.json`` has them."""
    seconds = load_seconds(folder)
    if len(seconds) != len(history):
        return tuple(dict(row) for row in history)
    return tuple({**row, "seconds": time} for row, time in zip(history, seconds, strict=True))
