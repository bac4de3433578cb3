"""The representation `embedding`: settings, images brought to a square, features normalised,
principal components of all.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.decomposition import PCA

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.represent.embedding import Embedding, embed_batch, fit_to_square
from unskew.represent.networks import Network


class Means(Network):
    """The mean of each channel of what it is given, and a record of how it was called."""

    name = "means"

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def _run(self, images: Any) -> Any:
        self.sizes.append(len(images))
        return images.mean(axis=(2, 3))


def _with_network(settings: Embedding, network: Network) -> Embedding:
    settings.__dict__["_network"] = network
    return settings


def _ramp(height: int, width: int) -> np.ndarray:
    """Red rises from left to right, green from top to bottom."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width).round()
    pixels[..., 1] = np.linspace(0, 255, height).round()[:, None]
    return pixels


# Settings


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"size": 0}, "1 or more"),
        ({"batch": True}, "True"),
        ({"components": 2.5}, "2.5"),
        ({"resize": "croop"}, "Did you mean 'crop'"),
        ({"mean": [0.5, 0.5]}, "three numbers"),
        ({"mean": "abc"}, "three numbers"),
        ({"std": [1, 1, 0]}, "above 0"),
        ({"device": "tpu"}, "'cuda'"),
        ({"model": "resnet"}, "module:factory"),
        ({"blocks": [4, 16]}, "from 0 to 15"),
        ({"blocks": [4, 4]}, "different"),
        ({"blocks": "4"}, "whole numbers"),
        ({"blocks": [True]}, "whole numbers"),
        ({"blocks": [4], "model": "network.onnx"}, "efficientnet-lite0"),
    ],
)
def test_an_impossible_setting_is_refused_at_once(settings: dict[str, Any], hint: str) -> None:
    option, value = next(iter(settings.items()))
    with refused(ConfigError, option=option, value=value) as caught:
        Embedding(**settings)
    assert hint in str(caught.value)


def test_columns_are_numbered_components() -> None:
    assert Embedding(components=3).columns == ("embedding_0", "embedding_1", "embedding_2")
    assert Embedding(batch=5).batch_size == 5


def test_without_components_the_features_are_the_values() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    assert Embedding(components=0).columns == ()
    np.testing.assert_array_equal(Embedding(components=0).finish(values), values)


def test_the_key_holds_what_changes_the_features_and_nothing_else(tmp_path: Path) -> None:
    file, copied, changed = tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "c.onnx"
    for path, content in ((file, b"1"), (copied, b"1"), (changed, b"2")):
        path.write_bytes(content)
    base = {"model": str(file)}
    key = Embedding(**base).to_dict()
    assert json.loads(json.dumps(key)) == key
    assert key["name"] == "embedding"
    for same in (
        {"components": 3},
        {"whiten": True},
        {"batch": 5},
        {"model": str(copied)},
        {"mean": (0.485, 0.456, 0.406)},
    ):
        assert Embedding(**base | same).to_dict() == key, same
    for other in (
        {"size": 96},
        {"resize": "pad"},
        {"mean": [0.5] * 3},
        {"std": [0.5] * 3},
        {"model": str(changed)},
    ):
        assert Embedding(**base | other).to_dict() != key, other


# Squares


@pytest.mark.parametrize("rule", ["crop", "stretch", "pad"])
def test_a_square_of_the_right_size_stays_as_it_is(rule: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    np.testing.assert_array_equal(fit_to_square(pixels, 16, rule), pixels)


def test_crop_keeps_the_middle_and_stretch_and_pad_keep_all() -> None:
    wide = _ramp(32, 96)
    crop, stretch, pad = (
        fit_to_square(wide, 32, rule, (0.0, 0.0, 1.0)) for rule in ("crop", "stretch", "pad")
    )
    np.testing.assert_array_equal(crop, wide[:, 32:64])
    assert np.ptp(crop[..., 0]) < 90
    assert np.ptp(stretch[..., 0]) > 245
    # 32 × 96 becomes 11 × 32, with 10 rows of margin above and 11 below.
    np.testing.assert_array_equal(
        pad[:10], np.broadcast_to([0, 0, 255], (10, 32, 3)).astype(np.uint8)
    )
    np.testing.assert_array_equal(
        pad[21:], np.broadcast_to([0, 0, 255], (11, 32, 3)).astype(np.uint8)
    )
    assert pad[10:21, :, 2].max() == 0
    np.testing.assert_array_equal(
        fit_to_square(wide.transpose(1, 0, 2), 32, "crop"), wide[:, 32:64].transpose(1, 0, 2)
    )


@given(
    height=st.integers(1, 50),
    width=st.integers(1, 50),
    size=st.integers(1, 40),
    rule=st.sampled_from(["crop", "stretch", "pad"]),
)
def test_any_image_becomes_a_square_and_one_colour_stays_one(
    height: int, width: int, size: int, rule: str
) -> None:
    pixels = np.broadcast_to(np.array([10, 200, 77], dtype=np.uint8), (height, width, 3))
    square = fit_to_square(pixels, size, rule, (10 / 255, 200 / 255, 77 / 255))
    np.testing.assert_array_equal(square, np.broadcast_to([10, 200, 77], (size, size, 3)))


def test_shrinking_a_large_image_is_smooth_and_close_to_pillows_own() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (640, 960, 3)).astype(np.uint8)
    direct = (
        Image.fromarray(pixels).crop((160, 0, 800, 640)).resize((32, 32), Image.Resampling.BICUBIC)
    )
    difference = fit_to_square(pixels, 32).astype(float) - np.asarray(direct)
    # On noise, the worst case, single pixels may differ by a few levels; without smoothing it would
    # be tens.
    assert np.abs(difference).max() <= 4
    assert np.abs(difference).mean() < 1


# Features


def test_pixels_are_scaled_and_normalised_channel_by_channel() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3)).astype(np.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    expected = (pixels.mean(axis=(1, 2)) / 255 - mean) / std
    np.testing.assert_allclose(
        embed_batch(Means(), pixels, mean, std), expected, rtol=1e-5, atol=1e-6
    )


def test_each_model_gets_the_normalisation_it_was_trained_with() -> None:
    grey = np.full((1, 4, 4, 3), 127, dtype=np.uint8)
    np.testing.assert_allclose(
        _with_network(Embedding(size=4), Means()).compute(grey), np.zeros((1, 3)), atol=1e-6
    )
    own = _with_network(Embedding("my:net", size=4), Means()).compute(grey)
    expected = [
        (127 / 255 - mean) / std
        for mean, std in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)
    ]
    np.testing.assert_allclose(own, [expected], rtol=1e-5)


def test_no_more_than_batch_images_enter_the_network_at_a_time() -> None:
    network = Means()
    settings = _with_network(Embedding(size=4, batch=3), network)
    pixels = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3)).astype(np.uint8)
    value = settings.compute(pixels)
    assert network.sizes == [3, 3, 1]
    np.testing.assert_array_equal(value, _with_network(Embedding(size=4), Means()).compute(pixels))


def test_prepare_brings_images_to_the_networks_size() -> None:
    assert Embedding(size=20, resize="pad").prepare(_ramp(7, 90)).shape == (20, 20, 3)


def test_placed_sets_threads_for_the_same_model() -> None:
    settings = Embedding("my:net")
    placed = settings.placed(3)
    assert placed == settings
    assert placed._runs_on.jobs == 3
    assert placed._model is settings._model


# Components


@pytest.mark.parametrize("whiten", [False, True])
def test_finish_gives_principal_components_of_all_rows(
    whiten: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(9000, 6)) * [6, 5, 4, 3, 2, 1]).astype(np.float32)
    with caplog.at_level(logging.INFO):
        score = Embedding(components=3, whiten=whiten).finish(values)
    assert score.shape == (9000, 3)
    assert score.dtype == np.float64
    oracle = PCA(3, whiten=whiten).fit(values.astype(np.float64))
    np.testing.assert_allclose(
        np.abs(score), np.abs(oracle.transform(values.astype(np.float64))), rtol=1e-6, atol=1e-6
    )
    shown = oracle.explained_variance_ratio_
    assert (
        f"3 principal components of 6 features of 9000 images show {shown.sum():.1%} of their "
        f"variance ({shown[0]:.1%}," in caplog.text
    )


def test_finish_reads_a_mapped_file_and_keeps_the_order_of_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    np.save(tmp_path / "values.npy", values)
    settings = Embedding(components=2)
    order = np.random.default_rng(2).permutation(50)
    plain = settings.finish(values)
    np.testing.assert_array_equal(
        settings.finish(np.load(tmp_path / "values.npy", mmap_mode="r")), plain
    )
    np.testing.assert_allclose(settings.finish(values[order]), plain[order], atol=1e-12)


def test_too_few_images_or_features_say_how_many_components_are_possible() -> None:
    with refused(DataError, option="components", value=8, count=5):
        Embedding().finish(np.zeros((5, 10), dtype=np.float32))
    with refused(ConfigError, option="components", value=8, limit=4):
        Embedding().finish(np.zeros((50, 4), dtype=np.float32))
