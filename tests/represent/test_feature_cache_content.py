"""Hashes of images: equal for copies only."""

from pathlib import Path

import numpy as np

from represent.picture_pools import encoded, pool_of, random_pixels
from unskew.represent.feature_cache import hash_image, hash_images
from unskew.represent.pool_features import represent_images


def test_hashes_are_equal_for_copies_only() -> None:
    first, second = random_pixels(), random_pixels(seed=1)
    hashed = hash_images(
        pool_of(
            [first, encoded(first), second, first.copy(), encoded(first), first[:, ::-1][:, ::-1]]
        )
    ).frame["content"]
    assert hashed[0] == hashed[3] == hashed[5]
    assert hashed[1] == hashed[4]
    assert hashed.nunique() == 3
    assert hash_image(first) != hash_image(first.reshape(30, 20, 3))
    assert hash_image(first) != hash_image(first.view(np.int8))
    assert list(hash_images(pool_of([first])).frame.columns) == ["id", "source", "path", "content"]


def test_hashing_sets_aside_what_cannot_be_read_and_decodes_nothing(tmp_path: Path) -> None:
    hashed = hash_images(
        pool_of({"text": b"no image", "lost": tmp_path / "lost.png"}), tolerance=0.5
    )
    assert hashed.frame["id"].tolist() == ["text"]
    assert hashed.set_aside["id"].tolist() == ["lost"]


def test_hashes_can_be_had_in_the_same_pass(tmp_path: Path) -> None:
    pool = pool_of([encoded(random_pixels(seed=seed)) for seed in range(4)])
    expected = hash_images(pool).frame["content"].tolist()
    for cache in (None, tmp_path, tmp_path):
        pool.images.reads.clear()
        both = represent_images(pool, "brightness", cache=cache, content=True)
        assert list(both.frame.columns) == ["id", "source", "path", "content", "brightness"]
        assert both.frame["content"].tolist() == expected
        assert len(pool.images.reads) == 4
