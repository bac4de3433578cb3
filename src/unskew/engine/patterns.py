"""Regular expressions of the user, stopped where one would search for ever."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from unskew.errors import ConfigError

# Texts searched under one limit, and the limit: a pattern that ends needs microseconds for a text.
_TEXTS, _SECONDS = 1000, 5.0


class _TimeoutError(Exception):
    pass


def compile_pattern(regex: Any, option: str) -> re.Pattern[str]:
    """Compile a regular expression of the user's, which ``option`` holds."""
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError, TypeError, MemoryError) as error:
        raise ConfigError(
            f"{option} {regex!r} is not a regular expression: {error}.", option=option, value=regex
        ) from error


def search_texts(
    pattern: re.Pattern[str], texts: Sequence[str], option: str
) -> list[re.Match[str] | None]:
    """Search each text for the pattern; a `ConfigError` names a pattern that does not end.

    Python's search can be interrupted in the main thread only; elsewhere there is no limit.
    """
    matches: list[re.Match[str] | None] = []
    try:
        for start in range(0, len(texts), _TEXTS):
            with _at_most(_SECONDS):
                matches += [pattern.search(text) for text in texts[start : start + _TEXTS]]
    except _TimeoutError:
        raise ConfigError(
            f"{option} {pattern.pattern!r} was stopped after {_SECONDS:g} seconds on {_TEXTS} "
            "texts or fewer: it tries too many ways to match, as patterns with a repetition in a "
            "repetition do, such as (a+)+b. Write it without.",
            option=option,
            value=pattern.pattern,
            limit=_SECONDS,
        ) from None
    return matches


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    can_interrupt = hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread()
    )
    if not can_interrupt:
        yield
        return

    def stop(*_: object) -> None:
        raise _TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, every)
        signal.signal(signal.SIGALRM, before)
