"""Folds that keep groups, and copies of an image, on one side."""

from __future__ import annotations

import numpy as np

from unskew.records import Ints


def assign_folds(stratum_n: Ints, group_n: Ints, n_folds: int, seed: int) -> Ints:
    """(n,) fold of every image: whole groups, dealt out in turn, largest first, to the fold with the fewest images of their stratum.

    Groups of one size (images without groups) are dealt out evenly, in random order; a group counts in the stratum of its first image.
    """
    rng = np.random.default_rng(seed)
    _, first, code_n, size_g = np.unique(group_n, return_index=True, return_inverse=True, return_counts=True)
    stratum_g = stratum_n[first]
    order = np.lexsort((rng.permutation(size_g.size), -size_g, stratum_g))
    fold_g = np.empty(size_g.size, dtype=np.int64)
    if size_g.max() == 1:
        starts = np.searchsorted(stratum_g[order], np.unique(stratum_g))
        position = np.arange(order.size) - np.repeat(starts, np.diff([*starts, order.size]))
        # Begin with another fold in every stratum, so that the folds have the same size.
        fold_g[order] = (position + np.repeat(np.arange(starts.size), np.diff([*starts, order.size]))) % n_folds
        return fold_g[code_n]
    load = np.zeros((int(stratum_g.max()) + 1, n_folds))
    for g in order:
        fold_g[g] = int(np.argmin(load[stratum_g[g]]))
        load[stratum_g[g], fold_g[g]] += size_g[g]
    return fold_g[code_n]
