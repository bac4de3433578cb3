"""Images with any number of labels: a list for each, or columns of 0 and 1 with gaps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Floats, Pool
from unskew.records.arrays import is_missing
from unskew.records.levels import INDICATOR, by_value, is_scalar_column, level_text

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


def as_label_lists(frame: pd.DataFrame, separator: str | None, where: str) -> pd.DataFrame:
    """Return the table with its labels as lists where there is a separator or a list, else as is.

    An empty field of a table with a separator is an empty list: none of the labels. Among lists, a
    missing one stays missing: unknown.
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
    if separator is None and is_scalar_column(frame["label"]):
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
    elif not any(_is_list(value) for value in values):
        return frame
    # One list for each row: a column of lists, not a matrix, even where all have the same length.
    lists = np.empty(len(values), dtype=object)
    lists[:] = [
        None
        if separator is None and not _is_list(value) and is_missing(value)
        else _label_list(value)
        for value in values
    ]
    return frame.assign(label=lists)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _check_values(values: Sequence[Any], where: str) -> None:
    for value in values:
        for label in value if _is_list(value) else (value,):
            if isinstance(label, list | tuple | dict | set | bytes | np.ndarray):
                raise DataError(
                    f"{where}: a label is text or a number, or a list of these; got "
                    f"{str(value)[:60]}.",
                    column="label",
                )


def _label_list(value: Any) -> list[Any]:
    """Return each label once, in its order."""
    import pandas as pd

    if not _is_list(value):
        return [] if pd.isna(value) else [value]
    labels = [label.strip() if isinstance(label, str) else label for label in value]
    return list(dict.fromkeys(label for label in labels if label != "" and label is not None))


def only_labels(label: Any, labels: Sequence[str] | None) -> Any:
    """Return the rule for ``label``; where columns are the ``labels``, there is no other."""
    if labels is None:
        return label
    if label not in (None, False):
        raise ConfigError(
            f"label = {label!r} and labels = {list(labels)!r} both say what an image shows: keep "
            "one of them.",
            option="labels",
            value=list(labels),
        )
    return False


def labels_from_columns(
    frame: pd.DataFrame, labels: Sequence[str] | None, where: str
) -> pd.DataFrame:
    """Turn columns of 0 and 1, one for each label, into lists of the labels that images have.

    An empty field is unknown, not absent: such a label becomes a column ``label=<name>`` as well,
    with gaps; and so does one that no image has. None: the table as it is.
    """
    if labels is None:
        return frame
    names = [str(name) for name in labels]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"labels are the names of columns, each once; got {first_few(names) or 'none'}.",
            option="labels",
            value=names,
        )
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise DataError(
            f"{where} has no column {lacking[0]!r}, which was named as a label; its columns are "
            f"{first_few(list(frame.columns), 12)}.{did_you_mean(lacking[0], frame.columns)} Where "
            "a label is unknown for all images, leave its fields empty.",
            column=lacking[0],
            columns=[str(name) for name in frame.columns],
        )
    present_nm = np.column_stack([_read_indicator(frame, name, where) for name in names])
    lists = np.empty(len(frame), dtype=object)
    lists[:] = [[names[m] for m in np.flatnonzero(row_m == 1.0)] for row_m in present_nm]
    lists[np.isnan(present_nm).all(axis=1)] = None
    gaps = {
        f"{INDICATOR}{name}": present_nm[:, m]
        for m, name in enumerate(names)
        if np.isnan(present_nm[:, m]).any() or not (present_nm[:, m] == 1.0).any()
    }
    _warn_of_gaps(frame, gaps, where)
    return frame.drop(columns=names).assign(label=lists, **gaps)


def _read_indicator(frame: pd.DataFrame, name: str, where: str) -> Floats:
    """Read (n,) 0 and 1, NaN where a field is empty."""
    words = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "1.0": 1.0, "0.0": 0.0}
    values = frame[name].tolist()
    read = [
        np.nan if is_missing(value) else words.get(str(value).strip().lower()) for value in values
    ]
    wrong = next((row for row, value in enumerate(read) if value is None), None)
    if wrong is not None:
        minus = str(values[wrong]).strip() in ("-1", "-1.0")
        advice = (
            " Where -1 means absent, write 0; where it means uncertain, leave the field empty."
            if minus
            else " A column of several labels is split by label_separator."
        )
        raise DataError(
            f"{where}: the column {name!r} is 1 where an image has the label, 0 where not, and "
            f"empty where that is unknown; that of image {frame['id'].iloc[wrong]} is "
            f"{values[wrong]!r}.{advice}",
            column=name,
            id=str(frame["id"].iloc[wrong]),
            value=str(values[wrong]),
        )
    return np.array(read, dtype=np.float64)


def _warn_of_gaps(frame: pd.DataFrame, gaps: dict[str, Floats], where: str) -> None:
    source_n = frame["source"].astype(str).to_numpy()
    shown = []
    for column, value_n in gaps.items():
        unknown_n = np.isnan(value_n)
        if not unknown_n.any():
            continue
        whole = [name for name in np.unique(source_n) if unknown_n[source_n == name].all()]
        of = f", all of {first_few(whole)}" if whole else ""
        shown.append(f"{column.removeprefix(INDICATOR)} ({int(unknown_n.sum()):,}{of})")
    if shown:
        logger.warning(
            "%s: labels that are unknown for some of %s images, and not taken for absent there: %s",
            where,
            f"{len(frame):,}",
            first_few(shown, 12),
        )


def label_matrix(pool: Pool) -> tuple[tuple[str, ...], Floats]:
    """Return the labels that occur, sorted, and (n, M) 1 where an image has one, 0 where not.

    NaN where that is unknown: in all labels of an image without a list, and where the column
    ``label=<name>`` has a gap.
    """
    frame = pool.frame
    if "label" not in frame.columns:
        raise DataError("the pool has no labels.", column="label")
    lists = [
        value if isinstance(value, list | tuple | set | frozenset | np.ndarray) else [value]
        for value in frame["label"].tolist()
    ]
    texts = [[level_text(name) for name in names if not is_missing(name)] for names in lists]
    gaps = [name for name in frame.columns if str(name).startswith(INDICATOR)]
    listed = {name for names in texts for name in names}
    labels = sorted(listed | {name.removeprefix(INDICATOR) for name in gaps}, key=by_value)
    code = {name: m for m, name in enumerate(labels)}
    present_nm = np.zeros((len(lists), len(labels)))
    for row, (names, own) in enumerate(zip(lists, texts, strict=True)):
        present_nm[row, [code[name] for name in own]] = 1.0
        if len(names) == 1 and not own:
            present_nm[row] = np.nan
    for name in gaps:
        present_nm[frame[name].isna().to_numpy(), code[name.removeprefix(INDICATOR)]] = np.nan
    return tuple(labels), present_nm


@checked
def label_indicators(pool: Pool) -> Pool:
    """Add a column ``label=cat`` of 0 and 1 for every label that occurs, sorted by name.

    Where it is unknown whether an image has the label, the column has a gap.

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
    labels, present_nm = label_matrix(pool)
    unknown_n = np.isnan(present_nm).all(axis=1) & bool(labels)
    missing = pool.frame["id"].iloc[np.flatnonzero(unknown_n)].tolist()
    if missing:
        raise DataError(
            f"{len(missing)} of {len(pool)} images have no label (id {first_few(missing)}), so "
            "whether they show something is unknown.",
            column="label",
            ids=missing,
        )
    return pool.with_columns(
        {f"{INDICATOR}{name}": present_nm[:, m] for m, name in enumerate(labels)}
    )
