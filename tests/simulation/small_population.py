"""Pictures of eight classes to simulate from, and simulations of each kind."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import unskew
from unskew.runs.inputs import load_config
from unskew.simulation.databases import (
    simulate_acquisition,
    simulate_censored,
    simulate_overlapping_classes,
)

CLASSES = ("cat", "dog", "fox", 'a,b "q"\n<script>', "ship", "NA", "01", "über.")


def save_square(path: Path, colour: Any) -> None:
    """A picture of six by six pixels, all of one colour."""
    Image.fromarray(np.broadcast_to(np.uint8(colour), (6, 6, 3)).copy()).save(path, format="PNG")


def weigh_folder(folder: Path, results: Path) -> None:
    """Run the configuration of a simulation as `unskew weigh` does."""
    with warnings.catch_warnings():
        # So few images are weakly linked; here that is no matter.
        warnings.simplefilter("ignore", unskew.errors.UnskewWarning)
        unskew.run(load_config(folder / "run.toml", jobs=1), results, progress=False)


def simulations_of(population: unskew.Pool) -> dict[str, Any]:
    """One simulation of each kind."""
    return {
        "overlapping-classes": simulate_overlapping_classes(
            population, overlap=0.3, n_sources=4, sizes=400, ratio=0.5, seed=1
        ),
        "acquisition": simulate_acquisition(population, decay=0.7, sizes=400, seed=1),
        "censored": simulate_censored(population, hidden=["cat", "NA"], sizes=[900, 100], seed=1),
    }
