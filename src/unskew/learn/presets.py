"""How a model is trained: the settings, their presets, and what is wrong with a value."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from unskew.errors import ConfigError, did_you_mean
from unskew.learn.augment import Padding
from unskew.learn.probe import SCALINGS, Scaling
from unskew.learn.sampling_schemes import Scheme
from unskew.learn.schedules import SCHEDULES, Schedule

MODELS = ("fast", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "probe")
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("32-true", "64-true", "16-mixed", "bf16-mixed")
Weighting = Literal["loss", "sampler"]
Way = Literal["auto", "weights", "half", "logit", "head"]
WAYS: tuple[Way, ...] = get_args(Way)
# How much of a class's weight moves into its logit (dial.py).
TAUS: dict[Way, float] = {"weights": 0.0, "half": 0.5, "logit": 1.0}


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained.

    `settings_of` gives the settings of a preset; the defaults here are those of "fast".

    Attributes
    ----------
    preset : "fast" (small network, one-cycle schedule: minutes on a CPU), "article" (ResNet-56 as
        the article trains it: a graphics card), "probe" (a linear probe on features: exact, no
        epochs).
    model : "fast", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "probe", or
        ``module:factory``: called with the number of classes (if it takes ``n_classes``,
        ``num_classes`` or one required argument) or without, it returns a torch.nn.Module that maps
        (b, 3, h, w) images scaled to mean 0 and deviation 1, or (b, d) features, to (b, M) logits.
    epochs, batch : passes over the images; images of one step, all processes together.
    learning_rate, momentum, nesterov, weight_decay : of stochastic gradient descent.
        ``learning_rate`` is the highest of the schedule.
    schedule, milestones : "one_cycle": up over the first quarter of the steps, then down to 0, both
        linearly; "steps": divided by 10 at the beginning of each epoch of ``milestones`` (counted
        from 0); "constant".
    augment : random crops after padding by ``pad`` pixels (``padding``: "reflect", or "zeros": the
        mean colour), and flips.
    cutout : side of a square that is blotted out at a random position in each image; 0: none.
    label_smoothing : of the training loss.
    way : how the weights are learned from. "weights": they weight the images; "logit": what the
        label explains of them shifts the logits instead (`turn_dial`); "half": half of it; "head":
        as "half", then the last layer is refitted on images that the rest has not seen; "auto":
        chosen from the data, starting from "half".
    weighting : "sampler": images are drawn in proportion to their weights, by ``scheme``,
        "systematic" or "multinomial" (independent draws, the article's); "loss": every image once
        per epoch, its loss times its weight. The expected gradient is the same; its variance is
        E[w |g|²] for the former and E[w² |g|²] for the latter, which is much larger where some
        weights are.
    patience : stop when the weighted validation loss has not improved for so many epochs. With
        validation images the weights of the best epoch are kept, without them those of the last.
    ridge : penalty of the probe; None: chosen by cross-fitting.
    scaling : of features, as `scale_features`: "standard", "fourth_root" or "none".
    seed : the same seed, data and settings give the same model (bit for bit on one machine's CPU).
    device, devices, precision : "auto", "cpu" or "cuda"; how many of them; "32-true", "64-true",
        "16-mixed" or "bf16-mixed".
    """

    preset: str = "fast"
    model: str = "fast"
    epochs: int = 4
    batch: int = 512
    learning_rate: float = 0.8
    momentum: float = 0.85
    nesterov: bool = True
    weight_decay: float = 1e-3
    schedule: Schedule = "one_cycle"
    milestones: tuple[int, ...] = ()
    augment: bool = True
    pad: int = 2
    padding: Padding = "reflect"
    cutout: int = 0
    label_smoothing: float = 0.1
    way: Way = "auto"
    weighting: Weighting = "sampler"
    scheme: Scheme = "systematic"
    patience: int | None = None
    ridge: float | None = None
    scaling: Scaling = "standard"
    seed: int = 0
    device: str = "auto"
    devices: int = 1
    precision: str = "32-true"

    def __post_init__(self) -> None:
        milestones: Any = self.milestones
        if isinstance(milestones, list):  # as a file has it
            object.__setattr__(self, "milestones", tuple(milestones))
        _check_settings(self)


PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    # He et al. (2016) with the article's epochs, and its sampling by weight.
    "article": {
        "model": "resnet56",
        "epochs": 205,
        "batch": 128,
        "schedule": "steps",
        "milestones": (103, 154),
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": False,
        "weight_decay": 1e-4,
        "label_smoothing": 0.0,
        "pad": 4,
        "padding": "zeros",
        "scheme": "multinomial",
    },
    # Exact: the settings of stochastic gradient descent do not apply.
    "probe": {
        "model": "probe",
        "epochs": 1,
        "augment": False,
        "label_smoothing": 0.0,
        "scaling": "fourth_root",
    },
}
# Of the preset "fast" with another network: its own rate is for logits divided by 9.
_OTHER_NETWORKS: dict[str, Any] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


def settings_of(preset: str = "fast", **overrides: Any) -> TrainSettings:
    """Return the settings of a preset, some of them changed.

    With "fast" and another network the learning rate is 0.1, the momentum 0.9 and the weight decay
    5e-4, unless ``overrides`` has them.

    Examples
    --------
    >>> settings_of("article", epochs=2).milestones
    (103, 154)
    """
    if preset not in PRESETS:
        raise ConfigError(
            f"preset is one of {', '.join(map(repr, PRESETS))}; got "
            f"{preset!r}.{did_you_mean(preset, PRESETS)}",
            option="preset",
            value=preset,
            allowed=list(PRESETS),
        )
    known = [setting.name for setting in fields(TrainSettings)]
    for name in overrides:
        if name not in known:
            raise ConfigError(
                f"training has no setting {name!r}.{did_you_mean(name, known)} It has "
                f"{', '.join(known)}.",
                option=name,
                allowed=known,
            )
    others = (
        _OTHER_NETWORKS if preset == "fast" and overrides.get("model", "fast") != "fast" else {}
    )
    return TrainSettings(**{"preset": preset, **PRESETS[preset], **others, **overrides})


def settings_dict(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings as plain values, for a file."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


_CHOICES: dict[str, tuple[str, ...]] = {
    "preset": tuple(PRESETS),
    "schedule": SCHEDULES,
    "padding": get_args(Padding),
    "way": WAYS,
    "weighting": get_args(Weighting),
    "scheme": get_args(Scheme),
    "scaling": SCALINGS,
    "device": DEVICES,
    "precision": PRECISIONS,
}
# The smallest value of whole numbers; lower and upper bound of others, and whether the lower one is
# allowed itself.
_WHOLE = {"epochs": 1, "batch": 1, "pad": 0, "cutout": 0, "seed": 0, "devices": 1, "patience": 1}
_NUMBERS = {
    "learning_rate": (0.0, math.inf, False),
    "momentum": (0.0, 1.0, True),
    "weight_decay": (0.0, math.inf, True),
    "label_smoothing": (0.0, 1.0, True),
    "ridge": (0.0, math.inf, False),
}


def _check_settings(settings: TrainSettings) -> None:
    for name, choices in _CHOICES.items():
        value = getattr(settings, name)
        if value not in choices:
            raise ConfigError(
                f"{name} is one of {', '.join(map(repr, choices))}; got "
                f"{value!r}.{did_you_mean(value, choices)}",
                option=name,
                value=value,
                allowed=list(choices),
            )
    for name, least in _WHOLE.items():
        value = getattr(settings, name)
        if not (name == "patience" and value is None) and not _is_whole(value, least):
            raise ConfigError(
                f"{name} is a whole number, at least {least}; got {value!r}.",
                option=name,
                value=value,
                limit=least,
            )
    for name, (low, high, closed) in _NUMBERS.items():
        value = getattr(settings, name)
        if name == "ridge" and value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (low < value < high or (closed and value == low)):
            upper = "" if high == math.inf else f" and below {high:g}"
            raise ConfigError(
                f"{name} is a number {'of at least' if closed else 'above'} {low:g}{upper}; got "
                f"{value!r}.",
                option=name,
                value=value,
            )
    for name in ("nesterov", "augment"):
        value = getattr(settings, name)
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is true or false; got {value!r}.", option=name, value=value)
    _check_milestones(settings)
    _check_model(settings.model)


def _check_milestones(settings: TrainSettings) -> None:
    milestones: Any = settings.milestones
    if (
        not isinstance(milestones, tuple)
        or not all(_is_whole(epoch, 1) for epoch in milestones)
        or list(milestones) != sorted(set(milestones))
    ):
        raise ConfigError(
            "milestones are epochs in ascending order, whole numbers of at least 1; got "
            f"{milestones!r}.",
            option="milestones",
            value=milestones,
        )


def _check_model(model: Any) -> None:
    if model in MODELS:
        return
    if not isinstance(model, str) or ":" not in model:
        named = ", ".join(map(repr, MODELS))
        raise ConfigError(
            f"model is {named} or 'module:factory' for a network of your own; got "
            f"{model!r}.{did_you_mean(model, MODELS)}",
            option="model",
            value=model,
            allowed=list(MODELS),
        )
    module, _, factory = model.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *factory.split("."))):
        raise ConfigError(
            "model 'module:factory' names a module that Python can import, and a function in it; "
            f"got {model!r}.",
            option="model",
            value=model,
        )


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
