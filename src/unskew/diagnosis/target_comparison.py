"""Several targets compared: verdict of each, target means, and what hangs on the choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from unskew.debiasing.margin_sets import MeanOverMargins, bound_outcomes
from unskew.debiasing.several_targets import MeansByTarget, compare_means, total_variation
from unskew.diagnosis.outcomes import find_outcomes
from unskew.diagnosis.pool_diagnostics import can_estimate_means
from unskew.errors import ConvergenceError, CoverageError, OverlapError, UnskewError
from unskew.records import Diagnostics, Estimate, Floats, Pool, Target, Weights
from unskew.report.summary.outcome_record import (
    MarginSetPanel,
    MeanOnTarget,
    OutcomeByTarget,
    TargetRow,
    TargetsPanel,
)
from unskew.report.summary.plain import plain_value
from unskew.report.summary.privacy import (
    listed,
    overlap_message,
    private_population,
    share_text,
    shown_size,
    without_counts,
)
from unskew.report.summary.record import Privacy, SplitRow, Summary
from unskew.report.summary.source_table import tabulate_splits
from unskew.report.summary.stratum_table import hidden_names, tabulate_strata
from unskew.report.summary.weighted_pool import (
    WeightedPool,
    pair_with_weights,
    target_sentences_of,
)

if TYPE_CHECKING:
    from unskew.bias.base import Bias

# Total variations, in sentences, of so many pairs at the most.
_MOST_NAMED = 3
# Outcomes that are bounded over a set of margins; each needs two fits.
_MOST_BOUNDED = 12


def compare_targets(
    pool: Pool,
    weights: Mapping[str, Weights],
    diagnostics: Diagnostics,
    *,
    outcomes: Sequence[str] | None = None,
    splits: Mapping[str, Sequence[SplitRow]] | None = None,
    privacy: Privacy = "full",
    bias: Bias | None = None,
    seed: int = 0,
) -> TargetsPanel:
    """Compare the weights of one pool for several targets, or over a set of margins.

    Parameters
    ----------
    pool : the images that were weighed; joined to the weights by id.
    weights : by name of the target; the first is the main one.
    diagnostics : those of the main target, whose means are not estimated again.
    outcomes : columns, as for `unskew.diagnose`.
    splits : of each target.
    privacy : with "aggregate", means are withheld where strata are: those of two targets would
        tell the mean of a stratum in which they differ.
    bias, seed : of the weights; needed where a target has a set of margins.
    """
    private = privacy == "aggregate"
    weighed = {name: pair_with_weights(pool, own, private) for name, own in weights.items()}
    main = next(iter(weights))
    hidden = {name: hidden_names(own, tabulate_strata(own)) for name, own in weighed.items()}
    several = len(weights) > 1
    rows = tuple(
        _row(name, own, hidden[name], name == main, (splits or {}).get(name, ()))
        for name, own in weighed.items()
        if several
    )
    withheld = private and any(hidden.values())
    means = tuple(_means(weighed, diagnostics, outcomes)) if several and not withheld else ()
    distances = tuple(
        (one, other, total_variation(weights[one], weights[other]))
        for one, other in combinations(weights, 2)
    )
    sentences = [*_hanging(means), *_apart(distances)] if several else []
    values = {} if withheld else _known_values(weighed[main], diagnostics, outcomes)
    sets = [
        _bound_over_set(name if several else "", own, bias, values, seed)
        for name, own in weighed.items()
        if own.fitted.target is not None and own.fitted.target.within
    ]
    if withheld:
        sentences.append(
            "Means by target are withheld, because strata of a few are: two targets that differ in "
            "such a stratum would tell its mean."
        )
    panel = TargetsPanel(rows, means, distances, tuple(sentences), tuple(sets))
    plain: TargetsPanel = plain_value(panel)
    return plain


def _known_values(
    weighed: WeightedPool, diagnostics: Diagnostics, outcomes: Sequence[str] | None
) -> dict[str, Floats]:
    """Return the values of the outcomes whose mean on the main target is on the page."""
    known = {mean.outcome for mean in diagnostics.outcomes}
    values = find_outcomes(weighed, outcomes).values
    return {name: value_n for name, value_n in values.items() if name in known}


def _bound_over_set(
    name: str, weighed: WeightedPool, bias: Bias | None, values: Mapping[str, Floats], seed: int
) -> MarginSetPanel:
    """Bound the outcomes over the set of margins of a target."""
    target = weighed.fitted.target
    assert target is not None
    bounds = tuple((level, low, high) for level, (low, high) in target.within.items())
    if bias is None or not can_estimate_means(weighed.weights):
        note = "The range over the set of margins needs a bootstrap with this model."
        return MarginSetPanel(name, bounds, (), (note,))
    shown = dict(list(values.items())[:_MOST_BOUNDED])
    try:
        bounded = bound_outcomes(weighed.pool, bias, target, shown, rng=seed)
    except (OverlapError, CoverageError, ConvergenceError) as error:
        return MarginSetPanel(name, bounds, (), (f"Not the whole set can be reached: {error}",))
    outcomes = [
        _over_set(outcome, set(np.unique(values[outcome])) <= {0.0, 1.0}, mean)
        for outcome, mean in bounded.means.items()
    ]
    weak = [own for own in bounded.weights.values() if own.overlap.verdict != "ok"]
    sentences = _hanging(outcomes, "over the set of margins")
    sizes = [own.ess for own in bounded.weights.values()]
    if outcomes:
        sentences.append(f"At these margins {min(sizes):,.0f} to {max(sizes):,.0f} images count.")
    if weak:
        sentences.append(f"At some of them the sources overlap weakly: {weak[0].overlap.message}")
    return MarginSetPanel(name, bounds, tuple(outcomes), tuple(sentences))


def _over_set(outcome: str, is_share: bool, mean: MeanOverMargins) -> OutcomeByTarget:
    ends = [
        (f"lowest: {_margin_text(mean.lowest)}", mean.low),
        ("as given", mean.centre),
        (f"highest: {_margin_text(mean.highest)}", mean.high),
    ]
    low, high = mean.difference.interval
    return OutcomeByTarget(
        outcome=outcome,
        is_share=is_share,
        level=mean.centre.level,
        means=tuple(MeanOnTarget(name, one.value, one.stderr, one.interval) for name, one in ends),
        lowest=ends[0][0],
        highest=ends[2][0],
        difference=mean.difference.value,
        stderr=mean.difference.stderr,
        interval=(low, high),
        hangs=low > 0.0,
    )


def _margin_text(margin: Mapping[str, float]) -> str:
    return listed([f"{level} {mass:.3g}" for level, mass in margin.items()])


def refused_targets(
    targets: Mapping[str, Target],
    weights: Mapping[str, Weights],
    refused: Mapping[str, str],
    *,
    privacy: Privacy = "full",
) -> TargetsPanel:
    """Show which of several targets are not identifiable, and why; and the verdict on the others.

    ``weights`` are those of the others, ``refused`` the messages.
    """
    private = privacy == "aggregate"
    rows = []
    for at, name in enumerate(targets):
        if name in refused:
            message = without_counts(refused[name]) if private else refused[name]
            rows.append(TargetRow(name, at == 0, "no", message))
        else:
            overlap = weights[name].overlap
            rows.append(
                TargetRow(name, at == 0, _level(overlap.verdict), overlap_message(overlap, private))
            )
    plain: TargetsPanel = plain_value(TargetsPanel(tuple(rows), (), (), ()))
    return plain


def judge_all_targets(summary: Summary) -> Summary:
    """Let the verdict of the page count every target, and say which one the page is about."""
    panel, verdict = summary.targets, summary.verdict
    assert panel is not None
    main = next((row.name for row in panel.rows if row.is_main), "")
    weak = [row.name for row in panel.rows if row.level == "weak" and not row.is_main]
    about = (
        f"This page is about the target {main}, the first of {len(panel.rows)}; the section "
        "Targets compares all of them."
    )
    sentences = [
        *([about] if panel.rows else []),
        *([f"Of the other targets {listed(weak)} can be reached with care only."] if weak else []),
        *panel.sentences,
        *(sentence for own in panel.sets for sentence in own.sentences),
    ]
    level = "weak" if weak and verdict.level == "ok" else verdict.level
    judged = replace(verdict, level=level, sentences=(*verdict.sentences, *sentences))
    return replace(summary, verdict=judged)


def _level(verdict: str) -> Literal["ok", "weak"]:
    return "ok" if verdict == "ok" else "weak"


def _row(
    name: str,
    weighed: WeightedPool,
    hidden: Sequence[str],
    is_main: bool,
    splits: Sequence[SplitRow],
) -> TargetRow:
    weights, private = weighed.weights, weighed.private
    fitted, diagnosis = weighed.fitted, weights.diagnosis
    population = fitted.describe().population
    noted = tabulate_splits(weighed, splits, hidden) if splits else ()
    return TargetRow(
        name=name,
        is_main=is_main,
        level=_level(weights.overlap.verdict),
        message=overlap_message(weights.overlap, private),
        population=private_population(population) if private else population,
        uncovered=_uncovered(weighed),
        ess=shown_size(diagnosis.ess, private),
        ess_groups=shown_size(diagnosis.ess_groups, private),
        given=target_sentences_of(weighed, hidden),
        splits=tuple((row.name, row.note) for row in noted),
    )


def _uncovered(weighed: WeightedPool) -> float | None:
    """Return the share of the target without images: of strata, or of its sample."""
    if weighed.strata is not None:
        return float(sum(weighed.strata.uncovered.values()))
    fitted = weighed.fitted
    return float(fitted.uncovered[0]) if fitted.data.sample is not None else None


def _means(
    weighed: Mapping[str, WeightedPool], diagnostics: Diagnostics, outcomes: Sequence[str] | None
) -> Iterator[OutcomeByTarget]:
    """Estimate the outcomes of the main target's page on every target."""
    main = next(iter(weighed))
    known = {mean.outcome: mean for mean in diagnostics.outcomes}
    if not known or not all(can_estimate_means(own.weights) for own in weighed.values()):
        return
    weights = {name: own.weights for name, own in weighed.items()}
    for outcome, value_n in find_outcomes(weighed[main], outcomes).values.items():
        if outcome not in known:
            continue
        try:
            estimates = {
                name: known[outcome].estimate if name == main else own.mean(value_n)
                for name, own in weights.items()
            }
        except UnskewError:
            continue
        compared = compare_means(weights, estimates, value_n)
        yield _shown(outcome, known[outcome].is_share, compared, weighed[main].private)


def _shown(outcome: str, is_share: bool, compared: MeansByTarget, private: bool) -> OutcomeByTarget:
    def mean(name: str, estimate: Estimate) -> MeanOnTarget:
        # With two sources the headline interval may span both, and so tell them.
        interval = estimate.agreed if private else estimate.interval
        return MeanOnTarget(name, estimate.value, estimate.stderr, interval)

    difference = compared.difference
    return OutcomeByTarget(
        outcome=outcome,
        is_share=is_share,
        level=next(iter(compared.estimates.values())).level,
        means=tuple(mean(name, estimate) for name, estimate in compared.estimates.items()),
        lowest=compared.lowest,
        highest=compared.highest,
        difference=difference.value,
        stderr=difference.stderr,
        interval=difference.interval,
        hangs=compared.hangs_on_target,
    )


def _hanging(outcomes: Sequence[OutcomeByTarget], where: str = "between the targets") -> list[str]:
    """Say which outcomes move between the targets by more than sampling error."""
    if not outcomes:
        return []
    moving = [outcome for outcome in outcomes if outcome.hangs]
    if not moving:
        return [
            f"None of the {len(outcomes)} outcomes moves {where} by more than sampling error "
            "explains: for them the choice of target does not visibly matter."
        ]
    shown = [
        f"{outcome.outcome}, from {_amount(outcome, outcome.lowest)} ({outcome.lowest}) to "
        f"{_amount(outcome, outcome.highest)} ({outcome.highest})"
        for outcome in moving
    ]
    return [
        f"{len(moving)} of {len(outcomes)} outcomes hang on the choice of target, moving by more "
        f"than sampling error explains: {listed(shown)}."
    ]


def _amount(outcome: OutcomeByTarget, name: str) -> str:
    value = next(mean.value for mean in outcome.means if mean.name == name)
    return share_text(value) if outcome.is_share or value is None else f"{value:.3g}"


def _apart(distances: Sequence[tuple[str, str, float]]) -> list[str]:
    """Say which targets' weights differ most."""
    order = sorted(distances, key=lambda pair: -pair[2])
    if not order or order[0][2] <= 1e-12:
        return ["All targets have the same weights: the bias model does not depend on the target."]
    shown = [f"{one} and {other} by {share_text(apart)}" for one, other, apart in order]
    return [f"Weight that is on other images (total variation): {listed(shown, _MOST_NAMED)}."]
