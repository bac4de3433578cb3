"""The verdict with its reasons and next steps, and how the weights were adjusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unskew.errors import ConfigError, first_few
from unskew.records import Overlap, Weights
from unskew.records.holm import OBJECTION, holm
from unskew.records.target import TARGET_OF_NUMBERS, THE_TARGET
from unskew.report.summary.bias_panel import worst_of_fit
from unskew.report.summary.outcomes_panel import show_amount, show_ends
from unskew.report.summary.privacy import (
    count_text,
    listed,
    overlap_message,
    private_population,
    private_sentences,
    share_text,
    too_small,
    without_counts,
)
from unskew.report.summary.record import BalanceRow, OutcomePanel, VerdictPanel
from unskew.report.summary.weighted_pool import WeightedPool


def adjustment_sentences(adjustments: Sequence[Any], private: bool) -> tuple[str, ...]:
    """Describe what `calibrate_weights`, `trim_weights` and `shrink_weights` did.

    One sentence for each; texts are kept as they are. The records are known by their fields,
    because a report imports no other stage.
    """
    return tuple(_sentence(adjustment, private) for adjustment in adjustments)


def _sentence(adjustment: Any, private: bool) -> str:
    if isinstance(adjustment, str):
        return without_counts(adjustment) if private else adjustment
    if hasattr(adjustment, "n_trimmed"):
        return _trimmed(adjustment, private)
    if hasattr(adjustment, "kl"):
        return _calibrated(adjustment, private)
    if hasattr(adjustment, "kept"):
        return _shrunk(adjustment)
    raise ConfigError(
        "adjustments are results of calibrate_weights, trim_weights and shrink_weights, or "
        f"sentences; got {type(adjustment).__name__}.",
        option="adjustments",
        value=type(adjustment).__name__,
    )


def _trimmed(adjustment: Any, private: bool) -> str:
    hide = private and too_small(adjustment.n_trimmed)
    trimmed = "some" if hide else count_text(adjustment.n_trimmed)
    moved = "" if hide else f", which moved {share_text(adjustment.moved)} of the weight to others"
    return (
        f"Trimmed: weights are capped at {adjustment.at:.3g} times the mean ({trimmed} images at "
        f"the cap){moved}. {_sizes(adjustment)} Trimming trades variance for bias: the weighted "
        "pool no longer follows the target exactly."
    )


def _calibrated(adjustment: Any, private: bool) -> str:
    known = " and ".join(map(str, [*adjustment.margins, *adjustment.means]))
    ratio = (
        ""
        if private
        else f"; the image that gained most has {adjustment.largest_ratio:.3g} times its weight"
    )
    return (
        f"Calibrated: the weights were moved as little as possible so that {known} are as known in "
        f"the target (Kullback–Leibler divergence {adjustment.kl:.3g}{ratio}). "
        f"{_sizes(adjustment)}"
    )


def _shrunk(adjustment: Any) -> str:
    kept = first_few([f"{name} {share_text(share)}" for name, share in adjustment.kept.items()])
    return (
        "Shrunk: the weights move the means away from the plain pool only as far as the data are "
        f"sure of ({kept}). {_sizes(adjustment)} Shrinking trades variance for bias: these means "
        "may be nearer to the pool than the target's are."
    )


def _sizes(adjustment: Any) -> str:
    return (
        f"Effective sample size {count_text(adjustment.ess_before)} before and "
        f"{count_text(adjustment.ess_after)} after."
    )


# Standardised difference from the target above which a column counts as not balanced (Austin 2009).
_UNBALANCED = 0.1
_COVERED = "the part of the target that has images"


@dataclass
class _Reasons:
    """Sentences and next steps, as they are collected."""

    sentences: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    weak: bool = False

    def add(self, sentence: str, *steps: str, weak: bool = True) -> None:
        self.sentences.append(sentence)
        self.next_steps += steps
        self.weak |= weak


def give_verdict(
    weighed: WeightedPool,
    balance: Sequence[BalanceRow],
    outcomes: Sequence[OutcomePanel],
    fit: Any,
    hidden: Sequence[str],
    advice: Sequence[str] = (),
) -> VerdictPanel:
    """Give the level ("ok" or "weak"), with every reason and what to do next.

    ``advice``: what to collect; its numbers are of images that do not exist yet.
    """
    reasons = _Reasons()
    _judge_overlap(reasons, weighed.weights.overlap, weighed.private)
    _judge_solution(reasons, weighed.weights)
    _judge_tests(reasons, fit, outcomes, weighed)
    _judge_coverage(reasons, weighed)
    _judge_balance(reasons, balance, _aim(weighed))
    _count_left_out(reasons, weighed)
    sentences, steps = reasons.sentences, list(reasons.next_steps)
    if not reasons.weak:
        steps.insert(
            0,
            "Train with the weights: pass sample_weight (mean 1) to the loss or the sampler, "
            "joined to the images by id.",
        )
    steps.append(
        "Read “Not corrected” before using the result: weights correct what the bias model reads, "
        "and nothing else."
    )
    if weighed.private:
        steps = list(private_sentences(steps, hidden))
        advice = [sentence for sentence in advice if not any(name in sentence for name in hidden)]
    return VerdictPanel(
        level="weak" if reasons.weak else "ok",
        headline=_headline(weighed, weak=reasons.weak),
        sentences=private_sentences(sentences, hidden) if weighed.private else tuple(sentences),
        next_steps=(*steps[:-1], *advice, *steps[-1:]),
        population=_population(weighed),
        figures=_figures(weighed),
    )


def _headline(weighed: WeightedPool, *, weak: bool) -> str:
    diagnosis = weighed.weights.diagnosis
    images, worth = count_text(diagnosis.images), _worth(weighed, diagnosis.ess)
    sources = "These sources" if len(weighed.names) > 1 else "This source"
    if weak:
        return (
            f"{sources} can be debiased, but with care: the {images} images are worth {worth} at "
            "most."
        )
    return (
        f"{sources} can be debiased: the {images} images are worth {worth} drawn from "
        f"{_drawn_from(weighed)}."
    )


def _judge_overlap(reasons: _Reasons, overlap: Overlap, private: bool) -> None:
    weak = overlap.verdict == "weak"
    message = overlap_message(overlap, private)
    reasons.add(message, *(_weak_steps(overlap) if weak else ()), weak=weak)


def _judge_solution(reasons: _Reasons, weights: Weights) -> None:
    if not weights.solution.converged:
        reasons.add(
            f"The solve did not converge: {weights.solution.status.value}.",
            "Solve again with method='newton' and more steps.",
        )


def _weak_steps(overlap: Overlap) -> list[str]:
    steps = []
    is_above = {
        name: getattr(overlap, name) is not None and getattr(overlap, name) > limit
        for name, limit in overlap.thresholds.items()
    }
    if is_above.get("link_error") and overlap.weakest_link is not None:
        first, second = overlap.weakest_link
        steps.append(f"Collect images that both {first} and {second} could have taken.")
    if is_above.get("heaviest") or is_above.get("unseen"):
        steps.append("Collect images nearer to the target: few of the pool's resemble it.")
    if is_above.get("lone"):
        steps.append("Collect images of strata with a single one, or use coarser strata.")
    return [
        *steps,
        "Compare the asymptotic with the bootstrap error bars of the sources; where they differ, "
        "trust the larger.",
    ]


def _judge_tests(
    reasons: _Reasons, fit: Any, outcomes: Sequence[OutcomePanel], weighed: WeightedPool
) -> None:
    """Object where a test does, all tests of the page counted (Holm).

    These are `check_fit`, the classifier that tries to tell the target from the weighted pool, and
    the comparisons of sources, which count as one: the smallest p-value times their number.
    """
    read = [row for row in outcomes if row.is_named and row.beyond_margin_p is not None]
    smallest = min((row.beyond_margin_p or 0.0 for row in read), default=math.nan)
    estimation = weighed.weights.estimation
    resemblance = None if estimation is None else estimation.resemblance
    p_value = holm(
        [
            *([] if fit is None else [("fit", fit.p_value)]),
            *([] if resemblance is None else [("resemblance", resemblance.p_value)]),
            ("outcomes", len(read) * smallest),
        ]
    )
    apart = [row for row in read if row.verdict == "disagree"]
    if apart:
        reasons.add(*_disagreement(apart), weak=p_value["outcomes"] < OBJECTION)
    if p_value.get("fit", 1.0) < OBJECTION:
        worst, source = worst_of_fit(fit, weighed.private)
        reasons.add(
            f"The bias model does not describe the sources (p = {p_value['fit']:.2g}): {worst} of "
            f"{source} is off most.",
            f"Try a bias model that is freer in {worst} (a Product with it, Tilt of degree 2, "
            "Propensity); unskew choose, in Python choose_bias, compares them.",
        )
    if p_value.get("resemblance", 1.0) < OBJECTION:
        assert resemblance is not None
        reasons.add(
            resemblance.message,
            "Add features that separate the target's images from the pool's to the bias model, or "
            "collect images like the target's.",
        )
    elif resemblance is not None:
        reasons.add(resemblance.message, weak=False)


def _disagreement(apart: Sequence[OutcomePanel]) -> tuple[str, str]:
    """Name the outcome that sources differ on, the sources, and what to do about it."""
    first, others = apart[0], len(apart) - 1
    ends = show_ends(first)
    sentence = f"The sources disagree on {first.outcome}{f': {ends}' if ends else ''}."
    if first.odd_source is not None:
        sentence += f" Without {first.odd_source} the others agree."
    if others:
        sentence += f" They disagree on {count_text(others, 'other outcome')}, too."
    quoted = "what each source says by itself"
    if first.new_source is not None:
        low, high = (show_amount(first, end) for end in first.new_source)
        quoted = f"the interval for a source like none of these, {low} to {high}"
    return sentence, (
        f"Find out how {first.odd_source or 'the sources'} came by {first.outcome}; until then "
        f"quote {quoted} (see “Outcomes”)."
    )


def _judge_coverage(reasons: _Reasons, weighed: WeightedPool) -> None:
    strata = weighed.strata
    if strata is None:
        return
    if strata.uncovered:
        names = sorted(strata.uncovered, key=lambda name: -strata.uncovered[name])
        reasons.add(
            f"No source has an image of {listed(names)}, "
            f"{share_text(sum(strata.uncovered.values()))} of the target: the results do not "
            "cover them.",
            f"Collect images of {listed(names)}, or state in every use of the result that they are "
            "missing.",
            weak=False,
        )
    only = weighed.fitted.strata.only
    if only and len(weighed.names) > 1:
        reasons.add(
            f"{len(only)} of {len(strata.strata)} strata have images of one source only: there, "
            "stratum and source cannot be told apart.",
            f"Collect images of {listed(list(only))} from a second source.",
            weak=False,
        )


def _aim(weighed: WeightedPool) -> str:
    """Name the population of the known shares."""
    return _COVERED if weighed.strata is not None and weighed.strata.uncovered else THE_TARGET


def _population(weighed: WeightedPool) -> str:
    """Name the population of the weighted pool, as the bias model states it."""
    population = (
        TARGET_OF_NUMBERS if weighed.fitted is None else weighed.fitted.describe().population
    )
    return private_population(population) if weighed.private else str(population)


def _drawn_from(weighed: WeightedPool) -> str:
    """Name it in few words: strata without images have a sentence of their own."""
    population, strata = _population(weighed), weighed.strata
    if strata is None or not strata.uncovered:
        return population
    named = private_population(strata.population) if weighed.private else strata.population
    return population.replace(named, _COVERED)


def _count_left_out(reasons: _Reasons, weighed: WeightedPool) -> None:
    left_out = {} if weighed.fitted is None else weighed.fitted.left_out
    for reason, count in left_out.items():
        if count:
            reasons.add(f"{count_text(count)} images get weight 0: {reason}.", weak=False)


def _judge_balance(reasons: _Reasons, balance: Sequence[BalanceRow], aim: str) -> None:
    known = [row for row in balance if row.target is not None and row.after is not None]
    left = [row for row in known if abs(row.after or 0.0) > _UNBALANCED]
    if not known:
        return
    if left:
        worst = max(left, key=lambda row: abs(row.after or 0.0))
        name = worst.column if worst.level is None else f"{worst.column} = {worst.level}"
        reasons.add(
            f"After weighting {len(left)} of {len(known)} lines still differ from {aim} by more "
            f"than {_UNBALANCED} standard deviations, {name} most ({worst.after:+.2f}).",
            f"If {worst.column} matters, give its distribution in the target and put it into the "
            "bias model.",
            weak=any(row.fitted for row in left),
        )
    else:
        reasons.add(
            f"After weighting nothing that is known of {aim} differs from it by more than "
            f"{_UNBALANCED} standard deviations.",
            weak=False,
        )


def _figures(weighed: WeightedPool) -> tuple[tuple[str, str], ...]:
    diagnosis = weighed.weights.diagnosis
    figures = [
        ("Images", count_text(diagnosis.images)),
        ("Sources", count_text(len(weighed.names))),
        (
            "Effective sample size",
            f"{_worth(weighed, diagnosis.ess)} of {count_text(diagnosis.images)} images",
        ),
    ]
    if diagnosis.groups is not None:
        figures.append(
            (
                "Effective groups",
                f"{_worth(weighed, diagnosis.ess_groups)} of {count_text(diagnosis.groups)}",
            )
        )
    if not weighed.private:
        figures.append(("Largest weight", f"{diagnosis.largest_sample_weight:.3g} × the mean"))
    return tuple(figures)


def _worth(weighed: WeightedPool, ess: float | None) -> str:
    return (
        count_text(float(f"{ess:.2g}")) if weighed.private and ess is not None else count_text(ess)
    )
