"""Compute what figures 7, 8, 9 and B2 show: image acquisition, section 4.3 of the article."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from paper.article_procedure import article_weights, bin_index, boxes
from paper.as_published import last_source_weights
from paper.class_experiments import exact_weights
from paper.experiment import Cell, Folders, Tables
from paper.populations import CifarPopulation, read_population
from unskew.errors import UnskewWarning
from unskew.records import Floats, Pool
from unskew.scenarios import Scenario, acquisition, geometric_sizes

N_BINS = 8
DECAYS = (0.1, 1.0, 10.0)
SIZES = ("balanced", "imbalanced")
RATIO = 0.75  # of the imbalanced case, n_k ∝ 0.75^k
CHANNELS = ("H", "S", "V")
N_HISTOGRAM = 32
EXAMPLES = 10  # images shown of each bin


def database_sizes(n: int, sizes: str) -> Any:
    """Return the (8,) sizes n_k of the balanced or the imbalanced case."""
    return geometric_sizes(n, N_BINS, 1.0 if sizes == "balanced" else RATIO)


def draw_databases(population: CifarPopulation, sizes: str, decay: float, run: int) -> Scenario:
    """Draw the K = 8 databases of a run; they are the same for every arm."""
    seed = np.random.default_rng([run, round(decay * 1e6), SIZES.index(sizes)])
    return acquisition(
        population.border,
        population.label,
        decay=decay,
        sizes=database_sizes(len(population.label), sizes),
        rng=seed,
    )


def arms_of_acquisition(scenario: Scenario, run: int) -> dict[str, Floats | None]:
    """Return the (n,) weights of every arm, None where there is no solution."""
    assert scenario.features is not None
    box_nk, source_n = boxes(scenario.features, scenario.source), scenario.source
    return {
        "naive": np.full(source_n.size, 1.0 / source_n.size),
        "article": article_weights(box_nk, source_n, seed=run),
        "as_published": last_source_weights(box_nk, source_n, seed=run),
        "exact": exact_weights(box_nk, source_n),
        "soft_box": soft_box_weights(scenario, run),
        "true": exact_weights(scenario.omega, source_n),
    }


def soft_box_weights(scenario: Scenario, run: int) -> Floats | None:
    from unskew.bias import SoftBox
    from unskew.debiasing.pool_weights import debias
    from unskew.errors import OverlapError

    assert scenario.features is not None
    columns = {name: scenario.features[:, at] for at, name in enumerate(CHANNELS)}
    pool = Pool.from_arrays([f"{code}" for code in scenario.source.tolist()], **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        try:
            return debias(pool, SoftBox(CHANNELS), rng=run).weight
        except OverlapError as error:
            logging.getLogger(__name__).info("no solution with soft boxes: %s", error)
            return None


def channel_marginals(cell: Cell, folders: Folders) -> Tables:
    """Estimate the densities of H, S and V under the weights of every arm (figures 8 and B2).

    ``distance`` is the 1-D Wasserstein distance, ∫ |F̃ − F|, of the weighted marginal from that of
    the training population (``distance_test``: of the test split). The full line of figure 8 is the
    arm "test".
    """
    population = read_population(folders.data, cell["data"], folders.cache)
    scenario = draw_databases(population, cell["sizes"], cell["decay"], cell["run"])
    assert scenario.features is not None
    marginals, distances = [], []
    for arm, weight_n in arms_of_acquisition(scenario, cell["run"]).items():
        if weight_n is None:
            distances.append(
                {**cell, "arm": arm, "distance": None, "distance_test": None, "images": 0}
            )
            continue
        used_n = weight_n > 0
        assert scenario.index is not None
        distances.append(
            {
                **cell,
                "arm": arm,
                "distance": channel_distance(scenario.features, population.border, weight_n),
                "distance_test": channel_distance(
                    scenario.features, population.test_border, weight_n
                ),
                "images": int(np.unique(scenario.index[used_n]).size),
            }
        )
        # Drawn as in the article for the balanced databases; the imbalanced ones enter the
        # distances.
        if cell["sizes"] == "balanced":
            marginals += _densities(cell, arm, scenario.features, weight_n)
    if cell["sizes"] == "balanced" and cell["run"] == 0:
        alike_n = np.full(len(population.test_border), 1.0 / len(population.test_border))
        marginals += _densities(cell, "test", population.test_border, alike_n)
    return {"marginals": marginals, "distances": distances}


def _densities(
    cell: Mapping[str, Any], arm: str, feature_nd: Floats, weight_n: Floats
) -> list[dict[str, Any]]:
    edges = np.linspace(0.0, 1.0, N_HISTOGRAM + 1)
    rows = []
    for at, channel in enumerate(CHANNELS):
        mass, _ = np.histogram(feature_nd[:, at], edges, weights=weight_n)
        rows += [
            {
                **cell,
                "arm": arm,
                "channel": channel,
                "value": float((low + high) / 2),
                "density": float(share * N_HISTOGRAM),
            }
            for low, high, share in zip(edges, edges[1:], mass, strict=False)
        ]
    return rows


def channel_distance(feature_nd: Floats, population_nd: Floats, weight_n: Floats) -> float:
    """Return Σ over H, S, V of the 1-D Wasserstein distance."""
    from scipy.stats import wasserstein_distance

    return float(
        sum(
            wasserstein_distance(feature_nd[:, at], population_nd[:, at], weight_n)
            for at in range(feature_nd.shape[1])
        )
    )


def bin_sizes(cell: Cell, folders: Folders) -> Tables:
    """Count the images of every bin (figure 9).

    Training images in every bin, n_k of both cases, and the bins of the drawn images for every γ.
    """
    population = read_population(folders.data, cell["data"], folders.cache)
    median_d = np.median(population.border, axis=0)
    train_k = np.bincount(bin_index(population.border, median_d), minlength=N_BINS)
    rows = [
        {**cell, "sizes": "train", "decay": None, "bin": k, "images": int(train_k[k])}
        for k in range(N_BINS)
    ]
    for sizes in SIZES:
        size_k = database_sizes(len(population.label), sizes)
        rows += [
            {**cell, "sizes": sizes, "decay": None, "bin": k, "images": int(size_k[k])}
            for k in range(N_BINS)
        ]
        for decay in DECAYS:
            scenario = draw_databases(population, sizes, decay, 0)
            assert scenario.features is not None
            found_k = np.bincount(bin_index(scenario.features, median_d), minlength=N_BINS)
            rows += [
                {**cell, "sizes": sizes, "decay": decay, "bin": k, "images": int(found_k[k])}
                for k in range(N_BINS)
            ]
    return {"sizes": rows}


def bin_examples(cell: Cell, folders: Folders) -> Tables:
    """Choose the training images that figure 7 shows of every bin, with a fixed seed."""
    population = read_population(folders.data, cell["data"], folders.cache)
    bin_n = bin_index(population.border, np.median(population.border, axis=0))
    rng = np.random.default_rng(0)
    rows = []
    for k in range(N_BINS):
        own = np.flatnonzero(bin_n == k)
        for at, image in enumerate(
            rng.choice(own, min(EXAMPLES, own.size), replace=False).tolist()
        ):
            hue, saturation, value = population.border[image].tolist()
            rows.append(
                {
                    **cell,
                    "bin": k,
                    "position": at,
                    "image": image,
                    "H": hue,
                    "S": saturation,
                    "V": value,
                }
            )
    return {"examples": rows}
