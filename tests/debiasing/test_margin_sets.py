"""The range of a mean over a set of margins: the linear programme against its vertices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import unskew
from raising import refused
from unskew import ConfigError, CoverageError, Pool, Target
from unskew.bias import Product, Strata, Tilt

LEVELS = ("boar", "deer", "fox", "hare")
MASS = {"boar": 0.1, "deer": 0.2, "fox": 0.3, "hare": 0.4}


@pytest.fixture(scope="module")
def pool() -> Pool:
    rng = np.random.default_rng(0)
    label = rng.choice(LEVELS, 400)
    z = rng.normal(np.searchsorted(LEVELS, label), 1.0)
    source = np.where(rng.random(400) < 0.3 + 0.1 * (z > 1), "a", "b")
    return Pool.from_arrays(source, label=label, z=z)


def vertices(low_c: np.ndarray, high_c: np.ndarray) -> list[np.ndarray]:
    """All corners of the box cut by Σ p = 1: all masses but one are at a bound."""
    found = []
    for free in range(low_c.size):
        others = [at for at in range(low_c.size) if at != free]
        for ends in itertools.product((0, 1), repeat=len(others)):
            mass_c = np.empty(low_c.size)
            mass_c[others] = np.where(ends, high_c[others], low_c[others])
            mass_c[free] = 1.0 - mass_c[others].sum()
            if low_c[free] - 1e-12 <= mass_c[free] <= high_c[free] + 1e-12:
                found.append(mass_c)
    return found


@pytest.mark.parametrize("within", [0.05, {"fox": (0.1, 0.5), "hare": 0.3, "deer": (0.0, 0.2)}])
def test_the_ends_are_those_of_the_best_vertices(pool: Pool, within: object) -> None:
    z = pool.frame["z"].to_numpy()
    found = unskew.bound_over_margins(
        pool, Strata("label"), Target.margins({"label": MASS}), z, within=within
    )
    low_c, high_c = np.array([found.bounds[level] for level in LEVELS]).T
    means = [z[(pool.frame["label"] == level).to_numpy()].mean() for level in LEVELS]
    at_corners = [float(corner @ means) for corner in vertices(low_c, high_c)]
    # Rounding of the programme.
    assert found.low.value == pytest.approx(min(at_corners), abs=1e-9)
    assert found.high.value == pytest.approx(max(at_corners), abs=1e-9)
    assert found.low.value <= found.centre.value <= found.high.value
    for margin, end in ((found.lowest, found.low), (found.highest, found.high)):
        assert sum(margin.values()) == pytest.approx(1.0, abs=1e-12)
        alone = unskew.debias(pool, Strata("label"), Target.margins({"label": dict(margin)}))
        assert alone.mean(z).value == pytest.approx(end.value, abs=1e-12)
        assert alone.mean(z).stderr == pytest.approx(end.stderr, rel=1e-9)
    assert found.interval[0] < found.low.value < found.high.value < found.interval[1]


def test_a_restricted_target_is_a_fractional_programme(pool: Pool) -> None:
    """Owls have no images: the mean is over the rest of the margin, which sums to 1 − p(owl)."""
    mass = {"boar": 0.1, "deer": 0.2, "fox": 0.2, "hare": 0.3, "owl": 0.2}
    target = Target.margins({"label": mass}, uncovered="restrict")
    z = pool.frame["z"].to_numpy()
    found = unskew.bound_over_margins(pool, Strata("label"), target, z, within=0.1)
    low_c, high_c = np.array([found.bounds[level] for level in mass]).T
    means = np.array([z[(pool.frame["label"] == level).to_numpy()].mean() for level in LEVELS])
    at_corners = [
        float(corner[:4] @ means / corner[:4].sum()) for corner in vertices(low_c, high_c)
    ]
    assert found.low.value == pytest.approx(min(at_corners), abs=1e-9)
    assert found.high.value == pytest.approx(max(at_corners), abs=1e-9)
    with refused(CoverageError):
        exact = Target.margins({"label": mass | {"owl": 0.0, "hare": 0.5}})
        unskew.bound_over_margins(pool, Strata("label"), exact, z, within=0.1)


def test_no_margin_of_the_set_goes_beyond_the_ends_also_in_a_product(pool: Pool) -> None:
    rng = np.random.default_rng(1)
    z = pool.frame["z"].to_numpy()
    bias = Product(Strata("label"), Tilt(["z"], reference="a"))
    target = Target.margins({"label": MASS})
    found = unskew.bound_over_margins(pool, bias, target, z, within=0.08)
    corners = vertices(*np.array([found.bounds[level] for level in LEVELS]).T)
    for _ in range(3):
        mass_c = rng.dirichlet(np.ones(len(corners))) @ np.array(corners)
        margin = dict(zip(LEVELS, (mass_c / mass_c.sum()).tolist(), strict=True))
        mean = unskew.debias(pool, bias, Target.margins({"label": margin})).mean(z)
        # The fit of the tilt is repeated for every margin, to its tolerance.
        assert found.low.value - 1e-6 <= mean.value <= found.high.value + 1e-6


@pytest.mark.parametrize(
    ("within", "facts"),
    [
        (-0.1, {"option": "within"}),
        ("much", {"option": "within"}),
        ({"lynx": 0.1}, {"option": "within", "level": "lynx"}),
        ({"fox": (0.5, 0.6)}, {"option": "within"}),
        ({"fox": (0.6, 0.5)}, {"option": "within"}),
        (float("nan"), {"option": "within"}),
    ],
)
def test_a_set_without_a_margin_is_refused(
    pool: Pool, within: object, facts: dict[str, object]
) -> None:
    with refused(ConfigError, **facts):
        unskew.bound_over_margins(
            pool, Strata("label"), Target.margins({"label": MASS}), pool.frame["z"], within=within
        )


def test_targets_and_models_whose_mean_is_not_linear_in_the_margin_are_refused(pool: Pool) -> None:
    for target in (Target.source("a"), Target.uniform("label")):
        with refused(ConfigError, option="target"):
            unskew.bound_over_margins(pool, Strata("label"), target, pool.frame["z"], within=0.1)
