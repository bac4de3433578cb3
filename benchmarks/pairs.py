"""How often intervals of verification errors hold the truth: python benchmarks/pairs.py.

Worlds of `pair_worlds.py`, 300 data sets each (``python benchmarks/pairs.py 100 plain``: 100 of the
world "plain"). A line of the table is a world; a number is the
percentage of the data sets whose 95% interval holds the truth on the target.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
from pair_worlds import WORLDS, World

from unskew.evaluation.pairs import evaluate_pairs

COLUMNS = {
    "eer": "EER",
    "fmr": "FMR at t",
    "fnmr": "FNMR at t",
    "fmr f": "FMR of women at t",
    "fnmr at 1%": "FNMR at FMR 1 %",
    "fnmr at 0.1%": "FNMR at FMR 0.1 %",
    "gap fmr": "gap in FMR",
    "gap fnmr": "gap in FNMR",
    "fmr low": "FMR at t (0.1 %)",
}


def judge_once(world: World, rng: np.random.Generator) -> dict[str, bool]:
    """Tell which intervals of one data set hold the truth; women may lack pairs of a kind."""
    table, pairs = world.draw(rng)
    limits = [world.threshold_at(1e-2), world.threshold_at(1e-3)]
    result = evaluate_pairs(
        table, pairs, thresholds=limits, fmr=(1e-2, 1e-3), by=["gender"], roc=False
    )
    cells = {cell.name: cell for cell in result.breakdowns[0].cells}
    t = limits[0]
    truth = {
        "eer": (result.overall.equal_error, world.equal_error()),
        "fmr": (result.overall.points[0].fmr, world.fmr(t)),
        "fnmr": (result.overall.points[0].fnmr, world.fnmr(t)),
        "fnmr at 1%": (result.overall.points[2].fnmr, world.fnmr(t)),
        "fnmr at 0.1%": (result.overall.points[3].fnmr, world.fnmr(limits[1])),
        "fmr low": (result.overall.points[1].fmr, world.fmr(limits[1])),
    }
    if "f" in cells:
        truth["fmr f"] = (cells["f"].points[0].fmr, world.fmr(t, "f"))
    for gap in result.breakdowns[0].gaps:
        if gap.threshold == t and {gap.first, gap.second} == {"f", "m"}:
            sign = 1.0 if gap.first == "f" else -1.0
            rate = getattr(world, gap.rate)
            truth[f"gap {gap.rate}"] = (gap.figure, sign * (rate(t, "f") - rate(t, "m")))
    return {
        name: figure.interval[0] <= value <= figure.interval[1]
        for name, (figure, value) in truth.items()
        if figure.interval is not None
    }


def main(data_sets: int = 300, *names: str) -> None:
    """Print the table, of some worlds or of all."""
    print("| world | sets | " + " | ".join(COLUMNS.values()) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for name in names or WORLDS:
        world = WORLDS[name]
        rng = np.random.default_rng(0)
        held = defaultdict(list)
        for _ in range(data_sets):
            for figure, holds in judge_once(world, rng).items():
                held[figure].append(holds)
        shown = [f"{100 * np.mean(held[figure]):.0f}" for figure in COLUMNS]
        print(f"| {name} | {data_sets} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]), *sys.argv[2:])
