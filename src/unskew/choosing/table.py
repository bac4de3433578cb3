"""Candidates beside the best score, as a ranked table for a program and for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unskew.choosing.candidates import Candidate

if TYPE_CHECKING:
    import pandas as pd

# Scores of two families that agree image by image to this have the same q.
SAME_SCORE = 1e-4
# Standard errors that chance exceeds with a probability of 1%: the evidence against a family that
# contradicts a fact.
ONE_PERCENT = 2.33


@dataclass(frozen=True, eq=False)
class Standing:
    """One candidate beside the best score."""

    candidate: Candidate
    behind: float
    behind_stderr: float

    @property
    def is_near(self) -> bool:
        """Within one standard error of the best, or the same but for rounding."""
        return self.behind <= max(self.behind_stderr, SAME_SCORE)

    @property
    def is_tenable(self) -> bool:
        """Is the score as far behind as chance explains with a probability of 1%, or less far?"""
        return self.behind <= max(ONE_PERCENT * self.behind_stderr, SAME_SCORE)


def make_choice_table(
    rated: Sequence[Candidate], chosen: Candidate | None, standing: Mapping[str, Standing]
) -> pd.DataFrame:
    """One row for each candidate: the chosen one, then by score, those that cannot be chosen
    last.
    """
    import pandas as pd

    order = sorted(
        rated,
        key=lambda each: (
            each is not chosen,
            each.score is None,
            each.obstacle is not None and each is not chosen,
            -each.score_mean,
        ),
    )
    rows = []
    for each in order:
        own = standing.get(each.name)
        rows.append(
            {
                "candidate": each.name,
                "score": each.score_mean if each.score is not None else np.nan,
                "stderr": np.nan if each.score is None else each.score.stderr,
                "behind": np.nan if own is None else own.behind,
                "behind_stderr": np.nan if own is None else own.behind_stderr,
                "outside": np.nan if each.score is None else each.score.outside,
                "parameters": each.parameters,
                "ess": np.nan if each.weights is None else each.weights.ess,
                "verdict": each.verdict,
                "fit_p": np.nan if each.fit_p is None else each.fit_p,
                "distance": np.nan if each.distance is None else each.distance.largest,
                "distance_p": np.nan if each.distance is None else each.distance.p_value,
                "auc": np.nan if each.auc is None else each.auc,
                "remark": _remark(each, chosen, own),
            }
        )
    return pd.DataFrame(rows)


def _remark(candidate: Candidate, chosen: Candidate | None, own: Standing | None) -> str:
    if candidate is chosen:
        return "chosen"
    if candidate.obstacle is not None or own is None:
        return candidate.obstacle or "not scored"
    if not own.is_near:
        return (
            "describes the sources worse, by "
            f"{own.behind / max(own.behind_stderr, 1e-300):.1f} "
            "standard errors"
        )
    if candidate.contradicts:
        assert candidate.distance is not None
        return f"contradicts what is known about the target ({candidate.distance.fact})"
    return "as good, and not simpler" if chosen is not None else "not chosen for itself alone"


def show_table(table: pd.DataFrame) -> str:
    """The table for a terminal: columns without a value are left out, remarks last."""
    import pandas as pd

    number: dict[str, Callable[[float], str]] = {
        "parameters": lambda value: "∞" if math.isinf(value) else f"{value:.0f}",
        "ess": lambda value: f"{value:,.0f}",
        "outside": lambda value: f"{value:.1%}",
    }
    shown = {"candidate": table["candidate"]}
    for name in ("score", "behind"):
        error = table["stderr" if name == "score" else "behind_stderr"]
        shown[name] = pd.Series(
            [_with_error(value, each) for value, each in zip(table[name], error, strict=True)],
            dtype=object,
        )
    for name in (
        "outside",
        "parameters",
        "ess",
        "verdict",
        "fit_p",
        "distance",
        "distance_p",
        "auc",
        "remark",
    ):
        if name in ("verdict", "remark"):
            shown[name] = table[name].map(lambda text: text if len(text) <= 90 else f"{text[:89]}…")
        elif table[name].notna().any():
            form = number.get(name, lambda value: f"{value:.2g}")
            shown[name] = table[name].map(
                lambda value, form=form: "" if math.isnan(value) else form(value)
            )
    return str(pd.DataFrame(shown).to_string(index=False, justify="left"))


def _with_error(value: float, error: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f} ± {error:.4f}"
