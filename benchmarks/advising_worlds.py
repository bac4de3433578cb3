"""Worlds in which images can be collected: sources that draw on, strata, and the target itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from unskew import Pool, Target
from unskew.bias import Bias, Box, Known, Product, Strata, Tilt

Rng = np.random.Generator


@dataclass(frozen=True)
class World:
    """How every source draws; what is known of it; and the truth.

    Attributes
    ----------
    sizes : images of each source in the pilot.
    draw : (rng, source, n) -> columns of n images of that source; source "target": of the target,
        "label = a": of that stratum.
    model : the pool's sources -> the bias model.
    target : (rng, images of the sample) -> the target.
    truth : the target's mean of the column ``value``.
    factor : the wanted standard error is so much of the pilot's.
    """

    name: str
    sizes: Mapping[str, int]
    draw: Callable[[Rng, str, int], dict[str, np.ndarray]]
    model: Callable[[tuple[str, ...]], Bias]
    target: Callable[[Rng, int], Target | None]
    truth: float
    sample: int = 0
    factor: float = 0.6
    cost: Mapping[str, float] = field(default_factory=dict)

    def collect(self, rng: Rng, counts: Mapping[str, int]) -> pd.DataFrame:
        """Draw images of every kind; a source keeps its name, others are called as they are."""
        parts = []
        for source, n in counts.items():
            if n:
                parts.append(pd.DataFrame(self.draw(rng, source, n)).assign(source=source))
        return pd.concat(parts, ignore_index=True)


def as_pool(frame: pd.DataFrame) -> Pool:
    frame = frame.assign(id=np.arange(len(frame)))
    return Pool(frame.assign(source=pd.Categorical(frame["source"])))


# ---- Known: Gaussian tilts of x, so that every source draws a shifted normal; value = x + noise.


def _gaussian(shifts: Mapping[str, float], slope: float) -> Callable[[Rng, str, int], dict]:
    def draw(rng: Rng, source: str, n: int) -> dict[str, np.ndarray]:
        x = rng.normal(shifts.get(source, 0.0), 1.0, n)
        return {"x": x, "value": slope * x + 0.5 * rng.normal(size=n)}

    return draw


def known(shifts: Mapping[str, float], sizes: Mapping[str, int], slope: float = 1.0) -> World:
    functions = {
        name: (lambda frame, shift=shift: np.exp(shift * frame["x"].to_numpy()))
        for name, shift in {**shifts, "target": 0.0}.items()
    }
    return World(
        f"Known, {len(sizes)} sources",
        sizes,
        _gaussian(shifts, slope),
        lambda names: Known({name: functions[name] for name in names}),
        lambda rng, n: None,
        0.0,
    )


def tilt(shifts: Mapping[str, float], sizes: Mapping[str, int], sample: int) -> World:
    draw = _gaussian(shifts, 1.0)

    def target(rng: Rng, n: int) -> Target:
        return Target.sample(as_pool(pd.DataFrame({"x": rng.normal(size=n)}).assign(source="t")))

    return World(
        f"Tilt, {len(sizes)} sources", sizes, draw, lambda names: Tilt(["x"]), target, 0.0, sample
    )


# ---- Strata: classes a, b, c …; the spread of the value grows with the class.


def strata(
    mixes: Mapping[str, np.ndarray], mass: np.ndarray, sizes: Mapping[str, int], survey: int = 0
) -> World:
    labels = np.array([chr(97 + c) for c in range(mass.size)])

    def draw(rng: Rng, source: str, n: int) -> dict[str, np.ndarray]:
        mix = mixes.get(source, mass)
        if source.startswith("label = "):
            mix = (labels == source.removeprefix("label = ")).astype(float)
        label = rng.choice(mass.size, n, p=mix)
        return {"label": labels[label], "value": label + (1.0 + label) * rng.normal(size=n)}

    def target(rng: Rng, n: int) -> Target:
        shares = rng.multinomial(survey, mass) if survey else mass
        known_mass = dict(zip(labels.tolist(), shares.tolist(), strict=True))
        return Target.margins(
            {"label": {"mass": known_mass, "n": survey} if survey else known_mass}
        )

    return World(
        f"Strata, {len(sizes)} sources" + (f", survey of {survey}" if survey else ""),
        sizes,
        draw,
        lambda names: Strata("label"),
        target,
        float(mass @ np.arange(mass.size)),
        factor=0.8 if survey else 0.6,
    )


def strata_tilt() -> World:
    mixes = {"north": np.array([0.8, 0.2]), "south": np.array([0.3, 0.7])}
    mass, shifts = np.array([0.5, 0.5]), {"north": 0.6, "south": 0.0}
    labels = np.array(["a", "b"])

    def draw(rng: Rng, source: str, n: int) -> dict[str, np.ndarray]:
        mix = mixes.get(source, mass)
        label = rng.choice(2, n, p=mix)
        x = rng.normal(shifts.get(source, 0.0), 1.0, n)
        return {"label": labels[label], "x": x, "value": x + label + 0.5 * rng.normal(size=n)}

    return World(
        "Strata × Tilt, 2 sources",
        {"north": 300, "south": 60},
        draw,
        lambda names: Product(Strata("label"), Tilt(["x"], reference="south")),
        lambda rng, n: Target.margins({"label": {"a": 0.5, "b": 0.5}}),
        0.5,
    )


# ---- Box: x uniform on [0, 1], each source on an interval of it.


def box(ends: Mapping[str, tuple[float, float]], sizes: Mapping[str, int]) -> World:
    def draw(rng: Rng, source: str, n: int) -> dict[str, np.ndarray]:
        low, high = ends.get(source, (0.0, 1.0))
        x = rng.uniform(low, high, n)
        return {"x": x, "value": 3.0 * x + 0.3 * rng.normal(size=n)}

    return World(
        f"Box, {len(sizes)} sources",
        sizes,
        draw,
        lambda names: Box(["x"]),
        lambda rng, n: None,
        1.5,
    )


WORLDS = (
    known({"north": 0.9, "south": -0.6}, {"north": 300, "south": 60}),
    known(
        {f"s{k}": shift for k, shift in enumerate((1.2, 0.8, 0.4, -0.2, -0.7, -1.1))},
        {f"s{k}": size for k, size in enumerate((300, 200, 100, 60, 40, 40))},
    ),
    strata(
        {"north": np.array([0.7, 0.25, 0.05]), "south": np.array([0.5, 0.2, 0.3])},
        np.array([0.3, 0.3, 0.4]),
        {"north": 400, "south": 60},
    ),
    strata(
        {f"s{k}": np.roll(np.array([0.4, 0.2, 0.14, 0.1, 0.08, 0.08]), k % 4) for k in range(8)},
        np.array([0.05, 0.1, 0.15, 0.2, 0.2, 0.3]),
        {f"s{k}": 160 - 18 * k for k in range(8)},
    ),
    strata(
        {"north": np.array([0.7, 0.25, 0.05]), "south": np.array([0.5, 0.2, 0.3])},
        np.array([0.3, 0.3, 0.4]),
        {"north": 400, "south": 60},
        survey=1000,
    ),
    tilt({"north": 0.8, "south": -0.4}, {"north": 300, "south": 100}, 150),
    tilt(
        {f"s{k}": shift for k, shift in enumerate((1.0, 0.5, 0.0, -0.8))},
        {f"s{k}": size for k, size in enumerate((300, 200, 50, 50))},
        200,
    ),
    strata_tilt(),
    box({"north": (0.0, 0.6), "south": (0.45, 1.0)}, {"north": 400, "south": 60}),
    box(
        {"s0": (0.0, 0.4), "s1": (0.3, 0.7), "s2": (0.55, 1.0)},
        {"s0": 300, "s1": 60, "s2": 100},
    ),
    # Added later, and nothing was changed for them.
    known(
        {"left": 1.5, "middle": 0.2, "right": -1.0},
        {"left": 150, "middle": 25, "right": 80},
        slope=-2.0,
    ),
    strata(
        {
            "s0": np.array([0.9, 0.04, 0.03, 0.03]),
            "s1": np.array([0.1, 0.7, 0.1, 0.1]),
            "s2": np.array([0.25, 0.25, 0.4, 0.1]),
        },
        np.array([0.1, 0.2, 0.3, 0.4]),
        {"s0": 700, "s1": 120, "s2": 90},
    ),
)
