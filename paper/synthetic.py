"""Compute figures 2 and 3 of the article on one-dimensional data.

They show what has to be covered and shared, and what two biasing functions share.

The target is an even mixture of two bumps on [0, 1]; ω_k is the indicator of an interval, so that
p̂_k/ω_k is the source's own histogram.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paper.class_experiments import exact_weights
from paper.experiment import Cell, Folders, Tables
from unskew.records import Floats, Ints
from unskew.solve.normalizers import check_overlap

N_PER_SOURCE = 4000
N_HISTOGRAM = 40
# The intervals of both sources in the three cases of figure 2.
CASES = {
    "not covered": ((0.0, 0.45), (0.30, 0.75)),
    "no overlap": ((0.0, 0.50), (0.50, 1.0)),
    "fine": ((0.0, 0.60), (0.40, 1.0)),
}


def target_density(z_n: Floats) -> Floats:
    """Return the (n,) density ½ Beta(3, 7) + ½ Beta(7, 3)."""
    from scipy.stats import beta

    return np.asarray(0.5 * beta.pdf(z_n, 3, 7) + 0.5 * beta.pdf(z_n, 7, 3))


def draw_target(n: int, rng: np.random.Generator) -> Floats:
    """Draw (n,) values from the target."""
    return np.where(rng.uniform(size=n) < 0.5, rng.beta(3, 7, size=n), rng.beta(7, 3, size=n))


def draw_case(case: str, seed: int = 0) -> tuple[Floats, Ints, Floats]:
    """Draw ((n,) z, (n,) source, (n, 2) ω) of one of the three cases."""
    rng = np.random.default_rng(seed)
    drawn = []
    for low, high in CASES[case]:
        z_n = draw_target(20 * N_PER_SOURCE, rng)
        drawn.append(z_n[(z_n >= low) & (z_n < high)][:N_PER_SOURCE])
    z_n = np.concatenate(drawn)
    omega_nk = np.column_stack([(z_n >= low) & (z_n < high) for low, high in CASES[case]]).astype(
        np.float64
    )
    return z_n, np.repeat([0, 1], [values.size for values in drawn]), omega_nk


def support_case(cell: Cell, folders: Folders) -> Tables:
    """Compute target, sources and what can be said about the target in each case (figure 2).

    Estimates: where sources are linked, the debiased histogram (of the target restricted to what is
    covered, where something is not); where they are not, two of the many combinations 0.1/0.9 and
    0.9/0.1 that agree with all data.
    """
    case = str(cell["case"])
    z_n, source_n, omega_nk = draw_case(case)
    curves = {f"source {k + 1}": _histogram(z_n[source_n == k]) for k in range(2)}
    weight_n = exact_weights(omega_nk, source_n)
    if weight_n is not None:
        curves["debiased"] = _histogram(z_n, weight_n)
    else:
        for share in (0.1, 0.9):
            weight_n = np.where(source_n == 0, share, 1.0 - share) / np.bincount(source_n)[source_n]
            curves[f"combined {share:g}"] = _histogram(z_n, weight_n)
    middle = (np.arange(N_HISTOGRAM) + 0.5) / N_HISTOGRAM
    curves["target"] = target_density(middle)
    covered = np.zeros(N_HISTOGRAM, dtype=bool)
    for low, high in CASES[case]:
        covered |= (middle > low) & (middle < high)
    lost = float(target_density(middle)[~covered].sum() / N_HISTOGRAM)
    verdict = check_overlap(omega_nk, source_n, names=["source 1", "source 2"]).verdict
    rows: list[dict[str, Any]] = [
        {
            "case": case,
            "curve": name,
            "z": float(at),
            "density": float(value),
            "verdict": verdict,
            "uncovered": lost,
        }
        for name, curve in curves.items()
        for at, value in zip(middle, curve, strict=True)
    ]
    return {"cases": rows}


def _histogram(z_n: Floats, weight_n: Floats | None = None) -> Floats:
    mass, _ = np.histogram(z_n, N_HISTOGRAM, (0.0, 1.0), weights=weight_n)
    return np.asarray(mass * N_HISTOGRAM / mass.sum())


def overlapping_functions(cell: Cell, folders: Folders) -> Tables:
    """Compute two biasing functions, at least ε where positive, that share the mass κ (figure 3).

    The target is uniform.
    """
    z_n = np.linspace(0.0, 1.0, 201)
    first = np.where(z_n <= 0.62, np.maximum(0.25, np.minimum(1.0, 1.4 - 1.9 * z_n)), 0.0)
    second = np.where(z_n >= 0.38, np.maximum(0.25, np.minimum(1.0, -0.5 + 1.9 * z_n)), 0.0)
    return {
        "functions": [
            {"z": float(z), "omega_1": float(a), "omega_2": float(b)}
            for z, a, b in zip(z_n, first, second, strict=True)
        ]
    }
