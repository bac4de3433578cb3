"""Compute what figures 4, 5, 6 and B1 show: overlapping classes, section 4.2 of the article."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from paper.article_procedure import article_weights
from paper.as_published import published_weights
from paper.experiment import Cell, Folders, Tables
from paper.populations import read_population
from unskew.errors import OverlapError, WeakOverlapWarning
from unskew.records import Floats
from unskew.scenarios import Scenario, overlapping_classes
from unskew.solve.normalizers import check_overlap, solve_normalizers
from unskew.weigh.solved_weights import debias_weights

N_SOURCES = 5
# Figure 4; figure 5 (the values of the article's table 1); figure 6 (12 values, logarithmic).
OVERLAPS_COUNTED = (0.05, 0.2)
OVERLAPS_SHOWN = (0.001, 0.01, 0.1, 0.2)
OVERLAPS_SWEPT = tuple(float(f"{overlap:.2g}") for overlap in np.geomspace(1e-6, 0.8, 12))
# After how many steps the descents are looked at.
STEPS_SHOWN = (100, 300, 1000, 3000, 4000, 10_000, 30_000)


def draw_databases(label: Any, overlap: float, run: int) -> Scenario:
    """Draw the K = 5 databases of a run, n_k = N/5.

    Every γ and run has its own draw; it is the same for every arm.
    """
    seed = np.random.default_rng([run, round(overlap * 1e9)])
    return overlapping_classes(
        label, overlap=overlap, n_sources=N_SOURCES, sizes=len(label), rng=seed
    )


def arms_of_classes(scenario: Scenario, run: int) -> dict[str, Floats | None]:
    """Return the (n,) weights of every arm, None where the sources of the draw lack a link."""
    estimated_nk, source_n = scenario.omega_estimated, scenario.source
    return {
        "article": article_weights(estimated_nk, source_n, seed=run),
        "as_published": published_weights(estimated_nk, source_n, seed=run),
        "exact": exact_weights(estimated_nk, source_n),
        "true": exact_weights(scenario.omega, source_n),
    }


def exact_weights(omega_nk: Floats, source_n: Any) -> Floats | None:
    """Return the exact weights, or None where they do not exist.

    Weak links are the subject of these figures and give no warning.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        try:
            return debias_weights(omega_nk, source_n, jobs=1).weight
        except OverlapError:
            return None


def count_images(cell: Cell, folders: Folders) -> Tables:
    """Count the images of every class in every source (figure 4)."""
    population = read_population(folders.data, cell["data"], folders.cache)
    scenario = draw_databases(population.label, cell["overlap"], 0)
    assert scenario.label is not None
    count_ky = np.zeros((N_SOURCES, population.n_classes), dtype=np.int64)
    np.add.at(count_ky, (scenario.source, scenario.label), 1)
    return {
        "counts": [
            {**cell, "source": k + 1, "label": y, "images": int(count_ky[k, y])}
            for k in range(N_SOURCES)
            for y in range(population.n_classes)
        ]
    }


def class_masses(cell: Cell, folders: Folders) -> Tables:
    """Sum the weights of every class, for every arm and in the test split (figure 5)."""
    population = read_population(folders.data, cell["data"], folders.cache)
    scenario = draw_databases(population.label, cell["overlap"], cell["run"])
    test_y = np.bincount(population.test_label) / population.test_label.size
    assert scenario.label is not None
    rows = []
    for arm, weight_n in arms_of_classes(scenario, cell["run"]).items():
        if weight_n is not None:
            mass_y = np.bincount(scenario.label, weights=weight_n, minlength=population.n_classes)
            rows += [
                {
                    **cell,
                    "arm": arm,
                    "label": y,
                    "mass": float(mass_y[y]),
                    "target": float(test_y[y]),
                }
                for y in range(mass_y.size)
            ]
    return {"masses": rows}


def weight_distances(cell: Cell, folders: Folders) -> Tables:
    """Compute ‖π − 1/n‖₂ and max_y |mass of class y − target| of every arm (figure 6).

    Missing where a draw has no solution.

    ``connected``: the sources of the draw are linked by the classes that they show; if not,
    ``unlinked`` names the groups.
    """
    population = read_population(folders.data, cell["data"], folders.cache)
    scenario = draw_databases(population.label, cell["overlap"], cell["run"])
    target_y = scenario.target_mean["label_share"]
    assert scenario.label is not None
    arms, rows = arms_of_classes(scenario, cell["run"]), []
    connected = arms["exact"] is not None
    unlinked = None if connected else _groups(scenario)
    for arm, weight_n in arms.items():
        row: dict[str, Any] = {
            **cell,
            "arm": arm,
            "connected": connected,
            "unlinked": unlinked,
            "distance": None,
            "class_error": None,
        }
        if weight_n is not None:
            mass_y = np.bincount(scenario.label, weights=weight_n, minlength=target_y.size)
            row |= {
                "distance": float(np.linalg.norm(weight_n - 1.0 / weight_n.size)),
                "class_error": float(np.abs(mass_y - target_y).max()),
            }
        rows.append(row)
    return {"distances": rows}


def _groups(scenario: Scenario) -> str:
    """Name the groups of sources that lack a link to one another, as ``1 | 2 3 | 4 5``."""
    names = [str(k + 1) for k in range(N_SOURCES)]
    groups = check_overlap(scenario.omega_estimated, scenario.source, names=names).components
    return " | ".join(" ".join(group) for group in groups)


def descent_errors(cell: Cell, folders: Folders) -> Tables:
    """Compute the error of the log normalizers after so many steps (figure B1).

    max_k |log Ŵ_k − log W_k|, mean removed.
    """
    population = read_population(folders.data, cell["data"], folders.cache)
    scenario = draw_databases(population.label, cell["overlap"], cell["run"])
    omega_nk, source_n = scenario.omega_estimated, scenario.source
    if exact_weights(omega_nk, source_n) is None:
        return {"descents": [{**cell, "method": "newton", "steps": 0, "error": None}]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        solution = solve_normalizers(omega_nk, source_n, jobs=1)
    exact_k = solution.log_normalizer
    rows = [
        {
            **cell,
            "method": "newton",
            "steps": solution.n_steps,
            "error": float(solution.error_estimate),
        }
    ]
    for steps in STEPS_SHOWN:
        for method, weigh in (("article", article_weights), ("as_published", published_weights)):
            log_k = np.log(weigh(omega_nk, source_n, seed=cell["run"], steps=steps) @ omega_nk)
            rows.append(
                {
                    **cell,
                    "method": method,
                    "steps": steps,
                    "error": float(np.abs(_centred(log_k - exact_k)).max()),
                }
            )
    return {"descents": rows}


def _centred(value_k: Floats) -> Floats:
    return np.asarray(value_k - value_k.mean())


def grid(**axes: Any) -> Iterator[Cell]:
    """List all combinations, the first axis varying slowest."""
    import itertools

    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
