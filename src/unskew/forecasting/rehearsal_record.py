"""The result of a rehearsal: predicted against true accuracy for each source, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import scipy.special

from unskew.engine.arguments import checked
from unskew.errors import DataError, first_few
from unskew.forecasting.record import finite
from unskew.forecasting.sentences import plus_minus, points
from unskew.records import Estimate

if TYPE_CHECKING:
    import pandas as pd

# A prediction holds if it is off by no more standard errors (its own and that of the truth) than
# chance explains, or by two points. A right model is called wrong anywhere with this probability,
# over all sources together.
_LEVEL = 0.05
_NEAR = 0.02
# Beyond this combined standard error (five points) agreement says nothing.
_VAGUE = 0.05
_MANY_ERRORS = 3.0
# Which arm wins is asked where they truly differ by more than a point.
_DIFFERS = 0.01
# Sources that ``repr`` lists.
_SHOWN = 5


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
    looks : number of sources that are judged together: the more, the larger the miss that chance
        explains (Bonferroni).
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
    looks: int = 1

    @property
    def reached(self) -> bool:
        """Whether the others could be weighted to it."""
        return self.obstacle is None

    def miss(self, arm: str = "debiased") -> float:
        """Compute predicted − true accuracy; NaN where it was not reached."""
        return self.predicted[arm].value - self.true[arm].value if self.reached else math.nan

    def miss_stderr(self, arm: str = "debiased") -> float:
        """Compute the standard error of `miss`, taking prediction and truth for independent.

        NaN where it was not reached.
        """
        return (
            math.hypot(self.predicted[arm].stderr, self.true[arm].stderr)
            if self.reached
            else math.nan
        )

    @property
    def limit(self) -> float:
        """Number of standard errors that chance explains: 1.96 for one source, 2.58 for five."""
        return float(scipy.special.ndtri(1 - _LEVEL / (2 * self.looks)))

    @property
    def holds(self) -> bool | None:
        """Whether the prediction for debiased is within its error of the truth; None if unclear."""
        if not self.reached:
            return None
        if not self.miss_stderr() <= _VAGUE:
            # Agreement says nothing then, but a miss by far does.
            limit = max(self.limit, _MANY_ERRORS)
            return False if abs(self.miss()) > limit * self.miss_stderr() else None
        return abs(self.miss()) <= max(self.limit * self.miss_stderr(), _NEAR)

    @property
    def winner_right(self) -> bool | None:
        """Whether the better arm was predicted; None where they do not truly differ by a point."""
        if (
            self.predicted_gain is None
            or self.true_gain is None
            or abs(self.true_gain.value) <= _DIFFERS
        ):
            return None
        return self.predicted_gain.value * self.true_gain.value > 0


@dataclass(frozen=True, repr=False)
class Rehearsal:
    """Each source in turn as the target.

    Attributes
    ----------
    verdict : "transfers", "transfers in part", "does not transfer" or "cannot tell".
    message : the verdict with its reasons, as sentences.
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

    @checked
    def source(self, name: str) -> SourceRehearsal:
        """Return the source of that name."""
        sources = {rehearsed.source: rehearsed for rehearsed in self.sources}
        if name not in sources:
            raise DataError(
                f"there is no source {name!r}; the sources are {first_few(list(sources), 12)}.",
                source=name,
                sources=list(sources),
            )
        return sources[name]

    def table(self) -> pd.DataFrame:
        """Tabulate the sources, in points.

        Predicted and true accuracy of both arms with errors, gains, the usual prediction.
        """
        import pandas as pd

        return pd.DataFrame([_row(source) for source in self.sources])

    def lines(self) -> list[str]:
        """Return the lines that the command line prints."""
        width = max(len(source.source) for source in self.sources)
        lines = [self.message, ""]
        lines.append(
            f"  {'target':{width}}  {'naive: predicted':>16}  {'true':>10}  "
            f"{'debiased: predicted':>19}  {'true':>10}  {'usual':>5}"
        )
        for source in self.sources:
            if not source.reached:
                lines.append(f"  {source.source:{width}}  not reached: {source.obstacle}")
                continue
            shown = [
                _shown(numbers[arm])
                for arm in ("naive", "debiased")
                for numbers in (source.predicted, source.true)
            ]
            tail = "" if source.holds is not False else "  off"
            lines.append(
                f"  {source.source:{width}}  {shown[0]:>16}  {shown[1]:>10}  {shown[2]:>19}  "
                f"{shown[3]:>10}  {100 * source.usual:5.1f}{tail}"
            )
        lines += [
            "",
            "± is one standard error; usual: cross-validation of naive on the other sources, "
            "without weights.",
        ]
        return [
            *lines,
            *(
                f"Note on {source.source}: {note}"
                for source in self.sources
                for note in source.notes
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts for JSON; what is not a finite number is None."""
        values: dict[str, Any] = finite(asdict(self))
        return values

    def _repr_html_(self) -> str:
        from unskew.report.notebook import rehearsal_html

        return rehearsal_html(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        lines = [f"Rehearsal: {self.verdict} ({self.family}; {self.learner}, {self.n_folds} folds)"]
        lines += [f"  {_in_short(source)}" for source in self.sources[:_SHOWN]]
        if len(self.sources) > _SHOWN:
            lines.append(f"  and {len(self.sources) - _SHOWN} more sources")
        return "\n".join(lines)


def _in_short(source: SourceRehearsal) -> str:
    if not source.reached:
        return f"{source.source}: not reached from the others"
    off = "" if source.holds is not False else ", off"
    return (
        f"{source.source}: debiased {_shown(source.predicted['debiased'])} predicted, "
        f"{_shown(source.true['debiased'])} true{off}"
    )


def _shown(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} ± {100 * estimate.stderr:.1f}"


def _row(source: SourceRehearsal) -> dict[str, Any]:
    row: dict[str, Any] = {
        "source": source.source,
        "images": source.images,
        "reached": source.reached,
        "ess": source.ess,
    }
    for arm in ("naive", "debiased"):
        for what, numbers in (("predicted", source.predicted), ("true", source.true)):
            row[f"{arm}_{what}"] = 100 * numbers[arm].value if arm in numbers else math.nan
            row[f"{arm}_{what}_stderr"] = 100 * numbers[arm].stderr if arm in numbers else math.nan
    for what, gain in (("predicted", source.predicted_gain), ("true", source.true_gain)):
        row[f"gain_{what}"] = math.nan if gain is None else 100 * gain.value
    return {
        **row,
        "usual": 100 * source.usual,
        "holds": source.holds,
        "remark": source.obstacle or "",
    }


def judge_rehearsal(sources: Sequence[SourceRehearsal], family: str) -> tuple[str, str]:
    """Judge whether this bias model transfers on these data: the verdict, and it with reasons."""
    clear = [source for source in sources if source.holds is not None]
    held = [source for source in clear if source.holds]
    if not clear:
        why = (
            "no source can be reached from the others"
            if not any(source.reached for source in sources)
            else "the errors are too large"
        )
        return (
            "cannot tell",
            f"It remains open whether the bias model ({family}) transfers: "
            f"{why}.{_unreached(sources)}",
        )
    verdict = (
        "transfers"
        if len(held) == len(clear)
        else "transfers in part"
        if 2 * len(held) > len(clear)
        else "does not transfer"
    )
    miss = sum(abs(source.miss()) for source in clear) / len(clear)
    usual = sum(abs(source.usual - source.true["naive"].value) for source in clear) / len(clear)
    parts = [
        f"The bias model ({family}) {verdict}: weighted to each source in turn, the predicted "
        f"accuracy of the debiased model holds on {len(held)} of {len(clear)} (off by "
        f"{points(miss)} points on average; ordinary cross-validation of naive by {points(usual)})."
    ]
    parts += [
        f"On `{source.source}` it is {plus_minus(source.true['debiased'])}, and "
        f"{plus_minus(source.predicted['debiased'])} was predicted."
        for source in clear
        if not source.holds
    ]
    asked = [source for source in clear if source.winner_right is not None]
    if asked:
        right = sum(bool(source.winner_right) for source in asked)
        parts.append(
            "Where naive and debiased truly differ by more than a point, the better one was "
            f"predicted {right} of {len(asked)} times."
        )
    vague = [f"`{source.source}`" for source in sources if source.reached and source.holds is None]
    if vague:
        parts.append(f"Errors are too large to tell on {first_few(vague)}.")
    return verdict, " ".join(parts) + _unreached(sources)


def _unreached(sources: Sequence[SourceRehearsal]) -> str:
    names = [f"`{source.source}`" for source in sources if not source.reached]
    return f" Not reached from the others: {first_few(names)}." if names else ""
