"""Tables of a page, and numbers and names as a person reads them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from markupsafe import Markup

from unskew.report.summary.record import OTHERS_WITHHELD

T = TypeVar("T")

MISSING = "–"
# Zero-width joiners belong to the spelling of Persian, Hindi and others; every other invisible
# character is shown by its code.
_HARMLESS = {"\u200c", "\u200d"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def show_count(value: float | None) -> str:
    """Show a whole number with thousands separators.

    >>> show_count(12034), show_count(1203.6), show_count(None)
    ('12,034', '1,204', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    return "∞" if math.isinf(value) else _minus(f"{value:,.0f}")


def show_number(value: float | None, digits: int = 3) -> str:
    """Show a few significant digits; powers of ten for very small or very large numbers.

    >>> [show_number(value) for value in (0.012345, 1234.5, 1.2e-7, 0.0, -2.5)]
    ['0.0123', '1,234', '1.2 × 10⁻⁷', '0', '−2.5']
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return _minus(f"{mantissa} × 10{str(int(exponent)).translate(_RAISED)}")
    return _minus(f"{value:,.0f}" if size >= 1000 else f"{value:.{digits}g}")


def show_share(value: float | None) -> str:
    """Show a part of 1 as a percentage.

    >>> [show_share(value) for value in (0.1234, 0.00042, 1.0, 0.99999, 1e-7, 0)]
    ['12.3%', '0.042%', '100%', '>99.9%', '<0.001%', '0%']
    """
    if value is None or math.isnan(value):
        return MISSING
    percent = 100.0 * value
    if percent in (0.0, 100.0):
        return f"{percent:.0f}%"
    if 0 < percent < 0.001:
        return "<0.001%"
    if 99.95 <= percent < 100:
        return ">99.9%"
    return _minus(f"{percent:,.1f}%" if abs(percent) >= 1 else f"{percent:.2g}%")


def show_signed(value: float | None, digits: int = 3) -> str:
    """Show a difference, always with its sign.

    Below a millionth it is rounding.

    >>> show_signed(0.25), show_signed(-0.25), show_signed(0.0), show_signed(-7e-16)
    ('+0.25', '−0.25', '0', '0')
    """
    if value is not None and abs(value) < 1e-6:
        return "0"
    shown = show_number(value, digits)
    return f"+{shown}" if value is not None and value > 0 else shown


def show_p_value(value: float | None) -> str:
    """Show a p-value; bootstrap p-values below a thousandth are not distinguished.

    >>> show_p_value(0.0004), show_p_value(0.032)
    ('<0.001', '0.032')
    """
    return "<0.001" if value is not None and value < 0.001 else show_number(value, 2)


def show_name(name: object) -> str:
    r"""Show a name with line breaks, direction marks and other invisible characters spelled out.

    >>> show_name("a\u202eb\nc")
    'a⟨U+202E⟩b⏎c'
    """
    text = str(name)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_show_character(character) for character in text)


def _show_character(character: str) -> str:
    if character in "\n\t":
        return "⏎" if character == "\n" else "⇥"
    if unicodedata.category(character) in _INVISIBLE and character not in _HARMLESS:
        return f"⟨U+{ord(character):04X}⟩"
    return character


def shorten(name: object, longest: int = 48) -> str:
    """Leave out the middle of a long name.

    >>> shorten("a" * 30 + "b" * 30, 20)
    'aaaaaaaaaaaaa…bbbbbb'
    """
    text = show_name(name)
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 3
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


def shorten_path(path: object, longest: int = 44) -> str:
    """Keep the end of a long path: the name of the file tells more than its folder.

    >>> shorten_path("a/very/long/way/to/IMG_0001.jpg", 20)
    '…/way/to/IMG_0001.jpg'
    """
    text = show_name(path)
    return text if len(text) <= longest else f"…{text[-longest:]}"


def quote_names(text: str) -> str:
    """Put names between backticks, as in messages of the library, into quotation marks.

    >>> quote_names("only 8 images of `night`")
    'only 8 images of “night”'
    """
    return re.sub(r"`([^`]*)`", "“\\1”", text)


def _minus(text: str) -> str:
    return text.replace("-", "−")


# A page must stay small whatever was pooled; further rows are in report.json only.
MOST_ROWS = 500


@dataclass(frozen=True)
class TableColumn:
    """A column: ``numeric`` ones align right and sort by number, ``wide`` ones hold sentences."""

    name: str
    numeric: bool = True
    wide: bool = False


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, and the number by which it sorts; a ``drawing`` replaces the text."""

    text: str
    value: float | None = None
    drawing: Markup | None = None
    mark: str = ""

    @property
    def sort(self) -> str | None:
        """Return the number behind the text, short."""
        return None if self.value is None else f"{self.value:.7g}"


@dataclass(frozen=True)
class PageTable:
    """A table; the first cell of a row names it. ``left_out``: rows beyond what a page holds."""

    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""
    left_out: int = 0
    marked: frozenset[int] = field(default_factory=frozenset)

    def cut(self, most: int = MOST_ROWS) -> PageTable:
        """Return the table with at most ``most`` rows."""
        if len(self.rows) <= most:
            return self
        return replace(self, rows=self.rows[:most], left_out=len(self.rows) - most)

    def without_empty(self) -> PageTable:
        """Return the table without the columns in which nothing is known."""
        kept = [
            k
            for k in range(len(self.columns))
            if k == 0 or any(row[k].text != MISSING for row in self.rows)
        ]
        columns, rows = (
            tuple(self.columns[k] for k in kept),
            tuple(tuple(row[k] for k in kept) for row in self.rows),
        )
        return replace(self, columns=columns, rows=rows)


def table(
    caption: str,
    columns: Sequence[TableColumn | str],
    rows: Iterable[Sequence[TableCell]],
    note: str = "",
    most: int = MOST_ROWS,
) -> PageTable:
    """Make a table of at most ``most`` rows.

    A column given by its name alone is numeric, except the first.
    """
    made = tuple(
        column if isinstance(column, TableColumn) else TableColumn(column, numeric=k > 0)
        for k, column in enumerate(columns)
    )
    return PageTable(caption, made, tuple(tuple(row) for row in rows), note).cut(most)


def list_rows(
    caption: str,
    rows: Sequence[T],
    *columns: tuple[TableColumn | str, Callable[[T], TableCell]],
    note: str = "",
    most: int = MOST_ROWS,
    marked: Callable[[T], bool] = lambda row: False,
) -> PageTable:
    """Make a table with a line for each of ``rows``; a column is its name and what makes a cell."""
    names, cells = zip(*columns, strict=True)
    made = table(caption, names, ([cell(row) for cell in cells] for row in rows), note, most)
    return replace(made, marked=frozenset(k for k, row in enumerate(rows) if marked(row)))


def words(name: str, *, wide: bool = False) -> TableColumn:
    """Return a column of names or sentences."""
    return TableColumn(name, numeric=False, wide=wide)


def name_cell(name: object, longest: int = 80) -> TableCell:
    """Show a name, short enough for a table."""
    return TableCell(shorten(name, longest))


def count_cell(value: float | None) -> TableCell:
    """Show a number of images or groups."""
    return TableCell(show_count(value), value)


def share_cell(value: float | None) -> TableCell:
    """Show a part of 1, in percent."""
    return TableCell(show_share(value), value)


def number_cell(value: float | None) -> TableCell:
    """Show any other number."""
    return TableCell(show_number(value), value)


def signed_cell(value: float | None) -> TableCell:
    """Show a difference."""
    return TableCell(show_signed(value), value)


def p_value_cell(value: float | None) -> TableCell:
    """Show a p-value."""
    return TableCell(show_p_value(value), value)


def error_cell(value: float | None, shown: Callable[[float | None], str] = show_share) -> TableCell:
    """Show a standard error."""
    return TableCell(MISSING if value is None else f"± {shown(value)}", value)


def list_cell(names: Sequence[str], total: int, most: int = 3) -> TableCell:
    """Show several names; many are counted, and all of ``total`` are called all."""
    if not names:
        return TableCell("none", 0.0)
    if len(names) == total > 1 and OTHERS_WITHHELD not in names:
        return TableCell(f"all {total}", float(total))
    text = ", ".join(shorten(name, 28) for name in names[:most])
    if len(names) > most:
        text += f" and {len(names) - most} more"
        text += f", {OTHERS_WITHHELD}" if OTHERS_WITHHELD in names[most:] else ""
    return TableCell(text, float(len(names)))
