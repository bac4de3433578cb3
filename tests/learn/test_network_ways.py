"""What happens to a network after its epochs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from small_trainings import train_and_stop, unequal_features

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
from unskew.learn import TrainedModel, settings_of, train_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def _settings(**overrides):
    usual = {"model": "training_networks:linear", "epochs": 3, "batch": 50, "device": "cpu"}
    return settings_of("fast", **{**usual, "learning_rate": 1.0, **overrides})


def _logits(model: TrainedModel, X: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return model.network(torch.from_numpy(X)).double().numpy()


def test_auto_calibrates_on_enough_validation_images(tmp_path) -> None:
    data = replace(unequal_features(600, 0), validation=unequal_features(1500, 1))
    model = train_model(data, _settings(), tmp_path, logs=False)
    assert model.choice.way == "half"
    assert model.choice.ess > 300
    assert model.calibrated_on_validation
    assert "calibrated on the validation images" in model.choice.reason
    held = data.validation
    moved = np.exp(model.calibration.apply(_logits(model, held.X)))
    scores = model.scores(held.X)
    np.testing.assert_allclose(scores, moved / moved.sum(axis=1, keepdims=True), rtol=1e-9)

    def loss(logits: np.ndarray) -> float:
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return -np.average(log_p[np.arange(len(held)), held.label], weights=held.weight)

    raw = loss(_logits(model, held.X))
    assert raw == pytest.approx(model.history[model.epoch]["validation_loss"], rel=1e-5)
    assert loss(np.log(scores)) < raw


@pytest.mark.parametrize(("validation", "word"), [(None, "no validation"), (200, "needs 300")])
def test_auto_calibrates_on_nothing_less(tmp_path, validation: int | None, word: str) -> None:
    held = None if validation is None else unequal_features(validation, 1)
    model = train_model(
        replace(unequal_features(300, 0), validation=held), _settings(), tmp_path, logs=False
    )
    assert model.calibration is None
    assert not model.calibrated_on_validation
    assert word in model.choice.reason


def test_a_named_way_is_left_as_it_is_trained(tmp_path) -> None:
    data = replace(unequal_features(300, 0), validation=unequal_features(1500, 1))
    for way in ("weights", "half", "logit"):
        model = train_model(data, _settings(way=way, epochs=1), tmp_path / way, logs=False)
        assert (model.choice.way, model.calibration) == (way, None)


def test_a_run_that_is_stopped_before_it_is_finished_ends_in_the_same_bytes(
    tmp_path, monkeypatch
) -> None:
    data = replace(unequal_features(300, 0), validation=unequal_features(1500, 1))
    train_model(data, _settings(), tmp_path / "straight", logs=False)
    train_and_stop(monkeypatch, 3, data, _settings(), tmp_path / "stopped", logs=False)
    train_model(data, _settings(), tmp_path / "stopped", logs=False, resume=True)
    one, other = (tmp_path / name / "model.pt" for name in ("straight", "stopped"))
    assert one.read_bytes() == other.read_bytes()
