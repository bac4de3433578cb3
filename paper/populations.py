"""Read what the figures need of CIFAR: labels, and hue, saturation and value of the borders.

Both are read once and kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from paper.cifar_copies import CifarCopy
from paper.cifar_data import OFFICIAL_PIXELS, TITLES, get_copy
from paper.cifar_sheets import Split
from unskew.files.atomic import written_whole
from unskew.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class CifarPopulation:
    """A data set without its pixels; databases are drawn from its training split.

    Attributes
    ----------
    name : "cifar10" or "cifar100".
    label, test_label : (N,) codes of both splits.
    border, test_border : (N, 3) hue, saturation and value of the border, two pixels wide, in [0,
        1].
    fingerprint : of all of these.
    is_official : whether all pixels are those of the official archives, in their order.
    """

    name: str
    label: Ints = field(repr=False)
    test_label: Ints = field(repr=False)
    border: Floats = field(repr=False)
    test_border: Floats = field(repr=False)
    fingerprint: str = ""
    is_official: bool = True

    @property
    def n_classes(self) -> int:
        return int(self.label.max()) + 1


def read_population(data: Path | None, name: str, cache: Path) -> CifarPopulation:
    """Read labels and borders of both splits, from the cache if possible."""
    assert data is not None, "figures of images are chosen only where there are data"
    # Whichever way the folder is written, in whichever process, it is read once.
    return _read(data.resolve(), name, cache.resolve())


def list_unofficial(populations: Iterable[CifarPopulation], data: Path) -> list[str]:
    """Return a sentence for each data set whose pixels are not the official ones."""
    return [
        f"The images of {TITLES[population.name]} in {data} are not the official ones, or come in "
        "another order: numbers will differ from the published ones."
        for population in populations
        if not population.is_official
    ]


@lru_cache(maxsize=4)
def _read(data: Path, name: str, cache: Path) -> CifarPopulation:
    copy = get_copy(data, name)
    stamp = hashlib.sha256(f"{copy.path};{copy.stamp()}".encode()).hexdigest()[:12]
    kept = cache / f"population-{name}-{stamp}.npz"
    if not kept.is_file():
        arrays = _measure(copy)
        cache.mkdir(parents=True, exist_ok=True)
        with written_whole(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    with np.load(kept) as arrays:
        label, test_label = arrays["label"], arrays["test_label"]
        border, test_border = arrays["border"], arrays["test_border"]
        is_official = bool(arrays["is_official"])
    digest = hashlib.sha256()
    for array in (label, test_label, border, test_border):
        digest.update(np.ascontiguousarray(array).tobytes())
    fingerprint = digest.hexdigest()[:16]
    return CifarPopulation(name, label, test_label, border, test_border, fingerprint, is_official)


def _measure(copy: CifarCopy) -> dict[str, Any]:
    """Return labels and borders of both splits, and whether the pixels are the official ones."""
    from unskew.represent.color import border_hsv

    arrays: dict[str, Any] = {"is_official": True}
    splits: tuple[tuple[Split, str], ...] = (("train", ""), ("test", "test_"))
    for split, prefix in splits:
        digest, borders = hashlib.sha256(), []
        for images in copy.images(split):
            digest.update(np.ascontiguousarray(images).tobytes())
            borders.append(border_hsv(images, width=2))
        arrays[f"{prefix}label"] = copy.labels(split)
        arrays[f"{prefix}border"] = np.concatenate(borders)
        arrays["is_official"] &= digest.hexdigest() == OFFICIAL_PIXELS[copy.name, split]
    return arrays
