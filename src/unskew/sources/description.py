"""What is in a pool, as plain numbers: the record behind ``unskew describe``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.engine.arguments import checked
from unskew.records import Ints, Pool
from unskew.records.content_keys import copies_by_source
from unskew.records.levels import MISSING, holds_lists, level_text, text_levels

if TYPE_CHECKING:
    import pandas as pd

# Levels of an attribute that are listed, the most frequent first; the others are counted.
_MOST_LEVELS = 20


@dataclass(frozen=True)
class SourceCount:
    """One source: images, their share of the pool, groups (None without), unusable images."""

    name: str
    images: int
    share: float
    groups: int | None
    unreadable: int


@dataclass(frozen=True)
class LevelCount:
    """One class, or split: how many images have it, in all and in each source.

    An image with several labels counts for each.
    """

    level: str
    images: int
    by_source: Mapping[str, int]


@dataclass(frozen=True)
class ColumnCount:
    """One column without a role: an attribute or a feature.

    Attributes
    ----------
    kind : "number", "category", or "list" (several values for one image).
    missing : images without a value.
    n_levels : number of different values.
    levels : the most frequent ones of a category, with how often each occurs.
    low, median, high : of numbers; None without any.
    median_by_source : of numbers; None for a source without any.
    """

    name: str
    kind: Literal["number", "category", "list"]
    missing: int
    n_levels: int
    levels: tuple[tuple[str, int], ...] = ()
    low: float | None = None
    median: float | None = None
    high: float | None = None
    median_by_source: Mapping[str, float | None] | None = None


@dataclass(frozen=True)
class GroupCount:
    """Images that belong together. ``shared``: groups with images in several sources."""

    groups: int
    largest: int
    shared: int


@dataclass(frozen=True)
class CopyCount:
    """``images`` of ``source`` with an exact copy in ``other``, or another one in itself."""

    source: str
    other: str
    images: int


@dataclass(frozen=True)
class ReasonCount:
    """Why images cannot be used, and how many for this reason."""

    reason: str
    images: int


@dataclass(frozen=True)
class PoolDescription:
    """What is in a pool.

    Attributes
    ----------
    images : number of usable images.
    has_pixels : whether there are images behind the table.
    sources : one for each source.
    labels : classes × sources, the most frequent first; empty without labels. ``unlabelled``:
        images without one.
    several_labels : whether an image may have several.
    splits : splits × sources; empty without splits.
    groups : None without groups.
    columns : attributes and features.
    copies : pairs of sources, and sources by themselves, that hold the same image twice; None where
        copies were not looked for.
    unreadable : images that were set aside, by reason, the most frequent first.
    """

    images: int
    has_pixels: bool
    sources: tuple[SourceCount, ...]
    labels: tuple[LevelCount, ...]
    unlabelled: int
    several_labels: bool
    splits: tuple[LevelCount, ...]
    groups: GroupCount | None
    columns: tuple[ColumnCount, ...]
    copies: tuple[CopyCount, ...] | None
    unreadable: tuple[ReasonCount, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as values that JSON can hold."""
        return asdict(self)


@checked
def describe_pool(pool: Pool) -> PoolDescription:
    """Count what is in the pool; nothing is read but its table.

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(["a", "a", "b"], label=["cat", "dog", "dog"])
    >>> [(row.level, row.images, dict(row.by_source)) for row in describe_pool(pool).labels]
    [('dog', 2, {'a': 1, 'b': 1}), ('cat', 1, {'a': 1, 'b': 0})]
    """
    frame = pool.frame
    several = "label" in frame.columns and holds_lists(frame["label"])
    return PoolDescription(
        images=len(pool),
        has_pixels=pool.images is not None,
        sources=_count_sources(pool),
        labels=_count_levels(pool, "label"),
        unlabelled=int(frame["label"].isna().sum()) if "label" in frame.columns else len(pool),
        several_labels=several,
        splits=_count_levels(pool, "split"),
        groups=_count_groups(pool),
        columns=tuple(_count_column(pool, name) for name in pool.attributes),
        copies=_count_copies(pool),
        unreadable=_count_reasons(pool.set_aside),
    )


def _count_sources(pool: Pool) -> tuple[SourceCount, ...]:
    frame = pool.frame
    groups = (
        frame.groupby("source", observed=False)["group"].nunique().to_dict()
        if "group" in frame.columns
        else {}
    )
    aside = (
        {}
        if pool.set_aside is None
        else pool.set_aside["source"].astype(str).value_counts().to_dict()
    )
    rows = [
        SourceCount(
            name,
            size,
            size / len(pool),
            groups.get(name) if groups else None,
            int(aside.pop(name, 0)),
        )
        for name, size in zip(pool.names, pool.sizes.tolist(), strict=True)
    ]
    # A source may have nothing that can be used.
    rows += [
        SourceCount(str(name), 0, 0.0, 0 if groups else None, int(count))
        for name, count in aside.items()
    ]
    return tuple(rows)


def _count_levels(pool: Pool, role: str) -> tuple[LevelCount, ...]:
    if role not in pool.frame.columns:
        return ()
    levels, code_m, source_m = _levels_and_sources(pool, pool.frame[role])
    count_lk = np.zeros((len(levels), len(pool.names)), dtype=np.int64)
    np.add.at(count_lk, (code_m, source_m), 1)
    order = np.argsort(-count_lk.sum(axis=1), kind="stable")
    return tuple(
        LevelCount(
            levels[at],
            int(count_lk[at].sum()),
            dict(zip(pool.names, count_lk[at].tolist(), strict=True)),
        )
        for at in order
        if levels[at] != MISSING
    )


def _levels_and_sources(pool: Pool, column: pd.Series[Any]) -> tuple[list[str], Ints, Ints]:
    """Return the levels, and the level and source of every value; elements of lists are values."""
    source_n = pool.source.astype(np.int64)
    if not holds_lists(column):
        return *text_levels(column, str(column.name)), source_n
    lists = [value if isinstance(value, list | tuple | np.ndarray) else [value] for value in column]
    values = [level_text(element) for value in lists for element in value]
    levels = list(dict.fromkeys(values))
    code = {level: at for at, level in enumerate(levels)}
    source_m = np.repeat(source_n, [len(value) for value in lists])
    return levels, np.array([code[value] for value in values], dtype=np.int64), source_m


def _count_groups(pool: Pool) -> GroupCount | None:
    if "group" not in pool.frame.columns:
        return None
    by_group = pool.frame.groupby("group", observed=True)["source"]
    return GroupCount(
        int(by_group.ngroups), int(by_group.size().max()), int((by_group.nunique() > 1).sum())
    )


def _count_column(pool: Pool, name: str) -> ColumnCount:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    column = pool.frame[name]
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return _count_numbers(pool, name)
    missing = int(column.isna().sum())
    levels, code_m, _ = _levels_and_sources(pool, column)
    count_l = np.bincount(code_m, minlength=len(levels))
    counted = [
        (levels[at], int(count_l[at]))
        for at in np.argsort(-count_l, kind="stable")
        if levels[at] != MISSING
    ]
    kind: Literal["list", "category"] = "list" if holds_lists(column) else "category"
    return ColumnCount(name, kind, missing, len(counted), tuple(counted[:_MOST_LEVELS]))


def _count_numbers(pool: Pool, name: str) -> ColumnCount:
    value_n = pool.frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    finite_n = np.isfinite(value_n)
    known = value_n[finite_n]
    by_source = {
        source: float(np.median(value_n[own_n]))
        if (own_n := finite_n & (pool.source == k)).any()
        else None
        for k, source in enumerate(pool.names)
    }
    low, median, high = (
        np.quantile(known, [0.0, 0.5, 1.0]).tolist() if known.size else (None, None, None)
    )
    missing, n_levels = int(np.isnan(value_n).sum()), int(np.unique(known).size)
    return ColumnCount(name, "number", missing, n_levels, (), low, median, high, by_source)


def _count_copies(pool: Pool) -> tuple[CopyCount, ...] | None:
    if "content" not in pool.frame.columns:
        return None
    _, copied_kk = copies_by_source(
        pool.frame["content"], pool.source.astype(np.int64), len(pool.names)
    )
    counted = [
        CopyCount(pool.names[k], pool.names[other], int(images))
        for k, other, images in zip(copied_kk.row, copied_kk.col, copied_kk.data, strict=True)
    ]
    return tuple(sorted(counted, key=lambda row: -row.images))


def _count_reasons(set_aside: pd.DataFrame | None) -> tuple[ReasonCount, ...]:
    if set_aside is None:
        return ()
    counts = set_aside["reason"].astype(str).value_counts(sort=True)
    return tuple(ReasonCount(str(reason), int(count)) for reason, count in counts.items())
