"""Two small data sets in the layout of the packed sheets: one sheet for each split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def make_data(folder: Path, names: tuple[str, ...] = ("cifar10",)) -> Path:
    """Images of one colour each, noisy; ten classes that prefer different colours."""
    rng = np.random.default_rng(0)
    for name in names:
        subfolder = folder / name
        subfolder.mkdir(parents=True)
        labels = {}
        for split in ("train", "test"):
            label = np.tile(np.arange(10), 100)
            hue = rng.beta(2, 2, size=(1000, 3)) * 0.7 + 0.03 * label[:, None]
            tiles = np.clip(hue[:, None, None, :] + rng.normal(0, 0.03, (1000, 32, 32, 1)), 0, 1)
            sheet = (
                (tiles * 255)
                .astype(np.uint8)
                .reshape(25, 40, 32, 32, 3)
                .transpose(0, 2, 1, 3, 4)
                .reshape(800, 1280, 3)
            )
            # Lossy is enough here, and ten times faster.
            Image.fromarray(sheet).save(subfolder / f"{split}-000.webp", quality=80, method=0)
            labels[split] = label.astype(np.uint8)
        np.savez(subfolder / "labels.npz", **labels)
        (subfolder / "classes.txt").write_text("\n".join("abcdefghij") + "\n", encoding="utf-8")
    return folder
