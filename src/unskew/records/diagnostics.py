"""How far the weights can be trusted: fit, error bars, outcomes, and sensitivity to c(z)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from unskew.records.arrays import Floats
from unskew.records.weights import Estimate

if TYPE_CHECKING:
    from unskew.bias.fit_check import FitCheck


@dataclass(frozen=True)
class OutcomeRange:
    """The range of a target mean when c(z) may vary within ``factor``.

    Attributes
    ----------
    outcome : what the mean is of.
    factor : Γ.
    value : the mean with the weights unchanged (c constant).
    low, high : its smallest and largest value over all c with max c/min c ≤ ``factor``.
    interval : the range widened by sampling error.
    scope : what c may depend on.
    """

    outcome: str
    factor: float
    value: float
    low: float
    high: float
    interval: tuple[float, float]
    scope: str = ""


@dataclass(frozen=True)
class OutcomeMean:
    """A target mean of an outcome, with the comparison of its sources.

    Attributes
    ----------
    outcome : what the mean is of.
    estimate : the mean; ``estimate.agreement`` says whether the sources measure alike.
    is_share : are all values 0 or 1?
    is_named : is it named by the user, or the share of a class? The verdict reads no others.
    """

    outcome: str
    estimate: Estimate
    is_share: bool
    is_named: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics:
    """Everything that a report needs computed: it solves, resamples and tests nothing itself.

    Attributes
    ----------
    names : names of the K sources.
    fit : the test of fit; None where there is none.
    fit_note : why there is none.
    stderr : (K,) asymptotic standard errors of log Ω̂; NaN where there is none.
    stderr_bootstrap : (K,) the same from the bootstrap.
    stderr_note : how the two were computed.
    stratum_stderr : (C,) standard errors of the target's masses of the strata; None without strata.
    sensitivity : ranges of target means.
    sensitivity_note : why there are none, or fewer than requested.
    outcomes : target means, with the comparison of their sources.
    outcomes_note : why there are none, or fewer than requested.
    advice : what to collect to lower errors, as sentences with numbers.
    privacy : "aggregate" if no outcome that was chosen by default has a class or level that such
        a report withholds, and sources of few images are withheld from ``outcomes``.
    """

    names: tuple[str, ...]
    fit: FitCheck | None
    fit_note: str
    stderr: Floats
    stderr_bootstrap: Floats
    stderr_note: str
    stratum_stderr: Floats | None = None
    sensitivity: tuple[OutcomeRange, ...] = field(default=())
    sensitivity_note: str = ""
    privacy: Literal["full", "aggregate"] = "full"
    outcomes: tuple[OutcomeMean, ...] = field(default=())
    outcomes_note: str = ""
    advice: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fit = self.fit_note if self.fit is None else f"p = {self.fit.p_value:.3g}"
        outcomes = len({row.outcome for row in self.sensitivity})
        apart = sum(mean.estimate.sources_disagree for mean in self.outcomes)
        return (
            f"Diagnostics of {len(self.names)} sources\n  fit: {fit}\n  error bars: "
            f"{self.stderr_note}\n  sources disagree on {apart} of {len(self.outcomes)} outcomes\n "
            f" sensitivity to c(z): {outcomes} outcomes {self.sensitivity_note}".rstrip()
        )
