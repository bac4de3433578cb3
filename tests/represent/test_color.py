"""Colours against independent converters, closed forms, and the article's definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.colors import rgb_to_hsv
from skimage.color import rgb2hsv

from raising import refused
from represent.picture_pools import random_pixels, smooth_pixels
from unskew.errors import ConfigError, DataError
from unskew.represent.color import (
    BorderHsv,
    border_hsv,
    brightness,
    colourfulness,
    contrast,
    mean_hsv,
)

_BATCHES = arrays(
    np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.just(3))
)


def _border_mask(height: int, width: int, border: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.minimum.reduce([y, x, height - 1 - y, width - 1 - x]) < border


@given(_BATCHES, st.integers(1, 5))
def test_border_hsv_is_the_mean_of_matplotlibs_hsv_over_the_border(
    images: np.ndarray, width: int
) -> None:
    mask = _border_mask(*images.shape[1:3], width)
    expected = [rgb_to_hsv(image / 255)[mask].mean(axis=0) for image in images]
    np.testing.assert_allclose(border_hsv(images, width), expected, atol=1e-12)


@given(_BATCHES)
def test_mean_hsv_is_the_mean_of_scikit_images_hsv(images: np.ndarray) -> None:
    expected = [rgb2hsv(image).mean(axis=(0, 1)) for image in images]
    np.testing.assert_allclose(mean_hsv(images), expected, atol=1e-12)


def test_every_colour_is_converted_as_matplotlib_does() -> None:
    """All 2¹⁸ colours of six bits a channel, each an image of its own: ties of channels, greys and
    black among them.
    """
    level = np.r_[np.arange(0, 252, 4), 255].astype(np.uint8)
    colour = np.stack(np.meshgrid(level, level, level, indexing="ij"), axis=-1).reshape(-1, 1, 1, 3)
    np.testing.assert_allclose(border_hsv(colour), rgb_to_hsv(colour[:, 0, 0] / 255), atol=1e-14)


def test_the_articles_border_is_two_pixels_wide() -> None:
    """32 × 32 images have 240 pixels of border; what lies inside does not matter."""
    image = random_pixels(32, 32)[None]
    inside = image.copy()
    inside[:, 2:-2, 2:-2] = 0
    touched = image.copy()
    touched[:, 1, 1] = 255 - touched[:, 1, 1]
    assert BorderHsv().width == 2
    assert _border_mask(32, 32, 2).sum() == 240
    np.testing.assert_array_equal(border_hsv(image), border_hsv(inside))
    assert (border_hsv(image) != border_hsv(touched)).any()


def test_a_wide_border_is_the_whole_image() -> None:
    image = random_pixels(7, 40)[None]
    np.testing.assert_allclose(border_hsv(image, 4), mean_hsv(image), atol=1e-13)
    np.testing.assert_allclose(border_hsv(image, 100), mean_hsv(image), atol=1e-13)


@pytest.mark.parametrize(
    ("colour", "hsv"),
    [
        ((255, 0, 0), (0, 1, 1)),
        ((0, 255, 0), (1 / 3, 1, 1)),
        ((0, 0, 255), (2 / 3, 1, 1)),
        ((0, 0, 0), (0, 0, 0)),
    ],
)
def test_pure_colours(colour: tuple[int, int, int], hsv: tuple[float, float, float]) -> None:
    image = np.broadcast_to(np.array(colour, dtype=np.uint8), (1, 5, 6, 3))
    np.testing.assert_allclose(border_hsv(image), [hsv], atol=1e-15)
    np.testing.assert_allclose(mean_hsv(image), [hsv], atol=1e-15)


@given(_BATCHES)
def test_brightness_contrast_and_colourfulness_are_their_formulas(images: np.ndarray) -> None:
    r, g, b = np.moveaxis(images.astype(np.float64), -1, 0)
    luma = (0.299 * r + 0.587 * g + 0.114 * b) / 255
    np.testing.assert_allclose(brightness(images), luma.mean(axis=(1, 2)), atol=1e-12)
    np.testing.assert_allclose(contrast(images), luma.std(axis=(1, 2)), atol=1e-7)
    rg, yb = r - g, (r + g) / 2 - b
    spread = np.sqrt(rg.var(axis=(1, 2)) + yb.var(axis=(1, 2)))
    centre = np.sqrt(rg.mean(axis=(1, 2)) ** 2 + yb.mean(axis=(1, 2)) ** 2)
    np.testing.assert_allclose(colourfulness(images), spread + 0.3 * centre, atol=1e-9)


def test_grey_has_no_colour_and_one_colour_no_contrast() -> None:
    grey = np.repeat(random_pixels(9, 9)[None, :, :, :1], 3, axis=3)
    assert colourfulness(grey)[0] == 0.0
    assert mean_hsv(grey)[0, 1] == 0.0
    flat = np.full((1, 50, 70, 3), (13, 200, 77), dtype=np.uint8)
    assert contrast(flat)[0] == 0.0
    assert contrast(np.array([[[[0, 0, 0], [255, 255, 255]]]], dtype=np.uint8))[0] == 0.5


def test_the_value_of_an_image_does_not_depend_on_its_batch() -> None:
    images = np.stack([smooth_pixels(70, 90, seed) for seed in range(7)])
    for function in (border_hsv, mean_hsv, brightness, contrast, colourfulness):
        alone = np.concatenate([function(images[at : at + 1]) for at in range(7)])
        np.testing.assert_array_equal(function(images), alone)
        np.testing.assert_array_equal(function(images[::-1]), alone[::-1])
        # Not contiguous in memory.
        np.testing.assert_array_equal(function(np.asfortranarray(images)), alone)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((4, 4, 3), np.uint8),
        np.zeros((1, 4, 4), np.uint8),
        np.zeros((1, 4, 4, 3)),
        np.zeros((1, 0, 4, 3), np.uint8),
    ],
)
def test_what_is_not_a_batch_of_images_is_refused(bad: np.ndarray) -> None:
    with refused(DataError, value=list(bad.shape)):
        border_hsv(bad)


@pytest.mark.parametrize("width", [0, -1, 1.5, True, "2"])
def test_a_border_has_a_width(width: object) -> None:
    with refused(ConfigError, option="width", value=width):
        BorderHsv(width=width)  # type: ignore[arg-type]
