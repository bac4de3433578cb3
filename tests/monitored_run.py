"""A run on disk, and days of new images: one source becomes darker on the fifth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from run_data import TABLE_SOURCES, weigh

SHADES = """
[target]
margins.shade = { dark = 0.4, light = 0.6 }

[bias]
family = "strata"
by = ["shade"]
"""


def draw_day(day: int, rng: np.random.Generator, dark: float = 0.4, n: int = 25) -> pd.DataFrame:
    """New images of two sources; ``dark`` is the share of dark ones in the second."""
    share = np.repeat([0.3, dark], n)
    return pd.DataFrame(
        {
            "id": [f"{day}-{k}" for k in range(2 * n)],
            "site": np.repeat(["north", "south"], n),
            "shade": np.where(rng.random(2 * n) < share, "dark", "light"),
            "species": rng.choice(["fox", "hare"], 2 * n),
            "day": f"2026-03-{day:02d}",
        }
    )


def write_monitored_run(folder: Path) -> Path:
    """A folder with a run in ``out``, and days 1 to 8 in a table; ``south`` is dark from day 5."""
    rng = np.random.default_rng(0)
    draw_day(0, rng, n=150).to_csv(folder / "t.csv", index=False)
    roles = 'source = "site"\nlabel = "species"\n'
    (folder / "run.toml").write_text(TABLE_SOURCES + roles + SHADES)
    weigh(folder / "run.toml")
    days = [draw_day(day, rng, 0.4 if day < 5 else 0.95) for day in range(1, 9)]
    pd.concat(days).to_csv(folder / "days.csv", index=False)
    days[0].to_csv(folder / "day1.csv", index=False)
    pd.concat(days[1:3]).to_csv(folder / "day23.csv", index=False)
    return folder
