"""What several commands share."""

from __future__ import annotations

import shlex
import sys

import pytest

from raising import refused
from report.page.samples import SAMPLES
from unskew.cli.options import shows_progress, summary_of_refusal, written_command
from unskew.errors import CoverageError, OverlapError


def test_a_bar_is_left_to_the_terminal_unless_nothing_shall_be_printed() -> None:
    assert shows_progress(False) is None
    assert shows_progress(True) is False
    assert shows_progress(False, as_json=True) is False


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["weigh", "my run.toml", "-o", "it's here", "", "$HOME"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/unskew", *typed])
    assert shlex.split(written_command()) == ["unskew", *typed]


@pytest.mark.parametrize("kind", [OverlapError, CoverageError])
def test_a_refusal_of_a_run_has_its_page_and_another_is_raised_again(kind: type) -> None:
    error = kind("no", option="target")
    with refused(kind, option="target") as caught:
        summary_of_refusal(error)
    assert caught.value is error
    error.summary = SAMPLES["refused"]()
    assert summary_of_refusal(error) is error.summary
