"""Where a result comes from: versions, and fingerprints of everything that went in, so that a third
party can check it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from unskew.records import Pool

_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "numba", "pillow")
_BLOCK = 1 << 20


def find_versions(further: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python and of the packages that a result may depend on, ``further`` ones among
    them.
    """
    from unskew import __version__

    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "unskew": __version__,
    }
    for name in (*_PACKAGES, *further):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def fingerprint_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def fingerprint_rows(rows: Iterable[str]) -> str:
    """SHA-256 of lines of text, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(rows):
        digest.update(row.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def fingerprint_pool(pool: Pool) -> dict[str, str]:
    """Fingerprints of what a pool says about its images (``table``), and of the images themselves
    if they were read (``images``).

    Neither depends on the order of rows or on where files lie.
    """
    frame = pool.frame
    told = [name for name in frame.columns if name not in ("path", "content")]
    found = {"table": fingerprint_rows(_lines(frame[sorted(told, key=str)]))}
    if "content" in frame.columns:
        found["images"] = fingerprint_rows(_lines(frame[["id", "content"]]))
    return found


def _lines(frame: pd.DataFrame) -> list[str]:
    import numpy as np

    columns = []
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind == "f":
            # What is the same number to twelve digits is the same: representations may differ in
            # the last bit from machine to machine.
            columns.append([f"{name}={value:.12g}" for value in values.to_numpy(dtype=np.float64)])
        else:
            columns.append([f"{name}={value}" for value in values.tolist()])
    return ["\x1f".join(cells) for cells in zip(*columns, strict=True)]
