"""The learning rate, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn import settings_of
from unskew.learn.optimization import learning_rate_at, make_optimizer, set_learning_rate


def test_the_articles_schedule() -> None:
    """A tenth from epoch 103 on (counted from 0, after 103 complete ones), a hundredth from
    154 on.
    """
    steps = 391
    rate = [
        learning_rate_at("steps", 0.1, epoch * steps + at, 205 * steps, 205, (0.5, 0.75))
        for epoch in range(205)
        for at in (0, 390)
    ]
    assert np.allclose(rate, [0.1] * 2 * 103 + [0.01] * 2 * 51 + [0.001] * 2 * 51, rtol=1e-12)


def test_one_cycle_rises_for_a_quarter_and_falls_to_zero() -> None:
    rate = np.array([learning_rate_at("one_cycle", 2.0, step, 400, 4) for step in range(401)])
    assert rate[0] == pytest.approx(0.4)
    assert rate[100] == rate.max() == 2.0
    assert rate[50] == pytest.approx(1.2)
    assert rate[250] == pytest.approx(1.0)
    assert rate[400] == 0
    assert np.allclose(np.diff(rate[:101], 2), 0, atol=1e-12)
    assert np.allclose(np.diff(rate[100:], 2), 0, atol=1e-12)


def test_a_constant_rate() -> None:
    assert {learning_rate_at("constant", 0.3, step, 9, 3) for step in range(9)} == {0.3}


def test_an_unknown_schedule() -> None:
    with refused(ConfigError, option="schedule", value="sine"):
        learning_rate_at("sine", 0.3, 0, 9, 3)


def test_cosine_warms_up_and_falls_to_zero() -> None:
    rate = np.array(
        [learning_rate_at("cosine", 2.0, step, 400, 4, warmup=0.1) for step in range(401)]
    )
    assert np.allclose(rate[:40], 2.0 * np.arange(1, 41) / 40)
    assert rate[40] == rate.max() == 2.0
    # Half way down after half of the steps that are left.
    assert rate[220] == pytest.approx(1.0)
    assert rate[400] == pytest.approx(0, abs=1e-12)
    assert (np.diff(rate[40:]) <= 0).all()


def test_cosine_without_a_warm_up_starts_at_the_highest_rate() -> None:
    assert learning_rate_at("cosine", 2.0, 0, 10, 1, warmup=0.0) == 2.0


@pytest.mark.parametrize("epochs", [3, 4, 10, 49, 205])
@pytest.mark.parametrize("milestone", [1, 2])
def test_a_share_of_the_epochs_means_the_epoch_that_it_was_made_from(
    epochs: int, milestone: int
) -> None:
    """(m/E)·E may round to just above m: epoch m is reached all the same, m − 1 is not."""
    rate = [
        learning_rate_at("steps", 1.0, epoch, epochs, epochs, (milestone / epochs,))
        for epoch in range(epochs)
    ]
    assert rate == [1.0] * milestone + [0.1] * (epochs - milestone)


def _network():
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )


def test_the_last_layer_learns_at_the_whole_rate_and_adamw_decays_matrices_only() -> None:
    network = _network()
    settings = settings_of("finetune", backbone_rate=0.1, weight_decay=0.05)
    optimizer = make_optimizer(network, settings, "2")
    set_learning_rate(optimizer, 0.4)
    rate = {
        id(parameter): (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    by_name = {name: rate[id(parameter)] for name, parameter in network.named_parameters()}
    assert by_name == {
        "0.weight": (pytest.approx(0.04), 0.05),
        "0.bias": (pytest.approx(0.04), 0.0),
        "1.weight": (pytest.approx(0.04), 0.0),
        "1.bias": (pytest.approx(0.04), 0.0),
        "2.weight": (0.4, 0.05),
        "2.bias": (0.4, 0.0),
    }


def test_stochastic_gradient_descent_has_one_group_as_he_et_al_have() -> None:
    network = _network()
    (group,) = make_optimizer(network, settings_of("article"), None).param_groups
    assert len(group["params"]) == 6
    assert (group["weight_decay"], group["momentum"], group["nesterov"]) == (1e-4, 0.9, False)
