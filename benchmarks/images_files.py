"""The images that benchmarks/images.py reads: JPEG files made from a seed, and the CIFAR arrays
where they are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 256


def photograph(seed: int) -> np.ndarray:
    """Structure at all scales, as in a photograph: octaves of random colours, each weaker than the
    next coarser one, and some grain.
    """
    rng = np.random.default_rng(seed)
    total = np.full((SIDE, SIDE, 3), 128.0)
    for cells, strength in ((4, 70.0), (8, 45.0), (16, 28.0), (32, 16.0), (64, 9.0), (128, 5.0)):
        octave = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
        smooth = Image.fromarray(octave).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        total += (np.asarray(smooth, dtype=np.float64) - 127.5) * (strength / 127.5)
    grain = rng.standard_normal((SIDE, SIDE, 1)) * rng.uniform(0.0, 6.0)
    return np.clip(total + grain, 0, 255).astype(np.uint8)


def write_photographs(folder: Path, n: int) -> int:
    """n files of quality 90 in two folders, one for each source; the number of bytes written."""

    bases = [photograph(seed) for seed in range(min(n, 400))]

    def write(at: int) -> int:
        """A base picture, moved, its channels exchanged and darkened: no two files are alike, and
        making them does not take an hour.
        """
        rng = np.random.default_rng(at)
        moved = np.roll(bases[at % len(bases)], rng.integers(0, SIDE, 2), axis=(0, 1))[
            ..., rng.permutation(3)
        ]
        path = folder / ("day" if at % 2 else "night") / f"{at:06d}.jpg"
        Image.fromarray((moved * np.float32(rng.uniform(0.6, 1.0))).astype(np.uint8)).save(
            path, quality=90
        )
        return path.stat().st_size

    for source in ("day", "night"):
        (folder / source).mkdir(parents=True)
    with ThreadPoolExecutor(2) as threads:
        return sum(threads.map(write, range(n)))


def read_cifar(data: Path) -> np.ndarray:
    """The 50,000 training images of CIFAR-10, (50000, 32, 32, 3): sheets of 25 × 40 tiles in
    lossless WebP.
    """
    sheets = sorted((data / "cifar10").glob("train-*.webp"))
    parts = [np.asarray(Image.open(sheet).convert("RGB")) for sheet in sheets]
    return np.concatenate(
        [part.reshape(25, 32, 40, 32, 3).swapaxes(1, 2).reshape(1000, 32, 32, 3) for part in parts]
    )
