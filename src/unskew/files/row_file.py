"""`RowFile`: rows of one shape in a temporary file, read and written by their numbers.

Unlike an array that is mapped into memory, it never counts as memory of the process: what was read
once is not kept.
"""

from __future__ import annotations

import io
import math
import os
import platform
import tempfile
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError


class _ClosingFile(io.FileIO):
    """An unbuffered file that is closed, silently, with the last object that uses it."""

    @classmethod
    def unnamed(cls) -> _ClosingFile:
        """Make a temporary file whose name is gone at once: what is killed leaves nothing."""
        number, name = tempfile.mkstemp(prefix="unskew-")
        with suppress(OSError):
            os.unlink(name)
        return cls(number, "r+")

    def __del__(self) -> None:
        self.close()


class RowFile:
    """n rows of one shape and type; ``rows[key]`` reads some of them into an array.

    It has as much of an array's interface as is needed to fill it, to shorten it and to train on
    it. The file has no name, and is gone with the last object that uses it. Another process on the
    same machine can open it while this one runs (pickle).
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, file: Any = None, *, empty: bool = True
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._file = _ClosingFile.unnamed() if file is None else file
        if empty:
            self._file.truncate(self.nbytes)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(math.prod(self.shape) * self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Read rows: a number, a slice, an array of numbers or one of booleans."""
        numbers = np.arange(len(self))[key]
        rows = np.empty((numbers.size, *self.shape[1:]), dtype=self.dtype)
        for at, first, count in _runs(np.atleast_1d(numbers)):
            self._file.seek(first * self._row_bytes)
            part = rows[at : at + count].data.cast("B")
            while len(part):
                n_read = self._file.readinto(part)
                if not n_read:
                    raise DataError("a temporary file of images is shorter than it was.", count=0)
                part = part[n_read:]
        return rows[0] if numbers.ndim == 0 else rows

    def __setitem__(self, key: Any, values: Any) -> None:
        """Write rows; ``values`` has one for each."""
        numbers = np.atleast_1d(np.arange(len(self))[key])
        values = np.ascontiguousarray(values, dtype=self.dtype)
        values = values.reshape(numbers.size, *self.shape[1:])
        for at, first, count in _runs(numbers):
            self._file.seek(first * self._row_bytes)
            part = values[at : at + count].data.cast("B")
            while len(part):
                part = part[self._file.write(part) :]

    def reshape(self, *shape: int) -> RowFile:
        """Return the same rows, each with another shape: (−1, …)."""
        return RowFile((len(self), *shape[1:]), self.dtype, self._file, empty=False)

    def head(self, n: int) -> RowFile:
        """Return the first n rows."""
        return RowFile((n, *self.shape[1:]), self.dtype, self._file, empty=False)

    @property
    def _row_bytes(self) -> int:
        return int(math.prod(self.shape[1:]) * self.dtype.itemsize)

    def __getstate__(self) -> dict[str, Any]:
        number = self._file.fileno()
        return {
            "shape": self.shape,
            "dtype": str(self.dtype),
            "path": f"/proc/{os.getpid()}/fd/{number}",
            "machine": platform.node(),
            "inode": os.fstat(number).st_ino,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.shape, self.dtype = state["shape"], np.dtype(state["dtype"])
        try:
            if platform.node() != state["machine"]:
                raise FileNotFoundError(f"it is on {state['machine']}")
            self._file = _ClosingFile(state["path"])
            if os.fstat(self._file.fileno()).st_ino != state["inode"]:
                raise FileNotFoundError("it is gone")
        except OSError as error:
            raise DataError(
                "another process cannot open the temporary file of the images "
                f"({error.strerror or error}): allow them as much memory as they need, so that "
                "they are sent instead ([learn] memory, in megabytes), or use one process.",
                option="memory",
                value=self.nbytes // 2**20 + 1,
            ) from error


def _runs(numbers: npt.NDArray[Any]) -> list[tuple[int, int, int]]:
    """List runs of consecutive numbers: (position of the first, the first, how many)."""
    if not numbers.size:
        return []
    begin = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) != 1)
    count = np.diff(begin, append=numbers.size)
    return list(zip(begin.tolist(), numbers[begin].tolist(), count.tolist(), strict=True))
