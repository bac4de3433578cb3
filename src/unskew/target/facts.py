"""Margins and joint tables as distributions over levels; levels in bins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.records import Floats, Ints
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
        value_n = _as_numbers(column, name, labels, unknown)
    else:
        value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
    n_bins = len(labels)
    # 0 below, 1 … M in a bin, M + 1 above, M + 2 missing
    bin_n = np.searchsorted(np.asarray(edges), value_n, side="right")
    bin_n[value_n == edges[-1]] = n_bins
    bin_n[np.isnan(value_n)] = n_bins + 2
    every = [f"< {level_text(edges[0])}", *labels, f"> {level_text(edges[-1])}", MISSING]
    present, code_n = np.unique(bin_n, return_inverse=True)
    return [every[at] for at in present], code_n.astype(np.int64)


def _as_numbers(column: pd.Series[Any], name: str, labels: list[str], unknown: list[str]) -> Floats:
    import pandas as pd

    try:
        return np.asarray(pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan))
    except (ValueError, TypeError, OverflowError) as error:
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


# Combinations for which a table costs nothing, however few the rows.
_SMALL_TABLE = 1 << 12


def cells_of(code_na: Sequence[Ints]) -> tuple[Ints, Ints]:
    """((C, A) the combinations of codes that occur, ascending, (n,) that of every row)."""
    import pandas as pd

    cell_n = np.zeros(code_na[0].size, dtype=np.int64)
    for code_n in code_na:
        # Renumbered after every attribute, so that the product never overflows. By a table, or by
        # hashing: n rows need not be sorted.
        n_codes = int(code_n.max(initial=0)) + 1
        size = (int(cell_n.max(initial=0)) + 1) * n_codes
        cell_n = cell_n * n_codes + code_n
        if size <= max(cell_n.size, _SMALL_TABLE):
            occurs_c = np.zeros(size, dtype=np.bool_)
            occurs_c[cell_n] = True
            cell_n = (np.cumsum(occurs_c) - 1)[cell_n]
            continue
        hashed_n, value_c = pd.factorize(cell_n)
        rank_c = np.empty(value_c.size, dtype=np.int64)
        rank_c[np.argsort(value_c)] = np.arange(value_c.size)
        cell_n = rank_c[hashed_n]
    row_c = np.zeros(int(cell_n.max(initial=-1)) + 1, dtype=np.int64)
    row_c[cell_n] = np.arange(cell_n.size)
    return np.column_stack([code_n[row_c] for code_n in code_na]).astype(np.int64), cell_n


# Probabilities typed in with ten digits pass; thirds typed in as 0.333 do not.
_SUM_TOLERANCE = 1e-9
# A column of a table that holds numbers, not levels.
VALUE_COLUMNS = ("count", "mass", "probability", "share", "stderr")


@dataclass(frozen=True)
class Distribution:
    """Masses over the levels of one attribute (a margin) or of several (a joint table).

    by : the attributes.
    cells : the levels, one tuple of ``len(by)`` texts for each mass.
    mass : not negative, sums to 1.
    n : size of the sample that the masses were estimated from, or None.
    stderr : standard errors of the masses, or None.
    covariance : (C, C) covariance of the masses, or None. None of the three: taken as exact.
    """

    by: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    mass: tuple[float, ...]
    n: float | None = None
    stderr: tuple[float, ...] | None = None
    covariance: tuple[tuple[float, ...], ...] | None = None

    @property
    def name(self) -> str:
        return " × ".join(self.by)

    def levels(self, attribute: str) -> list[str]:
        """Return the levels of one attribute, in order of appearance."""
        at = self.by.index(attribute)
        return list(dict.fromkeys(cell[at] for cell in self.cells))


def cell_text(by: Sequence[str], cell: Sequence[str]) -> str:
    """Name a cell: ``age = [0, 40) × sex = f``."""
    return " × ".join(f"{attribute} = {level}" for attribute, level in zip(by, cell, strict=True))


def read_masses(numbers: Iterable[Any], what: str, names: Sequence[str]) -> tuple[float, ...]:
    """Normalise counts, and check probabilities.

    Whole numbers are counts (of anything: images, people, percent) and are divided by their sum.
    All others are probabilities and must sum to 1 within 1e-9.
    """
    mass_c = np.array([_number(number, what) for number in numbers])
    for name, mass in zip(names, mass_c, strict=True):
        if not (math.isfinite(mass) and mass >= 0):
            raise DataError(
                f"{what}: a mass is finite and not negative; got {mass:g} for {name}.",
                value=float(mass),
                level=name,
            )
    with np.errstate(over="ignore"):
        total = float(mass_c.sum())
    if not math.isfinite(total):
        raise DataError(f"{what}: the masses are too large to be added.", value=float(mass_c.max()))
    total = math.fsum(mass_c)
    if total == 0:
        raise DataError(f"{what} has no mass at all: every number is 0.")
    if abs(total - 1) > _SUM_TOLERANCE and not np.array_equal(mass_c, np.floor(mass_c)):
        raise DataError(
            f"{what}: probabilities must sum to 1; these sum to {total:.10g}, {abs(total - 1):.3g} "
            f"too {'much' if total > 1 else 'little'}."
            " Is a level missing or rounded? Whole numbers would be read as counts and normalised; "
            "divide weighted counts or percentages with decimals by their sum.",
            value=total,
        )
    # A sum of 1 up to rounding is kept, so that what was written reads back the same.
    return tuple(mass_c.tolist()) if abs(total - 1) <= 1e-14 else tuple((mass_c / total).tolist())


def _number(number: Any, what: str) -> float:
    try:
        return float(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what}: a mass is a number; got {number!r}.", value=number) from error


def read_margin(name: str, margin: Any, edges: Sequence[float] | None) -> Distribution:
    """Read a margin, with or without its error; for bins one number for each will do.

    It is ``{level: number}`` or ``{"mass": {level: number}, "n": 400, "stderr": {level: number}}``.
    """
    mass, n, stderr = margin, None, None
    if isinstance(margin, Mapping) and not _is_number(margin.get("mass", 0.0)):
        unknown = sorted(set(margin) - {"mass", "n", "stderr"}, key=str)
        if unknown:
            raise ConfigError(
                f"the margin of {name!r} may have mass, n and stderr; got {first_few(unknown)}.",
                column=name,
                value=unknown,
                allowed=["mass", "n", "stderr"],
            )
        mass, n, stderr = margin["mass"], margin.get("n"), margin.get("stderr")
    numbers = _by_level(name, mass, edges)
    if stderr is None:
        numbers = _merged(name, numbers, edges)
    levels = [level_text(level) for level in numbers]
    if len(set(levels)) < len(levels):
        raise DataError(
            f"the margin of {name!r} names a level twice; its levels are {first_few(levels, 12)}.",
            column=name,
            levels=levels,
        )
    what = f"the margin of {name!r}"
    read = read_masses(numbers.values(), what, [f"{name} = {level}" for level in levels])
    error_l = None if stderr is None else _read_stderr(name, _by_level(name, stderr, edges), levels)
    return Distribution(
        (name,), tuple((level,) for level in levels), read, _read_n(n, stderr, what), error_l
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def _by_level(name: str, margin: Any, edges: Sequence[float] | None) -> dict[Any, Any]:
    if hasattr(margin, "items"):
        return dict(margin.items())
    numbers = (
        list(margin)
        if isinstance(margin, Sequence | np.ndarray) and not isinstance(margin, str)
        else None
    )
    if numbers is None or edges is None:
        raise ConfigError(
            f"the margin of {name!r} must say which level each number belongs to, as {{level: "
            f"number}}; got {margin!r}.",
            column=name,
            value=margin,
        )
    labels = bin_labels(edges)
    if len(numbers) != len(labels):
        raise DataError(
            f"{name} has {len(labels)} bins ({first_few(labels, 12)}), but its margin has "
            f"{len(numbers)} numbers.",
            column=name,
            count=len(numbers),
            limit=len(labels),
        )
    return dict(zip(labels, numbers, strict=True))


def _merged(name: str, numbers: dict[Any, Any], edges: Sequence[float] | None) -> dict[Any, Any]:
    """Add up the numbers of finer levels (single years of age) within the bins."""
    if edges is None or set(map(str, numbers)) <= {*bin_labels(edges), MISSING}:
        return numbers
    import pandas as pd

    levels, code_l = column_levels(pd.Series(list(numbers)), name, edges)
    what = f"the margin of {name!r}"
    values = np.array([_number(number, what) for number in numbers.values()])
    negative = np.flatnonzero(values < 0)
    if negative.size:
        raise DataError(
            f"{what}: a mass is finite and not negative; got {values[negative[0]]:g} for "
            f"{list(numbers)[negative[0]]}.",
            column=name,
            value=float(values[negative[0]]),
        )
    return dict(
        zip(
            levels, np.bincount(code_l, weights=values, minlength=len(levels)).tolist(), strict=True
        )
    )


def _read_stderr(name: str, errors: dict[Any, Any], levels: list[str]) -> tuple[float, ...]:
    stderr = {
        level_text(level): _number(number, f"the standard errors of {name!r}")
        for level, number in errors.items()
    }
    unmatched = sorted(set(stderr) ^ set(levels))
    if unmatched:
        raise DataError(
            f"stderr and mass of {name!r} must name the same levels; only one has "
            f"{first_few(unmatched)}.",
            column=name,
            levels=unmatched,
        )
    bad = [level for level, number in stderr.items() if not (math.isfinite(number) and number >= 0)]
    if bad:
        raise DataError(
            f"a standard error is finite and not negative; {name} has "
            f"{first_few([f'{level} ({stderr[level]})' for level in bad])}.",
            column=name,
            levels=bad,
        )
    return tuple(stderr[level] for level in levels)


def _read_n(n: Any, stderr: Any, what: str) -> float | None:
    if n is None:
        return None
    if stderr is not None:
        raise ConfigError(
            f"{what} has both n and stderr; give the one that its source reports.", option="n"
        )
    if not _is_number(n) or not (math.isfinite(n) and n > 0):
        raise wrong_option(f"{what}: n is the size of the sample behind it, a positive number", n=n)
    return float(n)


def read_target_table(
    frame: pd.DataFrame,
    by: Sequence[str] | None,
    bins: Mapping[str, Sequence[float]],
    n: Any = None,
) -> Distribution:
    """Read a joint table: one column for each attribute and one of numbers; equal cells add up.

    The column of numbers is called count, mass, probability or share.
    """
    values, attributes = _table_columns(frame, by)
    encoded = [
        column_levels(frame[attribute], attribute, bins.get(attribute)) for attribute in attributes
    ]
    cell_ca, cell_r = cells_of([code_r for _, code_r in encoded])
    # In order of appearance, so that what is written out reads back the same.
    order_c = np.argsort(np.unique(cell_r, return_index=True)[1])
    cell_ca, cell_r = cell_ca[order_c], np.argsort(order_c)[cell_r]
    cells = tuple(
        tuple(levels[at] for (levels, _), at in zip(encoded, cell, strict=True)) for cell in cell_ca
    )
    cell_names = [cell_text(attributes, cell) for cell in cells]
    row_names = [cell_names[at] for at in cell_r]
    what = f"the table of {' × '.join(attributes)}"
    mass_r = read_masses(frame[values], what, row_names)
    mass_c = np.bincount(cell_r, weights=np.asarray(mass_r), minlength=len(cells))
    return Distribution(attributes, cells, tuple(mass_c.tolist()), _read_n(n, None, what))


def _table_columns(frame: pd.DataFrame, by: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    """Find the column of numbers of a joint table, and its attributes."""
    table: Any = frame  # of any kind where it comes from a user
    if not (hasattr(table, "columns") and hasattr(table, "iloc")):
        hint = (
            " Of a Series: series.rename('count').reset_index()." if hasattr(table, "iloc") else ""
        )
        raise DataError(
            "a joint table is a DataFrame with a column for each attribute and one of numbers "
            f"(count, mass, probability or share); got a {type(table).__name__}.{hint}",
            option="table",
            value=type(table).__name__,
        )
    names = list(frame.columns)
    values = [column for column in names if column in VALUE_COLUMNS and column != "stderr"]
    if len(values) != 1:
        raise DataError(
            "a joint table needs exactly one column of numbers, called count, mass, probability "
            f"or share; its columns are {first_few(names, 12)}.",
            columns=names,
        )
    attributes = (
        tuple(by)
        if by is not None
        else tuple(str(column) for column in names if column not in VALUE_COLUMNS)
    )
    lacking = [attribute for attribute in attributes if attribute not in names]
    if lacking or not attributes:
        raise DataError(
            f"the joint table has no column {first_few(lacking) or 'of levels'}; its columns are "
            f"{first_few(names, 12)}.",
            column=lacking[0] if lacking else None,
            columns=names,
        )
    if len(frame) == 0:
        raise DataError("the joint table has no rows.", columns=names)
    return values[0], attributes


def mass_array(distribution: Distribution) -> Floats:
    """(C,) the masses as an array."""
    return np.asarray(distribution.mass, dtype=np.float64)
