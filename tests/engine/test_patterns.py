"""Regular expressions of the user: the matches of `re`, and an end."""

from __future__ import annotations

import re
import signal
import threading

import pytest

from raising import refused
from unskew.engine import patterns
from unskew.engine.patterns import compile_pattern, search_texts
from unskew.errors import ConfigError


def test_the_matches_are_those_of_re() -> None:
    texts = [f"sku{number}.png" for number in range(2500)]
    matches = search_texts(re.compile(r"(\d+)"), texts, "group.regex")
    assert [match[1] for match in matches if match] == [str(number) for number in range(2500)]


def test_a_pattern_without_end_is_stopped_and_the_timer_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    with refused(ConfigError, option="group.regex", value="(a+)+b", limit=0.2):
        search_texts(re.compile("(a+)+b"), ["a" * 60], "group.regex")
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_other_threads_search_without_a_limit() -> None:
    matches: list[object] = []
    thread = threading.Thread(
        target=lambda: matches.extend(search_texts(re.compile("b"), ["ab", "c"], "group.regex"))
    )
    thread.start()
    thread.join()
    assert [bool(match) for match in matches] == [True, False]


@pytest.mark.parametrize("regex", ["(", "a{99999999999}", "(" * 5000, 3])
def test_what_is_no_regular_expression(regex: object) -> None:
    with refused(ConfigError, option="group.regex", value=regex):
        compile_pattern(regex, "group.regex")
