"""Where a result comes from: versions, and fingerprints of everything that went in.

With them a third party can check that a result is what it claims to be.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from unskew.records import Pool

_PACKAGES = ("unskew", "numpy", "scipy", "pandas", "scikit-learn", "numba", "pillow")
_BLOCK = 1 << 20
_ROWS = 1 << 16


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
    return _fingerprint_lines([row.encode("utf-8", "surrogatepass") for row in rows])


def _fingerprint_lines(lines: Any) -> str:
    """Return the SHA-256 of lines of bytes, a list or an Arrow array, sorted.

    The order of UTF-8 bytes is that of the characters.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    line_n = pa.array(lines, pa.large_binary())
    nothing, end = (pa.scalar(text, pa.large_binary()) for text in (b"", b"\n"))
    digest = hashlib.sha256()
    order_n = pc.array_sort_indices(line_n)
    for begin in range(0, len(line_n), _ROWS):
        block = line_n.take(order_n[begin : begin + _ROWS])
        digest.update(pc.binary_join_element_wise(block, nothing, end).buffers()[2])
    return digest.hexdigest()


def fingerprint_pool(pool: Pool) -> dict[str, str]:
    """Return fingerprints of the columns of a pool (``table``) and of its images (``images``).

    The latter only if the images were read. Neither depends on the order of rows or on the folders
    that files are in.
    """
    frame = pool.frame
    columns = [name for name in frame.columns if name not in ("path", "content")]
    digests = {"table": _fingerprint_lines(_lines(frame[sorted(columns, key=str)]))}
    if "content" in frame.columns:
        digests["images"] = _fingerprint_lines(_lines(frame[["id", "content"]]))
    return digests


def _lines(frame: pd.DataFrame) -> Any:
    """Return (n,) Arrow bytes: ``name=value`` of every column, with U+001F between them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Names, values and what is between them are joined at once, by nothing.
    pieces = []
    for at, name in enumerate(frame.columns):
        start = f"\x1f{name}=" if at else f"{name}="
        pieces += [
            pa.scalar(start.encode("utf-8", "surrogatepass"), pa.large_binary()),
            _values(frame[name]),
        ]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))


def _values(column: pd.Series[Any]) -> Any:
    """Return (n,) the values as Arrow bytes; a category is written once."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.StringDtype):
        filled = column.fillna(str(column.dtype.na_value)) if column.hasnans else column
        return pa.array(filled, pa.large_string()).cast(pa.large_binary())
    if column.dtype.kind == "f":
        # Twelve digits: representations may differ in the last bit from machine to machine.
        texts = [f"{value:.12g}" for value in column.to_numpy(dtype=np.float64)]
    elif isinstance(column.dtype, pd.CategoricalDtype):
        code_n, levels = pd.factorize(column, use_na_sentinel=False)
        texts = [str(value) for value in levels.tolist()]
        return _encoded(texts).take(pa.array(code_n))
    else:
        texts = [str(value) for value in column.tolist()]
    return _encoded(texts)


def _encoded(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.large_binary())
