"""The levels of an attribute: as text, in bins, and the level of every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Ints
from unskew.records.levels import MISSING, level_text, text_levels

if TYPE_CHECKING:
    import pandas as pd

# More levels than this of a numeric attribute are measurements, not categories.
_MOST_LEVELS = 100


def bin_labels(edges: Sequence[float]) -> list[str]:
    """Name the bins: ``[0, 40)``, ``[40, 60]``; the last one holds its upper edge, too."""
    text = [level_text(edge) for edge in edges]
    closing = [")"] * (len(text) - 2) + ["]"]
    return [
        f"[{low}, {high}{end}" for low, high, end in zip(text[:-1], text[1:], closing, strict=True)
    ]


def check_edges(name: str, edges: Sequence[float]) -> tuple[float, ...]:
    """Read two or more increasing numbers (infinite ones at the ends are fine)."""
    try:
        read = np.asarray(list(edges), dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(
            f"bins[{name!r}] must be a list of numbers, such as [0, 40, 60, 75]; got {edges!r}.",
            option="bins",
            column=name,
            value=edges,
        ) from None
    if read.ndim != 1 or read.size < 2 or np.isnan(read).any() or not (np.diff(read) > 0).all():
        raise ConfigError(
            f"bins[{name!r}] must be two or more edges in increasing order, such as [0, 40, 60, "
            f"75]; got {list(edges)}.",
            option="bins",
            column=name,
            value=list(edges),
        )
    return tuple(read.tolist())


def binned_levels(
    column: pd.Series[Any], name: str, edges: Sequence[float]
) -> tuple[list[str], Ints]:
    """(levels that occur, code of every row) of a numeric column cut at ``edges``.

    Values beyond the outer edges get the levels ``< 0`` and ``> 120`` (of edges 0 … 120), missing
    ones `MISSING`. Text must be the label of a bin, as `bin_labels` writes it.
    """
    import pandas as pd

    labels = bin_labels(edges)
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        levels, code_n = text_levels(column, name)
        unknown = [level for level in levels if level not in labels and level != MISSING]
        if not unknown:
            return levels, code_n
        column = _as_numbers(column, name, labels, unknown)
    value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
    n_bins = len(labels)
    # 0 below, 1 … M in a bin, M + 1 above, M + 2 missing
    bin_n = np.searchsorted(np.asarray(edges), value_n, side="right")
    bin_n[value_n == edges[-1]] = n_bins
    bin_n[np.isnan(value_n)] = n_bins + 2
    every = [f"< {level_text(edges[0])}", *labels, f"> {level_text(edges[-1])}", MISSING]
    present, code_n = np.unique(bin_n, return_inverse=True)
    return [every[at] for at in present], code_n.astype(np.int64)


def _as_numbers(
    column: pd.Series[Any], name: str, labels: list[str], unknown: list[str]
) -> pd.Series[Any]:
    import pandas as pd

    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{name} has bins, so its values must be numbers or the labels of the bins "
            f"({first_few(labels, 12)}); got {first_few(unknown)}.",
            column=name,
            levels=unknown,
        ) from error


def check_discrete(column: pd.Series[Any], name: str, way_out: str) -> None:
    """Refuse measurements without bins, which would make a level of nearly every image."""
    if column.dtype.kind == "f" and column.nunique() > _MOST_LEVELS:
        raise ConfigError(
            f"{name} is numeric with {column.nunique()} values; choose where to cut it: {way_out}.",
            column=name,
            count=column.nunique(),
            limit=_MOST_LEVELS,
        )


def column_levels(
    column: pd.Series[Any], name: str, edges: Sequence[float] | None
) -> tuple[list[str], Ints]:
    """(levels that occur, code of every row), binned where there are edges."""
    return text_levels(column, name) if edges is None else binned_levels(column, name, edges)


def cells_of(code_na: Sequence[Ints]) -> tuple[Ints, Ints]:
    """((C, A) the combinations of codes that occur, ascending, (n,) that of every row)."""
    import pandas as pd

    cell_n = np.zeros(code_na[0].size, dtype=np.int64)
    for code_n in code_na:
        # Renumbered after every attribute, so that the product never overflows. By hashing: n rows
        # need not be sorted.
        hashed_n, value_c = pd.factorize(cell_n * (int(code_n.max(initial=0)) + 1) + code_n)
        rank_c = np.empty(value_c.size, dtype=np.int64)
        rank_c[np.argsort(value_c)] = np.arange(value_c.size)
        cell_n = rank_c[hashed_n]
    row_c = np.zeros(int(cell_n.max(initial=-1)) + 1, dtype=np.int64)
    row_c[cell_n] = np.arange(cell_n.size)
    return np.column_stack([code_n[row_c] for code_n in code_na]).astype(np.int64), cell_n
