"""Texts in CSV files that a spreadsheet must not run as formulas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Spreadsheets take a cell that begins with one of these for a formula, and run it. What begins with
# apostrophes before that is marked, too, so that one apostrophe is always ours.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def guard_formula(text: Any) -> Any:
    """Put an apostrophe before a text that is a formula, as spreadsheets mark text.

    >>> [guard_formula(text) for text in ("=1+1", "-3.5", "cat", 7)]
    ["'=1+1", '-3.5', 'cat', 7]
    """
    is_formula = isinstance(text, str) and _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def unguard_formula(text: Any) -> Any:
    """Undo `guard_formula`.

    >>> unguard_formula("'=1+1")
    '=1+1'
    """
    is_guarded = isinstance(text, str) and text.startswith("'") and guard_formula(text[1:]) == text
    return text[1:] if is_guarded else text


def guard_table(table: pd.DataFrame) -> pd.DataFrame:
    """Guard every text of a table, and the names of its columns."""
    return table.rename(columns=guard_formula).map(guard_formula)


def unguard_table(table: pd.DataFrame) -> pd.DataFrame:
    """Undo `guard_table`."""
    return table.rename(columns=unguard_formula).map(unguard_formula)
