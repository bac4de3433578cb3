"""The last linear layer: found in any network, and written by a probe."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from raising import refused  # noqa: E402
from training_networks import bent_logits, convolutional, two_layers  # noqa: E402
from unskew.errors import ConfigError  # noqa: E402
from unskew.learn.last_layer import (  # noqa: E402
    LastLayer,
    add_bias,
    find_last_layer,
    need_last_layer,
    put_last_layer,
)
from unskew.learn.model_zoo import ScaledNetwork, make_network  # noqa: E402
from unskew.learn.probe import Probe  # noqa: E402


def _scaled(network: nn.Module, width: int = 3) -> ScaledNetwork:
    return ScaledNetwork(network, np.zeros(width), np.ones(width))


@pytest.mark.parametrize("model", ["fast", "resnet20"])
def test_the_networks_of_the_package_have_one(model: str) -> None:
    network = make_network(model, (12, 12, 3), 5, np.zeros(3), np.ones(3))
    layer = find_last_layer(network, (12, 12, 3), 5)
    assert layer is not None
    assert layer.name == "network.last"
    assert layer.factor == pytest.approx(1 / 9 if model == "fast" else 1.0, rel=1e-5)


def test_what_follows_the_layer_and_what_it_begins_with_decide() -> None:
    layer = find_last_layer(_scaled(two_layers(4), 6), (6,), 4)
    assert layer == LastLayer("network.last", pytest.approx(0.25))
    zeros = convolutional(4)
    nn.init.zeros_(zeros[-1].weight)
    assert find_last_layer(_scaled(zeros), (8, 8, 3), 4).name == "network.6"
    # A layer of as many outputs that is not the last, a last one with something after it, or none.
    inner = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4))
    assert find_last_layer(_scaled(inner, 6), (6,), 4).name == "network.2"
    for other in (
        bent_logits(4),
        nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)),
        nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(1)),
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 6), nn.Flatten()),
    ):
        assert find_last_layer(_scaled(other, 6), (6,), 4) is None


def test_neither_mode_nor_random_numbers_are_changed() -> None:
    network = _scaled(convolutional(4)).train()
    state, before = torch.get_rng_state(), {k: v.clone() for k, v in network.state_dict().items()}
    find_last_layer(network, (8, 8, 3), 4)
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_without_one_is_named() -> None:
    with refused(ConfigError, option="way", value="nets:mine") as caught:
        need_last_layer(_scaled(bent_logits(4), 6), "nets:mine", (6,), 4, "way 'head'")
    assert "nets:mine" in str(caught.value)


def test_a_probe_becomes_the_layer() -> None:
    rng = np.random.default_rng(0)
    network = _scaled(two_layers(3), 6)
    X = torch.from_numpy(rng.normal(size=(20, 6)).astype(np.float32))
    with torch.no_grad():
        network(X)
        feature = torch.relu(network.network.first(X)).numpy().astype(np.float64)
    probe = Probe(rng.normal(size=(8, 3)), np.array([0.5, -0.5, -np.inf]))
    mean, divisor = feature.mean(axis=0), np.r_[feature.std(axis=0)[:-1] + 1, np.inf]
    put_last_layer(network, LastLayer("network.last", 0.25), probe, mean, divisor)
    with torch.no_grad():
        logits = network(X).numpy()
    expected = ((feature - mean) / divisor) @ probe.coefficient + probe.intercept
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_only_a_linear_layer_gets_a_bias() -> None:
    network = two_layers(3)
    assert add_bias(network, "last").bias is not None
    for name in ("first.weight", "middle", ""):
        with pytest.raises(AttributeError):
            add_bias(network, name)
