"""The settings of benchmarks/learning.py: CIFAR-10 as in paper/settings.py, two of them on
CIFAR-100, and the long-tailed data sets that papers on rare classes use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paper.settings import ARTICLE, BEYOND, BothBiases, ClassOverlap, Population, Setting
from unskew.records import Floats, Ints, Target
from unskew.scenarios import Scenario

if TYPE_CHECKING:
    from unskew.bias.base import Bias

# Of CIFAR-100, what people make: containers, devices, furniture, buildings, roads, vehicles. The
# other 70 classes are animals, people, plants and landscapes.
MADE = (5, 8, 9, 10, 12, 13, 16, 17, 20, 22, 25, 28, 37, 39, 40, 41, 48, 58, 61, 68, 69, 76, 81)
MADE += (84, 85, 86, 87, 89, 90, 94)
GROWN = tuple(sorted(set(range(100)) - set(MADE)))


@dataclass(frozen=True)
class LongTail(Setting):
    """One source whose classes fall exponentially in size: n_y = n_0 ρ^{−y/(M−1)}.

    The protocol of Cao et al. (2019): images are drawn without replacement; the target has equal
    shares.
    """

    ratio: int

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"tail-{self.ratio}"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"long tail, ρ = {self.ratio}"

    def sizes(self, population: Population) -> Ints:
        count_m = np.bincount(population.label)
        exponent_m = np.arange(count_m.size) / (count_m.size - 1)
        return np.asarray(count_m[0] * self.ratio**-exponent_m, dtype=np.int64)

    def scenario(self, population: Population, seed: int) -> Scenario:
        rng = np.random.default_rng(seed)
        size_m = self.sizes(population)
        index_n = np.concatenate(
            [
                np.sort(rng.permutation(np.flatnonzero(population.label == y))[:size])
                for y, size in enumerate(size_m)
            ]
        )
        label_n = population.label[index_n]
        return Scenario(
            description=self.title,
            log_omega=np.log(size_m / size_m.sum() * size_m.size)[label_n][:, None],
            source=np.zeros(index_n.size, dtype=np.int64),
            log_normalizer=np.zeros(1),
            target_mean={},
            label=label_n,
            index=index_n,
        )

    def population_omega(self, population: Population) -> Floats:
        return self.sizes(population)[population.label].astype(np.float64)[:, None]

    def families(self) -> Mapping[str, tuple[Bias, Target | None]]:
        from unskew.bias import Strata

        return {"debiased": (Strata("label"), Target.uniform("label"))}


@dataclass(frozen=True)
class Case:
    """A setting on a data set; ``key`` and ``title`` tell both."""

    data: str
    setting: Setting

    @property
    def key(self) -> str:
        return ("" if self.data == "cifar10" else f"{self.data}-") + self.setting.key

    @property
    def title(self) -> str:
        return ("" if self.data == "cifar10" else "CIFAR-100: ") + self.setting.title


MATTERS: Sequence[Case] = tuple(Case("cifar10", setting) for setting in BEYOND)
HUNDRED: Sequence[Case] = (
    Case("cifar100", ClassOverlap(0.1, 0.3)),
    Case("cifar100", BothBiases(dark=GROWN)),
)
TAILS: Sequence[Case] = tuple(
    Case(data, LongTail(ratio)) for data in ("cifar10", "cifar100") for ratio in (100, 200)
)
CASES: dict[str, Case] = {
    case.key: case
    for case in (
        *MATTERS,
        *TAILS,
        *HUNDRED,
        *(Case("cifar10", setting) for setting in ARTICLE),
    )
}
