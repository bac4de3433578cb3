"""`advise_collection`: which images, and how many, bring errors to a wanted level."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.debiasing.pool_weights import debias
from unskew.diagnosis.advice_record import Advice, Goal
from unskew.diagnosis.collectables import list_collectables
from unskew.diagnosis.collection_search import MOST_KINDS, SAVING, CollectionSearch
from unskew.diagnosis.expected_problem import (
    MOST_ROWS,
    Collectable,
    ExpectedProblem,
    expect_problem,
)
from unskew.diagnosis.missing_links import find_missing_links
from unskew.diagnosis.outcomes import find_outcomes
from unskew.engine.arguments import OpenShare, Positive, checked
from unskew.errors import (
    ConfigError,
    CoverageError,
    OverlapError,
    UnskewWarning,
    did_you_mean,
    first_few,
)
from unskew.records import Floats, Pool, Target, Weights
from unskew.records.arrays import Randomness
from unskew.report.summary.privacy import SMALLEST_CELL
from unskew.report.summary.weighted_pool import pair_with_weights
from unskew.solve.link_error import LINK_ERROR_LIMIT
from unskew.solve.options import SolverOptions
from unskew.weigh.uncertainty import weighted_mean

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.report.summary.weighted_pool import WeightedPool

# For a page: so many rows represent all, and so many kinds of images are worked out.
_QUICK_ROWS = 2_000
_QUICK_KINDS = 6


@checked
def advise_collection(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    stderr: Positive | None = None,
    outcomes: Mapping[str, npt.ArrayLike] | Sequence[str] | None = None,
    ess: Positive | None = None,
    overlap: OpenShare | bool | None = None,
    cost: Mapping[str, Positive] | None = None,
    private: bool = False,
    rng: Randomness = 0,
    **options: Unpack[SolverOptions],
) -> Advice:
    """Tell which images, and how many, bring errors, effective size or overlap to a wanted level.

    The predictions come from the solved problem (`unskew.diagnosis.expected_problem`): further
    images of a source are drawn as it draws, so image i of the pool is expected q_ik m/n_k times
    more often. They count the estimation of normalizers and of ω, groups as far as further images
    come in groups like today's, and the error of the target's own margins, which no image lowers.

    Parameters
    ----------
    pool, bias, target : as for `unskew.debias`.
    stderr : the wanted standard error of every outcome's target mean. Default, where outcomes are
        named or nothing else is wanted: half of today's, each its own.
    outcomes : names of columns, or (n,) values by name, in the order of the pool; default: those
        that a report shows.
    ess : the wanted effective number of images or, up to 1, share of all images.
    overlap : the wanted link error, the target mass that weakly linked sources may misplace; True:
        what the verdict asks for (0.1), also of the heaviest image.
    cost : of one image by its name: a source, a stratum or class such as ``"label = cat"``,
        ``"target"``, ``"target sample"``; 1 unless it is given.
    private : leave out outcomes, strata and classes that fewer than ten images have.
    rng, **options : as for `unskew.debias`.

    Returns
    -------
    Advice
        Where there is no solution today, what makes one possible: ``links`` or ``uncovered``.

    Examples
    --------
    >>> import unskew
    >>> label = ["cat"] * 90 + ["dog"] * 10
    >>> pool = unskew.Pool.from_arrays(["a"] * 100, label=label, night=[0, 1] * 50)
    >>> target = unskew.Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
    >>> advice = unskew.advise_collection(
    ...     pool, unskew.bias.Strata("label"), target, stderr=0.05, outcomes=["night"])
    >>> advice.best.name
    'label = dog'
    """
    wanted: dict[str, Any] = {
        **{"stderr": stderr, "outcomes": outcomes, "ess": ess, "overlap": overlap},
        **{"cost": cost, "private": private},
    }
    settings: dict[str, Any] = {"rng": rng, **options}
    try:
        weights = _quietly(pool, bias, target, settings)
    except OverlapError as error:
        if error.overlap is None:
            raise
        return Advice(
            pool.names, None, links=find_missing_links(error.overlap), obstacle=str(error)
        )
    except CoverageError as error:
        obstacle = str(error)
        if target is None or target.uncovered != "error" or target.kind in ("sample", "source"):
            return Advice(pool.names, None, obstacle=obstacle)
        try:
            weights = _quietly(pool, bias, replace(target, uncovered="restrict"), settings)
        except CoverageError:
            return Advice(pool.names, None, obstacle=obstacle)
        advice = advise_from_weights(pool, weights, cover_all=True, **wanted)
        return replace(advice, obstacle=obstacle)
    return advise_from_weights(pool, weights, **wanted)


def _quietly(pool: Pool, bias: Bias, target: Target | None, settings: dict[str, Any]) -> Weights:
    """Debias without the warnings that are what the advice is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        return debias(pool, bias, target, **settings)


def advise_from_weights(
    pool: Pool,
    weights: Weights,
    *,
    stderr: float | None = None,
    outcomes: Mapping[str, npt.ArrayLike] | Sequence[str] | None = None,
    ess: float | None = None,
    overlap: float | bool | None = None,
    cost: Mapping[str, float] | None = None,
    known: Mapping[str, float] | None = None,
    private: bool = False,
    quick: bool = False,
    cover_all: bool = False,
) -> Advice:
    """Do what `advise_collection` does from weights that are solved.

    Parameters
    ----------
    pool : the images that were weighed.
    weights : from `unskew.debias`.
    stderr, outcomes, ess, overlap, cost : as for `advise_collection`.
    known : standard errors of outcomes that were computed already.
    private : leave out outcomes, strata and classes that fewer than ten images have.
    quick : the few most effective kinds by themselves, from fewer rows: some tenths of a second.
    cover_all : the target includes the strata that no source has, which are to be collected first.
    """
    if weights.estimation is None:
        raise ConfigError(
            "advice needs the bias model behind the weights: compute them with unskew.debias.",
            option="weights",
        )
    values: dict[str, Floats] = {}
    error_of: dict[str, float] = {}
    if stderr is not None or outcomes is not None or (ess is None and overlap is None):
        weighed = pair_with_weights(pool, weights, private=private)
        values, error_of = _outcomes(weighed, outcomes, known or {})
    level_of = {name: error / 2 if stderr is None else stderr for name, error in error_of.items()}
    problem = expect_problem(weights, values, error_of, _QUICK_ROWS if quick else MOST_ROWS)
    kinds = [
        kind for kind in list_collectables(weights, problem) if not (private and _is_small(kind))
    ]
    costs = _costs(kinds, cost or {})
    lacking: dict[str, int] = {}
    if cover_all:
        lacking = _uncovered(weights, values, level_of)
        # Half of the variance is what the strata without images take.
        covered = max(1.0 - sum(_masses(weights).values()), 1e-9)
        level_of = {name: level / math.sqrt(2.0) / covered for name, level in level_of.items()}
    goals = (
        *_error_goals(problem, error_of, level_of),
        *_other_goals(weights, problem, ess, overlap),
    )
    n = float(problem.size_ck.sum())
    search = CollectionSearch(problem, goals, n, most=_QUICK_KINDS if quick else MOST_KINDS)
    notes = _notes(weights, lacking, without_goal=not goals)
    advice = Advice(weights.names, len(pool), goals, uncovered=lacking, notes=notes)
    if not goals or search.is_enough({}):
        return advice
    chosen = search.most_effective(kinds)
    ordered = sorted(
        (search.option(kind, costs[kind]) for kind in chosen),
        key=lambda option: math.inf if option.cost is None else option.cost,
    )
    advice = replace(advice, options=tuple(ordered))
    return advice if quick else _with_mix(advice, search, chosen, costs, cost or {})


def _is_small(kind: Collectable) -> bool:
    """Tell whether so few images have the stratum or class that a private report withholds it."""
    if kind.kind == "stratum" and kind.rate_ck is not None:
        return bool(1.0 / kind.rate_ck.max() < SMALLEST_CELL)
    if kind.kind == "class" and kind.law_r is not None:
        return int(np.count_nonzero(kind.law_r)) < SMALLEST_CELL
    return False


def _outcomes(
    weighed: WeightedPool,
    outcomes: Mapping[str, npt.ArrayLike] | Sequence[str] | None,
    known: Mapping[str, float],
) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return values and standard errors of the outcomes that have a finite one above 0."""
    listed = find_outcomes(weighed, outcomes)
    if outcomes is not None and not listed.values:
        why = " ".join(listed.notes) or "outcomes names no column; leave it out for all of them."
        raise ConfigError(why, option="outcomes", value=list(outcomes))
    values, error_of = {}, {}
    for name, value_n in listed.values.items():
        error = known.get(name)
        if error is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnskewWarning)
                error = weighted_mean(weighed.weights, value_n).stderr
        if 0.0 < error < math.inf:
            values[name], error_of[name] = np.asarray(value_n, dtype=np.float64), error
    return values, error_of


def _error_goals(
    problem: ExpectedProblem, error_of: Mapping[str, float], level_of: Mapping[str, float]
) -> list[Goal]:
    return [
        Goal("stderr", name, error_of[name], level, float(np.sqrt(problem.floor_h[h])))
        for h, (name, level) in enumerate(level_of.items())
    ]


def _other_goals(
    weights: Weights, problem: ExpectedProblem, ess: float | None, overlap: float | bool | None
) -> list[Goal]:
    goals = []
    if ess is not None and ess > 1.0:
        goals.append(Goal("ess", "", weights.ess, ess))
    elif ess is not None:
        goals.append(Goal("ess share", "", weights.ess / float(problem.size_ck.sum()), ess))
    if overlap is None or overlap is False:
        return goals
    limit = LINK_ERROR_LIMIT if overlap is True else overlap
    goals.append(Goal("link error", "", problem.link_error({}), limit))
    heaviest = weights.overlap.thresholds.get("heaviest")
    if overlap is True and heaviest is not None and weights.overlap.heaviest is not None:
        goals.append(Goal("heaviest", "", problem.heaviest({}), heaviest))
    return goals


def _masses(weights: Weights) -> Mapping[str, float]:
    assert weights.estimation is not None
    strata = weights.estimation.fitted.strata
    return {} if strata is None else strata.target.uncovered


def _uncovered(
    weights: Weights, values: Mapping[str, Floats], level_of: Mapping[str, float]
) -> dict[str, int]:
    """Count the images of strata without any that take half of the wanted variance.

    Nothing is known of their spread, so s is that of all images: m_c = 2 p_c s Σ_d p_d s/stderr²
    (Neyman), and two at least, for one shows no spread.
    """
    mass = _masses(weights)
    per_variance = max(
        (
            float(weights.weight @ np.square(value_n - weights.weight @ value_n))
            / level_of[name] ** 2
            for name, value_n in values.items()
        ),
        default=0.0,
    )
    per_mass = 2.0 * per_variance * sum(mass.values())
    return {name: max(2, math.ceil(share * per_mass)) for name, share in mass.items()}


def _costs(kinds: Sequence[Collectable], cost: Mapping[str, float]) -> dict[Collectable, float]:
    """Return the cost of one image of each kind, 1 unless it is given."""
    known = {kind.name for kind in kinds if kind.name}
    unknown = [name for name in cost if name not in known]
    if unknown:
        raise ConfigError(
            f"cost names {unknown[0]!r}, which cannot be collected; there are "
            f"{first_few(sorted(known), 12)}.{did_you_mean(unknown[0], known)}",
            option="cost",
            value=unknown[0],
            allowed=sorted(known),
        )
    return {kind: float(cost.get(kind.name, 1.0)) for kind in kinds}


def _with_mix(
    advice: Advice,
    search: CollectionSearch,
    kinds: Sequence[Collectable],
    costs: Mapping[Collectable, float],
    named: Mapping[str, float],
) -> Advice:
    """Add the cheapest mix of sources and strata, and of whatever has a cost of its own.

    Images of the target itself would replace the sources: where it can be had, a cost says so.
    """
    mixed = {
        kind: costs[kind]
        for kind in kinds
        if kind.kind in ("source", "stratum", "sample") or (kind.name in named)
    }
    if len(mixed) < 2:
        return advice
    solved = search.cheapest_mix(mixed)
    if solved is None:
        return advice
    plan, total = solved
    singles = [
        option.cost
        for option in advice.possible
        if option.cost is not None
        and any((kind.kind, kind.name) == (option.kind, option.name) for kind in mixed)
    ]
    if len(plan) < 2 or total > (1.0 - SAVING) * min(singles, default=math.inf):
        return advice
    return replace(advice, mix={kind.name: images for kind, images in plan.items()}, mix_cost=total)


def _notes(weights: Weights, lacking: Mapping[str, int], *, without_goal: bool) -> tuple[str, ...]:
    """Say what the numbers rest on."""
    assert weights.estimation is not None
    notes = []
    if lacking:
        notes.append(
            "The strata without images take half of the wanted variance; the levels above are what "
            "is left for the rest of the target."
        )
    if not weights.estimation.is_smooth:
        notes.append(
            "This bias model has no derivatives: only what all sources together bring can be "
            "predicted."
        )
    if without_goal:
        notes.append(
            "No outcome has a standard error to lower: name a column of numbers or of two values, "
            "or another goal, an effective size or the overlap of the sources."
        )
    elif weights.unit is not None:
        notes.append("Further images are expected to come in groups and copies like today's.")
    return tuple(notes)
