"""Small pools of images for the tests of this folder: files, bytes and arrays, independent of
`unskew.sources`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from unskew.records import Pool
from unskew.records.pool import Images, RawImage


class GivenImages(Images):
    """Bytes and arrays as they are, or the path of a file; counts how often it was read."""

    def __init__(self, raw: Sequence[RawImage | Path], reads: list[int] | None = None) -> None:
        super().__init__(len(raw))
        self.raw, self.reads = list(raw), [] if reads is None else reads

    def read(self, row: int) -> RawImage:
        self.reads.append(row)
        raw = self.raw[row]
        return raw.read_bytes() if isinstance(raw, Path) else raw

    def take(self, rows: Any) -> Images:
        return GivenImages([self.raw[row] for row in rows], self.reads)

    def place(self, row: int) -> str | None:
        raw = self.raw[row]
        return str(raw) if isinstance(raw, Path) else None


def pool_of(
    raw: Mapping[str, RawImage | Path] | Sequence[RawImage | Path],
    source: Sequence[str] | str = "camera",
) -> Pool:
    named = raw if isinstance(raw, Mapping) else {f"image-{at}": one for at, one in enumerate(raw)}
    frame = pd.DataFrame(
        {"id": list(named), "source": source, "path": [f"{name}.png" for name in named]}
    )
    return Pool(frame, GivenImages(list(named.values())))


def encoded(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def random_pixels(
    height: int = 20, width: int = 30, seed: int = 0, n: int | None = None
) -> np.ndarray:
    shape = (height, width, 3) if n is None else (n, height, width, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth_pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Like a photograph: neighbouring pixels are alike."""
    return np.asarray(
        Image.fromarray(random_pixels(6, 6, seed)).resize((width, height), Image.Resampling.BICUBIC)
    )
