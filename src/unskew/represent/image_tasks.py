"""The task of one thread or process: read images, hash, decode, and compute what is not known."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, ImageError, UnskewError
from unskew.records.pool import Images, RawImage
from unskew.represent.base import Header, Representation
from unskew.represent.decode import Picture, reasons
from unskew.represent.feature_cache import FileStamp, Keys, hash_image

# A batch this large stays in the processor's cache, so that large images go one by one and small
# ones by the hundred.
_BATCH_BYTES = 262_144
_HEADERS_AT_ONCE = 1024
# Images decoded at the same time, in all threads and processes together; a pixel takes 4 bytes in
# Pillow and 3 as an array.
_PIXELS_AT_ONCE = 40_000_000
# Small ones need not wait.
_SMALL_PIXELS = 250_000


@dataclass
class TaskResult:
    """Results of some rows: hashes of images and files, values by representation, and failures."""

    content: dict[int, bytes] = field(default_factory=dict)
    stamp: dict[bytes, bytes] = field(default_factory=dict)
    values: list[tuple[int, list[int], npt.NDArray[Any]]] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    n_rows: int = 0

    def join_values(self) -> None:
        """Join the values of each representation: many small arrays are slow to pass on."""
        parts: dict[int, tuple[list[int], list[npt.NDArray[Any]]]] = defaultdict(lambda: ([], []))
        for number, rows, values in self.values:
            parts[number][0].extend(rows)
            parts[number][1].append(values)
        self.values = [
            (number, rows, np.concatenate(values)) for number, (rows, values) in parts.items()
        ]


@dataclass(frozen=True)
class KnownContent:
    """What is known before the work begins, as sorted arrays.

    Attributes
    ----------
    stamp, content : keys of files as they were, and the content they had then.
    complete : contents for which every representation is known.
    keys : contents for which each is.
    """

    stamp: Keys
    content: Keys
    complete: Keys
    keys: tuple[Keys, ...]

    def content_of(self, stamp: bytes) -> bytes | None:
        """Return the content that the file of this stamp had, None if it is not known."""
        at = int(np.searchsorted(self.stamp, stamp))
        return bytes(self.content[at]) if at < len(self.stamp) and self.stamp[at] == stamp else None

    def missing(self, content: bytes) -> list[int]:
        """List the numbers of the representations that are not known for this content."""
        if _holds(self.complete, content):
            return []
        return [number for number, keys in enumerate(self.keys) if not _holds(keys, content)]


@dataclass(frozen=True, eq=False)
class Group:
    """Representations, by number, that receive the same input from an image."""

    numbers: tuple[int, ...]
    first: Representation


class Worker:
    """Settings of a run; several threads may call `work`.

    ``known`` None: nothing is remembered, so nothing is hashed.
    """

    def __init__(
        self,
        images: Images,
        representations: Sequence[Representation],
        known: KnownContent | None,
        max_pixels: int | None,
        pixels_at_once: int | None = None,
        lock_file: str | None = None,
    ) -> None:
        self.images, self.representations, self.known, self.max_pixels = (
            images,
            representations,
            known,
            max_pixels,
        )
        self.pixels_at_once = pixels_at_once or _PIXELS_AT_ONCE
        self.stop = threading.Event()
        self._budget = _PixelBudget(self.pixels_at_once, lock_file)
        self.lock_file = lock_file
        self._alone = threading.Lock()
        self._groups: dict[tuple[int, ...], list[Group]] = {}

    def shared_among(self, processes: int, lock_file: str | None = None) -> Worker:
        """Return the same for each of so many processes, which together hold as many pixels.

        An image that exceeds the share of its process locks ``lock_file``: there is one at a time,
        in all of them.
        """
        self._budget.lock_file = lock_file
        return Worker(
            self.images,
            self.representations,
            self.known,
            self.max_pixels,
            max(1, self.pixels_at_once // processes),
            lock_file,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks stay behind.
        return Worker, (
            self.images,
            self.representations,
            self.known,
            self.max_pixels,
            self.pixels_at_once,
            self.lock_file,
        )

    def work(self, rows: Sequence[int]) -> TaskResult:
        """Compute everything about these rows; fewer when `stop` is set meanwhile."""
        result, batches = TaskResult(), _Batches(self)
        for row in rows:
            if self.stop.is_set():
                break
            try:
                self._one(row, result, batches)
            except ImageError as error:
                result.failed[row] = str(error)
            result.n_rows += 1
        batches.flush(result)
        result.join_values()
        return result

    def _one(self, row: int, result: TaskResult, batches: _Batches) -> None:
        missing = list(range(len(self.representations)))
        stamp = None
        if self.known is not None:
            file = self.images.place(row)
            with _file_reasons():
                stamp = FileStamp(file) if file is not None else None
            content = None if stamp is None else self.known.content_of(stamp.key)
            if content is not None:
                result.content[row], missing = content, self.known.missing(content)
                if not missing:
                    return
        with _file_reasons():
            raw = self.images.read(row)
        if self.known is not None:
            result.content[row] = hash_image(raw)
            if stamp is not None and stamp.settled and stamp.holds(raw):
                result.stamp[stamp.key] = result.content[row]
            missing = self.known.missing(result.content[row])
        if missing:
            self._represent(row, raw, missing, result, batches)

    def _represent(
        self, row: int, raw: RawImage, missing: list[int], result: TaskResult, batches: _Batches
    ) -> None:
        with reasons():
            picture, groups = Picture(raw, self.max_pixels), self._grouped(tuple(missing))
            with (
                self._budget.hold(picture.pixels_held)
                if picture.n_pixels > _SMALL_PIXELS
                else nullcontext()
            ):
                # First everything that may fail, then what is kept.
                items = [self._item(group.first, picture) for group in groups]
                for group, item in zip(groups, items, strict=True):
                    batches.put(group, row, item, result)

    def _grouped(self, missing: tuple[int, ...]) -> list[Group]:
        """Group the representations that receive the same input: they share their batches."""
        if missing not in self._groups:
            shared: dict[Any, list[int]] = defaultdict(list)
            for number in missing:
                one = self.representations[number]
                alike = type(one).prepare is Representation.prepare and one.batch_size is None
                shared[(one.needs, one.side) if alike else number].append(number)
            groups = [
                Group(tuple(numbers), self.representations[numbers[0]])
                for numbers in shared.values()
            ]
            # The whole image last: what the decoder holds is given up for it.
            self._groups[missing] = sorted(groups, key=lambda group: group.first.needs == "pixels")
        return self._groups[missing]

    def _item(self, representation: Representation, picture: Picture) -> Header | npt.NDArray[Any]:
        if representation.needs == "header":
            return picture.header
        pixels = (
            picture.pixels_of(representation.enough_side)
            if representation.needs == "pixels"
            else picture.reduced(representation.side)
        )
        try:
            return representation.prepare(pixels)
        except Exception as error:
            raise _failure(representation, error) from error

    def compute(self, representation: Representation, batch: Any) -> npt.NDArray[Any]:
        """Compute one row of values for each image of the batch, checked."""
        try:
            with self._alone if representation.one_at_a_time else nullcontext():
                values = np.asarray(representation.compute(batch))
        except Exception as error:
            raise _failure(representation, error) from error
        if values.ndim != 2 or len(values) != len(batch):
            raise DataError(
                f"{representation.name} must give one row of values for each image, ({len(batch)}, "
                f"d); got shape {values.shape}.",
                value=list(values.shape),
            )
        return values


class _Batches:
    """Images that wait for others of the same shape, for each group of representations."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._waiting: dict[tuple[Group, Any], tuple[list[int], list[Any]]] = defaultdict(
            lambda: ([], [])
        )

    def put(self, group: Group, row: int, item: Any, result: TaskResult) -> None:
        header = group.first.needs == "header"
        key = (group, None if header else (item.shape, item.dtype))
        rows, items = self._waiting[key]
        rows.append(row)
        items.append(item)
        limit = group.first.batch_size or (
            _HEADERS_AT_ONCE if header else _BATCH_BYTES // max(1, item.nbytes)
        )
        if len(rows) >= limit:
            self._compute(key, result)

    def flush(self, result: TaskResult) -> None:
        for key in list(self._waiting):
            self._compute(key, result)

    def _compute(self, key: tuple[Group, Any], result: TaskResult) -> None:
        rows, items = self._waiting.pop(key)
        group = key[0]
        batch = (
            items
            if group.first.needs == "header"
            else items[0][None]
            if len(items) == 1
            else np.stack(items)
        )
        for number in group.numbers:
            result.values.append(
                (number, rows, self.worker.compute(self.worker.representations[number], batch))
            )


class _PixelBudget:
    """Makes large images wait for one another, so that memory stays bounded."""

    def __init__(self, limit: int, lock_file: str | None = None) -> None:
        self._limit, self._used, self._changed = limit, 0, threading.Condition()
        self.lock_file = lock_file

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        # One image may exceed the limit, alone, and alone among all processes.
        alone = locked(self.lock_file) if amount > self._limit else nullcontext()
        amount = min(amount, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._used + amount <= self._limit)
            self._used += amount
        try:
            with alone:
                yield
        finally:
            with self._changed:
                self._used -= amount
                self._changed.notify_all()


@contextmanager
def locked(file: str | None) -> Iterator[None]:
    """Hold a lock that all processes see, by a file; where the system has none, do nothing."""
    try:
        import fcntl
    except ImportError:  # Windows
        file = None
    if file is None:
        yield
        return
    with open(file, "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def _file_reasons() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ImageError("the file is not there (any more)") from error
    except PermissionError as error:
        raise ImageError("there is no permission to read the file") from error
    except OSError as error:
        raise ImageError(f"the file cannot be read ({error.strerror or error})") from error


def _failure(representation: Representation, error: Exception) -> UnskewError:
    if isinstance(error, UnskewError) and not isinstance(error, ImageError):
        return error
    name = representation.to_dict().get("name", representation.name)
    return DataError(
        f"the representation {name} failed: {type(error).__name__}: {error}", value=str(name)
    )


def _holds(keys: Keys, key: bytes) -> bool:
    at = int(np.searchsorted(keys, key))
    return at < len(keys) and bytes(keys[at]) == key
