"""represent_images from end to end: columns, unusable images, several pools, jobs, order."""

import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from represent.picture_pools import GivenImages, encoded, pool_of, random_pixels, smooth_pixels
from unskew.errors import ConfigError, DataError, UnreadableError
from unskew.records import Pool
from unskew.represent.base import Needs, Representation
from unskew.represent.color import border_hsv, brightness, colourfulness, contrast, mean_hsv
from unskew.represent.content import hash_image, hash_images
from unskew.represent.pool_features import represent_images
from unskew.represent.texture import noise, sharpness

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


def test_bad_calls_are_errors_in_words(tmp_path: Path) -> None:
    pool = pool_of([random_pixels()])
    table = Pool(pool.frame)
    for call, error, words in (
        (lambda: represent_images(table, "brightness"), DataError, "table without images"),
        (
            lambda: represent_images(pool.with_columns({"brightness": 1.0}), "brightness"),
            DataError,
            "'brightness' already",
        ),
        (lambda: represent_images(pool, "brightness", tolerance=5), ConfigError, "tolerance"),
        (lambda: represent_images(pool, "brightness", jobs=0), ConfigError, "jobs"),
        (lambda: represent_images(pool, "brightness", max_pixels=0), ConfigError, "max_pixels"),
        (lambda: represent_images([], "brightness"), DataError, "no pool"),
        (lambda: represent_images(pool, "britness"), ConfigError, "Did you mean 'brightness'"),
    ):
        with pytest.raises(error, match=words):
            call()


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


@dataclass(frozen=True)
class Slow(Representation):
    name: ClassVar[str] = "slow"
    batch_size: ClassVar[int | None] = 20

    def compute(self, batch: np.ndarray) -> np.ndarray:
        time.sleep(0.005 * len(batch))
        return batch.mean(axis=(1, 2, 3))[:, None]


_INTERRUPTED = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without it
sys.path[:0] = {path!r}
from represent.test_entry import Slow, _many
from unskew.represent.pool_features import represent_images
computed, compute = [], Slow.compute

def told(self, batch):
    computed.append(len(batch))
    if sum(computed) - len(batch) < 300 <= sum(computed):
        print("300 images are computed", flush=True)
    return compute(self, batch)

Slow.compute = told
try:
    represent_images(_many(), [Slow()], cache=sys.argv[1], jobs=2)
except KeyboardInterrupt:
    print("interrupted")
"""


def _many() -> Pool:
    return pool_of([random_pixels(4, 4, seed) for seed in range(2000)])


def test_ctrl_c_loses_nothing_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = str(Path(__file__).parents[1])
    code = _INTERRUPTED.format(path=[tests, *sys.path])
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "300 images are computed\n"
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert output == "interrupted\n"
    shelf = next(tmp_path.glob("slow-*"))
    kept = sum(len(pd.read_parquet(part)) for part in shelf.glob("part-*.parquet"))
    assert 200 < kept < 2000  # what is being computed when the signal comes may end after it
    computed = []
    monkeypatch.setattr(
        Slow,
        "compute",
        lambda self, batch: computed.append(len(batch)) or batch.mean(axis=(1, 2, 3))[:, None],
    )
    values = represent_images(_many(), [Slow()], cache=tmp_path).frame["slow"]
    assert sum(computed) == 2000 - kept
    np.testing.assert_allclose(values, [random_pixels(4, 4, seed).mean() for seed in range(2000)])


def test_threads_work_at_the_same_time_but_never_on_more_pixels_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unskew.represent.image_tasks._PIXELS_AT_ONCE", 1000)
    monkeypatch.setattr("unskew.represent.image_tasks._SMALL_PIXELS", 100)
    monkeypatch.setattr("unskew.represent.workers._ROWS_PER_TASK", 1)
    held, most, lock = [0], [0], threading.Lock()

    @dataclass(frozen=True)
    class Watch(Representation):
        name: ClassVar[str] = "watch"

        def prepare(self, pixels: np.ndarray) -> np.ndarray:
            with lock:
                held[0] += pixels.size // 3
                most[0] = max(most[0], held[0])
            time.sleep(0.005)
            with lock:
                held[0] -= pixels.size // 3
            return np.zeros(1)

        def compute(self, batch: np.ndarray) -> np.ndarray:
            return batch

    represent_images(
        pool_of([random_pixels(20, 20, seed) for seed in range(24)]), [Watch()], jobs=8
    )
    assert most[0] == 800
    # Larger than the limit: alone, and not for ever waiting.
    represent_images(pool_of([random_pixels(40, 40, seed) for seed in range(3)]), [Watch()], jobs=8)
    assert most[0] == 1600


def test_a_cache_that_cannot_be_written_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DataError, match=r"the cache .* cannot be used \(Permission denied\)"):
        represent_images(pool_of([random_pixels()]), "brightness", cache=tmp_path / "cache")


def test_a_cache_in_the_place_of_a_file_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="cache"):
        represent_images(pool_of([random_pixels()]), "brightness", cache=tmp_path / "cache")
