"""The page that benchmarks/images.py writes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from solver_table import commit_facts


@dataclass(frozen=True)
class Row:
    """One measurement: by processor time, by the wall, and the bar it is held against."""

    what: str
    processor: str
    wall: str
    bar: str


def table(rows: list[Row]) -> str:
    lines = ["| what | by processor time | by the wall | bar |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {row.what} | {row.processor} | {row.wall} | {row.bar} |" for row in rows)]
    )


def page(rows: list[Row], n: int, size: float, plain: np.ndarray, minutes: float) -> str:
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("pillow", "numpy", "numba", "pyarrow")
    )
    return f"""# What representations cost

**{rows[0].what}: {rows[0].processor} of processor time.** Read this page to see what it costs to
turn images into numbers.

{n:,} JPEG files of 256 × 256 pixels, quality 90, {size / 1024:.1f} KB on average, made from seeds
(structure at all scales, some grain). Plain decoding,
`numpy.asarray(PIL.Image.open(path).convert("RGB"))`, took {1e3 * plain[1]:.2f} ms of processor time
per file in one thread ({1e3 * plain[0]:.2f} ms of wall-clock time). "All cheap" is border_hsv,
mean_hsv, brightness, contrast, colourfulness, sharpness, size, aspect_ratio and exif together, by
`represent_images`, from the files to the columns of the pool.

{table(rows)}

Written by `python benchmarks/images.py --data FOLDER_OF_CIFAR --output docs/images-performance.md`.
The machine: {os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()},
{packages}, commit {commit_facts()}. The run took {minutes:.0f} minutes. {company(plain)}

How it works: a file is decoded once, however many features are computed (a JPEG of 512 pixels or
more a second time, at an eighth of its size); mean_hsv, brightness, contrast and colourfulness work
on a copy reduced to a shorter side of at least 64 pixels (part of their
[definition](representations.md)), border_hsv reads the border only; loops over pixels are compiled,
and batches are small enough to stay in the processor's cache. The rows with a cache use one cache
for all blocks, whose keys every block reads again. Work starts in threads, which cost nothing and
copy no arrays. Where seconds of work on files remain, all but one of them are replaced by processes
(loky's, which need no main guard in the user's script), because only decoding and the compiled
loops run without Python's lock. A process takes a second or two to start, which is included above:
with more files the speed gets closer to twice that of one core.
"""


def company(plain: np.ndarray) -> str:
    """Say whether the machine was idle: processor time over wall-clock time of one thread."""
    share = plain[1] / plain[0]
    if share > 0.9:
        return f"One thread had {share:.0%} of a processor."
    return (
        f"Other work ran at the same time: one thread had {share:.0%} of a processor. Ratios by "
        "processor time are therefore the steadier ones, and the gain of two cores cannot be "
        "measured: plain decoding, which releases Python's lock, shows what could be gained. "
        "**Such a run neither meets nor refutes the bar of 1.7**; it needs an idle machine."
    )
