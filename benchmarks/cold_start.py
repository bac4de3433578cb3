"""What the first call costs on a fresh machine: processor time of a new process, nothing cached.

Writes docs/cold-start.md. Every call is a process of its own, on one thread: the first with an
empty cache of compiled code, the second with what the first left; byte code is there, as pip leaves
it. `--against` names the `src` folder of another checkout, whose second calls are measured in the
same run.

    python benchmarks/cold_start.py --against ../before/src
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
LIBRARIES = "libraries"
FAMILIES = ("debias_weights", "Strata", "Box", "Tilt", "Propensity", "SoftBox")
SIZES = ((3_000, 3), (100_000, 10))
ALLOWED = 1.5  # seconds that a first call may cost beyond a second


def call(family: str, n: int, n_sources: int, out: str) -> None:
    """Make the data, weigh them once, and write the weights."""
    import pandas as pd
    import scipy  # noqa: F401

    if family == LIBRARIES:
        return
    import unskew

    rng = np.random.default_rng(0)
    source = rng.integers(0, n_sources, n)
    if family == "debias_weights":
        weights = unskew.debias_weights(np.exp(rng.normal(size=(n, n_sources))), source)
    else:
        shift = 0.3 * np.column_stack([np.cos(source), np.sin(source)])
        feature = rng.normal(size=(n, 2)) + shift
        name = np.array([f"site {k}" for k in range(n_sources)])
        label = rng.integers(0, 5, n).astype(str)
        frame = pd.DataFrame({"source": name[source], "label": label, "a": feature[:, 0]})
        pool = unskew.Pool.from_frame(frame.assign(b=feature[:, 1]), source="source", label="label")
        model = getattr(unskew.bias, family)
        if family == "Strata":
            weights = unskew.debias(pool, model("label"), unskew.Target.uniform("label"))
        elif family in ("Tilt", "Propensity"):
            weights = unskew.debias(pool, model(["a", "b"]), unskew.Target.source("site 0"))
        else:
            weights = unskew.debias(pool, model(["a", "b"]))
    np.save(out, weights.weight)


def measure(case: tuple[str, int, int], source: Path, cache: Path) -> tuple[float, np.ndarray]:
    """Processor seconds of one process, and its weights."""
    one = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(one, "1"), "NUMBA_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "weights.npy"
        call_of_one = [sys.executable, "-W", "ignore", __file__, "--call"]
        child = subprocess.Popen(
            [*call_of_one, json.dumps([*case, str(out)])],
            env={**environment, "PYTHONPATH": str(source)},
        )
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise RuntimeError(f"{case} failed with status {status}")
        spent = usage.ru_utime + usage.ru_stime
        return spent, np.load(out) if out.exists() else np.empty(0)


def row_of(case: tuple[str, int, int], against: Path | None, kept: Path | None) -> dict[str, float]:
    """Measure first and second calls of one family and size."""
    with tempfile.TemporaryDirectory() as cache:
        first, _ = measure(case, ROOT / "src", Path(cache))
        second, weight = measure(case, ROOT / "src", Path(cache))
        found = {"first": first, "second": second}
    if against is not None:
        with tempfile.TemporaryDirectory() as cache:
            folder = kept or Path(cache)
            found["first before"], before = measure(case, against, folder)
            found["before"] = measure(case, against, folder)[0]
        found["difference"] = float(np.max(np.abs(weight / before - 1.0)))
    return found


def page(rows: dict[tuple[str, int, int], dict[str, float]], libraries: float, command: str) -> str:
    """Write the table, with its result first."""
    late = [case for case, row in rows.items() if row["first"] - row["second"] > ALLOWED]
    verdict = (
        f"No first call costs more than {ALLOWED} s beyond a second one"
        if not late
        else "First calls that cost more than "
        f"{ALLOWED} s beyond a second one: "
        + ", ".join(f"{family} of {n:,} × {k}" for family, n, k in late)
    )
    slower = [
        f"{family} of {n:,} × {k} ({row['second'] / row['before']:.2f} ×)"
        for (family, n, k), row in rows.items()
        if "before" in row and row["second"] > 1.1 * row["before"]
    ]
    lines = [
        "# The first call on a fresh machine",
        "",
        f"Of the calls below: {verdict[0].lower()}{verdict[1:]}. "
        "Second calls that are more than 1.1 × slower than before: "
        f"{', '.join(slower) or 'none'}.",
        "",
        f"Written by `{command}`; do not edit by hand. Python {sys.version.split()[0]}, "
        f"numpy {version('numpy')}, numba {version('numba')}. Processor seconds of new processes "
        f"on one thread; importing NumPy, SciPy and pandas alone takes {libraries:.2f} of each. "
        "*Before*: another checkout in the same run, its second call with its cache filled.",
        "",
        "| call | images × sources | first | second | second − libraries | before, second "
        "| largest relative difference of weights |",
        "|---|---|---|---|---|---|---|",
    ]
    for (family, n, k), row in rows.items():
        before = f"{row['before']:.2f}" if "before" in row else ""
        difference = f"{row['difference']:.0e}" if "difference" in row else ""
        lines.append(
            f"| {family} | {n:,} × {k} | {row['first']:.2f} | {row['second']:.2f} "
            f"| {row['second'] - libraries:.2f} | {before} | {difference} |"
        )
    lines += [
        "",
        "Up to a million numbers (images × sources) everything is computed by NumPy, and Numba is "
        "not imported. "
        "Beyond that loops are compiled once, with a line in the log and on the command line, "
        "and kept in the user's cache folder (`NUMBA_CACHE_DIR`, else `unskew/compiled` in the "
        "platform's), never in the package's. Where no such folder can be written, every process "
        "compiles. Each loop in NumPy is tested against its compiled twin.",
        "",
        "Weights of two families differ from those before, on purpose. `Propensity` deals its "
        "folds by the content of the images, no longer by the order of the rows. `SoftBox` climbs "
        "with the curvature of the images near their own rim, in fewer passes, and ends at another "
        "of several boxes that are nearly as likely (these data are no soft boxes); the weight of "
        "an image on a rim depends on which.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure every case and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    parser.add_argument("--kept", type=Path, help="its filled cache of compiled code")
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "cold-start.md")
    options = parser.parse_args()
    if options.call:
        call(*json.loads(options.call))
        return
    for source in filter(None, (ROOT / "src", options.against)):
        compileall.compile_dir(source, quiet=1)
    libraries = min(measure((LIBRARIES, 0, 0), ROOT / "src", ROOT)[0] for _ in range(2))
    rows: dict[tuple[str, int, int], dict[str, float]] = {}
    cases = [(family, *size) for size in SIZES for family in options.families]
    with ThreadPoolExecutor(options.jobs) as pool:
        measured = pool.map(lambda case: row_of(case, options.against, options.kept), cases)
        for case, row in zip(cases, measured, strict=True):
            rows[case] = row
            print(*case, row, flush=True)
            command = "python benchmarks/cold_start.py --against BEFORE/src"
            options.out.write_text(page(rows, libraries, command), encoding="utf-8")


if __name__ == "__main__":
    main()
