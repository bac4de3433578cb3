"""What weighting does not correct: columns outside the target, what remains assumed, and how much
that could matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import UnskewError
from unskew.records import Floats
from unskew.report.summary.column_balance import ShownDistribution
from unskew.report.summary.error_bars import affordable_replicates, is_smooth
from unskew.report.summary.record import BalanceRow, NotCorrectedPanel, SensitivityRow
from unskew.report.summary.weighted_pool import Weighed
from unskew.report.summary.wording import private_sentences

_FACTORS = (2.0, 1.5)
_MOST_LABELS = 6
_MOST_OUTCOMES = 4
# A sensitivity sorts the images and computes two standard errors: some seconds for so many images
# over all outcomes and factors.
_MOST_SORTED = 1e6


def show_not_corrected(
    weighed: Weighed,
    shown: Sequence[ShownDistribution],
    rows: Sequence[BalanceRow],
    outcomes: Mapping[str, npt.ArrayLike] | None,
    not_shown: tuple[str, ...],
    hidden: Sequence[str],
) -> tuple[NotCorrectedPanel, str]:
    """(the panel, a note if there is no sensitivity)."""
    chosen = (
        _default_outcomes(weighed, shown, rows)
        if outcomes is None
        else {name: np.asarray(given) for name, given in outcomes.items()}
    )
    found, note = _sensitivity(weighed, chosen)
    panel = NotCorrectedPanel(
        columns=tuple(row for row in rows if not row.fitted),
        assumed=_assumed(weighed, hidden),
        sensitivity=found,
        not_shown=not_shown,
    )
    return panel, note


def _assumed(weighed: Weighed, hidden: Sequence[str]) -> tuple[str, ...]:
    """What the result rests on although no image can tell."""
    said = [
        "Weights correct the columns that the bias model reads; of everything else they correct "
        "what depends on those."
    ]
    if weighed.fitted is None:
        said.append(
            "That the biasing functions are right was taken for granted; so was the factor c(z) "
            "common to all sources."
        )
        return tuple(said)
    described = weighed.fitted.describe()
    said += [f"Assumed: {each}." for each in described.assumed]
    said.append(
        "The factor c(z), by which all sources together prefer some images, cannot be told from "
        "the images; it comes from: "
        f"{described.anchor}."
    )
    only = {} if weighed.fitted.strata is None else weighed.fitted.strata.only
    if only and not weighed.private:
        shown = [f"{stratum} ({source})" for stratum, source in list(only.items())[:5]]
        more = f" and {len(only) - 5} more" if len(only) > 5 else ""
        said.append(
            "Strata that one source alone sees stand for that source's images of them: "
            f"{', '.join(shown)}{more}."
        )
    return private_sentences(said, hidden) if weighed.private else tuple(said)


def _default_outcomes(
    weighed: Weighed, shown: Sequence[ShownDistribution], rows: Sequence[BalanceRow]
) -> dict[str, Floats]:
    """Shares of the most frequent classes; where the target fixes those, the columns outside the
    target that moved most.
    """
    label = next((each for each in shown if each.described.role == "label"), None)
    if label is not None and not label.described.by_strata and not label.described.column.is_number:
        names = [
            (at, level)
            for at, level in enumerate(label.panel.levels[: len(label.panel.levels) - label.joined])
        ]
        kept = [
            (at, level) for at, level in names if not label.hidden[at] and label.panel.count[at]
        ][:_MOST_LABELS]
        return {_share_name(label, level): _indicator(weighed, label, at) for at, level in kept}
    by_name = {each.described.column.name: each for each in shown}
    moved = sorted(
        (row for row in rows if not row.fitted),
        key=lambda row: (-abs((row.after or 0.0) - (row.before or 0.0)), row.column),
    )
    outcomes: dict[str, Floats] = {}
    for row in moved:
        column = by_name[row.column].described.column
        if row.level is not None:
            outcomes.setdefault(
                _share_name(by_name[row.column], row.level),
                _indicator(
                    weighed, by_name[row.column], by_name[row.column].panel.levels.index(row.level)
                ),
            )
        elif column.value is not None and bool(column.present.all()):
            outcomes.setdefault(f"mean of {row.column}", column.value)
        if len(outcomes) == _MOST_OUTCOMES:
            break
    return outcomes


def _share_name(shown: ShownDistribution, level: str) -> str:
    """Elsewhere shares are of the images that have a value; a mean over the target counts the
    others, too.
    """
    column = shown.described.column
    return f"share of {column.name} = {level}" + (
        "" if bool(column.present.all()) else ", of all images, those without a value included"
    )


def _indicator(weighed: Weighed, shown: ShownDistribution, cell: int) -> Floats:
    value_n = np.zeros(weighed.n)
    value_n[shown.rows_of_cell(cell)] = 1.0
    return value_n


def _sensitivity(
    weighed: Weighed, outcomes: Mapping[str, Any]
) -> tuple[tuple[SensitivityRow, ...], str]:
    """The range of every outcome for every factor; within strata where their masses are given."""
    weights = weighed.weights
    asked = [(name, factor) for factor in _FACTORS for name in outcomes]
    affordable = asked[: max(int(_MOST_SORTED / weighed.n), 1)]
    note = (
        f"For data of this size {len(affordable)} of {len(asked)} ranges were computed; "
        "weights.sensitivity(values, factor) gives others."
        if len(affordable) < len(asked)
        else ""
    )
    if not is_smooth(weights) and affordable_replicates(weights) == 0:
        return (
            (),
            "The sensitivity to c(z) needs a bootstrap with this model, which is too expensive "
            "here; call weights.sensitivity.",
        )
    cell = None if weighed.strata is None else weighed.strata.code
    rows = []
    for name, factor in affordable:
        try:
            found = weights.sensitivity(outcomes[name], factor, cell=cell)
        except UnskewError as error:
            return (), f"The sensitivity to c(z) could not be computed: {error}"
        rows.append(
            SensitivityRow(
                str(name), factor, found.value, found.low, found.high, found.interval, found.scope
            )
        )
    order = {name: at for at, name in enumerate(outcomes)}
    return tuple(sorted(rows, key=lambda row: (order.get(row.outcome, 0), row.factor))), note
