"""Exact copies of an image, within a source and across sources, by content."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.records import Ints
from unskew.report.summary.suppression import too_small
from unskew.report.summary.weighted_pool import WeightedPool

_MOST_PAIRS = 200


@dataclass(frozen=True, eq=False)
class Copies:
    """Exact copies by content.

    Attributes
    ----------
    pairs : (source, source, images that both hold), most first; of one source: its images beyond
        the first of each content.
    by_source : (K,) images of each source that have a copy anywhere; None where that is withheld.
    content : (n,) code of the content of every image that has a copy, −1 for the others.
    """

    pairs: tuple[tuple[str, str, int | None], ...]
    by_source: Ints | None
    content: Ints


def count_copies(weighed: WeightedPool) -> Copies | None:
    """Count exact copies; None without the column ``content``."""
    if "content" not in weighed.frame.columns:
        return None
    import pandas as pd

    code_n = np.asarray(pd.factorize(weighed.frame["content"])[0], dtype=np.int64)
    count = np.bincount(code_n[code_n >= 0], minlength=1)
    copied_n = (code_n >= 0) & (count[code_n] > 1)
    n_sources = len(weighed.names)
    by_source = np.bincount(weighed.source_n[copied_n], minlength=n_sources).astype(np.int64)
    pairs = _pairs(code_n[copied_n], weighed.source_n[copied_n], weighed.names)
    if weighed.private and any(
        too_small(size) for size in [*(size for _, _, size in pairs), *by_source.tolist()]
    ):
        # What two sources share is part of what each has: one small number among them, and none is
        # shown.
        return Copies(
            pairs=tuple((first, second, None) for first, second, _ in pairs[:_MOST_PAIRS]),
            by_source=None,
            content=np.where(copied_n, code_n, -1),
        )
    return Copies(
        pairs=tuple(pairs[:_MOST_PAIRS]),
        by_source=by_source,
        content=np.where(copied_n, code_n, -1),
    )


def _pairs(
    code_m: Ints, source_m: Ints, names: tuple[str, ...]
) -> list[tuple[str, str, int | None]]:
    import scipy.sparse as sp

    if not code_m.size:
        return []
    content, place_m = np.unique(code_m, return_inverse=True)
    held = sp.csr_array(
        (np.ones(code_m.size), (place_m, source_m)), shape=(content.size, len(names))
    )
    within = np.asarray(held.sum(axis=0)).ravel()
    held.data[:] = 1.0
    distinct = np.asarray(held.sum(axis=0)).ravel()
    both = sp.coo_array(sp.triu(held.T @ held, k=1))
    pairs: list[tuple[str, str, int | None]] = [
        (names[k], names[other], int(size))
        for k, other, size in zip(both.row, both.col, both.data, strict=True)
    ]
    pairs += [
        (name, name, int(size))
        for name, size in zip(names, within - distinct, strict=True)
        if size > 0
    ]
    return sorted(pairs, key=lambda pair: (-(pair[2] or 0), pair[0], pair[1]))
