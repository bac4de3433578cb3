"""Which network a setting names, how it scales its inputs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from small_trainings import (
    N,
    small_data,
    small_settings,
)
from unskew.errors import ConfigError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
import training_networks  # noqa: E402
from raising import refused  # noqa: E402
from unskew.learn import train_model  # noqa: E402
from unskew.learn.model_zoo import LinearProbe, ScaledNetwork, _called, make_network  # noqa: E402
from unskew.learn.probe import fit_probe  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "training_networks:always_three",
            "(b, 2); for 2 rows it gave the shape (2, 3)",
        ),
        ("training_networks:not_a_module", "torch.nn.Module; it returned str"),
        ("training_networks:too_small", "(6, 6, 3)"),
        ("training_networks:convolutionall", "Did you mean 'convolutional'?"),
        ("training_networks:NUMBER", "is not a function"),
        ("training_networks:needs_two", "TypeError"),
        ("training_networks:frozen", "freeze"),
        ("training_networks:fails_in_training", "(6, 6, 3) fails: ValueError: only judging"),
        ("training_networks:whole_numbers", "cannot be trained"),
        ("no_such_module:make", "'no_such_module'"),
        ("fast", "9 × 9 pixels; got (6, 6)"),
    ],
)
def test_a_model_that_does_not_fit(tmp_path, model: str, words: str) -> None:
    with refused(ConfigError, option="model", value=model) as caught:
        train_model(small_data(), small_settings(model=model), tmp_path / "run", logs=False)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def make(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_fails_at_import(tmp_path, monkeypatch, text: str, words: str) -> None:
    name = f"fails_with_{words.lower()}"
    (tmp_path / f"{name}.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=words):
        train_model(
            small_data(), small_settings(model=f"{name}:make"), tmp_path / "run", logs=False
        )


def test_networks_of_images_do_not_learn_from_features(tmp_path) -> None:
    with refused(ConfigError, option="model", value="resnet20"):
        train_model(
            small_data(np.ones((N, 4), dtype=np.float32)),
            small_settings(model="resnet20"),
            tmp_path,
            logs=False,
        )


def test_images_are_centred_and_divided_by_channel_and_channels_come_first() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    mean, divisor = np.array([100.0, 50.0, 10.0]), np.array([2.0, 4.0, 8.0])
    scaled = ScaledNetwork(torch.nn.Identity(), mean, divisor)(torch.from_numpy(rows))
    assert scaled.shape == (2, 3, 5, 4)
    np.testing.assert_allclose(scaled, ((rows - mean) / divisor).transpose(0, 3, 1, 2), rtol=1e-6)
    features = rng.normal(size=(6, 3)).astype(np.float32)
    flat = ScaledNetwork(torch.nn.Identity(), mean, divisor)(torch.from_numpy(features))
    np.testing.assert_allclose(flat, (features - mean) / divisor, rtol=1e-5)


def test_a_probe_as_a_network_is_x_times_w_plus_b_of_the_probe() -> None:
    rng = np.random.default_rng(1)
    X, label = rng.normal(size=(40, 3)), np.arange(40) % 2
    probe = fit_probe(X, label, np.ones(40), 2)
    network = LinearProbe(3, 2)
    network.take(probe)
    with torch.no_grad():
        np.testing.assert_allclose(network(torch.from_numpy(X)), probe.logits(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("probe", (6,)),
        ("probe", (9, 9, 3)),
        ("fast", (9, 9, 3)),
        ("resnet20", (8, 8, 3)),
        ("training_networks:linear", (6,)),
        ("training_networks:convolutional", (6, 6, 3)),
    ],
)
def test_every_network_gives_one_number_for_each_class(model: str, shape: tuple[int, ...]) -> None:
    before = torch.get_rng_state()
    network = make_network(model, shape, 4, np.zeros(shape[-1]), np.ones(shape[-1]))
    torch.set_rng_state(before)
    rows = torch.zeros(3, *shape, dtype=torch.uint8 if len(shape) == 3 else torch.float32)
    assert network.eval()(rows).shape == (3, 4)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_trial_step_of_a_users_network_changes_neither_it_nor_random_numbers() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        network = make_network(
            "training_networks:convolutional", (6, 6, 3), 2, np.zeros(3), np.ones(3)
        )
        made.append((network, torch.rand(1)))
    torch.manual_seed(3)
    plain = training_networks.convolutional(2)
    for network, after in made:
        tried = network.network.state_dict()
        for name, value in plain.state_dict().items():
            assert torch.equal(tried[name], value), name
        assert torch.equal(after, made[0][1])
    assert torch.equal(torch.rand(1), made[0][1])


def test_the_number_of_classes_is_passed_by_its_name_in_place_or_not_at_all() -> None:
    assert _called(lambda n_classes: ("n", n_classes), 5) == ("n", 5)
    assert _called(lambda depth=1, num_classes=2: ("num", depth, num_classes), 5) == ("num", 1, 5)
    assert _called(lambda k: ("first", k), 5) == ("first", 5)
    assert _called(lambda depth=1: ("none", depth), 5) == ("none", 1)
