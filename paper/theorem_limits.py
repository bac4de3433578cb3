"""Where the article's assumptions end, measured: boxes, a learned rule, draws without links.

The population is uniform on [0, 1], as in ``paper.theorem``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paper.class_experiments import exact_weights
from paper.experiment import Cell, Folders, Tables
from paper.theorem import (
    C_OMEGA,
    disturbed,
    draw_sources,
    three_sources,
    two_intervals,
    two_levels,
    worst_error,
)
from unskew.records import Floats, Ints
from unskew.scenarios.scenario import repeat_codes, split_sizes
from unskew.solve.normalizers import check_overlap

BOX_SIZES = tuple(200 * 4**power for power in range(5))
# Three overlapping intervals; and the article's ω of 4.3 in one dimension: 1 in an interval of
# thirds, falling to 0 over the distance DECAY outside it.
BOXES = ((0.0, 0.5), (0.3, 0.8), (0.6, 1.0))
BINS = ((0.0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0))
DECAY = 0.3
RULE_SIZES = tuple(100 * 4**power for power in range(5))
# P(y = 1 | x) = 0.2 + 0.6 x: the best threshold is ½, and the excess risk of t is 0.6 (t − ½)².
CURVATURE, BEST = 0.6, 0.5
# How likely source k is to take an image of class 0 and of class 1.
LABEL_FACTORS = np.array([[1.0, 0.3], [0.3, 1.0], [1.0, 0.6]])
LINK_SIZES = (10, 30, 100, 300, 1000, 3000)
LINK_VALUES = (0.003, 0.01, 0.03, 0.1)


def box_omega(z_n: Floats) -> Floats:
    """Return the (n, 3) indicators of BOXES."""
    return _indicators(z_n, BOXES)


def soft_omega(z_n: Floats) -> Floats:
    """Return the (n, 3) ω_k(z) = max(0, 1 − distance to bin k / DECAY)."""
    distance_nk = np.column_stack(
        [np.maximum(np.maximum(low - z_n, z_n - high), 0.0) for low, high in BINS]
    )
    return np.maximum(0.0, 1.0 - distance_nk / DECAY)


def min_max_boxes(z_n: Floats, source_n: Ints) -> list[tuple[float, float]]:
    """Return the smallest and the largest image of each source: the article's ω̂ of 4.3."""
    return [
        (float(z_n[source_n == k].min()), float(z_n[source_n == k].max()))
        for k in range(int(source_n.max()) + 1)
    ]


def box_errors(cell: Cell, folders: Folders) -> Tables:
    """Compute the error of the risk with min–max boxes where ω is a box, and where it is soft.

    ``sup`` is the largest |ω̂_k(z) − ω_k(z)|, which assumption 3 wants below C/√n. Where ω is a box
    there is also importance sampling of the first source alone.
    """
    kind, n, rows = str(cell["omega"]), int(cell["n"]), []
    omega: Callable[[Floats], Floats] = {"box": box_omega, "soft": soft_omega}[kind]
    # The ends of the true boxes are where an estimated one is off.
    grid = np.union1d(np.linspace(0.0, 1.0, 2001), np.array(BOXES).ravel())
    for draw in range(cell["first"], cell["first"] + cell["draws"]):
        z_n, source_n = draw_sources(omega, n, 3, np.random.default_rng([draw, n]))
        boxes = min_max_boxes(z_n, source_n)
        found: dict[str, tuple[Floats | None, float]] = {
            "true": (exact_weights(omega(z_n), source_n), 0.0),
            "boxes": (
                exact_weights(_indicators(z_n, boxes), source_n),
                float(np.abs(_indicators(grid, boxes) - omega(grid)).max()),
            ),
            "naive": (np.full(n, 1.0 / n), np.nan),
        }
        if kind == "box":
            # 1/ω is 1 on its images: what it never selects has none to be weighted.
            own_n = (source_n == 0).astype(np.float64)
            found["one_source"] = (own_n / own_n.sum(), np.nan)
        rows += [
            {
                "omega": kind,
                "n": n,
                "draw": draw,
                "arm": arm,
                "error": None if weight_n is None else worst_error(z_n, weight_n),
                "sup": sup,
            }
            for arm, (weight_n, sup) in found.items()
        ]
    return {"errors": rows}


def rule_risks(cell: Cell, folders: Folders) -> Tables:
    """Compute the excess risk of the learned threshold, for weights and an unbiased sample of n.

    Sources select by x and by the label: ω_k(x, y) = ω_k(x) a_k(y).
    """
    n, rows = int(cell["n"]), []
    for draw in range(cell["first"], cell["first"] + cell["draws"]):
        rng = np.random.default_rng([draw, n])
        x_n, y_n, source_n = _draw_labelled(n, rng)
        fair_n = rng.uniform(size=n)
        fair_y = (rng.uniform(size=n) < _chance(fair_n)).astype(np.int64)
        factor_nk = LABEL_FACTORS[:, y_n].T
        equal_n = np.full(n, 1.0 / n)
        arms = {
            "true": (x_n, y_n, exact_weights(three_sources(x_n) * factor_nk, source_n)),
            "root_n": (
                x_n,
                y_n,
                exact_weights(disturbed(x_n, C_OMEGA / np.sqrt(n)) * factor_nk, source_n),
            ),
            "naive": (x_n, y_n, equal_n),
            "fair_ref": (fair_n, fair_y, equal_n),
        }
        rows += [
            {
                "n": n,
                "draw": draw,
                "arm": arm,
                "excess": None
                if weight is None
                else CURVATURE * (learn_threshold(x, y, weight) - BEST) ** 2,
            }
            for arm, (x, y, weight) in arms.items()
        ]
    return {"risks": rows}


def learn_threshold(x_n: Floats, y_n: Ints, weight_n: Floats) -> float:
    """Return the t that minimises Σ_i π_i 1{1{x_i ≥ t} ≠ y_i}, in the middle of its gap."""
    order = np.argsort(x_n)
    signed_n = np.where(y_n[order] == 1, weight_n[order], -weight_n[order])
    # Raising t beyond image i gives up its label 1, or wins its label 0.
    at = int(np.argmin(np.concatenate([[0.0], np.cumsum(signed_n)])))
    edges = np.concatenate([[0.0], x_n[order], [1.0]])
    return float((edges[at] + edges[at + 1]) / 2.0)


def missing_links(cell: Cell, folders: Folders) -> Tables:
    """Count the draws of n images without a link between two sources, against κ and against ε.

    Against κ, ω is known: two intervals that share the mass κ. An image of each source must be in
    the shared part: ``expected`` is 1 − (1 − (1 − p)^(n/2))², p = 2κ/(1 + κ) its chance. Against ε,
    ω̂ are the counts of images in the two halves, 0 where a source shows none, as the class counts
    of 4.2. One image of either source in the other's half is enough: (1 − p)^n, p = ε/(1 + ε).
    """
    constant, value, n = str(cell["constant"]), float(cell["value"]), int(cell["n"])
    lost = 0
    for draw in range(cell["draws"]):
        rng = np.random.default_rng([draw, n, round(value * 1e6)])
        if constant == "kappa":
            z_n, source_n = draw_sources(lambda z: two_intervals(z, value), n, 2, rng)
            omega_nk = two_intervals(z_n, value)
        else:
            z_n, source_n = draw_sources(lambda z: two_levels(z, value), n, 2, rng)
            upper_n = (z_n >= 0.5).astype(np.int64)
            count_kh = np.array([np.bincount(upper_n[source_n == k], minlength=2) for k in (0, 1)])
            omega_nk = count_kh[:, upper_n].T.astype(np.float64)
        lost += not check_overlap(omega_nk, source_n).connected
    if constant == "kappa":
        expected = 1.0 - (1.0 - (1.0 - 2.0 * value / (1.0 + value)) ** (n // 2)) ** 2
    else:
        expected = (1.0 - value / (1.0 + value)) ** n
    row = {"constant": constant, "value": value, "n": n, "draws": cell["draws"]}
    return {"links": [{**row, "unconnected": lost / cell["draws"], "expected": expected}]}


def _indicators(z_n: Floats, boxes: Sequence[tuple[float, float]]) -> Floats:
    return np.column_stack([(z_n >= low) & (z_n <= high) for low, high in boxes]).astype(np.float64)


def _chance(x_n: Floats) -> Floats:
    return 0.5 + CURVATURE * (x_n - BEST)


def _draw_labelled(n: int, rng: np.random.Generator) -> tuple[Floats, Ints, Ints]:
    """Draw ((n,) x, (n,) label, (n,) source) by rejection."""
    size_k = split_sizes(n, 3)
    features, labels = list[Floats](), list[Ints]()
    for k, size in enumerate(size_k.tolist()):
        x, y = np.empty(0), np.empty(0, dtype=np.int64)
        while x.size < size:
            new_x = rng.uniform(size=8 * size)
            new_y = (rng.uniform(size=new_x.size) < _chance(new_x)).astype(np.int64)
            chance = three_sources(new_x)[:, k] * LABEL_FACTORS[k, new_y]
            kept = rng.uniform(size=new_x.size) < chance
            x, y = np.append(x, new_x[kept]), np.append(y, new_y[kept])
        features.append(x[:size])
        labels.append(y[:size])
    return np.concatenate(features), np.concatenate(labels), repeat_codes(size_k)
