"""Read what the figures need of CIFAR: labels, and hue, saturation and value of the borders.

Borders are computed once and kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from paper.cifar_sheets import Split, find_data, list_sheets, read_labels, read_sheet
from unskew.errors import ConfigError
from unskew.files.atomic import written_whole
from unskew.records import Floats, Ints

DATA_SETS = ("cifar10", "cifar100")
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


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
    """

    name: str
    label: Ints = field(repr=False)
    test_label: Ints = field(repr=False)
    border: Floats = field(repr=False)
    test_border: Floats = field(repr=False)
    fingerprint: str = ""

    @property
    def n_classes(self) -> int:
        return int(self.label.max()) + 1


def present_sets(data: Path) -> tuple[str, ...]:
    """List which of the two data sets the folder has; none is an error."""
    if not data.is_dir():
        raise ConfigError(
            f"there is no folder {str(data)!r}. --data names the folder that holds cifar10 and "
            "cifar100 as sheets of images.",
            option="--data",
            path=str(data),
        )
    find_data(data)
    return tuple(name for name in DATA_SETS if (data / name / "labels.npz").is_file())


def read_population(data: Path, name: str, cache: Path) -> CifarPopulation:
    """Read labels and borders of both splits, the borders from the cache if possible."""
    # Whichever way the folder is written, in whichever process, it is read once.
    return _read(data.resolve(), name, cache.resolve())


@lru_cache(maxsize=4)
def _read(data: Path, name: str, cache: Path) -> CifarPopulation:
    label, test_label = (read_labels(data / name, split) for split in ("train", "test"))
    border, test_border = (_borders(data / name, split, cache) for split in ("train", "test"))
    digest = hashlib.sha256()
    for array in (label, test_label, border, test_border):
        digest.update(np.ascontiguousarray(array).tobytes())
    return CifarPopulation(name, label, test_label, border, test_border, digest.hexdigest()[:16])


def _borders(folder: Path, split: Split, cache: Path) -> Floats:
    """Return the (N, 3) borders of a split, kept in a file named after its sheets."""
    from unskew.represent.color import border_hsv

    sheets = list_sheets(folder, split)
    stamp = ";".join(
        f"{sheet.name}:{sheet.stat().st_size}:{sheet.stat().st_mtime_ns}" for sheet in sheets
    )
    kept = (
        cache
        / f"border-{folder.name}-{split}-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}.npy"
    )
    if not kept.is_file():
        border_nd = np.concatenate([border_hsv(read_sheet(sheet), width=2) for sheet in sheets])
        cache.mkdir(parents=True, exist_ok=True)
        with written_whole(kept) as temporary, temporary.open("wb") as file:
            np.save(file, border_nd)
    return np.asarray(np.load(kept), dtype=np.float64)
