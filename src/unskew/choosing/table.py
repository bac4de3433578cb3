"""Candidates compared with the best score: a ranked table for programs and for terminals."""

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
    """One candidate compared with the best score."""

    candidate: Candidate
    behind: float
    behind_stderr: float

    @property
    def is_near(self) -> bool:
        """Whether it is within one standard error of the best, or the same but for rounding."""
        return self.behind <= max(self.behind_stderr, SAME_SCORE)

    @property
    def is_tenable(self) -> bool:
        """Whether chance explains the distance to the best with a probability of 1% or more."""
        return self.behind <= max(ONE_PERCENT * self.behind_stderr, SAME_SCORE)


def make_choice_table(
    rated: Sequence[Candidate], chosen: Candidate | None, standing: Mapping[str, Standing]
) -> pd.DataFrame:
    """Tabulate the candidates: the chosen one first, then by score, those ruled out last."""
    import pandas as pd

    order = sorted(
        rated,
        key=lambda candidate: (
            candidate is not chosen,
            candidate.score is None,
            candidate.obstacle is not None and candidate is not chosen,
            -candidate.score_mean,
        ),
    )
    rows = []
    for candidate in order:
        own = standing.get(candidate.name)
        rows.append(
            {
                "candidate": candidate.name,
                "score": candidate.score_mean if candidate.score is not None else np.nan,
                "stderr": np.nan if candidate.score is None else candidate.score.stderr,
                "behind": np.nan if own is None else own.behind,
                "behind_stderr": np.nan if own is None else own.behind_stderr,
                "outside": np.nan if candidate.score is None else candidate.score.outside,
                "parameters": candidate.parameters,
                "ess": np.nan if candidate.weights is None else candidate.weights.ess,
                "verdict": candidate.verdict,
                "fit_p": np.nan if candidate.fit_p is None else candidate.fit_p,
                "distance": np.nan if candidate.distance is None else candidate.distance.largest,
                "distance_p": np.nan if candidate.distance is None else candidate.distance.p_value,
                "auc": np.nan if candidate.auc is None else candidate.auc,
                "remark": _remark(candidate, chosen, own),
            }
        )
    return pd.DataFrame(rows)


def _remark(candidate: Candidate, chosen: Candidate | None, own: Standing | None) -> str:
    if candidate is chosen:
        return "chosen"
    if candidate.obstacle is not None or own is None:
        return candidate.obstacle or "not scored"
    if not own.is_near:
        errors = own.behind / max(own.behind_stderr, 1e-300)
        return f"describes the sources worse, by {errors:.1f} standard errors"
    if candidate.contradicts:
        assert candidate.distance is not None
        return f"contradicts what is known about the target ({candidate.distance.fact})"
    if chosen is None:
        return "not chosen for itself alone"
    if candidate.parameters < chosen.parameters:
        return "as good and simpler, but farther from what is known about the target"
    return "as good, and not simpler"


def show_table(table: pd.DataFrame) -> str:
    """Format the table for a terminal; columns without a value are left out, remarks last."""
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
            [_with_error(*pair) for pair in zip(table[name], error, strict=True)], dtype=object
        )
    others = "outside parameters ess verdict fit_p distance distance_p auc remark"
    for name in others.split():
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
