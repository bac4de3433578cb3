"""Worlds of compared faces whose error rates on the target are known in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import scipy.optimize
from scipy.special import ndtr

# Impostor scores of two women are higher by the gap, those of two persons of the third kind lower.
SHIFTS = {"f": 1.0, "m": 0.0, "x": -1.0}


@dataclass(frozen=True)
class World:
    """How persons, images and scores come about.

    Scores of impostors are N(0, 1) and those of genuine pairs N(distance, 1), each the sum of
    effects of persons (``person`` of the variance), images (``image``) and the pair; ``night``
    lowers genuine scores by so much for each image taken at night, and women's impostor scores are
    higher by ``gap``. ``pool`` and ``target`` are the shares of women, ``pool_night`` and
    ``target_night`` those of images taken at night. ``third`` is the share of a third kind in the
    pool and on the target, whose impostor scores are lower by ``gap``. With ``skew`` the numbers of
    a person's images are log-normal between the two bounds. ``step``: scores are rounded to
    multiples of it. ``alike``: the share of persons who are alike to everybody, and by how much
    their impostor scores are higher.
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
    third: tuple[float, float] = (0.0, 0.0)
    skew: float = 0.0
    step: float = 0.0
    alike: tuple[float, float] = (0.0, 0.0)

    def shares(self, women: float, third: float) -> dict[str, float]:
        """Return the shares of the kinds of persons."""
        return {"f": women * (1 - third), "m": (1 - women) * (1 - third), "x": third}

    def _limit(self, threshold: float) -> float:
        """Find the limit of unrounded scores: rounded ones reach a threshold half a step before."""
        return (
            (math.ceil(threshold / self.step - 1e-9) - 0.5) * self.step if self.step else threshold
        )

    def fmr(self, threshold: float, kind: str | None = None) -> float:
        """Compute the false match rate on the target, of all or of one kind of persons."""
        share, threshold = self.shares(self.target, self.third[1]), self._limit(threshold)
        many, shift = self.alike
        cells = [
            (share[f] * share[g] * part, self.gap * (SHIFTS[f] + SHIFTS[g]) / 2 + number * shift)
            for f, g in product(SHIFTS, SHIFTS)
            for number, part in enumerate([(1 - many) ** 2, 2 * many * (1 - many), many**2])
            if kind is None or (f == g == kind)
        ]
        total = sum(part for part, _ in cells)
        return sum(part * float(ndtr(shift - threshold)) for part, shift in cells) / total

    def fnmr(self, threshold: float, kind: str | None = None) -> float:
        """Compute the false non-match rate on the target."""
        nights, threshold = {1: self.target_night, 0: 1 - self.target_night}, self._limit(threshold)
        return sum(
            nights[a] * nights[b] * float(ndtr(threshold - self.distance + self.night * (a + b)))
            for a, b in product((0, 1), (0, 1))
        )

    def threshold_at(self, fmr: float) -> float:
        """Find the smallest threshold of a false match rate."""
        if self.step:
            steps = np.arange(round(-9 / self.step), round(12 / self.step)) * self.step
            return next(float(t) for t in steps if self.fmr(t) <= fmr)
        return scipy.optimize.brentq(lambda t: self.fmr(t) - fmr, -9, 12)

    def equal_error(self) -> float:
        """Find the equal error rate, of rounded scores on the line between two thresholds."""
        if self.step:
            steps = np.arange(round(-9 / self.step), round(12 / self.step)) * self.step
            after = next(float(t) for t in steps if self.fmr(t) <= self.fnmr(t))
            gaps = [abs(self.fmr(t) - self.fnmr(t)) for t in (after - self.step, after)]
            low, high = self.fmr(after - self.step), self.fmr(after)
            return low + gaps[0] / sum(gaps) * (high - low)
        return self.fmr(scipy.optimize.brentq(lambda t: self.fmr(t) - self.fnmr(t), -9, 12))

    def draw(self, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Draw a table of weights and a table of pairs: all genuine ones, some impostors."""
        size = rng.integers(self.images[0], self.images[1] + 1, self.persons)
        if self.skew:
            drawn = self.images[0] * rng.lognormal(0, self.skew, self.persons)
            size = np.clip(drawn.round(), *self.images).astype(int)
        pool = self.shares(self.pool, self.third[0])
        target = self.shares(self.target, self.third[1])
        kind_g = rng.choice(list(SHIFTS), self.persons, p=list(pool.values()))
        shift_g = np.array([SHIFTS[kind] for kind in kind_g])
        person_n = np.repeat(np.arange(self.persons), size)
        night_n = rng.random(person_n.size) < self.pool_night
        ratio_g = np.array([target[kind] / pool[kind] for kind in kind_g])
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
                "gender": kind_g[person_n],
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
        alike_g = self.alike[1] * (rng.random(self.persons) < self.alike[0])
        image_n = rng.normal(size=(2, person_n.size))
        noise = rng.normal(size=kept.size) * np.sqrt(1 - 2 * self.person - 2 * self.image)
        of_images = np.sqrt(self.image) * (
            image_n[same.astype(int), a] + image_n[same.astype(int), b]
        )
        impostor = np.sqrt(self.person) * (hub_g[person_n[a]] + hub_g[person_n[b]])
        impostor = impostor + alike_g[person_n[a]] + alike_g[person_n[b]]
        impostor = impostor + self.gap * (shift_g[person_n[a]] + shift_g[person_n[b]]) / 2
        genuine = self.distance + np.sqrt(2 * self.person) * own_g[person_n[a]]
        genuine = genuine - self.night * (1.0 * night_n[a] + night_n[b])
        score = np.where(same, genuine, impostor) + of_images + noise
        if self.step:
            score = np.round(score / self.step) * self.step
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
# Nothing was tuned on these.
UNTUNED = {
    "images log-normal, 1 to 60": World(persons=150, images=(1, 60), skew=1.2, impostors=15_000),
    "scores of 12 values": World(persons=150, images=(2, 5), impostors=12_000, step=0.5),
    "three kinds of persons": World(
        persons=240, images=(2, 4), impostors=20_000, pool=0.3, third=(0.1, 0.3), gap=0.5
    ),
    "150 impostor pairs": World(persons=100, images=(2, 4), impostors=150),
    "women rare, many of some": World(
        persons=200, images=(2, 40), skew=1.0, impostors=20_000, pool=0.2, gap=0.4, person=0.2
    ),
    "12 persons": World(persons=12, images=(5, 5), impostors=None, person=0.1),
}
# Drawn after the variance was made unbiased for few persons; nothing was changed for them.
LATER = {
    "15 persons, 40 images each": World(persons=15, images=(40, 40), impostors=20_000),
    "women a 25th of the pool": World(persons=400, images=(2, 3), impostors=20_000, pool=0.04),
    "scores of 6 values": World(persons=150, images=(2, 4), impostors=10_000, step=1.0),
    "3,000 impostor pairs": World(persons=120, images=(2, 3), impostors=3000, distance=4.5),
    "one image of half": World(persons=300, images=(1, 2), impostors=20_000, person=0.15),
    "some alike to everybody": World(persons=200, alike=(0.05, 1.2), impostors=20_000),
}
WORLDS |= FRESH | UNTUNED | LATER
