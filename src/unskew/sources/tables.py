"""Tables in files (CSV, TSV, JSONL, JSON records, Parquet), read without guessing.

Errors name the line.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.files.reading import (
    UnpackedStream,
    check_regular,
    check_unpacked,
    check_whole,
    parquet_columns,
    parse_json,
    read_parquet,
)
from unskew.sources.files import near_names

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# 007 is a code: as a number it would equal 7. So are more digits than a 64-bit integer can hold.
_CODE = re.compile(r"[+-]?(0\d|\d{19})")
# The widest tables, of embeddings, have a few thousand.
_MOST_COLUMNS = 50_000
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class LocatedTable:
    """A table, and the line (in Parquet, the row) of every image, ``line_n``, counted from 1."""

    frame: pd.DataFrame
    line_n: Sequence[int]
    unit: str = "line"


def read_table(
    file: str, user_path: str, *, text: tuple[str, ...] = (), delimiter: str | None = None
) -> LocatedTable:
    """Read the table in a file.

    In CSV an empty field is missing, and nothing else is: ``NA`` is a country. Columns of numbers
    become numbers.

    Parameters
    ----------
    file, user_path : the file, and its path as the user wrote it.
    text : columns that stay text even where they look like numbers.
    delimiter : of the fields of a CSV table.
    """
    kind = _kind(user_path)
    if not os.path.exists(file):
        raise ConfigError(
            f"the table {user_path!r} does not exist.{near_names(file)}", path=user_path
        )
    check_regular(file, ConfigError)
    if kind != ".parquet":
        check_whole(file)
    try:
        if kind == ".parquet":
            table = _read_parquet(file, user_path)
        elif kind in _DELIMITERS:
            table = _read_csv(file, user_path, delimiter or _DELIMITERS[kind], text)
        else:
            table = _read_json(file, user_path, kind)
    except UnicodeDecodeError as error:
        raise _not_utf8(file, user_path, error) from error
    except OSError as error:
        raise DataError(
            f"the table {user_path!r} cannot be read: {error.strerror or error}.", path=user_path
        ) from error
    if len(table.frame) == 0:
        raise DataError(
            f"the table {user_path!r} has no rows, so no images.", path=user_path, count=0
        )
    return table


def _kind(user_path: str) -> str:
    stem, extension = os.path.splitext(user_path.lower())
    kind = os.path.splitext(stem)[1] if extension == ".gz" else extension
    if kind in (".xls", ".xlsx", ".ods"):
        raise ConfigError(
            f"{user_path!r} is a spreadsheet; save it as CSV (UTF-8), and name that file.",
            path=user_path,
        )
    kind = {".ndjson": ".jsonl", ".pq": ".parquet"}.get(kind, kind)
    if kind not in (*_DELIMITERS, ".jsonl", ".json", ".parquet"):
        raise ConfigError(
            "a table of images is a .csv, .tsv, .jsonl, .json or .parquet file (.gz may follow); "
            f"got {user_path!r}.",
            path=user_path,
        )
    return kind


@contextmanager
def opened_table(file: str) -> Iterator[IO[str]]:
    """Open as UTF-8; a byte-order mark is not part of the first column's name."""
    with open(file, "rb") as raw:
        packed = file.lower().endswith(".gz")
        unpacked = UnpackedStream(gzip.GzipFile(fileobj=raw), file) if packed else raw
        try:
            # What unpacks comes in pieces of this size.
            binary = io.BufferedReader(unpacked, 2**16)
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as stream:
                yield stream
        except (EOFError, zlib.error) as error:
            raise DataError(
                f"{os.path.basename(file)!r} ends too early, or is damaged; it was not copied or "
                "downloaded completely.",
                path=file,
            ) from error


def _read_csv(file: str, user_path: str, delimiter: str, text: tuple[str, ...]) -> LocatedTable:
    import pandas as pd

    if len(delimiter) != 1 or delimiter in '\r\n\0"':
        raise wrong_option("delimiter is one character", delimiter=delimiter)
    with opened_table(file) as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        try:
            names = _header(next(reader, []), user_path, delimiter)
            rows, line_n = _rows(reader, len(names), user_path)
        except csv.Error as error:
            raise DataError(
                f"{user_path!r}, line {reader.line_num}: {error}. Is a quotation mark not closed?",
                path=user_path,
                line=reader.line_num,
            ) from error
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    data = {
        name: _typed(list(column), name in text)
        for name, column in zip(names, columns, strict=True)
        if name
    }
    if "" in names:
        logger.info("%s: %d columns without a name are left out", user_path, names.count(""))
    return LocatedTable(pd.DataFrame(data, index=range(len(rows))), line_n)


def _header(cells: list[str], user_path: str, delimiter: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise DataError(
            f"{user_path!r}, line 1: the names of the columns are missing; the line is empty.",
            path=user_path,
            line=1,
        )
    for other in (";", "\t", "|", ","):
        if len(names) == 1 and other in names[0]:
            raise DataError(
                f"{user_path!r}, line 1: the fields are separated by {other!r}, but {delimiter!r} "
                f"was expected: {names[0]!r}. Set delimiter = {json.dumps(other)}, or write the "
                f"table with {delimiter!r}.",
                path=user_path,
                line=1,
                option="delimiter",
                value=other,
            )
    check_width(len(names), user_path)
    _check_names(names, user_path, line=1)
    return names


def _check_names(names: Sequence[str], user_path: str, **facts: Any) -> None:
    twice = sorted(name for name, times in Counter(names).items() if name and times > 1)
    if twice:
        raise DataError(
            f"{user_path!r}: two columns have the same name, {first_few(twice)}. Rename or drop "
            "one of them.",
            path=user_path,
            columns=twice,
            **facts,
        )


def check_width(count: int, user_path: str) -> None:
    """Refuse a table of so many columns that looking at each takes minutes."""
    if count > _MOST_COLUMNS:
        raise DataError(
            f"the table {user_path!r} has {count:,} columns, more than {_MOST_COLUMNS:,}. Is it "
            "turned on its side? One row is one image.",
            path=user_path,
            count=count,
            limit=_MOST_COLUMNS,
        )


def _rows(reader: Any, width: int, user_path: str) -> tuple[list[list[str]], list[int]]:
    rows, line_n = list[list[str]](), list[int]()
    for row in reader:
        if not row:
            continue
        if len(row) != width:
            raise DataError(
                f"{user_path!r}, line {reader.line_num}: {len(row)} fields, but line 1 names "
                f"{width} columns: {first_few(row, 6)}. Put fields that hold the delimiter or a "
                "line break in quotation marks.",
                path=user_path,
                line=reader.line_num,
                count=len(row),
                limit=width,
            )
        rows.append(row)
        line_n.append(reader.line_num)
    return rows, line_n


def _typed(column: list[str], text: bool) -> Any:
    """Read text as numbers or truth values where every field is one; empty fields are missing."""
    import pandas as pd

    levels = set(column) - {""}
    kept = [field or None for field in column]
    if text or not levels:
        return kept
    if all(level.lower() in _TRUTH for level in levels):
        return [None if field is None else _TRUTH[field.lower()] for field in kept]
    if all(_NUMBER.fullmatch(level) and not _CODE.match(level) for level in levels):
        return pd.to_numeric(pd.Series(kept, dtype=object))
    return kept


def _read_json(file: str, user_path: str, kind: str) -> LocatedTable:
    import pandas as pd

    with opened_table(file) as stream:
        if kind == ".json":
            records, line_n = _load(stream.read(), user_path, 1), None
        else:
            lines = [(at, line) for at, line in enumerate(stream, 1) if line.strip()]
            records, line_n = (
                [_load(line.rstrip(), user_path, at) for at, line in lines],
                [at for at, _ in lines],
            )
    if not isinstance(records, list):
        raise DataError(
            f"{user_path!r} is a JSON {type(records).__name__} without images and annotations, so "
            "it is neither COCO nor a list of records.",
            path=user_path,
        )
    for at, record in enumerate(records):
        if not isinstance(record, dict):
            raise DataError(
                f"{user_path!r}, {_where(line_n, at)}: one image is one object, "
                f'{{"path": …, "label": …}}; got {str(record)[:60]}.',
                path=user_path,
                line=line_n[at] if line_n else at + 1,
            )
    # Records that share no name make a table of their number squared.
    width = len(set().union(*records))
    check_width(width, user_path)
    check_unpacked(8 * len(records) * width, user_path, os.stat(file).st_size)
    return LocatedTable(
        pd.DataFrame(records),
        line_n or range(1, len(records) + 1),
        "line" if line_n else "record",
    )


def _where(line_n: list[int] | None, at: int) -> str:
    return f"line {line_n[at]}" if line_n else f"record {at + 1}"


def _load(text: str, user_path: str, line: int) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{user_path!r}, line {line + error.lineno - 1}, column {error.colno}: this is not "
            f"JSON: {error.msg}.",
            path=user_path,
            line=line + error.lineno - 1,
        ) from error
    except (RecursionError, ValueError) as error:
        raise DataError(
            f"{user_path!r}, line {line}: this cannot be used ({error}): brackets nested too "
            "deeply, a number of too many digits, or half a character.",
            path=user_path,
            line=line,
        ) from error


def _read_parquet(file: str, user_path: str) -> LocatedTable:
    names = parquet_columns(file)
    check_width(len(names), user_path)
    _check_names(names, user_path)
    frame = read_parquet(file)
    # An index that was stored is a column of the table; the others only count.
    frame = (
        frame.reset_index()
        if any(name is not None for name in frame.index.names)
        else frame.reset_index(drop=True)
    )
    return LocatedTable(frame, range(1, len(frame) + 1), "row")


def _not_utf8(file: str, user_path: str, error: UnicodeDecodeError) -> DataError:
    with open(file, "rb") as stream:
        head = stream.read(2)
    if head in (b"\xff\xfe", b"\xfe\xff"):
        return DataError(
            f"{user_path!r} is written in UTF-16; save it as UTF-8 (in Excel: CSV UTF-8).",
            path=user_path,
        )
    with open(file, "rb") as stream:
        number = next((at for at, line in enumerate(stream, 1) if not _is_utf8(line)), 1)
    return DataError(
        f"{user_path!r}, line {number}: this is not UTF-8 ({error.reason}). Save the table as "
        "UTF-8 (in Excel: CSV UTF-8).",
        path=user_path,
        line=number,
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
