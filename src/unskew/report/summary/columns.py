"""Columns as a report shows them: numbers in bins with round edges, everything else by level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.records import Floats, Ints
from unskew.records.levels import level_text
from unskew.report.summary.privacy import SMALLEST_CELL
from unskew.target.facts import bin_labels, column_levels

if TYPE_CHECKING:
    import pandas as pd

# Numbers with no more distinct values than this are categories (0/1, a digit).
_FEW_VALUES = 12
_MOST_BINS = 24
# A share of the images at either end that does not widen the bins: they are counted in the
# outermost.
_BEYOND = 0.005
# A column in which more than this share of the images have a value of their own names images, it
# does not describe them.
_IDENTIFIER = 0.5
_FEWEST_IDENTIFIED = 50


@dataclass(frozen=True, eq=False)
class ShownColumn:
    """One column: the level or bin of every image that has a value.

    name : of the column.
    levels : the levels, or () for numbers.
    edges : of the bins, or () for levels.
    row : (m,) the image of every entry, in order.
    code : (m,) its level or bin.
    present : (n,) has the image a value?
    value : (n,) the numbers, NaN where there is none; None for levels.
    ordered : do the levels have an order of their own (bins, numbers)?
    multiple : may an image have several levels?
    """

    name: str
    levels: tuple[str, ...]
    edges: tuple[float, ...]
    row: Ints = field(repr=False)
    code: Ints = field(repr=False)
    present: Any = field(repr=False)
    value: Floats | None = field(repr=False, default=None)
    ordered: bool = False
    multiple: bool = False

    @property
    def size(self) -> int:
        """Return the number of levels or bins."""
        return len(self.levels) if self.levels else max(len(self.edges) - 1, 0)

    @property
    def is_number(self) -> bool:
        return self.value is not None

    def masses(self, weight_n: Floats | None = None) -> Floats:
        """Return (L,) the number (or weight) of the images of every level or bin."""
        weights = None if weight_n is None else weight_n[self.row]
        return np.asarray(
            np.bincount(self.code, weights=weights, minlength=self.size), dtype=np.float64
        )

    def shares(self, weight_n: Floats | None = None) -> Floats:
        """Return (L,) shares of the images that have a value.

        They sum to 1 unless an image may have several levels.
        """
        total = float(
            np.count_nonzero(self.present) if weight_n is None else weight_n[self.present].sum()
        )
        return self.masses(weight_n) / total if total > 0 else np.zeros(self.size)

    def mean(self, weight_n: Floats | None = None) -> float | None:
        """Return the mean of the numbers that are present; None for levels, or without weight."""
        if self.value is None or not self.present.any():
            return None
        weights = None if weight_n is None else weight_n[self.present]
        if weights is not None and not weights.sum() > 0:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.average(self.value[self.present], weights=weights))

    def deviation(self) -> float:
        """Return the standard deviation of the numbers."""
        if self.value is None or not self.present.any():
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.value[self.present].std())

    def restricted(self, keep_n: Any) -> ShownColumn:
        """Return the column as if only the images where ``keep_n`` is True had a value."""
        kept_m = keep_n[self.row]
        value = None if self.value is None else np.where(keep_n, self.value, np.nan)
        return replace(
            self,
            row=self.row[kept_m],
            code=self.code[kept_m],
            present=self.present & keep_n,
            value=value,
        )


def read_shown_column(
    column: pd.Series[Any], name: str, private: bool = False, range_with: Any = None
) -> ShownColumn | str:
    """Read a column, or say why it cannot be shown.

    ``private``: edges never tell the value of fewer than ten images. ``range_with``: further
    numbers that the bins shall reach.
    """
    value_n = column_numbers(column)
    if value_n is not None:
        present_n = np.isfinite(value_n)
        values = value_n[present_n]
        # Most columns of numbers show that they are in their first few hundred.
        distinct = np.unique(values[:500])
        distinct = distinct if distinct.size > _FEW_VALUES else np.unique(values)
        if distinct.size > _FEW_VALUES:
            return _binned(name, value_n, present_n, private, range_with)
        levels = [level_text(value) for value in distinct.tolist()]
        code_n = np.searchsorted(distinct, value_n[present_n])
        return _leveled(name, levels, np.flatnonzero(present_n), code_n, present_n, ordered=True)
    return _read_levels(column, name)


def read_target_column(
    column: pd.Series[Any], name: str, edges: Sequence[float] | None, known: Sequence[str]
) -> ShownColumn:
    """Read a column by the levels of the target; bins keep their order."""
    present, code_n = column_levels(column, name, edges)
    bins = bin_labels(edges) if edges is not None else []
    occurring = {*known, *present}
    levels = [level for level in dict.fromkeys([*bins, *known, *present]) if level in occurring]
    return ShownColumn(
        name=name,
        levels=tuple(levels),
        edges=(),
        row=np.arange(code_n.size),
        code=_recoded(present, levels, code_n),
        present=np.ones(code_n.size, dtype=np.bool_),
        ordered=edges is not None,
    )


def align_column(
    shown: ShownColumn, column: pd.Series[Any]
) -> tuple[ShownColumn, ShownColumn] | None:
    """Give a column and that of other images common levels or bins."""
    if shown.is_number:
        value_n = column_numbers(column)
        if value_n is None:
            return None
        present_n = np.isfinite(value_n)
        row = np.flatnonzero(present_n)
        code_m = bin_codes(value_n[row], shown.edges)
        return shown, ShownColumn(
            name=shown.name,
            levels=(),
            edges=shown.edges,
            row=row,
            code=code_m,
            present=present_n,
            value=value_n,
        )
    other = (
        _read_levels(column, shown.name)
        if column_numbers(column) is None
        else read_shown_column(column, shown.name)
    )
    if isinstance(other, str) or other.is_number or other.multiple != shown.multiple:
        return None
    levels = tuple(dict.fromkeys([*shown.levels, *other.levels]))
    ordered = shown.ordered and len(levels) == shown.size
    return replace(shown, levels=levels, edges=(), value=None, ordered=ordered), replace(
        other, levels=levels, code=_recoded(other.levels, levels, other.code), ordered=False
    )


def _recoded(levels: Sequence[str], new_levels: Sequence[str], code_m: Ints) -> Ints:
    """Return the codes of entries as indices into ``new_levels``, which hold all of ``levels``."""
    new_code = {level: code for code, level in enumerate(new_levels)}
    return np.array([new_code[level] for level in levels], dtype=np.int64)[code_m]


def column_numbers(column: pd.Series[Any]) -> Floats | None:
    """Return (n,) floats, NaN where missing; None for a column of levels. Dates become years."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        date = pd.to_datetime(column)
        return np.asarray(
            (date.dt.year + (date.dt.day_of_year - 1) / 366).to_numpy(
                dtype=np.float64, na_value=np.nan
            )
        )
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) not in (
        "floating",
        "integer",
        "mixed-integer-float",
        "decimal",
    ):
        return None
    if (
        isinstance(column.dtype, pd.CategoricalDtype)
        or pd.api.types.is_bool_dtype(column)
        or pd.api.types.is_complex_dtype(column)
    ):
        return None
    if column.dtype != object and not pd.api.types.is_numeric_dtype(column):
        return None
    value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(value_n), value_n, np.nan)


def _read_levels(column: pd.Series[Any], name: str) -> ShownColumn | str:
    import pandas as pd

    n = len(column)
    present_n = column.notna().to_numpy()
    several = column.dtype == object and any(
        isinstance(value, list | tuple | set | np.ndarray) for value in column[present_n].head(1)
    )
    if several:
        entries = column[present_n].map(list).reset_index(drop=True).explode()
        row_m, entries = (
            np.flatnonzero(present_n)[entries.index.to_numpy()],
            entries.reset_index(drop=True),
        )
        kept_m = entries.notna().to_numpy()
        row_m, entries = row_m[kept_m], entries[kept_m]
    else:
        row_m, entries = np.flatnonzero(present_n), column[present_n]
    try:
        code_m, distinct = pd.factorize(entries)
    except TypeError:
        return f"{name}: its values are neither numbers nor levels"
    if len(distinct) > max(_FEWEST_IDENTIFIED, _IDENTIFIER * n):
        return f"{name}: almost every image has a value of its own"
    levels = [level_text(value) for value in list(distinct)]
    if several:
        # An image that names a level twice has it once.
        pair = np.unique(row_m * max(len(levels), 1) + code_m)
        row_m, code_m = pair // max(len(levels), 1), pair % max(len(levels), 1)
    return _leveled(name, levels, row_m, code_m, present_n, multiple=several)


def _leveled(
    name: str,
    levels: list[str],
    row_m: Ints,
    code_m: Any,
    present_n: Any,
    ordered: bool = False,
    multiple: bool = False,
) -> ShownColumn | str:
    """Make one level of values that read the same."""
    distinct = list(dict.fromkeys(levels)) if ordered else sorted(set(levels))
    if not distinct:
        return f"{name}: no image has a value"
    return ShownColumn(
        name=name,
        levels=tuple(distinct),
        edges=(),
        row=row_m,
        code=_recoded(levels, distinct, np.asarray(code_m, dtype=np.int64)),
        present=present_n,
        ordered=ordered,
        multiple=multiple,
    )


def _binned(
    name: str, value_n: Floats, present_n: Any, private: bool, range_with: Any
) -> ShownColumn | str:
    row = np.flatnonzero(present_n)
    if private and row.size <= 2 * SMALLEST_CELL:
        return f"{name}: too few images have a value"
    values = value_n[row]
    if range_with is not None and not private:
        values = np.concatenate([values, range_with[np.isfinite(range_with)]])
    beyond = math.floor(_BEYOND * row.size)
    edges = round_edges(values, max(beyond, SMALLEST_CELL) if private else beyond)
    return ShownColumn(
        name=name,
        levels=(),
        edges=edges,
        row=row,
        code=bin_codes(value_n[row], edges),
        present=present_n,
        value=value_n,
        ordered=True,
    )


def round_edges(value_m: Floats, beyond: int, most: int = _MOST_BINS) -> tuple[float, ...]:
    """Return at least two increasing edges at multiples of 1, 2, 2.5 or 5 × 10^j."""
    sorted_m = np.partition(
        value_m, [min(beyond, value_m.size - 1), max(value_m.size - 1 - beyond, 0)]
    )
    low, high = (
        float(sorted_m[min(beyond, value_m.size - 1)]),
        float(sorted_m[max(value_m.size - 1 - beyond, 0)]),
    )
    if not high > low:
        low, high = (
            (float(value_m.min()), float(value_m.max()))
            if beyond == 0
            else (low - max(abs(low), 1.0) / 2, low + max(abs(low), 1.0) / 2)
        )
    with np.errstate(over="ignore", invalid="ignore"):
        rough = (high / most) - (low / most)
        power = (
            10.0 ** math.floor(math.log10(rough))
            if math.isfinite(rough) and rough > 1e-300
            else 0.0
        )
        step = next(
            (
                power * factor
                for factor in (1.0, 2.0, 2.5, 5.0, 10.0)
                if power * factor >= rough * (1 - 1e-12)
            ),
            0.0,
        )
        if step > 0 and max(abs(low), abs(high)) / step < 1e12:
            multiple = np.arange(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
            edges = [float(f"{edge:.12g}") for edge in multiple * step]
        else:
            edges = np.linspace(low, high, most + 1).tolist()
    distinct = np.unique(np.asarray(edges)[np.isfinite(edges)])
    return (
        tuple(distinct.tolist()) if distinct.size > 1 else (low, float(np.nextafter(low, math.inf)))
    )


def bin_codes(value_m: Floats, edges: Sequence[float]) -> Ints:
    """Return (m,) the bin of every value.

    Values beyond the outer edges are in the outermost bin; the last bin includes its upper
    edge.
    """
    return np.clip(
        np.searchsorted(np.asarray(edges), value_m, side="right") - 1, 0, len(edges) - 2
    ).astype(np.int64)
