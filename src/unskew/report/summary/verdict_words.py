"""The verdict with its reasons and next steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unskew.records import Overlap, Weights
from unskew.records.holm import OBJECTION, holm
from unskew.records.levels import MISSING
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
    shown_size,
)
from unskew.report.summary.record import BalanceRow, OutcomePanel, VerdictPanel
from unskew.report.summary.source_table import Copies
from unskew.report.summary.weighted_pool import WeightedPool, fitted_columns

# Standardised difference from the target above which a column counts as not balanced (Austin 2009).
_UNBALANCED = 0.1
# Share of images with an exact copy from which the verdict mentions them.
_MANY_COPIES = 0.05
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
    copies: Copies | None = None,
    part: str | None = None,
) -> VerdictPanel:
    """Give the level ("ok" or "weak"), with every reason and what to do next.

    ``advice``: what to collect; its numbers are of images that do not exist yet. ``part``: the
    split that the images are of.
    """
    reasons = _Reasons()
    _judge_separation(reasons, weighed)
    _name_reference(reasons, weighed)
    _judge_overlap(reasons, weighed.weights.overlap, weighed.private)
    _judge_solution(reasons, weighed.weights)
    _judge_tests(reasons, fit, outcomes, weighed)
    _judge_coverage(reasons, weighed)
    _judge_balance(reasons, balance, _aim(weighed))
    _name_unread(reasons, outcomes, weighed)
    _count_copied(reasons, copies, weighed)
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
        headline=_headline(weighed, part, weak=reasons.weak),
        sentences=private_sentences(sentences, hidden) if weighed.private else tuple(sentences),
        next_steps=(*steps[:-1], *advice, *steps[-1:]),
        population=_population(weighed),
        figures=_figures(weighed, part),
        part=part,
    )


def mark_placeholder(verdict: VerdictPanel, guess: str) -> VerdictPanel:
    """Say first that nobody has confirmed the target; ``guess`` is what it says, in sentences."""
    if verdict.level == "no":
        headline = f"The target is a placeholder. {verdict.headline}"
    else:
        headline = (
            "The target is a placeholder. If it were true: "
            f"{verdict.headline[:1].lower()}{verdict.headline[1:]}"
        )
    reason = (
        f"Nobody has confirmed the target; `unskew init` guessed it. {guess} Weights, error bars "
        "and forecasts are about this guess, not about your population."
    )
    step = (
        "Write what you know of the population into [target] of the configuration, and remove the "
        "line `guessed = true`; remove it, too, if the guess is right."
    )
    return replace(
        verdict,
        headline=headline,
        sentences=(reason, *verdict.sentences),
        next_steps=(step, *verdict.next_steps),
        placeholder=True,
    )


def _headline(weighed: WeightedPool, part: str | None, *, weak: bool) -> str:
    worth = _worth(weighed)
    images = f"the {count_text(weighed.weights.diagnosis.images)} images{_of_part(part)}"
    if weighed.counts_copies:
        images += f", {count_text(weighed.weights.diagnosis.groups)} of them different,"
    if _groups_apart(weighed):
        return (
            f"{_attribute(weighed)} and source cannot be told apart: {images} are worth {worth} at "
            "most, and what else differs between the sources is not corrected."
        )
    sources = "These sources" if len(weighed.names) > 1 else "This source"
    if weak:
        return f"{sources} can be debiased, but with care: {images} are worth {worth} at most."
    return (
        f"{sources} can be debiased: {images} are worth {worth} drawn from {_drawn_from(weighed)}."
    )


def _of_part(part: str | None) -> str:
    return "" if part is None else f" of the split {part}"


def _groups_apart(weighed: WeightedPool) -> tuple[tuple[str, ...], ...]:
    """Return groups of sources without a stratum in common; empty where there is only one."""
    fitted, components = weighed.fitted, weighed.weights.overlap.components
    return components if fitted is not None and weighed.strata and len(components) > 1 else ()


def _attribute(weighed: WeightedPool) -> str:
    assert weighed.strata is not None
    by = weighed.strata.by
    return "Class" if tuple(by) == ("label",) else f"{' × '.join(by)}"


def _what_links(strata: list[str]) -> str:
    """Say what would link strata of one source only: images, or what is not known of them."""
    known = [name for name in strata if MISSING not in name]
    steps = [f"Collect images of {listed(known)} from a second source."] if known else []
    if unknown := [name for name in strata if MISSING in name]:
        steps.append(
            f"Fill in what is missing ({listed(unknown)}): until then nothing compares those "
            "images with other sources. If they are a sample of the target, name them as that."
        )
    return " ".join(steps)


def _judge_separation(reasons: _Reasons, weighed: WeightedPool) -> None:
    """Say where nothing tells what a source does from what its strata are."""
    only = {} if weighed.strata is None else weighed.fitted.strata.only
    if not only or len(weighed.names) < 2:
        return
    assert weighed.strata is not None
    mass = dict(zip(weighed.strata.names, weighed.strata.mass.tolist(), strict=True))
    share = share_text(sum(mass.get(name, 0.0) for name in only))
    # A share could tell which of the strata that are withheld it is.
    of_target = "" if weighed.private else f", {share} of the target,"
    collect = _what_links(list(only))
    if groups := _groups_apart(weighed):
        what = _attribute(weighed)
        sides = "; ".join(listed(list(group)) for group in groups[:4])
        reasons.add(
            f"{what} and source cannot be told apart: no {what.lower()} has images of two of "
            f"these: {sides}{'; …' if len(groups) > 4 else ''}. A model may learn what tells the "
            "sources apart in its place; weights correct the shares only.",
            collect,
        )
    else:
        reasons.add(
            f"{len(only)} of {len(weighed.strata.strata)} strata{of_target} have images of one "
            "source only: there, stratum and source cannot be told apart.",
            collect,
            weak=False,
        )


def _name_reference(reasons: _Reasons, weighed: WeightedPool) -> None:
    target = weighed.target
    if target is not None and target.kind == "source" and len(weighed.names) > 1:
        reasons.add(
            f"{target.reference} is taken as unbiased: the other sources are weighted to resemble "
            "it. No data can show whether it is.",
            weak=False,
        )


def _name_unread(
    reasons: _Reasons, outcomes: Sequence[OutcomePanel], weighed: WeightedPool
) -> None:
    """Name columns in which sources differ after weighting, though the model reads others."""
    read = set(fitted_columns(weighed))
    names = [
        name
        for row in outcomes
        if row.verdict == "disagree" and not row.is_named
        if (name := row.outcome.removeprefix("mean of ")) not in read
    ]
    if names:
        reasons.add(
            f"After weighting the sources still differ in {listed(names)}, which the bias model "
            "does not read: see “Outcomes”.",
            weak=False,
        )


def _count_copied(reasons: _Reasons, copies: Copies | None, weighed: WeightedPool) -> None:
    if copies is None or copies.by_source is None:
        return
    count = int(copies.by_source.sum())
    if count >= _MANY_COPIES * weighed.n:
        reasons.add(
            f"{share_text(count / weighed.n)} of the images ({count_text(count)}) have an exact "
            "copy. Errors count copies of one image once; across sources they make databases look "
            "more alike than they are.",
            "Find out why images are there twice (see “Copies”), and remove what should not be.",
            weak=False,
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
        "Compare the two error bars of the sources, by a formula and by the bootstrap; where they "
        "differ, trust the larger.",
    ]


def _judge_tests(
    reasons: _Reasons, fit: Any, outcomes: Sequence[OutcomePanel], weighed: WeightedPool
) -> None:
    """Object where a test does, all tests of the page counted (Holm)."""
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
            f"After weighting, the pool matches everything you specified about {aim} to within "
            f"{_UNBALANCED} standard deviations.",
            weak=False,
        )


def _figures(weighed: WeightedPool, part: str | None) -> tuple[tuple[str, str], ...]:
    diagnosis, private = weighed.weights.diagnosis, weighed.private
    figures = [
        ("Images", count_text(diagnosis.images) + _of_part(part)),
        ("Sources", count_text(len(weighed.names))),
        (
            "Effective sample size",
            f"{_size(diagnosis.ess, private)} of {count_text(diagnosis.images)} images",
        ),
    ]
    if diagnosis.groups is not None:
        figures.append(
            (
                "Effective different images" if weighed.counts_copies else "Effective groups",
                f"{_size(diagnosis.ess_groups, private)} of {count_text(diagnosis.groups)}",
            )
        )
    if not weighed.private:
        figures.append(("Largest weight", f"{diagnosis.largest_sample_weight:.3g} × the mean"))
    return tuple(figures)


def _worth(weighed: WeightedPool) -> str:
    """Return how many images the pool is worth: copies of one count once."""
    diagnosis = weighed.weights.diagnosis
    return _size(diagnosis.ess_groups if weighed.counts_copies else diagnosis.ess, weighed.private)


def _size(ess: float | None, private: bool) -> str:
    return count_text(shown_size(ess, private))
