"""Worlds of compared faces whose error rates on the target are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.stats


@dataclass(frozen=True)
class World:
    """How persons, images and scores come about.

    Scores of impostors are N(0, 1) and those of genuine pairs N(distance, 1), each the sum of
    effects of persons (``person`` of the variance), images (``image``) and the pair; ``night``
    lowers genuine scores by so much for each image taken at night, and women's impostor scores are
    higher by ``gap``. ``pool`` and ``target`` are the shares of women, ``pool_night`` and
    ``target_night`` those of images taken at night.
    """

    persons: int = 200
    images: tuple[int, int] = (3, 3)
    impostors: int | None = 8000
    distance: float = 3.0
    person: float = 0.1
    image: float = 0.1
    night: float = 0.0
    gap: float = 0.0
    pool: float = 0.5
    target: float = 0.5
    pool_night: float = 0.5
    target_night: float = 0.5

    def fmr(self, threshold: float, kind: str | None = None) -> float:
        """Compute the false match rate on the target, of all or of one kind of persons."""
        share = {1: self.target, 0: 1 - self.target}
        cells = [
            (share[f] * share[g], self.gap * (f + g) / 2)
            for f, g in product((0, 1), (0, 1))
            if kind is None or (f == g == (kind == "f"))
        ]
        total = sum(part for part, _ in cells)
        return sum(part * scipy.stats.norm.sf(threshold - shift) for part, shift in cells) / total

    def fnmr(self, threshold: float, kind: str | None = None) -> float:
        """Compute the false non-match rate on the target."""
        nights = {1: self.target_night, 0: 1 - self.target_night}
        return sum(
            nights[a]
            * nights[b]
            * scipy.stats.norm.cdf(threshold - self.distance + self.night * (a + b))
            for a, b in product((0, 1), (0, 1))
        )

    def threshold_at(self, fmr: float) -> float:
        """Find the threshold of a false match rate."""
        return scipy.optimize.brentq(lambda t: self.fmr(t) - fmr, -9, 12)

    def equal_error(self) -> float:
        """Find the equal error rate."""
        return self.fmr(scipy.optimize.brentq(lambda t: self.fmr(t) - self.fnmr(t), -9, 12))

    def draw(self, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Draw a table of weights and a table of pairs: all genuine ones, some impostors."""
        size = rng.integers(self.images[0], self.images[1] + 1, self.persons)
        woman_g = rng.random(self.persons) < self.pool
        person_n = np.repeat(np.arange(self.persons), size)
        night_n = rng.random(person_n.size) < self.pool_night
        ratio_g = np.where(woman_g, self.target / self.pool, (1 - self.target) / (1 - self.pool))
        ratio_n = np.where(
            night_n,
            self.target_night / self.pool_night,
            (1 - self.target_night) / (1 - self.pool_night),
        )
        table = pd.DataFrame(
            {
                "id": [f"{at:05d}" for at in range(person_n.size)],
                "source": np.where(person_n % 2, "b", "a"),
                "group": person_n,
                "gender": np.where(woman_g, "f", "m")[person_n],
                "weight": ratio_g[person_n] * ratio_n,
            }
        )
        low, high = np.triu_indices(person_n.size, 1)
        same = person_n[low] == person_n[high]
        kept = np.flatnonzero(~same)
        if self.impostors is not None and self.impostors < kept.size:
            kept = rng.choice(kept, self.impostors, replace=False)
        kept = np.concatenate([np.flatnonzero(same), kept])
        a, b, same = low[kept], high[kept], same[kept]
        # Effects of impostor pairs add up over two persons, those of genuine pairs are of one.
        hub_g, own_g = rng.normal(size=(2, self.persons))
        image_n = rng.normal(size=(2, person_n.size))
        noise = rng.normal(size=kept.size) * np.sqrt(1 - 2 * self.person - 2 * self.image)
        of_images = np.sqrt(self.image) * (
            image_n[same.astype(int), a] + image_n[same.astype(int), b]
        )
        impostor = np.sqrt(self.person) * (hub_g[person_n[a]] + hub_g[person_n[b]])
        impostor = impostor + self.gap * (1.0 * woman_g[person_n[a]] + woman_g[person_n[b]]) / 2
        genuine = self.distance + np.sqrt(2 * self.person) * own_g[person_n[a]]
        genuine = genuine - self.night * (1.0 * night_n[a] + night_n[b])
        score = np.where(same, genuine, impostor) + of_images + noise
        ids = table["id"].to_numpy()
        return table, pd.DataFrame({"id_a": ids[a], "id_b": ids[b], "same": same, "score": score})


WORLDS = {
    "plain": World(),
    "women rare in the pool": World(pool=0.2, target=0.5, gap=0.5),
    "night rare in the pool": World(images=(4, 4), pool_night=0.3, target_night=0.6, night=0.4),
    "women and night rare": World(
        images=(2, 6),
        pool=0.25,
        pool_night=0.3,
        target_night=0.5,
        night=0.4,
        gap=0.4,
    ),
    "many pairs per person": World(persons=60, images=(2, 12), impostors=20_000, person=0.2),
    "few persons": World(persons=20, images=(4, 4), impostors=None, person=0.15),
    "all pairs, strong persons": World(persons=80, images=(2, 2), impostors=None, person=0.3),
    "low false match rate": World(persons=600, images=(2, 2), impostors=40_000, distance=4.5),
    "subgroup gap": World(persons=300, images=(2, 2), impostors=20_000, gap=0.7, person=0.15),
}

# Other worlds than those that the intervals were made on; "women very rare" then led to counting
# effective errors instead of errors.
FRESH = {
    "other plain": World(persons=120, images=(2, 5), impostors=12_000, distance=3.5, person=0.15),
    "women very rare": World(persons=400, images=(2, 4), impostors=30_000, pool=0.1, gap=0.3),
    "few women at night": World(
        persons=150, images=(3, 8), pool=0.15, pool_night=0.2, target_night=0.6, night=0.3, gap=0.6
    ),
    "40 persons": World(persons=40, images=(3, 6), impostors=None, person=0.1),
    "150 persons, all pairs": World(persons=150, images=(2, 3), impostors=None, person=0.25),
    "many persons": World(persons=1000, images=(1, 3), impostors=60_000, distance=4.0, gap=0.4),
    "unequal persons": World(persons=100, images=(2, 20), impostors=20_000, image=0.2),
}
WORLDS |= FRESH
