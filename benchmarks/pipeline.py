"""What `unskew weigh` costs compared with reading the table and `unskew.debias` alone.

    python benchmarks/pipeline.py [--quick] [--repeats 3] [--output docs/pipeline-performance.md]

Tables without images, strata by label (or by place, and labels that vary within them), a uniform
target. Every run is a process of its own. Time is processor time (user and system, all threads)
from the kernel's account of the process, the least of the repeats. Ratios are of whole processes:
reading 10⁵ rows and `debias` take less than start-ups vary by. How time grows is told above the
start-up, that of the same command on a table of 100 rows. Memory is the peak of the resident set,
less that of the same start-up, relative to the table: the deep memory of the pandas table as it is
read.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

# Seconds above start-up below which a ratio says nothing.
LEAST_ALONE = 0.25
# Rows, sources, classes. The first is the start-up.
START = (100, 2, 2)
SIZES = (
    (10**4, 10, 10),
    (10**5, 10, 10),
    (10**6, 10, 10),
    (3 * 10**6, 10, 10),
    (10**6, 200, 1000),
    (10**5, 10, 10**3),
    (10**5, 10, 10**4),
    (10**5, 10, 10**5),
    (10**5, 20, 10),
    (10**5, 200, 10),
    (10**5, 2000, 10),
)
# Strata by place: the labels, ten of them, vary within the strata and are tested.
VARYING = ((10**4, 10, 10**4), (10**5, 10, 10**5))
QUICK = ((10**4, 10, 10), (10**5, 10, 10), (10**5, 10, 10**4), (10**5, 200, 10))
# Sizes that differ in one number only, over two decades.
SLOPES = {
    "rows": ((10**4, 10, 10), (10**5, 10, 10), (10**6, 10, 10)),
    "classes": ((10**5, 10, 10**3), (10**5, 10, 10**4), (10**5, 10, 10**5)),
    "sources": ((10**5, 20, 10), (10**5, 200, 10), (10**5, 2000, 10)),
}
MOST_TIME, MOST_MEMORY, MOST_GROWTH = 4.0, 6.0, 1.2
RUN = """
[sources]
manifest = "table.parquet"
images = false

[target]
uniform = ["{by}"]

[bias]
family = "strata"
by = ["{by}"]
"""
PAGE = """# What a whole run costs

Read this page to see how long `unskew weigh` takes and how much memory it needs, compared with
weights in Python.

Written by `python benchmarks/pipeline.py --repeats {repeats} --output
docs/pipeline-performance.md`; do not edit by hand.

{verdict}

`unskew weigh` of a table without images (strata by label, uniform target) compared with reading the
table and `unskew.debias` alone, each a process of its own: processor time of all threads, least of
{repeats} runs. Start-up, a table of 100 rows, takes {start_weigh:.2f} s and {start_alone:.2f} s of
them. Memory is the peak of the resident set above that of start-up ({start_memory:.0f} MB),
relative to the table in memory: the deep memory of the pandas table as it is read, text in Arrow's
format, some 40 bytes a row.

{table}

The same with strata by place, and ten labels that vary within the strata, so that the model is
tested on them:

{varying}

{above}

How the time of `weigh` grows above start-up, as the exponent between sizes that differ by a factor
of 10 in one number (1: in proportion; below: slower than that):

{slopes}

Where memory is above its bar the table is small, and what is beyond it does not grow with the rows.
By the resident set after each step: to read a table of 4 MB takes about 30 MB (Arrow's dictionaries
of texts 15, hashes of the ids 10), fingerprints 10; of 2,000 sources the tables of links and of
common images, 2,000 × 2,000 each, take 64 MB, which `Overlap` returns; of 60,000 strata tables of
strata × sources take 5 MB each, names and levels 30, the page that is written 10. About 13 MB of
each are gaps that the allocator keeps: with `MALLOC_MMAP_THRESHOLD_=262144` and
`MALLOC_TRIM_THRESHOLD_=262144` 100,000 × 10 × 10 peaks at 4 tables in place of 7, and
1,000,000 × 10 × 10 takes 30% more time, so that they are not set.

Measured on {date} at commit {commit}: {machine}, {cores} cores, Python {python}. Other work on the
machine adds to processor time, and to both columns by chance: ratios of few runs are rough.
"""


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds and peak memory in bytes of one process."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class Measured:
    """One size: `weigh` above start-up, both commands whole, and the table in memory in bytes."""

    size: tuple[int, int, int]
    weigh: Cost
    whole_weigh: Cost
    whole_alone: Cost
    table: int

    @property
    def time_ratio(self) -> float:
        """`weigh` relative to reading and `debias`, both with their start-up."""
        return self.whole_weigh.seconds / self.whole_alone.seconds

    @property
    def memory_ratio(self) -> float:
        """Peak of `weigh` relative to the table."""
        return self.weigh.memory / self.table


def write_table(folder: Path, rows: int, sources: int, classes: int, by: str) -> int:
    """Write a table in which every source prefers some classes; return its bytes in memory.

    They are the labels; or with ``by`` = "place" the places, and the labels are ten others.
    """
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(rows + sources + classes)
    source_n = rng.integers(sources, size=rows)
    # A third of the images come from the half of the classes that their source prefers.
    preferred_n = (rng.integers((classes + 1) // 2, size=rows) + source_n) % classes
    label_n = np.where(rng.random(rows) < 1 / 3, preferred_n, rng.integers(classes, size=rows))
    frame = pd.DataFrame(
        {
            "id": pd.Series(np.arange(rows)).astype(str),
            "source": np.char.add("site", source_n.astype(str)),
            by: np.char.add("class", label_n.astype(str)),
        }
    )
    if by != "label":
        frame["label"] = np.char.add("class", rng.integers(10, size=rows).astype(str))
    frame.to_parquet(folder / "table.parquet", index=False)
    (folder / "run.toml").write_text(RUN.format(by=by))
    return int(frame.memory_usage(deep=True, index=False).sum())


def debias_alone(folder: Path, by: str) -> None:
    """Read the table and weigh it; nothing is tested or written."""
    import unskew

    pool = unskew.Pool.from_manifest(folder / "table.parquet", images=False)
    unskew.debias(pool, unskew.bias.Strata(by), unskew.Target.uniform(by))


def run_process(arguments: Sequence[str | Path], folder: Path) -> Cost:
    """Run Python in a folder; what it costs by the account of the kernel."""
    variables = os.environ | dict.fromkeys(
        ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1"
    )
    # Start-up is that of an installed package: its modules are compiled once, by the first run.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "pipeline-pyc"))
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=folder,
            env=variables,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{arguments} ended with {process.returncode}:\n{log.read_text()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def measure_commands(
    size: tuple[int, int, int], repeats: int, by: str = "label"
) -> tuple[Cost, Cost, int]:
    """Measure `weigh` and `debias` in turn; the least of each, and the bytes of the table."""
    this = Path(__file__).resolve()
    weigh, alone = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # In a process of its own: the peak of a child begins with the memory of its parent.
        run_process([this, "--by", by, "--write", *map(str, size)], folder)
        table = int((folder / "log.txt").read_text())
        for _ in range(repeats):
            command = ["-m", "unskew", "weigh", "run.toml", "-o", "out", "--overwrite"]
            weigh.append(run_process(command, folder))
            alone.append(run_process([this, "--by", by, "--alone"], folder))
    return _least(weigh), _least(alone), table


def _least(costs: Sequence[Cost]) -> Cost:
    # Other work on the machine only ever adds to processor time.
    return Cost(min(cost.seconds for cost in costs), min(cost.memory for cost in costs))


def above(cost: Cost, start: Cost) -> Cost:
    """Subtract the start-up."""
    return Cost(max(cost.seconds - start.seconds, 1e-3), max(cost.memory - start.memory, 0.0))


def table_text(measured: Sequence[Measured]) -> str:
    """Lay out the figures of all sizes."""
    lines = [
        "| rows | sources | classes | `weigh` | read and `debias` | ratio "
        "| `weigh` above start-up | table | peak of `weigh` | ratio |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in measured:
        rows, sources, classes = each.size
        lines.append(
            f"| {rows:,} | {sources:,} | {classes:,} | {each.whole_weigh.seconds:.2f} s "
            f"| {each.whole_alone.seconds:.2f} s | {each.time_ratio:.1f} "
            f"| {each.weigh.seconds:.2f} s | {each.table / 1e6:.0f} MB "
            f"| {each.weigh.memory / 1e6:.0f} MB | {each.memory_ratio:.1f} |"
        )
    return "\n".join(lines)


def find_growth(measured: Sequence[Measured]) -> list[tuple[str, int, int, float]]:
    """Return (what grows, from, to, exponent of `weigh` above start-up) of each decade measured."""
    from math import log

    seconds = {each.size: each.weigh.seconds for each in measured}
    growth = []
    for axis, (name, sizes) in zip((0, 2, 1), SLOPES.items(), strict=True):
        for small, large in pairwise(sizes):
            if small in seconds and large in seconds:
                grown = log(seconds[large] / seconds[small]) / log(large[axis] / small[axis])
                growth.append((name, small[axis], large[axis], grown))
    return growth


def slope_text(measured: Sequence[Measured]) -> str:
    """Lay out the exponents of each decade."""
    lines = ["| growing | from | to | exponent |", "|---|---:|---:|---:|"]
    for name, small, large, exponent in find_growth(measured):
        lines.append(f"| {name} | {small:,} | {large:,} | {exponent:.2f} |")
    return "\n".join(lines)


def above_text(measured: Sequence[Measured], start_alone: Cost) -> str:
    """Say what the ratios are above start-up, where the other side takes long enough to tell."""
    ratios = []
    for each in measured:
        alone = above(each.whole_alone, start_alone).seconds
        if alone >= LEAST_ALONE:
            size = " × ".join(f"{n:,}" for n in each.size)
            ratios.append(f"{each.weigh.seconds / alone:.1f} for {size}")
    return (
        "These ratios, and the verdict, are of whole processes, start-up included. Above start-up, "
        "by which earlier\nversions of this page judged, they are "
        + ("; ".join(ratios) or "not known")
        + f".\nElsewhere reading and `debias` take less than {LEAST_ALONE:g} s above start-up, "
        "about as much as start-ups vary by."
    )


def verdict_text(measured: Sequence[Measured]) -> str:
    """Say which bars hold, and name the sizes that miss one."""
    late = [each for each in measured if each.time_ratio > MOST_TIME]
    large = [each for each in measured if each.memory_ratio > MOST_MEMORY]
    growth = find_growth(measured)
    fast = [f"{name} {low:,} to {high:,}" for name, low, high, own in growth if own > MOST_GROWTH]
    n = len(measured)
    return "\n".join(
        [
            f"- Time is at most {MOST_TIME:.0f} times that of reading and `debias` in "
            f"{n - len(late)} of {n} sizes{_missed(_sizes(late))}.",
            f"- Peak memory is at most {MOST_MEMORY:.0f} times the table in {n - len(large)} of "
            f"{n}{_missed(_sizes(large))}.",
            f"- Time grows at most in proportion (exponent up to {MOST_GROWTH:g}) in "
            f"{len(growth) - len(fast)} of {len(growth)} decades{_missed('; '.join(fast))}.",
        ]
    )


def _missed(names: str) -> str:
    return f"; not for {names}" if names else ""


def _sizes(measured: Sequence[Measured]) -> str:
    return "; ".join(" × ".join(f"{n:,}" for n in each.size) for each in measured)


def main() -> int:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few sizes, in a minute")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="the page to write")
    parser.add_argument("--sizes", nargs="+", help="such as 10000x10x10: rows, sources, classes")
    parser.add_argument("--write", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--by", default="label", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        print(write_table(Path(), *given.write, given.by))
        return 0
    if given.alone:
        debias_alone(Path(), given.by)
        return 0
    sizes = QUICK if given.quick else SIZES
    if given.sizes:
        sizes = tuple(tuple(map(int, text.split("x"))) for text in given.sizes)
    start_weigh, start_alone, _ = measure_commands(START, max(given.repeats, 3))
    print(f"start-up: {start_weigh.seconds:.2f} s, {start_alone.seconds:.2f} s", flush=True)

    def measure(size: tuple[int, int, int], by: str) -> Measured:
        weigh, alone, table = measure_commands(size, given.repeats, by)
        cost = Measured(size, above(weigh, start_weigh), weigh, alone, table)
        print(table_text([cost]).splitlines()[-1], flush=True)
        return cost

    measured = [measure(size, "label") for size in sizes]
    print(slope_text(measured))
    print(verdict_text(measured))
    if given.output:
        varying = [measure(size, "place") for size in VARYING]
        page = page_text(measured, varying, start_weigh, start_alone, given.repeats)
        given.output.write_text(page)
    return 0


def page_text(
    measured: Sequence[Measured],
    varying: Sequence[Measured],
    weigh: Cost,
    alone: Cost,
    repeats: int,
) -> str:
    """Fill in the page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return PAGE.format(
        repeats=repeats,
        start_weigh=weigh.seconds,
        start_alone=alone.seconds,
        start_memory=weigh.memory / 1e6,
        table=table_text(measured),
        varying=table_text(varying),
        verdict=verdict_text(measured),
        slopes=slope_text(measured),
        above=above_text(measured, alone),
        date=datetime.date.today(),
        commit=commit,
        machine=platform.machine(),
        cores=os.cpu_count(),
        python=platform.python_version(),
    )


if __name__ == "__main__":
    raise SystemExit(main())
