"""Settings on CIFAR with a known truth: sources, what a user would know, and the true ω.

The population is the training split, which is the target: balanced classes. Every draw is with
replacement. The article's are class overlap and acquisition with equal sizes (and 0.75^k for
acquisition). Additions are unequal sizes with class overlap, a large source that misses two
classes, and one whose backgrounds depend on the object, the last two with a small unbiased source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import ConfigError
from unskew.records import Floats, Ints, Pool, Target
from unskew.scenarios import Scenario, acquisition, censored, overlapping_classes
from unskew.scenarios.image_acquisition import draw_from_population, soft_bins

if TYPE_CHECKING:
    from unskew.bias.base import Bias

TOTAL = 50_000
BORDER = ("border_h", "border_s", "border_v")
# bird, cat, deer, dog, frog, horse of CIFAR-10; the others are vehicles.
ANIMALS = (2, 3, 4, 5, 6, 7)
CAT, DOG = 3, 5
UNBIASED = "unbiased"


@dataclass(frozen=True, eq=False)
class Population:
    """The images that sources draw from.

    Attributes
    ----------
    label : (N,) codes of the classes.
    border : (N, 3) hue, saturation and value of the border of each image.
    """

    label: Ints = field(repr=False)
    border: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class Draw:
    """Images drawn from the sources of a setting.

    Attributes
    ----------
    index : (n,) which image of the population each is.
    pool : the images with source, label, border and content (copies of one image share it), ids 0 …
        n−1.
    omega : (n, K) the true ω.
    families : bias models that a user might choose, by the name of the arm, each with its target;
        the first is the one that fits the setting.
    """

    index: Ints = field(repr=False)
    pool: Pool = field(repr=False)
    omega: Floats = field(repr=False)
    families: Mapping[str, tuple[Bias, Target | None]]


class Setting(ABC):
    """A way to draw sources. ``key`` names it in files, ``title`` in tables."""

    key: str
    title: str

    @abstractmethod
    def scenario(self, population: Population, seed: int) -> Scenario:
        """Draw the images, with the truth."""

    @abstractmethod
    def population_omega(self, population: Population) -> Floats:
        """Return the (N, K) true ω of the whole population, up to a constant per column."""

    @abstractmethod
    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        """Return the bias models of a user who knows how the sources arose, with their targets."""

    @property
    def source_names(self) -> tuple[str, ...] | None:
        """Return the names of the sources; None: source 1, source 2, …"""
        return None

    def draw(self, population: Population, seed: int) -> Draw:
        """Draw the sources; other seeds, other images."""
        scenario = self.scenario(population, seed)
        if scenario.index is None:
            raise ConfigError("a setting draws images of a population.")
        names = self.source_names or tuple(f"source {k + 1}" for k in range(scenario.sizes.size))
        border_n3 = population.border[scenario.index]
        columns = {name: border_n3[:, at] for at, name in enumerate(BORDER)}
        label_n = population.label[scenario.index]
        pool = Pool.from_arrays(
            np.array(names, dtype=object)[scenario.source],
            label=label_n,
            content=np.array([f"image {at}" for at in scenario.index], dtype=object),
            **columns,
            **self.columns(label_n, border_n3, scenario.source),
        )
        return Draw(scenario.index, pool, scenario.omega, self.families())

    def columns(self, label_n: Ints, border_n3: Floats, source_n: Ints) -> Mapping[str, Floats]:
        """Return further columns of the pool, which a user could see in the drawn images."""
        return {}

    def group(self, population: Population) -> tuple[Ints, tuple[str, ...]]:
        """Return (group of every image whose worst accuracy matters, names): the classes."""
        return population.label, tuple(f"class {y}" for y in range(int(population.label.max()) + 1))


def unseen_chance(omega_nk: Floats, size_k: Ints) -> Floats:
    """Return (N,) Π_k (1 − p_ik)^{n_k}, p_ik = ω_ik/Σ_j ω_jk.

    The probability that no source draws an image of the population.
    """
    log_nk = size_k * np.log1p(-omega_nk / omega_nk.sum(axis=0))
    return np.asarray(np.exp(log_nk.sum(axis=1)))


def falling_sizes(ratio: float, n_sources: int, total: int = TOTAL) -> Ints:
    """Return the (K,) sizes n_k ∝ ratio^k that sum to ``total``, largest remainders rounded up."""
    wanted_k = total * ratio ** np.arange(n_sources) / (ratio ** np.arange(n_sources)).sum()
    size_k: Ints = np.floor(wanted_k).astype(np.int64)
    size_k[np.argsort(size_k - wanted_k, kind="stable")[: total - size_k.sum()]] += 1
    return size_k


@dataclass(frozen=True)
class ClassOverlap(Setting):
    """Sources that show their own classes and, with probability ``overlap``, those of the next.

    n_k ∝ ratio^k (the article's 4.2).
    """

    overlap: float
    ratio: float = 1.0
    n_sources: int = 5
    total: int = TOTAL

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"classes-{self.overlap:g}" + ("" if self.ratio == 1.0 else f"-{self.ratio:g}")

    @property
    def title(self) -> str:  # type: ignore[override]
        sizes = "equal sizes" if self.ratio == 1.0 else f"n_k ∝ {self.ratio:g}^k"
        return f"class overlap {self.overlap:g}, K = {self.n_sources}, {sizes}"

    def scenario(self, population: Population, seed: int) -> Scenario:
        sizes = falling_sizes(self.ratio, self.n_sources, self.total)
        return overlapping_classes(
            population.label, overlap=self.overlap, n_sources=self.n_sources, sizes=sizes, rng=seed
        )

    def population_omega(self, population: Population) -> Floats:
        n_classes = int(population.label.max()) + 1
        own_nk = (population.label // (n_classes // self.n_sources))[:, None] == np.arange(
            self.n_sources
        )
        # Source k shows the classes of source k + 1, too.
        next_nk = np.roll(own_nk, -1, axis=1)
        share_m = np.bincount(population.label) / population.label.size
        shown_nk: Floats = (1.0 - self.overlap) * own_nk + self.overlap * next_nk
        return shown_nk / share_m[population.label][:, None]

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Strata

        return {"debiased": (Strata("label"), Target.uniform("label"))}


@dataclass(frozen=True)
class MissingClasses(Setting):
    """A large source that never shows some classes, and a small unbiased one."""

    sizes: tuple[int, int] = (45_000, 2_000)
    hidden: tuple[int, ...] = (CAT, DOG)

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"missing-{self.sizes[1]}"

    @property
    def title(self) -> str:  # type: ignore[override]
        return (
            f"{self.sizes[0]:,} images that never show cats and dogs + {self.sizes[1]:,} unbiased"
        )

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("without cats and dogs", UNBIASED)

    def scenario(self, population: Population, seed: int) -> Scenario:
        return censored(population.label, hidden=self.hidden, sizes=self.sizes, rng=seed)

    def population_omega(self, population: Population) -> Floats:
        return np.column_stack(
            [~np.isin(population.label, self.hidden), np.ones(population.label.size)]
        ).astype(np.float64)

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Strata

        return {"debiased": (Strata("label"), Target.uniform("label"))}


@dataclass(frozen=True)
class Background(Setting):
    """A source that prefers bright vehicles and dark animals, and a small unbiased one.

    ω_1 = sigmoid(±slope (V − median V)), + for vehicles and − for animals, V the border's value;
    ω_2 = 1.

    The user knows that the first source likes bright vehicles and dark animals, not how much. With
    m the median of V in the unbiased source, z = ±(V − m) says how usual a background is; ``usual``
    = max(z, 0) and ``unusual`` = max(−z, 0). The maximum-likelihood family is a tilt in these two,
    log ω_1 = θ₁ usual + θ₂ unusual: log-linear on either side of the median.
    """

    sizes: tuple[int, int] = (45_000, 500)
    slope: float = 25.0
    # Classes that this source shows before dark backgrounds.
    dark: tuple[int, ...] = ANIMALS

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"background-{self.sizes[1]}"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"bright vehicles and dark animals, {self.sizes[0]:,} + {self.sizes[1]:,} unbiased"

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("usual backgrounds", UNBIASED)

    def scenario(self, population: Population, seed: int) -> Scenario:
        return draw_from_population(
            self.population_omega(population),
            population.border,
            population.label,
            sizes=self.sizes,
            rng=seed,
            description="a source whose backgrounds go with what it shows, and an unbiased one",
        )

    def population_omega(self, population: Population) -> Floats:
        value_n = population.border[:, 2]
        sign_n = np.where(np.isin(population.label, self.dark), -1.0, 1.0)
        omega_n = 1.0 / (1.0 + np.exp(-self.slope * sign_n * (value_n - np.median(value_n))))
        return np.column_stack([omega_n, np.ones_like(omega_n)])

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Box, Tilt

        known = Target.source(UNBIASED)
        return {
            "debiased": (Tilt(["usual", "unusual"]), known),
            "box": (Box(["usual", "unusual"]), known),
        }

    def columns(self, label_n: Ints, border_n3: Floats, source_n: Ints) -> Mapping[str, Floats]:
        value_n = border_n3[:, 2]
        usual_n = np.where(np.isin(label_n, self.dark), -1.0, 1.0) * (
            value_n - np.median(value_n[source_n == 1])
        )
        return {"usual": np.maximum(usual_n, 0.0), "unusual": np.maximum(-usual_n, 0.0)}

    def group(self, population: Population) -> tuple[Ints, tuple[str, ...]]:
        value_n = population.border[:, 2]
        is_animal_n = np.isin(population.label, self.dark)
        names = ("dark vehicle", "bright vehicle", "dark animal", "bright animal")
        return 2 * is_animal_n.astype(np.int64) + (value_n > np.median(value_n)), names


@dataclass(frozen=True)
class BothBiases(Background):
    """`Background`, whose first source also shows the classes in falling shares.

    Its shares fall geometrically by the factor ``rarest`` from the first class to the last.
    """

    rarest: float = 0.05

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"both-{self.sizes[1]}"

    @property
    def title(self) -> str:  # type: ignore[override]
        return (
            f"bright vehicles, dark animals and classes in falling shares, {self.sizes[0]:,} + "
            f"{self.sizes[1]:,} unbiased"
        )

    def population_omega(self, population: Population) -> Floats:
        omega_n2 = super().population_omega(population)
        n_classes = int(population.label.max()) + 1
        omega_n2[:, 0] *= self.rarest ** (population.label / (n_classes - 1))
        return omega_n2

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Product, Strata, Tilt

        tilt = Tilt(["usual", "unusual"], reference=UNBIASED)
        return {"debiased": (Product([Strata("label"), tilt]), Target.uniform("label"))}


@dataclass(frozen=True)
class Acquisition(Setting):
    """Eight sources, each with its own octant of the border's hue, saturation and value.

    ω falls off over ``decay`` (the article's 4.3).
    """

    decay: float
    ratio: float = 1.0
    total: int = TOTAL

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"acquisition-{self.decay:g}" + ("" if self.ratio == 1.0 else f"-{self.ratio:g}")

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"acquisition {self.decay:g}, K = 8, " + (
            "equal sizes" if self.ratio == 1.0 else f"n_k ∝ {self.ratio:g}^k"
        )

    def scenario(self, population: Population, seed: int) -> Scenario:
        return acquisition(
            population.border,
            population.label,
            decay=self.decay,
            sizes=falling_sizes(self.ratio, 8, self.total),
            rng=seed,
        )

    def population_omega(self, population: Population) -> Floats:
        return soft_bins(population.border, self.decay)

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Box, SoftBox

        return {"debiased": (SoftBox(list(BORDER)), None), "box": (Box(list(BORDER)), None)}


# Settings where debiasing matters, and the article's.
BEYOND: Sequence[Setting] = (
    ClassOverlap(0.1, 0.5),
    ClassOverlap(0.1, 0.3),
    MissingClasses((45_000, 2_000)),
    MissingClasses((45_000, 500)),
    Background(),
    BothBiases(),
)
ARTICLE: Sequence[Setting] = (
    *(ClassOverlap(overlap) for overlap in (0.001, 0.01, 0.1, 0.2)),
    *(Acquisition(decay, ratio) for ratio in (1.0, 0.75) for decay in (0.1, 1.0, 10.0)),
)
