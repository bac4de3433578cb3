"""`FileBlock`: a reference to rows of a Parquet file that never travels with its data; its reader.

A block is named by file and row range, cut at row groups where these are no larger than a block
should be. Columns that several passes read are kept on the disk of whoever reads them, column by
column, in the file's own type, uncompressed (Arrow's file format, mapped into memory): the name of
such a file is a fingerprint of path, size and time of the part, the rows and the column, so that a
part that changed is never mistaken for what it was, and a checksum ends it. A disk without room
costs time, not the result.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.errors import DataError, first_few
from unskew.files.addresses import check_asking
from unskew.files.leftovers import remove_path, unfinished_path
from unskew.files.reading import check_long_texts, check_regular, check_unpacked, damage_named

# 2^20 rows are the most that Arrow writes into a row group by default.
BLOCK_ROWS = 1 << 20
# Bytes of the checksum at the end of a kept column.
_SUM = 4
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileBlock:
    """Rows ``start`` to ``stop`` of a Parquet file.

    Attributes
    ----------
    path : the file, or a URI such as s3://bucket/part-0.parquet.
    part : the number of the file among the parts.
    start, stop : the rows within the file.
    groups : the first row group that holds them, and the one after the last.
    offset : rows of the file before the first of these row groups.
    first : the number of the block's first row among the rows of all parts.
    stamp : size and time of the file when it was listed.
    """

    path: str
    part: int
    start: int
    stop: int
    groups: tuple[int, int]
    offset: int
    first: int
    stamp: str

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class PartFile:
    """What the footer of a part says: rows of each row group, names and types of its columns."""

    path: str
    stamp: str
    group_rows: tuple[int, ...]
    types: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> int:
        return sum(self.group_rows)


def inspect_part(path: str) -> PartFile:
    """Read the footer of a part; a `DataError` names a file that is missing or damaged."""
    stamp = _stamp(path)
    with damage_named(path, "Parquet", silent=False), open_part(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
        rows = tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
        types = tuple((field.name, _type_text(field.type)) for field in schema)
    return PartFile(path, stamp, rows, types)


def count_bytes(path: str, columns: Sequence[str]) -> int:
    """Return how many bytes these columns of a part take in its file."""
    with damage_named(path, "Parquet", silent=False), open_part(path) as file:
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        every = [group.column(at) for group in groups for at in range(group.num_columns)]
        wanted = set(columns)
        return sum(
            column.total_compressed_size
            for column in every
            if column.path_in_schema.split(".")[0] in wanted
        )


def read_schema(path: str) -> Any:
    """Read the names and Arrow types of the columns of a part."""
    with damage_named(path, "Parquet", silent=False), open_part(path) as file:
        return file.schema_arrow


def _type_text(arrow_type: Any) -> str:
    """Write a type; how texts are encoded, and how long they may be, makes no difference."""
    import pyarrow as pa

    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_large_string(arrow_type):
        return "string"
    return str(arrow_type)


def cut_blocks(parts: Sequence[PartFile], block_rows: int = BLOCK_ROWS) -> list[FileBlock]:
    """Cut parts into blocks of about ``block_rows`` rows, in order; an empty part has none."""
    blocks: list[FileBlock] = []
    first = 0
    for number, part in enumerate(parts):
        for groups, start, stop in _runs_of_groups(part.group_rows, block_rows):
            offset = start
            count = max(1, -(-(stop - start) // block_rows))
            for at in range(count):
                low = start + (stop - start) * at // count
                high = start + (stop - start) * (at + 1) // count
                blocks.append(
                    FileBlock(part.path, number, low, high, groups, offset, first + low, part.stamp)
                )
        first += part.rows
    return blocks


def _runs_of_groups(
    group_rows: Sequence[int], block_rows: int
) -> list[tuple[tuple[int, int], int, int]]:
    """List ((first group, one after the last), first row, one after the last row).

    Small row groups are joined; a large one stays alone, to be cut by rows.
    """
    runs: list[tuple[tuple[int, int], int, int]] = []
    begin, start, row = 0, 0, 0
    for at, count in enumerate(group_rows):
        if row > start and row + count - start > block_rows:
            runs.append(((begin, at), start, row))
            begin, start = at, row
        row += count
    if row > start:
        runs.append(((begin, len(group_rows)), start, row))
    return runs


def read_block(block: FileBlock, columns: Sequence[str], cache: str | None = None) -> Any:
    """Read columns of a block as an Arrow table; with ``cache``, keep them in that folder."""
    import pyarrow as pa

    if cache is None:
        return _read_part(block, columns)
    kept = {name: _read_kept(_kept_file(block, name, cache)) for name in columns}
    lacking = [name for name in columns if kept[name] is None]
    if lacking:
        table = _read_part(block, lacking)
        for name in lacking:
            kept[name] = table.column(name)
            _keep(table.select([name]), _kept_file(block, name, cache))
    return pa.table({name: kept[name] for name in columns})


def _read_part(block: FileBlock, columns: Sequence[str]) -> Any:
    if _stamp(block.path) != block.stamp:
        raise DataError(
            f"{block.path!r} changed while it was read (another size or time of change than at "
            "first). Start again when nobody writes it.",
            path=block.path,
        )
    low, high = block.start - block.offset, block.stop - block.offset
    if "://" not in block.path:
        _check_unpacked(block, tuple(columns))
    with damage_named(block.path, "Parquet", silent=False), open_part(block.path) as file:
        groups = list(range(*block.groups))
        held = sum(file.metadata.row_group(at).num_rows for at in groups)
        if held > 2 * len(block):
            table = _read_range(file, groups, list(columns), low, high)
        else:
            table = file.read_row_groups(groups, columns=list(columns), use_threads=False)
            table = table.slice(low, high - low)
        if table.num_rows != len(block):
            raise DataError(
                f"{block.path!r} has {table.num_rows} rows where its footer says {len(block)}.",
                path=block.path,
                count=table.num_rows,
                limit=len(block),
            )
        table.validate(full=True)  # offsets beyond a buffer would be read
        return table.replace_schema_metadata(None)


@functools.lru_cache(maxsize=1 << 14)
def _check_unpacked(block: FileBlock, columns: tuple[str, ...]) -> None:
    """Refuse, before its first pass, a block that would unpack to more than the limit."""
    path, groups = block.path, range(*block.groups)
    with damage_named(path, "Parquet", silent=False):
        with open_part(path) as file:
            held = [file.metadata.row_group(at) for at in groups]
        part = len(block) / max(1, sum(group.num_rows for group in held))
        size = sum(group.total_byte_size for group in held)
        check_unpacked(int(part * size), path, os.path.getsize(path))
        check_long_texts(path, columns, groups, part)


def _read_range(file: Any, groups: list[int], columns: list[str], low: int, high: int) -> Any:
    """Read some rows of a large row group without holding the others."""
    import pyarrow as pa

    pieces, at = [], 0
    for batch in file.iter_batches(
        batch_size=1 << 17, row_groups=groups, columns=columns, use_threads=False
    ):
        begin, end = max(low - at, 0), min(high - at, batch.num_rows)
        if end > begin:
            pieces.append(batch.slice(begin, end - begin))
        at += batch.num_rows
        if at >= high:
            break
    return pa.Table.from_batches(pieces)


def open_part(path: str) -> Any:
    """Open a part, a file or a URI."""
    import pyarrow.parquet as pq

    if "://" not in path:
        return pq.ParquetFile(path)
    system, inner = remote_file(path)
    return pq.ParquetFile(system.open_input_file(inner), pre_buffer=True)


def remote_file(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI (s3://, gs://, file://) and the path within it."""
    from pyarrow import fs

    check_asking(uri)
    with damage_named(uri, "a file", silent=False):
        system, inner = fs.FileSystem.from_uri(uri)
    return system, inner


def _stamp(path: str) -> str:
    if "://" not in path:
        try:
            check_regular(path)
            status = os.stat(path)
        except OSError as error:
            raise _not_there(path, error.strerror or str(error)) from error
        return f"{status.st_size}-{status.st_mtime_ns}"
    from pyarrow import fs

    system, inner = remote_file(path)
    with damage_named(path, "Parquet", silent=False):
        info = system.get_file_info(inner)
    if info.type != fs.FileType.File:
        raise _not_there(path, "no such file")
    return f"{info.size}-{info.mtime_ns}"


def _not_there(path: str, reason: str) -> DataError:
    return DataError(f"the part {path!r} cannot be read: {reason}.", path=path)


def _kept_file(block: FileBlock, column: str, cache: str) -> Path:
    words = (block.path, block.stamp, str(block.start), str(block.stop), column)
    name = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
    return Path(cache) / name[:2] / f"{name}.arrow"


def _read_kept(file: Path) -> Any:
    """Return the kept column, mapped into memory; None where there is none, or a damaged one."""
    import pyarrow as pa

    if not file.exists():
        return None
    try:
        status = os.stat(file)
        if _is_whole(str(file), status.st_size, status.st_mtime_ns):
            content = pa.memory_map(str(file)).read_buffer().slice(0, status.st_size - _SUM)
            return pa.ipc.open_file(content).read_all().column(0)
    except (pa.ArrowInvalid, OSError):
        pass
    _logger.warning("%s is damaged; its column is decoded again.", file)
    file.unlink(missing_ok=True)
    return None


@functools.lru_cache(maxsize=1 << 14)
def _is_whole(file: str, size: int, changed: int) -> bool:
    """Compare a file, once in each process, with the checksum at its end."""
    import pyarrow as pa

    kept = pa.memory_map(file).read_buffer()
    start = max(0, size - _SUM)
    return bool(_checksum(kept.slice(0, start)) == kept.slice(start).to_pybytes())


def _checksum(content: Any) -> bytes:
    return zlib.crc32(content).to_bytes(_SUM, "big")


def _keep(table: Any, file: Path) -> None:
    import pyarrow as pa

    beside = unfinished_path(file)
    if file.parent.is_symlink():  # a stranger's: nothing is written where it leads
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        table = table.combine_chunks()
        with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        checksum = _checksum(pa.memory_map(str(beside)).read_buffer())
        with open(beside, "ab") as stream:
            stream.write(checksum)
        beside.replace(file)
    except OSError as error:
        # A full disk makes every pass decode again; it changes no number.
        remove_path(beside)
        _logger.warning("a decoded column is not kept in %s: %s", file.parent.parent, error)


def filled_part(parts: Sequence[PartFile]) -> PartFile:
    """Return the first part that has rows; the first if none has."""
    return next((part for part in parts if part.rows), parts[0])


def check_same_columns(parts: Sequence[PartFile]) -> None:
    """Refuse parts whose columns or types disagree; the message names the first that does.

    A part without rows may have any: writers do not know the types of columns without values.
    """
    first = filled_part(parts)
    own = dict(first.types)
    for part in parts:
        types = dict(part.types)
        if types == own or not part.rows:
            continue
        wrong = sorted(
            name for name in own.keys() | types.keys() if own.get(name) != types.get(name)
        )
        shown = [
            f"{name} ({types.get(name, 'none')}, not {own.get(name, 'none')})" for name in wrong
        ]
        raise DataError(
            f"the part {part.path!r} has other columns than {first.path!r}: {first_few(shown)}. "
            "Write all parts with the same names and types.",
            path=part.path,
            columns=wrong,
        )
