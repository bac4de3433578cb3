"""Distributions of pool, weighted pool and target, and what is not corrected."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unskew.records import Floats, Ints, OutcomeRange
from unskew.report.summary.privacy import SMALLEST_CELL, hidden_cells, private_sentences
from unskew.report.summary.record import (
    BalanceRow,
    DistributionPanel,
    NotCorrectedPanel,
    SensitivityRow,
)
from unskew.report.summary.stratum_table import StratumTable, hidden_levels
from unskew.report.summary.weighted_pool import Described, WeightedPool

_MOST_LEVELS = 24
_MOST_ORDERED = 40
_MOST_SOURCES = 12
_MOST_ROWS_OF_COLUMN = 12


@dataclass(frozen=True, eq=False)
class ShownDistribution:
    """A distribution as it may be shown, and how to find its cells again.

    panel : for the page.
    cell_of_level : (L,) the cell of every level or bin; the last may join several.
    joined : is the last cell several levels joined?
    hidden : (D,) cells that are withheld.
    """

    described: Described
    panel: DistributionPanel
    cell_of_level: Ints = field(repr=False)
    joined: bool
    hidden: Any = field(repr=False)

    def rows_of_cell(self, cell: int) -> Ints:
        """Return the images in a cell."""
        column = self.described.column
        return np.asarray(column.row[self.cell_of_level[column.code] == cell])


def show_distribution(
    weighed: WeightedPool, described: Described, table: StratumTable
) -> ShownDistribution:
    """Show a column by cells: the largest levels, with all others joined.

    Where only aggregates are shown, levels of few images are joined, too.
    """
    column = described.column
    forced = hidden_levels(weighed, table, column.name) if described.by_strata else set()
    labels, cell_l, joined = _cells(weighed, described, forced)
    size = max(len(labels), column.size if column.is_number else 0)
    count_d = _join(cell_l, column.masses(), size)
    hidden_d = _hidden(weighed, described, cell_l, size, labels, forced)
    missing = int(np.count_nonzero(~column.present))
    pool_d = _join(cell_l, column.shares(), size)
    if weighed.private and described.by_strata:
        pool_d = count_d / table.shown_total
    target_d = _target(weighed, described, cell_l, size)
    shown = DistributionPanel(
        column=column.name,
        role=described.role,
        fitted=described.fitted,
        edges=column.edges,
        levels=tuple(labels),
        pool=_masked(pool_d, hidden_d),
        weighted=_masked(_join(cell_l, column.shares(weighed.weight_n), size), hidden_d),
        target=target_d,
        by_source={} if weighed.private else _by_source(weighed, described, cell_l, size),
        count=tuple(
            None if hide else int(images)
            for images, hide in zip(count_d, hidden_d[:size], strict=True)
        ),
        missing=None if hidden_d[size] else missing,
        multiple=column.multiple,
    )
    return ShownDistribution(
        described=described,
        panel=shown,
        cell_of_level=cell_l,
        joined=joined,
        hidden=hidden_d[:size],
    )


def _cells(
    weighed: WeightedPool, described: Described, forced: set[str]
) -> tuple[list[str], Ints, bool]:
    """Return the labels of the cells, (L,) the cell of every level, and: is the last joined?"""
    column = described.column
    if column.is_number:
        return [], np.arange(column.size), False
    share_l = np.maximum(column.shares(), 0.0 if described.target is None else described.target)
    most = _MOST_ORDERED if column.ordered else _MOST_LEVELS
    share = share_l.tolist()
    rank = heapq.nsmallest(most, range(column.size), key=lambda at: (-share[at], column.levels[at]))
    kept = set(rank)
    if weighed.private and described.by_strata:
        # A level that is not in the target's scope is named in the table of strata, if its images
        # are ten or more.
        kept = {at for at in kept if share_l[at] > 0}
    elif weighed.private:
        # The name of a level that few images have could identify them.
        size_l = weighed.cell_sizes(column.code, column.size, column.row)
        kept = {at for at in kept if size_l[at] >= SMALLEST_CELL}
    order = [at for at in (range(column.size) if column.ordered else rank) if at in kept]
    cell_l = np.full(column.size, len(order), dtype=np.int64)
    cell_l[order] = np.arange(len(order))
    labels = [column.levels[at] for at in order]
    n_joined = column.size - len(order)
    return (
        (labels, cell_l, False)
        if n_joined == 0
        else ([*labels, f"({n_joined} other level{'s' if n_joined > 1 else ''})"], cell_l, True)
    )


def _join(cell_l: Ints, value_l: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(cell_l, weights=value_l, minlength=size), dtype=np.float64)


def _hidden(
    weighed: WeightedPool,
    described: Described,
    cell_l: Ints,
    size: int,
    labels: list[str],
    forced: set[str],
) -> Any:
    """Return (D + 1,) the cells that are withheld; the last is that of missing values."""
    column = described.column
    if not weighed.private:
        return np.zeros(size + 1, dtype=np.bool_)
    if described.by_strata:
        # All other cells are sums of strata that are shown; images without a stratum are counted
        # there.
        joined = {
            labels[at]
            for at in np.unique(
                cell_l[[code for code, level in enumerate(column.levels) if level in forced]]
            )
        }
        return np.array([*(label in joined for label in labels), True])
    cell_m = np.concatenate([cell_l[column.code], np.full(np.count_nonzero(~column.present), size)])
    row_m = np.concatenate([column.row, np.flatnonzero(~column.present)])
    size_d = weighed.cell_sizes(cell_m, size + 1, row_m)
    return hidden_cells(size_d)


def _target(
    weighed: WeightedPool, described: Described, cell_l: Ints, size: int
) -> tuple[float | None, ...] | None:
    if described.target is None:
        return None
    target_d = _join(cell_l, described.target, size)
    if not weighed.private or described.target_count is None:
        return tuple(target_d.tolist())
    if weighed.target is not None and weighed.target.kind == "source":
        # One source next to the whole pool: the difference would be a table of the others.
        return None
    count = np.append(
        _join(cell_l, described.target_count[:-1].astype(np.float64), size),
        described.target_count[-1],
    )
    return _masked(target_d, hidden_cells(count))


def _by_source(
    weighed: WeightedPool, described: Described, cell_l: Ints, size: int
) -> dict[str, tuple[float | None, ...]]:
    """Return the shares within each of the largest sources."""
    column, n_sources = described.column, len(weighed.names)
    size_k = np.bincount(weighed.source_n, minlength=n_sources)
    largest = sorted(np.argsort(-size_k, kind="stable")[:_MOST_SOURCES].tolist())
    count_dk = np.bincount(
        cell_l[column.code] * n_sources + weighed.source_n[column.row], minlength=size * n_sources
    )
    present_k = np.bincount(weighed.source_n[column.present], minlength=n_sources)
    share_dk = count_dk.reshape(size, n_sources) / np.maximum(present_k, 1)
    return {weighed.names[k]: tuple(share_dk[:, k].tolist()) for k in largest if present_k[k]}


def _masked(value_d: Floats, hidden_d: Any) -> tuple[float | None, ...]:
    return tuple(
        None if hide else float(value)
        for value, hide in zip(value_d, hidden_d[: value_d.size], strict=True)
    )


def balance_rows(weighed: WeightedPool, shown: ShownDistribution) -> list[BalanceRow]:
    """Make one row for numbers, one for each level otherwise."""
    column, described = shown.described.column, shown.described
    if column.is_number:
        if weighed.private and np.count_nonzero(column.present) < SMALLEST_CELL:
            return []
        private_source = (
            weighed.private and weighed.target is not None and weighed.target.kind == "source"
        )
        target = None if private_source else described.target_mean
        return [
            _row(
                described,
                None,
                column.mean(),
                column.mean(weighed.weight_n),
                target,
                column.deviation(),
            )
        ]
    panel = shown.panel
    rows = []
    for at, level in enumerate(panel.levels[: len(panel.levels) - shown.joined]):
        pool, weighted = panel.pool[at], panel.weighted[at]
        if pool is not None:
            target = None if panel.target is None else panel.target[at]
            rows.append(
                _row(
                    described, level, pool, weighted, target, math.sqrt(max(pool * (1 - pool), 0.0))
                )
            )
    far = sorted(
        range(len(rows)),
        key=lambda at: -max(abs(rows[at].before or 0.0), abs(rows[at].after or 0.0)),
    )[:_MOST_ROWS_OF_COLUMN]
    return [rows[at] for at in sorted(far)]


def _row(
    described: Described,
    level: str | None,
    pool: float | None,
    weighted: float | None,
    target: float | None,
    deviation: float,
) -> BalanceRow:
    """Compare a mean or share with the target, in standard deviations s of the pool.

    before = (pool − target)/s, after = (weighted − target)/s; without target 0 and the move.
    """
    aim = pool if target is None else target
    return BalanceRow(
        column=described.column.name,
        level=level,
        fitted=described.fitted,
        pool=pool,
        weighted=weighted,
        target=target,
        before=_standardised(pool, aim, deviation),
        after=_standardised(weighted, aim, deviation),
    )


def _standardised(value: float | None, aim: float | None, deviation: float) -> float | None:
    if value is None or aim is None:
        return None
    # Rounding in a mean of equal numbers is no difference.
    if abs(value - aim) <= 1e-12 * max(abs(value), abs(aim)):
        return 0.0
    return (value - aim) / deviation if deviation > 0 and math.isfinite(deviation) else None


_MOST_ROWS = 300


def show_not_corrected(
    weighed: WeightedPool,
    rows: Sequence[BalanceRow],
    ranges: Sequence[OutcomeRange],
    not_shown: tuple[str, ...],
    hidden: Sequence[str],
) -> NotCorrectedPanel:
    """Show the columns outside the model, what remains assumed, and how much that could matter."""
    outside = [row for row in rows if not row.fitted]
    return NotCorrectedPanel(
        columns=tuple(outside[:_MOST_ROWS]),
        assumed=_assumed(weighed, hidden),
        sensitivity=tuple(SensitivityRow(**vars(row)) for row in ranges),
        not_shown=not_shown,
    )


def _assumed(weighed: WeightedPool, hidden: Sequence[str]) -> tuple[str, ...]:
    """State what the result rests on although no image can show it."""
    sentences = [
        "Weights correct the columns that the bias model reads; of everything else they correct "
        "what depends on those."
    ]
    if weighed.fitted is None:
        sentences.append(
            "That the biasing functions are right was taken for granted; so was the factor c(z) "
            "common to all sources."
        )
        return tuple(sentences)
    described = weighed.fitted.describe()
    sentences += [f"Assumed: {assumption}." for assumption in described.assumed]
    sentences.append(
        "The factor c(z), by which all sources together prefer some images, cannot be learned from "
        f"the images; it comes from: {described.anchor}."
    )
    only = {} if weighed.fitted.strata is None else weighed.fitted.strata.only
    if only and not weighed.private:
        shown = [f"{stratum} ({source})" for stratum, source in list(only.items())[:5]]
        more = f" and {len(only) - 5} more" if len(only) > 5 else ""
        sentences.append(
            "Strata that only one source sees are represented by that source's images: "
            f"{', '.join(shown)}{more}."
        )
    return private_sentences(sentences, hidden) if weighed.private else tuple(sentences)
