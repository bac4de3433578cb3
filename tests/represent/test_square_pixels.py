"""Images as squares of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from represent.picture_pools import encoded, pool_of, random_pixels
from unskew.represent.square_pixels import square_images


def test_squares_of_the_right_size_are_the_pixels_themselves(tmp_path: Path) -> None:
    pixels = random_pixels(12, 12, n=5)
    pool, X = square_images(pool_of([encoded(each) for each in pixels]), 12, cache=tmp_path, jobs=1)
    assert np.array_equal(X, pixels)
    assert X.dtype == np.uint8
    again = pool_of([encoded(each) for each in pixels[::-1]])
    assert np.array_equal(square_images(again, 12, cache=tmp_path, jobs=1)[1], pixels[::-1])
    assert list(pool.frame.columns) == ["id", "source", "path"]


def test_squares_set_aside_what_cannot_be_decoded() -> None:
    pixels = random_pixels(9, 15, n=3)
    raw = {"a": encoded(pixels[0]), "broken": b"no image", "b": encoded(pixels[2])}
    pool, X = square_images(pool_of(raw), 4, "stretch", tolerance=0.5, jobs=1)
    assert pool.frame["id"].tolist() == ["a", "b"]
    assert X.shape == (2, 4, 4, 3)
    assert pool.set_aside is not None
    assert pool.set_aside["id"].tolist() == ["broken"]
    assert np.array_equal(X[1], square_images(pool_of({"b": raw["b"]}), 4, "stretch", jobs=1)[1][0])
