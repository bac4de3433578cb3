"""Fine-tuning is the same loop: the last layer first, then all layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from raising import refused
from small_trainings import (
    IMAGES,
    LABEL,
    same_bits,
    small_data,
    tensors,
    torch,
    train_and_stop,
    unequal_features,
)
from unskew.errors import ConfigError
from unskew.learn import (
    Recipe,
    TrainingData,
    load_trained,
    settings_of,
    train_model,
    tune_probe,
)
from unskew.learn.training_data import measure_scale

BACKBONE = "training_networks:pretrained_features"


def _settings(**overrides):
    """The last layer first, then all layers: nothing starts as a probe."""
    usual = {"model": BACKBONE, "epochs": 3, "batch": 8, "head_share": 1 / 3, "device": "cpu"}
    usual |= {"probe_start": False, "frozen_share": 0.0, "fix_batch_norm": False}
    return settings_of("finetune", **{**usual, "learning_rate": 3e-3, **overrides})


def _pretrained() -> dict:
    from training_networks import pretrained_features

    return {
        f"network.backbone.{name}": value
        for name, value in pretrained_features().state_dict().items()
    }


def test_head_only_leaves_every_other_number_as_it_was_pretrained(tmp_path: Path) -> None:
    model = train_model(small_data(), _settings(head_share=1.0), tmp_path, logs=False)
    trained, before = tensors(model), _pretrained()
    assert all(torch.equal(trained[name], value) for name, value in before.items())
    assert trained["network.head.weight"].abs().max() > 0.01
    assert model.history[-1]["train_loss"] < model.history[0]["train_loss"]


def test_the_last_layer_comes_first_and_then_all_layers(tmp_path, monkeypatch) -> None:
    data, settings = small_data(), _settings()
    train_and_stop(monkeypatch, 1, data, settings, tmp_path / "one", logs=False)
    first = torch.load(tmp_path / "one" / "checkpoint.pt", weights_only=True)["network"]
    before = _pretrained()
    assert all(torch.equal(first[name], value) for name, value in before.items())
    all_layers = tensors(train_model(data, settings, tmp_path / "all", logs=False))
    moved = [name for name in before if not torch.equal(all_layers[name], before[name])]
    assert set(moved) == set(before)


@pytest.mark.parametrize("way", ["auto", "logit", "head"])
def test_stopped_and_resumed_it_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    n = 2000 if way == "head" else 24
    rng = np.random.default_rng(0)
    label = np.arange(n) % 2
    images = (rng.integers(60, 256, (n, 6, 6, 3)) // (1 + label[:, None, None, None])).astype(
        np.uint8
    )
    data = TrainingData(images, label, ("a", "b"), np.ones(n), np.arange(n).astype(str))
    settings = _settings(way=way, epochs=3, batch=256 if way == "head" else 8)
    straight = train_model(data, settings, tmp_path / "straight", logs=False)
    for stop in (1, 2):
        folder = tmp_path / str(stop)
        train_and_stop(monkeypatch, stop, data, settings, folder, logs=False)
        resumed = train_model(data, settings, folder, logs=False, resume=True)
        assert same_bits(resumed, straight)
        assert (folder / "model.pt").read_bytes() == (
            tmp_path / "straight" / "model.pt"
        ).read_bytes()
    assert straight.choice.way == ("half" if way == "auto" else way)


def test_batch_normalisation_may_keep_its_running_averages(tmp_path: Path) -> None:
    """Re-estimated on the images themselves, their mean is what the layer sees of them."""
    statistics = {}
    for update in (True, False):
        model = train_model(
            small_data(weight=np.ones(len(LABEL))),
            _settings(update_batch_norm=update, head_share=0.0, augment=False),
            tmp_path / str(update),
            logs=False,
        )
        network = model.network
        with torch.inference_mode():
            seen = network.network.backbone[0](network.scale(torch.from_numpy(IMAGES)))
        mean = network.network.backbone[1].running_mean
        statistics[update] = float((mean - seen.mean(dim=(0, 2, 3))).abs().max())
    # 24 images in whole batches of 8, each drawn once: rounding of float32.
    assert statistics[True] < 1e-5
    # Nine steps forget 0.9⁹ = 39 % of where they start from.
    assert statistics[False] > 1e-3


def test_a_recipe_retrains_the_last_layer_of_a_pretrained_network(tmp_path: Path) -> None:
    recipe = Recipe("retrained", np.log([1.5, 0.5]))
    model = train_model(small_data(), _settings(epochs=2), tmp_path, logs=False, recipe=recipe)
    assert "retrained" in model.choice.reason
    again = load_trained(tmp_path)
    assert np.array_equal(model.scores(IMAGES), again.scores(IMAGES))


def test_mean_and_deviation_may_be_named(tmp_path: Path) -> None:
    settings = _settings(epochs=1, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    model = train_model(small_data(), settings, tmp_path, logs=False)
    assert model.network.mean.tolist() == [127.5] * 3
    assert (1 / model.network.factor).tolist() == pytest.approx([63.75] * 3)


def test_a_network_without_a_last_layer_cannot_be_trained_there_first(tmp_path: Path) -> None:
    settings = settings_of(
        "fast", model="training_networks:bent_logits", head_share=0.5, device="cpu", batch=8
    )
    with refused(ConfigError, option="way"):
        train_model(unequal_features(40, 0), settings, tmp_path, logs=False)


def test_settings_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """Milestones were epochs, and there were fewer settings."""
    settings = settings_of(
        "fast",
        model="training_networks:convolutional",
        **{"epochs": 4, "batch": 8, "schedule": "steps", "milestones": (0.5,), "device": "cpu"},
    )
    train_model(small_data(), settings, tmp_path, logs=False)
    path = tmp_path / "model.pt"
    state = torch.load(path, weights_only=True)
    for name in ("optimizer", "warmup", "head_share", "crop", "logger", "normalization"):
        del state["settings"][name]
    state["settings"]["milestones"] = [2]
    torch.save(state, path)
    assert load_trained(tmp_path).settings == settings
    train_model(small_data(), settings, tmp_path, logs=False, resume=True)


def _started(**overrides):
    """As the preset has it: from a probe, the first layers and all statistics fixed."""
    usual = {"model": BACKBONE, "epochs": 2, "batch": 8, "device": "cpu"}
    return settings_of("finetune", **{**usual, **overrides})


def _held_out(n: int = 200) -> TrainingData:
    """Small images with as many validation images as a choice needs."""
    rng = np.random.default_rng(1)
    label = np.arange(n) % 2
    images = rng.integers(60, 256, (n, 6, 6, 3)) // (1 + label[:, None, None, None])
    ids = np.arange(n).astype(str)
    held = TrainingData(images.astype(np.uint8), label, ("a", "b"), np.ones(n), ids)
    return replace(small_data(), validation=held)


def test_the_last_layer_starts_as_the_probe_of_what_the_others_make(tmp_path: Path) -> None:
    """At a rate of nothing the network is the probe of its own features."""
    data, settings = small_data(), _started(way="logit", learning_rate=1e-30)
    model = train_model(data, settings, tmp_path, logs=False)
    network = model.network
    with torch.inference_mode():
        feature = network.network.backbone(network.scale(torch.from_numpy(IMAGES))).numpy()
    features = TrainingData(feature, data.label, data.classes, data.weight, data.id)
    mean, divisor = measure_scale(features, "fourth_root")
    scaled = ((feature - mean) / divisor).astype(np.float32)
    tuned = tune_probe(scaled, data.label, data.weight, 2, taus=(1.0,), seed=settings.seed)
    with torch.inference_mode():
        logits = network(torch.from_numpy(IMAGES)).numpy()
    np.testing.assert_allclose(logits, tuned.probe.logits(scaled), rtol=2e-4, atol=2e-4)


def test_first_layers_and_statistics_stay_and_the_others_learn(tmp_path: Path) -> None:
    model = train_model(small_data(), _started(frozen_share=0.5), tmp_path, logs=False)
    trained, before = tensors(model), _pretrained()
    is_same = {name: torch.equal(trained[name], value) for name, value in before.items()}
    statistics = [name for name in before if "running" in name or "tracked" in name]
    learned = [name for name in before if name not in statistics]
    half = round(0.5 * len(learned))
    assert all(is_same[name] for name in [*statistics, *learned[:half]])
    assert not any(is_same[name] for name in learned[half:])


def test_a_training_that_does_harm_ends_where_it_started(tmp_path: Path) -> None:
    data = _held_out()
    start = train_model(data, _started(learning_rate=1e-30), tmp_path / "start", logs=False)
    harm = train_model(data, _started(learning_rate=3.0), tmp_path / "harm", logs=False)
    assert "as it began" in harm.choice.reason
    backbone = [name for name in tensors(start) if "backbone" in name]
    assert all(torch.equal(tensors(harm)[name], tensors(start)[name]) for name in backbone)
    assert "refitted" not in harm.choice.reason


def test_started_as_a_probe_stopped_and_resumed_it_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, settings = _held_out(), _started()
    straight = train_model(data, settings, tmp_path / "straight", logs=False)
    train_and_stop(monkeypatch, 1, data, settings, tmp_path / "stopped", logs=False)
    resumed = train_model(data, settings, tmp_path / "stopped", logs=False, resume=True)
    assert same_bits(resumed, straight)
    assert np.array_equal(
        load_trained(tmp_path / "stopped").scores(IMAGES), straight.scores(IMAGES)
    )


def test_a_class_without_an_image_does_not_make_the_start_infinite(tmp_path: Path) -> None:
    data = replace(small_data(), classes=("a", "b", "c"))
    model = train_model(data, _started(way="half", epochs=1), tmp_path, logs=False)
    assert np.isfinite(model.scores(IMAGES)).all()
    assert model.history[0]["train_loss"] < 10
