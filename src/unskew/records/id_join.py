"""Joining by id, never by row order: where each image is among others, or an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from unskew.errors import DataError, first_few
from unskew.records.arrays import Ints

_SHOWN = 5


def list_ids(ids: Any) -> list[Hashable]:
    """Return Python's own numbers and texts: 7 of NumPy, of torch and of Python are one id."""
    # Not through an array where it is a list: 1 and "a" together would become text.
    if isinstance(ids, list | tuple | range):
        return [name.item() if isinstance(name, np.generic) else name for name in ids]
    if hasattr(ids, "tolist"):
        return list(ids.tolist())
    return list(ids)


def find_positions(
    wanted: Sequence[Hashable], owned: Sequence[Hashable], *, of: str, among: str
) -> Ints:
    """Return (len(wanted),) the position in ``owned`` of every id of ``wanted``.

    Duplicate ids in ``owned`` and ids that it lacks are a `DataError`; ``of`` and ``among`` say
    whose ids the two are, such as "the dataset" and "the weights".
    """
    position = {name: at for at, name in enumerate(owned)}
    if len(position) < len(owned):
        refuse_duplicates(owned, among)
    missing = [name for name in wanted if name not in position]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(wanted)} ids of {of} are not among {among}: "
            f"{first_few(missing)}.{_other_type(missing[0], owned, of, among)} Were these images "
            "in the pool that was weighed, and are their ids written in the same way?",
            ids=missing[:_SHOWN],
            count=len(missing),
        )
    return np.fromiter((position[name] for name in wanted), dtype=np.int64, count=len(wanted))


def refuse_duplicates(ids: Sequence[Hashable], of: str) -> None:
    """Raise an error that names the ids that occur more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [name for name, count in Counter(ids).items() if count > 1]
    raise DataError(
        f"duplicate ids in {of} ({len(repeated)}): {first_few(repeated)}. Joining by id needs one "
        "id for each image.",
        ids=repeated[:_SHOWN],
        count=len(repeated),
    )


def refuse_extra(
    owned: Sequence[Hashable], wanted: Sequence[Hashable], *, of: str, among: str, way_out: str
) -> None:
    """Raise an error if ``owned`` has ids that ``wanted`` lacks."""
    held = set(wanted)
    extra = [name for name in owned if name not in held]
    if extra:
        raise DataError(
            f"{len(extra)} of the {len(owned)} ids of {among} are not among those of {of}: "
            f"{first_few(extra)}. {way_out}",
            ids=extra[:_SHOWN],
            count=len(extra),
        )


def _other_type(name: Hashable, owned: Sequence[Hashable], of: str, among: str) -> str:
    """Write `` Ids of the dataset are int (7), those of the weights str ('7').``, or nothing."""
    if not owned or type(name) is type(owned[0]):
        return ""
    return (
        f" Ids of {of} are {type(name).__name__} ({name!r}), those of {among} "
        f"{type(owned[0]).__name__} ({owned[0]!r})."
    )
