"""A pool and its weights → the summary of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Diagnostics, Pool, Weights
from unskew.report.summary.adjustment_words import adjustment_sentences
from unskew.report.summary.bias_panel import show_bias
from unskew.report.summary.column_balance import (
    ShownDistribution,
    balance_rows,
    show_distribution,
    show_not_corrected,
)
from unskew.report.summary.gallery import choose_galleries
from unskew.report.summary.mixture_panel import show_mixture
from unskew.report.summary.outcomes_panel import show_outcomes
from unskew.report.summary.plain import plain_value
from unskew.report.summary.privacy import PRIVACY_RULE, shown_provenance
from unskew.report.summary.record import BalanceRow, Privacy, SplitRow, Summary
from unskew.report.summary.source_table import (
    count_copies,
    count_images,
    hidden_sources,
    tabulate_sources,
    tabulate_splits,
    tabulate_unreadable,
)
from unskew.report.summary.stratum_table import StratumTable, hidden_names, tabulate_strata
from unskew.report.summary.verdict_words import give_verdict
from unskew.report.summary.weighted_pool import (
    WeightedPool,
    describe_columns,
    pair_with_weights,
    target_sentences_of,
)
from unskew.report.summary.weights_panel import show_overlap, show_weights

_MOST_PANELS = 40
_MOST_ROWS = 300


def summarize_run(
    pool: Pool,
    weights: Weights,
    diagnostics: Diagnostics,
    *,
    title: str = "Debiasing report",
    privacy: Privacy = "full",
    provenance: Mapping[str, Any] | None = None,
    splits: Sequence[SplitRow] | Mapping[str, Weights] = (),
    adjustments: Sequence[Any] = (),
    thumbnails: int = 120,
    part: str | None = None,
) -> Summary:
    """Collect everything a page shows, as plain numbers and texts.

    Parameters
    ----------
    pool : the images that were weighed, in any order; joined to the weights by id.
    weights : from `debias` or `debias_weights`.
    diagnostics : of these weights, from `unskew.diagnosis.pool_diagnostics.diagnose`.
    title : of the page.
    privacy : "full", or "aggregate": no thumbnails, paths or ids; cells under ten are withheld,
        with everything that could reveal them.
    provenance : versions, settings, fingerprints, command: shown as they are.
    splits : the splits, or the weights of each.
    adjustments : results of `calibrate_weights`, `trim_weights` and `shrink_weights` that went into
        the weights, or sentences.
    thumbnails : the most pictures in all galleries together.
    part : the split that the images are of, where there are others.

    Returns
    -------
    Summary
        Plain: `summary_to_json` and `summary_from_json` give the same back.
    """
    _check_diagnostics(diagnostics, weights, privacy)
    weighed = pair_with_weights(pool, weights, private=privacy == "aggregate")
    table = tabulate_strata(weighed, diagnostics.stratum_stderr)
    hidden = hidden_names(weighed, table)
    described, not_shown = describe_columns(weighed)
    shown = [show_distribution(weighed, column, table) for column in described]
    label = next((column for column in shown if column.described.role == "label"), None)
    rows = [row for column in shown for row in balance_rows(weighed, column)]
    copies = count_copies(weighed)
    sources, sources_note = tabulate_sources(weighed, diagnostics, copies)
    overlap, overlap_note = _overlap(weighed)
    bias, bias_note = show_bias(weighed, described, diagnostics, hidden)
    galleries, galleries_note = choose_galleries(weighed, copies, thumbnails)
    panels, balance, panels_note = _limited(shown, rows)
    outcomes = show_outcomes(weighed, diagnostics, hidden)
    notes = {
        "strata": _strata_note(weighed, table),
        "privacy": PRIVACY_RULE if weighed.private else "",
        "sources": f"{diagnostics.stderr_note} {sources_note}".strip(),
        "overlap": overlap_note,
        "bias": bias_note,
        "not_corrected": diagnostics.sensitivity_note,
        "outcomes": diagnostics.outcomes_note,
        "galleries": galleries_note,
        "distributions": panels_note,
    }
    summary = Summary(
        title=title,
        privacy=privacy,
        verdict=give_verdict(
            weighed, balance, outcomes, diagnostics.fit, hidden, diagnostics.advice, copies, part
        ),
        sources=sources,
        strata=table.rows,
        overlap=overlap,
        weights=show_weights(weighed, label, table),
        balance=tuple(balance),
        distributions=panels,
        not_corrected=show_not_corrected(weighed, rows, diagnostics.sensitivity, not_shown, hidden),
        galleries=galleries,
        bias=bias,
        splits=tabulate_splits(weighed, splits, hidden),
        unreadable=tabulate_unreadable(
            weighed.set_aside, count_images(weighed, splits), weighed.private
        ),
        copies=() if copies is None else copies.pairs,
        target=target_sentences_of(weighed, hidden),
        adjustments=adjustment_sentences(adjustments, weighed.private),
        provenance=shown_provenance(provenance, pool, weighed.private),
        notes={name: note for name, note in notes.items() if note},
        outcomes=outcomes,
        mixture=show_mixture(weighed, sources, described),
    )
    plain: Summary = plain_value(summary)
    return plain


def _check_diagnostics(diagnostics: Diagnostics, weights: Weights, privacy: Privacy) -> None:
    if diagnostics.names != weights.names:
        raise DataError(
            f"the diagnostics are of the sources {first_few(diagnostics.names)}, the weights of "
            f"{first_few(weights.names)}. Pass the diagnostics of these weights.",
            sources=list(diagnostics.names),
        )
    if privacy == "aggregate" and diagnostics.privacy != "aggregate":
        raise ConfigError(
            'a report with privacy = "aggregate" needs diagnostics with the same setting: others '
            'may name classes that it withholds. Call diagnose(…, privacy="aggregate").',
            option="privacy",
            value=diagnostics.privacy,
        )


def _strata_note(weighed: WeightedPool, table: StratumTable) -> str:
    notes = [table.note]
    if weighed.strata is not None and weighed.strata.uncovered:
        notes.append(
            "Of strata without images the target share is that of the whole target. All other "
            "target shares, and the debiased ones, are of "
            "the part of the target that has images: they sum to 1 by themselves."
        )
    if weighed.private and weighed.strata is not None and not weighed.strata.in_scope.all():
        notes.append("Target and weighted shares are among the images within the target's scope.")
    return " ".join(note for note in notes if note)


def _overlap(weighed: WeightedPool) -> tuple[Any, str]:
    overlap = weighed.weights.overlap
    # A sample of the target is a source of the graph, too.
    extra = len(overlap.names) - len(weighed.names)
    size_k = np.append(
        np.bincount(weighed.source_n, minlength=len(weighed.names)),
        np.zeros(max(extra, 0), dtype=np.int64),
    )
    hidden_k = np.append(hidden_sources(weighed), np.zeros(max(extra, 0), dtype=np.bool_))
    panel, note = show_overlap(overlap, weighed.n, size_k, hidden_k, weighed.private)
    # Where masses of strata give the normalizers, the smallest ω is a ratio of shares, no limit.
    if weighed.fitted is not None and weighed.fitted.normalizers_known:
        panel = replace(panel, epsilon=None)
    return panel, note


def _limited(
    shown: Sequence[ShownDistribution], rows: list[BalanceRow]
) -> tuple[Any, list[BalanceRow], str]:
    """Order columns and keep as many as a page can show."""
    moved: dict[str, float] = {}
    for row in rows:
        far = max(abs((row.after or 0.0) - (row.before or 0.0)), abs(row.after or 0.0))
        moved[row.column] = max(moved.get(row.column, 0.0), far)
    order = sorted(
        range(len(shown)),
        key=lambda at: (
            shown[at].described.role != "label",
            not shown[at].described.fitted,
            0.0 if shown[at].described.fitted else -moved.get(shown[at].described.column.name, 0.0),
            at,
        ),
    )
    panels = tuple(shown[at].panel for at in order[:_MOST_PANELS])
    position = {shown[at].described.column.name: rank for rank, at in enumerate(order)}
    ordered = sorted(rows, key=lambda row: position[row.column])
    notes = []
    if len(shown) > _MOST_PANELS:
        notes.append(
            f"{_MOST_PANELS} of {len(shown)} columns are drawn: label, those of the bias model, "
            "and those that moved most."
        )
    if len(ordered) > _MOST_ROWS:
        notes.append(f"{_MOST_ROWS} of {len(ordered)} lines of the balance are shown.")
    return panels, ordered[:_MOST_ROWS], " ".join(notes)
