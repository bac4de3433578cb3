"""The strata of the target: how much of it each is, how much of the pool, and who sees it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unskew.records import Floats
from unskew.records.levels import MISSING
from unskew.report.summary.privacy import SMALLEST_CELL, hidden_cells, shown_size
from unskew.report.summary.record import OTHERS_WITHHELD, StratumRow
from unskew.report.summary.weighted_pool import WeightedPool
from unskew.target.strata import TargetStrata

_MOST_ROWS = 500
_MOST_NAMES = 12


@dataclass(frozen=True, eq=False)
class StratumTable:
    """The rows, and what privacy hides of them.

    rows : uncovered strata first, then from the largest target mass, those outside the target's
        scope last.
    note : how many are not shown.
    hidden : (C,) strata that are withheld; None where nothing has to be.
    shown_total : images that are not in strata outside the scope, nor dropped, as far as those
        numbers are shown: what pool shares refer to where only aggregates are shown.
    hides_dropped : is the number of dropped images withheld?
    """

    rows: tuple[StratumRow, ...] = ()
    note: str = ""
    hidden: Any = field(repr=False, default=None)
    shown_total: int = 0
    hides_dropped: bool = False


def tabulate_strata(weighed: WeightedPool, stderr_c: Floats | None = None) -> StratumTable:
    """Make one row for each stratum; an empty table without strata."""
    strata = weighed.strata
    if strata is None:
        return StratumTable(shown_total=weighed.n)
    hidden_c, shown_total, hides_dropped = _hidden(weighed, strata)
    in_scope_c = strata.in_scope
    # A level that a few images have and the target does not name would be named by them.
    named = np.flatnonzero(in_scope_c | ~hidden_c).tolist()
    uncovered = [
        uncovered_row(name, mass)
        for name, mass in sorted(strata.uncovered.items(), key=lambda item: (-item[1], item[0]))
    ]
    n_strata = len(uncovered) + len(named)
    note = (
        ""
        if n_strata <= _MOST_ROWS
        else f"{_MOST_ROWS} of {n_strata:,} strata are shown: uncovered ones, then the largest."
    )
    outside, mass, names = (~in_scope_c).tolist(), strata.mass.tolist(), strata.names
    shown = heapq.nsmallest(
        max(_MOST_ROWS - len(uncovered), 0),
        named,
        key=lambda at: (outside[at], -mass[at], names[at]),
    )
    rows = _rows(weighed, strata, shown, stderr_c, hidden_c, shown_total)
    return StratumTable(
        rows=tuple([*uncovered[:_MOST_ROWS], *rows]),
        note=note,
        hidden=hidden_c if weighed.private else None,
        shown_total=shown_total,
        hides_dropped=hides_dropped,
    )


def hidden_levels(weighed: WeightedPool, table: StratumTable, name: str) -> set[str]:
    """Return the levels that have a withheld stratum: their counts would reveal it."""
    strata = weighed.strata
    if strata is None or table.hidden is None or name not in strata.by:
        return set()
    attribute = strata.by.index(name)
    return {strata.strata[at][attribute] for at in np.flatnonzero(table.hidden)}


def hidden_names(weighed: WeightedPool, table: StratumTable) -> list[str]:
    """Return the withheld strata as texts."""
    strata = weighed.strata
    if strata is None or table.hidden is None:
        return []
    # Of images that were dropped the groups are not counted by level.
    rare = [
        reason
        for reason, count in strata.dropped.items()
        if weighed.group_n is not None or count < SMALLEST_CELL
    ]
    return [reason for reason in rare if MISSING not in reason] + [
        strata.names[at] for at in np.flatnonzero(table.hidden)
    ]


def hide_strata(weighed: WeightedPool) -> StratumTable:
    """Find what privacy hides of the strata; the rows of the table are left out."""
    if weighed.strata is None or not weighed.private:
        return StratumTable(shown_total=weighed.n)
    hidden_c, shown_total, hides_dropped = _hidden(weighed, weighed.strata)
    return StratumTable(hidden=hidden_c, shown_total=shown_total, hides_dropped=hides_dropped)


def _hidden(weighed: WeightedPool, strata: TargetStrata) -> tuple[Any, int, bool]:
    """Return (C,) withheld strata, the images of pool shares, and: are dropped ones hidden?"""
    n_strata, n = len(strata.strata), weighed.n
    if not weighed.private:
        return np.zeros(n_strata, dtype=np.bool_), n, False
    dropped_n = strata.code < 0
    code_n = np.where(dropped_n, n_strata, strata.code)
    size = weighed.cell_sizes(code_n, n_strata + 1)
    hidden = hidden_cells(size)
    images = np.bincount(code_n, minlength=n_strata + 1)
    apart = np.append(~strata.in_scope, True) & ~hidden
    return hidden[:-1], n - int(images[apart].sum()), bool(hidden[-1])


def _rows(
    weighed: WeightedPool,
    strata: TargetStrata,
    shown: Sequence[int],
    stderr_c: Floats | None,
    hidden_c: Any,
    shown_total: int,
) -> list[StratumRow]:
    """Make the rows of the strata ``shown``, in that order."""
    code_n, weight_n = strata.code, weighed.weight_n
    if code_n.min() < 0:
        kept_n = code_n >= 0
        code_n, weight_n = code_n[kept_n], weight_n[kept_n]
    n_strata = len(strata.strata)
    images_c = np.bincount(code_n, minlength=n_strata)
    weighted_c: Floats = np.asarray(
        np.bincount(code_n, weights=weight_n, minlength=n_strata), dtype=np.float64
    )
    square_c = np.bincount(code_n, weights=np.square(weight_n), minlength=n_strata)
    ess_c = np.divide(np.square(weighted_c), square_c, out=np.zeros(n_strata), where=square_c > 0)
    largest_c = np.zeros(n_strata)
    np.maximum.at(largest_c, code_n, weight_n)
    largest_c *= weighed.n
    groups_c = weighed.group_counts(strata.code, n_strata)
    sources_of = _sources(weighed, strata, shown)
    target_c = strata.mass
    if weighed.private:
        ess_c = np.array([shown_size(float(ess), True) for ess in ess_c])
        target_c, weighted_c = _in_scope_shares(strata, weighted_c)
    rows = []
    for at in shown:
        hide, outside = bool(hidden_c[at]), weighed.private and not strata.in_scope[at]
        total = weighed.n if outside else shown_total
        rows.append(
            StratumRow(
                stratum=strata.names[at],
                target=None if outside else float(target_c[at]),
                target_stderr=None if outside or stderr_c is None else float(stderr_c[at]),
                pool=None if hide else float(images_c[at] / total),
                weighted=None if hide or outside else float(weighted_c[at]),
                images=None if hide else int(images_c[at]),
                groups=None if hide or groups_c is None else int(groups_c[at]),
                sources=() if hide else sources_of[at],
                ess=None if hide else float(ess_c[at]),
                largest_weight=None if weighed.private else float(largest_c[at]),
                covered=True,
                in_scope=bool(strata.in_scope[at]),
            )
        )
    return rows


def _in_scope_shares(strata: TargetStrata, weighted_c: Floats) -> tuple[Floats, Floats]:
    """Return target and weighted shares among the strata in scope."""
    inside = strata.in_scope
    weight = float(weighted_c[inside].sum())
    target_c = strata.mass / float(strata.mass[inside].sum())
    return target_c, weighted_c / weight if weight > 0 else weighted_c


def _sources(
    weighed: WeightedPool, strata: TargetStrata, shown: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """Return the names of the sources with images in each of the strata ``shown``."""
    place_c = np.full(len(strata.strata) + 1, -1)
    place_c[list(shown)] = np.arange(len(shown))
    # The code of a dropped row, −1, is the last one, which is not shown.
    place_n, n_sources = place_c[strata.code], len(weighed.names)
    if len(shown) < len(strata.strata) or strata.code.min() < 0:
        kept = np.flatnonzero(place_n >= 0)
        pair_m = place_n[kept] * n_sources + weighed.source_n[kept]
    else:
        kept, pair_m = None, place_n * n_sources + weighed.source_n
    n_pairs = len(shown) * n_sources
    size_ck = (
        weighed.cell_sizes(pair_m, n_pairs, kept)
        if weighed.private
        else np.bincount(pair_m, minlength=n_pairs)
    ).reshape(len(shown), n_sources)
    names = {}
    for at, size_k in zip(shown, size_ck, strict=True):
        seen_k = size_k >= (SMALLEST_CELL if weighed.private else 1)
        own, n_own = np.flatnonzero(seen_k)[:_MOST_NAMES].tolist(), int(seen_k.sum())
        more = [f"and {n_own - _MOST_NAMES} more"] if n_own > _MOST_NAMES else []
        withheld = [OTHERS_WITHHELD] if ((size_k > 0) & ~seen_k).any() else []
        names[at] = (*(weighed.names[k] for k in own), *more, *withheld)
    return names


def uncovered_row(name: str, mass: float, weighted: float | None = 0.0) -> StratumRow:
    """Make the row of a stratum without images; ``weighted`` None where there are no weights."""
    return StratumRow(
        stratum=name,
        target=float(mass),
        target_stderr=None,
        pool=0.0,
        weighted=weighted,
        images=0,
        groups=0,
        sources=(),
        ess=weighted,
        largest_weight=None,
        covered=False,
    )
