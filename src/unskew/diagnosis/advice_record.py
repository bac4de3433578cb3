"""What to collect, as a record: goals, ways to reach each, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.diagnosis.expected_problem import Kind
from unskew.engine.arguments import checked
from unskew.errors import first_few, short_name
from unskew.files.plain_json import json_value

GoalKind = Literal["stderr", "ess", "ess share", "link error", "heaviest"]

_GOALS: Mapping[GoalKind, str] = {
    "stderr": "standard error of {}",
    "ess": "effective number of images",
    "ess share": "effective share of the images",
    "link error": "target mass that weak links may misplace",
    "heaviest": "share of the variance that the heaviest image has",
}
_SHOWN = 12


@dataclass(frozen=True)
class Goal:
    """A figure and the level it shall reach.

    Attributes
    ----------
    kind : "stderr" of a target mean, "ess", "ess share", "link error" or "heaviest"; of the
        effective size more is better, of the others less.
    outcome : what the mean is of; empty for others.
    now, wanted : today's value, and the level.
    floor : what no number of images lowers it below: the error of the target's own margins.
    """

    kind: GoalKind
    outcome: str
    now: float
    wanted: float
    floor: float = 0.0

    @property
    def name(self) -> str:
        """The figure in words."""
        return _GOALS[self.kind].format(short_name(self.outcome, 80))

    @property
    def grows(self) -> bool:
        """Whether more is better."""
        return self.kind in ("ess", "ess share")

    @property
    def reached(self) -> bool:
        """Whether the level is reached already."""
        return self.now >= self.wanted if self.grows else self.now <= self.wanted

    def __str__(self) -> str:
        return f"{self.name}: {self.now:.3g} now, {self.wanted:.3g} wanted"


@dataclass(frozen=True)
class CollectOption:
    """One kind of image by itself: how many of it reach every goal.

    Attributes
    ----------
    kind : "source", "sample", "stratum", "class", "target", or "every" (all sources in proportion).
    name : of the source, stratum or class.
    images : the smallest number that reaches every goal; None if no number does.
    cost : of these images.
    expected : by goal, the figure with these images; of an impossible one, with 10,000 times the
        pool.
    reason : why no number of images is enough.
    """

    kind: Kind
    name: str
    images: int | None
    cost: float | None
    expected: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def label(self) -> str:
        """The kind of image in words."""
        name = short_name(self.name, 60)
        return {
            "source": f"images of {name}",
            "sample": "images for the target's sample (not for training)",
            "stratum": f"images with {name}",
            "class": f"images with {name}, drawn from the target",
            "target": "images drawn from the target",
            "every": "images of everything, in the proportions of today",
        }[self.kind]


@dataclass(frozen=True)
class MissingLink:
    """A link without which nothing is identifiable: an image of one source that another could take.

    Attributes
    ----------
    image_of : sources of which any may supply the image.
    selectable_by : sources of which any must be able to select it (ω > 0).
    """

    image_of: tuple[str, ...]
    selectable_by: tuple[str, ...]

    def __str__(self) -> str:
        first, second = (
            first_few([short_name(name) for name in names], 3)
            for names in (self.image_of, self.selectable_by)
        )
        return f"one image of {first} that {second} could have selected, too"


@dataclass(frozen=True, repr=False)
class Advice:
    """Which images to collect, and how many.

    Attributes
    ----------
    names : the sources.
    images : number of images today; None where nothing could be solved.
    goals : the figures and the levels they shall reach.
    options : every kind of image by itself, the cheapest first.
    mix : the cheapest combination, {name: images}, where it saves more than 2% of the best single
        one of the same kinds; else empty.
    mix_cost : of the mix.
    uncovered : strata of the target without any image, and how many of each are needed.
    links : links that are missing; where there are any, nothing else can be said.
    obstacle : why there is no solution today; empty if there is one.
    notes : what the numbers rest on.
    """

    names: tuple[str, ...]
    images: int | None
    goals: tuple[Goal, ...] = ()
    options: tuple[CollectOption, ...] = ()
    mix: Mapping[str, int] = field(default_factory=dict)
    mix_cost: float | None = None
    uncovered: Mapping[str, int] = field(default_factory=dict)
    links: tuple[MissingLink, ...] = ()
    obstacle: str = ""
    notes: tuple[str, ...] = ()

    @property
    def identifiable(self) -> bool:
        """Whether there are weights today."""
        return not self.obstacle

    @property
    def reached(self) -> bool:
        """Whether there is nothing to collect: every goal is reached."""
        return self.identifiable and all(goal.reached for goal in self.goals)

    @property
    def possible(self) -> tuple[CollectOption, ...]:
        """The kinds of images that reach the goals."""
        return tuple(option for option in self.options if option.images is not None)

    @property
    def best(self) -> CollectOption | None:
        """The cheapest single kind of image; None if none reaches the goals."""
        return next(iter(self.possible), None)

    @checked
    def option(self, name: str, kind: str | None = None) -> CollectOption:
        """Return the option of that name (and kind)."""
        return next(
            option for option in self.options if option.name == name and kind in (None, option.kind)
        )

    def lines(self) -> list[str]:
        """Return the advice as lines of text."""
        if self.links:
            return [
                f"Not identifiable: {self.obstacle}",
                f"Collect at least ({len(self.links)} in all; more make the link firm):",
                *(f"  {link}" for link in self.links),
                "Or add a source that covers all of them, such as a sample of the target.",
                *self.notes,
            ]
        lines = [f"Not identifiable: {self.obstacle}"] if self.obstacle else []
        lines += self._uncovered_lines()
        if not self.goals:
            return [*lines, *self.notes]
        lines += ["Wanted", *(f"  {goal}" for goal in self.goals)]
        if self.reached:
            return [*lines, "Nothing to collect: every level is reached.", *self.notes]
        also = ", besides the above" if self.uncovered else ""
        lines += [f"Any one of these is enough{also}", *self._table()]
        lines += self._mix_lines() + self._impossible_lines()
        return [*lines, *self.notes]

    def _uncovered_lines(self) -> list[str]:
        if not self.uncovered:
            return []
        width = max(len(f"{images:,}") for images in self.uncovered.values())
        shown = [
            f"  {images:>{width},}  images with {short_name(name, 80)}"
            for name, images in list(self.uncovered.items())[:_SHOWN]
        ]
        left = len(self.uncovered) - len(shown)
        more = [f"  … and of {left} further strata"] if left > 0 else []
        return ["No source has these parts of the target; collect", *shown, *more]

    def _table(self) -> list[str]:
        possible = self.possible[:_SHOWN]
        if not possible:
            return ["  nothing: no single kind of image reaches every level"]
        width = max(len(f"{option.images:,}") for option in possible)
        shows_cost = any(option.cost != option.images for option in possible)
        lines = [
            f"  {option.images:>{width},}  {option.label}"
            + (f" (cost {option.cost:,.6g})" if shows_cost and option.cost is not None else "")
            for option in possible
        ]
        left = len(self.possible) - len(possible)
        return lines + ([f"  … and {left} further kinds, which need more"] if left else [])

    def _mix_lines(self) -> list[str]:
        if not self.mix:
            return []
        shown = " + ".join(f"{images:,} {short_name(name)}" for name, images in self.mix.items())
        total = sum(self.mix.values())
        cost = "" if self.mix_cost == total else f", cost {self.mix_cost:,.6g}"
        return [f"Together: {shown} ({total:,} images{cost})"]

    def _impossible_lines(self) -> list[str]:
        impossible = [option for option in self.options if option.images is None][:_SHOWN]
        if not impossible:
            return []
        width = max(len(option.label) for option in impossible)
        return [
            "Not enough, whatever the number",
            *(f"  {option.label:<{width}}  {option.reason}" for option in impossible),
        ]

    def sentence(self) -> str:
        """Return the advice in one sentence, numbers to two digits; empty without any."""
        missed = [goal for goal in self.goals if not goal.reached]
        if not missed or not self.possible:
            return ""
        goal = max(missed, key=lambda goal: goal.now / goal.wanted)
        ways = [f"{_two_digits(option.images)} more {option.label}" for option in self.possible[:3]]
        others = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
        return (
            f"To bring the {goal.name} from {goal.now:.2g} to {goal.wanted:.2g}{others}, collect "
            f"about {', or '.join(ways)}; `unskew advise` works out other levels."
        )

    def __repr__(self) -> str:
        return "\n".join(["Advice", *(f"  {line}" for line in self.lines())])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "identifiable": self.identifiable,
            "reached": self.reached,
            **json_value(self),
        }


def _two_digits(images: int | None) -> str:
    """Round up to two digits: 1,234 is 1,300."""
    assert images is not None
    unit = 10 ** max(len(str(images)) - 2, 0)
    return f"{-(-images // unit) * unit:,}"
