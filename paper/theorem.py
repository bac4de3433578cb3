"""The article's theorem, measured: error of the debiased risk against n, error of ω̂, κ and ε.

The population is uniform on [0, 1] and the losses are ℓ_t(z) = 1{z ≤ t}, t ∈ [0, 1]: bounded by 1,
with polynomial covering numbers (assumption 5), and sup_t |Σ_i π_i ℓ_t(z_i) − R(ℓ_t)| = sup_t
|F̃(t) − t| is computed exactly. This supremum is what the theorem bounds by γ/√n + t: its proof
passes through it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paper.class_experiments import exact_weights
from paper.experiment import Cell, Folders, Tables
from unskew.records import Floats, Ints
from unskew.scenarios.scenario import repeat_codes, split_sizes

SIZES = tuple(100 * 4**power for power in range(6))
OVERLAPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
N_OF_OVERLAPS = 20_000
EPSILON = 0.2
# ω̂ is off by C/√n or by a constant: the same at n = 100.
C_OMEGA = 1.0
CONSTANT = 0.1


def three_sources(z_n: Floats) -> Floats:
    """Return the (n, 3) ω_k(z), each positive on its own interval and between ε = 0.2 and 1 there.

    Assumption 2 holds with that ε.
    """
    first = np.where(z_n < 0.6, 1.0 - (1.0 - EPSILON) * z_n / 0.6, 0.0)
    second = np.where(
        (z_n >= 0.3) & (z_n < 0.9), EPSILON + (1.0 - EPSILON) * np.abs(z_n - 0.6) / 0.3, 0.0
    )
    third = np.where(z_n >= 0.5, EPSILON + (1.0 - EPSILON) * (z_n - 0.5) / 0.5, 0.0)
    return np.column_stack([first, second, third])


def disturbed(z_n: Floats, by: float) -> Floats:
    """Return the (n, 3) ω̂_k with |ω̂_k − ω_k| ≤ ``by`` everywhere.

    Between ε/2 and 1 where ω_k > 0, and 0 where it is 0 (assumption 3).
    """
    omega_nk = three_sources(z_n)
    wave_nk = np.column_stack(
        [np.cos(np.pi * z_n), np.sin(2.0 * np.pi * z_n), -np.cos(np.pi * z_n)]
    )
    return np.where(omega_nk > 0, np.clip(omega_nk + by * wave_nk, EPSILON / 2.0, 1.0), 0.0)


def two_intervals(z_n: Floats, kappa: float) -> Floats:
    """Return the (n, 2) indicators of [0, ½ + κ/2] and [½ − κ/2, 1].

    They share the mass κ (assumption 1).
    """
    return np.column_stack([z_n <= 0.5 + kappa / 2.0, z_n >= 0.5 - kappa / 2.0]).astype(np.float64)


def two_levels(z_n: Floats, epsilon: float) -> Floats:
    """Return the (n, 2) ω: 1 and ε on the lower half, ε and 1 on the upper (assumption 2)."""
    return np.where(np.column_stack([z_n < 0.5, z_n >= 0.5]), 1.0, epsilon)


def draw_sources(
    omega: Any, n: int, n_sources: int, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Draw ((n,) z, (n,) source).

    Source k is drawn by rejection from the uniform law, as every ω is at most 1.
    """
    size_k = split_sizes(n, n_sources)
    drawn = []
    for k, size in enumerate(size_k.tolist()):
        accepted = np.empty(0)
        while accepted.size < size:
            z_n = rng.uniform(size=4 * size)
            accepted = np.append(accepted, z_n[rng.uniform(size=z_n.size) < omega(z_n)[:, k]])
        drawn.append(accepted[:size])
    return np.concatenate(drawn), repeat_codes(size_k)


def worst_error(z_n: Floats, weight_n: Floats) -> float:
    """Return sup_t |Σ_i π_i 1{z_i ≤ t} − t|: the largest error of the risk over all losses."""
    order = np.argsort(z_n)
    after_n = np.cumsum(weight_n[order])
    before_n = after_n - weight_n[order]
    return float(max(np.abs(after_n - z_n[order]).max(), np.abs(before_n - z_n[order]).max()))


def errors_by_size(cell: Cell, folders: Folders) -> Tables:
    """Compute the error of the risk for n images and four kinds of weights.

    True ω, ω̂ off by C/√n, ω̂ off by a constant, and no weights.
    """
    n, rows = int(cell["n"]), []
    for draw in range(cell["first"], cell["first"] + cell["draws"]):
        z_n, source_n = draw_sources(three_sources, n, 3, np.random.default_rng([draw, n]))
        arms = {
            "true": three_sources(z_n),
            "root_n": disturbed(z_n, C_OMEGA / np.sqrt(n)),
            "constant": disturbed(z_n, CONSTANT),
        }
        weights = {arm: exact_weights(omega_nk, source_n) for arm, omega_nk in arms.items()} | {
            "naive": np.full(n, 1.0 / n)
        }
        rows += [
            {"n": n, "draw": draw, "arm": arm, "error": _error(z_n, weight_n)}
            for arm, weight_n in weights.items()
        ]
    return {"errors": rows}


def errors_by_overlap(cell: Cell, folders: Folders) -> Tables:
    """Compute the error of the risk with the true ω against κ or ε.

    Sources share the mass κ, or their ω falls to ε.
    """
    omega = {"kappa": two_intervals, "epsilon": two_levels}[cell["constant"]]
    n, value, rows = N_OF_OVERLAPS, float(cell["value"]), []
    for draw in range(cell["draws"]):
        rng = np.random.default_rng([draw, round(value * 1e6)])
        z_n, source_n = draw_sources(lambda z: omega(z, value), n, 2, rng)
        weight_n = exact_weights(omega(z_n, value), source_n)
        rows.append(
            {
                "constant": cell["constant"],
                "value": value,
                "n": n,
                "draw": draw,
                "error": _error(z_n, weight_n),
            }
        )
    return {"errors": rows}


def _error(z_n: Floats, weight_n: Floats | None) -> float | None:
    return None if weight_n is None else worst_error(z_n, weight_n)
