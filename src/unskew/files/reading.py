"""Files as they are read: regular ones only, unpacked within limits, damage as a `DataError`.

One reader for each format. Whatever a library raises on a damaged file becomes a `DataError` that
names the file: what it raises is not documented, and a mutated file finds all of it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, UnskewError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# A small file may unpack to this, and a large one to so many times its size, within half the
# memory; the variable sets the limit in bytes.
_SMALL, _TIMES = 2**30, 1000
# Rows of a Parquet file that are unpacked before their size is looked at.
_ROWS_AT_ONCE, _FEW_ROWS = 2**16, 256
LIMIT_VARIABLE = "UNSKEW_MAX_UNPACKED"
_KINDS = {
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISDIR: "a folder",
}
Path_ = str | os.PathLike[str]


def check_regular(path: Path_, kind: type[UnskewError] = DataError) -> int:
    """Return the size of a regular file; refuse a pipe or device, which may never end.

    It is checked before the file is opened: opening a pipe waits for a writer.
    """
    status = os.stat(path)
    for is_one, words in _KINDS.items():
        if is_one(status.st_mode):
            raise kind(
                f"{os.fspath(path)!r} is {words}, not a file. Save its content as a file, and name "
                "that.",
                path=os.fspath(path),
            )
    return status.st_size


def unpacked_limit(packed: int) -> int:
    """Return how many bytes a file of ``packed`` bytes may unpack to."""
    written = os.environ.get(LIMIT_VARIABLE, "")
    if written:
        try:
            limit = int(float(written))
        except (ValueError, OverflowError):
            limit = 0
        if limit < 1:
            raise ConfigError(
                f"{LIMIT_VARIABLE} is a number of bytes, such as 8e9; got {written!r}.",
                option=LIMIT_VARIABLE,
                value=written,
            )
        return limit
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_SMALL, min(memory // 2, _TIMES * packed))


def check_whole(path: Path_, kind: type[UnskewError] = DataError) -> int:
    """Return the size of a regular file that is read at once, and fits into memory.

    A file with holes claims terabytes, and has none of them.
    """
    size = check_regular(path, kind)
    check_unpacked(size, path, size)
    return size


def check_unpacked(size: int, path: Path_, packed: int) -> None:
    """Refuse what would unpack to more than the limit."""
    limit = unpacked_limit(packed)
    if size > limit:
        raise DataError(
            f"{os.fspath(path)!r} ({packed:,} bytes) would take {size:,} bytes of memory or more, "
            f"and the limit is {limit:,}. If that is right, set the environment variable "
            f"{LIMIT_VARIABLE}={size}.",
            path=os.fspath(path),
            count=size,
            limit=limit,
        )


class UnpackedStream(io.RawIOBase):
    """What a packed stream unpacks to, with an error where that is beyond the limit."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, path: Path_) -> None:
        self._stream, self._path = stream, path
        self._packed, self._read = os.stat(path).st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        self._read += len(content)
        check_unpacked(self._read, self._path, self._packed)
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextmanager
def damage_named(path: Path_, what: str, *, silent: bool = True) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into a `DataError` that names the file.

    ``silent`` keeps warnings about the damage away. It is not for threads: what one of them does to
    the filters of warnings, another may undo or make permanent.
    """
    try:
        with warnings.catch_warnings(action="ignore") if silent else nullcontext():
            yield
    except UnskewError:
        raise
    except OSError as error:
        raise DataError(
            f"{os.fspath(path)!r} cannot be read as {what}: {error.strerror or error}.",
            path=os.fspath(path),
        ) from error
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:200]
        raise DataError(
            f"{os.fspath(path)!r} cannot be read as {what} ({type(error).__name__}: {first}). Was "
            "it cut off, damaged, or written by something else?",
            path=os.fspath(path),
        ) from error


def read_text(path: Path_) -> str:
    """Read UTF-8 text."""
    with damage_named(path, "UTF-8 text"):
        check_whole(path)
        return Path(path).read_text(encoding="utf-8")


def read_json(path: Path_) -> Any:
    """Read a JSON document."""
    with damage_named(path, "JSON"):
        return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """Parse JSON; an escape that is half a character, which no file can hold, is a ValueError."""
    document = json.loads(text)
    if "\\u" in text:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    return document


def parquet_columns(path: Path_) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    import pyarrow.parquet as pq

    with damage_named(path, "Parquet"):
        check_regular(path)
        return list(pq.read_schema(path).names)


def read_arrow(path: Path_, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file as an Arrow table.

    What its footer claims is checked before anything is unpacked, and what was unpacked after every
    batch, because a footer may lie.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with damage_named(path, "Parquet"):
        packed = check_regular(path)
        with pq.ParquetFile(path) as file:
            check_unpacked(unpacked_size(file.metadata), path, packed)
            schema, metadata = file.schema_arrow, file.metadata
        named = None if columns is None else list(columns)
        texts, rows = _long_texts(path, metadata, schema, named, unpacked_limit(packed))
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            batches, size = [], 0
            for batch in file.iter_batches(rows, columns=named):
                size += sum(map(_dense_size, batch.columns))
                check_unpacked(size, path, packed)
                batches.append(batch)
        table = pa.Table.from_batches(batches) if batches else pq.read_table(path, columns=named)
        for name in texts:
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(at).cast(schema.field(name).type))
        table.validate(full=True)  # offsets beyond a buffer would be read
        return table


def unpacked_size(metadata: Any) -> int:
    """Return the least size of a table in memory, by the footer of its Parquet file.

    That of its pages, and of 8 bytes for each value, or of the length that the schema gives.
    """
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    width = sum(max(8, column.length or 0) for column in columns)
    return int(max(sum(group.total_byte_size for group in groups), metadata.num_rows * width))


def _long_texts(
    path: Path_, metadata: Any, schema: Any, named: Sequence[str] | None, limit: int
) -> tuple[list[str], int]:
    """Find columns of texts that repeat a long one so often that the limit may be exceeded.

    A text of a megabyte takes a few bytes of the file for each of a million rows. These columns are
    read as dictionaries, whose size in full is known before it is needed. Also return the rows of a
    batch: few where texts are within lists, or packed in a way that hides their length. What the
    footer says of single columns is not looked at: where it is damaged, Arrow ends the process.
    """
    import pyarrow as pa

    fields = [field for field in schema if named is None or field.name in named]
    texts = [field.name for field in fields if _is_text(field.type)]
    is_nested = any(pa.types.is_nested(field.type) for field in fields)
    rows, size_of = _ROWS_AT_ONCE, dict.fromkeys(texts, 0)
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        if is_nested and group.num_rows * group.total_byte_size > limit:
            rows = _FEW_ROWS
        for name in texts:
            longest = _longest_in_dictionary(path, metadata, at, name)
            rows = _FEW_ROWS if longest is None else rows
            size_of[name] += group.num_rows * (longest or 0)
    return [name for name, size in size_of.items() if size > limit], rows


def check_long_texts(
    path: Path_, names: Sequence[str], groups: Sequence[int], part: float = 1.0
) -> None:
    """Refuse row groups whose texts, written out, would take more than the limit.

    ``part``: of their rows, how many are to be read at once.
    """
    import pyarrow.parquet as pq

    packed = check_regular(path)
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        rows = [file.metadata.row_group(at).num_rows for at in groups]
    texts = [name for name in names if name in schema.names and _is_text(schema.field(name).type)]
    for name in texts:
        longest = [_longest_in_dictionary(path, None, at, name) for at in groups]
        is_known = None not in longest
        most = sum(row * (one or 0) for row, one in zip(rows, longest, strict=True))
        if is_known and part * most <= unpacked_limit(packed):
            continue
        size = 0
        with pq.ParquetFile(path, read_dictionary=[name] if is_known else None) as file:
            at_once = _ROWS_AT_ONCE if is_known else _FEW_ROWS
            for batch in file.iter_batches(at_once, row_groups=list(groups), columns=[name]):
                size += _dense_size(batch.column(0))
                check_unpacked(int(part * size), path, packed)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string)
    )


def _longest_in_dictionary(path: Path_, metadata: Any, group: int, name: str) -> int | None:
    """Return the length of the longest text in the dictionary of a column, by reading one row.

    None where Arrow does not read the column as a dictionary (prefixes that texts share).
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=[name]) as file:
            for batch in file.iter_batches(1, row_groups=[group], columns=[name]):
                lengths = pc.binary_length(batch.column(0).dictionary)
                return int(pc.max(lengths).as_py() or 0)
    except (pa.ArrowException, OSError, AttributeError):
        return None
    return 0


def _dense_size(column: Any) -> int:
    """Return the bytes of a column; of a dictionary of texts, as if each were written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = getattr(column.type, "value_type", None)
    if not pa.types.is_dictionary(column.type) or not _is_text(kind):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return 8 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def read_parquet(path: Path_, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a Parquet file as a table; an index that pandas stored is the index again."""
    table = read_arrow(path, columns)
    with damage_named(path, "Parquet"):
        try:
            frame: pd.DataFrame = table.to_pandas()
        except Exception:
            # What pandas wrote about its index and types is damaged; the columns may not be.
            frame = table.replace_schema_metadata(None).to_pandas()
        return frame


def read_csv(path: Path_, **options: Any) -> pd.DataFrame:
    """Read a CSV file by pandas."""
    import pandas as pd

    with damage_named(path, "CSV"):
        check_whole(path)
        frame: pd.DataFrame = pd.read_csv(path, compression=None, **options)
        return frame


@contextmanager
def opened_tar(path: Path_) -> Iterator[tarfile.TarFile]:
    """Open a tar file, packed or not, to be read through once.

    Nothing is written, so that no name in it can touch the disk; headers count as content.
    """
    check_regular(path)
    with open(path, "rb") as file:
        start = file.read(6)
        file.seek(0)
        packers: dict[bytes, Callable[[Any], Any]] = {
            b"\x1f\x8b": gzip.open,
            b"BZh": bz2.open,
            b"\xfd7zXZ": lzma.open,
        }
        unpack = next((one for magic, one in packers.items() if start.startswith(magic)), None)
        content: Any = UnpackedStream(file if unpack is None else unpack(file), path)
        with tarfile.open(fileobj=content, mode="r|", bufsize=2**20) as archive:
            yield archive


@contextmanager
def opened_zip(path: Path_) -> Iterator[zipfile.ZipFile]:
    """Open a zip file, such as ``.npz``, whose members together unpack to no more than allowed."""
    packed = check_regular(path)
    with zipfile.ZipFile(path) as archive:
        check_unpacked(sum(member.file_size for member in archive.infolist()), path, packed)
        yield archive
