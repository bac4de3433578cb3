"""The content of an image as a hash: the same for exact copies, another for a changed image."""

from __future__ import annotations

import hashlib
import os
import time

import numpy as np

from unskew.errors import ImageError
from unskew.records import Pool
from unskew.records.images import RawImage

# A file that was changed just now may be changed again without its time of change moving; it is
# read again next time.
_SETTLED_NS = 2_000_000_000


def hash_images(
    pool: Pool,
    *,
    cache: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    tolerance: float = 0.01,
    progress: bool | None = None,
) -> Pool:
    """Add the column ``content``: a hash of each image's file or array, shared by exact copies.

    Images are read and not decoded. With a ``cache``, a file whose path, size and times of change
    are as before is not read again. Images that cannot be read move to ``set_aside``. The
    parameters are those of `represent_images`, which can add the column in the same pass over the
    images.
    """
    from unskew.represent.pool_features import run_pools

    (hashed,) = run_pools(
        (pool,),
        (),
        cache=cache,
        jobs=jobs,
        tolerance=tolerance,
        progress=progress,
        content=True,
        label="Reading images",
    )
    return hashed


def hash_image(raw: RawImage) -> bytes:
    """Hash the bytes of a file, or the type, shape and numbers of an array.

    By BLAKE2b, as 32 hexadecimal letters.
    """
    if isinstance(raw, np.ndarray):
        if raw.dtype.hasobject:
            raise ImageError(f"pixels of type {raw.dtype} are not numbers that an image can have")
        digest = hashlib.blake2b(f"array {raw.dtype.str} {raw.shape} ".encode(), digest_size=16)
        digest.update(raw.tobytes())
        return digest.hexdigest().encode()
    return hashlib.blake2b(raw, digest_size=16).hexdigest().encode()


class FileStamp:
    """A file as it is now: a key that changes with its path, size or times of change.

    The time of its content can be set at will (archives and copies keep it), and uncompressed
    images are all of one size; the time of its entry in the file system (ctime) and its number
    there cannot, so that files which swapped their names differ.
    """

    def __init__(self, file: str) -> None:
        status = os.stat(file)
        self.size = status.st_size
        self.settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        text = "\0".join([os.path.abspath(file), *map(str, facts)])
        digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16)
        self.key = digest.hexdigest().encode()

    def holds(self, raw: RawImage) -> bool:
        """Tell whether this image is the whole file, not one of many in a container."""
        return not isinstance(raw, np.ndarray) and len(raw) == self.size
