"""One image of every group: images of a group, and copies of an image, are one unit."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.records.arrays import Bools, Floats, Ints
from unskew.records.levels import level_text
from unskew.splits.folds import unit_or_row

if TYPE_CHECKING:
    import pandas as pd


def draw_units(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Draw one image of every unit: ((m,) rows, in random order, (m,) images of the unit).

    The order of the rows says nothing then: a folder lists its classes one after the other.
    """
    unit_n = unit_or_row(frame)
    shuffled = rng.permutation(len(frame))
    _, first_m, size_m = np.unique(unit_n[shuffled], return_index=True, return_counts=True)
    order = np.argsort(first_m)
    return shuffled[first_m[order]], size_m[order].astype(np.float64)


@dataclass(frozen=True)
class KnownImages:
    """Images that were counted before or are part of the run: ids, contents and groups."""

    ids: frozenset[str]
    contents: frozenset[Hashable]
    groups: frozenset[str]

    def find(self, frame: pd.DataFrame) -> tuple[Bools, Bools]:
        """Return ((n,) is this image known?, (n,) does it belong to a unit that is?).

        Contents decide where they are known: cameras use a name again.
        """
        known_n = np.array([level_text(name) in self.ids for name in frame["id"].tolist()])
        if "content" in frame.columns and self.contents:
            content_n = frame["content"]
            same_n = content_n.isin(self.contents).to_numpy()
            known_n = np.where(content_n.notna().to_numpy(), same_n, known_n)
        return known_n.astype(np.bool_), _is_in(frame, self.groups)


def known_images(*frames: pd.DataFrame) -> KnownImages:
    """Collect what is known from tables with an id, and content and group where they exist."""
    return KnownImages(
        frozenset(level_text(name) for frame in frames for name in frame["id"].tolist()),
        frozenset(value for frame in frames for value in _present(frame, "content")),
        frozenset(level_text(value) for frame in frames for value in _present(frame, "group")),
    )


def _present(frame: pd.DataFrame, name: str) -> list[Any]:
    return frame[name].dropna().tolist() if name in frame.columns else []


def _is_in(frame: pd.DataFrame, groups: frozenset[str]) -> Bools:
    if "group" not in frame.columns or not groups:
        return np.zeros(len(frame), dtype=np.bool_)
    return np.array(
        [
            not missing and level_text(value) in groups
            for value, missing in zip(frame["group"].tolist(), frame["group"].isna(), strict=True)
        ],
        dtype=np.bool_,
    )
