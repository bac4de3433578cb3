"""The rows of a problem as the solver reads them, in any form."""

from __future__ import annotations

import numpy as np

from problems import in_form
from unskew.engine.row_blocks import open_reader
from unskew.solve.omega_rows import Rows


def rows_in(
    form: str, omega: np.ndarray, source: np.ndarray, count: np.ndarray | None, jobs: int
) -> Rows:
    given, options = in_form(form, omega)
    rows = Rows(
        reader=open_reader(given),
        source_n=source.astype(np.int32),
        n_sources=omega.shape[1],
        jobs=jobs,
        **options,
    )
    rows = rows if count is None else rows.with_counts(count)
    return rows.rescaled(np.zeros(omega.shape[1])) if form == "logarithms" else rows
