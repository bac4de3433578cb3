"""The page of a watch: hostile names are shown as text, and nothing is requested."""

from __future__ import annotations

import pytest

from unskew.records.monitoring import (
    Change,
    MonitoredStream,
    Monitoring,
    OutsideShare,
    VariableEvidence,
)
from unskew.report.page.monitor_page import render_monitoring

_HOSTILE = "<script>alert(1)</script>"


def _watch(n_looks: int, peak: float = 7.0) -> Monitoring:
    change = Change(_HOSTILE, 0.2, 0.5, 0.1)
    variables = (
        VariableEvidence("label", peak, peak, _HOSTILE, 9, change),
        VariableEvidence("hue", 0.0, 0.0, "x", 9, Change(None, 1.0, 2.0, 0.5)),
        VariableEvidence("weight", 0.0, 0.0, "x", 9, None),
    )
    outside, unseen = OutsideShare(9, 1, 0.0, 0.6), (("label", _HOSTILE, 3),)
    trace = tuple(-4.0 + peak * k / n_looks for k in range(n_looks))
    streams = tuple(
        MonitoredStream(name, kind, 5, 9, 9, variables, outside, unseen, trace, peak > 1)  # type: ignore[arg-type]
        for name, kind in ((_HOSTILE, "source"), ("(all sources)", "all"), ("(target)", "target"))
    )
    looks = tuple(f"{_HOSTILE}{k}" for k in range(n_looks))
    return Monitoring(
        peak > 1, f"`{_HOSTILE}`", (_HOSTILE,), (_HOSTILE,), streams, looks, 9, 1, 1.3, (_HOSTILE,)
    )


@pytest.mark.parametrize("n_looks", [1, 2, 3, 400])
def test_names_are_escaped_and_nothing_is_requested(n_looks: int) -> None:
    page = render_monitoring(_watch(n_looks))
    assert _HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<figure") == 3
    assert "level-no" in page


def test_a_quiet_watch_is_stamped_so() -> None:
    page = render_monitoring(_watch(3, peak=0.1))
    assert "level-ok" in page
    assert "Verdict: No drift" in page
