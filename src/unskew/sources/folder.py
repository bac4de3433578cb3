"""Folders of images, classes in subfolders, with the table next to the images."""

from __future__ import annotations

import logging
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, first_few
from unskew.files.addresses import is_address, joined, local_file
from unskew.records import Pool
from unskew.records.pool import Images
from unskew.records.pool_table import pool_of_images
from unskew.sources.address_images import AddressImages
from unskew.sources.files import (
    FileImages,
    Listing,
    check_image_folder,
    is_outside,
    list_images,
    no_images,
    parents_of,
    shown_path,
)
from unskew.sources.label_sets import as_label_lists, labels_from_columns, only_labels
from unskew.sources.roles import (
    NamePattern,
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
        text = (_FILE_NAME, *(columns.get(role, role) for role in ("id", "group", "split")))
        with local_file(folder, file) as local:
            table = read_table(local, name, text=text)
        rows = _rows_of_images(table, os.path.dirname(file), name, row_of, listed, absent)
        kept = [at for at, row in enumerate(rows) if row is not None]
        part = table.frame.drop(columns=_FILE_NAME).iloc[kept]
        parts.append(part.set_index(pd.Index([rows[at] for at in kept], dtype="int64")))
    if not parts:
        for role, column in columns.items():
            raise DataError(
                f"{column!r} was named as the {role} of the images, but the folder {shown!r} has "
                "no metadata.csv or metadata.jsonl that could hold such a column.",
                path=shown,
                column=column,
            )
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


# First-level folders that are splits, not classes, by the Hugging Face convention.
_SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
} | dict.fromkeys(("val", "valid", "validation", "dev"), "validation")
FOLDER = "folder"


@checked
def read_folders(
    folders: Mapping[Any, str | os.PathLike[str]],
    *,
    label: Any = None,
    id: str | None = None,
    group: Any = None,
    split: Any = None,
    images: bool = True,
    label_separator: str | None = None,
    labels: Sequence[str] | None = None,
    base: str | os.PathLike[str] = ".",
) -> Pool:
    r"""Read one folder for each source: files are listed, not opened.

    Images are in the order of their sources and sorted paths.

    Parameters
    ----------
    folders : folder by name of source; addresses (``s3://…``) too.
    label : the column ``label`` of the metadata, else the name of the first folder below the
        source's, however deep the image is; images directly in the source's folder have no label.
        ``"folder"``: the folder even if there is such a column; False: no labels; or the name of a
        column of the metadata, or ``{"regex": …}`` on the file name.
    id, group : columns of the metadata; group also ``{"regex": r"^(sku\d+)"}``.
    split : ``"folder"``: the first folder is train, validation or test, and the one below it is the
        class. This is the default where all images are in folders of such names; False: these are
        classes. Or a column of the metadata, or a regex.
    images : False: the pixels are never needed.
    label_separator : splits labels of a metadata.csv into lists.
    labels : names of columns of 0 and 1, one for each label; subfolders are no classes then.
    base : the folder that the others start from.
    """
    if not folders or not all(folders) or not hasattr(folders, "items"):
        raise ConfigError(
            f'folders gives each source its folder, such as {{ north = "photos/north" }}; got '
            f"{folders!r}.",
            key="folders",
            value=folders,
        )
    rules = {
        role: read_rule(role, rule)
        for role, rule in {
            "label": only_labels(label, labels),
            "group": group,
            "split": split,
        }.items()
    }
    columns = {
        role: rule
        for role, rule in {**rules, "id": id}.items()
        if isinstance(rule, str) and rule != FOLDER
    }
    parts = [
        _read_one(name, os.fspath(folder), os.fspath(base), rules, columns)
        for name, folder in folders.items()
    ]
    _check_different(folders, os.fspath(base))
    return _pool(parts, rules, os.fspath(base), images, label_separator, labels)


@dataclass(frozen=True)
class _Source:
    """The images of one source: table, shown paths within its folder, files, what is unusable."""

    frame: pd.DataFrame
    within: list[str]
    files: list[str]
    set_aside: list[tuple[str, str, str, str]]


def _read_one(
    name: str, folder: str, base: str, rules: Mapping[str, Any], columns: Mapping[str, str]
) -> _Source:
    import pandas as pd

    full_path, what = joined(base, folder), f"source {name!r}"
    check_image_folder(full_path, folder, what)
    listing = list_images(full_path)
    _log_overlooked(what, listing)
    if not listing.files:
        raise no_images(folder, what, listing)
    within = [shown_path(path) for path in listing.files]
    shown = shown_path(folder).rstrip("/")
    frame = pd.DataFrame(
        {
            "id": [f"{name}/{path}" for path in within],
            "source": name,
            "path": [_join(shown, path) for path in within],
        }
    )
    described, absent = read_metadata(listing, full_path, shown, columns)
    frame = _with_folder_names(frame, within, rules, described, what)
    for column in described.columns:
        if column == "id":
            frame["id"] = (
                described["id"]
                .astype(object)
                .where(described["id"].notna().to_numpy(), frame["id"])
            )
        elif not (column in ("label", "split") and rules[column] in (False, FOLDER)):
            frame[column] = described[column].to_numpy()
    broken = [(shown_path(path), reason) for path, reason in [*listing.broken, *absent]]
    set_aside = [(f"{name}/{path}", name, _join(shown, path), reason) for path, reason in broken]
    return _Source(
        frame,
        within,
        [joined(full_path if is_address(full_path) else folder, path) for path in listing.files],
        set_aside,
    )


def _join(folder: str, path: str) -> str:
    return path if folder in ("", ".") else f"{folder}/{path}"


def _with_folder_names(
    frame: pd.DataFrame,
    within: list[str],
    rules: Mapping[str, Any],
    described: pd.DataFrame,
    what: str,
) -> pd.DataFrame:
    """Add split and label where they follow from the names of folders."""
    parts = [path.split("/")[:-1] for path in within]
    are_splits = all(part and part[0].lower() in _SPLITS for part in parts)
    if rules["split"] == FOLDER or (
        rules["split"] is None and "split" not in described and are_splits
    ):
        if not all(parts):
            lost = next(path for path, part in zip(within, parts, strict=True) if not part)
            raise ConfigError(
                f'{what}: split = "folder" takes the split from the folder of each image, but '
                f"{lost!r} is in none.",
                option="split",
                path=lost,
            )
        frame = frame.assign(split=[_SPLITS.get(part[0].lower(), part[0]) for part in parts])
        logger.info(
            "%s: the folders %s are splits", what, first_few(sorted({part[0] for part in parts}))
        )
        parts = [part[1:] for part in parts]
    if rules["label"] == FOLDER or (rules["label"] is None and "label" not in described):
        bare = sum(not part for part in parts)
        if 0 < bare < len(parts):
            logger.warning(
                "%s: %d of %d images are outside the folders of the classes; they have no label",
                what,
                bare,
                len(parts),
            )
        if bare < len(parts):
            frame["label"] = [part[0] if part else None for part in parts]
    return frame


def _check_different(folders: Mapping[str, Any], base: str) -> None:
    real_path = {
        name: os.path.realpath(os.path.join(base, os.fspath(folder)))
        for name, folder in folders.items()
    }
    owner: dict[str, str] = {}
    for name, folder in real_path.items():
        before = owner.setdefault(folder, name)
        if before != name:
            raise ConfigError(
                f"the sources {before!r} and {name!r} are the same folder, "
                f"{os.fspath(folders[name])!r}: every image would count twice.",
                sources=[before, name],
                path=os.fspath(folders[name]),
            )
    for name, folder in real_path.items():
        outer = next(
            (owner[above] for above in parents_of(folder) if above != folder and above in owner),
            None,
        )
        if outer is not None:
            raise ConfigError(
                f"the folder of the source {name!r}, {os.fspath(folders[name])!r}, is inside that "
                f"of {outer!r}, {os.fspath(folders[outer])!r}, which is read with all its "
                "subfolders: its images would count twice. Give each source a folder of its own.",
                sources=[outer, name],
                path=os.fspath(folders[name]),
            )


def _log_overlooked(what: str, listing: Listing) -> None:
    if listing.ignored:
        kinds = [f"{count} {extension}" for extension, count in listing.ignored.most_common()]
        logger.info(
            "%s: %d files are not images and were ignored: %s",
            what,
            listing.ignored.total(),
            first_few(kinds, 8),
        )
    if listing.repeated:
        logger.warning(
            "%s: links to folders that are listed anyway, or a loop, were not followed: %s",
            what,
            first_few(listing.repeated),
        )


def _pool(
    parts: list[_Source],
    rules: Mapping[str, Any],
    base: str,
    images: bool,
    label_separator: str | None,
    labels: Sequence[str] | None,
) -> Pool:
    import pandas as pd

    frame = pd.concat([part.frame for part in parts], ignore_index=True)
    frame = frame.assign(id=unique_within(frame["id"], frame["source"]))
    frame = as_label_lists(frame, label_separator, "the metadata")
    frame = labels_from_columns(frame, labels, "the metadata")
    patterns = {role: rule for role, rule in rules.items() if isinstance(rule, NamePattern)}
    frame = with_patterns(frame, patterns, [path for part in parts for path in part.within])
    frame = with_own_groups(frame, "the metadata")
    paths = [path for part in parts for path in part.files]
    files: Images | None = FileImages(base, paths) if images else None
    if files is not None and any(map(is_address, paths)):
        files = AddressImages(files, paths)
    return pool_of_images(frame, files, [row for part in parts for row in part.set_aside])
