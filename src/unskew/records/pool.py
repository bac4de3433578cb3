"""`Pool`, and where the pixels of its images are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Amount, WholeNumbers, checked
from unskew.errors import ImageError, short_name
from unskew.records.arrays import Codes, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

# An image as it is stored: the bytes of an encoded file (JPEG, PNG …), or its pixels, (height,
# width) or (height, width, 1, 3 or 4).
RawImage = bytes | npt.NDArray[Any]


def eight_bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return pixels as 8-bit numbers, or raise `ImageError`.

    Floating numbers are in [0, 1] and are multiplied by 255; of 16 bits the upper 8 are kept.
    """
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise ImageError(
            f"pixels are numbers; {array.dtype} are not numbers that an image can have"
        )
    lowest, highest = float(array.min()), float(array.max())
    if np.issubdtype(array.dtype, np.floating):
        if not (lowest >= 0 and highest <= 1):
            raise ImageError(
                f"floating pixels must be in [0, 1], but these are in [{lowest:.4g}, "
                f"{highest:.4g}]; leave out a transform that normalises them"
            )
        eight = np.empty(array.shape, dtype=np.uint8)
        for line in range(len(array)):  # one at a time: as float64 a large image takes 8 times more
            eight[line] = np.rint(array[line].astype(np.float64) * 255.0)
        return eight
    if lowest < 0 or highest > 65535:
        raise ImageError(
            "integer pixels must be between 0 and 255, or 65535 with 16 bits; these are between "
            f"{lowest:.0f} and {highest:.0f}"
        )
    # 16-bit images come as uint16; of a signed or wider type the values tell the depth.
    return (array >> 8 if array.dtype == np.uint16 or highest > 255 else array).astype(np.uint8)


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

    def take(self, rows: Ints) -> Images:
        """Return the images of these rows, in this order."""
        return ChosenImages(self, np.asarray(rows, dtype=np.int64))

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


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """The images of all sources in one table, one row for each.

    ``Pool(frame)`` checks that every image has a source and a unique id: weights are joined to
    images by id, never by row order.

    Attributes
    ----------
    frame : pandas DataFrame with the columns id, source (categorical), and where known label,
        group, split, path (of the image file, as the user writes it), content (a hash: the same
        for exact copies), design_weight (the inverse of the chance with which the source drew the
        image from its own frame, up to a factor; 0 leaves it out); then attributes and features.
    images : the pixels, one image for each row, read when they are needed; None for a table alone.
    set_aside : images that exist but cannot be used: id, source, path, reason. They are not in
        ``frame``. None: there are none.
    """

    frame: pd.DataFrame
    images: Images | None = None
    set_aside: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        from unskew.records.pool_table import check_image_count, checked_frame

        object.__setattr__(self, "frame", checked_frame(self.frame))
        check_image_count(self)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        source: str = "source",
        label: str | None = "label",
        id: str | None = None,
        group: str | None = None,
        split: str | None = None,
        design_weight: str | None = None,
    ) -> Pool:
        """Make a pool of a table, given the names of its columns; they are renamed to their roles.

        Without ``id``, a column of that name is used, else the index. Labels are optional. Sources
        keep the order of their categories, or of first appearance.
        """
        from unskew.records.pool_table import pool_from_frame

        return pool_from_frame(frame, source, label, id, group, split, design_weight)

    @classmethod
    def from_arrays(
        cls,
        source: npt.ArrayLike,
        label: Sized | None = None,
        *,
        images: Sized | None = None,
        **columns: Sized | None,
    ) -> Pool:
        """Make a pool of arrays, one for each column (id, group, split, design_weight among them).

        ``x`` of shape (n, d) becomes the columns x_0, x_1, … ``images``: the pixels, an array
        (n, height, width[, channels]) or a sequence of arrays, Pillow images or encoded bytes.
        """
        from unskew.records.pool_table import pool_from_arrays

        return pool_from_arrays(source, label, columns, images)

    @classmethod
    def from_folders(
        cls,
        folders: Mapping[Any, Any],
        *,
        label: Any = None,
        id: str | None = None,
        group: Any = None,
        split: Any = None,
    ) -> Pool:
        """Read one folder of images for each source, ``{name: folder}``.

        No image is opened before it is needed. Labels are the names of the class subfolders;
        ``label``, ``id``, ``group`` and ``split`` may name columns of a metadata.csv in the folder,
        and group may be a part of the file name, ``{"regex": "^(sku[0-9]+)"}``. See
        `unskew.sources.folder.read_folders`.
        """
        from unskew.sources.readers import reader_of

        return reader_of("folders")(folders, label=label, id=id, group=group, split=split)

    @classmethod
    def from_manifest(cls, manifest: Any, **settings: Any) -> Pool:
        """Read the images that a table lists (CSV, TSV, JSONL, Parquet, COCO); or ``{name: table}``

        The settings are columns (source, label, id, group, split, path, design_weight), root,
        images, allow_outside, label_separator, labels, delimiter; see
        `unskew.sources.manifest.read_manifest`.
        """
        from unskew.sources.readers import read_named

        return read_named("manifest", manifest, **settings)

    @classmethod
    def from_parquet(
        cls,
        paths: Any,
        *,
        source: str | None = None,
        label: str | None = "label",
        id: str | None = "id",
        group: str | None = None,
        split: str | None = None,
        design_weight: str | None = None,
        features: Any = None,
        block_rows: Amount | None = None,
        engine: Any = None,
    ) -> Pool:
        """Make a pool over Parquet parts, which is read block by block and never as a whole.

        Its ``names`` and ``sizes`` stream, `unskew.debias` weighs it without collecting it, and
        ``sample(n)`` is an ordinary pool; ``frame`` raises. Every part has the same columns; ids
        are unique over all parts.

        Parameters
        ----------
        paths : a folder of parts, a glob, a file, a URI of such (s3://, gs://), or several; or
            ``{source: one of these}``.
        source, label, id, group, split, design_weight : names of columns, renamed to their roles.
        features : parts with more columns of the same images, such as embeddings: one for each part
            of ``paths``, with the same ids in the same order; or ``{"file": them, "id": column}``.
        block_rows : rows of a block, about; default 2^20.
        engine : where blocks are computed: "local" (threads; the default), "dask", the address of a
            Dask scheduler, a Dask Client, or any `concurrent.futures.Executor`.
        """
        from unskew.sources.readers import reader_of

        roles = {"label": label, "id": id, "group": group, "split": split}
        roles |= {"source": source, "design_weight": design_weight}
        return reader_of("parquet")(
            paths, **roles, features=features, block_rows=block_rows, engine=engine
        )

    @classmethod
    def from_coco(cls, file: Any, **settings: Any) -> Pool:
        """Read the images of a COCO or COCO Camera Traps file, one row for each.

        The settings are those of `from_manifest`, and several. See
        `unskew.sources.coco.coco_table` for the labels, and
        `unskew.sources.coco.annotation_weights` for the weights of boxes.
        """
        return cls.from_manifest(file, **settings)

    @classmethod
    def from_dataset(
        cls, datasets: Any, *, label: Any = None, source: Any = None, **columns: Any
    ) -> Pool:
        """Read datasets like those of torch, ``{name: dataset}``.

        A dataset has a length and items (image, label); images are fetched when needed. See
        `unskew.sources.dataset.read_dataset`.
        """
        from unskew.sources.readers import reader_of

        return reader_of("dataset")(datasets, label=label, source=source, **columns)

    @classmethod
    def from_cifar(cls, place: Any, **settings: Any) -> Pool:
        """Read the official CIFAR-10 or CIFAR-100 archive, packed or unpacked.

        ``download=True`` fetches it. See `unskew.sources.cifar`.
        """
        from unskew.sources.readers import reader_of

        return reader_of("cifar")(place, **settings)

    @classmethod
    def from_huggingface(cls, dataset: Any, **settings: Any) -> Pool:
        """Read a Hugging Face dataset: the object, a folder, or a name; or ``{name: dataset}``.

        See `unskew.sources.huggingface`.
        """
        from unskew.sources.readers import read_named

        return read_named("huggingface", dataset, **settings)

    def take(self, rows: WholeNumbers) -> Pool:
        """Return the images of these rows (positions, or a mask), in this order.

        Sources keep their names; those without images are dropped, and so is ``set_aside``, which
        belongs to the whole pool.
        """
        from unskew.records.pool_table import take_pool_rows

        return take_pool_rows(self, rows)

    def with_columns(self, columns: Mapping[str, Any]) -> Pool:
        """Return the same images with columns added or replaced, one entry for each row."""
        from dataclasses import replace

        return replace(self, frame=self.frame.assign(**columns))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that have no role: attributes and features."""
        from unskew.records.pool_table import ROLES

        return tuple(str(name) for name in self.frame.columns if name not in ROLES)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{short_name(name)} {size}"
            for name, size in zip(self.names[:8], self.sizes.tolist(), strict=False)
        )
        return (
            f"Pool({len(self)} images from {len(self.names)} sources: "
            f"{sizes}{' …' if len(self.names) > 8 else ''})"
        )

    def _repr_html_(self) -> str:
        from unskew.report.notebook import pool_html

        return pool_html(self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the K sources."""
        return tuple(self.frame["source"].cat.categories)

    @cached_property
    def source(self) -> Codes:
        """(n,) code of each image's source, an index into ``names``."""
        return np.asarray(self.frame["source"].cat.codes, dtype=np.int32)

    @cached_property
    def design_weight(self) -> Floats | None:
        """(n,) design weights, mean 1 over the images of each source that have one above 0.

        None where there are none, or all images of a source have the same: that says nothing.
        """
        from unskew.records.design_weights import DESIGN_WEIGHT, scale_design_weights

        if DESIGN_WEIGHT not in self.frame.columns:
            return None
        design_n = self.frame[DESIGN_WEIGHT].to_numpy()
        return scale_design_weights(design_n, self.source, self.names)

    @property
    def sizes(self) -> Ints:
        """(K,) n_k, number of images of each source."""
        return np.bincount(self.source, minlength=len(self.names)).astype(np.int64)
