"""Read CIFAR-10 and CIFAR-100 packed as sheets of a thousand images.

A folder holds ``train-000.webp`` …, ``test-000.webp`` … (25 rows of 40 tiles of 32 × 32 pixels,
filled row by row; tile t of sheet s is image 1000 s + t), ``labels.npz`` (uint8 ``train``,
``test``) and ``classes.txt`` (line y names label y). The archives as they are distributed go
through ``unskew.sources.cifar``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError
from unskew.records import Ints

Split = Literal["train", "test"]
SIDE = 32
ROWS, COLUMNS = 25, 40
PER_SHEET = ROWS * COLUMNS
# The environment variable that names the folder of the data.
VARIABLE = "UNSKEW_DATA"


@dataclass(frozen=True, eq=False)
class Sheets:
    """One split of a data set.

    Attributes
    ----------
    name : "cifar10" or "cifar100", the folder's.
    split : "train" or "test".
    images : (n, 32, 32, 3) uint8, RGB, in the official order.
    label : (n,) codes, indices into ``classes``.
    classes : names of the M classes.
    """

    name: str
    split: str
    images: npt.NDArray[np.uint8] = field(repr=False)
    label: Ints = field(repr=False)
    classes: tuple[str, ...] = field(repr=False)


def find_data(folder: str | Path | None = None, fallback: Path | None = None) -> Path | None:
    """Return the folder that holds cifar10/ and cifar100/, or None.

    It is ``folder``, else the one that the variable UNSKEW_DATA names, else ``fallback``. A named
    folder without them is an error; the fallback may lack them.
    """
    named = folder or os.environ.get(VARIABLE)
    if named is not None:
        if not any(
            (Path(named) / name / "labels.npz").is_file() for name in ("cifar10", "cifar100")
        ):
            way_out = "." if folder else f", or leave the variable {VARIABLE} empty."
            raise ConfigError(
                f"{named} holds neither cifar10/labels.npz nor cifar100/labels.npz. Name the "
                f"folder that holds CIFAR as sheets{way_out}",
                path=str(named),
            )
        return Path(named)
    if fallback is not None and (fallback / "cifar10" / "labels.npz").is_file():
        return fallback
    return None


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


def read_sheets(data: Path, name: str, split: Split) -> Sheets:
    """Read a split of ``data``/``name``, all of its images in memory (150 MB for 50,000)."""
    folder = data / name
    sheets = list_sheets(folder, split)
    classes = tuple((folder / "classes.txt").read_text(encoding="utf-8").split())
    label_n = read_labels(folder, split)
    if label_n.max() >= len(classes):
        raise DataError(
            f"{folder} has labels up to {label_n.max()} but names for {len(classes)} classes only.",
            path=str(folder),
            value=int(label_n.max()),
            count=len(classes),
        )
    return Sheets(
        name, split, np.concatenate([read_sheet(path) for path in sheets]), label_n, classes
    )
