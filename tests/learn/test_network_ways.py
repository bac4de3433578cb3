"""What happens to a network after its epochs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from small_trainings import train_and_stop, unequal_features

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
from raising import refused  # noqa: E402
from unskew.errors import ConfigError, DataError  # noqa: E402
from unskew.learn import TrainedModel, load_trained, settings_of, train_model  # noqa: E402
from unskew.learn.network_ways import ridge_of_refit, split_head  # noqa: E402
from unskew.learn.presets import TAUS  # noqa: E402
from unskew.learn.recipes import Recipe  # noqa: E402
from unskew.splits.folds import unit_codes  # noqa: E402

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

    assert loss(np.log(scores)) < loss(_logits(model, held.X))


def test_auto_refits_its_last_layer_on_all_training_images_by_logit(tmp_path) -> None:
    """The body is that of half; the layer has the slope 0 of its penalised, shifted likelihood."""
    data = unequal_features(900, 0)
    settings = _settings(model="training_networks:two_layers")
    half = train_model(data, replace(settings, way="half"), tmp_path / "half", logs=False)
    model = train_model(data, settings, tmp_path / "auto", logs=False)
    for name, value in half.network.state_dict().items():
        assert torch.equal(value, model.network.state_dict()[name]) == ("last" not in name)
    assert "refitted on all training images" in model.choice.reason
    assert (model.choice.way, model.choice.refit, model.choice.tau) == ("half", "logit", 1.0)
    z = _logits(model, data.X) - np.log(1.0 / np.bincount(data.label))
    shifted = np.exp(z - z.max(axis=1, keepdims=True))
    share = (shifted / shifted.sum(axis=1, keepdims=True)).mean(axis=0)
    # Unpenalised intercepts: with the shift of training, mean predictions are the classes' shares.
    np.testing.assert_allclose(share, np.bincount(data.label) / 900, atol=1e-3)
    again = load_trained(tmp_path / "auto")
    assert np.array_equal(again.scores(data.X), model.scores(data.X))


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_the_penalty_of_a_refit_is_relative_to_the_curvature_of_one_class(n_classes: int) -> None:
    """Second differences of the loss at coefficients of 0, summed over one class's coefficients."""
    rng = np.random.default_rng(0)
    feature, weight = rng.normal(size=(40, 3)), rng.exponential(size=40)
    step, curvature = 1e-3, 0.0
    for d in range(3):
        for sign in (-1.0, 1.0):
            # Of the class with the coefficient ± step, and the M − 1 others; labels cancel.
            total = np.log(np.exp(sign * step * feature[:, d]) + n_classes - 1)
            curvature += np.average(total - np.log(n_classes), weights=weight) / step**2
    expected = 5.5e-3 * curvature
    # Second differences are off by the fourth derivative × step², relative to 1.
    assert ridge_of_refit(feature, weight, n_classes) == pytest.approx(expected, rel=1e-5)


def test_auto_leaves_layers_that_it_cannot_or_need_not_refit(tmp_path) -> None:
    data = unequal_features(300, 0)
    even = replace(data, weight=np.ones(300))
    rounded = replace(data, weight=1.0 + 1e-12 * np.arange(300))
    bent = _settings(model="training_networks:bent_logits")
    for name, images, settings, word in (
        ("bent", data, bent, "does not end with a linear layer"),
        ("even", even, _settings(), "half, in which auto trains networks;"),
        ("rounded", rounded, _settings(), "half, in which auto trains networks;"),
    ):
        model = train_model(images, settings, tmp_path / name, logs=False)
        half = replace(settings, way="half")
        other = train_model(images, half, tmp_path / f"{name}-half", logs=False)
        assert word in model.choice.reason
        assert np.array_equal(model.scores(images.X), other.scores(images.X))


def test_validation_images_may_object_to_a_refitted_layer(tmp_path, monkeypatch) -> None:
    """A penalty so strong that the refitted layer knows nothing."""
    monkeypatch.setattr("unskew.learn.network_ways._RIDGE_OF_ALL", 1e6)
    data = replace(unequal_features(600, 0), validation=unequal_features(3000, 1))
    model = train_model(data, _settings(), tmp_path / "auto", logs=False)
    assert re.search(r"it is worse \(-\d+\.\d ± \d+\.\d points on the valid", model.choice.reason)
    half = train_model(data, _settings(way="half"), tmp_path / "half", logs=False)
    np.testing.assert_array_equal(_logits(model, data.X), _logits(half, data.X))


@pytest.mark.parametrize(("validation", "word"), [(None, "no validation"), (40, "needs 50")])
def test_auto_calibrates_on_nothing_less(tmp_path, validation: int | None, word: str) -> None:
    held = None if validation is None else unequal_features(validation, 1)
    model = train_model(
        replace(unequal_features(300, 0), validation=held), _settings(), tmp_path, logs=False
    )
    assert model.calibration is None
    assert not model.calibrated_on_validation
    assert word in model.choice.reason


def test_few_validation_images_fit_one_temperature(tmp_path) -> None:
    data = replace(unequal_features(600, 0), validation=unequal_features(300, 1))
    model = train_model(data, _settings(), tmp_path, logs=False)
    assert 50 < model.choice.ess < 300
    assert model.calibrated_on_validation
    assert "one temperature" in model.choice.reason
    assert model.calibration.scale != 1.0
    assert not model.calibration.bias.any()
    held = data.validation
    # A temperature changes no prediction.
    same = model.scores(held.X).argmax(axis=1) == _logits(model, held.X).argmax(axis=1)
    assert same.all()


def test_a_named_way_is_left_as_it_is_trained(tmp_path) -> None:
    data = replace(unequal_features(300, 0), validation=unequal_features(1500, 1))
    for way in ("weights", "half", "logit"):
        model = train_model(data, _settings(way=way, epochs=1), tmp_path / way, logs=False)
        assert (model.choice.way, model.calibration) == (way, None)
        assert "not calibrated" in model.choice.reason


def test_the_reason_says_what_the_refitted_layer_gained(tmp_path) -> None:
    data = replace(unequal_features(600, 0), validation=unequal_features(3000, 1))
    settings = _settings(model="training_networks:two_layers", epochs=1)
    model = train_model(data, settings, tmp_path / "auto", logs=False)
    half = train_model(data, replace(settings, way="half"), tmp_path / "half", logs=False)
    held = data.validation
    hits = [(_logits(one, held.X).argmax(axis=1) == held.label) * 1.0 for one in (model, half)]
    gain = 100 * np.average(hits[0] - hits[1], weights=held.weight)
    assert f"refitted on all training images by logit ({gain:+.1f} ± " in model.choice.reason


def test_an_arm_that_is_no_way_of_the_weights_says_so(tmp_path) -> None:
    data = unequal_features(300, 0)
    for name, settings in (("net", _settings(epochs=1)), ("probe", settings_of("probe"))):
        model = train_model(data, settings, tmp_path / name, recipe=Recipe(), logs=False)
        assert model.choice.way == "weights"
        assert "as the arm is defined" in model.choice.reason


def test_a_run_that_is_stopped_before_it_is_finished_ends_in_the_same_bytes(
    tmp_path, monkeypatch
) -> None:
    data = replace(unequal_features(300, 0), validation=unequal_features(1500, 1))
    train_model(data, _settings(), tmp_path / "straight", logs=False)
    train_and_stop(monkeypatch, 3, data, _settings(), tmp_path / "stopped", logs=False)
    train_model(data, _settings(), tmp_path / "stopped", logs=False, resume=True)
    one, other = (tmp_path / name / "model.pt" for name in ("straight", "stopped"))
    assert one.read_bytes() == other.read_bytes()


def test_the_head_is_two_of_eleven_units_of_every_class() -> None:
    data = replace(unequal_features(6600, 0), group=np.arange(6600) // 2)
    data = replace(data, label=np.repeat(data.label[::2], 2))
    body, head = split_head(data, 0)
    assert not set(body.group) & set(head.group)
    assert sorted([*body.id, *head.id]) == sorted(data.id)
    for m in range(3):
        units = (data.label == m).sum() / 2
        assert abs((head.label == m).sum() / 2 - units * 2 / 11) <= 0.5
    assert not np.array_equal(split_head(data, 1)[1].id, head.id)


def test_neither_a_group_nor_a_copy_is_in_body_and_head() -> None:
    """Units as `unskew train` makes them: groups, copies of an image, and chains of the two."""
    rng = np.random.default_rng(0)
    group = np.where(rng.random(6600) < 0.2, rng.integers(0, 600, 6600), np.arange(700, 7300))
    content = np.where(rng.random(6600) < 0.1, rng.integers(0, 300, 6600), np.arange(1000, 7600))
    frame = pd.DataFrame({"group": group.astype(str), "content": content.astype(str)})
    data = replace(unequal_features(6600, 0), group=unit_codes(frame))
    body, head = split_head(data, 0)
    of_body, of_head = (part.id.astype(int) for part in (body, head))
    assert sorted([*of_body, *of_head]) == list(range(6600))
    for column in (group, content):
        assert not set(column[of_body]) & set(column[of_head])
    assert set(head.label) == set(body.label) == {0, 1, 2}
    assert 0.15 < len(head) / 6600 < 0.2


def test_the_head_is_the_tuned_probe_of_the_body_s_features(tmp_path) -> None:
    """The body is trained without the head's images; what is saved predicts as what was fitted."""
    data = unequal_features(6000, 0)
    settings = _settings(way="head", model="training_networks:two_layers")
    model = train_model(data, settings, tmp_path / "head", logs=False)
    body, head = split_head(data.without_zeros(), 0)
    alone = train_model(body, replace(settings, way="half"), tmp_path / "body", logs=False)
    for name, value in alone.network.state_dict().items():
        if "last" not in name:
            assert torch.equal(value, model.network.state_dict()[name])
    assert model.choice.way == "head"
    assert f"{len(head):,} images" in model.choice.reason
    assert {row.way for row in model.choice.scores} == {"weights", "half", "logit"}
    assert model.choice.ridge is not None
    # What the last layer learned by is recorded, and its score is the corrected one of that row.
    assert model.choice.refit in TAUS
    assert model.choice.tau == TAUS[model.choice.refit]
    assert model.choice.own.way == model.choice.refit
    assert model.choice.optimism == model.choice.own.score - model.choice.score
    test = unequal_features(6000, 2)
    scores = model.scores(test.X)
    right = np.average(scores.argmax(1) == test.label, weights=test.weight)
    before = np.average(alone.scores(test.X).argmax(1) == test.label, weights=test.weight)
    assert right > before - 0.01
    confidence = np.average(scores.max(1), weights=test.weight)
    assert confidence == pytest.approx(right, abs=0.03)


def test_a_head_is_resumed_to_the_same_bytes_and_loaded_without_code(tmp_path, monkeypatch) -> None:
    data, settings = unequal_features(6000, 0), _settings(way="head")
    train_model(data, settings, tmp_path / "straight", logs=False)
    train_and_stop(monkeypatch, 2, data, settings, tmp_path / "stopped", logs=False)
    resumed = train_model(data, settings, tmp_path / "stopped", logs=False, resume=True)
    one, other = (tmp_path / name / "model.pt" for name in ("straight", "stopped"))
    assert one.read_bytes() == other.read_bytes()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    again = load_trained(tmp_path / "stopped")
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(again.scores(data.X), resumed.scores(data.X))


def test_what_a_head_needs_is_named(tmp_path) -> None:
    few = unequal_features(900, 0)
    with refused(DataError, option="way", value="head", levels=[], limit=300):
        train_model(few, _settings(way="head"), tmp_path / "few", logs=False)
    data = unequal_features(6000, 0)
    rare = replace(data, label=np.where(np.arange(6000) == 5, 2, data.label % 2))
    with refused(DataError, option="way", levels=["c"]):
        train_model(rare, _settings(way="head"), tmp_path / "rare", logs=False)
    settings = _settings(way="head", model="training_networks:bent_logits")
    with refused(ConfigError, option="way", value="training_networks:bent_logits"):
        train_model(data, settings, tmp_path / "bent", logs=False)
    assert not (tmp_path / "few").exists()


def test_a_class_without_weight_is_not_predicted_by_a_head(tmp_path) -> None:
    data = unequal_features(6000, 0)
    data = replace(data, weight=np.where(data.label == 1, 0.0, data.weight))
    model = train_model(data, _settings(way="head", epochs=1), tmp_path, logs=False)
    assert (model.scores(data.X)[:, 1] == 0).all()


def test_a_retrained_last_layer_sees_the_images_of_the_rest_once_more(tmp_path) -> None:
    """The rest is that of a model without weights; classes get their target shares."""
    data = replace(unequal_features(900, 0), weight=np.ones(900))
    settings = _settings(model="training_networks:two_layers")
    recipe = Recipe("retrained", np.log(np.bincount(data.label) / 300))
    plain = train_model(data, settings, tmp_path / "plain", logs=False, recipe=Recipe())
    model = train_model(data, settings, tmp_path / "retrained", logs=False, recipe=recipe)
    for name, value in plain.network.state_dict().items():
        assert torch.equal(value, model.network.state_dict()[name]) == ("last" not in name)
    share = model.scores(data.X).T @ recipe.class_weight(data.label) / 900
    # With unpenalised intercepts a fit has the shares of its weights.
    np.testing.assert_allclose(share, 1 / 3, atol=2e-3)
    assert (model.choice.way, model.calibration) == ("weights", None)
    bent = replace(settings, model="training_networks:bent_logits")
    with refused(ConfigError, value="training_networks:bent_logits"):
        train_model(data, bent, tmp_path / "bent", logs=False, recipe=recipe)
