"""represent_images from end to end: columns, unusable images, several pools, jobs, order."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from raising import refused
from represent.picture_pools import GivenImages, encoded, pool_of, random_pixels, smooth_pixels
from unskew.errors import ConfigError, DataError, UnreadableError
from unskew.records import Pool
from unskew.represent.base import Needs, Representation
from unskew.represent.color import border_hsv, brightness, colourfulness, contrast, mean_hsv
from unskew.represent.pool_features import represent_images
from unskew.represent.texture import noise, sharpness
from unskew.sources.files import FileImages

CHEAP = [
    "border_hsv",
    "mean_hsv",
    "brightness",
    "contrast",
    "colourfulness",
    "sharpness",
    "noise",
    "size",
    "aspect_ratio",
]
COLUMNS = [
    *(
        "border_hsv_h",
        "border_hsv_s",
        "border_hsv_v",
        "mean_hsv_h",
        "mean_hsv_s",
        "mean_hsv_v",
        "brightness",
        "contrast",
    ),
    *("colourfulness", "sharpness", "noise", "size_width", "size_height", "aspect_ratio"),
]


def _mixed_sizes(n: int = 40) -> list[np.ndarray]:
    shapes = [(32, 32), (20, 33), (150, 131), (64, 300)]
    return [smooth_pixels(*shapes[seed % 4], seed) for seed in range(n)]


def test_the_columns_are_the_plain_functions() -> None:
    images = np.stack([smooth_pixels(140, 150, seed) for seed in range(6)])
    frame = represent_images(
        pool_of(list(images)), [*CHEAP[:-2], {"name": "border_hsv", "width": 5}][1:]
    ).frame
    np.testing.assert_array_equal(
        frame[["border_hsv_h", "border_hsv_s", "border_hsv_v"]], border_hsv(images, 5)
    )
    np.testing.assert_array_equal(
        frame[["mean_hsv_h", "mean_hsv_s", "mean_hsv_v"]], mean_hsv(images)
    )
    for function in (brightness, contrast, colourfulness, sharpness, noise):
        np.testing.assert_array_equal(frame[function.__name__], function(images))


def test_arrays_and_lossless_files_give_identical_numbers() -> None:
    images = _mixed_sizes(12)
    arrays = represent_images(pool_of(images), CHEAP).frame
    files = represent_images(pool_of([encoded(image) for image in images]), CHEAP).frame
    pd.testing.assert_frame_equal(arrays, files, check_exact=True)
    assert list(arrays.columns[3:]) == COLUMNS
    assert arrays["size_height"].tolist() == [image.shape[0] for image in images]


def test_values_depend_neither_on_jobs_nor_on_order_nor_on_company(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pool_of([encoded(image, "JPEG") for image in _mixed_sizes(90)])
    one = represent_images(pool, CHEAP, jobs=1).frame
    pd.testing.assert_frame_equal(
        represent_images(pool, CHEAP, jobs=3).frame, one, check_exact=True
    )
    order = np.random.default_rng(0).permutation(90)
    shuffled = represent_images(pool.take(order), CHEAP).frame
    pd.testing.assert_frame_equal(
        shuffled.set_index("id").loc[one["id"]].reset_index(), one, check_exact=True
    )
    monkeypatch.setattr("unskew.represent.image_tasks._BATCH_BYTES", 1)
    monkeypatch.setattr("unskew.represent.workers._ROWS_PER_TASK", 7)
    alone = pd.concat(
        [represent_images(pool, [name]).frame[list(_columns_of(name))] for name in CHEAP], axis=1
    )
    pd.testing.assert_frame_equal(alone, one[alone.columns], check_exact=True)


def _columns_of(name: str) -> list[str]:
    return [column for column in COLUMNS if column.startswith(name)]


def test_the_rest_of_the_pool_stays_as_it_was() -> None:
    pool = pool_of(
        [random_pixels(seed=seed) for seed in range(4)], ["b", "a", "b", "a"]
    ).with_columns({"label": list("xyxy"), "weight_kg": 1.0})
    represented = represent_images(pool, "brightness")
    assert represented.names == pool.names
    assert list(represented.frame.columns) == [
        "id",
        "source",
        "label",
        "path",
        "weight_kg",
        "brightness",
    ]
    pd.testing.assert_frame_equal(
        represented.frame[pool.frame.columns.intersection(represented.frame.columns)],
        represented.frame[pool.frame.columns],
    )
    assert represented.set_aside is None
    assert represented.images is pool.images


def _damaged() -> dict[str, bytes]:
    jpeg = encoded(random_pixels(60, 60), "JPEG")
    return {"empty": b"", "half": jpeg[: len(jpeg) // 2], "text": b"This is not an image."}


def test_unusable_images_are_set_aside_with_their_reason() -> None:
    good = {f"good-{seed}": encoded(smooth_pixels(30, 30, seed)) for seed in range(7)}
    raw = {"empty": b"", **good, **_damaged()}
    pool = pool_of(raw)
    before = pd.DataFrame(
        {"id": ["lost"], "source": ["camera"], "path": ["lost.png"], "reason": ["a symlink loop"]}
    )
    represented = represent_images(Pool(pool.frame, pool.images, before), CHEAP, tolerance=0.5)
    assert represented.frame["id"].tolist() == list(good)
    assert len(represented.images) == 7
    assert represented.images.read(6) == good["good-6"]
    assert represented.set_aside.columns.tolist() == ["id", "source", "path", "reason"]
    assert represented.set_aside["id"].tolist() == ["lost", "empty", "half", "text"]
    assert represented.set_aside["path"].tolist() == [
        "lost.png",
        "empty.png",
        "half.png",
        "text.png",
    ]
    assert represented.set_aside["reason"].str.contains("loop|empty|truncated|text").all()
    np.testing.assert_array_equal(
        represented.frame["brightness"],
        represent_images(pool_of(good), "brightness").frame["brightness"],
    )


def test_above_the_tolerance_the_run_stops_and_says_what_to_do() -> None:
    raw = {f"good-{seed}": random_pixels(seed=seed) for seed in range(97)} | _damaged()
    assert len(represent_images(pool_of(raw), "brightness", tolerance=0.03)) == 97
    with pytest.raises(
        UnreadableError,
        match=r"3 of 100 images .*tolerated share of 0\.01.*camera.*raise tolerance \(at least "
        r"0\.030\)",
    ) as caught:
        represent_images(pool_of(raw), "brightness")
    assert set(caught.value.set_aside["id"]) == {"empty", "half", "text"}
    assert isinstance(caught.value, DataError)


def test_what_sources_set_aside_counts() -> None:
    pool = pool_of([random_pixels(seed=seed) for seed in range(9)])
    aside = pd.DataFrame({"id": ["lost"], "source": ["camera"], "path": [None], "reason": ["gone"]})
    with pytest.raises(UnreadableError, match="1 of 10 images"):
        represent_images(Pool(pool.frame, pool.images, aside), "brightness")


def test_a_source_without_a_usable_image_is_an_error_unless_everything_is_tolerated() -> None:
    raw = {f"good-{seed}": random_pixels(seed=seed) for seed in range(9)} | {"bad": b""}
    with pytest.raises(
        UnreadableError, match=r"not one image of night can be used.*bad: the file is empty"
    ):
        represent_images(pool_of(raw, ["day"] * 9 + ["night"]), "brightness", tolerance=0.5)
    anything = represent_images(pool_of(raw, ["day"] * 9 + ["night"]), "brightness", tolerance=1.0)
    assert anything.names == ("day",)
    with pytest.raises(UnreadableError, match="not one image of camera"):
        represent_images(pool_of([b"", b""]), "brightness", tolerance=1.0)


def test_files_that_vanish_or_may_not_be_read(tmp_path: Path) -> None:
    class Failing(GivenImages):
        def read(self, row: int) -> object:
            errors = {
                1: FileNotFoundError(2, "No such file"),
                3: PermissionError(13, "Permission denied"),
                5: OSError(5, "Input/output error"),
            }
            if row in errors:
                raise errors[row]
            return super().read(row)

    pool = pool_of([random_pixels(seed=seed) for seed in range(8)])
    represented = represent_images(
        Pool(pool.frame, Failing(pool.images.raw)), "brightness", tolerance=0.5
    )
    assert represented.set_aside["reason"].tolist() == [
        "the file is not there (any more)",
        "there is no permission to read the file",
        "the file cannot be read (Input/output error)",
    ]
    path = tmp_path / "vanished.png"
    raw = [random_pixels(), path, random_pixels(seed=1)]
    with_cache = represent_images(
        pool_of(raw), "brightness", tolerance=0.5, cache=tmp_path / "cache"
    )
    assert with_cache.set_aside["reason"].tolist() == ["the file is not there (any more)"]


def test_large_images_are_refused_and_the_limit_can_be_raised() -> None:
    raw = [random_pixels(10, 10, seed) for seed in range(3)] + [random_pixels(100, 100)]
    kept = represent_images(pool_of(raw), ["size"], max_pixels=5000, tolerance=0.5)
    assert kept.set_aside["reason"].str.contains("max_pixels = 5,000").all()
    assert len(kept) == 3
    assert len(represent_images(pool_of(raw), ["size"], max_pixels=10_000)) == 4


def test_arrays_that_are_no_images_are_set_aside(tmp_path: Path) -> None:
    no_images = [
        *(
            np.zeros((0, 4, 3), np.uint8),
            np.array([["a"]]),
            np.array([[None]], dtype=object),
            np.zeros((2, 2, 2, 2)),
            np.zeros(5),
        ),
        *(
            np.array(3),
            np.zeros((3, 3), complex),
            np.full((3, 3), np.datetime64("2020")),
            np.zeros((4, 4, 2), np.uint8),
        ),
    ]
    odd = [np.asfortranarray(random_pixels()), random_pixels().astype(">u2"), random_pixels()[::-1]]
    for cache in (None, tmp_path):
        kept = represent_images(
            pool_of([*odd, *no_images]), ["brightness", "size"], cache=cache, tolerance=0.9
        )
        assert (len(kept), len(kept.set_aside)) == (3, 9)


def test_several_pools_are_represented_together() -> None:
    images = _mixed_sizes(20)
    first, second = represent_images(
        [pool_of(images[:12]), pool_of(images[12:], "sample")], ["mean_hsv", Centred()]
    )
    whole = represent_images(pool_of(images), ["mean_hsv", Centred()])
    joined = pd.concat([first.frame, second.frame], ignore_index=True)
    np.testing.assert_array_equal(joined["mean_hsv_h"], whole.frame["mean_hsv_h"])
    np.testing.assert_array_equal(joined["centred"], whole.frame["centred"])
    assert joined["centred"].mean() == pytest.approx(0.0, abs=1e-12)
    assert second.names == ("sample",)


def test_unusable_images_leave_the_right_pool_and_finish_does_not_see_them() -> None:
    images = [random_pixels(seed=seed) for seed in range(6)]
    first, second = represent_images(
        [
            pool_of({"a": images[0], "bad": b"", "b": images[1]}),
            pool_of({"c": images[2], "d": images[3], "worse": b"x"}),
        ],
        [Centred()],
        tolerance=0.5,
    )
    assert (first.frame["id"].tolist(), second.frame["id"].tolist()) == (["a", "b"], ["c", "d"])
    assert (first.set_aside["id"].tolist(), second.set_aside["id"].tolist()) == (["bad"], ["worse"])
    expected = np.array([image.mean() for image in images[:4]])
    np.testing.assert_allclose(
        np.r_[first.frame["centred"], second.frame["centred"]],
        expected - expected.mean(),
        atol=1e-12,
    )


@dataclass(frozen=True)
class Centred(Representation):
    """The mean pixel, relative to all images: depends on the others through `finish` only."""

    name: ClassVar[str] = "centred"
    needs: ClassVar[Needs] = "pixels"
    batch_size: ClassVar[int | None] = 5
    one_at_a_time: ClassVar[bool] = True

    def prepare(self, pixels: np.ndarray) -> np.ndarray:
        return pixels.mean(keepdims=True)[0, 0]

    def compute(self, batch: np.ndarray) -> np.ndarray:
        assert batch.shape[1:] == (1,)
        assert len(batch) <= 5
        return batch

    def finish(self, values: np.ndarray) -> np.ndarray:
        return values - values.mean()


def test_large_tables_of_values_are_mapped_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [random_pixels(seed=seed) for seed in range(9)]
    raw = {**{str(at): image for at, image in enumerate(images)}, "bad": b""}
    in_memory = represent_images(pool_of(raw), [Centred()], tolerance=0.5).frame
    monkeypatch.setattr("unskew.represent.workers._LARGEST_IN_MEMORY", 0)
    pd.testing.assert_frame_equal(
        represent_images(pool_of(raw), [Centred()], tolerance=0.5).frame, in_memory
    )


class Wide(Centred):
    """As many columns as an embedding has."""

    columns: ClassVar[tuple[str, ...]] = tuple(f"c{k}" for k in range(150))

    def prepare(self, pixels: np.ndarray) -> np.ndarray:
        return np.full(150, float(pixels.mean()))

    def compute(self, batch: np.ndarray) -> np.ndarray:
        return batch


def test_many_columns_are_entered_at_once() -> None:
    # pandas warns of tables made column by column, and the command line would pass that on.
    frame = represent_images(pool_of([random_pixels()]), [Wide()]).frame
    assert frame.columns[-150:].tolist() == list(Wide.columns)


def test_bad_calls_are_refused(tmp_path: Path) -> None:
    pool = pool_of([random_pixels()])
    with pytest.raises(DataError, match="images = false"):
        represent_images(Pool(pool.frame), "brightness")
    with refused(DataError, column="brightness"):
        represent_images(pool.with_columns({"brightness": 1.0}), "brightness")
    for option, value in (("tolerance", 5), ("jobs", 0), ("max_pixels", 0)):
        with refused(ConfigError, option=option, value=value):
            represent_images(pool, "brightness", **{option: value})
    with refused(DataError, count=0):
        represent_images([], "brightness")
    with pytest.raises(ConfigError, match="Did you mean 'brightness'"):
        represent_images(pool, "britness")


def test_the_limit_of_pixels_can_be_raised(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.png").write_bytes(encoded(np.full((20, 30), 51, dtype=np.uint8), "PNG"))
    pool = Pool.from_folders({"n": tmp_path})
    assert len(represent_images(pool, "brightness", max_pixels=600)) == 3
    few = pool.with_columns({})
    (tmp_path / "0.png").write_bytes(encoded(np.full((20, 31), 51, dtype=np.uint8), "PNG"))
    assert represent_images(few, "brightness", max_pixels=600, tolerance=0.5).set_aside[
        "id"
    ].tolist() == ["n/0.png"]
    assert len(represent_images(few, "brightness", max_pixels=620)) == 3


@contextmanager
def _unprivileged() -> Iterator[None]:
    """As somebody who may not read everything: root may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_without_permission_and_files_that_vanish_leave_with_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The columns of the others stay beside their ids."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for at in range(8):
            (folder / f"{at}.png").write_bytes(
                encoded(np.full((8, 8), 30 * at, dtype=np.uint8), "PNG")
            )
        (folder / "2.png").chmod(0)
        pool = Pool.from_folders({"n": folder})
        read = FileImages.read

        def vanishing(images: FileImages, row: int) -> bytes:
            if str(images.paths[row]).endswith("5.png"):
                (folder / "5.png").unlink(missing_ok=True)  # between being listed and being read
            return read(images, row)

        monkeypatch.setattr(FileImages, "read", vanishing)
        represent_images(
            Pool.from_arrays(["a"], images=random_pixels(16, 16, n=1)), "brightness"
        )  # loads what only its owner may
        os.chown(folder, 65534, -1) if os.geteuid() == 0 else None
        with _unprivileged():
            found = represent_images(pool, "brightness", tolerance=0.5, jobs=2)
    assert found.set_aside["id"].tolist() == ["n/2.png", "n/5.png"]
    assert "permission" in found.set_aside["reason"][0]
    assert (
        "no such file" in found.set_aside["reason"][1]
        or "not there" in found.set_aside["reason"][1]
    )
    assert found.frame["id"].tolist() == [f"n/{at}.png" for at in (0, 1, 3, 4, 6, 7)]
    np.testing.assert_allclose(
        found.frame["brightness"], np.array([0, 1, 3, 4, 6, 7]) * 30 / 255, atol=1e-12
    )
