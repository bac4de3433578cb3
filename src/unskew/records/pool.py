"""The images of all sources in one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.records.arrays import Codes, Ints

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """The images of all sources in one table, one row for each.

    ``Pool(frame)`` checks: every image has a source, and an id that no other has (weights are joined to images by id, never by row order).

    Attributes
    ----------
    frame : pandas DataFrame with the columns id, source (categorical), and where known label, group, split; then attributes and features.
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        from unskew.pooling import checked_frame

        object.__setattr__(self, "frame", checked_frame(self.frame))

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

        Without ``id`` a column of that name is taken, else the index. Labels are optional. Sources keep the order of their categories,
        or of first appearance.
        """
        from unskew.pooling import pool_from_frame

        return pool_from_frame(frame, source, label, id, group, split)

    @classmethod
    def from_arrays(cls, source: Any, label: Any = None, **columns: Any) -> Pool:
        """One array for each column (id, group and split among them); ``x`` of shape (n, d) becomes the columns x_0, x_1, …"""
        from unskew.pooling import pool_from_arrays

        return pool_from_arrays(source, label, columns)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in zip(self.names[:8], self.sizes.tolist(), strict=False))
        return f"Pool({len(self)} images from {len(self.names)} sources: {sizes}{' …' if len(self.names) > 8 else ''})"

    @property
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
