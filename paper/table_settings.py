"""The rows of the tables: the article's settings, further ones, and the arms of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paper.settings import (
    BORDER,
    CAT,
    DOG,
    UNBIASED,
    Acquisition,
    ClassOverlap,
    MissingClasses,
    Population,
    Setting,
    falling_sizes,
)
from unskew.records import Floats, Ints, Target
from unskew.scenarios import Scenario
from unskew.scenarios.image_acquisition import draw_from_population

if TYPE_CHECKING:
    from unskew.bias.base import Bias

TABLES = {
    "classes": "Overlapping classes (4.2)",
    "balanced": "Image acquisition, balanced (4.3)",
    "imbalanced": "Image acquisition, n_k ∝ 0.75^k (4.3)",
    "beyond": "Beyond the article",
}
# Arms in the order of the columns.
ARMS = {
    "fair_ref": "fair Ref",
    "naive": "naive pooling",
    "article": "article's procedure",
    "as_published": "as published",
    "exact": "exact, article's ω̂",
    "soft_box": "exact, soft box",
    "product": "exact, product",
    "chosen": "exact, family chosen",
    "true": "exact, true ω",
}
REFERENCES = ("ref", "fair_ref")
_CLASS_ARMS = ("naive", "article", "as_published", "exact", "true")
_ACQUISITION_ARMS = ("naive", "article", "as_published", "exact", "soft_box", "true")


@dataclass(frozen=True)
class BothBiases(Setting):
    """Sources that differ in classes and in brightness, and a small unbiased one.

    ω_k(z) = a_k(y) exp(±slope (V − median V)).

    a_k is that of `ClassOverlap`; V is the value of the border, liked by every other source and
    disliked by those between.
    """

    overlap: float = 0.1
    ratio: float = 0.5
    slope: float = 4.0
    n_sources: int = 5
    total: int = 50_000

    key = "both-biases"
    title = "classes and brightness at once"

    @property
    def sizes(self) -> Ints:
        """Return the (K + 1,) sizes n_k ∝ ratio^k, and a twenty-fifth of all for the last."""
        small = self.total // 25
        return np.append(falling_sizes(self.ratio, self.n_sources, self.total - small), small)

    @property
    def source_names(self) -> tuple[str, ...]:
        return (*(f"source {k + 1}" for k in range(self.n_sources)), UNBIASED)

    def population_omega(self, population: Population) -> Floats:
        n_classes = int(population.label.max()) + 1
        own_n = population.label // (n_classes // self.n_sources)
        value_n = population.border[:, 2] - np.median(population.border[:, 2])
        omega_nk = np.ones((population.label.size, self.n_sources + 1))
        for k in range(self.n_sources):
            class_n = (1.0 - self.overlap) * (own_n == k) + self.overlap * (
                own_n == (k + 1) % self.n_sources
            )
            omega_nk[:, k] = class_n * np.exp((-1) ** k * self.slope * value_n)
        return omega_nk

    def scenario(self, population: Population, seed: int) -> Scenario:
        omega_nk = self.population_omega(population)
        return draw_from_population(
            omega_nk,
            population.border,
            population.label,
            sizes=self.sizes,
            rng=seed,
            description="class bias × brightness bias",
        )

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Product, Strata, Tilt

        return {
            "product": (
                Product(Strata("label"), Tilt([BORDER[2]], reference=UNBIASED)),
                Target.uniform("label"),
            )
        }


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    key : names it in files and in ``--settings``.
    table : of `TABLES`.
    label : in the first column.
    arms : those that make sense, fair Ref not among them.
    make : the setting, from the number of images N of the population and of classes M.
    """

    key: str
    table: str
    label: str
    arms: tuple[str, ...]
    make: Callable[[int, int], Setting]


def list_rows() -> dict[str, Row]:
    """List all rows by key, in the order of the tables."""
    rows = [_classes(overlap) for overlap in (0.001, 0.01, 0.1, 0.2)]
    rows += [_acquisition(decay, ratio) for ratio in (1.0, 0.75) for decay in (0.1, 1.0, 10.0)]
    rows += [_unequal(0.5, ()), _unequal(0.3, ("chosen",)), _missing(25), _missing(100)]
    rows.append(
        Row(
            "both-biases",
            "beyond",
            "classes γ = 0.1, n_k ∝ 0.5^k, and brightness at once; 2,000 unbiased",
            ("naive", "exact", "product", "chosen", "true"),
            lambda n, m: BothBiases(total=n),
        )
    )
    return {row.key: row for row in rows}


def images_drawn(row: Row, n: int, n_classes: int) -> int:
    """Return how many images the sources of a row have together."""
    setting = row.make(n, n_classes)
    return int(sum(setting.sizes)) if isinstance(setting, MissingClasses) else n


def images_learned(row: Row, arm: str, n: int, n_classes: int) -> int:
    """Return how many images an arm gives a weight: a network skips the others.

    As published, section 4.3 has weights for as many images as the last source has.
    """
    setting = row.make(n, n_classes)
    if arm == "as_published" and isinstance(setting, Acquisition):
        return int(falling_sizes(setting.ratio, 8, setting.total)[-1])
    return images_drawn(row, n, n_classes)


def _classes(overlap: float) -> Row:
    return Row(
        f"classes-{overlap:g}",
        "classes",
        f"γ = {overlap:g}",
        _CLASS_ARMS,
        lambda n, m: ClassOverlap(overlap, total=n),
    )


def _acquisition(decay: float, ratio: float) -> Row:
    setting = Acquisition(decay, ratio)
    table = "balanced" if ratio == 1.0 else "imbalanced"
    # Choosing costs as much as all the others together, so it is used where families differ most.
    arms = (*_ACQUISITION_ARMS, "chosen") if decay == 0.1 else _ACQUISITION_ARMS
    return Row(
        setting.key, table, f"γ = {decay:g}", arms, lambda n, m: Acquisition(decay, ratio, total=n)
    )


def _unequal(ratio: float, further: tuple[str, ...]) -> Row:
    label = f"classes γ = 0.1, n_k ∝ {ratio:g}^k"
    return Row(
        f"classes-0.1-{ratio:g}",
        "beyond",
        label,
        (*_CLASS_ARMS, *further),
        lambda n, m: ClassOverlap(0.1, ratio, total=n),
    )


def _missing(part: int) -> Row:
    small = 50_000 // part
    label = f"45,000 without a fifth of the classes, {small:,} unbiased"
    return Row(
        f"missing-{small}",
        "beyond",
        label,
        _CLASS_ARMS,
        lambda n, m: MissingClasses((n * 9 // 10, n // part), hidden_classes(m)),
    )


def hidden_classes(n_classes: int) -> tuple[int, ...]:
    """Return cats and dogs of CIFAR-10; of other data sets the first fifth of the classes."""
    return (CAT, DOG) if n_classes == 10 else tuple(range(n_classes // 5))
