"""The values of a column as levels, and ids joined to positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError, first_few
from unskew.records.arrays import Ints
from unskew.records.vector_columns import check_vector

if TYPE_CHECKING:
    import pandas as pd

MISSING = "(missing)"


def level_text(value: Any) -> str:
    """Write a level as text, so that 3, 3.0 and "3" are one; missing values are `MISSING`."""
    if isinstance(value, str):
        return value
    import pandas as pd

    if pd.isna(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral) or (
        isinstance(value, float | np.floating) and float(value).is_integer()
    ):
        return str(int(value))
    return str(value)


def is_scalar_column(column: pd.Series[Any]) -> bool:
    """Tell whether the type of a column admits texts, numbers and dates only, so no list."""
    import pandas as pd

    return isinstance(column.dtype, pd.StringDtype) or column.dtype.kind in "biufmM"


def holds_lists(column: pd.Series[Any]) -> bool:
    """Tell whether an entry holds several values, as the labels of one image may."""
    return column.dtype == object and any(
        isinstance(value, list | tuple | set | frozenset | np.ndarray) for value in column
    )


# Before the name of a label: a column of 0, 1, and NaN where that is unknown.
INDICATOR = "label="


def by_value(level: str) -> tuple[bool, float, str]:
    """Return a key that sorts levels: numbers by their size, then texts."""
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


def codes_or_alone(column: pd.Series[Any]) -> Ints:
    """(n,) the same number for equal entries; a missing entry has a number of its own."""
    import pandas as pd

    code_n = np.asarray(pd.factorize(column)[0], dtype=np.int64)
    alone = np.flatnonzero(code_n < 0)
    code_n[alone] = int(code_n.max(initial=-1)) + 1 + np.arange(alone.size)
    return code_n


def text_levels(column: pd.Series[Any], name: str) -> tuple[list[str], Ints]:
    """(levels that occur, code of every row), by category, or else by first appearance."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        # Categories without a row are leftovers of a filter more often than statements.
        code_n = np.asarray(column.cat.codes, dtype=np.int64)
        count = np.bincount(code_n + 1, minlength=len(column.cat.categories) + 1)
        used = np.flatnonzero(count[1:])
        values = column.cat.categories[used].tolist()
        if used.size < count.size - 1 or count[0]:
            place = np.full(count.size, len(values), dtype=np.int64)  # of no category: the last
            place[used + 1] = np.arange(used.size)
            code_n = place[code_n + 1]
        if count[0]:
            values.append(None)
    else:
        try:
            codes, uniques = pd.factorize(column, use_na_sentinel=False)
        except TypeError as error:
            check_vector(column, name)
            raise DataError(
                f"{name} holds lists, so an image has several levels at once instead of one. "
                "Calibrate weights to the shares of single labels "
                "(unskew.label_indicators, unskew.calibrate_weights), or join them "
                'into one level (of COCO files: several = "join").',
                column=name,
            ) from error
        values, code_n = uniques.tolist(), np.asarray(codes, dtype=np.int64)
    levels = [value if isinstance(value, str) else level_text(value) for value in values]
    if len(set(levels)) < len(levels):
        twice = next(level for level, count in Counter(levels).items() if count > 1)
        raise DataError(
            f"{name} has values that differ but read the same, {twice!r} (for instance the number "
            "3 and the text '3'). Levels are compared as text: give the column one type.",
            column=name,
            level=twice,
        )
    return levels, code_n


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values of a categorical column; each category is read once, not each row."""
    values = column.cat.categories.array.take(column.cat.codes.to_numpy(), allow_fill=True)
    return type(column)(values, index=column.index, name=column.name)


_SHOWN = 5


def list_ids(ids: Any) -> list[Hashable]:
    """Return Python's own numbers and texts: 7 of NumPy, of torch and of Python are one id."""
    # Not through an array where it is a list: 1 and "a" together would become text.
    if isinstance(ids, list | tuple | range):
        return [name.item() if isinstance(name, np.generic) else name for name in ids]
    if hasattr(ids, "tolist"):
        return list(ids.tolist())
    return list(ids)


def find_positions(
    wanted: Sequence[Hashable], owned: Sequence[Hashable], *, of: str, among: str
) -> Ints:
    """Return (len(wanted),) the position in ``owned`` of every id of ``wanted``.

    Duplicate ids in ``owned`` and ids that it lacks are a `DataError`; ``of`` and ``among`` say
    whose ids the two are, such as "the dataset" and "the weights".
    """
    if any(isinstance(name, list) for name in wanted):
        raise DataError(f"an id is a text or a number; those of {of} are lists.", ids=wanted[:3])
    if list(wanted) == list(owned) and len(set(owned)) == len(owned):
        return np.arange(len(owned))
    position = {name: at for at, name in enumerate(owned)}
    if len(position) < len(owned):
        refuse_duplicates(owned, among)
    missing = [name for name in wanted if name not in position]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(wanted)} ids of {of} are not among {among}: "
            f"{first_few(missing)}.{_other_type(missing[0], owned, of, among)} Were these images "
            "in the pool that was weighed, and are their ids written in the same way?",
            ids=missing[:_SHOWN],
            count=len(missing),
        )
    return np.fromiter((position[name] for name in wanted), dtype=np.int64, count=len(wanted))


def refuse_duplicates(ids: Sequence[Hashable], of: str) -> None:
    """Raise an error that names the ids that occur more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [name for name, count in Counter(ids).items() if count > 1]
    raise DataError(
        f"duplicate ids in {of} ({len(repeated)}): {first_few(repeated)}. Joining by id needs one "
        "id for each image.",
        ids=repeated[:_SHOWN],
        count=len(repeated),
    )


def refuse_extra(
    owned: Sequence[Hashable], wanted: Sequence[Hashable], *, of: str, among: str, way_out: str
) -> None:
    """Raise an error if ``owned`` has ids that ``wanted`` lacks."""
    held = set(wanted)
    extra = [name for name in owned if name not in held]
    if extra:
        raise DataError(
            f"{len(extra)} of the {len(owned)} ids of {among} are not among those of {of}: "
            f"{first_few(extra)}. {way_out}",
            ids=extra[:_SHOWN],
            count=len(extra),
        )


def _other_type(name: Hashable, owned: Sequence[Hashable], of: str, among: str) -> str:
    """Write `` Ids of the dataset are int (7), those of the weights str ('7').``, or nothing."""
    if not owned or type(name) is type(owned[0]):
        return ""
    return (
        f" Ids of {of} are {type(name).__name__} ({name!r}), those of {among} "
        f"{type(owned[0]).__name__} ({owned[0]!r})."
    )
