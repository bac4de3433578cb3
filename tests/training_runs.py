"""Two cameras that see discs and squares in light that goes with the shape: small enough to train a
network on in a second.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE = 16
# Replicates of the bootstrap: enough for an interval, few enough for a test.
FEW = ["--replicates", "40"]
CONFIGURATION = """
[sources]
folders = { day = "day", night = "night" }

[target]
uniform = "label"

[bias]
family = "strata"
by = ["label"]

[learn]
size = 16
epochs = 2
batch = 32

[engine]
jobs = 1
"""


def draw_shape(kind: str, light: float, rng: np.random.Generator) -> np.ndarray:
    """(16, 16, 3) a disc or a square somewhere, on a ground of that light."""
    y, x = np.mgrid[:SIDE, :SIDE]
    at_y, at_x, reach = *rng.uniform(5, 11, 2), rng.uniform(3, 5)
    inside = (
        (y - at_y) ** 2 + (x - at_x) ** 2 < reach**2
        if kind == "disc"
        else np.maximum(abs(y - at_y), abs(x - at_x)) < reach - 0.5
    )
    ground = np.full((SIDE, SIDE, 3), light)
    ground[inside] = (220.0, 60.0, 60.0) if kind == "disc" else (60.0, 60.0, 220.0)
    return np.clip(ground + rng.normal(0, 12, ground.shape), 0, 255).astype(np.uint8)


def write_shapes(folder: Path, sizes: dict[str, dict[str, int]], seed: int = 0) -> None:
    """{source: {class: images}} as folders of PNG files."""
    rng = np.random.default_rng(seed)
    for source, counts in sizes.items():
        for kind, count in counts.items():
            subfolder = folder / source / kind
            subfolder.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                light = rng.normal(60 if source == "night" else 170, 20)
                Image.fromarray(draw_shape(kind, light, rng)).save(
                    subfolder / f"{seed}-{at:03d}.png"
                )


def write_training_run(folder: Path, configuration: str = CONFIGURATION) -> Path:
    """120 images in which discs are rare by day, and the configuration."""
    write_shapes(folder, {"day": {"disc": 15, "square": 45}, "night": {"disc": 40, "square": 20}})
    (folder / "run.toml").write_text(configuration)
    return folder / "run.toml"


def read_json(path: Path) -> dict[str, Any]:
    """Read one of the records of a run."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def copy_run(shapes: Path, folder: Path) -> Path:
    """Copy the run with its data to another folder, where a test may change it."""
    for name in ("day", "night", "results"):
        shutil.copytree(shapes / name, folder / name)
    shutil.copy(shapes / "run.toml", folder)
    return folder
