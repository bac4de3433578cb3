"""Image files: listed without opening one, read as bytes, or the reason why not."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError, ImageError, did_you_mean, first_few
from unskew.files.addresses import is_address, is_address_of_folder, list_address
from unskew.records.arrays import Ints
from unskew.records.pool import Images

# In upper or lower case. Those that may need a plug-in to be decoded are listed, too: an image set
# aside for that reason is better than one overlooked.
_DECODED = (
    ".jpg .jpeg .jpe .jfif .png .apng .gif .bmp .dib .tif .tiff .webp .ppm .pgm .pbm .pnm .tga"
)
_WITH_PLUGIN = ".jp2 .j2k .avif .heic .heif .jxl"
IMAGE_EXTENSIONS = frozenset(f"{_DECODED} {_WITH_PLUGIN}".split())
# The Hugging Face convention: a table in the folder of the images, with a column file_name.
METADATA_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclass
class Listing:
    """What is below a folder; paths are relative to it, with the separators of this machine.

    Attributes
    ----------
    files : image files, sorted.
    metadata : tables in the folders of the images, sorted.
    broken : (path, reason) of what is named like an image but is no readable file, and of folders
        that cannot be listed.
    ignored : number of other files, by extension; files whose names start with a dot count as
        ``hidden``.
    repeated : links to folders that are listed anyway, or that contain this folder (a loop).
    """

    files: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    repeated: list[str] = field(default_factory=list)


def list_images(folder: str) -> Listing:
    """List every image below the folder, however deep; a folder may be at an address.

    Real folders come first, then links to folders, each real folder once: hence loops of links end,
    and no image is listed twice because of a link to its folder.
    """
    if is_address(folder):
        return _list_at(folder)
    listing = Listing()
    seen = {_identity(above) for above in parents_of(os.path.realpath(folder))}
    waiting, links = [""], list[str]()
    while waiting or links:
        if not waiting:
            link = links.pop(0)
            identity = _identity(os.path.join(folder, link))
            if identity in seen:
                listing.repeated.append(link)
                continue
            seen.add(identity)
            waiting.append(link)
        inner, linked = _list_one(folder, waiting.pop(), listing)
        seen.update(_identity(os.path.join(folder, path)) for path in inner)
        waiting += inner
        links = sorted([*links, *linked])
    listing.files.sort()
    listing.metadata.sort()
    listing.broken.sort()
    return listing


def _list_at(address: str) -> Listing:
    listing = Listing()
    for path in sorted(list_address(address)):
        *_, name = parts = path.split("/")
        _, extension = os.path.splitext(name.lower())
        if any(part.startswith(".") for part in parts):
            listing.ignored["hidden"] += 1
        elif extension in IMAGE_EXTENSIONS:
            listing.files.append(path)
        elif name.lower() in METADATA_NAMES:
            listing.metadata.append(path)
        else:
            listing.ignored[extension or "no extension"] += 1
    return listing


def _list_one(folder: str, inner: str, listing: Listing) -> tuple[list[str], list[str]]:
    """Add the files of one folder; return the real folders and the links to folders in it."""
    folders, links = list[str](), list[str]()
    try:
        with os.scandir(os.path.join(folder, inner)) as entries:
            for entry in entries:
                path = f"{inner}{os.sep}{entry.name}" if inner else entry.name
                _, dot, last = entry.name.rpartition(".")
                extension = (dot + last).lower() if dot else ""
                if entry.name.startswith("."):
                    listing.ignored["hidden"] += 1
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif extension in IMAGE_EXTENSIONS:
                    _add_image(entry, path, listing, links)
                elif entry.is_symlink() and os.path.isdir(entry.path):
                    links.append(path)
                elif entry.name.lower() in METADATA_NAMES:
                    listing.metadata.append(path)
                else:
                    listing.ignored[extension or "no extension"] += 1
    except OSError as error:
        if not inner:
            raise DataError(
                f"the folder {shown_path(folder)!r} cannot be listed: {why_unreadable(error)}.",
                path=folder,
            ) from error
        listing.broken.append((inner, f"the folder cannot be listed: {why_unreadable(error)}"))
    return folders, links


def _add_image(entry: os.DirEntry[str], path: str, listing: Listing, links: list[str]) -> None:
    try:
        if entry.is_file():
            listing.files.append(path)
        elif entry.is_dir():
            links.append(path)
        else:
            listing.broken.append(
                (path, "a link that leads nowhere" if entry.is_symlink() else NOT_REGULAR)
            )
    except OSError as error:
        listing.broken.append((path, why_unreadable(error)))


def parents_of(folder: str) -> Iterator[str]:
    """Yield the folder itself, and every folder above it."""
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


def check_image_folder(folder: str, user_path: str, what: str) -> None:
    """Check that a folder exists, or raise `ConfigError` with the nearest name that does.

    ``user_path``: as the user wrote it; ``what``: what the folder is for.
    """
    if is_address_of_folder(folder) if is_address(folder) else os.path.isdir(folder):
        return
    if is_address(folder):
        raise ConfigError(f"{what}: there is no folder {user_path!r}.", path=user_path)
    if os.path.lexists(folder):
        raise ConfigError(
            f"{what} must be a folder of images, but {user_path!r} is {_kind(folder)}. A table of "
            "images is named by `manifest`.",
            path=user_path,
        )
    raise ConfigError(
        f"{what}: the folder {user_path!r} does not exist.{near_names(folder)}", path=user_path
    )


def near_names(path: str) -> str:
    """Suggest the nearest existing name for a path that does not exist, `` Did you mean …?``.

    Where its folder is missing too, say so.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        names = [shown_path(name) for name in os.listdir(folder)]
    except OSError as error:
        return f" (Nor does {shown_path(folder)!r}.)" if error.errno == errno.ENOENT else ""
    return did_you_mean(os.path.basename(os.path.normpath(path)), names)


def _kind(path: str) -> str:
    if os.path.isfile(path):
        return "a file"
    return "a link that leads nowhere" if os.path.islink(path) else "neither a folder nor a file"


def no_images(user_path: str, what: str, listing: Listing) -> DataError:
    """Return the error for a folder without images: what it holds instead."""
    if not listing.ignored and not listing.broken:
        return DataError(
            f"{what}: the folder {user_path!r} is empty. Were the images moved, or is a disk not "
            "mounted?",
            path=user_path,
            count=0,
        )
    others = [f"{count} {extension}" for extension, count in listing.ignored.most_common()]
    others += [f"{shown_path(path)!r} ({reason})" for path, reason in listing.broken]
    return DataError(
        f"{what}: the folder {user_path!r} and its subfolders hold no image, only "
        f"{first_few(others, 8)}. Images are recognised by their extension "
        f"({', '.join(sorted(IMAGE_EXTENSIONS))}, in upper or lower case).",
        path=user_path,
    )


# A gigabyte is far above any encoded photograph; what is larger is another thing with the name of
# an image, and would fill the memory.
MAX_BYTES = 1 << 30
NOT_REGULAR = "not a regular file (a pipe, a socket or a device)"
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "a loop of symbolic links",
    errno.EISDIR: "a folder, not a file",
    errno.ENAMETOOLONG: "the name is too long for the file system",
}


class FileImages(Images):
    """One file for each image: ``base`` is the folder that ``paths`` start from (absolute ones
    start from themselves).

    Holds names only, so it is cheap to pickle and safe to read from several threads. Links are
    followed.
    """

    def __init__(
        self,
        base: str | os.PathLike[str],
        paths: Sequence[str] | np.ndarray[Any, Any],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(len(paths))
        # Absolute, so that a program that changes its folder in mid-run still finds them.
        self.base, self.max_bytes = os.path.abspath(base), max_bytes
        self.paths = np.empty(len(paths), dtype=object)
        self.paths[:] = list(paths)

    def place(self, row: int) -> str:
        """Return the path of the file.

        Where it does not exist, the same name in another Unicode form or with the other slashes is
        returned if that exists.
        """
        path = str(self.paths[row])
        file = os.path.join(self.base, path)
        if not os.path.lexists(file):
            for other in _other_spellings(path):
                if os.path.lexists(other_file := os.path.join(self.base, other)):
                    return other_file
        return file

    def read(self, row: int) -> bytes:
        """Return all bytes of the file."""
        try:
            file = self.place(row)
            # Checked before it is opened: opening a pipe waits for a writer.
            check_usable(os.stat(file), self.max_bytes)
            with open(file, "rb") as stream:
                # Not read(max_bytes): Python would reserve that much memory for every file.
                content = stream.read()
        except (OSError, ValueError) as error:
            raise (
                error if isinstance(error, ImageError) else ImageError(why_unreadable(error))
            ) from error
        if not content:
            raise ImageError("the file is empty (0 bytes)")
        return content

    def take(self, rows: Ints) -> FileImages:
        """Return the files of these rows."""
        return FileImages(self.base, self.paths[rows], self.max_bytes)


def check_usable(status: os.stat_result, max_bytes: int = MAX_BYTES) -> None:
    """Check for a regular file with content, and not too much of it; else `ImageError`."""
    if not stat.S_ISREG(status.st_mode):
        raise ImageError("a folder, not a file" if stat.S_ISDIR(status.st_mode) else NOT_REGULAR)
    if status.st_size == 0:
        raise ImageError("the file is empty (0 bytes)")
    if status.st_size > max_bytes:
        raise ImageError(
            f"the file has {status.st_size / 1e9:.1f} GB, more than the limit of "
            f"{max_bytes / 1e9:.1f} GB for one image"
        )


def why_unreadable(error: Exception) -> str:
    """Return the reason as text, without the path, which is shown next to it everywhere."""
    if isinstance(error, OSError) and error.errno is not None:
        return _REASONS.get(error.errno, error.strerror or str(error))
    return f"not a name that a file can have ({error})"


def is_outside(path: str) -> bool:
    """Tell whether a relative path leaves the folder it starts from, with slashes of either kind.

    This is about the text, such as ``../../x.jpg``; links of the file system are followed.
    """
    return any(
        os.path.normpath(spelled).split(os.sep)[0] == os.pardir
        for spelled in (path, path.replace("\\", "/"))
    )


def shown_path(path: str) -> str:
    r"""Write the path with forward slashes, as text that every file format can hold.

    Bytes that are not UTF-8 are written as ``\xe9``.
    """
    path = path if os.sep == "/" else path.replace(os.sep, "/")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    return path


def _other_spellings(path: str) -> Iterator[str]:
    # macOS stores letters and accents apart, Windows writes backslashes; tables travel between
    # machines.
    for spelled in (path, path.replace("\\", "/")):
        for form in ("NFC", "NFD"):
            yield unicodedata.normalize(form, spelled)
