"""The record of a watch prints itself, and is plain data."""

from __future__ import annotations

import json

from unskew.records.monitoring import (
    Change,
    MonitoredStream,
    Monitoring,
    OutsideShare,
    VariableEvidence,
)


def _watch() -> Monitoring:
    one = VariableEvidence("label", 1.0, 2.0, "monday", 9, Change("cat", 0.2, 0.5, 0.1))
    other = VariableEvidence("hue", 0.0, 0.5, "monday", 9, None)
    stream = MonitoredStream(
        "north", "source", 20, 8, 9, (one, other), OutsideShare(8, 2, 0.0, 0.6), (), (1.0,), True
    )
    return Monitoring(True, "Drift", (), ("Do this.",), (stream,), ("monday",), 9, 0, 1.3)


def test_a_watch_prints_its_streams_and_what_to_do() -> None:
    text = repr(_watch())
    assert "north: drifted, 8 new units, evidence 100 (label)" in text
    assert "Do this." in text


def test_a_watch_is_plain_data() -> None:
    record = json.loads(json.dumps(_watch().to_dict()))
    (stream,) = record["streams"]
    assert stream["log10_peak"] == 2.0
    assert stream["outside"]["share"] == 0.25
    assert _watch().streams[0].strongest.variable == "label"
    assert OutsideShare(0, 0, 0.0, 1.0).share == 0.0
