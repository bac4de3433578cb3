"""What `unskew weigh` costs compared with reading the table and `unskew.debias` alone.

    python benchmarks/pipeline.py [--quick] [--repeats 3] [--output docs/pipeline-performance.md]

Tables without images, strata by label, a uniform target. Every run is a process of its own. Time is
processor time (user and system, all threads) from the kernel's account of the process, the least
of the repeats, less the start-up: that of the same command on a table of 100 rows. Memory is the
peak of the resident set, less that of the same start-up.
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
from pathlib import Path

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
QUICK = ((10**4, 10, 10), (10**5, 10, 10), (10**5, 10, 10**4), (10**5, 200, 10))
# Sizes that differ in one number only, over two decades.
SLOPES = {
    "rows": ((10**4, 10, 10), (10**5, 10, 10), (10**6, 10, 10)),
    "classes": ((10**5, 10, 10**3), (10**5, 10, 10**4), (10**5, 10, 10**5)),
    "sources": ((10**5, 20, 10), (10**5, 200, 10), (10**5, 2000, 10)),
}
MOST_TIME, MOST_MEMORY = 4.0, 6.0
RUN = """
[sources]
manifest = "table.parquet"
images = false

[target]
uniform = ["label"]

[bias]
family = "strata"
by = ["label"]
"""
PAGE = """# What a whole run costs

Written by `python benchmarks/pipeline.py --output docs/pipeline-performance.md`; do not edit by
hand.

`unskew weigh` of a table without images (strata by label, uniform target) compared with reading the
table and `unskew.debias` alone: processor time of all threads above start-up, least of {repeats}
runs, and peak memory above start-up relative to the table in memory. Start-up, a table of 100 rows,
takes {start_weigh:.1f} s and {start_alone:.1f} s.

{table}

The bars: at most {most_time:.0f} times the time of reading and `debias`, at most {most_memory:.0f}
times the table in memory. {missed}

How time grows above start-up, as the exponent between the smallest and the largest of sizes that
differ by a factor of 100 in one number (1: in proportion; below: slower than that):

{slopes}

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
    """One size: both commands above start-up, and the table in memory in bytes."""

    size: tuple[int, int, int]
    weigh: Cost
    alone: Cost
    table: int

    @property
    def time_ratio(self) -> float:
        """`weigh` relative to reading and `debias`."""
        return self.weigh.seconds / self.alone.seconds

    @property
    def memory_ratio(self) -> float:
        """Peak of `weigh` relative to the table."""
        return self.weigh.memory / self.table


def write_table(folder: Path, rows: int, sources: int, classes: int) -> int:
    """Write a table in which every source prefers some classes; return its bytes in memory."""
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
            "label": np.char.add("class", label_n.astype(str)),
        }
    )
    frame.to_parquet(folder / "table.parquet", index=False)
    (folder / "run.toml").write_text(RUN)
    return int(frame.memory_usage(deep=True, index=False).sum())


def debias_alone(folder: Path) -> None:
    """Read the table and weigh it; nothing is tested or written."""
    import unskew

    pool = unskew.Pool.from_manifest(folder / "table.parquet", images=False)
    unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))


def run_process(arguments: Sequence[str | Path], folder: Path) -> Cost:
    """Run Python in a folder; what it costs by the account of the kernel."""
    threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1")
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=folder,
            env=os.environ | threads,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{arguments} ended with {process.returncode}:\n{log.read_text()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def measure_commands(size: tuple[int, int, int], repeats: int) -> tuple[Cost, Cost, int]:
    """Measure `weigh` and `debias` in turn; the least of each, and the bytes of the table."""
    this = Path(__file__).resolve()
    weigh, alone = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # In a process of its own: the peak of a child begins with the memory of its parent.
        run_process([this, "--write", *map(str, size)], folder)
        table = int((folder / "log.txt").read_text())
        for _ in range(repeats):
            command = ["-m", "unskew", "weigh", "run.toml", "-o", "out", "--overwrite"]
            weigh.append(run_process(command, folder))
            alone.append(run_process([this, "--alone"], folder))
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
        "| table | peak of `weigh` | ratio |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in measured:
        rows, sources, classes = each.size
        lines.append(
            f"| {rows:,} | {sources:,} | {classes:,} | {each.weigh.seconds:.2f} s "
            f"| {each.alone.seconds:.2f} s | {each.time_ratio:.1f} | {each.table / 1e6:.0f} MB "
            f"| {each.weigh.memory / 1e6:.0f} MB | {each.memory_ratio:.1f} |"
        )
    return "\n".join(lines)


def slope_text(measured: Sequence[Measured]) -> str:
    """Lay out the exponents over two decades, where both ends were measured."""
    from math import log

    seconds = {each.size: (each.weigh.seconds, each.alone.seconds) for each in measured}
    lines = ["| growing | from | to | `weigh` | read and `debias` |", "|---|---:|---:|---:|---:|"]
    for at, (name, sizes) in enumerate(SLOPES.items()):
        if sizes[0] in seconds and sizes[-1] in seconds:
            first, last = sizes[0], sizes[-1]
            axis = (0, 2, 1)[at]
            pairs = zip(seconds[first], seconds[last], strict=True)
            grown = [log(new / old) / log(last[axis] / first[axis]) for old, new in pairs]
            lines.append(
                f"| {name} | {first[axis]:,} | {last[axis]:,} | {grown[0]:.2f} | {grown[1]:.2f} |"
            )
    return "\n".join(lines)


def missed_text(measured: Sequence[Measured]) -> str:
    """Name the sizes that miss a bar."""
    late = [each for each in measured if each.time_ratio > MOST_TIME]
    large = [each for each in measured if each.memory_ratio > MOST_MEMORY]
    return f"Time is above its bar for {_sizes(late)}; memory for {_sizes(large)}."


def _sizes(measured: Sequence[Measured]) -> str:
    return "; ".join(" × ".join(f"{n:,}" for n in each.size) for each in measured) or "none"


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
    given = parser.parse_args()
    if given.write:
        print(write_table(Path(), *given.write))
        return 0
    if given.alone:
        debias_alone(Path())
        return 0
    sizes = QUICK if given.quick else SIZES
    if given.sizes:
        sizes = tuple(tuple(map(int, text.split("x"))) for text in given.sizes)
    start_weigh, start_alone, _ = measure_commands(START, max(given.repeats, 3))
    print(f"start-up: {start_weigh.seconds:.2f} s, {start_alone.seconds:.2f} s", flush=True)
    measured = []
    for size in sizes:
        weigh, alone, table = measure_commands(size, given.repeats)
        cost = Measured(size, above(weigh, start_weigh), above(alone, start_alone), table)
        measured.append(cost)
        print(table_text([cost]).splitlines()[-1], flush=True)
    print(slope_text(measured))
    print(missed_text(measured))
    if given.output:
        given.output.write_text(page_text(measured, start_weigh, start_alone, given.repeats))
    return 0


def page_text(measured: Sequence[Measured], weigh: Cost, alone: Cost, repeats: int) -> str:
    """Fill in the page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return PAGE.format(
        repeats=repeats,
        start_weigh=weigh.seconds,
        start_alone=alone.seconds,
        table=table_text(measured),
        most_time=MOST_TIME,
        most_memory=MOST_MEMORY,
        missed=missed_text(measured),
        slopes=slope_text(measured),
        date=datetime.date.today(),
        commit=commit,
        machine=platform.machine(),
        cores=os.cpu_count(),
        python=platform.python_version(),
    )


if __name__ == "__main__":
    raise SystemExit(main())
