"""Read CIFAR-10 and CIFAR-100 packed as sheets of a thousand images.

A folder holds ``train-000.webp`` …, ``test-000.webp`` … (25 rows of 40 tiles of 32 × 32 pixels,
filled row by row; tile t of sheet s is image 1000 s + t), ``labels.npz`` (uint8 ``train``,
``test``) and ``classes.txt`` (line y names label y).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError
from unskew.records import Ints

Split = Literal["train", "test"]
SIDE = 32
ROWS, COLUMNS = 25, 40
PER_SHEET = ROWS * COLUMNS


def list_sheets(folder: Path, split: Split) -> list[Path]:
    """List the sheets of a split in order, one for every thousand labels.

    Missing sheets are an error.
    """
    if not (folder / "labels.npz").is_file():
        raise DataError(
            f"{folder} has no labels.npz: is this a folder of CIFAR as sheets?", path=str(folder)
        )
    sheets = sorted(folder.glob(f"{split}-*.webp"))
    count = len(read_labels(folder, split))
    if len(sheets) * PER_SHEET != count:
        raise DataError(
            f"{folder} has {count} labels of {split} images but {len(sheets)} sheets of "
            f"{PER_SHEET}: the copy is not complete.",
            path=str(folder),
            count=len(sheets),
            limit=count,
        )
    return sheets


def read_sheet(path: Path) -> npt.NDArray[np.uint8]:
    """Read the (1000, 32, 32, 3) images of one sheet."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image: {error}", path=str(path)) from error
    if pixels.shape != (ROWS * SIDE, COLUMNS * SIDE, 3):
        raise DataError(
            f"{path} has {pixels.shape[1]} × {pixels.shape[0]} pixels; a sheet has "
            f"{COLUMNS * SIDE} × {ROWS * SIDE}.",
            path=str(path),
            value=[pixels.shape[1], pixels.shape[0]],
            allowed=[COLUMNS * SIDE, ROWS * SIDE],
        )
    tiles = pixels.reshape(ROWS, SIDE, COLUMNS, SIDE, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles).reshape(PER_SHEET, SIDE, SIDE, 3)


def read_labels(folder: Path, split: Split) -> Ints:
    """Read the (n,) label codes of a split."""
    try:
        with np.load(folder / "labels.npz") as arrays:
            return np.asarray(arrays[split], dtype=np.int64)
    except KeyError as error:
        raise DataError(
            f"{folder / 'labels.npz'} has no array {split!r}.", path=str(folder), key=split
        ) from error
