"""The population that simulations draw from: read once for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unskew
from simulation.small_population import CLASSES, save_square
from unskew.simulation.databases import (
    read_population,
)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight classes of twelve pictures, of names that break careless code."""
    folder = tmp_path_factory.mktemp("clean") / "my photos"
    rng = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for at in range(12):
            save_square(folder / name / f"{at} 'x',#1 é.png", rng.integers(0, 256, 3))
    return folder


@pytest.fixture(scope="session")
def population(photos: Path) -> unskew.Pool:
    return read_population(photos, features=["border_hsv"], jobs=1, progress=False)
