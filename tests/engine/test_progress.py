"""The progress bar: silent where nobody looks, and on the error stream only."""

import io
import sys

import pytest

from unskew.engine.progress import show_progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _run(show: bool | None) -> None:
    with show_progress("Reading [images]", 300, show) as advance:
        for _ in range(3):
            advance(100)


def test_silent_when_not_a_terminal_or_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(None)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", _Terminal())
    _run(False)
    assert sys.stderr.getvalue() == ""


def test_on_a_terminal_it_shows_count_rate_and_label(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    _run(None)
    shown = terminal.getvalue()
    assert "Reading [images]" in shown
    assert "300/300" in shown
    assert "/s" in shown
    assert capsys.readouterr().out == ""


def test_a_closed_error_stream_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (None, io.StringIO()):
        if stream is not None:
            stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        _run(None)


def test_an_error_inside_comes_through() -> None:
    def fail() -> None:
        with show_progress("Reading", 3) as advance:
            advance(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
