"""What a rehearsal found: predicted against true accuracy for each source, and the verdict in
words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from unskew.errors import DataError, first_few
from unskew.forecasting.record import finite
from unskew.forecasting.sentences import plus_minus, points
from unskew.records import Estimate

if TYPE_CHECKING:
    import pandas as pd

# A prediction holds if it is off by no more than two standard errors (its own and that of the
# truth), or by two points.
_ERRORS = 2.0
_NEAR = 0.02
# Beyond this combined standard error (five points) agreement says nothing.
_VAGUE = 0.05
_MANY_ERRORS = 3.0
# Which arm wins is asked where they truly differ by more than a point.
_DIFFERS = 0.01


@dataclass(frozen=True)
class SourceRehearsal:
    """One source in the role of the target.

    Attributes
    ----------
    source, images : its name and number of images.
    obstacle : why it cannot be reached from the others; None if it can, and then the rest is there.
    judged : number of its images that judged (those with copies, or of groups, in other sources are
        left out).
    ess : effective number of images of the others, weighted to it.
    predicted : accuracy on it of "naive" and "debiased", from held-out images of the others.
    true : their accuracy on its images.
    predicted_gain, true_gain : debiased − naive, paired.
    usual : what ordinary cross-validation of naive on the others, without weights, would have
        predicted.
    notes : what else happened.
    """

    source: str
    images: int
    obstacle: str | None = None
    judged: int = 0
    ess: float = math.nan
    predicted: Mapping[str, Estimate] = field(default_factory=dict)
    true: Mapping[str, Estimate] = field(default_factory=dict)
    predicted_gain: Estimate | None = None
    true_gain: Estimate | None = None
    usual: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """Could the others be weighted to it?"""
        return self.obstacle is None

    def miss(self, arm: str = "debiased") -> float:
        """Predicted − true accuracy; NaN where it was not reached."""
        return self.predicted[arm].value - self.true[arm].value if self.reached else math.nan

    def miss_stderr(self, arm: str = "debiased") -> float:
        """Standard error of that difference, prediction and truth taken for independent; NaN where
        it was not reached.
        """
        return (
            math.hypot(self.predicted[arm].stderr, self.true[arm].stderr)
            if self.reached
            else math.nan
        )

    @property
    def holds(self) -> bool | None:
        """Is the prediction for debiased within its error of the truth? None where that cannot be
        told.
        """
        if not self.reached:
            return None
        if not self.miss_stderr() <= _VAGUE:
            # Agreement says nothing then, but a miss by far does.
            return False if abs(self.miss()) > _MANY_ERRORS * self.miss_stderr() else None
        return abs(self.miss()) <= max(_ERRORS * self.miss_stderr(), _NEAR)

    @property
    def winner_right(self) -> bool | None:
        """Was it predicted which arm is better? None where they do not truly differ by a point."""
        if (
            self.predicted_gain is None
            or self.true_gain is None
            or abs(self.true_gain.value) <= _DIFFERS
        ):
            return None
        return self.predicted_gain.value * self.true_gain.value > 0


@dataclass(frozen=True)
class Rehearsal:
    """Each source in turn as the target.

    Attributes
    ----------
    verdict : "transfers", "transfers in part", "does not transfer" or "cannot tell".
    message : the verdict with its reasons, in words.
    sources : one `SourceRehearsal` for each source.
    family, learner, n_folds, seed : the settings.
    """

    verdict: str
    message: str
    sources: tuple[SourceRehearsal, ...]
    family: str
    learner: str
    n_folds: int
    seed: int

    def source(self, name: str) -> SourceRehearsal:
        """The source of that name."""
        for each in self.sources:
            if each.source == name:
                return each
        raise DataError(
            f"there is no source {name!r}; the sources are "
            f"{first_few([each.source for each in self.sources], 12)}."
        )

    def table(self) -> pd.DataFrame:
        """One row for each source, in points: predicted and true accuracy of both arms with errors,
        gains, the usual prediction.
        """
        import pandas as pd

        return pd.DataFrame([_row(each) for each in self.sources])

    def lines(self) -> list[str]:
        """What the command line prints."""
        width = max(len(each.source) for each in self.sources)
        lines = [self.message, ""]
        lines.append(
            f"  {'target':{width}}  {'naive: predicted':>16}  {'true':>10}  "
            f"{'debiased: predicted':>19}  {'true':>10}  {'usual':>5}"
        )
        for each in self.sources:
            if not each.reached:
                lines.append(f"  {each.source:{width}}  not reached: {each.obstacle}")
                continue
            shown = [
                _shown(numbers[arm])
                for arm in ("naive", "debiased")
                for numbers in (each.predicted, each.true)
            ]
            tail = "" if each.holds is not False else "  off"
            lines.append(
                f"  {each.source:{width}}  {shown[0]:>16}  {shown[1]:>10}  {shown[2]:>19}  "
                f"{shown[3]:>10}  {100 * each.usual:5.1f}{tail}"
            )
        lines += [
            "",
            "± is one standard error; usual: cross-validation of naive on the other sources, "
            "without weights.",
        ]
        return [
            *lines,
            *(f"Note on {each.source}: {note}" for each in self.sources for note in each.notes),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts for JSON; what is not a finite number is None."""
        found: dict[str, Any] = finite(asdict(self))
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _shown(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} ± {100 * estimate.stderr:.1f}"


def _row(each: SourceRehearsal) -> dict[str, Any]:
    row: dict[str, Any] = {
        "source": each.source,
        "images": each.images,
        "reached": each.reached,
        "ess": each.ess,
    }
    for arm in ("naive", "debiased"):
        for what, numbers in (("predicted", each.predicted), ("true", each.true)):
            row[f"{arm}_{what}"] = 100 * numbers[arm].value if arm in numbers else math.nan
            row[f"{arm}_{what}_stderr"] = 100 * numbers[arm].stderr if arm in numbers else math.nan
    row["gain_predicted"] = (
        math.nan if each.predicted_gain is None else 100 * each.predicted_gain.value
    )
    row["gain_true"] = math.nan if each.true_gain is None else 100 * each.true_gain.value
    return {**row, "usual": 100 * each.usual, "holds": each.holds, "remark": each.obstacle or ""}


def judge_rehearsal(sources: Sequence[SourceRehearsal], family: str) -> tuple[str, str]:
    """(verdict, the verdict with its reasons): does this bias model transfer on these data?"""
    told = [each for each in sources if each.holds is not None]
    held = [each for each in told if each.holds]
    if not told:
        why = (
            "no source can be reached from the others"
            if not any(each.reached for each in sources)
            else "errors are too large to tell"
        )
        return (
            "cannot tell",
            f"Whether the bias model ({family}) transfers cannot be told: "
            f"{why}.{_unreached(sources)}",
        )
    verdict = (
        "transfers"
        if len(held) == len(told)
        else "transfers in part"
        if 2 * len(held) > len(told)
        else "does not transfer"
    )
    miss, usual = (
        sum(values) / len(told)
        for values in ([abs(each.miss()) for each in told], [_usual_miss(each) for each in told])
    )
    parts = [
        f"The bias model ({family}) {verdict}: weighted to each source in turn, the predicted "
        "accuracy of the debiased model holds on "
        f"{len(held)} of {len(told)} (off by {points(miss)} points on average; ordinary "
        f"cross-validation of naive by {points(usual)})."
    ]
    for each in told:
        if not each.holds:
            parts.append(
                f"On `{each.source}` it is {plus_minus(each.true['debiased'])}, and "
                f"{plus_minus(each.predicted['debiased'])} was predicted."
            )
    asked = [each for each in told if each.winner_right is not None]
    if asked:
        right = sum(bool(each.winner_right) for each in asked)
        parts.append(
            "Where naive and debiased truly differ by more than a point, the better one was "
            f"predicted {right} of {len(asked)} times."
        )
    return verdict, " ".join(parts) + _unreached(sources)


def _usual_miss(each: SourceRehearsal) -> float:
    return abs(each.usual - each.true["naive"].value)


def _unreached(sources: Sequence[SourceRehearsal]) -> str:
    names = [f"`{each.source}`" for each in sources if not each.reached]
    return f" Not reached from the others: {first_few(names)}." if names else ""
