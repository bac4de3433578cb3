"""The values of a column as levels: text, and a code for every row."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError
from unskew.records.arrays import Ints

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


def holds_lists(column: pd.Series[Any]) -> bool:
    """Tell whether an entry holds several values, as the labels of one image may."""
    return column.dtype == object and any(
        isinstance(value, list | tuple | set | frozenset | np.ndarray) for value in column
    )


def text_levels(column: pd.Series[Any], name: str) -> tuple[list[str], Ints]:
    """(levels that occur, code of every row), by category, or else by first appearance."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        # Categories without a row are leftovers of a filter more often than statements.
        column = column.cat.remove_unused_categories()
        values = list(column.cat.categories)
        code_n = np.asarray(column.cat.codes, dtype=np.int64)
        if (code_n < 0).any():
            code_n = np.where(code_n < 0, len(values), code_n)
            values.append(None)
    else:
        try:
            codes, uniques = pd.factorize(column, use_na_sentinel=False)
        except TypeError as error:
            raise DataError(
                f"{name} holds lists, so an image has several levels at once instead of one. "
                "Calibrate weights to the shares of single labels "
                "(unskew.sources.roles.label_indicators, unskew.calibrate_weights), or join them "
                'into one level (of COCO files: several = "join").',
                column=name,
            ) from error
        values, code_n = list(uniques), np.asarray(codes, dtype=np.int64)
    levels = [level_text(value) for value in values]
    if len(set(levels)) < len(levels):
        twice = next(level for level in levels if levels.count(level) > 1)
        raise DataError(
            f"{name} has values that differ but read the same, {twice!r} (for instance the number "
            "3 and the text '3'). Levels are compared as text: give the column one type.",
            column=name,
            level=twice,
        )
    return levels, code_n
