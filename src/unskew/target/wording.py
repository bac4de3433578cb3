"""What a target was given, assumes and did, in plain sentences that the report prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unskew.errors import first_few
from unskew.records import Pool, Target
from unskew.records.levels import level_text
from unskew.records.target import THE_TARGET
from unskew.target.facts import Distribution, cell_text
from unskew.target.strata import TargetStrata

if TYPE_CHECKING:
    import pandas as pd

_MISSING = {
    "level": "are a level of their own",
    "drop": "are dropped",
    "keep": "are kept at their pool share",
    "error": "are an error",
}
_OUTSIDE = {"keep": "kept at their pool share", "drop": "dropped"}


def target_sentences(target: Target) -> tuple[str, ...]:
    """Return what was given and what is assumed, before any pool is seen."""
    if target.kind in ("sample", "source"):
        return tuple(_reference(target))
    return (*_given(target), *_assumed(target), *_options(target))


def _reference(target: Target) -> list[str]:
    if target.kind == "source":
        sentences = [
            f"The target is the population that source {target.reference} was drawn from; that it "
            "is unbiased is assumed."
        ]
    elif isinstance(target.reference, Pool):
        sentences = [
            f"The target is the population that a sample of {len(target.reference)} images was "
            "drawn from."
        ]
        sentences += _assumed_labels(labels_lacking(target.reference.frame, None, "The sample"))
    else:
        sentences = [
            f"The target is the population that the images in {target.reference} were drawn from."
        ]
    if target.holdout:
        sentences.append(f"{target.holdout:.0%} of the reference is held out to judge.")
    return sentences


def labels_lacking(
    frame: pd.DataFrame, is_reference: npt.NDArray[np.bool_] | None, which: str
) -> str:
    """Say that the reference has no labels, or how many of its images have none; "" otherwise.

    ``is_reference`` marks its rows of the table; None: all.
    """
    if "label" not in frame.columns:
        return f"{which} has no labels"
    lacks_n = frame["label"].isna().to_numpy()
    lacks_n = lacks_n if is_reference is None else lacks_n[is_reference]
    n = int(lacks_n.sum())
    if n == lacks_n.size:
        return f"{which} has no labels"
    return f"{which} has {n} of {lacks_n.size} images without a label" if n else ""


def _assumed_labels(lacking: str) -> list[str]:
    return (
        [f"{lacking}: that the labels follow from the features as in the sources is assumed."]
        if lacking
        else []
    )


def _given(target: Target) -> list[str]:
    if target.kind == "uniform":
        what = (
            f"every level of {target.by[0]}"
            if len(target.by) == 1
            else f"every combination of levels of {' × '.join(target.by)}"
        )
        return [f"In the target, {what} has the same mass."]
    word = "margin" if target.kind == "margins" else "joint distribution"
    parts = "levels" if target.kind == "margins" else "cells"
    return [
        f"Given: the {word} of {fact.name} ({len(fact.cells)} {parts}), {_error(fact)}."
        for fact in target.facts
    ]


def _error(fact: Distribution) -> str:
    if fact.n is not None:
        return (
            f"from a sample of {level_text(fact.n)}, whose multinomial error enters every interval"
        )
    if fact.stderr is not None:
        return (
            "with standard errors, which enter every interval; that they are correlated as "
            "independent errors with a fixed sum is assumed"
        )
    return "taken as exact"


def _assumed(target: Target) -> list[str]:
    if len(target.facts) < 2:
        return []
    table = (
        "the pool, whose sampling error enters every interval"
        if target.interactions is None
        else "the table given for them"
    )
    sentences = [
        f"The joint distribution of {' × '.join(target.by)} is not given, only its margins: their "
        f"interactions (odds ratios) are assumed to be those of {table}, and the rest is raked."
    ]
    if sum(fact.n is not None or fact.stderr is not None for fact in target.facts) > 1:
        sentences.append("The errors of different margins are assumed to be independent.")
    return sentences


def _options(target: Target) -> list[str]:
    sentences = [
        f"{name} is cut at {', '.join(map(level_text, edges))}."
        for name, edges in target.bins.items()
    ]
    for name, rule in target.outside.items():
        if isinstance(rule, Mapping):
            sentences += [
                f"Outside the target's scope: {name} = {level}, {_OUTSIDE[choice]}."
                for level, choice in rule.items()
            ]
        else:
            sentences.append(f"Levels of {name} outside the target's scope are {_OUTSIDE[rule]}.")
    sentences += [
        f"Missing values of {name} {_MISSING[rule]}." for name, rule in target.missing.items()
    ]
    if target.unit == "group":
        sentences.append(
            "The target counts groups: a group counts once in every stratum it has images in, and "
            "they share that."
        )
    return sentences


def strata_sentences(
    target: Target, strata: TargetStrata, n_split_groups: int
) -> tuple[str, tuple[str, ...]]:
    """(which population results describe, all sentences)."""
    sentences = list(target_sentences(target))
    n = strata.code.size
    if n_split_groups:
        sentences.append(
            f"{n_split_groups} groups have images in several strata and count once in each."
        )
    for reason, count in strata.dropped.items():
        sentences.append(f"Dropped: {count} of {n} images, {reason}.")
    for at in np.flatnonzero(~strata.in_scope):
        count = int((strata.code == at).sum())
        sentences.append(
            f"Kept at its pool share, {strata.mass[at]:.4g}: "
            f"{cell_text(strata.by, strata.strata[at])} ({count} images)."
        )
    empty_c = strata.mass == 0
    if empty_c.any():
        names = [cell_text(strata.by, strata.strata[at]) for at in np.flatnonzero(empty_c)]
        sentences.append(
            f"{int(empty_c[strata.code[strata.code >= 0]].sum())} images get weight 0: the target "
            f"has no {first_few(names)}."
        )
    population = _population(target, strata)
    return population, (*sentences, f"Results describe {population}.")


def _population(target: Target, strata: TargetStrata) -> str:
    population = THE_TARGET
    if strata.uncovered:
        names = first_few([f"{name} ({mass:.4g})" for name, mass in strata.uncovered.items()])
        population += f" excluding strata with no images in any source: {names}"
        if len(target.facts) > 1:
            population += ", the other margins taken as unchanged"
    outside = float(strata.mass[~strata.in_scope].sum())
    if outside:
        population += f", with images outside its scope added at their pool share ({outside:.4g})"
    return population


def reference_sentences(target: Target, pool: Pool | pd.DataFrame) -> tuple[str, ...]:
    """Return `target_sentences`, labels that the source lacks and others have, and its size."""
    sentences = target_sentences(target)
    if target.kind == "sample" or not isinstance(pool, Pool):
        return sentences
    at = pool.names.index(str(target.reference))
    if "label" in pool.frame.columns:
        sentences = (
            *sentences,
            *_assumed_labels(labels_lacking(pool.frame, pool.source == at, "That source")),
        )
    return (*sentences, f"That source has {int(pool.sizes[at])} of {len(pool)} images.")
