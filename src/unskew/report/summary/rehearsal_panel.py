"""A rehearsal, as `rehearsal.json` holds it, becomes a panel of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.errors import DataError
from unskew.report.summary.plain import plain_value, rounded
from unskew.report.summary.privacy import SMALLEST_CELL, private_sentences
from unskew.report.summary.rehearsal_record import (
    Number,
    RehearsalPanel,
    RehearsedArm,
    RehearsedSource,
)

_PRIVATE = "The table has the figures of every source that may be shown."
_UNREACHED = "its images cannot be reached from the others"


def show_rehearsal(record: Mapping[str, Any], privacy: str = "full") -> RehearsalPanel:
    """Return the panel of a rehearsal.

    With ``privacy = "aggregate"`` sources of fewer than ten images are left out with every sentence
    that names them, accuracies have three digits, and sentences with numbers are left out.
    """
    private = privacy == "aggregate"
    try:
        sources = record["sources"]
        hidden = [str(one["source"]) for one in sources if private and _is_small(one)]
        notes = (f"{one['source']}: {note}" for one in sources for note in one["notes"])
        panel = RehearsalPanel(
            verdict=str(record["verdict"]),
            # The message names sources and their figures.
            message=_PRIVATE if private else str(record["message"]),
            sources=tuple(
                _source(one, private) for one in sources if str(one["source"]) not in hidden
            ),
            learner=str(record["learner"]),
            notes=tuple(
                note
                for note in (private_sentences(notes, hidden) if private else notes)
                if not private or not any(character.isdigit() for character in note)
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"this is not a rehearsal of this version ({type(error).__name__}: {error}); run "
            "`unskew rehearse` again."
        ) from error
    plain: RehearsalPanel = plain_value(panel)
    return plain


def _is_small(source: Mapping[str, Any]) -> bool:
    """Tell whether the source, or the part of it that judged, may not be shown."""
    smallest: int = min(source["images"], source["judged"] or source["images"])
    return smallest < SMALLEST_CELL


def _source(source: Mapping[str, Any], private: bool) -> RehearsedSource:
    obstacle = source["obstacle"]
    return RehearsedSource(
        name=str(source["source"]),
        images=int(source["images"]),
        naive=_arm(source, "naive", private),
        debiased=_arm(source, "debiased", private),
        usual=_rounded(source["usual"], private),
        holds=source["holds"],
        # The reason may count images.
        obstacle=_UNREACHED if private and obstacle is not None else obstacle,
    )


def _arm(source: Mapping[str, Any], name: str, private: bool) -> RehearsedArm | None:
    if source["obstacle"] is not None:
        return None
    predicted, true = source["predicted"][name], source["true"][name]
    return RehearsedArm(
        predicted=_rounded(predicted["value"], private),
        predicted_stderr=_rounded(predicted["stderr"], private),
        true=_rounded(true["value"], private),
        true_stderr=_rounded(true["stderr"], private),
    )


def _rounded(value: float | None, private: bool) -> Number:
    return None if value is None else rounded(float(value), 3 if private else 10)
