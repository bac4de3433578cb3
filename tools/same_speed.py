"""Is another checkout as fast? Both are measured in turn, in one run; the best of several counts.

    python tools/same_speed.py OLD_CHECKOUT NEW_CHECKOUT [--rounds 5]

Prints the seconds of each and new/old for `import unskew`, `unskew --help`, `unskew weigh` of the
demo (nothing cached), and `debias` of a million images from five sources: Strata, and Tilt of two
features.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from same_results import call, check_checkout, run_python

N_IMAGES = 1_000_000
# A process is timed from outside; the rest tell their own seconds.
COMMANDS: dict[str, list[str]] = {
    "import unskew": ["-c", "import unskew"],
    "unskew --help": ["-m", "unskew", "--help"],
    "unskew weigh": [
        "-m",
        "unskew",
        "weigh",
        "run.toml",
        "-o",
        "results",
        "--overwrite",
        "--quiet",
    ],
}
CASES = ("Strata", "Tilt")


def make_case(name: str, n: int) -> tuple[Any, Any, Any]:
    """Pool, bias model and target of n images in five sources."""
    import unskew

    if name == "Strata":
        drawn = call(
            unskew.scenarios.overlapping_classes, overlap=0.3, n_classes=10, sizes=n, rng=0
        )
        pool = unskew.Pool.from_arrays(drawn.source.astype(str), label=drawn.label.astype(str))
        return pool, unskew.bias.Strata("label"), unskew.Target.uniform("label")
    theta = [[0.0, 0.0], [0.5, 0.0], [-0.5, 0.3], [0.0, 0.5], [0.3, -0.5]]
    drawn = call(unskew.scenarios.tilts, n, theta=theta, rng=0)
    pool = unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features)
    return pool, unskew.bias.Tilt(["x"]), unskew.Target.source("0")


def time_debias(name: str) -> float:
    """Seconds of one call, after a small one that compiles."""
    import unskew

    warnings.simplefilter("ignore")
    call(unskew.debias, *make_case(name, 5000), check_sample=False)
    case = make_case(name, N_IMAGES)
    begin = time.perf_counter()
    call(unskew.debias, *case, check_sample=False)
    return time.perf_counter() - begin


def measure(checkout: Path, name: str, demo: Path) -> float:
    """Seconds of one run in a process of its own."""
    if name in CASES:
        return float(
            run_python(checkout, [Path(__file__).resolve(), "--debias", name], demo).stdout
        )
    shutil.rmtree(demo / ".unskew-cache", ignore_errors=True)
    begin = time.perf_counter()
    run_python(checkout, COMMANDS[name], demo)
    return time.perf_counter() - begin


def compare_speed(checkouts: list[Path], rounds: int) -> None:
    """One line for each task; who goes first changes from round to round."""
    with tempfile.TemporaryDirectory() as scratch:
        demos = [Path(scratch) / side for side in ("old", "new")]
        for checkout, demo in zip(checkouts, demos, strict=True):
            check_checkout(checkout, Path(scratch))
            run_python(checkout, ["-m", "unskew", "demo", "-o", demo, "--quiet"], Path(scratch))
        print(f"{'best of ' + str(rounds):<16}{'old':>9}{'new':>9}{'new/old':>9}")
        for name in (*COMMANDS, *CASES):
            seconds = np.full((rounds, 2), np.inf)
            for at in range(rounds):
                for side in (0, 1) if at % 2 else (1, 0):
                    seconds[at, side] = measure(checkouts[side], name, demos[side])
            old, new = seconds.min(axis=0)
            told = f"debias, {name}" if name in CASES else name
            print(f"{told:<16}{old:>7.3f} s{new:>7.3f} s{new / old:>9.2f}", flush=True)


def main() -> None:
    """Read the command line; `--debias` is a step that the measurement runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=lambda given: Path(given).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--debias", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.debias:
        print(time_debias(given.debias))
    elif len(given.checkouts) != 2:
        parser.error("name two checkouts, the old one and the new one")
    else:
        compare_speed(given.checkouts, given.rounds)


if __name__ == "__main__":
    main()
