"""Soft boxes on the article's mechanism of section 4.3: 8 sources × 6,250 images × 3 features.

    python benchmarks/soft_box.py [number of seeds]

For each base population and decay width: processor and wall seconds of the fit (with the
permutation test), the width found, and the sum of 1-D Wasserstein distances of the debiased
features to the population with the true ω, the fitted one, min–max boxes and none.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from scipy.stats import wasserstein_distance

import unskew
from unskew.bias.soft_box.fit import fit_soft_boxes, log_soft_boxes
from unskew.records import Floats, Ints

SIZES = [6250] * 8


def base_populations(n: int = 50_000) -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(n, 3)) @ np.array(
        [[1.0, 0.6, -0.5], [0.0, 0.8, 0.0], [0.0, 0.0, 0.85]]
    )
    return {
        "uniform": rng.uniform(size=(n, 3)),
        "gaussian": 0.5 + 0.17 * rng.normal(size=(n, 3)),
        "correlated": (1.0 / (1.0 + np.exp(-0.7 * mixed))) ** 1.5,
        "skewed": np.minimum(np.exp(0.7 * mixed) / 8.0, 1.0),
    }


def distance(feature: Floats, source: Ints, population: Floats, log_omega: Floats | None) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unskew.errors.WeakOverlapWarning)
        weight = (
            None
            if log_omega is None
            else unskew.debias_weights(log_omega, source, log=True, throw=False).weight
        )
    return sum(
        float(wasserstein_distance(feature[:, d], population[:, d], weight))
        for d in range(feature.shape[1])
    )


def min_max_boxes(feature: Floats, source: Ints) -> Floats:
    inside = [
        np.all(
            (feature >= feature[source == k].min(axis=0))
            & (feature <= feature[source == k].max(axis=0)),
            axis=1,
        )
        for k in range(8)
    ]
    return np.where(np.stack(inside, axis=1), 0.0, -np.inf)


def run(population: Floats, decay: float, seed: int) -> list[float]:
    scenario = unskew.scenarios.acquisition(population, decay=decay, sizes=SIZES, rng=seed)
    feature, source = scenario.features, scenario.source
    assert feature is not None
    wall, cpu = time.perf_counter(), time.process_time()
    fit = fit_soft_boxes(feature, source, 8, seed=seed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    models = (
        scenario.log_omega,
        log_soft_boxes(feature, fit.lower, fit.upper, fit.width),
        min_max_boxes(feature, source),
        None,
    )
    return [
        cpu,
        wall,
        fit.width,
        *(distance(feature, source, population, log_omega) for log_omega in models),
    ]


def main(n_seeds: int) -> None:
    run(base_populations(2000)["uniform"], 1.0, 0)  # compiles the loops
    print(
        f"{'population':<11}{'decay':>6}{'cpu s':>7}{'wall s':>8}{'width (worst)':>18}"
        + f"{'true':>8}{'fit':>8}{'box':>8}{'naive':>8}{'fit/true':>9}{'naive sd':>9}"
    )
    for name, population in base_populations().items():
        for decay in (0.1, 1.0, 10.0):
            rows = np.array([run(population, decay, seed) for seed in range(n_seeds)])
            cpu, wall, width, true, ours, box, naive = rows.mean(axis=0)
            worst = rows[np.argmax(np.abs(rows[:, 2] - decay)), 2]
            print(
                f"{name:<11}{decay:>6}{cpu:>7.1f}{wall:>8.1f}{width:>9.3f} "
                f"({worst:.3f}){true:>8.4f}{ours:>8.4f}{box:>8.4f}{naive:>8.4f}"
                f"{ours / true:>9.2f}{rows[:, 6].std():>9.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
