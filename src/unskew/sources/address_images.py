"""Images at addresses such as ``s3://bucket/a.jpg``, read one by one when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError, ImageError
from unskew.files.addresses import address_exists, check_asking, is_address, read_address
from unskew.records.arrays import Ints
from unskew.records.pool import Images
from unskew.sources.files import MAX_BYTES


class AddressImages(Images):
    """One file for each image: at its address, or among the local ``files`` where it has none.

    `place` is None: caches know these images by their content, and threads read them, not
    processes.
    """

    def __init__(self, files: Images, paths: Sequence[str] | np.ndarray[Any, Any]) -> None:
        super().__init__(len(paths))
        self.files = files
        self.paths = np.empty(len(paths), dtype=object)
        self.paths[:] = list(paths)
        for path in filter(is_address, paths):  # not later, by threads
            check_asking(path)

    def place(self, row: int) -> None:
        """Return None: an address is no path."""

    def exists(self, row: int) -> bool:
        """Tell whether the image is there; False also where the server does not answer."""
        path = str(self.paths[row])
        try:
            return address_exists(path) if is_address(path) else bool(self.files.read(row))
        except (OSError, ImageError):
            return False

    def read(self, row: int) -> Any:
        """Return all bytes of the file."""
        path = str(self.paths[row])
        if not is_address(path):
            return self.files.read(row)
        try:
            content = read_address(path, MAX_BYTES)
        except OSError as error:
            raise ImageError(error.strerror or str(error)) from None
        except (ConfigError, DataError) as error:
            raise ImageError(str(error)) from None
        if not content:
            raise ImageError("the file is empty (0 bytes)")
        return content

    def take(self, rows: Ints) -> Images:
        """Return the images of these rows."""
        return AddressImages(self.files.take(rows), self.paths[rows])
