"""How a model is trained: the settings, their presets, and what is wrong with a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from unskew.engine.arguments import (
    Count,
    CountOrZero,
    NotNegative,
    OpenShare,
    Positive,
    Seed,
    Share,
    ShareAboveZero,
    ShareBelowOne,
    checked,
)
from unskew.errors import ConfigError, did_you_mean
from unskew.learn.augment import Crop, Padding
from unskew.learn.optimization import Optimizer, Schedule
from unskew.learn.probe import Scaling
from unskew.learn.sampling.sampling_schemes import Scheme

PACKAGED = "efficientnet-lite0"
MODELS = ("fast", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", PACKAGED, "probe")
Preset = Literal["fast", "article", "finetune", "probe"]
Device = Literal["auto", "cpu", "cuda"]
DEVICES: tuple[Device, ...] = get_args(Device)
Precision = Literal["auto", "32-true", "64-true", "16-mixed", "bf16-mixed"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Channels = tuple[float, float, float]
Normalization = Literal["data", "model"]
Weighting = Literal["loss", "sampler"]
Way = Literal["auto", "weights", "half", "logit", "head"]
WAYS: tuple[Way, ...] = get_args(Way)
# How much of a class's weight moves into its logit (dial.py).
TAUS: dict[Way, float] = {"weights": 0.0, "half": 0.5, "logit": 1.0}


@checked
@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained.

    `settings_of` gives the settings of a preset; the defaults here are those of "fast".

    Attributes
    ----------
    preset : "fast" (small network, one-cycle schedule: minutes on a CPU), "finetune" (a pretrained
        network, from a probe as its last layer on), "article" (ResNet-56 as the article trains
        it: a graphics card), "probe" (a linear probe on features: exact, no epochs).
    model : "fast", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110",
        "efficientnet-lite0" (pretrained on ImageNet, of the extra `embed`), "probe", or
        ``module:factory``: called with the number of classes (if it takes ``n_classes``,
        ``num_classes`` or one required argument) or without, it returns a torch.nn.Module that maps
        (b, 3, h, w) scaled images, or (b, d) features, to (b, M) logits. One that maps images to
        (b, d) or (b, d, y, x) features gets a last linear layer.
    epochs, batch : passes over the images; images of one step, all processes together.
    optimizer : "sgd" or "adamw".
    learning_rate, momentum, nesterov, weight_decay : of the optimiser. ``learning_rate`` is the
        highest of the schedule; ``momentum`` of AdamW is its β₁.
    schedule, warmup, milestones : "one_cycle": up over the share ``warmup`` of the steps, then down
        to 0, both linearly; "cosine": up over ``warmup``, then down to 0 by half a cosine; "steps":
        divided by 10 at each of ``milestones``, shares of the epochs; "constant".
    probe_start : let the last layer start as a probe, `tune_probe`, of what the others make of the
        training images (Kumar et al. 2022), and average the others between their start and their
        end as suits the validation images (Wortsman et al. 2022).
    head_share, backbone_rate : the share of the epochs, from the first on, that train the last
        layer only, all else being fixed (1: all of them); and the rate of the other layers as a
        share of its own, where it starts alone or as a probe.
    frozen_share : of the parameters before the last layer, in their order, how many stay as they
        were pretrained.
    augment : change images at random, by ``crop``, ``flip``, ``jitter`` and ``cutout``; False: not
        at all.
    crop : "shift": a shift by up to ``pad`` pixels (``padding``: "reflect", or "zeros": the mean
        colour); "resized": a rectangle of ``smallest_crop`` to all of the area and of aspect ratio
        3/4 to 4/3, enlarged; "none".
    flip : mirror half of the images.
    jitter : brightness, contrast and saturation are multiplied by numbers from 1 − jitter to 1 +
        jitter.
    cutout : side of a square that is blotted out at a random position in each image; 0: none.
    label_smoothing : of the training loss.
    update_batch_norm : estimate the statistics of batch normalisation after each epoch, on images
        drawn by weight (`unskew.learn.update_batch_norm`); False: use the running averages of
        training.
    fix_batch_norm : keep the statistics that the network was pretrained with, in training, too.
    normalization, mean, std : "data": images are scaled by the weighted mean and deviation of each
        channel; "model": by those that the network was pretrained with. ``mean`` and ``std``, three
        numbers each for pixels from 0 to 1, replace them.
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
        "16-mixed", "bf16-mixed", or "auto": mixed on a graphics card, "32-true" on a CPU.
    logger, logger_options : where the measures of each epoch go: "tensorboard", "csv", "mlflow",
        "wandb", "none", or a logger class of Lightning as module:Class; what it is called with.
    """

    preset: Preset = "fast"
    model: str = "fast"
    epochs: Count = 4
    batch: Count = 512
    optimizer: Optimizer = "sgd"
    learning_rate: Positive = 0.8
    momentum: ShareBelowOne = 0.85
    nesterov: bool = True
    weight_decay: NotNegative = 1e-3
    schedule: Schedule = "one_cycle"
    warmup: ShareBelowOne = 0.25
    milestones: tuple[OpenShare, ...] = ()
    probe_start: bool = False
    head_share: Share = 0.0
    backbone_rate: Positive = 1.0
    frozen_share: ShareBelowOne = 0.0
    augment: bool = True
    crop: Crop = "shift"
    smallest_crop: ShareAboveZero = 0.35
    pad: CountOrZero = 2
    padding: Padding = "reflect"
    flip: bool = True
    jitter: ShareBelowOne = 0.0
    cutout: CountOrZero = 0
    label_smoothing: ShareBelowOne = 0.1
    update_batch_norm: bool = True
    fix_batch_norm: bool = False
    normalization: Normalization = "data"
    mean: Channels | None = None
    std: tuple[Positive, Positive, Positive] | None = None
    way: Way = "auto"
    weighting: Weighting = "sampler"
    scheme: Scheme = "systematic"
    patience: Count | None = None
    ridge: Positive | None = None
    scaling: Scaling = "standard"
    seed: Seed = 0
    device: Device = "auto"
    devices: Count = 1
    precision: Precision = "32-true"
    logger: str = "tensorboard"
    logger_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("milestones", "mean", "std"):
            if isinstance(getattr(self, name), list):  # as a file has it
                object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_milestones(self)
        _check_model(self.model)

    @property
    def head_epochs(self) -> int:
        """How many epochs, the first ones, train the last layer only."""
        return round(self.head_share * self.epochs)

    @property
    def apart(self) -> str:
        """The setting that treats the last layer in another way than the rest; empty: none."""
        return "head_share" if self.head_epochs else "probe_start" if self.probe_start else ""


PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    # He et al. (2016) with the article's epochs, and its sampling by weight.
    "article": {
        "model": "resnet56",
        "epochs": 205,
        "batch": 128,
        "schedule": "steps",
        "milestones": (0.5, 0.75),
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": False,
        "weight_decay": 1e-4,
        "label_smoothing": 0.0,
        "pad": 4,
        "padding": "zeros",
        "scheme": "multinomial",
    },
    "finetune": {
        "model": PACKAGED,
        "epochs": 5,
        "batch": 32,
        "optimizer": "adamw",
        "learning_rate": 2e-4,
        "momentum": 0.9,
        "weight_decay": 0.02,
        "schedule": "cosine",
        "warmup": 0.1,
        "probe_start": True,
        "frozen_share": 0.25,
        "fix_batch_norm": True,
        "crop": "resized",
        "jitter": 0.2,
        "normalization": "model",
        "precision": "auto",
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
# What a probe, which is fitted exactly, reads of the settings.
OF_PROBES = ("preset", "model", "way", "ridge", "scaling", "seed", "logger", "logger_options")
# Of the preset "fast" with another network: its own rate is for logits divided by 9.
_OTHER_NETWORKS: dict[str, Any] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


@checked
def settings_of(preset: str = "fast", **overrides: Any) -> TrainSettings:
    """Return the settings of a preset, some of them changed.

    With "fast" and another network the learning rate is 0.1, the momentum 0.9 and the weight decay
    5e-4, unless ``overrides`` has them.

    Examples
    --------
    >>> settings_of("article", epochs=20).milestones
    (0.5, 0.75)
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


def settings_from_file(values: Mapping[str, Any]) -> TrainSettings:
    """Read what `settings_dict` returned, also in an earlier version.

    What that did not have is as it was then; milestones were epochs, and those that lay behind the
    last epoch had no effect.
    """
    known = {setting.name for setting in fields(TrainSettings)}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise ConfigError(
            f"the settings of this training have {', '.join(map(repr, unknown))}, which this "
            "version of unskew does not know: use the version that wrote them, or train again.",
            option=unknown[0],
            allowed=sorted(known),
        )
    milestones = values.get("milestones", ())
    if any(type(epoch) is int for epoch in milestones):
        epochs = values["epochs"]
        milestones = [epoch / epochs for epoch in milestones if epoch < epochs]
        if not milestones:
            values = {**values, "schedule": "constant"}
    return TrainSettings(**{**values, "milestones": milestones})


def _check_milestones(settings: TrainSettings) -> None:
    milestones = settings.milestones
    if list(milestones) != sorted(set(milestones)):
        raise ConfigError(
            "milestones are shares of the epochs in ascending order, between 0 and 1: 0.5 is half "
            f"of them; got {milestones!r}.",
            option="milestones",
            value=milestones,
        )
    if settings.schedule == "steps" and not milestones:
        raise ConfigError(
            "schedule 'steps' divides the learning rate at the milestones, and there are none: "
            "name them (milestones = [0.5, 0.75]), or use schedule 'constant'.",
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
