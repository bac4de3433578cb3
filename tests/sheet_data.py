"""Random images packed as CIFAR's sheets, for the tests of `paper`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from paper.cifar_sheets import PER_SHEET


def write_sheets(
    folder: Path, counts: dict[str, int], n_classes: int = 10, seed: int = 0
) -> dict[str, np.ndarray]:
    """Random images as sheets, tile by tile; the images in order."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    made, labels = {}, {}
    for split, count in counts.items():
        images = rng.integers(0, 256, (count * PER_SHEET, 32, 32, 3)).astype(np.uint8)
        for at in range(count):
            sheet = Image.new("RGB", (1280, 800))
            for tile in range(PER_SHEET):
                sheet.paste(
                    Image.fromarray(images[at * PER_SHEET + tile]),
                    (tile % 40 * 32, tile // 40 * 32),
                )
            sheet.save(folder / f"{split}-{at:03d}.webp", lossless=True, method=0, quality=0)
        made[split] = images
        labels[split] = rng.permutation(np.arange(len(images)) % n_classes).astype(np.uint8)
    np.savez(folder / "labels.npz", **labels)
    (folder / "classes.txt").write_text("".join(f"class_{y}\n" for y in range(n_classes)))
    return made
