"""The images of all sources in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.records.arrays import Codes, Ints
from unskew.records.images import Images

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """The images of all sources in one table, one row for each.

    ``Pool(frame)`` checks: every image has a source, and an id that no other has (weights are
    joined to images by id, never by row order).

    Attributes
    ----------
    frame : pandas DataFrame with the columns id, source (categorical), and where known label,
        group, split, path (where the image lies, as the user writes it), content (a hash: the same
        for exact copies); then attributes and features.
    images : the pixels, one image for each row, read when they are needed; None for a table alone.
    set_aside : images that were found but cannot be used: id, source, path, reason. They are not in
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
    ) -> Pool:
        """A table whose columns have the given names; they are renamed to their roles.

        Without ``id`` a column of that name is taken, else the index. Labels are optional. Sources
        keep the order of their categories, or of first appearance.
        """
        from unskew.records.pool_table import pool_from_frame

        return pool_from_frame(frame, source, label, id, group, split)

    @classmethod
    def from_arrays(
        cls, source: Any, label: Any = None, *, images: Any = None, **columns: Any
    ) -> Pool:
        """One array for each column (id, group and split among them); ``x`` of shape (n, d) becomes
        the columns x_0, x_1, …

        ``images``: the pixels, an array (n, height, width[, channels]) or a sequence of arrays,
        images of Pillow or encoded bytes.
        """
        from unskew.records.pool_table import pool_from_arrays

        return pool_from_arrays(source, label, columns, images)

    @classmethod
    def from_folders(
        cls,
        folders: Mapping[str, Any],
        *,
        label: Any = None,
        id: str | None = None,
        group: Any = None,
        split: Any = None,
    ) -> Pool:
        """One folder of images for each source, ``{name: folder}``; nothing is opened before it is
        needed.

        Labels are the names of the class subfolders, or ``label``, ``id``, ``group`` and ``split``
        columns of a metadata.csv beside the images; group may be ``{"regex": "^(sku[0-9]+)"}``, a
        part of the file name. See `unskew.sources.folder.read_folders`.
        """
        from unskew.sources.folder import read_folders

        return read_folders(folders, label=label, id=id, group=group, split=split)

    @classmethod
    def from_manifest(cls, manifest: Any, **settings: Any) -> Pool:
        """The images that a table lists (CSV, TSV, JSONL, Parquet, COCO), or ``{name: table}``.

        The settings are columns (source, label, id, group, split, path), root, images,
        allow_outside, label_separator, delimiter; see `unskew.sources.manifest.read_manifest`.
        """
        from unskew.sources.manifest import read_manifest

        return read_manifest(manifest, **settings)

    @classmethod
    def from_coco(cls, file: Any, **settings: Any) -> Pool:
        """The images of a COCO or COCO Camera Traps file, one row each; settings as of
        `from_manifest`, and several.

        See `unskew.sources.coco.coco_table` for the labels, and
        `unskew.sources.coco.annotation_weights` for the weights of boxes.
        """
        from unskew.sources.manifest import read_manifest

        return read_manifest(file, **settings)

    @classmethod
    def from_dataset(
        cls, datasets: Any, *, label: Any = None, source: Any = None, **columns: Any
    ) -> Pool:
        """Datasets in the manner of torch, ``{name: dataset}``: a length, and items (image, label);
        images are fetched when needed.

        See `unskew.sources.dataset.read_dataset`.
        """
        from unskew.sources.dataset import read_dataset

        return read_dataset(datasets, label=label, source=source, **columns)

    @classmethod
    def from_cifar(cls, place: Any, **settings: Any) -> Pool:
        """The official CIFAR-10 or CIFAR-100 archive, packed or unpacked; ``download=True`` fetches
        it. See `unskew.sources.cifar`.
        """
        from unskew.sources.cifar import read_cifar

        return read_cifar(place, **settings)

    @classmethod
    def from_huggingface(cls, dataset: Any, **settings: Any) -> Pool:
        """A Hugging Face dataset: the object, a folder, or a name to fetch; or ``{name: dataset}``.
        See `unskew.sources.huggingface`.
        """
        from unskew.sources.huggingface import read_huggingface

        return read_huggingface(dataset, **settings)

    def take(self, rows: Any) -> Pool:
        """The images of these rows (positions, or a mask), in this order; sources keep their names,
        and those without images go.

        What was set aside stays with the whole, not with a part of it.
        """
        from unskew.records.pool_table import take_pool_rows

        return take_pool_rows(self, rows)

    def with_columns(self, columns: Mapping[str, Any]) -> Pool:
        """The same images with more columns, or other values in some; one entry for each image, in
        the order of the rows.
        """
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
            f"{name} {size}"
            for name, size in zip(self.names[:8], self.sizes.tolist(), strict=False)
        )
        return (
            f"Pool({len(self)} images from {len(self.names)} sources: "
            f"{sizes}{' …' if len(self.names) > 8 else ''})"
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the K sources."""
        return tuple(self.frame["source"].cat.categories)

    @cached_property
    def source(self) -> Codes:
        """(n,) code of each image's source, an index into ``names``."""
        return np.asarray(self.frame["source"].cat.codes, dtype=np.int32)

    @property
    def sizes(self) -> Ints:
        """(K,) n_k, number of images of each source."""
        return np.bincount(self.source, minlength=len(self.names)).astype(np.int64)
