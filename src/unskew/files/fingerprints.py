"""Where a result comes from: versions, and fingerprints of everything that went in.

With them a third party can check that a result is what it claims to be.
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

_PACKAGES = ("unskew", "numpy", "scipy", "pandas", "scikit-learn", "numba", "pillow")
_BLOCK = 1 << 20


def find_versions(further: Sequence[str] = ()) -> dict[str, str]:
    """Return the versions of Python and of the packages that a result may depend on."""
    versions = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in (*_PACKAGES, *further):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a checkout
            versions[name] = "unknown"
    return versions


def fingerprint_file(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def fingerprint_rows(rows: Iterable[str]) -> str:
    """Return the SHA-256 of lines of text, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(rows):
        digest.update(row.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def fingerprint_pool(pool: Pool) -> dict[str, str]:
    """Return fingerprints of the columns of a pool (``table``) and of its images (``images``).

    The latter only if the images were read. Neither depends on the order of rows or on the folders
    that files are in.
    """
    frame = pool.frame
    columns = [name for name in frame.columns if name not in ("path", "content")]
    digests = {"table": fingerprint_rows(_lines(frame[sorted(columns, key=str)]))}
    if "content" in frame.columns:
        digests["images"] = fingerprint_rows(_lines(frame[["id", "content"]]))
    return digests


def _lines(frame: pd.DataFrame) -> list[str]:
    import numpy as np

    columns = []
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind == "f":
            # Twelve digits: representations may differ in the last bit from machine to machine.
            columns.append([f"{name}={value:.12g}" for value in values.to_numpy(dtype=np.float64)])
        else:
            columns.append([f"{name}={value}" for value in values.tolist()])
    return ["\x1f".join(cells) for cells in zip(*columns, strict=True)]
