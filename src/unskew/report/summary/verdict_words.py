"""The verdict in plain words: can it be debiased, what is it worth, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.records import Overlap
from unskew.records.target import TARGET_OF_NUMBERS, THE_TARGET
from unskew.report.summary.record import BalanceRow, VerdictPanel
from unskew.report.summary.weighted_pool import WeightedPool
from unskew.report.summary.wording import (
    count_text,
    listed,
    private_population,
    private_sentences,
    share_text,
)

# `check_fit` rejects below this; a model is a simplification, and with many images any is.
_REJECTED = 0.01
# A classifier that tells target and weighted pool apart so well has found something the weights do
# not correct.
_RECOGNISED = 0.7
_UNLIKE = 0.05
# Standardised difference from the target above which a column counts as not balanced (Austin 2009).
_UNBALANCED = 0.1
_COVERED = "the part of the target that has images"


@dataclass
class _Case:
    """What is being said, piece by piece."""

    sentences: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    weak: bool = False

    def add(self, sentence: str, *steps: str, weak: bool = True) -> None:
        self.sentences.append(sentence)
        self.next_steps += steps
        self.weak |= weak


def give_verdict(
    weighed: WeightedPool, balance: Sequence[BalanceRow], fit: Any, hidden: Sequence[str]
) -> VerdictPanel:
    """The level ("ok" or "weak") with every reason: links, convergence, tail, fit, resemblance,
    coverage.
    """
    weights, overlap, diagnosis = (
        weighed.weights,
        weighed.weights.overlap,
        weighed.weights.diagnosis,
    )
    case = _Case()
    case.sentences.append(overlap.message)
    if overlap.verdict == "weak":
        case.weak = True
        case.next_steps += _weak_steps(overlap)
    if not weights.solution.converged:
        case.add(
            f"The solve did not converge: {weights.solution.status.value}.",
            "Solve again with method='newton' and more steps.",
        )
    tail = diagnosis.tail_ok
    if tail is False and overlap.verdict == "ok":
        case.add(
            f"The largest weights have a heavy tail (index {diagnosis.pareto_k:.2g}, above "
            f"{diagnosis.pareto_k_threshold:.2g}): a few "
            "images count for much, and errors may be larger than they look.",
            "Look at the heaviest images below; if they are odd, trim the weights (trim_weights) "
            "or collect more like them.",
            weak=False,
        )
    _judge_fit(case, fit)
    _judge_resemblance(case, weighed)
    _judge_coverage(case, weighed)
    _judge_balance(case, balance, _aim(weighed))
    _count_left_out(case, weighed)
    level: Literal["ok", "weak"] = "weak" if case.weak else "ok"
    images, worth = count_text(diagnosis.images), _worth(weighed, diagnosis.ess)
    sources = "These sources" if len(weighed.names) > 1 else "This source"
    headline = (
        f"{sources} can be debiased: the {images} images are worth {worth} drawn from "
        f"{_drawn_from(weighed)}."
        if level == "ok"
        else f"{sources} can be debiased, but with care: the {images} images are worth {worth} at "
        "most."
    )
    if level == "ok":
        case.next_steps.insert(
            0,
            "Train with the weights: pass sample_weight (mean 1) to the loss or the sampler, "
            "joined to the images by id.",
        )
    case.next_steps.append(
        "Read “Not corrected” before using the result: weights correct what the bias model reads, "
        "and nothing else."
    )
    if weighed.private:
        sentences, steps = (
            private_sentences(case.sentences, hidden),
            private_sentences(case.next_steps, hidden),
        )
        return VerdictPanel(
            level, headline, sentences, steps, _population(weighed), _figures(weighed)
        )
    return VerdictPanel(
        level,
        headline,
        tuple(case.sentences),
        tuple(case.next_steps),
        _population(weighed),
        _figures(weighed),
    )


def _weak_steps(overlap: Overlap) -> list[str]:
    steps = []
    if (
        overlap.weakest_link is not None
        and overlap.weakest_count is not None
        and overlap.weakest_count < 100
    ):
        first, second = overlap.weakest_link
        steps.append(
            f"Collect images that both {first} and {second} could have taken: "
            f"{count_text(overlap.weakest_count)} images of {second} are "
            "the weakest link between the sources."
        )
    else:
        steps.append("Collect images nearer to the target: few of the pool's resemble it.")
    return [
        *steps,
        "Compare the asymptotic with the bootstrap error bars of the sources; where they differ, "
        "trust the larger.",
    ]


def _judge_fit(case: _Case, fit: Any) -> None:
    if fit is None or not fit.p_value < _REJECTED:
        return
    worst = min(fit.features, key=lambda each: (each.p_value, -each.statistic))
    case.add(
        f"The bias model does not describe the sources (p = {fit.p_value:.2g}): {worst.feature} of "
        f"{worst.source} is off most.",
        f"Try a bias model that is freer in {worst.feature} (a Product with it, Tilt of degree 2, "
        "Propensity); unskew.choose_bias compares "
        "them.",
    )


def _judge_resemblance(case: _Case, weighed: WeightedPool) -> None:
    found = None if weighed.weights.estimation is None else weighed.weights.estimation.resemblance
    if found is None:
        return
    if found.auc > _RECOGNISED or found.unlike > _UNLIKE:
        case.add(
            found.message,
            "Add features that tell the target's images from the pool's to the bias model, or "
            "collect images like the target's.",
        )
    else:
        case.add(found.message, weak=False)


def _judge_coverage(case: _Case, weighed: WeightedPool) -> None:
    strata = weighed.strata
    if strata is None:
        return
    if strata.uncovered:
        names = sorted(strata.uncovered, key=lambda name: -strata.uncovered[name])
        case.add(
            f"No source has an image of {listed(names)}, "
            f"{share_text(sum(strata.uncovered.values()))} of the target: results do not speak "
            "of them.",
            f"Collect images of {listed(names)}, or say in every use of the result that they are "
            "missing.",
            weak=False,
        )
    only = weighed.fitted.strata.only
    if only and len(weighed.names) > 1:
        case.add(
            f"{len(only)} of {len(strata.strata)} strata have images of one source only: there, "
            "stratum and source cannot be told apart.",
            f"Collect images of {listed(list(only))} from a second source.",
            weak=False,
        )


def _aim(weighed: WeightedPool) -> str:
    """What the known shares are those of."""
    return _COVERED if weighed.strata is not None and weighed.strata.uncovered else THE_TARGET


def _population(weighed: WeightedPool) -> str:
    """What the weighted pool stands for, as the bias model says."""
    population = (
        TARGET_OF_NUMBERS if weighed.fitted is None else weighed.fitted.describe().population
    )
    return private_population(population) if weighed.private else str(population)


def _drawn_from(weighed: WeightedPool) -> str:
    """The same in few words: strata without images are named by a sentence of their own."""
    population, strata = _population(weighed), weighed.strata
    if strata is None or not strata.uncovered:
        return population
    named = private_population(strata.population) if weighed.private else strata.population
    return population.replace(named, _COVERED)


def _count_left_out(case: _Case, weighed: WeightedPool) -> None:
    left_out = {} if weighed.fitted is None else weighed.fitted.left_out
    for reason, count in left_out.items():
        if count:
            case.add(f"{count_text(count)} images get weight 0: {reason}.", weak=False)


def _judge_balance(case: _Case, balance: Sequence[BalanceRow], aim: str) -> None:
    known = [row for row in balance if row.target is not None and row.after is not None]
    left = [row for row in known if abs(row.after or 0.0) > _UNBALANCED]
    if not known:
        return
    if left:
        worst = max(left, key=lambda row: abs(row.after or 0.0))
        name = worst.column if worst.level is None else f"{worst.column} = {worst.level}"
        case.add(
            f"After weighting {len(left)} of {len(known)} lines still differ from {aim} by more "
            f"than {_UNBALANCED} standard "
            f"deviations, {name} most ({worst.after:+.2f}).",
            f"If {worst.column} matters, give its distribution in the target and put it into the "
            "bias model.",
            weak=any(row.fitted for row in left),
        )
    else:
        case.add(
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
