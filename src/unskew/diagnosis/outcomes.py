"""Which target means are worth a sensitivity analysis, where none was named."""

from __future__ import annotations

import numpy as np

from unskew.records import Floats
from unskew.report.summary.column_balance import ShownDistribution, balance_rows, show_distribution
from unskew.report.summary.columns_against_target import describe_columns, fitted_columns
from unskew.report.summary.record import BalanceRow
from unskew.report.summary.stratum_table import tabulate_strata
from unskew.report.summary.weighted_pool import WeightedPool

_MOST_LABELS = 6
_MOST_OUTCOMES = 4


def choose_outcomes(weighed: WeightedPool) -> dict[str, Floats]:
    """Return (n,) values by name: the shares of the most frequent classes.

    Where the target fixes those, or there are none: the columns outside the target that moved most.
    What a report with aggregates only withholds is not chosen if ``weighed`` is private.
    """
    label = _shown(weighed, {"label"})
    if label and not label[0].described.by_strata and not label[0].described.column.is_number:
        return _class_shares(weighed, label[0])
    outside = {str(name) for name in weighed.frame.columns} - set(fitted_columns(weighed))
    return _moved_most(weighed, _shown(weighed, outside))


def _shown(weighed: WeightedPool, names: set[str]) -> list[ShownDistribution]:
    table = tabulate_strata(weighed)
    described, _ = describe_columns(weighed, names)
    return [show_distribution(weighed, column, table) for column in described]


def _class_shares(weighed: WeightedPool, label: ShownDistribution) -> dict[str, Floats]:
    levels = label.panel.levels[: len(label.panel.levels) - label.joined]
    count = label.panel.count
    kept = [cell for cell in range(len(levels)) if count[cell] and not label.hidden[cell]]
    return {
        _share_name(label, levels[cell]): _indicator(weighed, label, cell)
        for cell in kept[:_MOST_LABELS]
    }


def _moved_most(weighed: WeightedPool, shown: list[ShownDistribution]) -> dict[str, Floats]:
    by_name = {distribution.described.column.name: distribution for distribution in shown}
    rows = [row for distribution in shown for row in balance_rows(weighed, distribution)]
    outcomes: dict[str, Floats] = {}
    for row in sorted(rows, key=_most_moved_first):
        distribution = by_name[row.column]
        column = distribution.described.column
        if row.level is not None:
            cell = distribution.panel.levels.index(row.level)
            name = _share_name(distribution, row.level)
            outcomes.setdefault(name, _indicator(weighed, distribution, cell))
        elif column.value is not None and bool(column.present.all()):
            outcomes.setdefault(f"mean of {row.column}", column.value)
        if len(outcomes) == _MOST_OUTCOMES:
            break
    return outcomes


def _most_moved_first(row: BalanceRow) -> tuple[float, str]:
    return -abs((row.after or 0.0) - (row.before or 0.0)), row.column


def _share_name(distribution: ShownDistribution, level: str) -> str:
    """Name a share of all images; elsewhere shares are of the images that have a value."""
    column = distribution.described.column
    return f"share of {column.name} = {level}" + (
        "" if bool(column.present.all()) else ", of all images, those without a value included"
    )


def _indicator(weighed: WeightedPool, distribution: ShownDistribution, cell: int) -> Floats:
    value_n = np.zeros(weighed.n)
    value_n[distribution.rows_of_cell(cell)] = 1.0
    return value_n
