"""From what a scikit-learn user has (X, y, source …) to a `Pool`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError
from unskew.records import Floats, Pool
from unskew.records.pool_table import ROLES

if TYPE_CHECKING:
    import pandas as pd

# The name of the one source where none is given.
ONE_SOURCE = "pool"


@dataclass(frozen=True, eq=False)
class GivenImages:
    """The arguments of `fit` and `target_score`: one entry of each for every image.

    ``has_classes``: y holds classes, also where these are numbers, and a bias model that reads it
    must not take them for measurements.
    """

    X: Any
    y: Any
    source: Any = None
    group: Any = None
    sample_weight: Any = None
    attributes: Any = None
    has_classes: bool = False

    def __len__(self) -> int:
        shape = getattr(self.X, "shape", None) or np.asarray(self.X).shape
        if not shape:
            raise DataError(
                "X holds one row for each image; got a single value of type "
                f"{type(self.X).__name__}.",
                option="X",
                value=type(self.X).__name__,
            )
        return int(shape[0])


def pool_images(
    images: GivenImages, *, features: bool = True, design_n: Floats | None = None
) -> Pool:
    """Make a pool of X, y and what goes with them.

    Columns: those of a DataFrame X, or x_0, x_1, … of an array; ``label``, or label_0, … for
    several outputs; ``source``, ``group``, ``design_weight``, and the columns of ``attributes``. An
    X that is no table (sparse, text, arrays of images) adds no columns. The ids are the column id
    of ``attributes``, else the index of a DataFrame X where it is unique, else the row numbers.
    """
    import pandas as pd

    n = len(images)
    index = images.X.index if isinstance(images.X, pd.DataFrame) else None
    role = {
        "source": [ONE_SOURCE] * n if images.source is None else images.source,
        "group": images.group,
        "design_weight": design_n,
    }
    columns = {
        name: _one_column(values, name, n, index)
        for name, values in role.items()
        if values is not None
    }
    columns |= _label_columns(images.y, n, images.has_classes)
    parts = [pd.DataFrame({name: pd.Series(values).array for name, values in columns.items()})]
    tables = {
        "X": feature_frame(images.X) if features else None,
        "attributes": _attribute_frame(images.attributes, n, index),
    }
    for where, frame in tables.items():
        if frame is not None:
            _check_names(where, frame, [name for part in parts for name in part.columns])
            parts.append(
                frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
            )
    if "id" not in parts[-1].columns:
        parts[0]["id"] = index if index is not None and index.is_unique else np.arange(n)
    return Pool(pd.concat(parts, axis=1))


def _one_column(values: Any, name: str, n: int, index: pd.Index | None) -> Any:
    _check_order(values, name, index)
    # pandas' categories carry the order of the sources; anything else is read as an array.
    column = values.array if hasattr(values, "array") and hasattr(values, "index") else values
    column = column if hasattr(column, "categories") else np.asarray(column)
    if column.ndim != 1 or len(column) != n:
        raise DataError(
            f"{name} has one entry for each of the {n} images, in one dimension; got shape "
            f"{column.shape}.",
            option=name,
            limit=n,
        )
    return column


def _label_columns(y: Any, n: int, has_classes: bool) -> dict[str, Any]:
    import pandas as pd

    if y is None:
        return {}
    label = np.asarray(y)
    if label.shape[:1] != (n,) or label.ndim > 2:
        raise DataError(
            f"y has one entry for each of the {n} images; got shape {label.shape}.",
            option="y",
            limit=n,
        )
    outputs = (
        {"label": label.reshape(n)}
        if label.size == n
        else {f"label_{d}": label[:, d] for d in range(label.shape[1])}
    )
    return {
        name: pd.Categorical(values) if has_classes else values for name, values in outputs.items()
    }


def feature_frame(X: Any) -> pd.DataFrame | None:
    """Return X as a table with named columns; None where it is none."""
    import pandas as pd
    import scipy.sparse

    if isinstance(X, pd.DataFrame):
        return X
    if scipy.sparse.issparse(X):
        return None
    array = np.asarray(X)
    return (
        pd.DataFrame(array, columns=[f"x_{d}" for d in range(array.shape[1])])
        if array.ndim == 2
        else None
    )


def _attribute_frame(attributes: Any, n: int, index: pd.Index | None) -> pd.DataFrame | None:
    import pandas as pd

    if attributes is None:
        return None
    if not isinstance(attributes, pd.DataFrame | Mapping):
        raise DataError(
            "attributes is a DataFrame, or a dict with an array for each column; got "
            f"{type(attributes).__name__}.",
            option="attributes",
            value=type(attributes).__name__,
        )
    _check_order(attributes, "attributes", index)
    try:
        frame = pd.DataFrame(attributes)
    except ValueError as error:
        raise DataError(f"attributes is no table: {error}.", option="attributes") from None
    if len(frame) != n:
        raise DataError(
            f"attributes has one row for each of the {n} images; got {len(frame)}.",
            option="attributes",
            count=len(frame),
            limit=n,
        )
    return frame


def _check_order(values: Any, what: str, index: pd.Index | None) -> None:
    own: Any = getattr(values, "index", None)
    if index is None or not hasattr(own, "equals") or len(own) != len(index) or own.equals(index):
        return
    if sorted(map(str, own)) == sorted(map(str, index)):
        raise DataError(
            f"{what} and X have the same index in another order; reorder one of them, e.g. {what} "
            f"= {what}.loc[X.index].",
            option=what,
        )


def _check_names(where: str, frame: pd.DataFrame, taken: Sequence[str]) -> None:
    roles = set(ROLES) - {"split", "path", "content"} - ({"id"} if where == "attributes" else set())
    twice = [str(name) for name in frame.columns if str(name) in taken or str(name) in roles]
    if twice:
        raise DataError(
            f"{where} has a column {twice[0]!r}, a name that is already taken: label is y, source "
            "and group are arguments of their own, design_weight is sample_weight, id is a column "
            "of attributes, and a column of attributes must not be one of X. Rename it.",
            option=where,
            column=twice[0],
        )
