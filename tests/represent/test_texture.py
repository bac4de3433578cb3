"""Sharpness against scipy's Laplacian, noise against scikit-image and noise that was put in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image, ImageFilter
from scipy.ndimage import convolve
from skimage.restoration import estimate_sigma

from represent.picture_pools import random_pixels, smooth_pixels
from unskew.represent.texture import noise, sharpness


def _grey(image: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(image).convert("L")).astype(np.int64)


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(3, 9), st.integers(3, 9), st.just(3)))
)
def test_sharpness_is_the_variance_of_the_laplacian_of_the_grey_image(images: np.ndarray) -> None:
    kernel = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    expected = [convolve(_grey(image), kernel)[1:-1, 1:-1].var() for image in images]
    np.testing.assert_allclose(sharpness(images), expected, rtol=1e-12, atol=1e-9)


def test_sharpness_of_a_checkerboard_has_a_closed_form() -> None:
    """Every pixel differs from its four neighbours by 255: L = ±4 · 255, as often + as −."""
    board = np.indices((10, 12)).sum(axis=0) % 2 * 255
    images = np.repeat(board.astype(np.uint8)[None, :, :, None], 3, axis=3)
    assert sharpness(images)[0] == (4 * 255) ** 2


def test_blur_lowers_sharpness() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8))
    blurred = [
        np.asarray(image.filter(ImageFilter.GaussianBlur(radius))) for radius in (0, 0.5, 1, 2, 4)
    ]
    assert (np.diff(sharpness(np.stack(blurred))) < 0).all()


def test_sharpness_of_a_gradient_is_zero_and_of_a_tiny_image_unknown() -> None:
    ramp = np.repeat(np.tile(np.arange(40, dtype=np.uint8), (5, 1))[None, :, :, None], 3, axis=3)
    assert sharpness(ramp)[0] == 0.0
    assert np.isnan(sharpness(np.zeros((2, 2, 9, 3), np.uint8))).all()


def test_noise_is_scikit_images_estimate_and_finds_what_was_put_in() -> None:
    rng = np.random.default_rng(1)
    clean = np.repeat(smooth_pixels(128, 160).mean(axis=2, keepdims=True), 3, axis=2) * 0.5 + 60
    for sigma in (4.0, 12.0):
        noisy = np.clip(np.rint(clean + rng.normal(0, sigma, (128, 160, 1))), 0, 255).astype(
            np.uint8
        )
        measured = noise(noisy[None])[0]
        assert measured == pytest.approx(
            estimate_sigma(_grey(noisy).astype(np.float64)) / 255, rel=1e-6
        )
        assert measured * 255 == pytest.approx(
            sigma, rel=0.05
        )  # 5,000 coefficients: the median is good to about 2%


def test_noise_of_one_colour_is_zero_and_of_a_pixel_unknown() -> None:
    assert noise(np.full((2, 20, 20, 3), 91, np.uint8)).tolist() == [0.0, 0.0]
    assert np.isnan(noise(np.zeros((1, 1, 20, 3), np.uint8))[0])
    assert np.isfinite(
        noise(np.random.default_rng(0).integers(0, 256, (3, 2, 2, 3), dtype=np.uint8))
    ).all()


def test_the_value_of_an_image_does_not_depend_on_its_batch() -> None:
    images = np.stack([smooth_pixels(40, 50, seed) for seed in range(5)])
    for function in (sharpness, noise):
        np.testing.assert_array_equal(
            function(images), np.concatenate([function(image[None]) for image in images])
        )


@pytest.mark.parametrize("shape", [(2, 30), (9, 30), (31, 17), (64, 40), (65, 41)])
def test_the_noise_of_a_large_image_is_found_in_strips_and_is_the_same(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = random_pixels(*shape)[None]
    whole = noise(images)
    monkeypatch.setattr("unskew.represent.texture._STRIP_PIXELS", 4 * shape[1])
    np.testing.assert_array_equal(noise(images), whole)
