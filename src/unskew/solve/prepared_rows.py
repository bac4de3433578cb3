"""What a user passed as ω and source, read, checked, collapsed, and its overlap judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew import errors
from unskew.engine.row_blocks import IterableReader, Reader, open_reader
from unskew.records import Overlap
from unskew.solve.collapse import collapse_rows
from unskew.solve.inspection import inspect_rows
from unskew.solve.omega_rows import Rows
from unskew.solve.options import Options
from unskew.solve.overlap import judge_overlap
from unskew.solve.source_codes import check_same_order, source_codes


@dataclass(frozen=True)
class Prepared:
    """ω checked, collapsed where that pays, and its overlap judged."""

    rows: Rows
    names: tuple[str, ...]
    overlap: Overlap


def prepare(omega: Any, source: Any, options: Options) -> Prepared:
    """Read, check and collapse what the user passed, and judge the overlap.

    This takes one pass over ω, or two for row blocks that collapse.
    """
    reader = open_reader(omega)
    check_same_order(source, "source", omega)
    source_n, names = source_codes(source, reader.n_columns, _column_names(omega, reader, options))
    _check_length(reader, source_n.size)
    rows = Rows(
        reader=reader,
        source_n=source_n,
        n_sources=reader.n_columns,
        log=options.log,
        jobs=options.threads,
    )
    try:
        rows, first_row = collapse_rows(rows)
        inspection = inspect_rows(rows, names, first_row)
    except errors.RowCountError as error:
        raise errors.wrong_length(source_n.size, error.seen) from None
    return Prepared(rows, names, judge_overlap(inspection, names))


def _column_names(omega: Any, reader: Reader, options: Options) -> Sequence[object] | None:
    if options.names is not None:
        return [name.item() if isinstance(name, np.generic) else name for name in options.names]
    if hasattr(omega, "columns"):
        return list(omega.columns)
    names: Sequence[object] | None = getattr(reader, "column_names", None)
    return names


def _check_length(reader: Reader, n_source: int) -> None:
    if not isinstance(reader, IterableReader):
        n_rows = (reader.array if hasattr(reader, "array") else reader.matrix).shape[0]  # type: ignore[attr-defined]
        if n_rows == 0:
            raise errors.no_rows()
        if n_rows != n_source:
            raise errors.wrong_length(n_source, n_rows)
