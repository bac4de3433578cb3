"""Which network a setting names, with the scaling of its inputs inside."""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unskew.errors import ConfigError
from unskew.files.user_code import import_reference
from unskew.learn.architectures.backbone import (
    USUAL_SIDE,
    add_head,
    load_packaged,
    own_scale,
    own_settings,
)
from unskew.learn.architectures.fast_network import SMALLEST_SIDE, FastNetwork
from unskew.learn.architectures.resnet import ResNet
from unskew.learn.presets import PACKAGED
from unskew.learn.probe import Probe
from unskew.records import Floats


class ScaledNetwork(nn.Module):
    """A network that scales its inputs: stored rows → logits.

    Rows are (b, h, w, 3) uint8 images or (b, d) features; they are centred and divided first.
    """

    mean: Tensor
    factor: Tensor

    def __init__(
        self, network: nn.Module, mean: Floats, divisor: Floats, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.as_tensor(mean, dtype=dtype))
        self.register_buffer("factor", torch.as_tensor(1.0 / np.asarray(divisor), dtype=dtype))

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.network(self.scale(rows))
        return logits

    def scale(self, rows: Tensor) -> Tensor:
        """Scale rows to (b, 3, h, w) or (b, d).

        Channels stay last in memory, as they came: networks run faster that way on a CPU.
        """
        x: Tensor = (rows.to(self.mean.dtype) - self.mean) * self.factor
        return x.permute(0, 3, 1, 2) if x.ndim == 4 else x


class LinearProbe(nn.Module):
    """(b, …) → (b, M): x·W + b, in double precision."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_classes, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.flatten(1))
        return logits

    def take(self, probe: Probe) -> None:
        """Take over the coefficients of a fitted probe."""
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(probe.coefficient.T))
            self.linear.bias.copy_(torch.from_numpy(probe.intercept))


def make_network(
    model: str,
    shape: tuple[int, ...],
    n_classes: int,
    mean: Floats | None = None,
    divisor: Floats | None = None,
    *,
    pretrained: bool = False,
) -> ScaledNetwork:
    """Make the network that ``model`` names, for rows of ``shape``, and try it out.

    Its output is checked against the number of classes. Without ``mean`` and ``divisor`` images are
    scaled by those that the network was pretrained with (`own_scale`), features not at all. With
    ``pretrained`` the features of a ``module:factory`` get a last layer (`add_head`).
    """
    images = len(shape) == 3
    network: nn.Module
    if model == "probe":
        mean, divisor = _scale(None, shape, mean, divisor)
        return ScaledNetwork(
            LinearProbe(int(np.prod(shape)), n_classes), mean, divisor, torch.float64
        )
    if ":" not in model and not images:
        raise ConfigError(
            f"model {model!r} learns from images, and these are features: use 'probe', or a "
            "module:factory of your own.",
            option="model",
            value=model,
        )
    if model == "fast":
        if min(shape[:2]) < SMALLEST_SIDE:
            raise ConfigError(
                f"model 'fast' halves images three times: they need {SMALLEST_SIDE} × "
                f"{SMALLEST_SIDE} pixels; got {shape[:2]}.",
                option="model",
                value=model,
                limit=SMALLEST_SIDE,
            )
        network = FastNetwork(n_classes)
    elif model == PACKAGED:
        network = add_head(load_packaged(shape[0]), shape, n_classes)
    elif ":" not in model:
        network = ResNet(int(model.removeprefix("resnet")), n_classes)
    else:
        network = _call_factory(model, n_classes)
        if images and pretrained:
            network = add_head(network, shape, n_classes)
    scaled = ScaledNetwork(network, *_scale(network, shape, mean, divisor))
    _try_out(scaled, model, shape, n_classes)
    if ":" in model:
        _try_training(scaled, model, shape)
    if images:
        # After the trial, which gives lazy layers their parameters.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return scaled


def pretrained_side(model: str) -> int:
    """Return the side of the images, in pixels, that a pretrained network was trained with.

    It is that of ``input_size`` = (3, h, w) in its ``pretrained_cfg``, else 224.
    """
    if ":" not in model:
        return USUAL_SIDE
    known = own_settings(_call_factory(model, 2)).get("input_size", (3, USUAL_SIDE, USUAL_SIDE))
    return int(known[-1])


def _scale(
    network: nn.Module | None, shape: tuple[int, ...], mean: Floats | None, divisor: Floats | None
) -> tuple[Floats, Floats]:
    """Replace what is not known about the scale of the inputs by what the network expects."""
    own_mean, own_divisor = np.zeros(shape[-1]), np.ones(shape[-1])
    if network is not None and len(shape) == 3 and (mean is None or divisor is None):
        own_mean, own_divisor = (255 * np.array(part) for part in own_scale(network))
    return own_mean if mean is None else mean, own_divisor if divisor is None else divisor


def _call_factory(model: str, n_classes: int) -> nn.Module:
    factory = import_reference(model, option="model")
    name = model.partition(":")[2]
    try:
        network = _called(factory, n_classes)
    except Exception as error:
        raise ConfigError(
            f"model {model!r}: {name!r} fails when it is called for {n_classes} classes: "
            f"{_raised(error)}",
            option="model",
            value=model,
        ) from error
    if not isinstance(network, nn.Module):
        raise ConfigError(
            f"model {model!r} must return a torch.nn.Module; it returned {type(network).__name__}.",
            option="model",
            value=model,
        )
    return network


def _called(factory: Callable[..., Any], n_classes: int) -> Any:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return factory(n_classes)
    for name in ("n_classes", "num_classes"):
        if name in parameters:
            return factory(**{name: n_classes})
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        parameter
        for parameter in parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.kind in kinds
    ]
    return factory(n_classes) if required else factory()


def _try_out(network: nn.Module, model: str, shape: tuple[int, ...], n_classes: int) -> None:
    rows = torch.zeros(2, *shape, dtype=torch.uint8 if len(shape) == 3 else torch.float32)
    network.eval()
    with torch.no_grad():
        try:
            logits = network(rows)
        except Exception as error:  # whatever a network of the user raises is the user's to read
            raise ConfigError(
                f"model {model!r} fails on rows of the shape {shape}: {_raised(error)}",
                option="model",
                value=model,
            ) from error
    network.train()
    if not isinstance(logits, Tensor) or logits.shape != (2, n_classes):
        got = (
            f"the shape {tuple(logits.shape)}"
            if isinstance(logits, Tensor)
            else type(logits).__name__
        )
        raise ConfigError(
            f"model {model!r} must give one number for each of the {n_classes} classes, (b, "
            f"{n_classes}); for 2 rows it gave {got}. Let its factory take n_classes, and end it "
            "with a linear layer of that size.",
            option="model",
            value=model,
            limit=n_classes,
        )


def _try_training(network: nn.Module, model: str, shape: tuple[int, ...]) -> None:
    """Try one step of a user's network, forward and backward, on a copy.

    Neither the network nor random numbers are changed.
    """
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ConfigError(
            f"model {model!r} has no parameters that could be trained: does its factory freeze all "
            "of them?",
            option="model",
            value=model,
        )
    try:
        trial = copy.deepcopy(network)
    except Exception:  # a network that cannot be copied may still be trained
        return
    rows = torch.zeros(2, *shape, dtype=torch.uint8 if len(shape) == 3 else torch.float32)
    try:
        with torch.random.fork_rng([]):
            loss = nn.functional.cross_entropy(
                trial.train()(rows), torch.zeros(2, dtype=torch.int64)
            )
            torch.autograd.backward(loss)
    except Exception as error:
        raise ConfigError(
            f"model {model!r} cannot be trained: a step with two rows of the shape {shape} fails: "
            f"{_raised(error)}",
            option="model",
            value=model,
        ) from error


def _raised(error: BaseException) -> str:
    """Name what was raised, and in which line of which file."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in last
        if not isinstance(error, SyntaxError)
    )
    return f"{type(error).__name__}: {error}{where}"
