"""Biased pools, and targets that one can draw from at will, for the tests of forecasts and
rehearsals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import unskew
from unskew import Pool, Target
from unskew.learn.probe_grid import tune_probe

FRESH = 40_000


@dataclass(frozen=True)
class World:
    """A pool with what is known of it, and (X, label) of a large fresh sample of the target."""

    pool: Pool
    bias: Any
    target: Target | None
    X: Any
    X_fresh: Any
    label_fresh: Any

    def truth(self, weight_n: Any) -> float:
        """True accuracy on the target of the probe that is learned from these weights."""
        label_n, n_classes = self.pool.frame["label"].to_numpy(), int(self.label_fresh.max()) + 1
        stratum_n = self.pool.source * n_classes + label_n
        tuned = tune_probe(self.X, label_n, np.asarray(weight_n), n_classes, stratum_n=stratum_n)
        return float(np.mean(tuned.probe.predict(self.X_fresh) == self.label_fresh))

    def true_gain(self) -> float:
        weight_n = unskew.debias(self.pool, self.bias, self.target).weight
        return self.truth(weight_n) - self.truth(np.ones(len(self.pool)))


_CENTRE = np.array([[1.0, 0, 0], [-0.6, 0.9, 0], [-0.6, -0.9, 0.4], [0.2, 0, -1.0]])


def class_world(sizes: Any, seed: int, mix: Any = None) -> World:
    """Four Gaussian classes that overlap; sources that differ in their mix of them; every class as
    likely in the target.
    """
    mix = [[0.85, 0.1, 0.03, 0.02], [0.3, 0.4, 0.2, 0.1]] if mix is None else mix
    scenario = unskew.scenarios.class_mixtures(mix, sizes=sizes, rng=seed)
    assert scenario.label is not None
    rng = np.random.default_rng(seed)
    X = _CENTRE[scenario.label] + 0.8 * rng.standard_normal((scenario.label.size, 3))
    fresh = np.arange(FRESH) % 4
    pool = Pool.from_arrays(
        np.array(["archive", "counter", "survey"])[scenario.source], label=scenario.label, x=X
    )
    X_fresh = _CENTRE[fresh] + 0.8 * rng.standard_normal((FRESH, 3))
    return World(pool, unskew.bias.Strata("label"), Target.uniform("label"), X, X_fresh, fresh)


def label_of(X: Any, rng: Any) -> Any:
    """A rule that is not linear: the second feature counts for the class where it is small, against
    it where it is large.
    """
    return (
        X[:, 0] + X[:, 1] * (1.0 - 0.5 * X[:, 1]) + 0.3 * rng.standard_normal(len(X)) > 0
    ).astype(np.int64)


def bent_label_of(X: Any, rng: Any) -> Any:
    """Another one, which a line describes where the sources are and not where the target is: there
    the best line says little.
    """
    return (0.3 * X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.standard_normal(len(X)) > 1.0).astype(np.int64)


def tilt_world(
    n: int, seed: int, theta: Any = ((0.3, 1.3), (-0.2, 1.1)), rule: Any = label_of
) -> World:
    """Gaussian features tilted away from the target N(0, I), of which there is an unlabelled
    sample.
    """
    scenario = unskew.scenarios.tilts(n, theta=theta, rng=seed)
    assert scenario.features is not None
    rng = np.random.default_rng(seed + 1000)
    X = scenario.features
    pool = Pool.from_arrays(
        np.array(["dim", "bright", "flash"])[scenario.source], label=rule(X, rng), x=X
    )
    sample = Pool.from_arrays(
        ["t"] * 1500, x=rng.standard_normal((1500, 2)), id=[f"t{i}" for i in range(1500)]
    )
    X_fresh = rng.standard_normal((FRESH, 2))
    return World(
        pool, unskew.bias.Tilt(["x"]), Target.sample(sample), X, X_fresh, rule(X_fresh, rng)
    )
