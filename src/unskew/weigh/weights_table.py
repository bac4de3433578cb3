"""weights.parquet, its one writer and reader: every image with its roles and its weight."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import DataError, first_few
from unskew.files.atomic import written_whole
from unskew.files.reading import damage_named, read_arrow
from unskew.records import Pool, Weights
from unskew.records.levels import (
    as_text,
    find_positions,
    is_scalar_column,
    level_text,
    refuse_extra,
)

if TYPE_CHECKING:
    import pandas as pd

# The columns of the file, in their order; those that the images do not have are empty.
COLUMNS = ("id", "source", "path", "label", "group", "split", "weight", "sample_weight")
_WEIGHTS = ("weight", "sample_weight")


def make_weights_frame(weights: Weights) -> pd.DataFrame:
    """Return id, source, group (if there are groups), weight and sample_weight of every image."""
    import pandas as pd

    columns: dict[str, Any] = {
        "id": weights.id,
        "source": np.array(weights.names, dtype=object)[weights.source],
    }
    if weights.group is not None and weights.group_names is not None:
        columns["group"] = weights.group_names[weights.group]
    return pd.DataFrame(
        {**columns, "weight": weights.weight, "sample_weight": weights.sample_weight}
    )


def write_weights(weights: Weights, path: str | PathLike[str]) -> None:
    """Write weights.parquet; the roles of the images are those of the pool, where it is known."""
    frame = make_weights_frame(weights)
    if weights.estimation is not None:
        # These weights sum to 1 over all images, not within each split as those of a run do.
        joined = join_weights(weights.estimation.pool, frame)
        frame = joined.drop(columns="split", errors="ignore")
    _write(frame, path)


@checked
def write_weights_table(pool: Pool, frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write weights.parquet for a pool, atomically, one row for each image.

    ``frame`` has id, weight and sample_weight (`SplitWeights.frame`), in any order: weights are
    joined by id. Several labels of an image are a list of texts; a column that the images do not
    have is empty.
    """
    _write(join_weights(pool, frame), path)


def _write(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    empty = pa.nulls(len(frame), pa.string())
    table = pa.table(
        {name: _arrow(frame[name]) if name in frame.columns else empty for name in COLUMNS}
    )
    with written_whole(path) as beside:
        pq.write_table(table, beside)


def join_weights(pool: Pool, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the role columns of the pool with weight and sample_weight, in its order."""
    lacking = [name for name in ("id", *_WEIGHTS) if name not in frame.columns]
    if lacking:
        raise DataError(
            "a table of weights has the columns id, weight and sample_weight; this one lacks "
            f"{first_few(lacking)}.",
            columns=lacking,
        )
    at_n: Any = slice(None)
    if not frame["id"].array.equals(pool.frame["id"].array):
        ids, owned = pool.frame["id"].tolist(), frame["id"].tolist()
        at_n = find_positions(ids, owned, of="the images", among="the weights")
        if len(owned) > len(ids):
            refuse_extra(
                owned,
                ids,
                of="the images",
                among="the weights",
                way_out="Were the weights computed from this pool?",
            )
    roles = pool.frame[[name for name in COLUMNS if name in pool.frame.columns]].drop(
        columns=list(_WEIGHTS), errors="ignore"
    )
    return roles.assign(**{name: frame[name].to_numpy(dtype=np.float64)[at_n] for name in _WEIGHTS})


@checked
def read_weights_table(path: str | PathLike[str]) -> pd.DataFrame:
    """Read weights.parquet; lists of labels are lists again.

    A file that does not exist, or is no table of weights, is a `DataError`.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(
            f"there is no file {str(file)!r}. `unskew weigh run.toml -o OUT` writes it into its "
            "output folder OUT.",
            path=str(file),
        )
    frame = _frame_of(read_arrow(file), file)
    with damage_named(file, "a table of weights"):
        _check_values(frame, file)
    return frame


def each_weights_table(path: str | PathLike[str]) -> Iterator[pd.DataFrame]:
    """Read weights.parquet some rows at a time, for weights that are too many for memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    damaged = damage_named(path, "a table of weights", silent=False)
    with damaged, pq.ParquetFile(path) as opened:
        for batch in opened.iter_batches():
            yield _frame_of(pa.Table.from_batches([batch]), Path(path))


def _frame_of(table: Any, file: Path) -> pd.DataFrame:
    """Return the columns of a table of weights; lists of labels are lists again."""
    import pandas as pd
    import pyarrow as pa

    lacking = [name for name in COLUMNS if name not in table.column_names]
    if lacking:
        raise DataError(
            f"{file} is no table of weights: it lacks {first_few(lacking)}; it has "
            f"{first_few(table.column_names, 12)}.",
            path=str(file),
            columns=lacking,
        )
    for name in COLUMNS:
        if name != "label" and pa.types.is_nested(table.schema.field(name).type):
            raise DataError(
                f"{file} is no table of weights: {name} holds lists.", path=str(file), column=name
            )
    with damage_named(file, "a table of weights"):
        frame: pd.DataFrame = table.select(list(COLUMNS)).to_pandas(ignore_metadata=True)
    if pa.types.is_list(table.schema.field("label").type):
        frame["label"] = pd.Series(
            [None if value is None else list(value) for value in frame["label"]], dtype=object
        )
    return frame


def _check_values(frame: pd.DataFrame, file: Path) -> None:
    """Refuse what no run writes: weights that are no weights, ids that name no image, or two."""
    for name in _WEIGHTS:
        kind = frame[name].dtype.kind
        weight_n = frame[name].to_numpy(np.float64, na_value=np.nan) if kind in "fiu" else None
        if weight_n is None or not np.all((weight_n >= 0) & np.isfinite(weight_n)):
            wrong = "holds no numbers" if weight_n is None else "is negative, infinite or missing"
            raise DataError(
                f"{file} is no table of weights: {name} {wrong}.", path=str(file), column=name
            )
        if weight_n.sum() <= 0:
            raise DataError(
                f"{file} is no table of weights: every {name} is 0.", path=str(file), column=name
            )
    if frame["id"].isna().any() or frame["id"].duplicated().any():
        raise DataError(
            f"{file} is no table of weights: ids are missing, or two images have the same.",
            path=str(file),
            column="id",
        )


def is_list(value: Any) -> bool:
    """Tell whether this is the label of an image that has several."""
    return isinstance(value, list | tuple | set | frozenset | np.ndarray)


def _arrow(column: pd.Series[Any]) -> Any:
    """Make an Arrow array."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = as_text(column)
    lists = column.name == "label" and not is_scalar_column(column)
    if lists and any(is_list(value) for value in column.tolist()):
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
        return [level_text(level) for level in value]
    import pandas as pd

    return None if pd.isna(value) else [level_text(value)]
