"""Images in arrays: in memory, or in ``.npz`` files."""

from __future__ import annotations

import math
import os
import threading
import zipfile
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, ImageError, first_few
from unskew.files.reading import check_regular, damage_named, opened_zip
from unskew.records import Pool
from unskew.records.arrays import Ints
from unskew.records.pool import Images, JoinedImages, RawImage
from unskew.records.pool_table import columns_from_arrays, pool_of_images
from unskew.sources.files import near_names
from unskew.sources.pixels import as_pixels
from unskew.sources.roles import (
    no_source,
    only_columns,
    parts_by_source,
    with_roles,
    with_unique_ids,
)

if TYPE_CHECKING:
    import pandas as pd

IMAGES = "images"


class ArrayImages(Images):
    """Images in memory: an array (n, height, width[, channels]), or a sequence.

    A sequence holds arrays, tensors, Pillow images or encoded bytes.
    """

    def __init__(self, images: Any) -> None:
        super().__init__(len(images))
        self.images = images

    def read(self, row: int) -> RawImage:
        """Return the image of that row."""
        return as_pixels(self.images[row])

    def take(self, rows: Ints) -> ArrayImages:
        """Return the images of these rows."""
        if isinstance(self.images, np.ndarray):
            return ArrayImages(self.images[rows])
        return ArrayImages([self.images[int(row)] for row in rows])


class NpzArray:
    """One array of an ``.npz`` file, loaded once per process, when a thread first asks for it.

    Arrays that were stored without compression (``np.savez``) are mapped into memory, so that only
    what is read is loaded.
    """

    def __init__(self, file: str, name: str) -> None:
        self.file, self.name = os.path.abspath(file), name
        self._array: npt.NDArray[Any] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return NpzArray, (self.file, self.name)

    def load(self) -> npt.NDArray[Any]:
        """Return the array, or raise `ImageError` where it cannot be read."""
        with self._lock:
            if self._array is None:
                try:
                    with damage_named(os.path.basename(self.file), "NumPy arrays"):
                        self._array = _load_array(self.file, self.name)
                except DataError as error:
                    raise ImageError(str(error)) from error
            return self._array


class NpzImages(Images):
    """Rows of an array in an ``.npz`` file."""

    def __init__(self, array: NpzArray, count: int) -> None:
        super().__init__(count)
        self.array = array

    def read(self, row: int) -> RawImage:
        """Return the image of that row."""
        array = self.array.load()
        if row >= len(array):
            raise ImageError(
                f"{os.path.basename(self.array.file)!r} has changed: it holds {len(array)} images"
            )
        return as_pixels(np.array(array[row]))


def _load_array(file: str, name: str) -> npt.NDArray[Any]:
    with opened_zip(file) as archive:
        member = archive.getinfo(f"{name}.npy")
        with archive.open(member) as stream:
            if member.compress_type != zipfile.ZIP_STORED:
                return _read_member(stream, member.file_size)
            shape, fortran, dtype = _npy_header(stream, member.file_size)
            start = stream.tell()
    with open(file, "rb") as raw:
        # The local header has its own length: see the two at its bytes 26 to 30 (APPNOTE 4.3.7).
        raw.seek(member.header_offset + 26)
        lengths = np.frombuffer(raw.read(4), dtype="<u2")
    offset = member.header_offset + 30 + int(lengths.sum()) + start
    return np.memmap(
        file, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C"
    )


def _read_member(stream: IO[bytes], size: int) -> npt.NDArray[Any]:
    _npy_header(stream, size)
    stream.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _npy_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and type; refuse what promises more than the ``size`` bytes hold."""
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    if dtype.names is not None:
        raise ValueError(
            f"it holds records ({dtype}); save each of their fields as an array of its own"
        )
    if dtype.hasobject:
        raise ValueError(
            f"it holds Python objects, not numbers or text ({dtype}); such arrays are not loaded, "
            "because that runs their code"
        )
    promised = math.prod(shape) * dtype.itemsize
    if dtype.kind == "V" or (promised == 0 and shape and shape[0] > 0):
        raise ValueError(f"it holds nothing that can be read: {shape} entries of {dtype}")
    if not 0 <= promised <= size - stream.tell():
        raise ValueError(
            f"it promises {shape} entries of {dtype}, {promised:,} bytes, and holds "
            f"{size - stream.tell():,}"
        )
    return shape, fortran, dtype


@checked
def read_arrays(
    arrays: str | os.PathLike[str] | Mapping[str, Any],
    *,
    source: str | None = None,
    label: Any = None,
    id: str | None = None,
    group: Any = None,
    split: Any = None,
    images: bool = True,
    base: str | os.PathLike[str] = ".",
    source_name: str | None = None,
) -> Pool:
    """Read the images of an ``.npz`` file of all sources, or of one for each, ``{name: file}``.

    The arrays of a file all have the length n: ``images`` (n, height, width[, channels]), and
    one-dimensional ones ``source``, ``label``, ``id``, ``group``, ``split`` and any attributes; of
    two dimensions, (n, d), they become the columns name_0 … name_{d-1}. Without ids, images are
    named by their source and their row in the file, ``north/17``. Pixels are read when they are
    needed.

    Parameters
    ----------
    arrays : the file, or one for each source.
    source, label, id, group, split : names of arrays; without them, the arrays of these names;
        False: none.
    images : False for the other arrays alone.
    base : the folder that files start from.
    source_name : of all images, whatever the file says.
    """
    import pandas as pd

    named = only_columns(
        {"source": source, "label": label, "id": id, "group": group, "split": split}, "arrays"
    )
    frames, pictures = list[pd.DataFrame](), list[Images]()
    for name, file in parts_by_source("arrays", arrays, source, source_name).items():
        user_path, full_path = os.fspath(file), os.path.join(base, os.fspath(file))
        frame, n_images = _read_one(full_path, user_path, named, name)
        if images and n_images is None:
            raise DataError(
                f"{user_path!r} has no array {IMAGES!r}; it has "
                f"{first_few(list(frame.columns), 12)}. Set images = false to use these alone.",
                path=user_path,
                column=IMAGES,
            )
        frames.append(frame)
        pictures.append(NpzImages(NpzArray(full_path, IMAGES), len(frame)))
    return pool_of_images(
        with_unique_ids(pd.concat(frames, ignore_index=True), "the arrays"),
        JoinedImages(pictures) if images else None,
    )


def _read_one(
    file: str, user_path: str, named: Mapping[str, Any], source: str | None
) -> tuple[pd.DataFrame, int | None]:
    """Read the columns of a file, in their roles, and the number of its images, but no pixels."""
    import pandas as pd

    columns, shape = _open_npz(file, user_path)
    if not columns and not shape:
        raise DataError(f"{user_path!r} holds no arrays.", path=user_path, count=0)
    if not columns and source is None:
        raise DataError(
            f"{user_path!r} holds no array but {IMAGES!r}: which source each image comes from is "
            "unknown.",
            path=user_path,
            column="source",
        )
    lengths = {name: len(values) for name, values in columns.items()} | (
        {IMAGES: shape[0]} if shape else {}
    )
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"the arrays of {user_path!r} have one entry for each image, but their lengths differ: "
            f"{lengths}.",
            path=user_path,
            count=lengths,
        )
    n = next(iter(lengths.values()))
    frame = pd.DataFrame(columns_from_arrays(columns, n), index=range(n))
    frame = with_roles(frame, named, repr(user_path), source)
    if "source" not in frame.columns:
        example = 'arrays = { north = "north.npz", … }'
        raise no_source(list(frame.columns), repr(user_path), example, path=user_path)
    if "id" not in frame.columns:
        frame["id"] = [f"{name}/{row}" for row, name in enumerate(frame["source"].astype(str))]
    return frame, shape[0] if shape else None


def _open_npz(
    file: str, user_path: str
) -> tuple[dict[str, npt.NDArray[Any]], tuple[int, ...] | None]:
    """Read every array but the images, and the shape of these."""
    if not os.path.exists(file):
        raise ConfigError(
            f"the file {user_path!r} does not exist.{near_names(file)}", path=user_path
        )
    check_regular(file, ConfigError)
    columns, shape = dict[str, npt.NDArray[Any]](), None
    with damage_named(user_path, "an .npz file of NumPy arrays"), opened_zip(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                if name == IMAGES:
                    shape = _npy_header(stream, member.file_size)[0]
                else:
                    columns[name] = _read_member(stream, member.file_size)
    if shape is not None and len(shape) not in (3, 4):
        raise DataError(
            f"{IMAGES!r} of {user_path!r} must have shape (n, height, width) or (n, height, width, "
            f"channels); got {shape}.",
            path=user_path,
            column=IMAGES,
            value=list(shape),
        )
    scalars = [name for name, values in columns.items() if values.ndim == 0]
    if scalars:
        raise DataError(
            f"the arrays of {user_path!r} have one entry for each image; {first_few(scalars)} is a "
            "single value.",
            path=user_path,
            columns=scalars,
        )
    return columns, shape
