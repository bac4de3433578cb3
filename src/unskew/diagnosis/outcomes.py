"""Outcomes: which target means a report shows, and whether the sources agree on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, UnskewError, did_you_mean, first_few
from unskew.records import Estimate, Floats, OutcomeMean
from unskew.report.summary.column_balance import ShownDistribution, balance_rows, show_distribution
from unskew.report.summary.privacy import few_differ, sources_with_few, without_counts
from unskew.report.summary.record import BalanceRow
from unskew.report.summary.source_table import hidden_sources
from unskew.report.summary.stratum_table import hide_strata
from unskew.report.summary.weighted_pool import WeightedPool, describe_columns, fitted_columns


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What target means are of.

    Attributes
    ----------
    values : (n,) values by name.
    are_named : are they named by the user, or shares of classes?
    notes : why some that were asked for are left out.
    """

    values: dict[str, Floats] = field(repr=False)
    are_named: bool
    notes: tuple[str, ...] = ()


def find_outcomes(
    weighed: WeightedPool, asked: Mapping[str, npt.ArrayLike] | Sequence[str] | None
) -> Outcomes:
    """Find the values of what was asked for: by name, by column, or by default (None)."""
    if asked is None:
        values, are_named = _choose_outcomes(weighed)
        return Outcomes(values, are_named)
    if isinstance(asked, Mapping):
        outcomes = Outcomes({str(name): np.asarray(each) for name, each in asked.items()}, True)
    else:
        outcomes = _read_columns(weighed, [asked] if isinstance(asked, str) else asked)
    if not weighed.private:
        return outcomes
    # Values of nearly all images would tell those of the others.
    small = {
        name: values_n
        for name, values_n in outcomes.values.items()
        if few_differ(values_n, weighed.group_n)
    }
    note = f"Left out, as fewer than ten have them: {len(small)} outcomes."
    kept = {name: values_n for name, values_n in outcomes.values.items() if name not in small}
    return Outcomes(kept, True, (*outcomes.notes, *([note] if small else [])))


_MOST_LEVELS = 12


def _read_columns(weighed: WeightedPool, columns: Sequence[str]) -> Outcomes:
    """Return numbers as they are; of other columns, an indicator of each level."""
    values: dict[str, Floats] = {}
    notes: list[str] = []
    for name in columns:
        if name not in weighed.frame.columns:
            known = ("label", *weighed.pool.attributes)
            raise ConfigError(
                f"the outcomes name {name!r}, but the images have the columns "
                f"{first_few(known, 12)}.{did_you_mean(name, known)}",
                key="report.outcomes",
                column=name,
            )
        column = weighed.frame[name]
        if column.dtype.kind in "fiub":
            value_n = column.to_numpy(dtype="float64")
            if np.isfinite(value_n).all():
                values[name] = value_n
            else:
                notes.append(f"{name} has no mean: it is missing in some images.")
            continue
        shown = _shown(weighed, {name})
        levels = _level_shares(weighed, shown[0], _MOST_LEVELS) if shown else {}
        values |= levels
        if not levels:
            notes.append(f"{name} has no levels whose shares can be shown.")
        elif len(levels) < shown[0].described.column.size:
            notes.append(f"Of {name} the shares of {len(levels)} levels are shown.")
    return Outcomes(values, True, tuple(notes))


_MOST_LABELS = 6
_MOST_OUTCOMES = 4


def _choose_outcomes(weighed: WeightedPool) -> tuple[dict[str, Floats], bool]:
    """Return (n,) values by name: the shares of the most frequent classes, and True.

    Where the target fixes those, or there are none: the columns outside the target that moved most,
    and False. What a report with aggregates only withholds is not chosen if ``weighed`` is private.
    """
    label = _shown(weighed, {"label"})
    if label and not label[0].described.by_strata and not label[0].described.column.is_number:
        return _level_shares(weighed, label[0], _MOST_LABELS), True
    outside = {str(name) for name in weighed.frame.columns} - set(fitted_columns(weighed))
    return _moved_most(weighed, _shown(weighed, outside)), False


def _shown(weighed: WeightedPool, names: set[str]) -> list[ShownDistribution]:
    table = hide_strata(weighed)
    described, _ = describe_columns(weighed, names)
    return [show_distribution(weighed, column, table) for column in described]


def _level_shares(weighed: WeightedPool, shown: ShownDistribution, most: int) -> dict[str, Floats]:
    levels = shown.panel.levels[: len(shown.panel.levels) - shown.joined]
    count = shown.panel.count
    kept = [cell for cell in range(len(levels)) if count[cell] and not shown.hidden[cell]]
    return {
        _share_name(shown, levels[cell]): _indicator(weighed, shown, cell) for cell in kept[:most]
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


# A mean and its comparison take some five seconds for 400,000 images: a minute for so many.
_MOST_ESTIMATED = 5e6


def estimate_means(
    weighed: WeightedPool, outcomes: Outcomes
) -> tuple[tuple[OutcomeMean, ...], str]:
    """Estimate every outcome's target mean, compare its sources, and say which are missing."""
    means, notes = [], list(outcomes.notes)
    affordable = max(int(_MOST_ESTIMATED / weighed.n), 1)
    if affordable < len(outcomes.values):
        notes.append(
            f"For data of this size {affordable} of {len(outcomes.values)} means were estimated; "
            "weights.mean gives others."
        )
    for name, value_n in list(outcomes.values.items())[:affordable]:
        try:
            mean = weighed.weights.mean(value_n)
        except UnskewError as error:
            reason = without_counts(str(error)) if weighed.private else error
            notes.append(f"{name} has no mean: {reason}")
            continue
        is_share = bool(((value_n == 0.0) | (value_n == 1.0)).all())
        shown = _withheld(weighed, value_n, mean) if weighed.private else mean
        means.append(OutcomeMean(name, shown, is_share, outcomes.are_named))
    return tuple(means), " ".join(notes)


def _withheld(weighed: WeightedPool, value_n: Floats, mean: Estimate) -> Estimate:
    """Leave out the sources in which fewer than ten units have the outcome, or lack it."""
    hidden_k = sources_with_few(
        value_n, weighed.source_n, len(weighed.names), weighed.group_n, hidden_sources(weighed)
    )
    return mean.withhold([weighed.names[k] for k in np.flatnonzero(hidden_k)])
