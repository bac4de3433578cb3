"""An epoch of weighted sampling compared with torch's WeightedRandomSampler, 10⁴ to 10⁸ images.

    python benchmarks/samplers.py [--sizes 10000 100000 …] [--output docs/samplers-performance.md]

Every size runs in a process of its own, in which the samplers take turns, so that a machine that is
now fast and now slow treats all alike; the median over the turns counts. An epoch is as many draws
as there are images, each read as a Python number, as a DataLoader reads it. Setting up is measured
apart and counted to the first epoch. Weights are exponentially distributed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import WeightedRandomSampler

from unskew.learn import WeightedSampler

SIZES = (10**4, 10**5, 10**6, 10**7, 2**24, 10**8)
OURS = ("systematic", "multinomial")
PAGE = """# What weighted sampling costs

**`WeightedSampler` was slower than torch's `WeightedRandomSampler` in {slower} of {compared}
comparisons, first epochs included.** Read this page to see what weighted sampling costs at your
number of images.

`WeightedSampler` compared with torch's `WeightedRandomSampler`: time for an epoch of as many draws
as there are images, read one by one as a `DataLoader` reads them, median of {turns} turns (fewer
for the largest). "First" includes the setup of the sampler, which happens once.

{table}

torch refuses more than 2²⁴ = 16,777,216 images. At {largest:,} images the process that ran
one sampler after the other peaked at {memory:.1f} GB; the weights themselves are {weights:.1f} GB.

Why it is faster: torch looks up every draw by bisection in the partial sums, which for many images
means a cache miss at almost every step; the systematic draw is one pass over the images in random
order, and the multinomial one walks through the partial sums with sorted points.

Written by `python benchmarks/samplers.py --output docs/samplers-performance.md`; do not edit by
hand. Measured on {date} at commit {commit}: {machine}, Python {python}, NumPy {numpy}, torch
{torch}.
"""


def makers(n: int) -> dict[str, Callable[[], Any]]:
    weight = np.random.default_rng(0).exponential(size=n)
    return {
        "torch": lambda: WeightedRandomSampler(weight, n),  # type: ignore[arg-type]
        "systematic": lambda: WeightedSampler(weight),
        "multinomial": lambda: WeightedSampler(weight, scheme="multinomial"),
    }


def turns_for(n: int) -> int:
    return 9 if n <= 10**6 else 3 if n < 10**8 else 1


def measure(n: int) -> dict[str, Any]:
    """Seconds of set-up and of epochs by sampler, or the words of a refusal; and the peak memory of
    it all.
    """
    clocks: dict[str, Any] = {name: {"setup": [], "epoch": []} for name in ("torch", *OURS)}
    for _ in range(turns_for(n)):
        for name, make in makers(n).items():
            if "refusal" in clocks[name]:
                continue
            start = time.perf_counter()
            sampler = make()
            made = time.perf_counter()
            try:
                deque(sampler, maxlen=0)
            except RuntimeError as error:
                clocks[name]["refusal"] = str(error).splitlines()[0]
                continue
            clocks[name]["setup"].append(made - start)
            clocks[name]["epoch"].append(time.perf_counter() - made)
            del sampler
    clocks["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return clocks


def medians(times: dict[str, list[float]]) -> tuple[float, float]:
    """Of an epoch, and of the first epoch with the set-up."""
    first = [setup + epoch for setup, epoch in zip(times["setup"], times["epoch"], strict=True)]
    return statistics.median(times["epoch"]), statistics.median(first)


def speeds(clocks: dict[str, Any]) -> list[float]:
    """Relative to torch: systematic, its first epoch, multinomial, its first epoch."""
    theirs = medians(clocks["torch"])
    return [
        their / our
        for name in OURS
        for their, our in zip(theirs, medians(clocks[name]), strict=True)
    ]


def row(n: int, clocks: dict[str, Any]) -> str:
    refused = "refusal" in clocks["torch"]
    cells = [f"{n:,}", "refused" if refused else seconds(medians(clocks["torch"])[0])]
    for at, name in enumerate(OURS):
        epoch, first = medians(clocks[name])
        cells.append(f"{seconds(epoch)} (first {seconds(first)})")
        cells.append(
            "–"
            if refused
            else "{:.1f} × (first {:.1f} ×)".format(*speeds(clocks)[2 * at : 2 * at + 2])
        )
    return "| " + " | ".join(cells) + " |"


def seconds(value: float) -> str:
    return (
        f"{1000 * value:.1f} ms"
        if value < 0.1
        else f"{value:.2f} s"
        if value < 10
        else f"{value:.1f} s"
    )


def page(results: dict[int, dict[str, Any]]) -> str:
    head = (
        "| images | torch | ours, systematic | speed relative to torch | ours, multinomial | "
        "speed relative to torch |"
    )
    lines = [head, "|---:|---:|---:|---:|---:|---:|", *(row(n, one) for n, one in results.items())]
    ratios = [
        ratio for one in results.values() if "refusal" not in one["torch"] for ratio in speeds(one)
    ]
    commit = (
        subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        or "unknown"
    )
    return PAGE.format(
        table="\n".join(lines),
        turns=turns_for(0),
        slower=sum(ratio < 1 for ratio in ratios),
        compared=len(ratios),
        largest=max(results),
        memory=results[max(results)]["gigabytes"],
        weights=max(results) * 8 / 2**30,
        date=datetime.date.today().isoformat(),
        commit=commit,
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        python=platform.python_version(),
        numpy=np.__version__,
        torch=torch.__version__,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--output", type=Path, help="the page to write; default: print it")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure)))
        return
    results: dict[int, dict[str, Any]] = {}
    for n in asked.sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(n)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        results[n] = json.loads(done.stdout)
        print(row(n, results[n]), file=sys.stderr, flush=True)
    if asked.output is None:
        print(page(results))
    else:
        asked.output.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
