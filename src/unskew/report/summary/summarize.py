"""A pool and its weights → the summary of a page."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError
from unskew.records import Pool, Weights
from unskew.report.summary.adjustments import adjustment_sentences
from unskew.report.summary.bias_panel import run_fit_check, show_bias
from unskew.report.summary.column_balance import ShownDistribution, balance_rows, show_distribution
from unskew.report.summary.columns_against_target import describe_columns
from unskew.report.summary.copies import count_copies
from unskew.report.summary.error_bars import estimate_errors
from unskew.report.summary.gallery import choose_galleries
from unskew.report.summary.not_corrected import show_not_corrected
from unskew.report.summary.overlap_panel import show_overlap
from unskew.report.summary.plain import plain_value
from unskew.report.summary.privacy import PRIVACY_RULE, check_privacy, private_provenance
from unskew.report.summary.record import BalanceRow, Privacy, SplitRow, Summary
from unskew.report.summary.source_table import hidden_sources, tabulate_sources, tabulate_unreadable
from unskew.report.summary.splits import count_found, tabulate_splits
from unskew.report.summary.stratum_table import StratumTable, hidden_names, tabulate_strata
from unskew.report.summary.verdict_words import give_verdict
from unskew.report.summary.weighted_pool import Weighed, pair_with_weights
from unskew.report.summary.weights_panel import show_weights
from unskew.report.summary.wording import private_sentences
from unskew.target.wording import reference_sentences

_MOST_PANELS = 40
_MOST_ROWS = 300

logger = logging.getLogger(__name__)


def summarize_run(
    pool: Pool,
    weights: Weights,
    *,
    title: str = "Debiasing report",
    privacy: Privacy = "full",
    provenance: Mapping[str, Any] | None = None,
    splits: Sequence[SplitRow] | Mapping[str, Weights] = (),
    outcomes: Mapping[str, npt.ArrayLike] | None = None,
    adjustments: Sequence[Any] = (),
    fit_check: Any = None,
    seed: int = 0,
    bootstrap: int | None = None,
    thumbnails: int = 120,
) -> Summary:
    """Everything a page shows, as plain numbers and texts.

    Parameters
    ----------
    pool : the images that were weighed, in any order; joined to the weights by id.
    weights : as `debias` or `debias_weights` gave them.
    title : of the page.
    privacy : "full", or "aggregate": no thumbnails, paths or ids; cells under ten are withheld,
        with what could give them away.
    provenance : versions, settings, fingerprints, command: shown as they are.
    splits : the splits, or the weights of each.
    outcomes : by name, (n,) values in the order of ``weights.id`` whose target mean's sensitivity
        to c(z) is shown; default: the shares of the classes or, where the target fixes those, the
        columns outside the target that moved most.
    adjustments : results of `calibrate_weights`, `trim_weights` and `shrink_weights` that went into
        the weights, or sentences.
    fit_check : the result of `check_fit`; None: it is run, if the data are not too large.
    seed : of the bootstrap and of `check_fit`.
    bootstrap : replicates; None: 50, fewer for large data, none where even 20 would take too long;
        0: none.
    thumbnails : the most pictures in all galleries together.

    Returns
    -------
    Summary
        Plain: `summary_to_json` and `summary_from_json` give the same back.
    """
    check_privacy(privacy)
    if bootstrap is not None and bootstrap < 0:
        raise ConfigError(f"bootstrap is a number of replicates, 0 for none; got {bootstrap!r}.")
    weighed = pair_with_weights(pool, weights, private=privacy == "aggregate")
    table = tabulate_strata(weighed)
    hidden = hidden_names(weighed, table)
    described, not_shown = describe_columns(weighed)
    shown = [show_distribution(weighed, each, table) for each in described]
    rows = [row for each in shown for row in balance_rows(weighed, each)]
    fit, fit_note = (fit_check, "") if fit_check is not None else run_fit_check(weighed, seed)
    errors = estimate_errors(weights, bootstrap, seed)
    copies = count_copies(weighed)
    label = next((each for each in shown if each.described.role == "label"), None)
    notes = {
        "strata": _strata_note(weighed, table),
        "privacy": PRIVACY_RULE if weighed.private else "",
    }
    sources, sources_note = tabulate_sources(weighed, errors, copies)
    notes["sources"] = f"{errors.note} {sources_note}".strip()
    overlap, notes["overlap"] = _overlap(weighed)
    bias, notes["bias"] = show_bias(weighed, described, fit, fit_note, hidden)
    not_corrected, notes["not_corrected"] = show_not_corrected(
        weighed, shown, rows, outcomes, not_shown, hidden
    )
    galleries, notes["galleries"] = choose_galleries(weighed, copies, thumbnails)
    panels, rows, notes["distributions"] = _limited(shown, rows)
    summary = Summary(
        title=title,
        privacy=privacy,
        verdict=give_verdict(weighed, rows, fit, hidden),
        sources=sources,
        strata=table.rows,
        overlap=overlap,
        weights=show_weights(weighed, label, table),
        balance=tuple(rows),
        distributions=panels,
        not_corrected=replace(not_corrected, columns=not_corrected.columns[:_MOST_ROWS]),
        galleries=galleries,
        bias=bias,
        splits=tabulate_splits(weighed, splits, hidden),
        unreadable=tabulate_unreadable(
            weighed.set_aside, count_found(weighed, splits), weighed.private
        ),
        copies=() if copies is None else copies.pairs,
        target=_target_sentences(weighed, hidden),
        adjustments=adjustment_sentences(adjustments, weighed.private),
        provenance=private_provenance(provenance or {}, pool)
        if weighed.private
        else dict(provenance or {}),
        notes={name: note for name, note in notes.items() if note},
    )
    plain: Summary = plain_value(summary)
    return plain


def _strata_note(weighed: Weighed, table: StratumTable) -> str:
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


def _overlap(weighed: Weighed) -> tuple[Any, str]:
    overlap = weighed.weights.overlap
    # A sample of the target is a source of the graph, too.
    extra = len(overlap.names) - len(weighed.names)
    size_k = np.append(
        np.bincount(weighed.source_n, minlength=len(weighed.names)),
        np.zeros(max(extra, 0), dtype=np.int64),
    )
    hidden_k = np.append(hidden_sources(weighed), np.zeros(max(extra, 0), dtype=np.bool_))
    return show_overlap(overlap, weighed.n, size_k, hidden_k, weighed.private)


def _limited(
    shown: Sequence[ShownDistribution], rows: list[BalanceRow]
) -> tuple[Any, list[BalanceRow], str]:
    """The columns of the model first, then those that moved most; as many as a page can bear."""
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
    place = {shown[at].described.column.name: rank for rank, at in enumerate(order)}
    ordered = sorted(rows, key=lambda row: place[row.column])
    notes = []
    if len(shown) > _MOST_PANELS:
        notes.append(
            f"{_MOST_PANELS} of {len(shown)} columns are drawn: label, those of the bias model, "
            "and those that moved most."
        )
    if len(ordered) > _MOST_ROWS:
        notes.append(f"{_MOST_ROWS} of {len(ordered)} lines of the balance are shown.")
    return panels, ordered[:_MOST_ROWS], " ".join(notes)


def _target_sentences(weighed: Weighed, hidden: Sequence[str]) -> tuple[str, ...]:
    """What was given and assumed about the target."""
    target = weighed.target
    if target is None:
        return (
            "No target was given: the result speaks of the population that the biasing functions "
            "select from.",
        )
    if weighed.strata is not None:
        said = weighed.strata.describe()
    else:
        said = (
            reference_sentences(target, weighed.pool)
            if target.kind == "source"
            else target.describe()
        )
    return private_sentences(said, hidden) if weighed.private else tuple(said)
