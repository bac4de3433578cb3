"""Files as they are read: regular ones only, unpacked within limits, damage as a `DataError`.

One reader for each format. Whatever a library raises on a damaged file becomes a `DataError` that
names the file: what it raises is not documented, and a mutated file finds all of it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, UnskewError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# A small file may unpack to this, and a large one to so many times its size, within half the
# memory; the variable sets the limit in bytes.
_SMALL, _TIMES = 2**30, 1000
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


def check_unpacked(size: int, path: Path_, packed: int) -> None:
    """Refuse what would unpack to more than the limit."""
    limit = unpacked_limit(packed)
    if size > limit:
        raise DataError(
            f"{os.fspath(path)!r} ({packed:,} bytes) would unpack to {size:,} bytes or more, and "
            f"the limit is {limit:,}. If that is right, set the environment variable "
            f"{LIMIT_VARIABLE}={size}.",
            path=os.fspath(path),
            count=size,
            limit=limit,
        )


class UnpackedStream(io.RawIOBase):
    """What a packed stream unpacks to, with an error where that is beyond the limit."""

    def __init__(self, stream: gzip.GzipFile, path: Path_) -> None:
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
        check_regular(path)
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
    """Read a Parquet file as an Arrow table."""
    import pyarrow.parquet as pq

    with damage_named(path, "Parquet"):
        packed = check_regular(path)
        with pq.ParquetFile(path) as file:
            check_unpacked(_unpacked_size(file), path, packed)
            table = file.read(columns=None if columns is None else list(columns))
            table.validate(full=True)  # offsets beyond a buffer would be read
            return table


def _unpacked_size(file: Any) -> int:
    """Return the least size of a table in memory: of its pages, and of 8 bytes for each value."""
    metadata = file.metadata
    pages = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    return int(max(pages, 8 * metadata.num_rows * metadata.num_columns))


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
        check_regular(path)
        frame: pd.DataFrame = pd.read_csv(path, compression=None, **options)
        return frame


@contextmanager
def opened_zip(path: Path_) -> Iterator[zipfile.ZipFile]:
    """Open a zip file, such as ``.npz``, whose members together unpack to no more than allowed."""
    packed = check_regular(path)
    with zipfile.ZipFile(path) as archive:
        check_unpacked(sum(member.file_size for member in archive.infolist()), path, packed)
        yield archive
