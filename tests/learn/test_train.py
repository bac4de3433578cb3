"""Training: what the weights mean, what is printed, presets, the probe, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from small_trainings import (
    FULL_BATCH,
    IMAGES,
    LABEL,
    WEIGHT,
    N,
    same_bits,
    small_data,
    small_settings,
    tensors,
)
from unskew.errors import ConfigError, DataError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from raising import refused  # noqa: E402
from unskew.learn import TrainingData, settings_of, train_model  # noqa: E402
from unskew.learn.probe import fit_probe, scale_features  # noqa: E402
from unskew.learn.probe_grid import tune_probe  # noqa: E402
from unskew.learn.recipes import Recipe  # noqa: E402
from unskew.learn.training_data import measure_scale  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


# What weights mean


def test_weight_two_is_the_image_twice(tmp_path) -> None:
    times = WEIGHT.astype(int)
    repeated = small_data(
        np.repeat(IMAGES, times, axis=0), np.repeat(LABEL, times), np.ones(times.sum())
    )
    settings = small_settings(**FULL_BATCH, way="weights")
    weighted = train_model(small_data(), settings, tmp_path / "weighted", logs=False)
    unweighted = train_model(repeated, settings, tmp_path / "repeated", logs=False)
    for name, value in tensors(weighted).items():
        # Pixels are float32 while mean and deviation are measured: a few millionths.
        torch.testing.assert_close(value, tensors(unweighted)[name], rtol=1e-5, atol=1e-7)
    assert weighted.history[-1]["train_loss"] == pytest.approx(
        unweighted.history[-1]["train_loss"], rel=1e-6
    )


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_weight_zero_is_the_image_removed(tmp_path, weighting: str) -> None:
    kept = np.arange(N) % 3 > 0
    with_zeros = train_model(
        small_data(weight=WEIGHT * kept),
        small_settings(weighting=weighting),
        tmp_path / "zeros",
        logs=False,
    )
    removed = train_model(
        small_data(IMAGES[kept], LABEL[kept], WEIGHT[kept]),
        small_settings(weighting=weighting),
        tmp_path / "gone",
        logs=False,
    )
    assert same_bits(with_zeros, removed)


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_probabilities_follow_the_weights(tmp_path, weighting: str) -> None:
    """All features alike, three quarters of the weight on class a, a quarter of the rows: P(a) =
    3/4. Each of a is drawn three times.
    """
    label = (np.arange(40) >= 10).astype(int)
    data = small_data(np.ones((40, 2), dtype=np.float32), label, np.where(label, 1.0, 9.0))
    chosen = {
        "model": "training_networks:linear",
        "epochs": 60,
        "batch": 40,
        "learning_rate": 1.0,
        "label_smoothing": 0.0,
    }
    model = train_model(
        data,
        settings_of("fast", weighting=weighting, weight_decay=0.0, **chosen),
        tmp_path,
        logs=False,
    )
    np.testing.assert_allclose(model.scores(data.X[:1]), [[0.75, 0.25]], atol=2e-3)


@pytest.mark.parametrize(
    ("form", "factor"), [("loss", None), ("deferred", None), ("retrained", None), ("loss", 0.5)]
)
def test_recipes_end_at_the_target(tmp_path, form: str, factor: float | None) -> None:
    """All features alike: a model has the shares of the classes, here ¼ and ¾ of the images, ¾ and
    ¼ of the target. With factors 1 and ½ the loss is that of z_a + o_a and z_b/2 + o_b.
    """
    label = (np.arange(40) >= 10).astype(int)
    data = small_data(np.ones((40, 2), dtype=np.float32), label, np.ones(40))
    offset = np.log([0.25 / 0.75, 0.75 / 0.25])
    factor_m = None if factor is None else np.array([1.0, factor])
    chosen = {
        "model": "training_networks:linear",
        "epochs": 300,
        "batch": 40,
        "schedule": "constant",
        "label_smoothing": 0.0,
        "weight_decay": 0.0,
    }
    model = train_model(
        data,
        settings_of("fast", **chosen),
        tmp_path,
        logs=False,
        recipe=Recipe(form, offset, factor_m),
    )
    if factor is None:
        np.testing.assert_allclose(model.scores(data.X[:1]), [[0.75, 0.25]], atol=2e-3)
    else:
        z_a, z_b = np.log(model.scores(data.X[:1])[0])
        logits = model.network(torch.from_numpy(data.X[:1])).detach().numpy()[0]
        assert logits @ [1.0, -factor] == pytest.approx(np.log(3), abs=2e-3)
        assert z_a - z_b == pytest.approx(logits[0] - logits[1], abs=1e-6)


def test_weighting_is_deferred_to_the_last_fifth_of_the_epochs(tmp_path) -> None:
    settings = small_settings(epochs=5)
    losses = [
        [
            row["train_loss"]
            for row in train_model(
                small_data(weight=np.ones(N)),
                settings,
                tmp_path / recipe.fingerprint(),
                logs=False,
                recipe=recipe,
            ).history
        ]
        for recipe in (Recipe("deferred", np.zeros(2)), Recipe("deferred", np.array([1.0, -1.0])))
    ]
    assert losses[0][:4] == losses[1][:4]
    assert losses[0][4] != losses[1][4]


# What else is touched


def test_the_callers_random_numbers_go_on_as_if_nothing_had_happened(tmp_path) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    train_model(small_data(), small_settings(epochs=1), tmp_path, logs=False)
    assert torch.equal(torch.get_rng_state(), state)


# Inputs, output, precision, presets


def test_a_memmap_is_learned_from_as_an_array_is(tmp_path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    some = WEIGHT * (np.arange(N) % 4 > 0)
    for weight in (WEIGHT, some):
        runs = [
            train_model(
                small_data(X, weight=weight),
                small_settings(),
                tmp_path / "run",
                logs=False,
                force=True,
            )
            for X in (IMAGES, mapped)
        ]
        assert same_bits(*runs)


def test_nothing_is_printed_where_there_is_no_terminal(tmp_path, capfd) -> None:
    train_model(small_data(), small_settings(epochs=1), tmp_path, logs=False)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_bar_shows_on_demand(tmp_path, capfd) -> None:
    train_model(small_data(), small_settings(epochs=1), tmp_path, logs=False, progress=True)
    assert "images trained on" in capfd.readouterr().err


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions(tmp_path, precision: str) -> None:
    model = train_model(
        small_data(validation=True), small_settings(precision=precision), tmp_path, logs=False
    )
    assert math.isfinite(model.history[-1]["validation_loss"])
    assert model.scores(IMAGES).shape == (N, 2)


def test_the_preset_article_makes_two_steps(tmp_path) -> None:
    data = small_data(IMAGES[:8], LABEL[:8], WEIGHT[:8])
    model = train_model(
        data, settings_of("article", epochs=1, batch=4, device="cpu"), tmp_path, logs=False
    )
    assert (model.settings.model, model.history[0]["learning_rate"]) == ("resnet56", 0.1)


def test_the_fast_network_learns_an_easy_task(tmp_path) -> None:
    X = np.repeat(np.repeat(IMAGES, 2, axis=1), 2, axis=2)
    model = train_model(
        small_data(X), settings_of("fast", epochs=6, batch=8, device="cpu"), tmp_path, logs=False
    )
    assert (model.scores(X).argmax(1) == LABEL).all()


# The probe


def _features(n: int = 60) -> TrainingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(np.float32) * np.arange(1, 6, dtype=np.float32)
    label = (X[:, 0] + rng.normal(size=n) > 0.5).astype(int)
    return TrainingData(X, label, ("a", "b", "never"), np.ones(n), np.arange(n).astype(str))


def _scaled(data: TrainingData) -> np.ndarray:
    mean, divisor = measure_scale(data, "fourth_root")
    return ((data.X - mean) / divisor).astype(np.float32)


def test_the_probe_is_the_exact_one(tmp_path) -> None:
    data = _features()
    X, label = data.X, data.label
    model = train_model(data, settings_of("probe"), tmp_path)
    scaled = scale_features(X, "fourth_root")
    tuned = tune_probe(scaled, label, np.ones(60), 3)
    expected = np.exp(tuned.logits(scaled))
    assert model.choice == tuned.choice
    assert json.loads((tmp_path / "settings.json").read_text())["choice"]["way"] == "half"
    np.testing.assert_allclose(
        model.scores(X), expected / expected.sum(1, keepdims=True), atol=2e-4
    )
    assert (model.scores(X)[:, 2] == 0).all()
    # The history is that of the linear layer, before the spread of its logits is calibrated.
    linear_nm = tuned.probe.logits(scaled)
    loss_n = np.logaddexp.reduce(linear_nm, axis=1) - linear_nm[np.arange(60), label]
    assert model.history[0]["train_loss"] == pytest.approx(loss_n.mean(), rel=1e-3)
    again = train_model(data, settings_of("probe"), tmp_path, resume=True)
    assert same_bits(model, again)


def test_way_and_ridge_are_those_of_the_settings(tmp_path) -> None:
    data = replace(_features(900), weight=np.where(_features(900).label, 3.0, 1.0))
    scaled = _scaled(data)
    for way, tau in (("weights", 0.0), ("logit", 1.0)):
        settings = settings_of("probe", way=way, ridge=0.02)
        model = train_model(data, settings, tmp_path / way, logs=False)
        tuned = tune_probe(scaled, data.label, data.weight, 3, taus=(tau,), ridges=(0.02,))
        assert (model.choice.way, model.choice.ridge) == (way, 0.02)
        np.testing.assert_allclose(
            model.network.network.linear.weight.detach().T, tuned.probe.coefficient, atol=1e-3
        )
    free = train_model(data, settings_of("probe"), tmp_path / "free", logs=False)
    assert {row.way for row in free.choice.scores} == {"weights", "half", "logit"}
    with refused(ConfigError, option="way", value="head"):
        train_model(data, settings_of("probe", way="head"), tmp_path / "head", logs=False)


def test_a_baseline_is_trained_as_it_is_defined_and_judged_by_the_target(tmp_path) -> None:
    """Its ridge is the best of the grid under the target's weights; nothing is calibrated."""
    data = _features(900)
    weight, offset = np.where(np.arange(900) < 500, 1.0, 0.0), np.array([0.4, -0.7, np.inf])
    judge = np.where(data.label, 3.0, 1.0)
    data = replace(data, weight=weight, judge_weight=judge)
    model = train_model(
        data, settings_of("probe"), tmp_path, logs=False, recipe=Recipe("posthoc", offset)
    )
    scaled = _scaled(data)
    plain = fit_probe(scaled, data.label, weight, 3, ridge=model.choice.ridge)
    expected = np.exp(plain.logits(scaled)[:, :2] - offset[:2])
    np.testing.assert_allclose(
        model.scores(data.X)[:, :2], expected / expected.sum(1, keepdims=True), atol=1e-3
    )
    assert (model.choice.way, model.calibration) == ("weights", None)
    # All 900 images judge, also those that are not learned from.
    assert model.choice.ess == pytest.approx(judge.sum() ** 2 / (judge**2).sum())
    retrained = train_model(
        data,
        settings_of("probe", ridge=0.01),
        tmp_path / "retrained",
        logs=False,
        recipe=Recipe("retrained", offset),
    )
    plain = fit_probe(
        scaled, data.label, weight * np.exp(-offset)[data.label], 3, ridge=0.01
    ).logits(scaled)[:, :2]
    np.testing.assert_allclose(
        np.diff(np.log(retrained.scores(data.X)[:, :2])), np.diff(plain), atol=1e-3
    )
    with refused(ConfigError, option="recipe", value="deferred"):
        train_model(data, settings_of("probe"), tmp_path, recipe=Recipe("deferred", offset))
    with refused(ConfigError, value=["the recipe"]):
        train_model(data, settings_of("probe"), tmp_path, resume=True, recipe=Recipe())


def test_the_offset_of_a_network_is_subtracted_after_training(tmp_path) -> None:
    offset = np.array([1.0, -1.0])
    settings = small_settings(label_smoothing=0.0)  # which would follow the offset
    plain, adjusted = (
        train_model(small_data(), settings, tmp_path / recipe.form, logs=False, recipe=recipe)
        for recipe in (Recipe(), Recipe("posthoc", offset))
    )
    assert plain.choice.way == "weights"
    np.testing.assert_allclose(
        np.log(adjusted.scores(IMAGES)) - np.log(plain.scores(IMAGES)) @ np.eye(2),
        (-offset - np.log(plain.scores(IMAGES) @ np.exp(-offset))[:, None]),
        atol=1e-9,
    )


def test_a_probe_of_pixels(tmp_path) -> None:
    model = train_model(small_data(validation=True), settings_of("probe"), tmp_path, logs=False)
    assert (model.scores(IMAGES).argmax(1) == LABEL).all()
    assert model.history[0]["validation_accuracy"] == 1


# What is refused


def test_a_batch_that_devices_cannot_share_and_a_card_that_is_not_there(tmp_path) -> None:
    with refused(ConfigError, option="batch", value=9):
        train_model(small_data(), small_settings(batch=9, devices=2), tmp_path / "a", logs=False)
    if not torch.cuda.is_available():
        with refused(ConfigError, option="device", value="cuda"):
            train_model(small_data(), small_settings(device="cuda"), tmp_path / "b", logs=False)


@pytest.mark.parametrize("package", ["torch", "lightning"])
def test_what_is_missing_is_named(tmp_path, monkeypatch, package: str) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    for settings in (small_settings(), settings_of("probe")):
        with pytest.raises(
            ConfigError, match=rf"training needs the package '{package}.*unskew\[torch\]"
        ):
            train_model(small_data(), settings, tmp_path / "run")


def test_names_of_watched_images_that_the_history_uses(tmp_path) -> None:
    with refused(ConfigError, option="watch", value="validation"):
        train_model(small_data(), small_settings(), tmp_path, watch={"validation": small_data()})
    with refused(DataError, levels=["b", "a"], allowed=["a", "b"]):
        train_model(
            small_data(),
            small_settings(),
            tmp_path,
            watch={"test": replace(small_data(), classes=("b", "a"))},
        )


def test_one_image_of_positive_weight_is_not_enough_for_a_network(tmp_path):
    weight = np.zeros(WEIGHT.size)
    weight[0] = 1.0
    with refused(DataError, count=1, limit=2):
        train_model(small_data(weight=weight), small_settings(), tmp_path / "one", logs=False)
    assert not (tmp_path / "one").exists()
