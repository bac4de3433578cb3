"""weights.parquet: every image with its role columns and its weight, joined by id."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError, first_few
from unskew.files.atomic import written_whole
from unskew.records import Pool
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

# The columns of the file, in their order; those that the images do not have are empty.
COLUMNS = ("id", "source", "path", "label", "group", "split", "weight", "sample_weight")
_WEIGHTS = ("weight", "sample_weight")


def write_weights_table(pool: Pool, frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write id, source, path, label, group, split, weight and sample_weight as Parquet, one row for
    each image, whole or not at all.

    ``frame`` has id, weight and sample_weight (`SplitWeights.frame`), in any order: weights are
    joined by id. Several labels of an image are a list of texts; a column that the images do not
    have is empty.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    joined = join_weights(pool, frame)
    table = pa.table(
        {
            name: _arrow(joined[name])
            if name in joined.columns
            else pa.nulls(len(joined), pa.string())
            for name in COLUMNS
        }
    )
    with written_whole(path) as beside:
        pq.write_table(table, beside)


def join_weights(pool: Pool, frame: pd.DataFrame) -> pd.DataFrame:
    """The role columns of the pool with weight and sample_weight, in the order of the pool; every
    image has a weight or it is an error.
    """
    lacking = [name for name in ("id", *_WEIGHTS) if name not in frame.columns]
    if lacking:
        raise DataError(
            "a table of weights has the columns id, weight and sample_weight; this one lacks "
            f"{first_few(lacking)}."
        )
    position = {value: at for at, value in enumerate(frame["id"].tolist())}
    ids = pool.frame["id"].tolist()
    unknown = [value for value in ids if value not in position]
    if unknown or len(position) != len(ids) or len(position) != len(frame):
        extra = set(position) - set(ids)
        shown = first_few(unknown or sorted(map(str, extra)))
        raise DataError(
            f"weights and images differ: {len(unknown)} images have no weight and {len(extra)} "
            "weights have no image "
            f"({shown or 'ids twice'}). Were the weights computed from this pool?"
        )
    at_n = np.array([position[value] for value in ids], dtype=np.int64)
    roles = pool.frame[[name for name in COLUMNS if name in pool.frame.columns]].drop(
        columns=list(_WEIGHTS), errors="ignore"
    )
    return roles.assign(**{name: frame[name].to_numpy(dtype=np.float64)[at_n] for name in _WEIGHTS})


def read_weights_table(path: str | PathLike[str]) -> pd.DataFrame:
    """The table back; lists of labels are lists again. A file that is not there, or is none of
    ours, is an error in words.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(path)
    if not place.is_file():
        raise DataError(
            f"there is no file {str(place)!r}. `unskew weigh run.toml -o OUT` writes it into its "
            "output folder OUT."
        )
    try:
        table = pq.read_table(place)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{place} cannot be read as Parquet ({error}). Was it cut off, or is it another file?"
        ) from error
    lacking = [name for name in COLUMNS if name not in table.column_names]
    if lacking:
        raise DataError(
            f"{place} is no table of weights: it lacks {first_few(lacking)}; it has "
            f"{first_few(table.column_names, 12)}."
        )
    frame: pd.DataFrame = table.select(list(COLUMNS)).to_pandas()
    if pa.types.is_list(table.schema.field("label").type):
        frame["label"] = pd.Series(
            [None if value is None else list(value) for value in frame["label"]], dtype=object
        )
    return frame


def is_list(value: Any) -> bool:
    """Is this the label of an image that has several?"""
    return isinstance(value, list | tuple | set | frozenset | np.ndarray)


def _arrow(column: pd.Series[Any]) -> Any:
    """An Arrow array: lists as lists of text, categories as their values, values of mixed or
    foreign types as text.
    """
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if column.name == "label" and any(is_list(value) for value in column.tolist()):
        return pa.array([_texts(value) for value in column.tolist()], type=pa.list_(pa.string()))
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(
            [
                None if missing else level_text(value)
                for value, missing in zip(column.tolist(), column.isna(), strict=True)
            ]
        )


def _texts(value: Any) -> list[str] | None:
    if is_list(value):
        return [level_text(each) for each in value]
    import pandas as pd

    return None if pd.isna(value) else [level_text(value)]
