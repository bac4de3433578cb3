"""The smallest collection that reaches every goal: of one kind of image, or the cheapest mix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from unskew.diagnosis.advice_record import CollectOption, Goal
from unskew.diagnosis.expected_problem import Collectable, ExpectedProblem
from unskew.records import Floats

# More images than so many times the pool are no advice.
_MOST_TIMES = 1e4
# What a hundred times as many images change by this share has no limit there.
_STILL = 0.2
# A number of images is found to this precision.
_PRECISION = 2e-3
# Of more kinds of images the most effective are worked out.
MOST_KINDS = 40
_MOST_MIXED = 12
# A mix is worth its trouble from this saving on.
SAVING = 0.02


@dataclass(frozen=True, eq=False)
class CollectionSearch:
    """The expected problem and its goals.

    ``n`` is the number of images today, ``most`` that of kinds worked out.
    """

    problem: ExpectedProblem
    goals: tuple[Goal, ...]
    n: float
    most: int = MOST_KINDS

    def figures(self, plan: Mapping[Collectable, float]) -> list[float]:
        """Return every goal's figure once the plan is collected."""
        kinds = {goal.kind for goal in self.goals}
        variance_h = iter(self.problem.variances(plan) if "stderr" in kinds else ())
        size = self.problem.effective_size(plan) if kinds & {"ess", "ess share"} else math.nan
        other = {
            "ess": lambda: size,
            "ess share": lambda: size / (self.n + sum(plan.values())),
            "link error": lambda: self.problem.link_error(plan),
            "heaviest": lambda: self.problem.heaviest(plan),
        }
        return [
            math.sqrt(next(variance_h)) if goal.kind == "stderr" else float(other[goal.kind]())
            for goal in self.goals
        ]

    def excess(self, plan: Mapping[Collectable, float]) -> Floats:
        """Return log(figure/wanted) of every goal, positive where it is missed."""
        sign_g = np.array([-1.0 if goal.grows else 1.0 for goal in self.goals])
        figure_g = np.maximum(self.figures(plan), 1e-300)
        return np.asarray(sign_g * np.log(figure_g / [goal.wanted for goal in self.goals]))

    def is_enough(self, plan: Mapping[Collectable, float]) -> bool:
        return bool((self.excess(plan) <= 1e-9).all())

    def smallest(self, plan: Mapping[Collectable, float]) -> float | None:
        """Return the smallest multiple of the plan that is enough; None where there is none."""
        total = sum(plan.values())

        def enough(times: float) -> bool:
            return self.is_enough({kind: times * images for kind, images in plan.items()})

        low, high = 0.0, self.n / 64 / total
        while not enough(high):
            low, high = high, 2.0 * high
            if high * total > _MOST_TIMES * self.n:
                return None
        while (high - low) * total > max(1.0, _PRECISION * high * total):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def option(self, kind: Collectable, cost: float) -> CollectOption:
        """Find how many images of one kind are enough, or why no number is."""
        images = self.smallest({kind: 1.0})
        if images is None:
            expected = self._named({kind: _MOST_TIMES * self.n})
            reason = self._why_not(kind, expected)
            return CollectOption(kind.kind, kind.name, None, None, expected, reason)
        whole = math.ceil(images)
        return CollectOption(
            kind.kind, kind.name, whole, whole * cost, self._named({kind: float(whole)})
        )

    def _named(self, plan: Mapping[Collectable, float]) -> dict[str, float]:
        names = [goal.name for goal in self.goals]
        return dict(zip(names, self.figures(plan), strict=True))

    def _why_not(self, kind: Collectable, expected: Mapping[str, float]) -> str:
        floored = [
            goal for goal in self.goals if goal.kind == "stderr" and goal.floor >= goal.wanted
        ]
        if floored:
            return (
                f"the error of the target's own margins is {floored[0].floor:.3g} already: only a "
                "larger survey lowers it"
            )
        missed = self.excess({kind: _MOST_TIMES * self.n})
        goal = self.goals[int(np.argmax(missed))]
        best = f"{goal.name} at best {expected[goal.name]:.3g}"
        never = self.problem.never_selected(kind)
        if never > 5e-4:
            return f"{best}: {100 * never:.3g}% of the target gets no further image"
        further = self._named({kind: 100 * _MOST_TIMES * self.n})[goal.name]
        if abs(further - expected[goal.name]) > _STILL * expected[goal.name]:
            return f"{best} with {_MOST_TIMES * self.n:,.0f} images: it takes more"
        sample = "" if self.problem.kept_k.all() else "the target's sample and of "
        return f"{best}: the rest is the error of {sample}other sources"

    def most_effective(self, kinds: Sequence[Collectable]) -> list[Collectable]:
        """Return at most ``most`` kinds, those that get nearest with a tenth of the pool."""
        if len(kinds) <= self.most:
            return list(kinds)
        left = {kind: float(self.excess({kind: self.n / 10}).max()) for kind in kinds}
        return sorted(kinds, key=lambda kind: left[kind])[: self.most]

    def cheapest_mix(
        self, costs: Mapping[Collectable, float]
    ) -> tuple[dict[Collectable, int], float] | None:
        """Find the cheapest numbers of images of several kinds; None where none are enough.

        The variance is convex in the numbers (it is that of a likelihood), so that a local search
        finds the minimum of Σ cost_j m_j where every goal is reached.
        """
        kinds = sorted(
            self.most_effective(list(costs)),
            key=lambda kind: float(self.excess({kind: self.n / 10 / costs[kind]}).max()),
        )[:_MOST_MIXED]
        start = self.smallest({kind: 1.0 / costs[kind] for kind in kinds})
        if start is None:
            return None
        cost_j = np.array([costs[kind] for kind in kinds])
        x0_j = start / cost_j / self.n

        def plan(x_j: Floats) -> dict[Collectable, float]:
            return {kind: self.n * max(float(x), 0.0) for kind, x in zip(kinds, x_j, strict=True)}

        scale = float(cost_j @ x0_j)
        solved = scipy.optimize.minimize(
            lambda x_j: float(cost_j @ x_j) / scale,
            x0_j,
            jac=lambda x_j: cost_j / scale,
            bounds=[(0.0, None)] * len(kinds),
            constraints={"type": "ineq", "fun": lambda x_j: -self.excess(plan(x_j))},
            method="SLSQP",
            options={"maxiter": 60, "ftol": 1e-5},
        )
        return self._whole(plan(solved.x), costs)

    def _whole(
        self, plan: Mapping[Collectable, float], costs: Mapping[Collectable, float]
    ) -> tuple[dict[Collectable, int], float] | None:
        """Leave out what hardly counts, scale the rest until it is enough, and round up."""
        spent = sum(images * costs[kind] for kind, images in plan.items())
        kept = {
            kind: images for kind, images in plan.items() if images * costs[kind] > 0.02 * spent
        }
        times = self.smallest(kept) if kept else None
        if times is None:
            return None
        whole = {kind: math.ceil(times * images) for kind, images in kept.items()}
        return whole, sum(images * costs[kind] for kind, images in whole.items())
