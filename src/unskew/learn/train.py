"""Weighted training of an image classifier: settings, data in, one epoch after the other, a model out. Read it top to bottom.

The loop runs on Lightning Fabric: the same call trains on a CPU, a graphics card, or several of them. Everything random in epoch e comes
from (seed, e), so that a run that was killed and resumed ends in the same bits (on a CPU) as one that was not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from unskew.errors import ConfigError, did_you_mean
from unskew.learn.draws import Scheme
from unskew.learn.probe import Scaling
from unskew.learn.trained_model import TrainedModel
from unskew.learn.training_data import TrainingData

logger = logging.getLogger(__name__)

Schedule = Literal["steps", "one_cycle", "constant"]


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained. `settings_of` gives those of a preset; the defaults here are the preset "fast".

    Attributes
    ----------
    preset : "fast" (small network, one-cycle schedule: minutes on a CPU), "article" (ResNet-56 as the article trains it: a graphics
        card), "probe" (a linear probe on features: exact, no epochs).
    model : "fast", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "probe", or ``module:factory``: called with the number of
        classes (if it takes ``n_classes``, ``num_classes`` or one required argument) or without, it returns a torch.nn.Module that maps
        (b, 3, h, w) images scaled to mean 0 and deviation 1, or (b, d) features, to (b, M) logits.
    epochs, batch : passes over the images; images of one step, all processes together.
    learning_rate, momentum, nesterov, weight_decay : of stochastic gradient descent. ``learning_rate`` is the highest of the schedule.
    schedule, milestones : "one_cycle": up over the first quarter of the steps, then down to 0, both linearly; "steps": divided by 10 at
        the beginning of each epoch of ``milestones`` (counted from 0); "constant".
    augment : random crops after padding by ``pad`` pixels (``padding``: "reflect", or "zeros": the mean colour), and flips.
    cutout : side of a square that is blotted out at a random place of each image; 0: none.
    label_smoothing : of the training loss.
    weighting : "loss": every image once per epoch, its loss times its weight; "sampler": images are drawn in proportion to their weights,
        by ``scheme``, "systematic" or "multinomial" (independent draws, the article's).
    patience : stop when the weighted validation loss has not improved for so many epochs. With validation images the weights of the best
        epoch are kept, without them those of the last.
    ridge : penalty of the probe.
    scaling : of features, as `scale_features`: "standard", "fourth_root" or "none".
    seed : the same seed, data and settings give the same model (bit for bit on one machine's CPU).
    device, devices, precision : "auto", "cpu", "cuda" or "mps"; how many of them; "32-true", "64-true", "16-mixed" or "bf16-mixed".
    """

    preset: str = "fast"
    model: str = "fast"
    epochs: int = 4
    batch: int = 512
    learning_rate: float = 1.0
    momentum: float = 0.85
    nesterov: bool = True
    weight_decay: float = 1e-3
    schedule: Schedule = "one_cycle"
    milestones: tuple[int, ...] = ()
    augment: bool = True
    pad: int = 2
    padding: Literal["reflect", "zeros"] = "reflect"
    cutout: int = 0
    label_smoothing: float = 0.1
    weighting: Literal["loss", "sampler"] = "loss"
    scheme: Scheme = "systematic"
    patience: int | None = None
    ridge: float = 3e-3
    scaling: Scaling = "standard"
    seed: int = 0
    device: str = "auto"
    devices: int = 1
    precision: str = "32-true"

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))


PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    # He et al. (2016) with the article's epochs, and its sampling by weight.
    "article": {
        **{"model": "resnet56", "epochs": 205, "batch": 128, "schedule": "steps", "milestones": (103, 154)},
        **{"learning_rate": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 1e-4, "label_smoothing": 0.0},
        **{"pad": 4, "padding": "zeros", "weighting": "sampler", "scheme": "multinomial"},
    },
    "probe": {"model": "probe", "epochs": 1, "augment": False, "label_smoothing": 0.0, "scaling": "fourth_root"},
}


def settings_of(preset: str = "fast", **overrides: Any) -> TrainSettings:
    """The settings of a preset, some of them changed.

    Examples
    --------
    >>> settings_of("article", epochs=2).milestones
    (103, 154)
    """
    if preset not in PRESETS:
        raise ConfigError(f"preset is one of {', '.join(map(repr, PRESETS))}; got {preset!r}.{did_you_mean(preset, PRESETS)}")
    known = [each.name for each in fields(TrainSettings)]
    for name in overrides:
        if name not in known:
            raise ConfigError(f"training has no setting {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}.")
    return TrainSettings(**{"preset": preset, **PRESETS[preset], **overrides})


def train_model(
    data: TrainingData,
    settings: TrainSettings,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    force: bool = False,
    progress: bool | None = None,
    logs: bool = True,
    watch: Mapping[str, TrainingData] | None = None,
) -> TrainedModel:
    """Train a model on weighted images; checkpoints, logs and the model are written into ``folder``.

    Parameters
    ----------
    folder : made if need be. ``checkpoint.pt`` after every epoch, ``model.pt`` and ``settings.json`` at the end, ``logs`` for TensorBoard.
    resume : go on after the last complete epoch of ``folder``; begin where there is none. Other data or settings are an error.
    force : a run that ``folder`` already holds is replaced.
    progress : of the bar; None: where the error stream is a terminal.
    logs : write TensorBoard's.
    watch : further images to be judged after every epoch, by name: what weighting gains, epoch by epoch.
    """
    raise NotImplementedError


def load_trained(folder: str | os.PathLike[str]) -> TrainedModel:
    """The model that `train_model` wrote into ``folder``. One of ``module:factory`` imports that module."""
    raise NotImplementedError
