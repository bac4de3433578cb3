"""Folds of the rows of a fit, by their content: the order of the rows has no say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unskew.bias.base import BiasData
from unskew.errors import DataError
from unskew.records import Floats, Ints
from unskew.records.content_keys import Keys, content_keys
from unskew.splits.folds import deal_folds, join_units, tell_copies


def row_keys(data: BiasData) -> Keys:
    """(R,) numbers for the source of every row and what the model reads of it."""
    names_r = np.array(data.names, dtype=object)[data.source]
    return content_keys(data.frame.assign(source=names_r), ("source", *data.columns))


def name_ranks(data: BiasData) -> Ints:
    """(K,) the place of every source in the order of the names."""
    return np.argsort(np.argsort(data.names))


def agree_on_copies(data: BiasData, log_rk: Floats) -> Floats:
    """Give rows of the same content the mean of what their folds say.

    Which of them is in which fold says nothing.
    """
    _, code_r, count = np.unique(row_keys(data), return_inverse=True, return_counts=True)
    if count.size == code_r.size:
        return log_rk
    mean_ck = [np.bincount(code_r, weights=log_r) / count for log_r in log_rk.T]
    return np.column_stack(mean_ck)[code_r]


def split_folds(data: BiasData, n_folds: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield (train, test) rows of each fold; groups and copies of an image are on one side.

    Every source is in every training part. Folds, and the order of the training rows, follow from
    the content of the rows and the seed: the order of the rows has no say.
    """
    key_r = row_keys(data)
    unit_r = join_units(data.source.size, data.fold_group, tell_copies(data.frame))
    pairs = np.unique(np.column_stack([data.source, unit_r]), axis=0)
    units_k = np.bincount(pairs[:, 0], minlength=data.n_sources)
    if units_k.min() < 2:
        fewest = data.names[int(units_k.argmin())]
        raise DataError(
            "cross-fitting needs at least two images (or groups) of every source; "
            f"`{fewest}` has {units_k.min()}. Leave the source out, or use Tilt.",
            source=fewest,
            count=int(units_k.min()),
            limit=2,
        )
    n_folds = min(n_folds, int(units_k.min()))
    fold_r = deal_folds(unit_r, name_ranks(data)[data.source], n_folds, data.seed, key_r)
    order_r = np.argsort(key_r, kind="stable")
    for fold in range(n_folds):
        train, test = order_r[fold_r[order_r] != fold], np.flatnonzero(fold_r == fold)
        lacking = np.setdiff1d(np.arange(data.n_sources), data.source[train])
        if lacking.size:
            raise DataError(
                "groups are so large that a fold holds all images of "
                f"`{data.names[int(lacking[0])]}`; use fewer folds, or Tilt.",
                source=data.names[int(lacking[0])],
            )
        yield train, test
