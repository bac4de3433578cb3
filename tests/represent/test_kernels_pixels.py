"""The loops over pixels against sums in plain NumPy and the standard library."""

import colorsys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from represent.picture_pools import random_pixels
from unskew.represent.kernels_pixels import combination_sums, hsv_means, laplacian_sums

IMAGES = arrays(
    np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.just(3))
)


def _hsv(pixels: np.ndarray) -> np.ndarray:
    """(m, 3) hue, saturation and value by the standard library."""
    return np.array([colorsys.rgb_to_hsv(*(pixel / 255)) for pixel in pixels]).reshape(-1, 3)


@given(IMAGES)
@settings(max_examples=40)
def test_hue_saturation_and_value_are_those_of_the_standard_library(images: np.ndarray) -> None:
    expected = [_hsv(image.reshape(-1, 3)).mean(axis=0) for image in images]
    np.testing.assert_allclose(hsv_means(images), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("colour", "hsv"),
    [
        ((255, 0, 0), (0, 1, 1)),
        ((0, 255, 0), (1 / 3, 1, 1)),
        ((0, 0, 255), (2 / 3, 1, 1)),
        ((255, 0, 255), (5 / 6, 1, 1)),
        ((0, 0, 0), (0, 0, 0)),
        ((51, 51, 51), (0, 0, 0.2)),
    ],
)
def test_pure_colours_have_known_hues(colour: tuple[int, ...], hsv: tuple[float, ...]) -> None:
    image = np.broadcast_to(np.array(colour, np.uint8), (1, 2, 2, 3))
    np.testing.assert_allclose(hsv_means(image), [hsv], rtol=1e-12)


@given(IMAGES, st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(-300, 300)))
@settings(max_examples=40)
def test_sums_of_combinations_are_exact(images: np.ndarray, weight_c: tuple[int, int, int]) -> None:
    y = images.astype(np.int64) @ np.array(weight_c)
    assert combination_sums(images, weight_c) == [
        (int(one.sum()), int((one**2).sum())) for one in y
    ]


@given(IMAGES)
@settings(max_examples=40)
def test_sums_of_laplacians_are_exact(images: np.ndarray) -> None:
    grey = (images.astype(np.int64) @ np.array([19595, 38470, 7471]) + 32768) >> 16
    inner = (
        grey[:, :-2, 1:-1]
        + grey[:, 2:, 1:-1]
        + grey[:, 1:-1, :-2]
        + grey[:, 1:-1, 2:]
        - 4 * grey[:, 1:-1, 1:-1]
    )
    assert laplacian_sums(images) == [(int(one.sum()), int((one**2).sum())) for one in inner]


def test_other_images_of_a_batch_and_the_layout_in_memory_change_nothing() -> None:
    images = random_pixels(9, 7, n=5)
    turned = np.ascontiguousarray(images.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    assert not turned.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(hsv_means(images, 2)[2:3], hsv_means(images[2:3], 2))
    np.testing.assert_array_equal(hsv_means(images, 2), hsv_means(turned, 2))
    assert laplacian_sums(images) == laplacian_sums(turned)
    assert laplacian_sums(images)[3:4] == laplacian_sums(images[3:4])
    assert combination_sums(images, (3, 6, 1)) == combination_sums(turned, (3, 6, 1))


def test_white_images_of_a_million_pixels_do_not_overflow() -> None:
    white = np.full((1, 1000, 1000, 3), 255, np.uint8)
    assert combination_sums(white, (300, 600, 100)) == [(255_000 * 10**6, 255_000**2 * 10**6)]
