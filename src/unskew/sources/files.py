"""Images that lie in files, read one at a time; what is wrong with a file is said in words."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unskew.errors import ImageError
from unskew.records.arrays import Ints
from unskew.records.images import Images

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
        # Absolute, so that a program that changes its folder in mid-run still finds them.
        self.base, self.max_bytes = os.path.abspath(base), max_bytes
        self.paths = np.empty(len(paths), dtype=object)
        self.paths[:] = list(paths)

    def __len__(self) -> int:
        return int(self.paths.size)

    def place(self, row: int) -> str:
        """The file itself; of a name that is not there, the same name in another Unicode form or
        with the other slashes, if that is.
        """
        named = str(self.paths[row])
        tried = os.path.join(self.base, named)
        if not os.path.lexists(tried):
            for other in _other_spellings(named):
                if os.path.lexists(there := os.path.join(self.base, other)):
                    return there
        return tried

    def read(self, row: int) -> bytes:
        """The bytes of the file, whole."""
        try:
            file = self.place(row)
            # Looked at before it is opened: opening a pipe waits for somebody to write into it.
            check_usable(os.stat(file), self.max_bytes)
            with open(file, "rb") as stream:
                # Not read(max_bytes): Python would reserve so much memory for every file.
                content = stream.read()
        except (OSError, ValueError) as error:
            raise (
                error if isinstance(error, ImageError) else ImageError(why_unreadable(error))
            ) from error
        if not content:
            raise ImageError("the file is empty (0 bytes)")
        return content

    def take(self, rows: Ints) -> FileImages:
        """The files of these rows."""
        return FileImages(self.base, self.paths[rows], self.max_bytes)


def check_usable(status: os.stat_result, max_bytes: int = MAX_BYTES) -> None:
    """A regular file with content, and not too much of it; else `ImageError`."""
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
    """The reason in words, without the path (which stands beside it wherever the reason is
    shown).
    """
    if isinstance(error, OSError) and error.errno is not None:
        return _REASONS.get(error.errno, error.strerror or str(error))
    return f"not a name that a file can have ({error})"


def is_outside(path: str) -> bool:
    """Does a relative path climb out of the folder that it starts from, with slashes of either
    kind?

    This is about what is written, such as ``../../x.jpg``. Links of the file system are followed:
    they are its owner's.
    """
    return any(
        os.path.normpath(spelled).split(os.sep)[0] == os.pardir
        for spelled in (path, path.replace("\\", "/"))
    )


def shown_path(path: str) -> str:
    r"""The path as text that every file format can hold: bytes that are no UTF-8 stand as ``\xe9``;
    with forward slashes.
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
