"""What a user passed as ω and source, read, checked, collapsed, and its overlap judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew import errors
from unskew.engine.row_blocks import IterableReader, Reader, open_reader
from unskew.errors import ConfigError, DataError
from unskew.records import Floats, Overlap
from unskew.records.design_weights import scale_design_weights
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


def prepare(omega: Any, source: Any, options: Options, count_n: Floats | None = None) -> Prepared:
    """Read, check and collapse what the user passed, and judge the overlap.

    This takes one pass over ω, or two for row blocks that collapse. ``count_n``: how
    often the solve counts each row; links between sources are counted in images.
    """
    if count_n is not None:
        _check_method(options)
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
    overlap = judge_overlap(inspection, names)
    return Prepared(rows if count_n is None else rows.with_counts(count_n), names, overlap)


def prepare_design(
    omega: Any, source: Any, options: Options, design: Any
) -> tuple[Prepared, Floats | None]:
    """Do what `prepare` does with design weights: (rows counted by them, (n,) the scaled weights).

    They are scaled to mean 1 within each source; None where that makes all of them 1.
    """
    prepared = prepare(omega, source, options)
    if design is None:
        return prepared, None
    check_same_order(design, "design_weight", omega)
    scaled_n = _scaled_design(np.asarray(design), prepared, options)
    if scaled_n is None:
        return prepared, None
    return replace(prepared, rows=prepared.rows.with_counts(scaled_n)), scaled_n


def _check_method(options: Options) -> None:
    if options.method == "sgd":
        raise ConfigError(
            "method='sgd' draws images, whatever their design weights; use 'newton', which is "
            "exact, or 'fixed_point'.",
            option="method",
            value="sgd",
        )


def _scaled_design(
    design_n: npt.NDArray[Any], prepared: Prepared, options: Options
) -> Floats | None:
    rows, names = prepared.rows, prepared.names
    source_n = rows.source_n if rows.inverse_n is None else rows.source_n[rows.inverse_n]
    _check_method(options)
    if design_n.shape != source_n.shape or design_n.dtype.kind not in "biuf":
        raise DataError(
            f"design_weight has one number for each of the {source_n.size} images; got shape "
            f"{design_n.shape} of type {design_n.dtype}.",
            option="design_weight",
            count=source_n.size,
            value=list(design_n.shape),
        )
    wrong = np.flatnonzero(~(np.isfinite(design_n) & (design_n > 0)))
    if wrong.size:
        row, name = int(wrong[0]), names[source_n[wrong[0]]]
        raise DataError(
            f"a design weight is a finite number above 0; row {row}, of `{name}`, has "
            f"{design_n[row]} ({wrong.size} such rows). Leave out images that are not to count.",
            option="design_weight",
            row=row,
            source=name,
            value=float(design_n[row]),
            count=int(wrong.size),
        )
    return scale_design_weights(design_n, source_n, names)


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
