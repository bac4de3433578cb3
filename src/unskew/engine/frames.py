"""Tables and columns of other packages, read as pandas reads them.

Polars, pyarrow, DuckDB and others hand their tables over by the Arrow C interface
(``__arrow_c_stream__``) or by ``__dataframe__``; pyarrow reads both. A dict of columns is a table,
too, where a table is what is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unskew.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_TABLE = ("__arrow_c_stream__", "__dataframe__")
_COLUMN = (*_TABLE, "__arrow_c_array__")


def is_foreign(value: Any) -> bool:
    """Tell whether this is a table or a column that pandas does not hold and pyarrow can read."""
    kind = type(value)
    if not any(hasattr(kind, name) for name in _COLUMN):
        return False
    pandas = sys.modules.get("pandas")
    return pandas is None or not isinstance(
        value,
        pandas.DataFrame | pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray,
    )


def read_foreign(value: Any) -> Any:
    """Return a table of another package as a DataFrame, a column as an array; the rest as it is."""
    if not is_foreign(value):
        return value
    # A column is an array, too; so are most tables, but these have columns.
    is_column = hasattr(value, "__array__") and not _has_columns(value)
    return _column(value) if is_column else _frame(value)


def read_frame(value: Any) -> Any:
    """Return a table of another package, or a dict of columns, as a DataFrame."""
    if is_foreign(value):
        return _frame(value)
    # A sparse matrix of SciPy may be a dict of its entries.
    is_columns = isinstance(value, Mapping) and not hasattr(value, "shape")
    return columns_frame(value) if is_columns else value


def columns_frame(columns: Mapping[Any, Any]) -> pd.DataFrame:
    """Return a dict of columns, each as long as the others, as a DataFrame."""
    import pandas as pd

    read = {name: read_foreign(column) for name, column in columns.items()}
    try:
        # A Series is taken in its order, as the other columns are, not by its index.
        return pd.DataFrame({name: getattr(one, "array", one) for name, one in read.items()})
    except Exception as error:
        raise DataError(
            "a dict is a table where it has one list or array for each column, all of one length; "
            f"this one cannot be read ({_first_line(error)}).",
            columns=[str(name) for name in columns],
        ) from error


def _has_columns(value: Any) -> bool:
    return hasattr(value, "columns") or hasattr(value, "column_names")


def _frame(value: Any) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = _plain(_arrow_table(value)).to_pandas()
        return frame
    except Exception as error:
        raise _unreadable(value, "table", error) from error


def _arrow_table(value: Any) -> pa.Table:
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    if isinstance(value, pa.Table):
        return value
    if hasattr(value, "__arrow_c_stream__"):
        return pa.table(value)
    if hasattr(value, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(value)])
    return from_dataframe(value)


def _plain(table: pa.Table) -> pa.Table:
    """Turn decimals, which pandas would hold as objects, into numbers, and views into texts."""
    import pyarrow as pa

    fields = [field.with_type(_plain_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain_type(kind.value_type), kind.ordered)
    return kind


def _column(value: Any) -> Any:
    import pyarrow as pa

    try:
        is_stream = hasattr(value, "__arrow_c_stream__")
        column = pa.chunked_array(value if is_stream else [pa.array(value)])
        values = _plain(pa.table({"column": column})).to_pandas()["column"]
        # Categories keep their order. A Series has an index, which could be mistaken for ids.
        return values.array if hasattr(values.array, "categories") else values.to_numpy()
    except Exception as error:
        raise _unreadable(value, "column", error) from error


def _unreadable(value: Any, what: str, error: Exception) -> DataError:
    kind = type(value)
    return DataError(
        f"this {kind.__module__}.{kind.__qualname__} cannot be read as a {what} "
        f"({_first_line(error)}). Convert it to a pandas DataFrame.",
        value=kind.__qualname__,
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
