"""Tables of a page: a cell sorts by its number and shows its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from unskew.report.page.numbers import (
    MISSING,
    shorten,
    show_count,
    show_number,
    show_p_value,
    show_share,
    show_signed,
)

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
        return (
            self
            if len(self.rows) <= most
            else replace(self, rows=self.rows[:most], left_out=len(self.rows) - most)
        )

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
    if len(names) == total > 1:
        return TableCell(f"all {total}", float(total))
    text = ", ".join(shorten(name, 28) for name in names[:most])
    return TableCell(
        text if len(names) <= most else f"{text} and {len(names) - most} more", float(len(names))
    )
