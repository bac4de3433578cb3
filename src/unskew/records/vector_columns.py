"""Columns whose entries are vectors, as embeddings are stored -> one column for each number."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def expand_vectors(frame: pd.DataFrame, roles: Collection[str] = ()) -> pd.DataFrame:
    """Replace every column of vectors by columns of numbers: ``emb`` by emb_0, …, emb_{d−1}.

    A vector is an array or list of d > 0 floats, the same d in every row. Columns that have a role
    stay, since lists of labels are labels.
    """
    import pandas as pd

    wide = [name for name in frame.columns if name not in roles and _holds_vectors(frame[name])]
    if not wide:
        return frame
    pieces: list[Any] = []
    for name in frame.columns:
        if name not in wide:
            pieces.append(frame[[name]])
            continue
        matrix_nd = _stacked(frame[name], str(name))
        names = vector_names(str(name), matrix_nd.shape[1])
        pieces.append(pd.DataFrame(matrix_nd, columns=names, index=frame.index, copy=False))
    joined: pd.DataFrame = pd.concat(pieces, axis="columns")
    twice = joined.columns[joined.columns.duplicated()]
    if len(twice):
        raise DataError(
            f"the numbers of a column of vectors become columns, and {twice[0]!r} is also a column "
            "of the table. Rename one of the two.",
            column=str(twice[0]),
        )
    return joined


def vector_names(name: str, length: int) -> list[str]:
    """Name the columns that a column of vectors becomes."""
    return [f"{name}_{d}" for d in range(length)]


def check_vector(column: pd.Series[Any], name: str) -> None:
    """Refuse a column of vectors that was not expanded, because they differ in length."""
    values = column.tolist() if column.dtype == object else []
    first = next((row for row, value in enumerate(values) if _is_vector(value)), None)
    if first is None:
        return
    length = len(values[first])
    for row, value in enumerate(values):
        if not _is_vector(value) or len(value) != length:
            size = len(value) if _is_vector(value) else "none"
            raise DataError(
                f"{name} holds vectors: row {first} has {length} numbers, and row {row} {size}. "
                "Every image needs a vector of the same length.",
                column=name,
                row=row,
                limit=length,
            )


def _is_vector(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray | list | tuple)
        and len(value) > 0
        and isinstance(value[0], float | np.floating)
    )


def _holds_vectors(column: pd.Series[Any]) -> bool:
    if column.dtype != object and "list" not in str(column.dtype):
        return False
    values = column.tolist()
    if not values or not _is_vector(values[0]):
        return False
    length = len(values[0])
    return all(_is_vector(value) and len(value) == length for value in values)


def _stacked(column: pd.Series[Any], name: str) -> Any:
    """(n, d) the numbers."""
    values = column.tolist()
    try:
        return np.array(values, dtype=getattr(values[0], "dtype", None) or np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} holds vectors, and some entries are no numbers: {error}", column=name
        ) from error
