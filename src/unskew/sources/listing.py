"""The image files below a folder: names only, no file is opened."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.sources.files import NOT_REGULAR, shown_path, why_unreadable

# By extension, whatever its case. Some need a plug-in to be decoded: better set aside with that
# reason than overlooked.
IMAGE_EXTENSIONS = frozenset(
    f".{name}"
    for name in (
        *(
            "jpg",
            "jpeg",
            "jpe",
            "jfif",
            "png",
            "apng",
            "gif",
            "bmp",
            "dib",
            "tif",
            "tiff",
            "webp",
            "ppm",
            "pgm",
            "pbm",
            "pnm",
            "tga",
        ),
        *("jp2", "j2k", "avif", "heic", "heif", "jxl"),
    )
)
# The Hugging Face convention: a table beside the images, with a column file_name.
METADATA_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclass
class Listing:
    """What lies below a folder; paths are relative to it, with the separators of this machine.

    Attributes
    ----------
    files : image files, sorted.
    metadata : tables beside the images, sorted.
    broken : (path, reason) of what has the name of an image and is no readable file, and of folders
        that cannot be listed.
    ignored : number of other files, by extension; hidden files (their names start with a dot) count
        as ``hidden``.
    repeated : links to folders that are listed anyway, or that contain this folder (a loop).
    """

    files: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    repeated: list[str] = field(default_factory=list)


def list_images(folder: str) -> Listing:
    """Every image below the folder, however deep.

    Real folders come first, then links to folders, each real folder once: hence loops of links end,
    and no image is listed twice because somebody linked to its folder.
    """
    found = Listing()
    seen = {_identity(above) for above in parents_of(os.path.realpath(folder))}
    waiting, links = [""], list[str]()
    while waiting or links:
        if not waiting:
            link = links.pop(0)
            identity = _identity(os.path.join(folder, link))
            if identity in seen:
                found.repeated.append(link)
                continue
            seen.add(identity)
            waiting.append(link)
        inner, linked = _list_one(folder, waiting.pop(), found)
        seen.update(_identity(os.path.join(folder, each)) for each in inner)
        waiting += inner
        links = sorted([*links, *linked])
    found.files.sort()
    found.metadata.sort()
    found.broken.sort()
    return found


def _list_one(folder: str, inner: str, found: Listing) -> tuple[list[str], list[str]]:
    """Adds the files of one folder; (real folders, links to folders) within it."""
    folders, links = list[str](), list[str]()
    try:
        with os.scandir(os.path.join(folder, inner)) as entries:
            for entry in entries:
                path = f"{inner}{os.sep}{entry.name}" if inner else entry.name
                _, dot, last = entry.name.rpartition(".")
                extension = (dot + last).lower() if dot else ""
                if entry.name.startswith("."):
                    found.ignored["hidden"] += 1
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif extension in IMAGE_EXTENSIONS:
                    _add_image(entry, path, found, links)
                elif entry.is_symlink() and os.path.isdir(entry.path):
                    links.append(path)
                elif entry.name.lower() in METADATA_NAMES:
                    found.metadata.append(path)
                else:
                    found.ignored[extension or "no extension"] += 1
    except OSError as error:
        if not inner:
            raise DataError(
                f"the folder {shown_path(folder)!r} cannot be listed: {why_unreadable(error)}."
            ) from error
        found.broken.append((inner, f"the folder cannot be listed: {why_unreadable(error)}"))
    return folders, links


def _add_image(entry: os.DirEntry[str], path: str, found: Listing, links: list[str]) -> None:
    try:
        if entry.is_file():
            found.files.append(path)
        elif entry.is_dir():
            links.append(path)
        else:
            found.broken.append(
                (path, "a link that leads nowhere" if entry.is_symlink() else NOT_REGULAR)
            )
    except OSError as error:
        found.broken.append((path, why_unreadable(error)))


def parents_of(folder: str) -> Iterator[str]:
    """The folder itself, and every folder above it."""
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def _identity(folder: str) -> tuple[int, int]:
    try:
        status = os.stat(folder)
    except OSError:
        return (-1, hash(folder))
    return status.st_dev, status.st_ino


def check_image_folder(folder: str, said: str, what: str) -> None:
    """A folder that is there, or `ConfigError` with the nearest name that is. ``said``: as the user
    wrote it; ``what`` it is for.
    """
    if os.path.isdir(folder):
        return
    if os.path.lexists(folder):
        raise ConfigError(
            f"{what} must be a folder of images, but {said!r} is {_kind(folder)}. A table of "
            "images is named by `manifest`."
        )
    raise ConfigError(f"{what} is the folder {said!r}, which is not there.{near_names(folder)}")


def near_names(place: str) -> str:
    """`` Did you mean …?``, from what lies beside a place that is not there; or the first folder
    above it that is missing.
    """
    above = os.path.dirname(os.path.abspath(place))
    try:
        beside = [shown_path(name) for name in os.listdir(above)]
    except OSError as error:
        return f" (Nor is {shown_path(above)!r}.)" if error.errno == errno.ENOENT else ""
    return did_you_mean(os.path.basename(os.path.normpath(place)), beside)


def _kind(place: str) -> str:
    return (
        "a file"
        if os.path.isfile(place)
        else "a link that leads nowhere"
        if os.path.islink(place)
        else "neither a folder nor a file"
    )


def no_images(said: str, what: str, found: Listing) -> DataError:
    """Nothing usable in a folder: what is there instead."""
    if not found.ignored and not found.broken:
        return DataError(
            f"{what}: the folder {said!r} is empty. Were the images moved, or is a disk not "
            "mounted?"
        )
    there = [f"{count} {extension}" for extension, count in found.ignored.most_common()]
    there += [f"{shown_path(path)!r} ({reason})" for path, reason in found.broken]
    return DataError(
        f"{what}: there is no image in the folder {said!r} or below it; there are "
        f"{first_few(there, 8)}. "
        f"Images are known by their extension ({', '.join(sorted(IMAGE_EXTENSIONS))}, in upper or "
        "lower case)."
    )
