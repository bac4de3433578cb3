"""Where the pixels of a pool are: nothing is read before an image is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records.arrays import Ints

# An image as it is stored: the bytes of an encoded file (JPEG, PNG …), or its pixels, (height,
# width) or (height, width, 1, 3 or 4).
RawImage = bytes | npt.NDArray[Any]


class Images(ABC):
    """The images behind the rows of a pool, in its order, each read when it is asked for.

    Implementations live in `unskew.sources`; they are cheap to pickle or safe to read from several
    threads at once.

    Attributes
    ----------
    count : number of images.
    """

    def __init__(self, count: int) -> None:
        self.count = int(count)

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def read(self, row: int) -> RawImage:
        """Return the image of that row, not decoded.

        An image that cannot be read is an `unskew.errors.ImageError` with the reason.
        """

    @abstractmethod
    def take(self, rows: Ints) -> Images:
        """Return the images of these rows, in this order."""

    def place(self, row: int) -> str | None:
        """Return the file that holds the image of that row, or None.

        An image whose file has not changed need not be read again.
        """
        return None


class JoinedImages(Images):
    """Several sets of images, one after the other."""

    def __init__(self, parts: Sequence[Images]) -> None:
        super().__init__(sum(len(part) for part in parts))
        self.parts = tuple(parts)
        self._end = np.cumsum([len(part) for part in parts])

    def _find(self, row: int) -> tuple[Images, int]:
        part = int(np.searchsorted(self._end, row, side="right"))
        return self.parts[part], row - (int(self._end[part - 1]) if part else 0)

    def read(self, row: int) -> RawImage:
        part, at = self._find(row)
        return part.read(at)

    def place(self, row: int) -> str | None:
        part, at = self._find(row)
        return part.place(at)

    def take(self, rows: Ints) -> Images:
        return ChosenImages(self, np.asarray(rows, dtype=np.int64))


class ChosenImages(Images):
    """Some rows of other images."""

    def __init__(self, images: Images, rows: Ints) -> None:
        super().__init__(rows.size)
        self.images, self.rows = images, rows

    def read(self, row: int) -> RawImage:
        return self.images.read(int(self.rows[row]))

    def place(self, row: int) -> str | None:
        return self.images.place(int(self.rows[row]))

    def take(self, rows: Ints) -> Images:
        return ChosenImages(self.images, self.rows[np.asarray(rows, dtype=np.int64)])
