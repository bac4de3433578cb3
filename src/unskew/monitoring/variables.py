"""What is compared: label, strata, features and scores, read from a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.features import is_numeric
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

# Columns that are compared one by one; the distance to the pool sees all of them together.
MOST_COLUMNS = 64
# The scores of `reference_scores`, and the number of images of a group.
MEMBERSHIP, WEIGHT, DISTANCE, SIZE = (
    "membership in its source",
    "weight",
    "distance to the pool",
    "images of a group",
)
SCORES = (MEMBERSHIP, WEIGHT, DISTANCE)
# The share of images outside what the pool covers.
OUTSIDE = "outside the pool"
# Columns that are no attribute of an image.
_NAMES = ("id", "source", "path", "content", "group", "split", "weight", "sample_weight")
_NAMES_OF_DESIGN = ("design_weight",)


@dataclass(frozen=True)
class Variable:
    """A column, a score of `SCORES`, or the size of a group; numbers, or else levels."""

    name: str
    is_number: bool = True


def choose_variables(
    frame: pd.DataFrame, named: Iterable[str], *, has_model: bool, has_sources: bool
) -> tuple[Variable, ...]:
    """Choose what is compared: the label, and the columns that the run names.

    A name may be the beginning of several columns. Without any such column all attributes are
    compared, at most 64 of them.
    """
    columns = [
        str(column)
        for name in named
        for column in frame.columns
        if str(column) == name or str(column).startswith(f"{name}_")
    ]
    if not columns:
        columns = [str(name) for name in frame.columns]
    has_label = "label" in frame.columns and bool(frame["label"].notna().any())
    columns = (["label"] if has_label else []) + [name for name in columns if name != "label"]
    left_out = (*_NAMES, *_NAMES_OF_DESIGN)
    kept = [name for name in dict.fromkeys(columns) if name not in left_out][:MOST_COLUMNS]
    variables = [Variable(name, is_numeric(frame[name])) for name in kept]
    if has_model:
        variables += [Variable(MEMBERSHIP)] if has_sources else []
        variables += [Variable(WEIGHT)]
    if sum(one.is_number for one in variables if one.name in kept) > 1:
        variables.append(Variable(DISTANCE))
    return (*variables, Variable(SIZE)) if has_groups(frame) else tuple(variables)


def has_groups(frame: pd.DataFrame) -> bool:
    """Tell whether the images are in groups."""
    return "group" in frame.columns and bool(frame["group"].notna().any())


def read_values(frame: pd.DataFrame, variable: Variable) -> npt.NDArray[Any]:
    """Read (n,) numbers, NaN where missing, or levels as text."""
    import pandas as pd

    column = frame[variable.name]
    if variable.is_number:
        return np.asarray(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    return np.array([_level(value) for value in column.tolist()], dtype=object)


def _level(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return ", ".join(sorted(level_text(one) for one in value))
    return level_text(value)
