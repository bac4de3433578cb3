"""A pool of 1,500 images in memory, and the same in Parquet parts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd

from unskew import Pool, Target, bias

N = 1500


def make_frame(n: int = N) -> pd.DataFrame:
    """Three sources that select by z_0 and z_1; ω of each source is known in its own column."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2))
    pull = np.column_stack([np.zeros(n), z[:, 0], 0.5 * z[:, 0] - z[:, 1]])
    source = np.array(["a", "b", "c"])[(rng.gumbel(size=(n, 3)) + pull).argmax(axis=1)]
    return pd.DataFrame(
        {
            "id": [f"i{row}" for row in range(n)],
            "source": source,
            "label": np.where(z[:, 0] + rng.normal(size=n) > 0, "x", "y"),
            "z_0": z[:, 0],
            "z_1": z[:, 1],
            "in_a": np.ones(n),
            "in_b": np.exp(z[:, 0]),
            "in_c": np.exp(0.5 * z[:, 0] - z[:, 1]),
            "y": z[:, 0] ** 2 + rng.normal(size=n),
            "drawn": rng.uniform(0.5, 2.0, n),
        }
    )


def write_parts(folder: Path, frame: pd.DataFrame | None = None, parts: int = 3) -> pd.DataFrame:
    """Write parts of different sizes, with small row groups; return the table."""
    frame = make_frame() if frame is None else frame
    folder.mkdir(parents=True, exist_ok=True)
    edges = [len(frame) * at * (at + 1) // (parts * (parts + 1)) for at in range(parts + 1)]
    for at in range(parts):
        part = frame.iloc[edges[at] : edges[at + 1]]
        part.to_parquet(folder / f"part-{at}.parquet", row_group_size=300, index=False)
    return frame


def read_parts(folder: Path) -> pd.DataFrame:
    """Read weights that were written in parts, in their order."""
    files = sorted(folder.glob("*.parquet"))
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


STRATA = bias.Strata("label"), Target.margins({"label": {"x": 0.7, "y": 0.3}})
KNOWN = bias.Known({"a": "in_a", "b": "in_b", "c": "in_c"}), None
TILT = bias.Tilt(["z"]), Target.source("a")
PRODUCT = (
    bias.Product(bias.Known({"a": 1.0, "b": 1.0, "c": "in_c"}), bias.Tilt(["z_0"], reference="a")),
    None,
)
BOX = bias.Product(bias.Box(["z_1", "label"]), bias.Tilt(["z_0"], reference="a")), None
MASSES = Target.margins({"label": {"x": 0.7, "y": 0.3}})
BY_LABEL = (
    bias.Product(bias.Strata("label"), bias.Tilt(["z"], reference="a"), bias.Box(["z_1"])),
    MASSES,
)


def in_memory(frame: pd.DataFrame, **roles: str) -> Pool:
    return Pool.from_frame(frame, id="id", **roles)


def kill_first_holder(block: int, folder: str) -> int:
    """Kill the worker that computes block 3, the first time."""
    mark = Path(folder) / f"killed-{block}"
    if block == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block * block
