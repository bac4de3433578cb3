"""Which bias model? Candidates side by side on what the images, and known facts about the target,
can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.choosing.candidates import Candidate, evaluate_candidate, is_constant, name_candidates
from unskew.choosing.membership_score import Folds, make_folds, paired_difference
from unskew.choosing.table import ONE_PERCENT, SAME_SCORE, Standing, make_choice_table
from unskew.choosing.target_distance import known_facts, restricted_facts
from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Pool, Target, Weights

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

# Weights that differ by less than this share of their mass are the same weights.
_SAME_WEIGHTS = 1e-3
# Those that differ by more than this rest on other assumptions, not on other noise.
_OTHER_WEIGHTS = 0.05
# Below this the sources do not look as the family says; a sentence says so.
_MISFIT = 0.01


@dataclass(frozen=True, eq=False)
class BiasChoice:
    """The candidates, ranked, and the one that is chosen.

    Attributes
    ----------
    best : the chosen model; None where no candidate can be used.
    name : its name among the candidates.
    reason : why this one, and what speaks against it.
    ties : candidates that describe the sources equally (their q is the same), in groups.
    undecided : candidates that describe the sources as well as the chosen one, take another c(z)
        for granted and so give other weights, and that no known fact tells from it.
    notes : what the user should know of facts and of single candidates.
    weights : the weights under the chosen model.
    table : one row for each candidate, the chosen one first, then by score, those that cannot be
        chosen last:

        ``score`` mean of log((1 − δ) q_{i,s_i} + δ λ_{s_i}) over images that were not in the fit, 0
        at best, with ``stderr`` over folds; ``behind`` how far it is behind the best score of those
        that may be chosen, with ``behind_stderr`` of that paired difference; ``outside`` share of
        held-out images outside their own source's fitted support; ``parameters`` number of fitted
        numbers; ``ess`` effective number of images; ``verdict`` of the overlap; ``fit_p`` p-value
        of `unskew.check_fit`; ``distance`` largest standardised difference between weighted pool
        and known facts, with its p-value ``distance_p``; ``auc`` with a target sample: how well a
        classifier tells it from the weighted pool (0.5 = not at all); ``remark`` why it was not
        chosen.
    """

    best: Bias | None
    name: str | None
    reason: str
    ties: tuple[tuple[str, ...], ...]
    undecided: tuple[str, ...]
    notes: tuple[str, ...]
    table: pd.DataFrame = field(repr=False)
    weights: Weights | None = field(repr=False)

    @property
    def population(self) -> str | None:
        """Which population results speak of under the chosen model; None where none is chosen."""
        return None if self.weights is None else self.weights.describe().population

    def __str__(self) -> str:
        from unskew.choosing.table import show_table

        lines = [show_table(self.table), "", self.reason]
        if self.weights is not None and self.weights.estimation is not None:
            lines += [f"With it, results speak of {self.population}."]
            lines += [
                f"With it, {sentence}."
                for sentence in self.weights.estimation.fitted.assumed_labels
            ]
        lines += [f"Tie: {', '.join(group)} describe the sources equally." for group in self.ties]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


def choose_bias(
    pool: Pool,
    candidates: Sequence[Bias] | Mapping[str, Bias],
    target: Target | None = None,
    *,
    facts: Sequence[Target] = (),
    folds: int = 5,
    baseline: bool = True,
    check: bool = True,
    seed: int = 0,
) -> BiasChoice:
    """Rank bias models by how well they tell, on images they were not fitted on, which source an
    image comes from; choose one.

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
    take c(z) from elsewhere and give other weights: there the one nearest to the known facts is
    taken.

    Parameters
    ----------
    pool : the images of all sources.
    candidates : bias models on features that you named; none is added or left out. A mapping gives
        them names.
    target : what is known about the population, as for `unskew.debias`; every candidate is fitted
        with it.
    facts : further things known about the target that only judge: the shares of a `Target.margins`,
        the means of a `Target.sample` (of the label and the columns that candidates name; where the
        sample has none of these, of all numbers that pool and sample share).
    folds : number of folds F; groups, and exact copies of an image, stay in one.
    baseline : compare with naive pooling, too (ω = 1 for all).
    check : compute the p-value of `unskew.check_fit` for each candidate.
    seed : of folds and fits.

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
    >>> drawn = unskew.scenarios.tilts([600, 600], theta=[[0.0], [1.0]], seed=0)
    >>> pool = unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features[:, 0])
    >>> candidates = [unskew.bias.Tilt(["x"]), unskew.bias.Tilt(["x"], degree=2)]
    >>> choice = unskew.choose_bias(pool, candidates, unskew.Target.source("0"))
    >>> choice.name
    'Tilt(x)'
    """
    _check_arguments(pool, target, facts, folds)
    named = name_candidates(candidates, pool, baseline)
    split = make_folds(pool, target, folds, seed)
    columns = _columns(pool, list(named.values()))
    known = known_facts(pool, [*([] if target is None else [target]), *facts], columns)
    checked = list(dict.fromkeys([*_complete(pool, ["label"]), *columns])) if check else []
    rated = [
        evaluate_candidate(name, model, split, known, checked=checked, seed=seed)
        for name, model in named.items()
    ]
    choice = _decide(rated, split)
    return replace(choice, notes=(*restricted_facts(pool, facts), *choice.notes))


def _check_arguments(
    pool: Pool, target: Target | None, facts: Sequence[Target], folds: Any
) -> None:
    if not isinstance(pool, Pool):
        raise DataError(
            f"choose_bias takes a Pool; got {type(pool).__name__}. Make one with Pool.from_frame "
            "or Pool.from_arrays."
        )
    if isinstance(facts, Target) or any(not isinstance(fact, Target) for fact in facts):
        raise ConfigError(f"facts is a list of unskew.Target; got {facts!r}.")
    if target is not None and not isinstance(target, Target):
        raise ConfigError(
            f"target is an unskew.Target, such as Target.margins({{…}}); got {target!r}."
        )
    if not isinstance(folds, int | np.integer) or folds < 2:
        raise ConfigError(
            "folds is the number of parts that are left out in turn, a whole number of at least "
            f"2; got {folds!r}."
        )
    if len(pool.names) < 2 and (target is None or target.kind != "sample"):
        raise DataError(
            "bias models are compared by how well they tell the sources apart, and there is one "
            "source only. With a sample of the target "
            "(Target.sample) that becomes the second."
        )


def _columns(pool: Pool, models: Sequence[Bias]) -> list[str]:
    """Every column that some candidate names, as far as all images have it; functions and queries
    name none.
    """
    names: list[str] = []
    for name in dict.fromkeys(
        column for model in models for part in model.parts for column in part.columns
    ):
        names += (
            [name]
            if name in pool.frame.columns
            else [each for each in pool.frame.columns if str(each).startswith(f"{name}_")]
        )
    return _complete(pool, list(dict.fromkeys(names)))


def _complete(pool: Pool, names: Sequence[str]) -> list[str]:
    return [
        name
        for name in names
        if name in pool.frame.columns and not bool(pool.frame[name].isna().any())
    ]


def _decide(rated: Sequence[Candidate], folds: Folds) -> BiasChoice:
    """Those that may be chosen for their score; of these the near ones; of these the ones that
    agree with the facts; the simplest.
    """
    able = [each for each in rated if each.score is not None]
    eligible = [each for each in able if each.obstacle is None] or [
        each for each in able if each.identifies and each.verdict == "ok"
    ]
    lead = max(
        eligible,
        key=lambda each: each.score_mean,
        default=max(able, key=lambda each: each.score_mean, default=None),
    )
    standing = {each.name: _compare(lead, each, folds) for each in able} if lead is not None else {}
    chosen, why = _pick(eligible, able, standing, len(rated) - len(able))
    ties = _find_ties(able)
    undecided = _undecided(chosen, eligible, ties, standing)
    cautions = () if chosen is None else _cautions(chosen, eligible, able, standing, undecided)
    return BiasChoice(
        best=None if chosen is None else chosen.model,
        name=None if chosen is None else chosen.name,
        reason=" ".join([why, *cautions]),
        ties=tuple(tuple(each.name for each in group) for group in ties),
        undecided=tuple(each.name for each in undecided),
        notes=tuple(
            dict.fromkeys(
                f"{each.name}: {note}"
                for each in rated
                for note in (*([each.failure] if each.failure else []), *each.notes)
            )
        ),
        table=make_choice_table(rated, chosen, standing),
        weights=None if chosen is None else chosen.weights,
    )


def _compare(lead: Candidate, other: Candidate, folds: Folds) -> Standing:
    assert lead.score is not None
    assert other.score is not None
    return Standing(other, *paired_difference(lead.score, other.score, folds.unit))


def _pick(
    eligible: Sequence[Candidate],
    able: Sequence[Candidate],
    standing: Mapping[str, Standing],
    n_failed: int,
) -> tuple[Candidate | None, str]:
    if not eligible:
        return None, (
            "None of the candidates can be chosen: each could not be fitted, or has too little "
            "overlap between the sources to undo what it "
            "says they do. The remarks say what to change; more images where sources overlap is "
            "what helps."
        )
    near = [each for each in eligible if standing[each.name].is_near]
    agreeing = [each for each in near if not each.contradicts]
    if not agreeing:
        # A contradiction speaks as strongly against a family as a score 2.3 standard errors behind.
        agreeing = [
            each for each in eligible if standing[each.name].is_tenable and not each.contradicts
        ]
    if not agreeing:
        aside = [
            each
            for each in able
            if each.identifies and each.verdict == "ok" and not each.contradicts
        ]
        if aside:
            chosen = min(aside, key=_simplicity)
            return chosen, (
                f"{chosen.name} is chosen for agreeing with what is known about the target, not "
                "for its score: it tells almost every "
                "image's source, which any family does that reads what identifies a source. The "
                "families that the score speaks for "
                f"({first_few([each.name for each in near])}) contradict what is known about the "
                "target."
            )
    # Where all contradict the facts, the one that does so least: that counts for more than
    # simplicity.
    chosen = _simplest(agreeing) if agreeing else min(near, key=_nearness)
    if is_constant(chosen.model) and n_failed and all(is_constant(each.model) for each in able):
        return None, (
            "None of the candidates can be chosen: no model that you named could be fitted (the "
            "notes say why), and naive pooling, which "
            "corrects nothing, has nothing to be compared with."
        )
    ahead = _ahead(eligible, able, standing)
    if is_constant(chosen.model) and ahead is not None:
        return None, (
            f"None of the candidates can be chosen. {ahead.name} describes the sources better than "
            f"naive pooling, but {ahead.obstacle}: "
            "what it says cannot be undone, or is no selection at all. The others describe the "
            "sources no better than pooling does."
        )
    return chosen, _why(chosen, near, agreeing, standing)


def _ahead(
    eligible: Sequence[Candidate], able: Sequence[Candidate], standing: Mapping[str, Standing]
) -> Candidate | None:
    """The best of those that may not be chosen for their score, if its score is better by more than
    chance explains.
    """
    ahead = [
        each
        for each in able
        if each not in eligible
        and -standing[each.name].behind > ONE_PERCENT * standing[each.name].behind_stderr
    ]
    return max(ahead, key=lambda each: each.score_mean, default=None)


def _simplicity(candidate: Candidate) -> tuple[float, float, float]:
    """Fewer fitted numbers first; of those alike the one nearer to the facts, then the one with the
    better score.
    """
    return candidate.parameters, _away(candidate), -candidate.score_mean


def _nearness(candidate: Candidate) -> tuple[float, float, float, float]:
    """Nearest to the known facts first."""
    return (_away(candidate), *_simplicity(candidate))


def _simplest(candidates: Sequence[Candidate]) -> Candidate:
    """The simplest, unless others take another c(z) for granted and give other weights: of these
    the one nearest to the known facts.

    Simplicity is about describing the sources, and says nothing about c(z).
    """
    first = min(candidates, key=_simplicity)
    rivals = [
        each
        for each in candidates
        if each.anchor != first.anchor and moved_mass(each, first) > _OTHER_WEIGHTS
    ]
    return min([first, *rivals], key=_nearness) if rivals and first.distance is not None else first


def _away(candidate: Candidate) -> float:
    """Standard errors by which the worst fact is off."""
    return 0.0 if candidate.distance is None else candidate.distance.standard_errors


def _why(
    chosen: Candidate,
    near: Sequence[Candidate],
    agreeing: Sequence[Candidate],
    standing: Mapping[str, Standing],
) -> str:
    lead = max(near, key=lambda each: each.score_mean)
    if near == [chosen]:
        return (
            f"{chosen.name} is chosen: of those that may be it has the best score, and no "
            "other "
            "is within one standard error of it."
        )
    passed = [each.name for each in near if each not in agreeing] if agreeing else []
    place = (
        "within one standard error of the best score"
        if chosen in near
        else "with a score that chance explains beside the best"
    )
    how = "simplest" if agreeing else "one nearest to what is known about the target"
    sentence = (
        f"{chosen.name} is chosen: the {how} "
        f"{place}{' that agrees with what is known about the target' if passed else ''}"
    )
    own = standing[chosen.name]
    if own.behind > SAME_SCORE:
        sentence += (
            f" ({lead.name} is ahead by {own.behind:.2g}, standard error {own.behind_stderr:.2g})"
        )
    sentence += "."
    return (
        sentence
        if not passed
        else f"{sentence} Passed over for contradicting it: {first_few(passed)}."
    )


def _find_ties(able: Sequence[Candidate]) -> list[list[Candidate]]:
    """Groups of candidates with the same q, found by their scores image by image."""
    groups: list[list[Candidate]] = []
    for each in able:
        own = next((group for group in groups if _same_score(group[0], each)), None)
        if own is None:
            groups.append([each])
        else:
            own.append(each)
    return [group for group in groups if len(group) > 1]


def _same_score(first: Candidate, second: Candidate) -> bool:
    assert first.score is not None
    assert second.score is not None
    return float(np.nanmean(np.abs(first.score.value - second.score.value))) < SAME_SCORE


def _undecided(
    chosen: Candidate | None,
    eligible: Sequence[Candidate],
    ties: Sequence[Sequence[Candidate]],
    standing: Mapping[str, Standing],
) -> list[Candidate]:
    """Those that describe the sources as well as the chosen one, agree with the facts no less, and
    give other weights.

    Either their q is the same, or their scores are within one standard error and c(z) comes from
    elsewhere.
    """
    if chosen is None:
        return []
    tied = next((group for group in ties if chosen in group), ())
    found = []
    for each in eligible:
        if each is chosen or each.contradicts != chosen.contradicts:
            continue
        elsewhere = (
            standing[each.name].is_near
            and standing[chosen.name].is_near
            and each.anchor != chosen.anchor
        )
        if (each in tied and moved_mass(each, chosen) > _SAME_WEIGHTS) or (
            elsewhere and moved_mass(each, chosen) > _OTHER_WEIGHTS
        ):
            found.append(each)
    return found


def moved_mass(first: Candidate, second: Candidate) -> float:
    """½ Σ_i |π_i − π'_i|: the share of the weight that two candidates place on different images."""
    assert first.weights is not None
    assert second.weights is not None
    return float(np.abs(first.weights.weight - second.weights.weight).sum() / 2)


def _cautions(
    chosen: Candidate,
    eligible: Sequence[Candidate],
    able: Sequence[Candidate],
    standing: Mapping[str, Standing],
    undecided: Sequence[Candidate],
) -> tuple[str, ...]:
    """What speaks against the chosen one."""
    found = []
    if undecided:
        found.append(
            f"Nothing tells it from {first_few([each.name for each in undecided])}: they describe "
            "the sources equally well and "
            "differ in what they take for granted about a factor common to all sources, which the "
            "images cannot tell. A known share of the "
            "target, a sample of it or an unbiased source would."
        )
    if chosen.contradicts:
        assert chosen.distance is not None
        found.append(
            f"Yet it contradicts what is known about the target: {chosen.distance.fact} is off by "
            f"{chosen.distance.largest:.2g} standard "
            f"deviations ({chosen.distance.standard_errors:.1f} standard errors). A product with "
            "Strata over the known shares would agree."
        )
    ahead = _ahead(eligible, able, standing)
    if ahead is not None:
        found.append(
            f"{ahead.name} has a better score, but {ahead.obstacle}: the sources differ in more "
            "than these images allow to undo, or by "
            "something that only identifies them."
        )
    if chosen.fit_p is not None and chosen.fit_p < _MISFIT:
        found.append(
            f"The sources do not look as it says (check_fit, p = {chosen.fit_p:.2g}): none of the "
            "candidates may be right."
        )
    return tuple(found)
