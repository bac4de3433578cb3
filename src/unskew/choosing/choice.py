"""The candidates, ranked, and the one that is chosen."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unskew.choosing.table import show_table
from unskew.records import Weights

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

# Characters of the reason that ``repr`` shows.
_LONGEST_REASON = 300


@dataclass(frozen=True, eq=False, repr=False)
class BiasChoice:
    """The candidates, ranked, and the one that is chosen.

    Attributes
    ----------
    best : the chosen model; None where no candidate can be used.
    name : its name among the candidates.
    reason : why this one, and what speaks against it.
    ties : candidates that describe the sources equally (their q is the same), in groups.
    undecided : candidates that describe the sources as well as the chosen one, but assume another
        c(z) and so give other weights, and that no known fact distinguishes from it.
    notes : what the user should know of facts and of single candidates.
    weights : the weights under the chosen model.
    table : one row for each candidate, the chosen one first, then by score, those that cannot be
        chosen last:

        ``score`` mean of log((1 − δ) q_{i,s_i} + δ λ_{s_i}) over images that were not in the fit, 0
        at best, with ``stderr`` over folds; ``behind`` how far it is behind the best score of those
        that may be chosen, with ``behind_stderr`` of that paired difference; ``outside`` share of
        held-out images outside their own source's fitted support; ``parameters`` number of fitted
        numbers; ``ess`` effective number of images; ``verdict`` of the overlap; ``fit_p`` p-value
        of `unskew.check_fit`; ``distance`` largest standardised difference between weighted pool
        and known facts, with its p-value ``distance_p``; ``auc`` with a target sample: how well a
        classifier tells it from the weighted pool (0.5 = not at all); ``remark`` why it was not
        chosen.
    """

    best: Bias | None
    name: str | None
    reason: str
    ties: tuple[tuple[str, ...], ...]
    undecided: tuple[str, ...]
    notes: tuple[str, ...]
    table: pd.DataFrame
    weights: Weights | None

    @property
    def population(self) -> str | None:
        """The population that results describe under the chosen model; None if none is chosen."""
        return None if self.weights is None else self.weights.describe().population

    def _repr_html_(self) -> str:
        from unskew.report.notebook import choice_html

        return choice_html(self)

    def __str__(self) -> str:
        lines = [show_table(self.table), "", self.reason]
        if self.weights is not None and self.weights.estimation is not None:
            lines += [f"With it, results describe {self.population}."]
            lines += [
                f"With it, {sentence}."
                for sentence in self.weights.estimation.fitted.assumed_labels
            ]
        lines += [f"Tie: {', '.join(group)} describe the sources equally." for group in self.ties]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        chosen = "no candidate can be used" if self.name is None else self.name
        count = len(self.table)
        compared = f"{count} candidate{'s' if count != 1 else ''} compared"
        lines = [f"BiasChoice: {chosen} ({compared})"]
        if self.name is not None:
            row = self.table.iloc[0]
            lines.append(
                f"  score {row['score']:.4f} ± {row['stderr']:.4f}, {row['ess']:,.0f} effective "
                f"images, overlap {row['verdict']}"
            )
        lines.append(f"  {textwrap.shorten(self.reason, _LONGEST_REASON, placeholder=' …')}")
        return "\n".join(lines)
