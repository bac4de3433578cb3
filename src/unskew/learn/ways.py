"""Which way to learn from the weights: candidates judged on held-out images, and the choice.

A candidate is a position τ of the dial (`turn_dial`), for a probe also a ridge. Each is judged by
its weighted score on images that it has not seen. The choice starts from τ = ½ and leaves it only
for a way that is better by more than one standard error of the paired difference. Ridges are
compared by log loss: they hardly change which class comes first, but how clearly it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.learn.presets import TAUS, WAYS, Way
from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size

WAYS_OF_PROBE = ("auto", *TAUS)
# Why an arm that is no way of the debiasing weights was trained as it was.
AS_DEFINED = (
    "weights: trained as the arm is defined{words}; other ways are for the debiasing weights."
)
# Fewer effective images than this judge too roughly to choose by.
LEAST_ESS = 300.0
# Where the choice starts, and what is used without one.
START, DEFAULT_RIDGE = 0.5, 1e-2
# Of the bootstrap that says what a score loses when the choice is not made on the same images;
# units are collected into at most so many.
_REPLICATES, _CLUSTERS = 200, 2000
# Smaller differences are those of the order of a sum.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class WayScore:
    """One way on held-out images.

    Attributes
    ----------
    way : "weights", "half" or "logit".
    ridge : the best of its ridges; None where none is chosen.
    score : weighted accuracy.
    gain : its difference from the starting point, "half".
    stderr : of the difference, paired by image and clustered by unit.
    power : to which the weights were taken before: 1; 0: they were equal.
    """

    way: Way
    ridge: float | None
    score: float
    gain: float
    stderr: float
    power: float = 1.0

    @property
    def name(self) -> str:
        """The way in words; other powers than 1 have names of their own."""
        return name_of(self.way, self.power)


def name_of(way: Way, power: float) -> str:
    """Return the name of a way from weights that are taken to a power before."""
    names = {0.0: "equal weights", 0.5: "square roots of the weights"}
    return way if power == 1.0 else names.get(power, f"{way}, weights to the power {power:g}")


@dataclass(frozen=True)
class WayChoice:
    """The way that was chosen, and why.

    Attributes
    ----------
    way : "weights", "half", "logit" or "head".
    ridge : of a probe; None for other learners.
    reason : in words.
    scores : of every way that was tried; empty where nothing was chosen from.
    score : weighted accuracy of the chosen way, corrected for the choice; None where it was not
        tried itself.
    ess : effective number of units that judged.
    power : to which the weights are taken before: 1; less where weights are worth too few images
        for what they bring; 0: they are equal.
    within : power to which the weights of a probe are taken within every class, whose sum stays.
    refit : of a network, the way in which its last layer was refitted; None where it was not.
    labels : of images with any number of labels, the choice for each; "auto" and None above where
        they differ.
    """

    way: Way
    ridge: float | None
    reason: str
    scores: tuple[WayScore, ...] = ()
    score: float | None = None
    ess: float | None = None
    power: float = 1.0
    within: float = 1.0
    refit: Way | None = None
    labels: Mapping[str, WayChoice] = field(default_factory=dict)

    @property
    def tau(self) -> float:
        """The position of the dial; of a network whose last layer was refitted, of that layer."""
        return TAUS.get(self.refit or self.way, START)

    @property
    def name(self) -> str:
        """The way in words, as in the rows of ``scores``."""
        return name_of(self.way, self.power)

    @property
    def own(self) -> WayScore | None:
        """The row of ``scores`` that was chosen; None where it was not tried itself."""
        key = (self.refit or self.way, self.power)
        return next((row for row in self.scores if (row.way, row.power) == key), None)

    @property
    def optimism(self) -> float:
        """How much higher its score is on the images that chose it; 0 where none did."""
        return 0.0 if self.own is None or self.score is None else self.own.score - self.score

    @property
    def sentence(self) -> str:
        """The reason, and what the choice leaves of the score."""
        if self.optimism <= 0 or self.score is None:
            return self.reason
        if len(self.scores) == 1:
            return (
                f"{self.reason} Its accuracy on held-out images of train, corrected for the choice "
                f"of its ridge on them, is {100 * self.score:.1f}%."
            )
        return (
            f"{self.reason} Corrected for having been chosen on these images, its accuracy there "
            f"is {100 * self.score:.1f}%."
        )

    @property
    def compared(self) -> tuple[WayScore, ...]:
        """The rows of ``scores`` where there is something to compare; a single one is none."""
        return self.scores if len(self.scores) > 1 else ()

    def without_labels(self) -> WayChoice:
        """Return it without the names of labels, which may be withheld."""
        if not self.labels:
            return self
        return replace(self, labels={}, reason=f"each of {len(self.labels)} labels by itself.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        rows = [{"name": row.name, **asdict(row)} for row in self.scores]
        values = {"name": self.name, **asdict(self), "tau": self.tau, "scores": rows}
        by_label = {name: choice.to_dict() for name, choice in self.labels.items()}
        return values | {"labels": by_label} if by_label else _without_labels(values)

    @classmethod
    @checked
    def from_dict(cls, values: Mapping[str, Any]) -> WayChoice:
        """Read what `to_dict` returned."""

        def fields(record: Mapping[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in record.items() if key not in ("name", "tau")}

        try:
            known = fields(values)
            known["scores"] = tuple(WayScore(**fields(row)) for row in values["scores"])
            by_label = values.get("labels", {})
            known["labels"] = {name: cls.from_dict(choice) for name, choice in by_label.items()}
            return cls(**known)
        except (AttributeError, KeyError, TypeError) as error:
            raise DataError(f"this is not what WayChoice.to_dict returns: {error}.") from None


def _without_labels(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "labels"}


def join_choices(choices: Mapping[str, WayChoice]) -> WayChoice:
    """Return the choices for several labels as one: what they have in common, and how many.

    Of a single label it is its own.
    """
    own = list(choices.values())
    if len(own) == 1:
        return replace(own[0], labels=choices)
    ways = list(dict.fromkeys(choice.way for choice in own))
    parts = []
    for way in ways:
        names = [name for name, choice in choices.items() if choice.way == way]
        parts.append(f"{way} for {first_few(names, 4) if len(ways) > 1 else 'all'}")
    scores = [choice.score for choice in own if choice.score is not None]
    sizes = [choice.ess for choice in own if choice.ess is not None]
    ridges = {choice.ridge for choice in own}
    n_few = sum(ess < LEAST_ESS for ess in sizes)
    few = (
        f" Of {n_few} the held-out images are worth fewer than {LEAST_ESS:.0f} equally weighted "
        "ones, which is too few to choose."
        if n_few
        else ""
    )
    return WayChoice(
        ways[0] if len(ways) == 1 else "auto",
        ridges.pop() if len(ridges) == 1 else None,
        f"each of {len(own)} labels by itself: {'; '.join(parts)}.{few}",
        score=float(np.mean(scores)) if 0 < len(scores) == len(own) else None,
        ess=min(sizes) if 0 < len(sizes) == len(own) else None,
        labels=choices,
    )


def check_way(way: Any, allowed: Sequence[str] = WAYS, *, why: str = "") -> Way:
    """Return ``way`` if it is one of ``allowed``; ``why`` says what the learner cannot take."""
    if way not in WAYS:
        raise ConfigError(
            f"way is one of {', '.join(map(repr, WAYS))}; got {way!r}.{did_you_mean(way, WAYS)}",
            option="way",
            value=way,
            allowed=list(WAYS),
        )
    if way not in allowed:
        raise ConfigError(
            f"way {way!r} does not work here: {why}. Use one of {', '.join(map(repr, allowed))}.",
            option="way",
            value=way,
            allowed=list(allowed),
        )
    checked: Way = way
    return checked


def way_of(tau: float) -> Way:
    """Return the name of a position of the dial."""
    return next(way for way, position in TAUS.items() if position == tau)


@dataclass(frozen=True, eq=False)
class HeldOutHits:
    """Candidates, and whether each was right on each held-out image.

    Attributes
    ----------
    tau : (C,) positions of the dial.
    ridge : (C,) penalties; NaN where the learner has none to choose.
    hit : (C, m) 1 or 0.
    weight, unit : (m,) of the images that judge: their weights, and which belong together.
    loss : (C, m) log losses, by which ridges are compared; None: by their hits.
    """

    tau: Floats
    ridge: Floats
    hit: npt.NDArray[Any] = field(repr=False)
    weight: Floats = field(repr=False)
    unit: Ints = field(repr=False)
    loss: npt.NDArray[Any] | None = field(repr=False, default=None)

    @property
    def start(self) -> float:
        """Where the choice starts: τ = ½, or the first of other positions."""
        return START if (self.tau == START).any() else float(self.tau[0])

    def by_unit(self, most: int | None = None, seed: int = 0) -> _UnitSums:
        """Sum over units; ``most``: units are collected at random into so many at most."""
        unit_n = np.unique(self.unit, return_inverse=True)[1]
        n_units = int(unit_n.max()) + 1
        if most is not None and n_units > most:
            group_u = np.random.default_rng(seed).permutation(n_units) % most
            unit_n, n_units = group_u[unit_n], most
        weight_n = self.weight / self.weight.sum()

        def total(value_n: Any) -> Floats:
            return np.bincount(unit_n, weight_n * value_n, n_units).astype(np.float64)

        right_cu = np.stack([total(hit_n) for hit_n in self.hit])
        merit_cu = (
            right_cu if self.loss is None else -np.stack([total(loss_n) for loss_n in self.loss])
        )
        return _UnitSums(total(1.0), right_cu, merit_cu)


@dataclass(frozen=True, eq=False)
class _UnitSums:
    """Over units: the weights (U,), and the weighted hits and merits of ridges (C, U)."""

    weight: Floats
    right: Floats
    merit: Floats

    def compare(
        self, value_cu: Floats, at: int, start: int, count_u: Floats
    ) -> tuple[float, float]:
        """Return the difference of two candidates' means, and its standard error."""
        difference_u = value_cu[at] - value_cu[start]
        gain = float(count_u @ difference_u) / float(count_u @ self.weight)
        return gain, max(paired_error(difference_u, self.weight, count_u), _ROUNDING)


def choose_way(
    judged: HeldOutHits,
    *,
    least_ess: float = LEAST_ESS,
    seed: int = 0,
    alone: str = "no other way was tried",
) -> WayChoice:
    """Choose the dial, and a ridge with it, from held-out scores.

    It starts from τ = ½ and the ridge next to 0.01, and leaves a ridge, then τ, only for one that
    is better by more than one standard error of the paired difference Σ_i w_i (h_i − h′_i),
    clustered by unit; h are hits, for ridges log losses where there are any. With fewer than
    ``least_ess`` effective units it leaves neither. The score is corrected for the choice by a
    bootstrap of the units. Where ½ is no candidate, the first τ takes its place. ``alone`` says why
    there is a single τ, if there is.
    """
    units = judged.by_unit()
    ess = effective_size(units.weight)
    if ess < least_ess:
        return _no_choice(judged, units.right.sum(axis=1), ess, least_ess, alone)
    chosen, rows = _decide(judged, units, np.ones_like(units.weight))
    score = float(units.right[chosen].sum()) - _optimism(judged, seed)
    row = next(row for row in rows if row.way == way_of(float(judged.tau[chosen])))
    reason = _reason(row, rows, way_of(judged.start), alone)
    return WayChoice(row.way, row.ridge, reason, rows, score, ess)


def _no_choice(
    judged: HeldOutHits, score_c: Floats, ess: float, least_ess: float, alone: str
) -> WayChoice:
    way, at = way_of(judged.start), _default(judged, judged.start)
    few, reason = few_judge(ess, least_ess), f"{way}: {alone}."
    if not (judged.tau == judged.start).all():
        reason = f"{way}, the starting point: {few}."
    elif judged.tau.size > 1:
        reason += f" Its ridge is the usual one: {few}."
    return WayChoice(way, _ridge(judged.ridge[at]), reason, (), float(score_c[at]), ess)


def few_judge(ess: float, least_ess: float = LEAST_ESS) -> str:
    """Say that the held-out images are worth too few to choose by."""
    return (
        f"the held-out images are worth {ess:.0f} equally weighted ones, and a choice needs "
        f"{least_ess:.0f}"
    )


def _decide(
    judged: HeldOutHits, units: _UnitSums, count_u: Floats
) -> tuple[int, tuple[WayScore, ...]]:
    """Return the candidate that is chosen, and the best one of every τ; units count ``count_u``."""
    score_c, merit_c = (
        value_cu @ count_u / float(count_u @ units.weight)
        for value_cu in (units.right, units.merit)
    )
    # Of equal ones, up to rounding, the one next to the ridge that is used without a choice.
    rank_c = np.lexsort((-_distance(judged.ridge), np.round(merit_c, 10))).argsort()
    best = {}
    for tau in np.unique(judged.tau):
        own, default = np.flatnonzero(judged.tau == tau), _default(judged, tau)
        highest = int(own[rank_c[own].argmax()])
        gain, stderr = units.compare(units.merit, highest, default, count_u)
        best[float(tau)] = highest if gain > stderr else default
    rows, chosen = [], best[judged.start]
    for tau, at in best.items():
        gain, stderr = units.compare(units.right, at, best[judged.start], count_u)
        rows.append(
            WayScore(way_of(tau), _ridge(judged.ridge[at]), float(score_c[at]), gain, stderr)
        )
        if gain > stderr and score_c[at] > score_c[chosen]:
            chosen = at
    return chosen, tuple(rows)


def paired_error(difference_u: Floats, weight_u: Floats, count_u: Floats | None = None) -> float:
    """Return the standard error of Σ_u c_u δ_u/Σ_u c_u w_u over units, the weights taken as given.

    δ_u is the sum over a unit of weight × (h − h′), c_u how often the unit counts.
    """
    count_u = np.ones_like(weight_u) if count_u is None else count_u
    total = float(count_u @ weight_u)
    pull_u = difference_u - float(count_u @ difference_u) / total * weight_u
    return math.sqrt(float(count_u @ np.square(pull_u))) / total


def _default(judged: HeldOutHits, tau: float) -> int:
    """Return the candidate of that τ whose ridge is next to the default."""
    own = np.flatnonzero(judged.tau == tau)
    return int(own[_distance(judged.ridge[own]).argmin()])


def _optimism(judged: HeldOutHits, seed: int) -> float:
    """Estimate how much the score of a choice flatters it on the images that it was made on.

    The mean of S*(c*) − S(c*), c* chosen on a bootstrap sample whose scores are S* (Efron 1983),
    times √2: S* scatters about S, which itself scatters about the truth as much, so that the
    highest of equal candidates is √2 times as much too high in it.
    """
    units = judged.by_unit(_CLUSTERS, seed)
    right_cu, n_units = units.right, units.weight.size
    rng, gaps = np.random.default_rng(seed), []
    score_c, mean_u = right_cu.sum(axis=1), right_cu.mean(axis=0)
    for _ in range(_REPLICATES):
        drawn_u = rng.integers(0, n_units, n_units)
        count_u = np.bincount(drawn_u, minlength=n_units).astype(np.float64)
        total = float(count_u @ units.weight)
        if total > 0:
            chosen, _ = _decide(judged, units, count_u)
            # Less the mean of all candidates, which every sample moves alike.
            inside = float((right_cu[chosen] - mean_u) @ count_u) / total
            gaps.append(inside - float(score_c[chosen] - mean_u.sum()))
    return max(math.sqrt(2.0) * float(np.mean(gaps)), 0.0) if gaps else 0.0


def _distance(ridge_c: Floats) -> Floats:
    """Return how far ridges are from the default; 0 where there is none."""
    return np.asarray(np.nan_to_num(np.abs(np.log(ridge_c / DEFAULT_RIDGE))))


def _ridge(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _reason(chosen: WayScore, rows: Sequence[WayScore], start: Way, alone: str) -> str:
    if chosen.way != start:
        return (
            f"{chosen.way}: {_points(chosen.gain)} ± {100 * chosen.stderr:.1f} points better than "
            f"{start} on held-out images weighted to the target."
        )
    others = ", ".join(
        f"{row.way} {_points(row.gain)} ± {100 * row.stderr:.1f}" for row in rows if row != chosen
    )
    return (
        f"{start}: no other way is better by more than one standard error on held-out images "
        f"weighted to the target ({others} points)."
        if others
        else f"{start}: {alone}."
    )


def _points(gain: float) -> str:
    return f"{100 * gain:+.1f}"
