"""Bias models compared on what the images, and known facts about the target, can tell:
`choose_bias`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unskew.choosing.candidates import evaluate_candidate, name_candidates
from unskew.choosing.choice import BiasChoice
from unskew.choosing.class_membership import with_class_scores
from unskew.choosing.decision import decide
from unskew.choosing.membership_score import make_folds
from unskew.choosing.proposal import propose_candidates
from unskew.choosing.target_distance import known_facts, restricted_facts
from unskew.engine.arguments import Folds, checked
from unskew.errors import DataError
from unskew.records import Pool, Target
from unskew.records.arrays import Randomness, seed_of

if TYPE_CHECKING:
    from unskew.bias.base import Bias


# Of more columns than this, those that vary most are tested.
_MANY_COLUMNS, _FEW_COLUMNS = 40, 20


@checked
def choose_bias(
    pool: Pool,
    candidates: Sequence[Bias] | Mapping[str, Bias] | None = None,
    target: Target | None = None,
    *,
    facts: Sequence[Target] = (),
    folds: Folds = 5,
    baseline: bool = True,
    check: bool = True,
    rng: Randomness = 0,
) -> BiasChoice:
    """Rank bias models by how well they tell the source of images they were not fitted on.

    Chosen is the simplest family (fewest fitted numbers; of two alike the one with the better
    score) among those within one standard error of the best score. The standard error is that of
    the paired difference (`unskew.choosing.membership_score.paired_difference`): all families are
    scored on the same images.

    Never chosen for its score: a family that cannot be fitted with a fold left out, one whose
    overlap is weak, and one that tells almost every image's source (a score rewards whatever
    identifies a source). Where such a family describes the sources better and all that is left is
    naive pooling, or where no other candidate could be fitted, nothing is chosen. Families that
    contradict a known fact about the target (p < 1%) are passed over as long as another does not;
    if all within one standard error do, for the simplest other whose score is tenable (behind by no
    more than 2.3 standard errors, the same 1%). Simplicity does not decide between families that
    take c(z) from elsewhere and give other weights: there the one nearest to the known facts wins.

    Parameters
    ----------
    pool : the images of all sources.
    candidates : bias models on features that you named; none is added or left out. A mapping gives
        them names. None: with a sample of the target, or a source that is unbiased, models on all
        numbers that pool and target share are proposed
        (`unskew.choosing.proposal.propose_candidates`).
    target : what is known about the population, as for `unskew.debias`; every candidate is fitted
        with it.
    facts : further things known about the target that only judge: the shares of a `Target.margins`,
        the means of a `Target.sample` (of the label and the columns that candidates name; where the
        sample has none of these, of all numbers that pool and sample share).
    folds : number of folds F; groups, and exact copies of an image, stay in one.
    baseline : compare with naive pooling, too (ω = 1 for all).
    check : compute the p-value of `unskew.check_fit` for each candidate.
    rng : an int or a NumPy Generator, of folds and fits.

    Returns
    -------
    BiasChoice
        ``print`` shows the table and the reason. ``best`` goes into `unskew.debias`.

    Notes
    -----
    The score is blind to a factor c(z) common to all sources. Families that differ in it alone tie,
    and only known facts about the target tell them apart; if there are none, ``undecided`` names
    them. With a sample of the target as ``target`` its images are scored as those of one more
    source with ω = 1, and c(z) counts.

    Examples
    --------
    >>> import unskew
    >>> drawn = unskew.scenarios.tilts([600, 600], theta=[[0.0], [1.0]], rng=0)
    >>> pool = unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features[:, 0])
    >>> candidates = [unskew.bias.Tilt(["x"]), unskew.bias.Tilt(["x"], degree=2)]
    >>> choice = unskew.choose_bias(pool, candidates, unskew.Target.source("0"))
    >>> choice.name
    'Tilt(x)'
    """
    seed = seed_of(rng)
    _check_arguments(pool, target)
    proposed = propose_candidates(pool, target) if candidates is None else candidates
    named = name_candidates(proposed, pool, baseline)
    pool, target = with_class_scores(pool, target, list(named.values()), seed)
    split = make_folds(pool, target, folds, seed)
    columns = _columns(pool, list(named.values()))
    targets = [*([] if target is None else [target]), *facts]
    known = known_facts(pool, targets, columns)
    checked = list(dict.fromkeys([*_complete(pool, ["label"]), *columns])) if check else []
    rated = [
        evaluate_candidate(name, model, split, known, checked=checked, seed=seed)
        for name, model in named.items()
    ]
    choice = decide(rated, split, {one.kind for one in targets})
    return replace(choice, notes=(*restricted_facts(pool, facts), *choice.notes))


def _check_arguments(pool: Pool, target: Target | None) -> None:
    if len(pool.names) < 2 and (target is None or target.kind != "sample"):
        raise DataError(
            "bias models are compared by how well they tell the sources apart, and there is one "
            "source only. A sample of the target (Target.sample) would be the second.",
            sources=list(pool.names),
        )


def _columns(pool: Pool, models: Sequence[Bias]) -> list[str]:
    """List the columns that candidates name and all images have; functions name none."""
    names: list[str] = []
    for name in dict.fromkeys(
        column for model in models for part in model.parts for column in part.columns
    ):
        names += (
            [name]
            if name in pool.frame.columns
            else [column for column in pool.frame.columns if str(column).startswith(f"{name}_")]
        )
    complete = _complete(pool, list(dict.fromkeys(names)))
    return complete if len(complete) <= _MANY_COLUMNS else _widest(pool, complete)


def _widest(pool: Pool, names: Sequence[str]) -> list[str]:
    """Return those of many columns that vary most, numbers alone: an embedding's first ones."""
    from unskew.bias.components import block_sizes
    from unskew.bias.features import is_numeric

    numeric = [name for name in names if is_numeric(pool.frame[name])]
    deviation_d = pool.frame[numeric].to_numpy(dtype=np.float64).std(axis=0)
    order = np.argsort(-deviation_d / block_sizes(numeric, deviation_d), kind="stable")
    widest = {numeric[at] for at in order[:_FEW_COLUMNS]}
    return [name for name in names if name in widest or name not in numeric]


def _complete(pool: Pool, names: Sequence[str]) -> list[str]:
    return [
        name
        for name in names
        if name in pool.frame.columns and not bool(pool.frame[name].isna().any())
    ]
