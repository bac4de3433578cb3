"""Biased databases drawn from a clean one: the draw, its ids and groups, what cannot be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unskew
from raising import refused
from simulation.small_population import CLASSES, save_square, simulations_of
from unskew.errors import ConfigError, DataError
from unskew.simulation.databases import (
    drawn_table,
    read_population,
    read_sizes,
    simulate_acquisition,
    simulate_censored,
    simulate_overlapping_classes,
)


def test_draws_of_one_image_have_ids_of_their_own_and_one_group(population: unskew.Pool) -> None:
    simulation = simulations_of(population)["censored"]
    table = drawn_table(simulation)
    assert table["id"].is_unique
    assert len(table) > table["image"].nunique()
    assert (table.groupby("image")["group"].nunique() == 1).all()
    assert set(table.loc[table["source"] == "censored", "label"]) == set(CLASSES) - {"cat", "NA"}


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"n_sources": 3}, {"option": "sources", "value": 3, "allowed": [2, 4, 8]}),
        ({"overlap": 1.5}, {}),
        ({"sizes": [5, 5]}, {"option": "sizes", "value": [5, 5]}),
        ({"sizes": 3}, {}),
        ({"sizes": [5, 5, 5, 5], "ratio": 0.5}, {"option": "ratio", "value": 0.5}),
        ({"ratio": -1.0}, {}),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, Any], facts: dict[str, Any], population: unskew.Pool
) -> None:
    with refused(ConfigError, **facts):
        simulate_overlapping_classes(population, **{"overlap": 0.1, "n_sources": 4, **settings})


def test_other_mistakes_are_refused(population: unskew.Pool, tmp_path: Path) -> None:
    with refused(ConfigError, option="hidden", value=["bird"]):
        simulate_censored(population, hidden=["bird"])
    with refused(ConfigError):
        simulate_acquisition(population, decay=0.0)
    with refused(ConfigError, option="sizes", value="many"):
        read_sizes("many")
    assert [read_sizes(None), read_sizes("10"), read_sizes("3,4")] == [None, 10, [3, 4]]
    (tmp_path / "flat").mkdir()
    save_square(tmp_path / "flat" / "a.png", (1, 2, 3))
    with refused(DataError, column="label"):
        simulate_overlapping_classes(read_population(tmp_path / "flat"), overlap=0.1)
