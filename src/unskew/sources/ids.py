"""Ids that stay the same from run to run and from machine to machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.records.arrays import is_missing


def unique_within(ids: Sequence[Any], sources: Sequence[str]) -> list[Any]:
    """Return ids that are unique across sources: those that several share become ``north/17``.

    Where no id is shared they stay as they are; else all of them are text.
    """
    first: dict[Any, str] = {}
    pairs = [(id, source) for id, source in zip(ids, sources, strict=True) if not is_missing(id)]
    shared = {id for id, source in pairs if first.setdefault(id, source) != source}
    if not shared:
        return list(ids)
    rows = zip(ids, sources, strict=True)
    return [
        None if is_missing(id) else f"{source}/{id}" if id in shared else str(id)
        for id, source in rows
    ]
