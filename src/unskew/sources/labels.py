"""Images with several labels: lists in the column ``label``, and the same as columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Pool

if TYPE_CHECKING:
    import pandas as pd


def as_label_lists(frame: pd.DataFrame, separator: str | None, where: str) -> pd.DataFrame:
    """Return the table with its labels as lists where there is a separator or a list, else as is.

    An empty field is an empty list: none of the labels.
    """
    if separator is not None and "label" not in frame.columns:
        raise ConfigError(
            f"label_separator = {separator!r} splits the labels, but {where} has no column of "
            "labels.",
            option="label_separator",
            value=separator,
        )
    if "label" not in frame.columns:
        return frame
    values = frame["label"].tolist()
    _check_values(values, where)
    if separator is not None:
        if not separator:
            raise ConfigError(
                "label_separator is the text between two labels, such as '|'; got an empty text.",
                option="label_separator",
                value="",
            )
        values = [value.split(separator) if isinstance(value, str) else value for value in values]
    elif not any(isinstance(value, list | tuple | np.ndarray) for value in values):
        return frame
    # One list for each row: a column of lists, not a matrix, even where all have the same length.
    lists = np.empty(len(values), dtype=object)
    lists[:] = [_label_list(value) for value in values]
    return frame.assign(label=lists)


def _check_values(values: Sequence[Any], where: str) -> None:
    for value in values:
        for label in value if isinstance(value, list | tuple | np.ndarray) else (value,):
            if isinstance(label, list | tuple | dict | set | bytes | np.ndarray):
                raise DataError(
                    f"{where}: a label is text or a number, or a list of these; got "
                    f"{str(value)[:60]}.",
                    column="label",
                )


def _label_list(value: Any) -> list[Any]:
    """Return each label once, in its order."""
    import pandas as pd

    if not isinstance(value, list | tuple | np.ndarray):
        return [] if pd.isna(value) else [value]
    labels = [label.strip() if isinstance(label, str) else label for label in value]
    return list(dict.fromkeys(label for label in labels if label != "" and label is not None))


def label_indicators(pool: Pool) -> Pool:
    """Add a column ``label=cat`` of 0 and 1 for every label that occurs, sorted by name.

    With them `unskew.calibrate_weights` reaches known shares of images that show each label:
    ``means={"label=cat": (values, 0.3)}``, the share being the weighted mean of the indicator, Σ_i
    p_i 1[cat ∈ label_i].

    Examples
    --------
    >>> import unskew
    >>> labels = [["cat", "dog"], ["dog"], [], ["cat"]]
    >>> pool = label_indicators(unskew.Pool.from_arrays(["a", "a", "b", "b"], labels))
    >>> pool.frame[["label=cat", "label=dog"]].values.tolist()
    [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    import pandas as pd

    if "label" not in pool.frame.columns:
        raise DataError("the pool has no labels to make indicators of.", column="label")
    values = pool.frame["label"].tolist()
    lists = [value if isinstance(value, list) else [value] for value in values]
    missing = [
        id
        for id, value in zip(pool.frame["id"], values, strict=True)
        if not isinstance(value, list) and pd.isna(value)
    ]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(pool)} images have no label (id {first_few(missing)}), so "
            "whether they show something is unknown.",
            column="label",
            ids=missing,
        )
    row = np.repeat(np.arange(len(lists)), [len(labels) for labels in lists])
    code, names = pd.factorize(
        np.array([str(label) for labels in lists for label in labels], dtype=object), sort=True
    )
    indicator_nl = np.zeros((len(lists), len(names)))
    indicator_nl[row, code] = 1.0
    return pool.with_columns(
        {f"label={name}": indicator_nl[:, at] for at, name in enumerate(names)}
    )
