"""Errors as messages and exit codes; warnings as lines on the error stream.

Exit codes: 0 done; 2 wrong call or configuration; 3 not identifiable; 4 data unusable; 130 stopped
by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP; 1 a bug of ours.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from unskew.cli.stop_signal import stop_code
from unskew.errors import (
    ConfigError,
    ConvergenceError,
    CoverageError,
    DataError,
    OverlapError,
    UnskewError,
    WeakOverlapWarning,
)
from unskew.files.plain_json import json_value

DONE, BUG, WRONG_CALL, NOT_IDENTIFIABLE, UNUSABLE = 0, 1, 2, 3, 4

_STOPPED = (
    "Stopped. No file was left half-written, and what was computed is kept: run {} to continue "
    "from there."
)
# What the library calls in Python, and what the command line calls it.
_IN_COMMANDS = (
    (
        re.compile(r"\b(?:unskew\.)?Target\.(sample|source|margins|table|uniform)\b(?:\(…?\))?"),
        r"[target] \1",
    ),
    (re.compile(r"\b(?:unskew\.)?choose_bias\b(?:\(…?\))?"), "`unskew choose`"),
    (
        re.compile(
            r"Multiply by Strata\(\[(.+?)\]\) in a Product, or call calibrate_weights afterwards"
        ),
        r'Make it a product that has [[bias.factors]] with family = "strata", by = [\1]',
    ),
    (re.compile(r"\bStrata\(by=\[…\]\)"), '[bias] family = "strata" with by = […]'),
)
_PAGE = "Causes and cures: docs/reference/errors.md#unskew.{}"
_BUG = (
    "This is a bug in unskew, not a mistake of yours. Please report it with the lines above and "
    "the command."
)


def explain(error: BaseException, as_json: bool = False, arguments: Sequence[str] = ()) -> int:
    """Print an error on the error stream; return its exit code.

    ``as_json`` also prints one document on standard output. ``arguments`` are those of the command
    that was run: they decide how it is to be run again.
    """
    # typer brings click along under one name or another, so its exceptions are known by what they
    # carry.
    called = getattr(error, "exit_code", None)
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return say_stopped(as_json, arguments)
    if isinstance(error, BrokenPipeError):
        # The reader wanted the first lines only (`unskew describe … | head`): that is no error,
        # and nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    if called is not None:
        if hasattr(error, "show"):
            error.show()
            _print_error(error, getattr(error, "message", "") or str(error), int(called), as_json)
        return int(called)
    if isinstance(error, UnskewError | OSError | MemoryError):
        text, code = _message(error, arguments), exit_code(error)
    else:
        import traceback

        traceback.print_exception(error)
        text, code = _BUG, BUG
    complain(f"{text}\n{_PAGE.format(type(error).__name__)}" if _is_listed(error) else text)
    _print_error(error, text if code != BUG else f"{type(error).__name__}: {error}", code, as_json)
    return code


def _is_listed(error: BaseException) -> bool:
    """Tell whether the documentation has a section on this kind of error."""
    return isinstance(error, UnskewError) and type(error).__module__ == UnskewError.__module__


def say_stopped(as_json: bool = False, arguments: Sequence[str] = ()) -> int:
    """Print, after Ctrl-C or SIGTERM, what is kept and how to continue; return the exit code."""
    text = _STOPPED.format(_again(arguments))
    complain(text)
    _print_error(KeyboardInterrupt(), text, stop_code(), as_json)
    return stop_code()


def _again(arguments: Sequence[str]) -> str:
    """Say how to continue a command that was stopped: a training needs --resume."""
    if "train" not in arguments[:1] or "--resume" in arguments:
        return "the same command again"
    return (
        f"the same command with --resume{' in place of --force' if '--force' in arguments else ''}"
    )


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    if isinstance(error, ConfigError):
        return WRONG_CALL
    if isinstance(error, OverlapError | CoverageError | ConvergenceError):
        return NOT_IDENTIFIABLE
    return UNUSABLE if isinstance(error, DataError | OSError | MemoryError) else BUG


def _message(error: BaseException, arguments: Sequence[str]) -> str:
    if isinstance(error, MemoryError):
        return (
            "There is not enough memory for this. Use fewer features or sources at once, or a "
            "machine with more."
        )
    if isinstance(error, OSError) and not isinstance(error, UnskewError):
        has_name = isinstance(error.filename, str | bytes)
        path = f"{os.fsdecode(error.filename)}: " if has_name else ""
        return (
            f"{path}{error.strerror or error}. Nothing was left half-written; fix that and run "
            f"{_again(arguments)}."
        )
    return speak_commands(str(error))


def speak_commands(text: str) -> str:
    """Put advice that names Python's functions into settings and commands.

    >>> speak_commands("pass Target.sample(…); unskew.choose_bias compares them")
    'pass [target] sample; `unskew choose` compares them'
    """
    for pattern, words in _IN_COMMANDS:
        text = pattern.sub(words, text)
    return text


def _print_error(error: BaseException, message: str, code: int, as_json: bool) -> None:
    if as_json:
        record: dict[str, Any] = {
            "kind": type(error).__name__,
            "message": message,
            "exit_code": code,
        }
        if _is_listed(error):
            record["page"] = f"reference/errors.md#unskew.{type(error).__name__}"
        if getattr(error, "problems", ()):
            record["problems"] = list(error.problems)  # type: ignore[attr-defined]
        if getattr(error, "facts", {}):
            record["facts"] = json_value(error.facts)  # type: ignore[attr-defined]
        print_json({"error": record})


def print_json(document: Any) -> None:
    """Print one document in ASCII: no name of a file is too odd for the terminal."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def complain(text: str) -> None:
    """Print an error on the error stream."""
    _print_note("unskew: ", "bold red", text)


def remark(text: str) -> None:
    """Print a warning on the error stream."""
    _print_note("note: ", "bold yellow", text)


def _print_note(before: str, style: str, text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(
        Text(before, style=style) + Text(_visible_lines(text))
    )


def _visible_lines(text: str) -> str:
    """Show control characters but newlines, such as an escape sequence in the name of a file."""
    return "".join(
        sign
        if sign.isprintable() or sign == "\n"
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


@contextmanager
def remarks(quiet: bool) -> Iterator[None]:
    """Print warnings of the library, raised or logged, once each as one line; none if ``quiet``.

    That sources are weakly linked is left to the verdict, which has the same sentence.
    """
    import warnings

    printed: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = speak_commands(str(message))
        if not quiet and text not in printed and not isinstance(message, WeakOverlapWarning):
            printed.add(text)
            remark(text)

    class Remarks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.getMessage())

    logger, handler = logging.getLogger("unskew"), Remarks(logging.WARNING)
    logger.addHandler(handler)
    # That loops are compiled, which takes seconds, is no warning, but told as it begins.
    compiling, teller = logging.getLogger("unskew.engine.compilation"), Remarks(logging.INFO)
    compiling.setLevel(logging.INFO)
    compiling.addHandler(teller)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        compiling.removeHandler(teller)
        compiling.setLevel(logging.NOTSET)
