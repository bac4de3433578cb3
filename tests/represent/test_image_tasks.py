"""The task of one thread: batches, what is known already, failures, and the bound on pixels."""

import pickle
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from raising import refused
from represent.picture_pools import GivenImages, encoded, pool_of, random_pixels
from unskew.errors import ConfigError, DataError
from unskew.represent.base import Representation
from unskew.represent.feature_cache import hash_image
from unskew.represent.image_tasks import KnownContent, TaskResult, Worker
from unskew.represent.pool_features import represent_images
from unskew.represent.user_functions import read_representations


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


@dataclass(frozen=True)
class Mean(Representation):
    """The mean of the pixels; notes the sizes of its batches."""

    name: ClassVar[str] = "mean"
    batch_size: ClassVar[int | None] = 3
    batches: ClassVar[list[int]] = []

    def compute(self, batch: np.ndarray) -> np.ndarray:
        self.batches.append(len(batch))
        return batch.mean(axis=(1, 2, 3))[:, None]


def _values(result: TaskResult, number: int = 0) -> dict[int, float]:
    return {
        row: float(value[0])
        for found, rows, values in result.values
        if found == number
        for row, value in zip(rows, values, strict=True)
    }


def test_images_of_one_shape_share_batches_and_each_gets_its_own_value() -> None:
    Mean.batches.clear()
    raw = [random_pixels(4, 4 + (at % 2), at) for at in range(9)]
    worker = Worker(GivenImages(raw), [Mean()], None, None)
    result = worker.work(range(1, 9))
    assert result.n_rows == 8
    # Four of each shape, three at a time.
    assert sorted(Mean.batches) == [1, 1, 3, 3]
    assert len(result.values) == 1
    assert _values(result) == {row: pytest.approx(raw[row].mean()) for row in range(1, 9)}
    assert not result.failed
    assert not result.content


def test_an_image_that_cannot_be_read_fails_alone() -> None:
    raw = [encoded(random_pixels(4, 4)), b"no image", random_pixels(4, 4, 1)]
    result = Worker(GivenImages(raw), [Mean()], None, None).work([0, 1, 2])
    assert set(result.failed) == {1}
    assert set(_values(result)) == {0, 2}
    assert result.n_rows == 3


def test_too_many_pixels_for_one_image_are_a_failure() -> None:
    result = Worker(GivenImages([encoded(random_pixels(9, 9))]), [Mean()], None, 80).work([0])
    assert set(result.failed) == {0}
    result = Worker(GivenImages([encoded(random_pixels(9, 9))]), [Mean()], None, 81).work([0])
    assert not result.failed


def test_what_is_known_is_not_computed_again() -> None:
    raw = [random_pixels(4, 4, at) for at in range(3)]
    content = [hash_image(one) for one in raw]

    def keys(*rows: int) -> Any:
        return np.sort(np.array([content[row] for row in rows], dtype="S32"))

    # Image 0: both are known; image 1: only the first; image 2: neither.
    known = KnownContent(keys(), keys(), keys(0), (keys(0, 1), keys(0)))
    assert [known.missing(one) for one in content] == [[], [1], [0, 1]]
    assert known.content_of(b"x" * 32) is None
    first, second = read_representations(["brightness", "contrast"])
    result = Worker(GivenImages(raw), [first, second], known, None).work([0, 1, 2])
    assert result.content == dict(enumerate(content))
    assert set(_values(result, 0)) == {2}
    assert set(_values(result, 1)) == {1, 2}


def test_the_content_of_a_file_is_found_by_its_stamp() -> None:
    stamp = np.array([b"a" * 32, b"c" * 32], dtype="S32")
    content = np.array([b"1" * 32, b"2" * 32], dtype="S32")
    none = np.empty(0, dtype="S32")
    known = KnownContent(stamp, content, none, (none,))
    assert known.content_of(b"a" * 32) == b"1" * 32
    assert known.content_of(b"c" * 32) == b"2" * 32
    for other in (b"b" * 32, b"d" * 32, b"0" * 32):
        assert known.content_of(other) is None


def test_a_task_ends_where_it_is_stopped() -> None:
    worker = Worker(GivenImages([random_pixels(4, 4)] * 5), [Mean()], None, None)
    worker.stop.set()
    assert worker.work(range(5)).n_rows == 0


def test_parts_of_one_representation_are_joined_in_their_order() -> None:
    result = TaskResult(
        values=[
            (1, [4], np.array([[1.0]])),
            (0, [4, 2], np.array([[2.0], [3.0]])),
            (1, [7, 5], np.array([[4.0], [5.0]])),
        ]
    )
    result.join_values()
    assert [(number, rows, values.tolist()) for number, rows, values in result.values] == [
        (1, [4, 7, 5], [[1.0], [4.0], [5.0]]),
        (0, [4, 2], [[2.0], [3.0]]),
    ]


def test_a_worker_survives_its_way_to_another_process() -> None:
    worker = Worker(GivenImages([]), read_representations(["size"]), None, 7, 1000)
    again = pickle.loads(pickle.dumps(worker.shared_among(3)))
    assert (again.max_pixels, again.pixels_at_once) == (7, 333)
    assert again.representations == worker.representations
    assert worker.shared_among(5000).pixels_at_once == 1


@pytest.mark.parametrize(
    ("compute", "kind", "facts"),
    [
        (lambda batch: np.zeros(len(batch)), DataError, {"value": [2]}),
        (lambda batch: np.zeros((3, 1)), DataError, {"value": [3, 1]}),
        (lambda batch: 1 / 0, DataError, {"value": "own"}),
        # An error in words is the user's to read.
        (
            lambda batch: (_ for _ in ()).throw(ConfigError("no", option="size")),
            ConfigError,
            {"option": "size"},
        ),
    ],
)
def test_a_representation_that_does_not_work_says_so(compute: Any, kind: Any, facts: Any) -> None:
    @dataclass(frozen=True)
    class Own(Representation):
        name: ClassVar[str] = "own"

        def compute(self, batch: np.ndarray) -> np.ndarray:
            return compute(batch)

    worker = Worker(GivenImages([]), [Own()], None, None)
    with refused(kind, **facts):
        worker.compute(Own(), np.zeros((2, 4, 4, 3), np.uint8))
