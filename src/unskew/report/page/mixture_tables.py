"""In which ratio the sources are mixed today, and in which the weights mix them."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.report.page.panels import share_strip
from unskew.report.page.tables import (
    PageTable,
    TableCell,
    TableColumn,
    name_cell,
    number_cell,
    share_cell,
    table,
)
from unskew.report.summary.record import MixturePanel, MixtureRow


def source_mixture(panel: MixturePanel) -> PageTable:
    """List the sources: share of the images, share of the weights, and how often to repeat."""
    return _mixture_table("Sources", panel.sources, ("Source",))


def class_mixture(panel: MixturePanel) -> PageTable:
    """List the classes of each source, those that change most first."""
    return _mixture_table("Source × class", panel.classes, ("Source", "Class"))


def bias_table(panel: MixturePanel) -> PageTable:
    """List how far one number per source misses what is known."""
    return table(
        "Bias that remains with one number per source",
        ("What", "Off by at most"),
        ([name_cell(what, 120), share_cell(bias)] for what, bias in panel.bias_left),
    )


def _mixture_table(caption: str, rows: Sequence[MixtureRow], names: tuple[str, ...]) -> PageTable:
    shares = [share for row in rows for share in (row.pool, row.weighted) if share is not None]
    top = max(shares, default=1.0) or 1.0
    columns: list[TableColumn | str] = [
        names[0],
        *(TableColumn(name, numeric=False) for name in names[1:]),
        "Today",
        "By the weights",
        TableColumn("Shares", numeric=False),
        "Repeat",
    ]
    return table(caption, columns, (_cells(row, top, len(names)) for row in rows))


def _cells(row: MixtureRow, top: float, n_names: int) -> list[TableCell]:
    factor = row.weighted / row.pool if row.pool and row.weighted is not None else None
    return [
        name_cell(row.source),
        *([name_cell(row.label or "")] if n_names == 2 else []),
        share_cell(row.pool),
        share_cell(row.weighted),
        TableCell("", drawing=share_strip((("pool", row.pool), ("debiased", row.weighted)), top)),
        number_cell(factor),
    ]
