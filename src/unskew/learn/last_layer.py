"""The last linear layer of a network: found, and refitted on what the rest makes of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from unskew.errors import ConfigError
from unskew.learn.probe import Probe
from unskew.learn.training_data import DeviceRows, TrainingData, measure_scale, rows_at_once
from unskew.records import Floats


@dataclass(frozen=True)
class LastLayer:
    """The linear layer whose output, times ``factor``, is the logits; ``name`` as torch has it."""

    name: str
    factor: float


def find_last_layer(network: nn.Module, shape: tuple[int, ...], n_classes: int) -> LastLayer | None:
    """Find the nn.Linear whose output is the logits, up to a constant factor; None: there is none.

    Each layer of M outputs is tried by putting random numbers in the place of its output, also
    while training, when batch normalisation would show. The network is not changed.
    """
    weight = next(network.parameters())
    rows = torch.zeros(
        2, *shape, dtype=torch.uint8 if len(shape) == 3 else torch.float32, device=weight.device
    )
    numbers = torch.randn(2, n_classes, generator=torch.Generator().manual_seed(0))
    was_training = network.training
    state = {name: value.clone() for name, value in network.state_dict().items()}
    last = None
    with torch.random.fork_rng([]):
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Linear) and layer.out_features == n_classes:
                in_training = _factor(network.train(), layer, rows, numbers.to(weight))
                factor = _factor(network.eval(), layer, rows, numbers.to(weight))
                if factor is not None and in_training is not None:
                    last = LastLayer(name, factor)
    network.load_state_dict(state)
    network.train(was_training)
    return last


def _factor(network: nn.Module, layer: nn.Module, rows: Tensor, numbers: Tensor) -> float | None:
    shapes = []

    def put(_: Any, inputs: Any, output: Tensor) -> Tensor | None:
        shapes.append((inputs[0].ndim, output.shape))
        return numbers.to(output) if output.shape == numbers.shape else None

    hook = layer.register_forward_hook(put)
    try:
        with torch.no_grad():
            logits = network(rows).to(numbers)
    finally:
        hook.remove()
    factor = float((logits * numbers).sum() / numbers.square().sum())
    # Used once, and nothing but the factor follows.
    is_last = shapes == [(2, numbers.shape)] and torch.allclose(
        logits, factor * numbers, rtol=1e-4, atol=1e-6
    )
    return factor if is_last and factor > 0 else None


def need_last_layer(
    network: nn.Module, model: str, shape: tuple[int, ...], n_classes: int, what: str
) -> LastLayer:
    """Find the last layer; refuse ``what`` needs it where there is none."""
    layer = find_last_layer(network, shape, n_classes)
    if layer is None:
        raise ConfigError(
            f"{what} refits the last linear layer, and model {model!r} has no torch.nn.Linear of "
            f"{n_classes} outputs that are its logits. End the model with one, or train it in "
            "another way.",
            option="way",
            value=model,
        )
    return layer


def inputs_before(
    network: nn.Module, layer: LastLayer, rows: DeviceRows
) -> npt.NDArray[np.float32]:
    """Compute the (n, d) inputs of the last layer."""
    taken: list[npt.NDArray[np.float32]] = []
    hook = network.get_submodule(layer.name).register_forward_pre_hook(
        lambda _, inputs: taken.append(inputs[0].float().cpu().numpy())
    )
    size = rows_at_once(rows.data.X.shape[1:])
    network.eval()
    try:
        with torch.inference_mode():
            for start in range(0, len(rows), size):
                network(rows.take(np.arange(start, min(start + size, len(rows))))[0])
    finally:
        hook.remove()
    return np.concatenate(taken)


def scaled_before(
    network: nn.Module, layer: LastLayer, rows: DeviceRows
) -> tuple[npt.NDArray[np.float32], Floats, Floats]:
    """Compute the (n, d) inputs of the last layer, scaled as a probe's features are by default.

    Return also the mean and the divisor.
    """
    feature_nd, data = inputs_before(network, layer, rows), rows.data
    features = TrainingData(feature_nd, data.label, data.classes, data.weight, data.id)
    mean_d, divisor_d = measure_scale(features, "fourth_root")
    return ((feature_nd - mean_d) / divisor_d).astype(np.float32), mean_d, divisor_d


def put_last_layer(
    network: nn.Module, layer: LastLayer, probe: Probe, mean_d: Floats, divisor_d: Floats
) -> nn.Linear:
    """Write a probe on scaled features into the last layer: its logits become the network's."""
    weight_dm = probe.coefficient / divisor_d[:, None]
    bias_m = probe.intercept - mean_d @ weight_dm
    linear = add_bias(network, layer.name)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight_dm.T / layer.factor))
        linear.bias.copy_(torch.from_numpy(bias_m / layer.factor))
    return linear


def add_bias(network: nn.Module, name: str) -> nn.Linear:
    """Replace the linear layer ``name`` by one with a bias, of the same size; return it."""
    parent, _, own = name.rpartition(".")
    old = network.get_submodule(name)
    if not isinstance(old, nn.Linear):
        raise AttributeError(f"{name} is no linear layer")
    like = next(old.parameters())
    # Whose first numbers are drawn, and replaced.
    with torch.random.fork_rng([]):
        linear = nn.Linear(old.in_features, old.out_features, device=like.device, dtype=like.dtype)
    setattr(network.get_submodule(parent), own, linear)
    return linear
