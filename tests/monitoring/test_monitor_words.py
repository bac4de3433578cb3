"""Sentences: what has changed, with its size, and what to do about it."""

from __future__ import annotations

import pytest

from unskew.monitoring.monitor_words import find_next_steps, find_sentences, make_headline
from unskew.monitoring.variables import MEMBERSHIP, OUTSIDE
from unskew.records.monitoring import Change, MonitoredStream, OutsideShare, VariableEvidence


def _stream(
    name: str, kind: str, variable: str, peak: float, change: Change | None = None
) -> MonitoredStream:
    one = VariableEvidence(variable, peak, peak, "monday", 40, change)
    outside = OutsideShare(40, 4, 0.02, 0.3)
    unseen = (("label", "fox", 4),)
    return MonitoredStream(
        name,
        kind,
        100,
        40,
        50,
        (one,),
        outside,
        unseen,
        (peak,),
        peak >= 1.3,  # type: ignore[arg-type]
    )


def test_quiet_streams_ask_for_nothing_and_name_the_alarm() -> None:
    streams = [_stream("north", "source", "label", 0.0)]
    assert "40" in make_headline(streams, 1.3)
    assert "20" in find_sentences(streams, 1.3, 0.05)[0]
    assert len(find_next_steps(streams, 1.3)) == 1


@pytest.mark.parametrize(
    ("kind", "variable", "word"),
    [
        ("source", "label", "unskew weigh"),
        ("source", MEMBERSHIP, "unskew.choose_bias"),
        ("target", OUTSIDE, "Collect"),
        ("target", "label", "margins"),
        ("all", "label", "unskew weigh"),
    ],
)
def test_every_kind_of_drift_has_a_step_of_its_own(kind: str, variable: str, word: str) -> None:
    streams = [_stream("north", kind, variable, 3.0)]
    steps = find_next_steps(streams, 1.3)
    assert any(word in step for step in steps)
    assert "--restart" in steps[-1]


def test_changes_are_shown_with_their_errors() -> None:
    share = _stream("north", "source", "label", 3.0, Change("cat", 0.3, 0.5, 0.021))
    number = _stream("south", "source", "hue", 3.0, Change(None, 1.25, 1.5, 0.11))
    sentences = " ".join(find_sentences([share, number], 1.3, 0.05))
    for fact in ("`cat` 30.0% → 50.0%", "+20.0 ± 2.1 points", "1.25 → 1.5", "± 0.11", "`fox`"):
        assert fact in sentences
    assert "north" in make_headline([share, number], 1.3)
