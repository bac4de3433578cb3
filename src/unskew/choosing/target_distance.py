"""How far the weighted pool is from known facts: shares of levels, means of a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from unskew.errors import UnskewError
from unskew.records import Floats, Pool, Target, Weights
from unskew.records.design_weights import raw_design
from unskew.records.levels import text_levels
from unskew.splits.folds import unit_codes
from unskew.target.facts import cell_text
from unskew.target.strata import target_images
from unskew.weigh.uncertainty import weighted_mean

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata

# Facts of one distribution, or levels of one column, beyond which the rarest are left out.
_MOST_FACTS = 50
# Shares that hold by construction differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Fact:
    """One number known about the target: E[h] = ``expected`` ± ``stderr``.

    ``value`` (n,) holds h for the pool's images.
    """

    name: str
    value: Floats = field(repr=False)
    expected: float
    stderr: float


@dataclass(frozen=True)
class TargetDistance:
    """The weighted pool compared with the known facts.

    largest : largest |Σ_i π_i h_i − E[h]|/sd(h) over the facts, sd(h) in the pool.
    fact : the fact it belongs to.
    standard_errors : largest |Σ_i π_i h_i − E[h]| in its standard errors.
    p_value : chance of so many standard errors if the weights were right, times the number of facts
        (Bonferroni), at most 1.
    n_facts : number of facts.
    """

    largest: float
    fact: str
    standard_errors: float
    p_value: float
    n_facts: int


def known_facts(pool: Pool, targets: Sequence[Target], columns: Sequence[str]) -> tuple[Fact, ...]:
    """Collect the numbers that the targets give.

    Shares of strata; of a sample or an unbiased source the means of the label and ``columns``.
    Where pool and reference share none of ``columns`` (models given by functions or queries name
    none), all numbers that they share.
    """
    facts: list[Fact] = []
    for target in targets:
        facts += (
            _means_of_reference(pool, target, columns)
            if target.kind in ("sample", "source")
            else _shares(pool, target)
        )
    return tuple(facts)


def restricted_facts(pool: Pool, targets: Sequence[Target]) -> tuple[str, ...]:
    """Write a sentence on every given distribution of which the pool lacks a part."""
    return tuple(
        f"the known shares of {' × '.join(strata.by)} are those of {strata.population}"
        for target in targets
        if target.kind not in ("sample", "source")
        for strata in _given_strata(pool, target)
        if strata.uncovered
    )


def _given_strata(pool: Pool, target: Target) -> Iterator[TargetStrata]:
    """Stratify by every given distribution alone."""
    single = [
        replace(target, by=fact.by, facts=(fact,), interactions=None) for fact in target.facts
    ]
    for one in single or [target]:
        yield replace(one, uncovered="restrict").stratify(pool)


def _shares(pool: Pool, target: Target) -> Iterator[Fact]:
    for strata in _given_strata(pool, target):
        for at in np.argsort(-strata.mass, kind="stable")[:_MOST_FACTS]:
            if strata.in_scope[at]:
                stderr = 0.0
                if strata.covariance is not None:
                    stderr = float(np.sqrt(max(strata.covariance[at, at], 0.0)))
                yield Fact(
                    cell_text(strata.by, strata.strata[at]),
                    np.asarray(strata.code == at, float),
                    float(strata.mass[at]),
                    stderr,
                )


def _means_of_reference(pool: Pool, target: Target, columns: Sequence[str]) -> Iterator[Fact]:
    """Yield the means of the label and of columns that both share, levels as indicators."""
    from unskew.bias.features import is_numeric

    frame = target_images(target, pool)
    count_m = raw_design(frame)
    frame, count_m = frame[count_m > 0], count_m[count_m > 0]
    n_effective = _effective_size(frame, count_m)
    for name in _shared_columns(pool, frame, columns):
        if is_numeric(pool.frame[name]) and name != "label":
            value = frame[name].to_numpy(dtype=np.float64)
            yield Fact(
                f"mean of {name}",
                pool.frame[name].to_numpy(np.float64),
                (mean := float(np.average(value, weights=count_m))),
                float(np.sqrt(np.average(np.square(value - mean), weights=count_m) / n_effective)),
            )
            continue
        levels, code = text_levels(pool.frame[name], name)
        seen, own = text_levels(frame[name], name)
        count_l = np.bincount(own, weights=count_m, minlength=len(seen))
        share = dict(zip(seen, count_l / count_m.sum(), strict=True))
        for at in np.argsort(-np.bincount(code), kind="stable")[:_MOST_FACTS]:
            p = float(share.get(levels[at], 0.0))
            yield Fact(
                f"{name} = {levels[at]}",
                np.asarray(code == at, dtype=np.float64),
                p,
                float(np.sqrt(p * (1 - p) / n_effective)),
            )


def _shared_columns(pool: Pool, reference: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """List the label, and ``columns`` or else all numbers, if every image of both has them."""
    from unskew.bias.features import is_numeric

    def complete(names: Sequence[str]) -> list[str]:
        tables = (pool.frame, reference)
        return [
            name
            for name in names
            if all(name in table.columns and not bool(table[name].isna().any()) for table in tables)
        ]

    def numbers() -> list[str]:
        numeric = [
            name
            for name in complete(pool.attributes)
            if is_numeric(pool.frame[name]) and is_numeric(reference[name])
        ]
        return [
            name
            for name in numeric
            if np.isfinite(pool.frame[name]).all() and np.isfinite(reference[name]).all()
        ]

    return list(dict.fromkeys([*complete(["label"]), *(complete(columns) or numbers())]))


def _effective_size(frame: pd.DataFrame, count_m: Floats) -> float:
    """Compute Kish's effective size; images of one group, and copies, count as one."""
    unit_m = unit_codes(frame)
    total_u = count_m if unit_m is None else np.bincount(unit_m, weights=count_m)
    return float(count_m.sum() ** 2 / np.square(total_u).sum())


def distance_to_target(weights: Weights, facts: Sequence[Fact]) -> TargetDistance | None:
    """Compute the largest difference between weighted means and facts, and its p-value.

    None without facts. The errors of weighted means account for the estimation of ω where the model
    is smooth; else they take ω as known, which makes differences look larger than they are.
    """
    if not facts:
        return None
    difference, scaled, in_errors = np.zeros((3, len(facts)))
    for at, fact in enumerate(facts):
        difference[at] = float(weights.weight @ fact.value) - fact.expected
        sd = float(fact.value.std())
        scaled[at] = abs(difference[at]) / sd if sd > 0 else abs(difference[at])
        if abs(difference[at]) > _ROUNDING:
            stderr = float(np.hypot(_mean_stderr(weights, fact.value), fact.stderr))
            in_errors[at] = abs(difference[at]) / stderr if stderr > 0 else np.inf
    worst = int(np.argmax(scaled))
    z = float(in_errors.max())
    return TargetDistance(
        float(scaled[worst]),
        facts[worst].name,
        z,
        float(min(1.0, 2 * len(facts) * scipy.special.ndtr(-z))),
        len(facts),
    )


def _mean_stderr(weights: Weights, value_n: Floats) -> float:
    estimation = weights.estimation
    if estimation is not None and all(factor.is_smooth for factor in estimation.fitted.factors):
        try:
            return weighted_mean(weights, value_n).stderr
        except UnskewError:
            pass
    weighted_n = weights.weight * (value_n - float(weights.weight @ value_n))
    total = weighted_n if weights.unit is None else np.bincount(weights.unit, weights=weighted_n)
    return float(np.sqrt(np.sum(np.square(total))))
