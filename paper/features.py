"""Compute the features of CIFAR that a probe learns from, once, and their components.

EfficientNet-lite0 sees each image at 128 × 128 pixels; the outputs of six of its blocks and of its
last layer, averaged over positions, are 2216 numbers. They are computed a thousand images at a
time and kept, so that an interrupted run resumes. The first 384 principal
components of the training images, each divided by the fourth root of its variance, are what probes
learn from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from paper.cifar_copies import BLOCK, CifarCopy
from paper.cifar_data import get_copy
from paper.cifar_sheets import Split
from unskew.files.atomic import written_whole
from unskew.records import Floats, Ints

if TYPE_CHECKING:
    from unskew.represent.embedding import Embedding

BLOCKS = (4, 7, 10, 12, 14, 15)
SIZE = 128
COMPONENTS = 384
# Beginning of the SHA-256 of the labels in the official order, training split first.
OFFICIAL_LABELS = {"cifar10": "3edb456524d5918a", "cifar100": "75e380d51ae23ac7"}


@dataclass(frozen=True, eq=False)
class Features:
    """Both splits of a data set as a probe sees them.

    Attributes
    ----------
    train, test : (N, d) float32.
    train_label, test_label : (N,) codes.
    border : (N, 3) hue, saturation and value of the border of each training image, in [0, 1].
    test_border : (N, 3) the same of test images.
    """

    train: npt.NDArray[np.float32] = field(repr=False)
    test: npt.NDArray[np.float32] = field(repr=False)
    train_label: Ints = field(repr=False)
    test_label: Ints = field(repr=False)
    border: Floats = field(repr=False)
    test_border: Floats = field(repr=False)

    @property
    def n_classes(self) -> int:
        return int(self.train_label.max()) + 1


def embed_split(
    data: Path,
    name: str,
    split: Split,
    cache: Path,
    *,
    jobs: int = 1,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Path]:
    """Return the files with the features of each thousand images, (1000, 2216) float16.

    Missing ones are computed first.
    """
    copy = get_copy(data, name)
    network = _network().placed(jobs)
    folder = _folder(cache, _key(copy))
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for at in range(copy.blocks(split)):
        path = folder / f"{split}-{at:03d}.npy"
        if not path.is_file():
            images = np.stack([network.prepare(pixels) for pixels in copy.block(split, at)])
            _save(path, network.compute(images).astype(np.float16))
        files.append(path)
        advance(BLOCK)
    return files


def components_file(cache: Path, name: str, components: int = COMPONENTS) -> Path:
    """Return the file of a data set's principal components; ``name`` is that of the official data.

    It is all that `load_features` needs, apart from the labels.
    """
    return _folder(cache, name) / f"components-{components}.npz"


def load_features(
    data: Path, name: str, cache: Path, *, components: int = COMPONENTS, jobs: int = 1
) -> Features:
    """Load the principal components of both splits with labels and borders.

    From the cache if possible.
    """
    copy = get_copy(data, name)
    kept = components_file(cache, _key(copy), components)
    if not kept.is_file():
        train_files, test_files = (
            embed_split(data, name, split, cache, jobs=jobs) for split in ("train", "test")
        )
        train_nc, test_nc = _reduce(train_files, test_files, components)
        borders = [_borders(copy, split) for split in ("train", "test")]
        with written_whole(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, train=train_nc, test=test_nc, border=borders[0], test_border=borders[1])
    with np.load(kept) as arrays:
        return Features(
            train=arrays["train"],
            test=arrays["test"],
            train_label=copy.labels("train"),
            test_label=copy.labels("test"),
            border=arrays["border"],
            test_border=arrays["test_border"],
        )


def _network() -> Embedding:
    from unskew.represent.embedding import Embedding

    return Embedding(blocks=BLOCKS, size=SIZE, components=0, batch=16)


def _key(copy: CifarCopy) -> str:
    """Return what tells the images of a copy from others: its name, and labels in another order."""
    codes = np.concatenate([copy.labels("train"), copy.labels("test")]).astype(np.uint8)
    digest = hashlib.sha256(codes.tobytes()).hexdigest()[:16]
    return copy.name if digest == OFFICIAL_LABELS[copy.name] else f"{copy.name}-{digest}"


def _folder(cache: Path, name: str) -> Path:
    """Return the folder of a data set's features, which changes with the network and its input."""
    key = hashlib.sha256(json.dumps(_network().to_dict(), sort_keys=True).encode()).hexdigest()[:12]
    return cache / f"features-{key}" / name


def _reduce(train_files: list[Path], test_files: list[Path], components: int) -> tuple[Any, Any]:
    """Project both splits on the components of the training images: v_cᵀ(x − m)/λ_c^¼.

    One number divides all, so that the variances of the training images are 1 on average, as
    `unskew.learn.probe.scale_features` does.
    """
    from unskew.represent.projection import fit_projection

    fitted = fit_projection((np.load(path).astype(np.float32) for path in train_files), components)
    root_c = np.sqrt(np.sqrt(fitted.variance_c))
    divisor_c = root_c * np.sqrt(np.mean(np.sqrt(fitted.variance_c)))
    train_nc, test_nc = (
        np.concatenate(
            [fitted.project(np.load(path).astype(np.float32)) / divisor_c for path in files]
        ).astype(np.float32)
        for files in (train_files, test_files)
    )
    return train_nc, test_nc


def _borders(copy: CifarCopy, split: Split) -> Floats:
    """Return the (N, 3) mean hue, saturation and value of the border, two pixels wide.

    The article's section 4.3.
    """
    from unskew.represent.color import BorderHsv

    border = BorderHsv(width=2)
    return np.concatenate(
        [np.asarray(border.compute(images), dtype=np.float64) for images in copy.images(split)]
    )


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)
