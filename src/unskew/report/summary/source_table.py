"""The sources: sizes, normalizers with both error bars, weight, copies, unreadable images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unskew.records import Diagnostics
from unskew.report.summary.copies import Copies
from unskew.report.summary.plain import rounded
from unskew.report.summary.record import SourceRow, UnreadablePanel
from unskew.report.summary.suppression import hidden_cells, too_small
from unskew.report.summary.weighted_pool import WeightedPool

_MOST_SOURCES = 500
_MOST_UNREADABLE = 100


def tabulate_sources(
    weighed: WeightedPool, diagnostics: Diagnostics, copies: Copies | None
) -> tuple[tuple[SourceRow, ...], str]:
    """Return one row for each source, and a note if some are not shown.

    Of more than 500 sources the largest are shown.
    """
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
                ess=None if hide else _coarse(weighed, source.ess),
                ess_groups=None if hide else _coarse(weighed, source.ess_groups),
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
