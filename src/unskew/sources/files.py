"""Images in files, read one at a time; the reason why a file cannot be used is plain text."""

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
