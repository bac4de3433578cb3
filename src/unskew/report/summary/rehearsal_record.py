"""A rehearsal on the page: a part of `report.json`."""

from __future__ import annotations

from dataclasses import dataclass

Number = float | None


@dataclass(frozen=True)
class RehearsedArm:
    """Accuracy on a source of a model trained on the others: predicted without labels, and true."""

    predicted: Number
    predicted_stderr: Number
    true: Number
    true_stderr: Number


@dataclass(frozen=True)
class RehearsedSource:
    """A source in the role of the target; ``obstacle``: why it could not be reached.

    ``usual``: what cross-validation on the others, without weights, would have predicted;
    ``holds``: whether the prediction for debiased is within its error; None where that is unclear.
    """

    name: str
    images: int | None
    naive: RehearsedArm | None
    debiased: RehearsedArm | None
    usual: Number
    holds: bool | None
    obstacle: str | None = None


@dataclass(frozen=True)
class RehearsalPanel:
    """Does the bias model transfer? Every source in turn as the target of the others."""

    verdict: str
    message: str
    sources: tuple[RehearsedSource, ...]
    learner: str
    notes: tuple[str, ...] = ()
