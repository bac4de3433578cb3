"""Breakdowns of the judged images: by source, by class, by any column; and what privacy withholds
of them.
"""

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
from unskew.report.summary.suppression import SMALLEST_CELL, count_units, hidden_cells
from unskew.target.levels import check_edges, column_levels

if TYPE_CHECKING:
    import pandas as pd

# Numbers with more distinct values than this are cut into bins.
_FEW_VALUES = 12
_MOST_LEVELS = 500


@dataclass(frozen=True, eq=False)
class View:
    """One breakdown.

    Attributes
    ----------
    name : of the column.
    levels : names of its cells.
    code : (n,) cell of every image, −1 for one that is withheld.
    withheld : number of cells that privacy does not let show.
    """

    name: str
    levels: tuple[str, ...]
    code: Ints = field(repr=False)
    withheld: int = 0


def make_view(column: pd.Series[Any], name: str, edges: Sequence[float] | None = None) -> View:
    """The levels of a column, sorted; numbers of many values in the bins given, or between their
    quartiles.
    """
    import pandas as pd

    if holds_lists(column):
        raise ConfigError(
            f"--by {name}: the column holds lists, so an image is in several subgroups at once. "
            "Name another column."
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
            f"--by {name}: the column has {len(levels):,} levels, too many to judge one by one "
            f"(at most {_MOST_LEVELS})."
        )
    if edges is None:
        order = [*sort_levels(set(levels) - {MISSING}), *([MISSING] if MISSING in levels else [])]
        place = {level: at for at, level in enumerate(order)}
        levels, code_n = order, np.array([place[level] for level in levels], dtype=np.int64)[code_n]
    return View(name, tuple(levels), code_n)


def _quartiles(value_n: Floats) -> tuple[float, ...] | None:
    """The three quartiles to three digits, beyond which two bins are open; None where there are few
    values, which are levels.
    """
    known_n = value_n[np.isfinite(value_n)]
    if np.unique(known_n).size <= _FEW_VALUES:
        return None
    inner = sorted(
        {float(f"{each:.3g}") for each in np.quantile(known_n, [0.25, 0.5, 0.75]).tolist()}
    )
    if len(inner) < 2:
        inner = sorted(
            {
                float(f"{each:.3g}")
                for each in np.linspace(known_n.min(), known_n.max(), 5)[1:-1].tolist()
            }
        )
    return tuple(inner) if len(inner) >= 2 else None


def make_views(
    tables: Sequence[pd.DataFrame],
    origin: str,
    truth: Truth,
    by: Sequence[str],
    bins: Mapping[str, Sequence[float]],
    chosen: npt.NDArray[np.bool_],
) -> tuple[list[View], list[str]]:
    """By source, by class, and by every column of ``by``, found in the first of ``tables`` (rows of
    all images in order) that has it.

    The view by class is called as the truth (``origin``: y or label). The first two are left out,
    with a note, where they are too many.
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
                _view_by(
                    name, tables, bins, chosen, [view for view in views if view.name == origin]
                )
            )
    return views, notes


def _view_by(
    name: str,
    tables: Sequence[pd.DataFrame],
    bins: Mapping[str, Sequence[float]],
    chosen: npt.NDArray[np.bool_],
    of_class: Sequence[View],
) -> View:
    """By one column, or, of a name such as ``label*light`` that is no column, by every combination
    of several that occurs.
    """
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
        return _crossed(name, [_view_by(part, tables, bins, chosen, of_class) for part in parts])
    known = [column for each in tables for column in each.columns if not each[column].isna().all()]
    known = [column for column in dict.fromkeys(known) if column not in _NO_SUBGROUPS]
    raise ConfigError(
        f"--by {name}: there is no such column; there are "
        f"{first_few(known, 20)}.{did_you_mean(name, known)}"
    )


def _crossed(name: str, views: Sequence[View]) -> View:
    """The combinations of the levels of several views that occur, in the order of the levels."""
    code_n = np.zeros(views[0].code.size, dtype=np.int64)
    for view in views:
        code_n = code_n * len(view.levels) + view.code
    present, cell_n = np.unique(code_n, return_inverse=True)
    if present.size > _MOST_LEVELS:
        raise ConfigError(
            f"--by {name}: there are {present.size:,} combinations, too many to judge one by one "
            f"(at most {_MOST_LEVELS})."
        )
    at = np.unravel_index(present, [len(view.levels) for view in views])
    levels = tuple(
        " × ".join(view.levels[int(each)] for view, each in zip(views, cell, strict=True))
        for cell in zip(*at, strict=True)
    )
    return View(name, levels, cell_n.reshape(-1).astype(np.int64))


_NO_SUBGROUPS = ("id", "path", "content", "weight", "sample_weight", "y")


def withhold_cells(views: Sequence[View], group_n: Ints | None) -> list[View]:
    """The views without their cells of 1 to 9 groups (images, without groups), and those that would
    give them away; nor are they named.

    A view adds up to all images; and where its cells lie within a cell of another one, such as
    those by light and class within a class, they add up to that, too.
    """
    hidden = [hidden_cells(count_units(group_n, view.code, len(view.levels))) for view in views]
    growing = True
    while growing:
        before = sum(int(each.sum()) for each in hidden)
        for fine, coarse in permutations(range(len(views)), 2):
            if not hidden[fine].any():
                continue
            forced_l = hidden[fine] | _betraying_cells(
                views[fine], hidden[fine], views[coarse], hidden[coarse], group_n
            )
            hidden[fine] = hidden_cells(
                count_units(group_n, views[fine].code, len(views[fine].levels)), forced_l
            )
        growing = sum(int(each.sum()) for each in hidden) > before
    return [_without(view, hidden_l) for view, hidden_l in zip(views, hidden, strict=True)]


def _betraying_cells(
    fine: View,
    hidden_l: npt.NDArray[np.bool_],
    coarse: View,
    hidden_c: npt.NDArray[np.bool_],
    group_n: Ints | None,
) -> npt.NDArray[np.bool_]:
    """(L,) cells of ``fine`` that, subtracted from a shown cell of ``coarse`` around them, would
    leave 1 to 9 groups (images).
    """
    size_cl = np.zeros((len(coarse.levels), len(fine.levels)), dtype=np.int64)
    np.add.at(size_cl, (coarse.code, fine.code), 1)
    within_l = np.count_nonzero(size_cl, axis=0) == 1
    found_l = np.zeros(len(fine.levels), dtype=np.bool_)
    for at in np.flatnonzero(~hidden_c):
        shown = np.flatnonzero(within_l & ~hidden_l & (size_cl[at] > 0))
        for cell in shown[np.argsort(size_cl[at, shown], kind="stable")]:
            rest_n = (coarse.code == at) & ~np.isin(fine.code, shown[~found_l[shown]])
            if not 0 < int(count_units(group_n, np.where(rest_n, 0, -1), 1)[0]) < SMALLEST_CELL:
                break
            found_l[cell] = True
    return found_l


def _without(view: View, hidden_l: npt.NDArray[np.bool_]) -> View:
    if not hidden_l.any():
        return view
    place_l = np.where(hidden_l, -1, np.cumsum(~hidden_l) - 1)
    levels = tuple(
        level for level, hidden in zip(view.levels, hidden_l.tolist(), strict=True) if not hidden
    )
    return View(view.name, levels, place_l[view.code], int(hidden_l.sum()))


def small_classes(view: View, truth: Truth, group_n: Ints | None) -> npt.NDArray[np.bool_]:
    """(C,) has the cell a class of 1 to 9 groups (images)? Figures that tell classes apart would
    tell who they are.
    """
    if truth.code is None:
        return np.zeros(len(view.levels), dtype=np.bool_)
    n_classes = len(truth.classes)
    pair_n = np.where(view.code >= 0, view.code * n_classes + truth.code, -1)
    size_ck = count_units(group_n, pair_n, len(view.levels) * n_classes).reshape(
        len(view.levels), n_classes
    )
    return np.array([bool(hidden_cells(size_k).any()) for size_k in size_ck], dtype=np.bool_)
