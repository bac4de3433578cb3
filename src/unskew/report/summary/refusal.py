"""The page of a run that was refused: what is missing, and what to do about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unskew.errors import CoverageError, OverlapError, UnskewError
from unskew.records import Ints, Overlap, Pool, Target
from unskew.report.summary.plain import plain_value
from unskew.report.summary.privacy import (
    PRIVACY_RULE,
    count_units,
    hidden_cells,
    listed,
    private_sentences,
    share_text,
    shown_provenance,
    without_counts,
)
from unskew.report.summary.record import (
    NotCorrectedPanel,
    OverlapPanel,
    Privacy,
    SourceRow,
    StratumRow,
    Summary,
    VerdictPanel,
)
from unskew.report.summary.source_table import tabulate_unreadable, unreadable_by_source
from unskew.report.summary.stratum_table import uncovered_row
from unskew.report.summary.weights_panel import show_overlap
from unskew.target.facts import cell_text
from unskew.target.strata import TargetStrata

_MOST_ROWS = 500


def summarize_refusal(
    pool: Pool,
    error: UnskewError,
    *,
    target: Target | None = None,
    title: str = "Debiasing report",
    privacy: Privacy = "full",
    provenance: Mapping[str, Any] | None = None,
) -> Summary:
    """Summarize a run that ended in an `OverlapError` or a `CoverageError`: verdict "no".

    pool : the images that were to be weighed.
    error : why they were not; an `OverlapError` carries the graph of the sources.
    target : the target, to show which of its strata have no images.
    title, privacy, provenance : as for `summarize_run`.
    """
    private = privacy == "aggregate"
    overlap = error.overlap if isinstance(error, OverlapError) else None
    strata = _covered_part(pool, target)
    units_k = _units(pool, pool.source.astype(np.int64), len(pool.names))
    hidden_k = hidden_cells(units_k) if private else np.zeros(len(pool.names), dtype=np.bool_)
    panel, note = _overlap_panel(pool, overlap, hidden_k, private)
    rows, hidden_names = ((), []) if strata is None else _stratum_rows(pool, strata, private)
    summary = Summary(
        title=title,
        privacy=privacy,
        verdict=_verdict(error, overlap, strata, private, hidden_names),
        sources=_source_rows(pool, units_k, hidden_k, private),
        strata=rows,
        overlap=panel,
        weights=None,
        balance=(),
        distributions=(),
        not_corrected=NotCorrectedPanel(columns=(), assumed=(), sensitivity=()),
        galleries=(),
        bias=None,
        splits=(),
        unreadable=tabulate_unreadable(pool.set_aside, len(pool), private),
        copies=(),
        target=_target_sentences(target, private, hidden_names),
        adjustments=(),
        provenance=shown_provenance(provenance, pool, private),
        notes={
            name: text
            for name, text in (("overlap", note), ("privacy", PRIVACY_RULE if private else ""))
            if text
        },
    )
    plain: Summary = plain_value(summary)
    return plain


def _target_sentences(
    target: Target | None, private: bool, hidden: Sequence[str]
) -> tuple[str, ...]:
    if target is None:
        return ()
    return private_sentences(target.describe(), hidden) if private else target.describe()


def _verdict(
    error: UnskewError,
    overlap: Overlap | None,
    strata: TargetStrata | None,
    private: bool,
    hidden: list[str],
) -> VerdictPanel:
    if isinstance(error, OverlapError):
        headline = (
            "These sources cannot be debiased together: some of them have no link to the others."
        )
        steps = _link_steps(overlap)
    elif isinstance(error, CoverageError):
        headline = (
            "The target cannot be reached from these sources: it asks for images that none "
            "of them has."
        )
        steps = _coverage_steps(strata)
    else:
        headline = "There are no weights: the data or the settings cannot be used."
        steps = ["Follow the message, and run again."]
    sentences = [str(error)[:1].upper() + str(error)[1:]]
    if strata is not None and strata.uncovered:
        names = sorted(strata.uncovered, key=lambda name: -strata.uncovered[name])
        sentences.append(
            f"Without images: {listed(names)}, {share_text(sum(strata.uncovered.values()))} of the "
            "target."
        )
    return VerdictPanel(
        level="no",
        headline=headline,
        sentences=private_sentences(sentences, hidden) if private else tuple(sentences),
        next_steps=tuple(without_counts(step) if private else step for step in steps),
        population="none",
    )


def _link_steps(overlap: Overlap | None) -> list[str]:
    steps = []
    if overlap is not None:
        groups = [listed(list(group)) for group in overlap.components]
        for first, second in itertools.islice(itertools.pairwise(groups), 3):
            steps.append(
                f"Collect images that both sides could have taken: {first} on one side, {second} "
                "on the other."
            )
        larger = [listed(list(group)) for group in overlap.components if len(group) > 1]
        steps += (
            [f"Or weigh each linked group by itself: {'; '.join(larger[:4])}."] if larger else []
        )
    return [
        *steps,
        "Or give the target's distribution of the attributes that the sources differ in "
        '([target] margins and [bias] family = "strata"; in Python Target.margins and Strata): the '
        "normalizers are then "
        "known, and images in every stratum are enough.",
        "Or widen the biasing functions, if they are narrower than what is known: a source may be "
        "able to select what it happens to lack.",
    ]


def _coverage_steps(strata: TargetStrata | None) -> list[str]:
    steps = []
    if strata is not None and strata.uncovered:
        names = sorted(strata.uncovered, key=lambda name: -strata.uncovered[name])
        steps.append(f"Collect images of {listed(names)}: any source will do.")
        steps.append(
            'Or make the target smaller: with uncovered = "restrict" the result is about the rest, '
            "and says so."
        )
    else:
        steps.append(
            "Collect images like those of the target that no source resembles, or make the target "
            "smaller."
        )
    return [*steps, "Check that target and images name their levels alike (spelling, bins)."]


def _covered_part(pool: Pool, target: Target | None) -> TargetStrata | None:
    """Return the target's strata, those without images apart, where it is given by masses."""
    if target is None or target.kind in ("sample", "source"):
        return None
    try:
        return replace(target, uncovered="restrict").stratify(pool)
    except UnskewError:
        return None


def _units(pool: Pool, code_n: Ints, n_codes: int) -> Ints:
    import pandas as pd

    group_n = (
        np.asarray(pd.factorize(pool.frame["group"])[0], dtype=np.int64)
        if "group" in pool.frame.columns
        else None
    )
    return count_units(group_n, code_n, n_codes)


def _source_rows(pool: Pool, units_k: Ints, hidden_k: Any, private: bool) -> tuple[SourceRow, ...]:
    unreadable = unreadable_by_source(pool.set_aside, pool.names, private)
    rows = []
    for k, (name, size) in enumerate(zip(pool.names, pool.sizes.tolist(), strict=True)):
        own = int(units_k[k]) if "group" in pool.frame.columns else None
        images, groups, share = (None, None, None) if hidden_k[k] else (size, own, size / len(pool))
        rows.append(
            SourceRow(
                name=name,
                images=images,
                groups=groups,
                share=share,
                normalizer=None,
                stderr=None,
                stderr_bootstrap=None,
                weight_share=None,
                ess=None,
                ess_groups=None,
                unreadable=unreadable[k],
                copies=None,
            )
        )
    return tuple(rows[:_MOST_ROWS])


def _overlap_panel(
    pool: Pool, overlap: Overlap | None, hidden_k: Any, private: bool
) -> tuple[OverlapPanel | None, str]:
    if overlap is None:
        return None, ""
    size = dict(zip(pool.names, pool.sizes.tolist(), strict=True))
    hidden = dict(zip(pool.names, hidden_k.tolist(), strict=True))
    sizes = [size.get(name, 0) for name in overlap.names]
    return show_overlap(
        overlap, len(pool), sizes, [hidden.get(name, False) for name in overlap.names], private
    )


def _stratum_rows(
    pool: Pool, strata: TargetStrata, private: bool
) -> tuple[tuple[StratumRow, ...], list[str]]:
    """Return rows of uncovered strata, then the others; and names of those that are withheld."""
    uncovered = [
        uncovered_row(name, mass, weighted=None)
        for name, mass in sorted(strata.uncovered.items(), key=lambda item: (-item[1], item[0]))
    ]
    n_strata = len(strata.strata)
    code = np.where(strata.code < 0, n_strata, strata.code)
    images = np.bincount(code, minlength=n_strata + 1)
    units = _units(pool, code, n_strata + 1)
    hidden = hidden_cells(units) if private else np.zeros(n_strata + 1, dtype=np.bool_)
    order = sorted(
        range(n_strata),
        key=lambda at: (not strata.in_scope[at], -strata.mass[at], strata.strata[at]),
    )[:_MOST_ROWS]
    rows = [
        _stratum_row(pool, strata, at, int(images[at]), int(units[at]), bool(hidden[at]), private)
        for at in order
        if not (private and hidden[at] and not strata.in_scope[at])
    ]
    names = [cell_text(strata.by, strata.strata[at]) for at in np.flatnonzero(hidden[:-1])]
    return tuple([*uncovered, *rows][:_MOST_ROWS]), names


def _stratum_row(
    pool: Pool, strata: TargetStrata, at: int, images: int, units: int, hide: bool, private: bool
) -> StratumRow:
    # As the target was given, before it was made smaller.
    covered = 1 - sum(strata.uncovered.values())
    sources = () if private else np.unique(pool.source[strata.code == at])[:12]
    return StratumRow(
        stratum=cell_text(strata.by, strata.strata[at]),
        target=float(strata.mass[at] * covered) if strata.in_scope[at] else None,
        target_stderr=None,
        pool=None if hide else images / len(pool),
        weighted=None,
        images=None if hide else images,
        groups=None if hide or "group" not in pool.frame.columns else units,
        sources=tuple(pool.names[k] for k in sources),
        ess=None,
        largest_weight=None,
        covered=True,
        in_scope=bool(strata.in_scope[at]),
    )
