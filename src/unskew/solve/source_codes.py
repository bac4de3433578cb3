"""Names of sources ↔ columns of ω: every row gets the code of its source's column, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew import errors
from unskew.records.arrays import Codes, is_missing

Codes = Codes


def source_codes(
    source: Any, n_columns: int, names: Sequence[object] | None
) -> tuple[Codes, tuple[str, ...]]:
    """Return (codes, names) of the sources.

    Integers are columns (or labels, if the columns are labelled by integers), names are looked up.
    Without ``names``, named sources are the columns in sorted order (categories: in the order
    of the categories).
    """
    if n_columns == 0:
        raise errors.DataError(
            "omega has no columns: it needs one for each source.", option="omega"
        )
    if names is not None and len(names) != n_columns:
        raise errors.DataError(
            f"omega has {n_columns} columns, but {len(names)} names were given: "
            f"{errors.first_few(list(names))}.",
            option="names",
            count=len(names),
            limit=n_columns,
        )
    if names is not None and len(set(names)) != len(names):
        raise errors.DataError(
            f"two columns of omega have the same name: {errors.first_few(list(names))}.",
            columns=list(names),
        )
    array = np.asarray(source)
    categories = getattr(getattr(source, "dtype", None), "categories", None)
    if names is None and categories is not None:
        seen = {value for value in array.tolist() if not is_missing(value)}
        names = [category for category in list(categories) if category in seen]
        names = names if len(names) == n_columns else None
    if array.ndim != 1:
        raise errors.DataError(
            f"source has one entry for each image, in one dimension; got shape {array.shape}.",
            option="source",
            value=list(array.shape),
        )
    if array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array == np.floor(array)):
        array = array.astype(np.int64)
    by_name = names is not None and all(isinstance(name, int | np.integer) for name in names)
    if array.dtype.kind in "iub" and not by_name:
        codes = _positions(array, n_columns)
    else:
        codes, names = _look_up(array, n_columns, names)
    shown = (
        tuple(str(name) for name in names)
        if names is not None
        else tuple(str(k) for k in range(n_columns))
    )
    size_k = np.bincount(codes, minlength=n_columns)
    if array.size and not size_k.all():
        raise errors.empty_sources([shown[k] for k in np.flatnonzero(size_k == 0)])
    return codes, shown


def check_same_order(column: Any, what: str, omega: Any) -> None:
    """Refuse pandas objects in another order, which would be joined wrongly by position."""
    own: Any = getattr(column, "index", None)
    other: Any = getattr(omega, "index", None)
    if (
        not (hasattr(own, "equals") and hasattr(other, "equals"))
        or len(own) != len(other)
        or own.equals(other)
    ):
        return
    if sorted(map(str, own)) == sorted(map(str, other)):
        raise errors.DataError(
            f"{what} and omega have the same index in another order; reorder one of them, e.g. "
            f"{what} = {what}.loc[omega.index].",
            option=what,
        )


def _positions(array: npt.NDArray[Any], n_columns: int) -> Codes:
    if array.size and (array.min() < 0 or array.max() >= n_columns):
        outside = np.unique(array[(array < 0) | (array >= n_columns)])
        raise errors.unknown_sources(outside.tolist(), list(range(n_columns)))
    return array.astype(np.int32, copy=False)


def _look_up(
    array: npt.NDArray[Any], n_columns: int, names: Sequence[object] | None
) -> tuple[Codes, Sequence[object]]:
    missing = (
        [value for value in array.tolist() if is_missing(value)] if array.dtype.kind in "Of" else []
    )
    if missing:
        raise errors.DataError(
            f"source is missing (None or NaN) for {len(missing)} images: every image needs the "
            "name of its database.",
            option="source",
            count=len(missing),
        )
    try:
        distinct, inverse = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise errors.DataError(
            "source mixes names of different types; use all strings or all integers.",
            option="source",
        ) from error
    known = distinct.tolist() if names is None else list(names)
    if names is None and len(known) > n_columns:
        raise errors.DataError(
            f"source names {len(known)} databases ({errors.first_few(known)}), but omega has "
            f"{n_columns} columns: one is needed for each.",
            sources=known,
            count=len(known),
            limit=n_columns,
        )
    if names is None and len(known) < n_columns:
        raise errors.DataError(
            f"source names only {len(known)} databases ({errors.first_few(known)}), but omega has "
            f"{n_columns} columns. A column without images has no equation: drop it, or say which "
            "column is whose by names=[...] or a DataFrame.",
            sources=known,
            count=len(known),
            limit=n_columns,
        )
    column_of = {name: k for k, name in enumerate(known)}
    unknown = [name for name in distinct.tolist() if name not in column_of]
    if unknown:
        raise errors.unknown_sources(unknown, known)
    column = np.array([column_of[name] for name in distinct.tolist()], dtype=np.int32)
    return column[inverse].astype(np.int32, copy=False), known
