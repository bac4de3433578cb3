"""Folders of images: one for each source, classes in subfolders, and a metadata table."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, first_few
from unskew.records import Pool
from unskew.records.pool_table import pool_of_images
from unskew.sources.files import FileImages, shown_path
from unskew.sources.ids import unique_within
from unskew.sources.labels import as_label_lists
from unskew.sources.listing import Listing, check_image_folder, list_images, no_images, parents_of
from unskew.sources.metadata import read_metadata
from unskew.sources.roles import NamePattern, read_rule, with_own_groups, with_patterns

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)
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


def read_folders(
    folders: Mapping[str, str | os.PathLike[str]],
    *,
    label: Any = None,
    id: str | None = None,
    group: Any = None,
    split: Any = None,
    images: bool = True,
    label_separator: str | None = None,
    base: str | os.PathLike[str] = ".",
) -> Pool:
    r"""Read one folder for each source: files are listed, not opened.

    Images are in the order of their sources and sorted paths.

    Parameters
    ----------
    folders : folder by name of source.
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
        for role, rule in {"label": label, "group": group, "split": split}.items()
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
    return _pool(parts, rules, os.fspath(base), images, label_separator)


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

    full_path, what = os.path.join(base, folder), f"source {name!r}"
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
        [f"{folder.rstrip(os.sep) or os.sep}{os.sep}{path}" for path in listing.files],
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
    if rules["split"] == FOLDER or (
        rules["split"] is None and "split" not in described and _are_splits(parts)
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


def _are_splits(parts: list[list[str]]) -> bool:
    return all(part and part[0].lower() in _SPLITS for part in parts)


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
) -> Pool:
    import pandas as pd

    frame = pd.concat([part.frame for part in parts], ignore_index=True)
    frame = frame.assign(id=unique_within(frame["id"].tolist(), frame["source"].tolist()))
    frame = as_label_lists(frame, label_separator, "the metadata")
    patterns = {role: rule for role, rule in rules.items() if isinstance(rule, NamePattern)}
    frame = with_patterns(frame, patterns, [path for part in parts for path in part.within])
    frame = with_own_groups(frame, "the metadata")
    files = FileImages(base, [path for part in parts for path in part.files]) if images else None
    return pool_of_images(frame, files, [row for part in parts for row in part.set_aside])
