"""Weights compared with the truth of the simulation that they debias."""

from __future__ import annotations

from pathlib import Path

import unskew
from raising import refused
from simulation.small_population import weigh_folder
from unskew.errors import DataError
from unskew.simulation.databases import (
    simulate_overlapping_classes,
)
from unskew.simulation.files import write_simulation
from unskew.simulation.truth import compare_with_truth


def test_results_of_another_simulation_are_refused(population: unskew.Pool, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        write_simulation(
            simulate_overlapping_classes(population, overlap=0.3, n_sources=2, seed=seed),
            tmp_path / name,
        )
    weigh_folder(tmp_path / "a", tmp_path / "results")
    with refused(DataError, path=str(tmp_path / "results")):
        compare_with_truth(tmp_path / "b", tmp_path / "results")
    with refused(DataError, path=str(tmp_path / "truth.parquet")):
        compare_with_truth(tmp_path, tmp_path / "results")
    with refused(DataError, path=str(tmp_path / "b" / "weights.parquet")):
        compare_with_truth(tmp_path / "a", tmp_path / "b")
