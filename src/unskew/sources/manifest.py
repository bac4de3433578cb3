"""A table that lists the images: the path of each, and what is known of it.

With ``images = false``, a table alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, first_few
from unskew.files.addresses import check_address, is_address, joined, local_file
from unskew.records import Pool
from unskew.records.pool import Images
from unskew.records.pool_table import pool_of_images
from unskew.sources.address_images import AddressImages
from unskew.sources.files import FileImages, is_outside, shown_path
from unskew.sources.label_sets import as_label_lists, labels_from_columns, only_labels
from unskew.sources.roles import (
    NamePattern,
    no_source,
    parts_by_source,
    read_rule,
    unique_within,
    with_own_groups,
    with_patterns,
    with_roles,
)
from unskew.sources.tables import LocatedTable, read_table

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)
# Codes and names stay as they are written, even where they look like numbers.
_TEXT_ROLES = ("id", "source", "group", "split", "path")
_PATH_COLUMNS = ("path", "file_name", "filename")
# A table whose first images are nowhere is refused; asking for all addresses would take long.
_ASKED = 20


@dataclass(frozen=True)
class _Listed:
    """One table, its columns in their roles, and its path."""

    table: LocatedTable
    user_path: str
    root: str  # the folder that its paths start from, as the user writes it

    def where(self, row: int) -> str:
        return f"{self.user_path!r}, {self.table.unit} {self.table.line_n[row]}"


@checked
def read_manifest(
    manifest: str | os.PathLike[str] | Mapping[Any, str | os.PathLike[str]],
    *,
    source: str | None = None,
    label: Any = None,
    id: str | None = None,
    group: Any = None,
    split: Any = None,
    path: str | None = None,
    root: str | os.PathLike[str] | None = None,
    images: bool = True,
    allow_outside: bool = False,
    label_separator: str | None = None,
    labels: Sequence[str] | None = None,
    delimiter: str | None = None,
    several: str | None = None,
    base: str | os.PathLike[str] = ".",
    source_name: str | None = None,
) -> Pool:
    r"""Read the images that a table lists, in the order of its rows.

    Parameters
    ----------
    manifest : a .csv, .tsv, .jsonl, .json or .parquet file (COCO among them) that holds all
        sources; or ``{name: file}``, one for each.
    source, label, id, group, split, path : names of columns; without them, the columns of these
        names (for path also ``file_name``). label, group and split may be ``{"regex":
        r"^(sku\d+)"}``: what the parentheses capture in the file name.
    root : the folder that paths start from; by default the folder of the table.
    images : False for a table alone, no paths needed.
    allow_outside : paths may lead out of the root; else those images are set aside.
    label_separator : splits the label of a CSV table into a list, for images with several labels.
    labels : names of columns of 0 and 1, one for each label, empty where it is unknown.
    delimiter : of the fields of a CSV table.
    several : of a COCO file, see `unskew.sources.coco.coco_table`.
    base : the folder that ``manifest`` and ``root`` start from.
    source_name : of all images, whatever the table says.
    """
    rules = {
        role: read_rule(role, rule)
        for role, rule in {
            "label": only_labels(label, labels),
            "group": group,
            "split": split,
        }.items()
    }
    patterns = {role: rule for role, rule in rules.items() if isinstance(rule, NamePattern)}
    named = {"id": id, "source": source, "path": path} | {
        role: None if isinstance(rule, NamePattern) else rule for role, rule in rules.items()
    }
    tables = []
    for name, file in parts_by_source("manifest", manifest, source, source_name).items():
        user_path = os.fspath(file)
        with local_file(base, user_path) as local:
            table = _read_one(local, user_path, named, name, delimiter, several)
        table = LocatedTable(
            as_label_lists(table.frame, label_separator, f"the table {user_path!r}"),
            table.line_n,
            table.unit,
        )
        tables.append(
            _Listed(
                table, user_path, os.path.dirname(user_path) if root is None else os.fspath(root)
            )
        )
    if images or patterns:
        _check_paths(tables, patterns)
    return _pool(tables, patterns, os.fspath(base), images, allow_outside, labels)


def _read_one(
    file: str,
    user_path: str,
    named: Mapping[str, Any],
    source: str | None,
    delimiter: str | None,
    several: str | None,
) -> LocatedTable:
    """Read a table and give its columns their roles."""
    from unskew.sources.coco import coco_table

    wanted = dict(named)
    table = coco_table(file, user_path, wanted["label"] or None, several)
    if table is None:
        if several is not None:
            raise ConfigError(
                f"`several` is for COCO files, and {user_path!r} is not one.",
                option="several",
                path=user_path,
            )
        text = (*(wanted.get(role) or role for role in _TEXT_ROLES), *_PATH_COLUMNS)
        table = read_table(file, user_path, text=text, delimiter=delimiter)
    elif wanted["label"]:
        wanted["label"] = None
    if wanted["path"] is None:
        wanted["path"] = next(
            (column for column in _PATH_COLUMNS if column in table.frame.columns), None
        )
    frame = with_roles(table.frame, wanted, f"the table {user_path!r}", source)
    if "source" not in frame.columns:
        example, where = 'manifest = { north = "north.csv", … }', f"the table {user_path!r}"
        raise no_source(list(frame.columns), where, example, path=user_path)
    return LocatedTable(frame, table.line_n, table.unit)


def _check_paths(tables: Sequence[_Listed], patterns: Mapping[str, NamePattern]) -> None:
    for listed in tables:
        if "path" not in listed.table.frame.columns:
            needs = (
                f"{next(iter(patterns))}.regex reads file names"
                if patterns
                else "images = true needs them"
            )
            raise DataError(
                f"the table {listed.user_path!r} has no column with the paths of the images, and "
                f"{needs}; its columns are "
                f'{first_few(list(listed.table.frame.columns), 12)}. Name it (path = "…"), or set '
                "images = false to use the table alone.",
                path=listed.user_path,
                column="path",
            )


def _pool(
    tables: Sequence[_Listed],
    patterns: Mapping[str, NamePattern],
    base: str,
    images: bool,
    allow_outside: bool,
    labels: Sequence[str] | None,
) -> Pool:
    import pandas as pd

    frame = pd.concat([listed.table.frame for listed in tables], ignore_index=True)
    _check_sources(frame, tables)
    written = (
        [path if isinstance(path, str) else "" for path in frame["path"]]
        if "path" in frame.columns
        else None
    )
    frame = frame.assign(id=_ids(frame, tables, written))
    names = f"the table {first_few([repr(listed.user_path) for listed in tables])}"
    frame = labels_from_columns(frame, labels, names)
    if written is not None:
        frame = with_patterns(frame, patterns, [path.replace("\\", "/") for path in written])
    frame = with_own_groups(frame, names)
    if not images or written is None:
        return pool_of_images(frame, None)
    roots = [listed.root for listed in tables for _ in listed.table.line_n]
    frame = frame.assign(
        path=[shown_path(joined(root, path)) for root, path in zip(roots, written, strict=True)]
    )
    reasons = [
        _refusal(root, path, base, allow_outside) for root, path in zip(roots, written, strict=True)
    ]
    paths = [joined(root, path) for root, path in zip(roots, written, strict=True)]
    local = [path if is_address(path) else os.path.normpath(path) for path in paths]
    files: Images = FileImages(base, local)
    if any(map(is_address, paths)):
        files = AddressImages(files, local)
    return _usable(frame, files, reasons, tables)


def _usable(
    frame: pd.DataFrame, files: Images, reasons: Sequence[str | None], tables: Sequence[_Listed]
) -> Pool:
    """Make the pool of the images that may be read; the others are set aside."""
    rows = [row for row, reason in enumerate(reasons) if reason is None]
    refused = [
        (id, str(source), path, reason)
        for id, source, path, reason in zip(
            frame["id"], frame["source"], frame["path"], reasons, strict=True
        )
        if reason is not None
    ]
    names = first_few([repr(listed.user_path) for listed in tables])
    if not rows:
        raise DataError(
            f"none of the {len(frame)} images that {names} lists can be used; the first: "
            f"{refused[0][2]!r}: {refused[0][3]}.",
            path=refused[0][2],
            count=len(frame),
        )
    kept = files.take(np.array(rows, dtype=np.int64))
    if not any(map(_is_there(kept), range(len(kept)))):
        raise DataError(
            f"none of the {len(kept)} images that {names} lists exists; the first would be "
            f"{frame['path'].iloc[rows[0]]!r}. "
            'Do the paths start from another folder (root = "…")? Set images = false to use the '
            "table alone.",
            path=frame["path"].iloc[rows[0]],
            count=len(kept),
        )
    return pool_of_images(frame.iloc[rows].reset_index(drop=True), kept, refused)


def _is_there(images: Images) -> Callable[[int], bool]:
    """Return what tells whether an image exists; of addresses only the first are asked for."""

    def ask(row: int) -> bool:
        place = images.place(row)
        if place is not None:
            return os.path.lexists(place)
        return row >= _ASKED or (isinstance(images, AddressImages) and images.exists(row))

    return ask


def _check_sources(frame: pd.DataFrame, tables: Sequence[_Listed]) -> None:
    missing_n = frame["source"].isna()
    if missing_n.any():
        row = int(missing_n.to_numpy().argmax())
        raise DataError(
            f"{_where(tables, row)}: the source is missing, as in {int(missing_n.sum())} rows in "
            "all. Every image needs one.",
            column="source",
            count=int(missing_n.sum()),
        )


def _where(tables: Sequence[_Listed], row: int) -> str:
    for listed in tables:
        if row < len(listed.table.line_n):
            return listed.where(row)
        row -= len(listed.table.line_n)
    raise IndexError(row)


def _ids(
    frame: pd.DataFrame, tables: Sequence[_Listed], written: Sequence[str] | None
) -> Sequence[Any] | pd.Series[Any]:
    """Return the column id, else the paths as written, else the rows counted from 0.

    Ids that two sources share begin with the name of the source.
    """
    sources = frame["source"].astype(str)
    if "id" in frame.columns:
        return unique_within(frame["id"], sources)
    if written is None:
        counted = [row for listed in tables for row in range(len(listed.table.line_n))]
        logger.info(
            "the table has neither a column id nor paths; images are numbered by their rows, from 0"
        )
        return unique_within(counted, sources) if len(tables) > 1 else counted
    first: dict[tuple[str, str], int] = {}
    for row, (source, path) in enumerate(zip(sources, written, strict=True)):
        before = first.setdefault((source, os.path.normpath(path)), row)
        if path and before != row:
            raise DataError(
                f"{_where(tables, row)}: the image {path!r} of source {source!r} is listed twice, "
                f"before in {_where(tables, before)}. Drop one of the two; an image with several "
                "labels has one row and a list of labels (label_separator).",
                source=source,
                path=path,
            )
    shown = [
        shown_path(path) or f"{os.path.basename(_where(tables, row))}"
        for row, path in enumerate(written)
    ]
    return unique_within(shown, sources)


def _refusal(root: str, path: str, base: str, allow_outside: bool) -> str | None:
    """Return the reason why the image of that path may not be read, or None."""
    if not path:
        return "the table gives no path"
    if is_address(path) or is_address(root):
        return _address_refusal(root, joined(root, path), allow_outside)
    if allow_outside:
        return None
    if os.path.isabs(path):
        folder = os.path.abspath(os.path.join(base, root))
        path = os.path.relpath(os.path.normpath(path), folder)
    return (
        f"the path leads out of {root or 'the folder of the table'!r} (allow_outside = true "
        "accepts it)"
        if is_outside(path)
        else None
    )


def _address_refusal(root: str, address: str, allow_outside: bool) -> str | None:
    try:
        check_address(address)
    except ConfigError:
        return "the address contains credentials or a query, which results would repeat"
    if allow_outside or (is_address(root) and address.startswith(root.rstrip("/") + "/")):
        return None
    where = repr(root) if root else "the folder of the table"
    return f"the address is not within {where} (allow_outside = true accepts it)"
