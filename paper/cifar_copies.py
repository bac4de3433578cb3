"""Read one copy of CIFAR, in whichever layout it came: images, labels and names of the classes.

Official archives go through ``unskew.sources.cifar``; packed sheets through ``paper.cifar_sheets``.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paper.cifar_sheets import PER_SHEET, SIDE, Split, list_sheets, read_labels, read_sheet
from unskew.errors import DataError
from unskew.records import Ints
from unskew.sources.cifar import class_names, read_part
from unskew.sources.cifar_files import find_cifar

# Images are handed out in blocks of as many as a sheet holds.
BLOCK = PER_SHEET
N_CLASSES = {"cifar10": 10, "cifar100": 100}
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


@dataclass(frozen=True, eq=False)
class CifarSplit:
    """One split of a data set.

    Attributes
    ----------
    name : "cifar10" or "cifar100".
    split : "train" or "test".
    images : (n, 32, 32, 3) uint8, RGB, in the order of the copy.
    label : (n,) codes, indices into ``classes``.
    classes : names of the M classes.
    """

    name: str
    split: str
    images: npt.NDArray[np.uint8] = field(repr=False)
    label: Ints = field(repr=False)
    classes: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class CifarCopy(ABC):
    """A data set on disk. ``path`` is its folder or file."""

    name: str
    path: Path

    @abstractmethod
    def files(self, split: Split) -> list[Path]:
        """List the files of a split; a change of one is a change of the copy."""

    @abstractmethod
    def labels(self, split: Split) -> Ints:
        """Read the (n,) label codes of a split."""

    @abstractmethod
    def blocks(self, split: Split) -> int:
        """Count the blocks of a thousand images."""

    @abstractmethod
    def block(self, split: Split, at: int) -> npt.NDArray[np.uint8]:
        """Read the (≤ 1000, 32, 32, 3) images of one block."""

    @abstractmethod
    def read(self, split: Split) -> CifarSplit:
        """Read a split, all of its images in memory (150 MB for 50,000)."""

    def images(self, split: Split) -> Iterator[npt.NDArray[np.uint8]]:
        """Read the images block by block."""
        return (self.block(split, at) for at in range(self.blocks(split)))

    def stamp(self) -> str:
        """Return name, size and time of every file."""
        return ";".join(
            f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}"
            for split in ("train", "test")
            for file in self.files(split)
        )


class SheetCopy(CifarCopy):
    """Sheets of a thousand images, which can be read one by one."""

    def files(self, split: Split) -> list[Path]:
        return [self.path / "labels.npz", *list_sheets(self.path, split)]

    def labels(self, split: Split) -> Ints:
        return read_labels(self.path, split)

    def blocks(self, split: Split) -> int:
        return len(list_sheets(self.path, split))

    def block(self, split: Split, at: int) -> npt.NDArray[np.uint8]:
        return read_sheet(list_sheets(self.path, split)[at])

    def read(self, split: Split) -> CifarSplit:
        classes = tuple((self.path / "classes.txt").read_text(encoding="utf-8").split())
        images = [read_sheet(path) for path in list_sheets(self.path, split)]
        return _checked(self, split, np.concatenate(images), self.labels(split), classes)


class LoadedCopy(CifarCopy):
    """A copy whose splits are read at once; the last one is kept."""

    def labels(self, split: Split) -> Ints:
        return _loaded(self, split).label

    def blocks(self, split: Split) -> int:
        return -(-len(_loaded(self, split).label) // BLOCK)

    def block(self, split: Split, at: int) -> npt.NDArray[np.uint8]:
        return _loaded(self, split).images[at * BLOCK : (at + 1) * BLOCK]

    def read(self, split: Split) -> CifarSplit:
        return _loaded(self, split)

    @abstractmethod
    def load(self, split: Split) -> CifarSplit:
        """Read a split from its files."""


@lru_cache(maxsize=2)
def _loaded(copy: LoadedCopy, split: Split) -> CifarSplit:
    return copy.load(split)


class ArchiveCopy(LoadedCopy):
    """An official archive, pickled or binary, or the folder it unpacks to (torchvision's)."""

    def files(self, split: Split) -> list[Path]:
        if self.path.is_dir():
            return sorted(path for path in self.path.iterdir() if path.is_file())
        return [self.path]

    def load(self, split: Split) -> CifarSplit:
        distribution, content = find_cifar(str(self.path), str(self.path), False)
        if distribution.data.replace("-", "") != self.name:
            raise DataError(
                f"{self.path} holds the files of {distribution.data}, and should hold those of "
                f"{self.name}: keep each data set in a folder of its own.",
                path=str(self.path),
                value=distribution.data,
            )
        classes = class_names(distribution, content, str(self.path))["class"]
        part = read_part(distribution, split, content, str(self.path))
        return _checked(self, split, part.images, part.codes["class"], tuple(classes))


@dataclass(frozen=True)
class TableCopy(LoadedCopy):
    """Hugging Face's Parquet or Arrow files: a column of encoded images, a column of labels."""

    parts: tuple[tuple[str, tuple[Path, ...]], ...]

    def files(self, split: Split) -> list[Path]:
        return list(dict(self.parts)[split])

    def load(self, split: Split) -> CifarSplit:
        names: tuple[str, ...] = ()
        codes, pictures = list[Ints](), list[npt.NDArray[np.uint8]]()
        for file in self.files(split):
            table = read_arrow(file)
            columns = arrow_columns(table.schema, self.name)
            if columns is None:
                raise DataError(
                    f"{file} has no column of images with the labels of {self.name}; it has "
                    f"{', '.join(table.schema.names)}.",
                    path=str(file),
                )
            image, label = columns
            names = names or _arrow_names(table.schema, label)
            codes.append(table.column(label).to_numpy().astype(np.int64))
            pictures += [
                _decoded(cell.get("bytes"), f"{file}, row {row}")
                for row, cell in enumerate(table.column(image).to_pylist())
            ]
        classes = names or tuple(str(code) for code in range(N_CLASSES[self.name]))
        return _checked(
            self, split, _stacked(self, split, pictures), np.concatenate(codes), classes
        )


class FolderCopy(LoadedCopy):
    """A folder for each class below ``train`` and ``test``, as torchvision's ImageFolder reads."""

    def files(self, split: Split) -> list[Path]:
        return [
            file
            for folder in class_folders(self.path / split)
            for file in sorted(folder.iterdir())
            if file.suffix.lower() in IMAGE_SUFFIXES
        ]

    def load(self, split: Split) -> CifarSplit:
        # Codes are those of the training split, so that both splits agree.
        names = tuple(folder.name for folder in class_folders(self.path / "train"))
        code = {name: at for at, name in enumerate(names)}
        files = self.files(split)
        unknown = next((file for file in files if file.parent.name not in code), None)
        if unknown is not None:
            raise DataError(
                f"{unknown.parent} is a class that the training images lack.",
                path=str(unknown.parent),
            )
        label_n = np.array([code[file.parent.name] for file in files], dtype=np.int64)
        pictures = [_decoded(file.read_bytes(), str(file)) for file in files]
        return _checked(self, split, _stacked(self, split, pictures), label_n, names)


def class_folders(folder: Path) -> list[Path]:
    """List the folders of the classes, in the order of their names."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


def read_arrow(file: Path) -> Any:
    """Read a table from a Parquet file or an Arrow stream."""
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet

    try:
        if file.suffix == ".parquet":
            return pyarrow.parquet.ParquetFile(file).read()
        with pa.memory_map(str(file)) as stream:
            return pyarrow.ipc.open_stream(stream).read_all()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read as a table: {error}", path=str(file)) from error


def read_schema(file: Path) -> Any:
    """Read the columns of a table, and nothing else where the format allows that."""
    import pyarrow.parquet

    if file.suffix == ".parquet":
        try:
            return pyarrow.parquet.read_schema(file)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{file} cannot be read as a table: {error}", path=str(file)) from error
    return read_arrow(file).schema


def arrow_columns(schema: Any, name: str) -> tuple[str, str] | None:
    """Return the columns of images and labels, or None if they are not those of this data set."""
    import pyarrow as pa

    image = next(
        (
            column.name
            for column in schema
            if pa.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0
        ),
        None,
    )
    label = "fine_label" if name == "cifar100" else "label"
    if image is None or label not in schema.names:
        return None
    names = _arrow_names(schema, label)
    return None if names and len(names) != N_CLASSES[name] else (image, label)


def _arrow_names(schema: Any, label: str) -> tuple[str, ...]:
    """Return the names of the classes that Hugging Face keeps in the schema, if it does."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        return tuple(kept["info"]["features"][label]["names"])
    except (KeyError, TypeError, ValueError):
        return ()


def split_of(file: Path) -> str | None:
    """Return the split that a file's name or folder tells, as Hugging Face names them."""
    if file.parent.name in ("train", "test"):
        return file.parent.name
    found = re.search(r"(?:^|[-_.])(train|test)(?=[-_.])", file.name)
    return found.group(1) if found else None


def _decoded(content: bytes | None, where: str) -> npt.NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content or b"")) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError) as error:
        raise DataError(f"{where} cannot be read as an image: {error}", path=where) from error


def _stacked(
    copy: CifarCopy, split: str, pictures: Sequence[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.uint8]:
    odd = next((picture for picture in pictures if picture.shape != (SIDE, SIDE, 3)), None)
    if odd is not None:
        raise DataError(
            f"{copy.path} has a {split} image of {odd.shape[1]} × {odd.shape[0]} pixels; CIFAR's "
            f"have {SIDE} × {SIDE}.",
            path=str(copy.path),
            value=[odd.shape[1], odd.shape[0]],
            allowed=[SIDE, SIDE],
        )
    return np.stack(pictures) if pictures else np.empty((0, SIDE, SIDE, 3), dtype=np.uint8)


def _checked(
    copy: CifarCopy,
    split: str,
    images: npt.NDArray[np.uint8],
    label_n: Ints,
    classes: tuple[str, ...],
) -> CifarSplit:
    """Refuse an empty split, and labels without a name."""
    if not label_n.size:
        raise DataError(f"{copy.path} has no {split} images.", path=str(copy.path), value=split)
    if not 0 <= label_n.min() <= label_n.max() < len(classes):
        raise DataError(
            f"{copy.path} has labels up to {label_n.max()} but names for {len(classes)} classes "
            "only.",
            path=str(copy.path),
            value=int(label_n.max()),
            count=len(classes),
        )
    return CifarSplit(copy.name, split, images, label_n, classes)
