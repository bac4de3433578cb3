"""Hashes of images, and the cache of computed features: Parquet files by content and settings.

A cache is a folder of shelves, one for each representation with its settings; a shelf is a folder
of small Parquet files that are written whole and never changed, each named by the hash of its
bytes. Several runs may therefore use one cache at the same time, a killed run loses at most what it
had not written yet, and a file that is damaged is set aside and its values computed again. Deleting
the folder costs time, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, ImageError
from unskew.files.atomic import write_text, written_whole
from unskew.files.leftovers import remove_leftovers
from unskew.files.reading import check_regular, check_unpacked, unpacked_size
from unskew.records import Pool
from unskew.records.arrays import Ints
from unskew.records.pool import RawImage
from unskew.represent.base import Representation

if TYPE_CHECKING:
    import pyarrow as pa

# A file that was changed just now may be changed again without its time of change moving; it is
# read again next time.
_SETTLED_NS = 2_000_000_000


def hash_images(
    pool: Pool,
    *,
    cache: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    tolerance: float = 0.01,
    progress: bool | None = None,
) -> Pool:
    """Add the column ``content``: a hash of each image's file or array, shared by exact copies.

    Images are read and not decoded. With a ``cache``, a file whose path, size and times of change
    are as before is not read again. Images that cannot be read move to ``set_aside``. The
    parameters are those of `represent_images`, which can add the column in the same pass over the
    images.
    """
    from unskew.represent.pool_features import run_pools

    (hashed,) = run_pools(
        (pool,),
        (),
        cache=cache,
        jobs=jobs,
        tolerance=tolerance,
        progress=progress,
        content=True,
        label="Reading images",
    )
    return hashed


def hash_image(raw: RawImage) -> bytes:
    """Hash the bytes of a file, or the type, shape and numbers of an array.

    By BLAKE2b, as 32 hexadecimal letters.
    """
    if isinstance(raw, np.ndarray):
        if raw.dtype.hasobject:
            raise ImageError(f"pixels of type {raw.dtype} are not numbers that an image can have")
        digest = hashlib.blake2b(f"array {raw.dtype.str} {raw.shape} ".encode(), digest_size=16)
        digest.update(raw.tobytes())
        return digest.hexdigest().encode()
    return hashlib.blake2b(raw, digest_size=16).hexdigest().encode()


class FileStamp:
    """A file as it is now: a key that changes with its path, size or times of change.

    The time of its content can be set at will (archives and copies keep it), and uncompressed
    images are all of one size; the time of its entry in the file system (ctime) and its number
    there cannot, so that files which swapped their names differ.
    """

    def __init__(self, file: str) -> None:
        status = os.stat(file)
        self.size = status.st_size
        self.settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        text = "\0".join([os.path.abspath(file), *map(str, facts)])
        digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16)
        self.key = digest.hexdigest().encode()

    def holds(self, raw: RawImage) -> bool:
        """Tell whether this image is the whole file, not one of many in a container."""
        return not isinstance(raw, np.ndarray) and len(raw) == self.size


_LOG = logging.getLogger(__name__)
# Part of every key: raised when decoding itself gives other pixels.
DECODING_VERSION = 2
# Raised when the files of a shelf get another form.
_PARTS_VERSION = 2
# Keys are hashes in hexadecimal: 16 bytes as 32 letters.
KEY_DTYPE = np.dtype("S32")
Keys = npt.NDArray[np.bytes_]
_ROWS_AT_ONCE = 4096


class Shelf:
    """Rows of values, each under its key, in ``folder``; ``text``: positions of text."""

    def __init__(self, folder: Path, settings: dict[str, Any], text: tuple[int, ...] = ()) -> None:
        self.folder, self.text = folder, text
        if folder.is_symlink():  # a stranger's: files would be written where it leads
            raise DataError(
                f"{str(folder)!r} is a link, which unskew does not leave in a cache. Delete it.",
                path=str(folder),
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder, ".part-")
            if not (folder / "settings.json").exists():
                write_text(
                    folder / "settings.json",
                    json.dumps(settings, indent=1, sort_keys=True, default=str) + "\n",
                )
        except OSError as error:
            raise DataError(
                f"the cache {str(folder.parent)!r} cannot be used ({error.strerror or error}). "
                "Give a folder that can be written, or none.",
                path=str(folder.parent),
            ) from error

    def keys(self) -> Keys:
        """Return all keys, sorted."""
        parts = [_keys_of(table) for table in self._tables()]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=KEY_DTYPE)

    def add(self, key_n: Keys, values: npt.NDArray[Any]) -> None:
        """Write rows of values (n, d) under their keys, into a file of their own."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {
            "key": pa.array(key_n.tolist(), type=pa.binary(KEY_DTYPE.itemsize))
        }
        if values.dtype == object:
            for at in range(values.shape[1]):
                columns[f"value_{at}"] = pa.array(
                    list(values[:, at]), type=pa.string() if at in self.text else pa.float64()
                )
        else:
            columns["value"] = pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(values).ravel()), values.shape[1]
            )
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table(columns), sink, row_group_size=_ROWS_AT_ONCE, write_page_checksum=True
        )
        data = sink.getvalue()
        with written_whole(self.folder / f"part-{_hash_bytes(data)}.parquet") as unfinished:
            unfinished.write_bytes(data)

    def find(self, wanted_n: Keys) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
        """Yield positions in ``wanted_n`` and their rows of values, a block at a time.

        Keys in ``wanted_n`` may repeat.
        """
        order = np.argsort(wanted_n, kind="stable")
        ordered = wanted_n[order]
        for table in self._tables(whole=True):
            key = _keys_of(table)
            first, last = (
                np.searchsorted(ordered, key, side="left"),
                np.searchsorted(ordered, key, side="right"),
            )
            count = last - first
            if count.any():
                # Every row of the table as often as it is wanted, with the positions in `ordered`.
                row = np.repeat(np.arange(len(key)), count)
                position = (
                    np.arange(count.sum())
                    - np.repeat(np.cumsum(count) - count, count)
                    + np.repeat(first, count)
                )
                yield order[position], self._values_of(table)[row]

    def _values_of(self, table: pa.Table) -> npt.NDArray[Any]:
        if "value" in table.column_names:
            lists = table.column("value").combine_chunks()
            flat: npt.NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False)
            return flat.reshape(len(table), -1)
        values = np.empty((len(table), table.num_columns - 1), dtype=object)
        for at in range(values.shape[1]):
            values[:, at] = table.column(f"value_{at}").to_pylist()
        return values

    def _tables(self, whole: bool = False) -> Iterator[pa.Table]:
        """Yield the keys of all files; or whole rows, of files whose bytes have the right hash.

        Parquet's checksums are of pages, not of what describes them: enough to see which keys there
        are without reading the values, not to use those.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in sorted(self.folder.glob("part-*.parquet")):
            try:
                packed = check_regular(path)
                source = pa.BufferReader(_read_hashed(path)) if whole else path
                with pq.ParquetFile(source, page_checksum_verification=True) as file:
                    check_unpacked(unpacked_size(file.metadata), path, packed)
                    tables = [
                        pa.Table.from_batches([batch])
                        for batch in file.iter_batches(
                            _ROWS_AT_ONCE, columns=None if whole else ["key"]
                        )
                    ]
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                _set_aside(path, error)
                continue
            yield from tables


def _hash_bytes(data: bytes | pa.Buffer) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read_hashed(path: Path) -> bytes:
    """Read a file of the cache, whose name contains the hash of its bytes."""
    data = path.read_bytes()
    if path.stem != f"part-{_hash_bytes(data)}":
        raise ValueError("its bytes have changed")
    return data


def open_shelf(cache: str | os.PathLike[str], representation: Representation) -> Shelf:
    """Open the shelf of a representation with its settings and version."""
    settings = {
        **representation.to_dict(),
        "needs": representation.needs,
        "side": representation.side,
        "decoding": DECODING_VERSION,
    }
    text = tuple(representation.columns.index(column) for column in representation.text_columns)
    return _open(cache, representation.name, settings, text)


def open_file_shelf(cache: str | os.PathLike[str]) -> Shelf:
    """Open the shelf of files: hashes of contents by hashes of path, size and times of change."""
    return _open(cache, "files", {"name": "files", "version": 2}, text=(0,))


def _open(
    cache: str | os.PathLike[str], name: str, settings: dict[str, Any], text: tuple[int, ...]
) -> Shelf:
    settings = {**settings, "parts": _PARTS_VERSION}
    plain = json.dumps(settings, sort_keys=True, default=str)
    key = hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
    return Shelf(
        Path(cache) / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:60]}-{key}", settings, text
    )


def _keys_of(table: pa.Table) -> Keys:
    import pyarrow as pa

    # One buffer of keys without gaps; a copy, because the table goes.
    keys = (
        pa.concat_arrays(table.column("key").chunks)
        if table.num_rows
        else pa.array([], type=pa.binary(KEY_DTYPE.itemsize))
    )
    if keys.type != pa.binary(KEY_DTYPE.itemsize):
        raise ValueError(f"keys are {keys.type}")
    return np.frombuffer(
        keys.buffers()[1] or b"",
        dtype=KEY_DTYPE,
        count=len(keys),
        offset=keys.offset * KEY_DTYPE.itemsize,
    ).copy()


def _set_aside(path: Path, error: Exception) -> None:
    _LOG.warning(
        "%s of the cache is damaged (%s); it is set aside, and its values are computed again.",
        path,
        error,
    )
    # Another run may be faster, or the folder read-only; the file is passed over either way.
    with suppress(OSError):
        path.rename(path.with_suffix(".corrupt"))
