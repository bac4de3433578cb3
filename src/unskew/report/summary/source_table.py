"""The tables of sources and splits, exact copies, and images that could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.records import Diagnostics, Ints, Weights
from unskew.records.content_keys import copies_by_source
from unskew.report.summary.plain import rounded
from unskew.report.summary.privacy import (
    hidden_cells,
    private_population,
    private_sentences,
    shown_size,
    too_small,
    without_counts,
)
from unskew.report.summary.record import SourceRow, SplitRow, UnreadablePanel
from unskew.report.summary.weighted_pool import WeightedPool

_MOST_PAIRS = 200


@dataclass(frozen=True, eq=False)
class Copies:
    """Exact copies by content.

    pairs : (source, other, images of the source with a copy in the other, or in itself), most
        first.
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

    content = weighed.frame["content"]
    code_n = np.asarray(pd.factorize(content)[0], dtype=np.int64)
    copied_n = (content.duplicated(keep=False) & content.notna()).to_numpy()
    by_source, copied_kk = copies_by_source(content, weighed.source_n, len(weighed.names))
    pairs = _pairs(copied_kk, weighed.names)
    shown = Copies(tuple(pairs[:_MOST_PAIRS]), by_source, np.where(copied_n, code_n, -1))
    sizes = [*(size for _, _, size in pairs), *by_source.tolist()]
    if not weighed.private or not any(too_small(size) for size in sizes):
        return shown
    # What two sources share is part of what each has: one small number, and none is shown.
    hidden = tuple((first, second, None) for first, second, _ in shown.pairs)
    return replace(shown, pairs=hidden, by_source=None)


def _pairs(copied_kk: Any, names: tuple[str, ...]) -> list[tuple[str, str, int | None]]:
    pairs: list[tuple[str, str, int | None]] = [
        (names[k], names[other], int(images))
        for k, other, images in zip(copied_kk.row, copied_kk.col, copied_kk.data, strict=True)
    ]
    return sorted(pairs, key=lambda pair: (-(pair[2] or 0), pair[0], pair[1]))


def tabulate_splits(
    weighed: WeightedPool,
    splits: Sequence[SplitRow] | Mapping[str, Weights],
    hidden_strata: Sequence[str] = (),
) -> tuple[SplitRow, ...]:
    """Make one row for each split: those passed, or those in the pool's column ``split``."""
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
        else replace(row, ess=shown_size(row.ess, private=True), note=note)
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


_MOST_SOURCES = 500
_MOST_UNREADABLE = 100


def tabulate_sources(
    weighed: WeightedPool, diagnostics: Diagnostics, copies: Copies | None
) -> tuple[tuple[SourceRow, ...], str]:
    """Return one row for each source, and a note if some are not shown."""
    weights, diagnosis = weighed.weights, weighed.weights.diagnosis
    hidden_k, unreadable_k = (
        hidden_sources(weighed),
        unreadable_by_source(weighed.set_aside, weighed.names, weighed.private),
    )
    copies_k = None if copies is None else copies.by_source
    rows = []
    for k, source in enumerate(diagnosis.by_source):
        hide = bool(hidden_k[k])
        rows.append(
            SourceRow(
                name=source.name,
                images=None if hide else source.images,
                groups=None if hide else source.groups,
                share=None if hide else source.share,
                normalizer=None if hide else float(weights.normalizer[k]),
                stderr=None if hide else float(diagnostics.stderr[k]),
                stderr_bootstrap=None if hide else float(diagnostics.stderr_bootstrap[k]),
                weight_share=None if hide else _coarse(weighed, source.weight_share),
                ess=None if hide else shown_size(source.ess, weighed.private),
                ess_groups=None if hide else shown_size(source.ess_groups, weighed.private),
                unreadable=unreadable_k[k],
                copies=None if hide or copies_k is None else int(copies_k[k]),
            )
        )
    if len(rows) <= _MOST_SOURCES:
        return tuple(rows), ""
    largest = sorted(range(len(rows)), key=lambda k: -diagnosis.by_source[k].images)[:_MOST_SOURCES]
    return tuple(
        rows[k] for k in sorted(largest)
    ), f"The {_MOST_SOURCES} largest of {len(rows):,} sources are shown."


def _coarse(weighed: WeightedPool, value: float | None) -> float | None:
    """Keep two digits where only aggregates are shown: more could reveal counts."""
    return rounded(value, 2) if weighed.private else value


def hidden_sources(weighed: WeightedPool) -> Any:
    """Return (K,) the sources whose numbers are withheld."""
    n_sources = len(weighed.names)
    return (
        hidden_cells(weighed.cell_sizes(weighed.source_n, n_sources))
        if weighed.private
        else np.zeros(n_sources, dtype=np.bool_)
    )


def unreadable_by_source(set_aside: Any, names: Sequence[str], private: bool) -> list[int | None]:
    """Count the images of each source that were set aside; None where that is withheld."""
    if set_aside is None or "source" not in set_aside.columns:
        return [0] * len(names)
    by_name = set_aside["source"].astype(str).value_counts()
    count = [int(by_name.get(name, 0)) for name in names]
    # Those of sources of which no image could be read are a cell, too.
    hidden = (
        hidden_cells([*count, len(set_aside) - sum(count)])
        if private
        else [False] * (len(names) + 1)
    )
    return [None if hide else size for size, hide in zip(count, hidden, strict=False)]


def tabulate_unreadable(set_aside: Any, n_images: int, private: bool) -> UnreadablePanel:
    """Count the images that were set aside, with reasons, and list the first of them."""
    if set_aside is None or len(set_aside) == 0:
        return UnreadablePanel(count=0, share=0.0, reasons=(), rows=())
    count = len(set_aside)
    reasons = (
        set_aside["reason"]
        .astype(str)
        .value_counts()
        .sort_index(kind="stable")
        .sort_values(ascending=False, kind="stable")
    )
    named: list[tuple[str, int | None]] = [
        (str(reason), int(size)) for reason, size in reasons.items()
    ]
    if private:
        hidden = hidden_cells([size or 0 for _, size in named])
        # A reason that few images share may name them.
        shown: list[tuple[str, int | None]] = [
            reason for reason, hide in zip(named, hidden, strict=True) if not hide
        ]
        shown += [("other reasons", None)] if hidden.any() else []
        small = too_small(count)
        return UnreadablePanel(
            count=None if small else count,
            share=None if small else count / (count + n_images),
            reasons=tuple(shown),
            rows=(),
        )
    rows = tuple(
        (str(row["id"]), str(row["source"]), str(row["path"]), str(row["reason"]))
        for row in set_aside.head(_MOST_UNREADABLE)
        .reindex(columns=["id", "source", "path", "reason"], fill_value="")
        .to_dict("records")
    )
    return UnreadablePanel(
        count=count,
        share=count / (count + n_images),
        reasons=tuple(named[:_MOST_UNREADABLE]),
        rows=rows,
    )
