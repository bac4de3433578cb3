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
from raising import refused  # noqa: E402
from unskew.learn import train_model  # noqa: E402

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
        ("training_networks:NUMBER", "cannot be called"),
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
