"""metadata.csv, .jsonl or .parquet in a folder of images (the Hugging Face convention).

The table has a column file_name, and any others.
"""

from __future__ import annotations

import logging
import os
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unskew.errors import DataError, first_few
from unskew.sources.files import is_outside, shown_path
from unskew.sources.listing import Listing
from unskew.sources.roles import with_roles
from unskew.sources.tables import LocatedTable, read_table

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)
_FILE_NAME = "file_name"


def read_metadata(
    listing: Listing, folder: str, shown: str, columns: Mapping[str, str]
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return a row for each of ``listing.files``, and (path, reason) of what is missing.

    Names in ``file_name`` start from the table's own folder. Images that no table lists have
    missing values. ``columns``: role -> column.
    """
    import pandas as pd

    row_of = {unicodedata.normalize("NFC", path): row for row, path in enumerate(listing.files)}
    absent, parts, listed = list[tuple[str, str]](), list[pd.DataFrame](), dict[int, str]()
    _check_one_each(listing.metadata, shown)
    for file in listing.metadata:
        name = f"{shown}/{shown_path(file)}"
        table = read_table(
            os.path.join(folder, file),
            name,
            text=(_FILE_NAME, *(columns.get(role, role) for role in ("id", "group", "split"))),
        )
        rows = _rows_of_images(table, os.path.dirname(file), name, row_of, listed, absent)
        kept = [at for at, row in enumerate(rows) if row is not None]
        part = table.frame.drop(columns=_FILE_NAME).iloc[kept]
        parts.append(part.set_index(pd.Index([rows[at] for at in kept], dtype="int64")))
    if not parts:
        _check_asked(columns, shown)
        return pd.DataFrame(index=range(len(listing.files))), absent
    if len(listed) < len(listing.files):
        logger.warning(
            "%s: %d of %d images are not listed in the metadata",
            shown,
            len(listing.files) - len(listed),
            len(listing.files),
        )
    joined = pd.concat(parts).reindex(range(len(listing.files)))
    # These follow from the folder.
    joined = joined.rename(
        columns={
            role: f"other_{role}"
            for role in ("source", "path", "content")
            if role not in columns.values()
        }
    )
    return with_roles(joined, columns, f"the metadata of {shown!r}"), absent


def _rows_of_images(
    table: LocatedTable,
    inner: str,
    name: str,
    row_of: Mapping[str, int],
    listed: dict[int, str],
    absent: list[tuple[str, str]],
) -> list[int | None]:
    """Find the image that each row of the table describes, None where there is none."""
    if _FILE_NAME not in table.frame.columns:
        raise DataError(
            f"{name!r} has no column {_FILE_NAME!r}, which names the image of each row; "
            f"it has {first_few(list(table.frame.columns), 12)}.",
            path=name,
            column=_FILE_NAME,
        )
    rows: list[int | None] = []
    for file, line in zip(table.frame[_FILE_NAME], table.line_n, strict=True):
        if not isinstance(file, str):
            raise DataError(
                f"{name!r}, {table.unit} {line}: {_FILE_NAME} is missing.",
                path=name,
                line=line,
                column=_FILE_NAME,
            )
        path = os.path.normpath(os.path.join(inner, file.replace("\\", "/")))
        row = row_of.get(unicodedata.normalize("NFC", path))
        if row is None:
            outside = os.path.isabs(path) or is_outside(path)
            absent.append(
                (
                    path,
                    f"listed in {os.path.basename(name)}, but "
                    f"{'outside of the folder' if outside else 'there is no such image'}",
                )
            )
        elif row in listed:
            raise DataError(
                f"{name!r}, {table.unit} {line}: {file!r} is listed twice, before in "
                f"{listed[row]}. One image has one row.",
                path=name,
                line=line,
                value=file,
            )
        else:
            listed[row] = f"{os.path.basename(name)}, {table.unit} {line}"
        rows.append(row)
    return rows


def _check_one_each(files: Sequence[str], shown: str) -> None:
    first: dict[str, str] = {}
    for file in files:
        before = first.setdefault(os.path.dirname(file), file)
        if before != file:
            raise DataError(
                f"{shown!r} holds both {before!r} and {file!r}, and which of the two is right is "
                "unknown. Keep one.",
                path=shown,
                value=[before, file],
            )


def _check_asked(columns: Mapping[str, Any], shown: str) -> None:
    if columns:
        role, column = next(iter(columns.items()))
        raise DataError(
            f"{column!r} was named as the {role} of the images, but the folder {shown!r} has no "
            "metadata.csv or metadata.jsonl that could hold such a column.",
            path=shown,
            column=column,
        )
