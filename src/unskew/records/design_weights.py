"""Design weights: what the sampling design of a source says about its own images.

A source may be a survey of its own: image i of it was drawn with a known chance, and d_i is the
inverse of that chance. Within a source only the ratios of d matter, so they are scaled to mean 1
over the images with d > 0: each source keeps its size. d = 0 leaves an image out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, first_few
from unskew.records.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

DESIGN_WEIGHT = "design_weight"
# Scaled weights that differ from 1 by rounding only are equal.
_EQUAL = 1e-12


def check_design_weights(frame: pd.DataFrame) -> None:
    """Refuse a column ``design_weight`` that has other entries than numbers, 0 or more."""
    import pandas as pd

    column = frame[DESIGN_WEIGHT]
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise DataError(
            f"design weights are numbers; the column {DESIGN_WEIGHT!r} has the type "
            f"{column.dtype}.",
            column=DESIGN_WEIGHT,
            value=str(column.dtype),
        )
    design_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~np.isfinite(design_n) | (design_n < 0))
    if wrong.size:
        row = int(wrong[0])
        name = str(frame["source"].iloc[row])
        raise DataError(
            f"a design weight is a finite number, 0 or more; {wrong.size} of {len(frame)} images "
            f"have another one (id {first_few(frame['id'].iloc[wrong].tolist())}): row {row}, of "
            f"`{name}`, has {design_n[row]}. Give every image the inverse of the chance with which "
            "its source drew it, 1 where all have the same, or leave it out.",
            column=DESIGN_WEIGHT,
            row=row,
            id=frame["id"].iloc[row],
            source=name,
            value=float(design_n[row]),
            count=int(wrong.size),
        )


def scale_design_weights(
    design_n: npt.NDArray[Any], source_n: npt.NDArray[Any], names: tuple[str, ...]
) -> Floats | None:
    """Scale d to mean 1 over the images of each source with d > 0.

    None where all are 1 then: design weights that are the same within a source say nothing.
    """
    design_n = np.asarray(design_n, dtype=np.float64)
    n_sources = len(names)
    largest_k = np.zeros(n_sources)
    np.maximum.at(largest_k, source_n, design_n)
    lost = [name for name, largest in zip(names, largest_k, strict=True) if largest == 0]
    if lost:
        raise DataError(
            f"all design weights of {first_few(lost)} are 0, so that nothing is left of it. Drop "
            "the source, or give its images weights.",
            column=DESIGN_WEIGHT,
            source=lost[0],
            sources=lost,
        )
    # Relative to the largest, so that sums of huge weights are numbers.
    relative_n = design_n / largest_k[source_n]
    total_k = np.bincount(source_n, weights=relative_n, minlength=n_sources)
    count_k = np.bincount(source_n, weights=relative_n > 0, minlength=n_sources)
    scaled_n = relative_n * (count_k / total_k)[source_n]
    return None if np.abs(scaled_n - 1.0).max() <= _EQUAL else scaled_n


def design_of_frame(frame: pd.DataFrame) -> Floats | None:
    """Read the scaled design weights of a table with its sources; None without any."""
    if DESIGN_WEIGHT not in frame.columns:
        return None
    from unskew.records.levels import text_levels

    check_design_weights(frame)
    names, source_n = text_levels(frame["source"], "source")
    return scale_design_weights(frame[DESIGN_WEIGHT].to_numpy(), source_n, tuple(names))


def raw_design(frame: pd.DataFrame) -> Floats:
    """Return (n,) the design weights of a table as they are; ones where it has none."""
    if DESIGN_WEIGHT not in frame.columns or bool(frame[DESIGN_WEIGHT].isna().any()):
        return np.ones(len(frame))
    return frame[DESIGN_WEIGHT].to_numpy(dtype=np.float64)


def add_design(code_n: npt.NDArray[Any], design_n: Floats | None, n_codes: int) -> Floats:
    """Count (n_codes,) how often each code occurs, each image d_i times (once without design)."""
    return np.bincount(code_n, weights=design_n, minlength=n_codes).astype(np.float64)
