"""Breakdowns of the judged images, by source, class or any column, and what privacy withholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.evaluation.answers import sort_levels
from unskew.evaluation.metrics import Truth
from unskew.records import Floats, Ints
from unskew.records.levels import MISSING, holds_lists
from unskew.report.summary.privacy import SMALLEST_CELL, count_units, hidden_cells
from unskew.target.facts import check_edges, column_levels

if TYPE_CHECKING:
    import pandas as pd

# Numbers with more distinct values than this are cut into bins.
_FEW_VALUES = 12
_MOST_LEVELS = 500
# Columns that no error message suggests.
_NO_SUBGROUPS = ("id", "path", "content", "design_weight", "weight", "sample_weight", "y")


@dataclass(frozen=True, eq=False)
class View:
    """One breakdown.

    Attributes
    ----------
    name : of the column.
    levels : names of its cells.
    code : (n,) cell of every image, −1 for one that is withheld.
    withheld : number of cells that are not shown, to protect privacy.
    """

    name: str
    levels: tuple[str, ...]
    code: Ints = field(repr=False)
    withheld: int = 0


def make_view(column: pd.Series[Any], name: str, edges: Sequence[float] | None = None) -> View:
    """Break down by the levels of a column, sorted.

    Numbers of many values are cut at ``edges``, or at their quartiles.
    """
    import pandas as pd

    if holds_lists(column):
        raise ConfigError(
            f"--by {name}: the column contains lists, so an image is in several subgroups at once. "
            "Name another column.",
            option="by",
            column=name,
        )
    if (
        edges is None
        and pd.api.types.is_numeric_dtype(column)
        and not pd.api.types.is_bool_dtype(column)
    ):
        edges = _quartiles(column.to_numpy(dtype=np.float64, na_value=np.nan))
    levels, code_n = column_levels(
        column, name, None if edges is None else check_edges(name, edges)
    )
    if len(levels) > _MOST_LEVELS:
        raise ConfigError(
            f"--by {name}: the column has {len(levels):,} levels, too many to judge one by one (at "
            f"most {_MOST_LEVELS}).",
            option="by",
            column=name,
            count=len(levels),
            limit=_MOST_LEVELS,
        )
    if edges is None:
        order = [*sort_levels(set(levels) - {MISSING}), *([MISSING] if MISSING in levels else [])]
        rank = {level: number for number, level in enumerate(order)}
        levels, code_n = order, np.array([rank[level] for level in levels], dtype=np.int64)[code_n]
    return View(name, tuple(levels), code_n)


def _quartiles(value_n: Floats) -> tuple[float, ...] | None:
    """Find the quartiles, rounded to three digits; the bins beyond them are open.

    Where they coincide, cut the range into four equal parts; None where there are few values, which
    are levels themselves.
    """
    known_n = value_n[np.isfinite(value_n)]
    if np.unique(known_n).size <= _FEW_VALUES:
        return None
    inner = _rounded(np.quantile(known_n, [0.25, 0.5, 0.75]))
    if len(inner) < 2:
        inner = _rounded(np.linspace(known_n.min(), known_n.max(), 5)[1:-1])
    return inner if len(inner) >= 2 else None


def _rounded(edges: Floats) -> tuple[float, ...]:
    return tuple(sorted({float(f"{edge:.3g}") for edge in edges.tolist()}))


def make_views(
    tables: Sequence[pd.DataFrame],
    origin: str,
    truth: Truth,
    by: Sequence[str],
    bins: Mapping[str, Sequence[float]],
    chosen: npt.NDArray[np.bool_],
) -> tuple[list[View], list[str]]:
    """Break down by source, by class, and by every column of ``by``: (views, notes).

    A column is taken from the first of ``tables`` (rows of all images in order) that has it. The
    view by class has the name of the truth (``origin``: y or label). Those by source and class are
    left out, with a note, if they have too many levels.
    """
    source_n = tables[0]["source"][chosen]
    views, notes = [], []
    if source_n.nunique() <= _MOST_LEVELS:
        views.append(make_view(source_n, "source"))
    else:
        notes.append(f"There are more than {_MOST_LEVELS} sources: they are not shown one by one.")
    if truth.code is not None:
        present, code_n = np.unique(truth.code, return_inverse=True)
        if present.size <= _MOST_LEVELS:
            views.append(
                View(
                    origin,
                    tuple(truth.classes[k] for k in present),
                    code_n.reshape(-1).astype(np.int64),
                )
            )
        else:
            notes.append(
                f"There are more than {_MOST_LEVELS} classes: they are not shown one by one."
            )
    for name in dict.fromkeys(by):
        if name not in [view.name for view in views]:
            views.append(
                view_by(name, tables, bins, chosen, [view for view in views if view.name == origin])
            )
    return views, notes


def view_by(
    name: str,
    tables: Sequence[pd.DataFrame],
    bins: Mapping[str, Sequence[float]],
    chosen: npt.NDArray[np.bool_],
    of_class: Sequence[View] = (),
) -> View:
    """Break down by one column, or by the combinations of several that occur (``label*light``)."""
    for view in of_class:
        if view.name == name:
            return view
    table = next(
        (table for table in tables if name in table.columns and not table[name].isna().all()), None
    )
    if table is not None:
        return make_view(table[name][chosen], name, bins.get(name))
    parts = [part.strip() for part in name.split("*")]
    if len(parts) > 1 and all(parts):
        return _crossed(name, [view_by(part, tables, bins, chosen, of_class) for part in parts])
    known = [
        column
        for table in tables
        for column in table.columns
        if column not in _NO_SUBGROUPS and not table[column].isna().all()
    ]
    known = list(dict.fromkeys(known))
    raise ConfigError(
        f"--by {name}: there is no such column; there are "
        f"{first_few(known, 20)}.{did_you_mean(name, known)}",
        option="by",
        column=name,
        allowed=[str(column) for column in known],
    )


def _crossed(name: str, views: Sequence[View]) -> View:
    """Combine the levels of several views, as far as the combinations occur, in their order."""
    code_n = np.zeros(views[0].code.size, dtype=np.int64)
    for view in views:
        code_n = code_n * len(view.levels) + view.code
    present, cell_n = np.unique(code_n, return_inverse=True)
    if present.size > _MOST_LEVELS:
        raise ConfigError(
            f"--by {name}: there are {present.size:,} combinations, too many to judge one by one "
            f"(at most {_MOST_LEVELS}).",
            option="by",
            column=name,
            count=int(present.size),
            limit=_MOST_LEVELS,
        )
    codes = np.unravel_index(present, [len(view.levels) for view in views])
    levels = tuple(
        " × ".join(view.levels[int(code)] for view, code in zip(views, cell, strict=True))
        for cell in zip(*codes, strict=True)
    )
    return View(name, levels, cell_n.reshape(-1).astype(np.int64))


def withhold_cells(views: Sequence[View], group_n: Ints | None) -> list[View]:
    """Remove the cells of 1 to 9 groups (images, without groups), and those that would reveal them.

    The cells of a view add up to all images; and where they are within a cell of another view, such
    as those by light and class within a class, they add up to that, too.
    """
    hidden = [hidden_cells(count_units(group_n, view.code, len(view.levels))) for view in views]
    growing = True
    while growing:
        before = sum(int(hidden_l.sum()) for hidden_l in hidden)
        for fine, coarse in permutations(range(len(views)), 2):
            if not hidden[fine].any():
                continue
            forced_l = hidden[fine] | _betraying_cells(
                views[fine], hidden[fine], views[coarse], hidden[coarse], group_n
            )
            hidden[fine] = hidden_cells(
                count_units(group_n, views[fine].code, len(views[fine].levels)), forced_l
            )
        growing = sum(int(hidden_l.sum()) for hidden_l in hidden) > before
    return [_without(view, hidden_l) for view, hidden_l in zip(views, hidden, strict=True)]


def _betraying_cells(
    fine: View,
    hidden_l: npt.NDArray[np.bool_],
    coarse: View,
    hidden_c: npt.NDArray[np.bool_],
    group_n: Ints | None,
) -> npt.NDArray[np.bool_]:
    """Find the cells of ``fine`` that would reveal 1 to 9 groups (images), (L,).

    They do so if they are subtracted from a shown cell of ``coarse`` that contains them.
    """
    size_cl = np.zeros((len(coarse.levels), len(fine.levels)), dtype=np.int64)
    np.add.at(size_cl, (coarse.code, fine.code), 1)
    within_l = np.count_nonzero(size_cl, axis=0) == 1
    betraying_l = np.zeros(len(fine.levels), dtype=np.bool_)
    for c in np.flatnonzero(~hidden_c):
        shown = np.flatnonzero(within_l & ~hidden_l & (size_cl[c] > 0))
        for cell in shown[np.argsort(size_cl[c, shown], kind="stable")]:
            rest_n = (coarse.code == c) & ~np.isin(fine.code, shown[~betraying_l[shown]])
            if not 0 < int(count_units(group_n, np.where(rest_n, 0, -1), 1)[0]) < SMALLEST_CELL:
                break
            betraying_l[cell] = True
    return betraying_l


def _without(view: View, hidden_l: npt.NDArray[np.bool_]) -> View:
    if not hidden_l.any():
        return view
    code_l = np.where(hidden_l, -1, np.cumsum(~hidden_l) - 1)
    levels = tuple(
        level for level, hidden in zip(view.levels, hidden_l.tolist(), strict=True) if not hidden
    )
    return View(view.name, levels, code_l[view.code], int(hidden_l.sum()))


def small_classes(view: View, truth: Truth, group_n: Ints | None) -> npt.NDArray[np.bool_]:
    """Tell which cells have a class of 1 to 9 groups (images), (C,).

    Figures that distinguish classes would identify them.
    """
    if truth.present is not None:
        parts = [
            small_classes(view, Truth(("", ""), code_n), group_n) for code_n in truth.present_code.T
        ]
        return np.asarray(np.any(parts, axis=0))
    if truth.code is None:
        return np.zeros(len(view.levels), dtype=np.bool_)
    n_classes = len(truth.classes)
    counted_n = (view.code >= 0) & (truth.code >= 0)
    pair_n = np.where(counted_n, view.code * n_classes + truth.code, -1)
    size_ck = count_units(group_n, pair_n, len(view.levels) * n_classes).reshape(
        len(view.levels), n_classes
    )
    return np.array([bool(hidden_cells(size_k).any()) for size_k in size_ck], dtype=np.bool_)
