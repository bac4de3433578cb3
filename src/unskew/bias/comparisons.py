"""Which columns are compared between which sources: those that have a value for every image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unskew.bias.features import check_columns
from unskew.bias.probe_functions import Column, read_column
from unskew.errors import DataError, first_few
from unskew.records import Bools, Ints

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Comparison:
    """Some sources, and the columns that all of their images have.

    sources : (K,) whether a source is compared.
    columns : that these sources have.
    alone : names of those that no comparison of more sources has: they are tested by themselves.
    """

    sources: Bools = field(repr=False)
    columns: tuple[Column, ...]
    alone: tuple[str, ...]


def find_comparisons(
    frame: pd.DataFrame, source_r: Ints, names: Sequence[str], columns: Sequence[str]
) -> tuple[list[Comparison], tuple[str, ...]]:
    """Find the comparisons, that of most sources first, and sentences on what is left out.

    A source in which some images lack a value counts as one without the column: which images have
    one may depend on the source, and then the values of the others say nothing about ω.
    """
    check_columns(frame, list(columns))
    count_k = np.bincount(source_r, minlength=len(names))
    found: dict[tuple[bool, ...], list[str]] = {}
    notes = []
    for name in columns:
        missing_r = frame[name].isna().to_numpy(dtype=np.bool_)
        lacking_k = np.bincount(source_r[missing_r], minlength=len(names))
        has_k = (lacking_k == 0) & (count_k > 0)
        notes += _notes(name, has_k, lacking_k, count_k, names)
        if has_k.sum() > 1 or has_k.all():
            found.setdefault(tuple(has_k.tolist()), []).append(name)
    if not found:
        raise DataError(
            "there is no column to compare the sources by: "
            f"{first_few(list(columns)) or 'the pool has none'} (a column is compared between "
            "sources in which every image has a value, at least two of them).",
            columns=list(columns),
        )
    order = sorted(found, key=lambda pattern: (-sum(pattern), pattern))
    comparisons = []
    for pattern in order:
        has_k = np.array(pattern)
        shared = [name for own in order if _is_within(pattern, own) for name in found[own]]
        has_r = has_k[source_r]
        # In the order in which they were named.
        read = tuple(read_column(frame, name, has_r) for name in columns if name in shared)
        comparisons.append(Comparison(has_k, read, tuple(found[pattern])))
    return comparisons, tuple(notes)


def _is_within(pattern: tuple[bool, ...], other: tuple[bool, ...]) -> bool:
    return all(has or not own for own, has in zip(pattern, other, strict=True))


def _notes(
    name: str, has_k: Bools, lacking_k: Ints, count_k: Ints, names: Sequence[str]
) -> list[str]:
    if not lacking_k.any():
        return []
    without = [f"`{names[k]}`" for k in np.flatnonzero(lacking_k == count_k).tolist()]
    partly = [
        f"`{names[k]}`" for k in np.flatnonzero((lacking_k > 0) & (lacking_k < count_k)).tolist()
    ]
    why = " and ".join(
        [f"{first_few(without)} has none"] * bool(without)
        + [f"some images of {first_few(partly)} have none"] * bool(partly)
    )
    if has_k.sum() > 1:
        return [f"{name} is compared between the other sources only: {why}."]
    return [f"{name} is not compared: {why}."]
