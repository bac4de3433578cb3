"""Which candidate is chosen, why, and what speaks against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from unskew.choosing.candidates import Candidate, is_constant
from unskew.choosing.choice import BiasChoice
from unskew.choosing.membership_score import Folds, paired_difference
from unskew.choosing.table import ONE_PERCENT, SAME_SCORE, Standing, make_choice_table
from unskew.errors import first_few

# Weights that differ by less than this share of their mass are the same weights.
_SAME_WEIGHTS = 1e-3
# Those that differ by more than this rest on other assumptions, not on other noise.
_OTHER_WEIGHTS = 0.05
# What would tell families with another c(z) apart, by the kind of target that gives it.
_ANCHORS = {
    "a known share of the target": ("margins", "table", "uniform", "predictions"),
    "a sample of it": ("sample",),
    "an unbiased source": ("source",),
}


def decide(rated: Sequence[Candidate], folds: Folds, given: Collection[str] = ()) -> BiasChoice:
    """Choose the simplest of those near the best score that agree with the facts."""
    able = [candidate for candidate in rated if candidate.score is not None]
    eligible = [candidate for candidate in able if candidate.obstacle is None] or [
        candidate for candidate in able if candidate.identifies and candidate.verdict == "ok"
    ]
    lead = max(
        eligible,
        key=lambda candidate: candidate.score_mean,
        default=max(able, key=lambda candidate: candidate.score_mean, default=None),
    )
    standing = (
        {candidate.name: _compare(lead, candidate, folds) for candidate in able}
        if lead is not None
        else {}
    )
    chosen, why = _pick(eligible, able, standing, len(rated) - len(able))
    ties = _find_ties(able)
    undecided = _undecided(chosen, eligible, ties, standing)
    cautions = (
        () if chosen is None else _cautions(chosen, eligible, able, standing, undecided, given)
    )
    return BiasChoice(
        best=None if chosen is None else chosen.model,
        name=None if chosen is None else chosen.name,
        reason=" ".join([why, *cautions]),
        ties=tuple(tuple(candidate.name for candidate in group) for group in ties),
        undecided=tuple(candidate.name for candidate in undecided),
        notes=tuple(
            dict.fromkeys(
                f"{candidate.name}: {note}"
                for candidate in rated
                for note in (*([candidate.failure] if candidate.failure else []), *candidate.notes)
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
            "overlap between the sources to undo the selection it describes. The remarks say what "
            "to change; more images where sources overlap would help."
        )
    near = [candidate for candidate in eligible if standing[candidate.name].is_near]
    agreeing = [candidate for candidate in near if not candidate.contradicts]
    if not agreeing:
        # A contradiction is as strong evidence against a family as a score 2.3 standard errors
        # behind.
        agreeing = [
            candidate
            for candidate in eligible
            if standing[candidate.name].is_tenable and not candidate.contradicts
        ]
    if not agreeing:
        identifying = [
            candidate
            for candidate in able
            if candidate.identifies and candidate.verdict == "ok" and not candidate.contradicts
        ]
        if identifying:
            chosen = min(identifying, key=_simplicity)
            return chosen, (
                f"{chosen.name} is chosen because it agrees with what is known about the target, "
                "not for its score: it tells almost every image's source, as does any family that "
                "reads what identifies a source. The families with the best scores "
                f"({first_few([candidate.name for candidate in near])}) contradict what is known "
                "about the target."
            )
    # Where all contradict the facts, the one that does so least: that counts for more than
    # simplicity.
    chosen = _simplest(agreeing) if agreeing else min(near, key=_nearness)
    if is_constant(chosen.model):
        refusal = _refuse_pooling(able, _ahead(eligible, able, standing), n_failed)
        if refusal:
            return None, refusal
    return chosen, _why(chosen, near, agreeing, standing)


def _refuse_pooling(able: Sequence[Candidate], ahead: Candidate | None, n_failed: int) -> str:
    """Say why naive pooling must not be chosen for lack of a rival; empty if it may."""
    if n_failed and all(is_constant(candidate.model) for candidate in able):
        return (
            "None of the candidates can be chosen: no model that you named could be fitted (the "
            "notes say why), and naive pooling, which corrects nothing, has nothing to be compared "
            "with."
        )
    if ahead is not None:
        return (
            f"None of the candidates can be chosen. {ahead.name} describes the sources better than "
            f"naive pooling, but {ahead.obstacle}: what it describes cannot be undone, or is no "
            "selection at all. The others describe the sources no better than pooling."
        )
    return ""


def _ahead(
    eligible: Sequence[Candidate], able: Sequence[Candidate], standing: Mapping[str, Standing]
) -> Candidate | None:
    """Return the best of those that may not be chosen, if chance does not explain its score."""
    ahead = [
        candidate
        for candidate in able
        if candidate not in eligible
        and -standing[candidate.name].behind > ONE_PERCENT * standing[candidate.name].behind_stderr
    ]
    return max(ahead, key=lambda candidate: candidate.score_mean, default=None)


def _simplicity(candidate: Candidate) -> tuple[float, float, float]:
    """Order by the number of fitted numbers, then by nearness to the facts, then by score."""
    return candidate.parameters, _away(candidate), -candidate.score_mean


def _nearness(candidate: Candidate) -> tuple[float, float, float, float]:
    """Order by nearness to the known facts."""
    return (_away(candidate), *_simplicity(candidate))


def _simplest(candidates: Sequence[Candidate]) -> Candidate:
    """Return the simplest or, where others assume another c(z), the nearest to the facts."""
    first = min(candidates, key=_simplicity)
    rivals = [
        candidate
        for candidate in candidates
        if candidate.anchor != first.anchor and moved_mass(candidate, first) > _OTHER_WEIGHTS
    ]
    return min([first, *rivals], key=_nearness) if rivals and first.distance is not None else first


def _away(candidate: Candidate) -> float:
    """Return by how many standard errors the worst fact is off."""
    return 0.0 if candidate.distance is None else candidate.distance.standard_errors


def _why(
    chosen: Candidate,
    near: Sequence[Candidate],
    agreeing: Sequence[Candidate],
    standing: Mapping[str, Standing],
) -> str:
    lead = max(near, key=lambda candidate: candidate.score_mean)
    if near == [chosen]:
        return (
            f"{chosen.name} is chosen: of the eligible candidates it has the best score, and no "
            "other is within one standard error of it."
        )
    passed = [candidate.name for candidate in near if candidate not in agreeing] if agreeing else []
    rank = "whose distance from the best score chance explains"
    if chosen in near:
        rank = "within one standard error of the best score"
    by_facts = not agreeing or any(other.parameters < chosen.parameters for other in agreeing)
    how = "one nearest to what is known about the target" if by_facts else "simplest"
    sentence = (
        f"{chosen.name} is chosen: the {how} "
        f"{rank}{' that agrees with what is known about the target' if passed else ''}"
    )
    own = standing[chosen.name]
    if own.behind > SAME_SCORE:
        sentence += (
            f" ({lead.name} is ahead by {own.behind:.2g}, standard error {own.behind_stderr:.2g})"
        )
    sentence += "."
    if not passed:
        return sentence
    return f"{sentence} Passed over for contradicting it: {first_few(passed)}."


def _find_ties(able: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group candidates with the same q, by their scores image by image."""
    groups: list[list[Candidate]] = []
    for candidate in able:
        own = next((group for group in groups if _same_score(group[0], candidate)), None)
        if own is None:
            groups.append([candidate])
        else:
            own.append(candidate)
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
    """List those that describe the sources as well as the chosen one and give other weights."""
    if chosen is None:
        return []
    tied = next((group for group in ties if chosen in group), ())
    undecided = []
    for candidate in eligible:
        if candidate is chosen or candidate.contradicts != chosen.contradicts:
            continue
        elsewhere = (
            standing[candidate.name].is_near
            and standing[chosen.name].is_near
            and candidate.anchor != chosen.anchor
        )
        if (candidate in tied and moved_mass(candidate, chosen) > _SAME_WEIGHTS) or (
            elsewhere and moved_mass(candidate, chosen) > _OTHER_WEIGHTS
        ):
            undecided.append(candidate)
    return undecided


def moved_mass(first: Candidate, second: Candidate) -> float:
    """Compute ½ Σ_i |π_i − π'_i|, the share of the weight that is on different images."""
    assert first.weights is not None
    assert second.weights is not None
    return float(np.abs(first.weights.weight - second.weights.weight).sum() / 2)


def _cautions(
    chosen: Candidate,
    eligible: Sequence[Candidate],
    able: Sequence[Candidate],
    standing: Mapping[str, Standing],
    undecided: Sequence[Candidate],
    given: Collection[str],
) -> tuple[str, ...]:
    """List what speaks against the chosen one."""
    cautions = []
    if undecided:
        cautions.append(
            f"Nothing distinguishes it from {first_few([other.name for other in undecided])}: they "
            "describe the sources equally well and differ in what they assume about a factor "
            f"common to all sources, which the images cannot show.{_would_tell(given)}"
        )
    if chosen.contradicts:
        assert chosen.distance is not None
        cautions.append(
            f"Yet it contradicts what is known about the target: {chosen.distance.fact} is off by "
            f"{chosen.distance.largest:.2g} standard deviations "
            f"({chosen.distance.standard_errors:.1f} standard errors)."
            + (
                " A product with Strata over the known shares would agree."
                if set(given) & set(_ANCHORS["a known share of the target"])
                else " A bias model that reads it may agree."
            )
        )
    ahead = _ahead(eligible, able, standing)
    if ahead is not None:
        cautions.append(
            f"{ahead.name} has a better score, but {ahead.obstacle}: the sources differ in more "
            "than these images can undo, or by something that only identifies them."
        )
    if chosen.objections:
        cautions.append(_objection(chosen, able))
    return tuple(cautions)


def _would_tell(given: Collection[str]) -> str:
    """Name what would tell them apart and is not given; nothing where all of it is."""
    lacking = [what for what, kinds in _ANCHORS.items() if not set(kinds) & set(given)]
    if not lacking:
        return ""
    text = " or ".join([", ".join(lacking[:-1]), lacking[-1]] if len(lacking) > 1 else lacking)
    # "it" is the target, which the first of them names.
    text = text.replace("a sample of it", "a sample of the target") if len(lacking) < 3 else text
    return f" {text[0].upper()}{text[1:]} would."


def _objection(chosen: Candidate, able: Sequence[Candidate]) -> str:
    """Say which tests speak against the chosen one, and whether any candidate is left."""
    tests = " and ".join(f"{name}, p = {p:.2g}" for name, p in chosen.objections.items())
    others = [other.name for other in able if other.fit_p is not None and not other.objections]
    if others:
        left = f"nothing speaks against {first_few(others)}"
    else:
        left = "none of the candidates may be right"
    return f"The images contradict it ({tests}, all tests counted): {left}."
