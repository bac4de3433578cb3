"""The splits, each with weights of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unskew.records import Weights
from unskew.report.summary.plain import rounded
from unskew.report.summary.record import SplitRow
from unskew.report.summary.suppression import hidden_cells
from unskew.report.summary.weighted_pool import WeightedPool
from unskew.report.summary.wording import private_population, private_sentences, without_counts


def tabulate_splits(
    weighed: WeightedPool,
    splits: Sequence[SplitRow] | Mapping[str, Weights],
    hidden_strata: Sequence[str] = (),
) -> tuple[SplitRow, ...]:
    """Make one row for each split: those passed, or those in the pool's column ``split``.

    ``hidden_strata`` are not named.
    """
    if isinstance(splits, Mapping):
        rows = [_row(name, weights) for name, weights in splits.items()]
    else:
        rows = list(splits) or _own_rows(weighed)
    if not weighed.private:
        return tuple(rows)
    sizes = [(row.images if row.groups is None else row.groups) or 0 for row in rows]
    hidden = hidden_cells(sizes)
    notes = [
        " ".join(private_sentences([without_counts(private_population(row.note))], hidden_strata))
        for row in rows
    ]
    return tuple(
        replace(row, images=None, groups=None, ess=None, note=note)
        if hide
        else replace(row, ess=rounded(row.ess, 2), note=note)
        for row, hide, note in zip(rows, hidden, notes, strict=True)
    )


def count_images(weighed: WeightedPool, splits: Sequence[SplitRow] | Mapping[str, Weights]) -> int:
    """Count the images of all splits; the pool may be one of several splits."""
    sizes = (
        [weights.weight.size for weights in splits.values()]
        if isinstance(splits, Mapping)
        else [row.images or 0 for row in splits]
    )
    return max(weighed.n, sum(sizes))


def _row(name: str, weights: Weights) -> SplitRow:
    diagnosis = weights.diagnosis
    return SplitRow(
        name=str(name), images=diagnosis.images, groups=diagnosis.groups, ess=diagnosis.ess
    )


def _own_rows(weighed: WeightedPool) -> list[SplitRow]:
    if "split" not in weighed.frame.columns:
        return []
    import pandas as pd

    code_n, names = pd.factorize(weighed.frame["split"].astype(str), sort=True)
    code_n = np.asarray(code_n, dtype=np.int64)
    images = np.bincount(code_n, minlength=len(names))
    total = np.bincount(code_n, weights=weighed.weight_n, minlength=len(names))
    square = np.bincount(code_n, weights=np.square(weighed.weight_n), minlength=len(names))
    groups = weighed.group_counts(code_n, len(names))
    return [
        SplitRow(
            name=str(name),
            images=int(images[code]),
            groups=None if groups is None else int(groups[code]),
            ess=float(total[code] ** 2 / square[code]) if square[code] > 0 else 0.0,
            note="weighed together with the other splits",
        )
        for code, name in enumerate(names)
    ]
