"""The links between the sources as tables of bounded size."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from unskew.records import Ints, Overlap
from unskew.report.summary.plain import rounded
from unskew.report.summary.record import Number, OverlapPanel
from unskew.report.summary.suppression import SMALLEST_CELL
from unskew.report.summary.wording import without_counts

_MOST_SOURCES = 60

Table = tuple[tuple[Number, ...], ...]


def show_overlap(
    overlap: Overlap, n_images: int, size_k: Any, hidden_k: Any, private: bool
) -> tuple[OverlapPanel, str]:
    """Return the panel, and a note if not all sources are in its tables.

    Parameters
    ----------
    size_k : (number of columns of ω,) images of each source; a target sample's may be there, too.
    hidden_k : those whose numbers are withheld.
    """
    kept = _chosen(overlap, np.asarray(size_k))
    names = tuple(overlap.names[k] for k in kept)
    hidden = np.asarray(hidden_k, dtype=np.bool_)[kept]
    link, common, matrix = (
        _table(table_kk, kept)
        for table_kk in (overlap.link_count, overlap.common_mass, overlap.matrix)
    )
    count = overlap.weakest_count
    if private:
        link, common = _in_tens(link, 1.0, hidden), _in_tens(common, float(n_images), hidden)
        matrix = (
            None
            if matrix is None
            else np.where(hidden[:, None] | hidden, np.nan, np.round(matrix, 2))
        )
        count = None if count is None or count < SMALLEST_CELL else round(count, -1)
    digits = 2 if private else 10
    panel = OverlapPanel(
        names=names,
        verdict=overlap.verdict,
        message=without_counts(overlap.message) if private else overlap.message,
        matrix=_rows(matrix),
        link_count=_rows(link),
        common_mass=_rows(common),
        components=overlap.components,
        weakest_link=overlap.weakest_link,
        weakest_count=count,
        kappa=rounded(overlap.kappa, digits),
        # The smallest ω is one image's.
        epsilon=None if private else overlap.epsilon,
        spectral_gap=rounded(overlap.spectral_gap, digits),
        sigma2=rounded(overlap.sigma2, digits),
        thresholds=dict(overlap.thresholds),
    )
    note = (
        ""
        if len(kept) == len(overlap.names)
        else f"The tables show {len(kept)} of {len(overlap.names):,} sources, the largest."
    )
    return panel, note


def _chosen(overlap: Overlap, size_k: Ints) -> list[int]:
    """Choose the sources in the tables: those at the weakest link, then the largest, in order."""
    if len(overlap.names) <= _MOST_SOURCES:
        return list(range(len(overlap.names)))
    ends = [overlap.names.index(name) for name in overlap.weakest_link or ()]
    largest = [int(k) for k in np.argsort(-size_k, kind="stable") if int(k) not in ends]
    return sorted([*ends, *largest][:_MOST_SOURCES])


def _table(table_kk: Any, kept: list[int]) -> Any:
    if table_kk is None:
        return None
    chosen = (
        sp.csr_array(table_kk)[kept][:, kept].toarray()
        if sp.issparse(table_kk)
        else np.asarray(table_kk)[np.ix_(kept, kept)]
    )
    return chosen.astype(np.float64)


def _in_tens(table_kk: Any, scale: float, hidden_k: Any) -> Any:
    """Round counts to tens, because differences of overlapping counts could be small.

    NaN below ten, and for sources that are withheld.
    """
    if table_kk is None:
        return None
    count_kk = np.round(table_kk * scale, 6)
    tens_kk = np.round(count_kk, -1) / scale
    return np.where(
        ((count_kk > 0) & (count_kk < SMALLEST_CELL)) | hidden_k[:, None] | hidden_k,
        np.nan,
        tens_kk,
    )


def _rows(table_kk: Any) -> Table | None:
    if table_kk is None:
        return None
    return tuple(tuple(rounded(value) for value in row) for row in table_kk.tolist())
