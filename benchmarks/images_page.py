"""The page that benchmarks/images.py writes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np


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
        f"{name} {version(name)}" for name in ("pillow", "numpy", "numba", "PyWavelets", "pyarrow")
    )
    return f"""# What representations cost

```
python benchmarks/images.py --data FOLDER_OF_CIFAR --output docs/images-performance.md
```

{n:,} JPEG files of 256 × 256 pixels, quality 90, {size / 1024:.1f} KB on average, made from seeds (structure at all scales, some grain).
Plain decoding, `numpy.asarray(PIL.Image.open(path).convert("RGB"))`, took {1e3 * plain[1]:.2f} ms of processor time per file in one thread
({1e3 * plain[0]:.2f} ms by the wall). "All cheap" is border_hsv, mean_hsv, brightness, contrast, colourfulness, sharpness, size,
aspect_ratio and exif together, by `represent_images`, from the files to the columns of the pool.

{table(rows)}

The machine: {os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, {packages}.
The run took {minutes:.0f} minutes. {company(plain)}

How: a file is decoded once, whatever is asked of it (a JPEG of 512 pixels or more a second time, at an eighth of its size); mean_hsv,
brightness, contrast and colourfulness work on a copy reduced to a shorter side of at least 64 pixels (part of their
[definition](representations.md)), border_hsv reads the border only; loops over pixels are compiled, and images wait for one another only as
long as a batch stays in the processor's cache. The rows with a cache use one cache for all blocks, whose keys every block reads anew.
Threads begin, since they cost nothing and arrays need not be copied; where seconds of work on files are left, all but one of them give way
to processes (loky's, which need no main guard in the user's script), because only decoding and the compiled loops run without Python's
lock. A process takes a second or two to start, which is part of the figure above: the more files, the closer to twice as fast.
"""


def company(plain: np.ndarray) -> str:
    """Was the machine ours? Seconds of the processor by seconds of the wall, while one thread
    decoded.
    """
    share = plain[1] / plain[0]
    if share > 0.9:
        return f"One thread had {share:.0%} of a processor."
    return f"""Other work ran at the same time: one thread had {share:.0%} of a processor. Ratios by
processor time are therefore the steadier ones, and what two cores gain cannot be seen: plain decoding, which holds no lock of Python
while it decodes, shows what there was to gain. **The bar of 1.7 is neither met nor refuted by such a run**; it wants an idle machine."""
