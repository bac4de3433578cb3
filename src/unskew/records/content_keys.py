"""Numbers for the content of images, and units shuffled by them: the order of rows has no say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.records.arrays import Ints
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

Keys = npt.NDArray[np.uint64]


def content_keys(frame: pd.DataFrame, columns: Sequence[str]) -> Keys:
    """(n,) a 64-bit hash of the entries of every row in ``columns``, whatever their order is.

    Equal numbers and equal texts have one hash, whatever their type is. Columns whose entries
    cannot be hashed are skipped.
    """
    import pandas as pd

    key_n = np.zeros(len(frame), dtype=np.uint64)
    for name in sorted(set(columns)):
        try:
            own_n = pd.util.hash_array(_plain_values(frame[name]))
        except TypeError:
            continue
        key_n = _mixed(key_n) ^ own_n
    return key_n


def _plain_values(column: pd.Series[Any]) -> npt.NDArray[Any]:
    """(n,) floats where all entries are numbers, else texts."""
    import pandas as pd

    code_n, values = pd.factorize(column, use_na_sentinel=False)
    try:
        plain = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        plain = np.array([level_text(value) for value in values], dtype=object)
    return np.asarray(plain[code_n])


def copies_by_source(content_n: Any, source_n: Ints, n_sources: int) -> tuple[Ints, Any]:
    """Count the images that have an exact copy: of each source, and by where the copy is.

    Returns (K,) the images of each source with a copy anywhere, and a sparse (K, K) table of the
    images of source k with a copy in source l; on its diagonal, with another copy in k itself.

    >>> content, source = ["a", "a", "b", "b", "c"], np.array([0, 0, 0, 1, 1])
    >>> copied_k, copied_kk = copies_by_source(content, source, 2)
    >>> copied_k.tolist(), copied_kk.toarray().tolist()
    ([3, 1], [[2, 1], [1, 0]])
    """
    import pandas as pd
    import scipy.sparse as sp

    code_n = np.asarray(pd.factorize(np.asarray(content_n, dtype=object))[0], dtype=np.int64)
    known_n = code_n >= 0
    shape = (int(code_n.max(initial=-1)) + 1, n_sources)
    held = sp.csr_array(
        (np.ones(int(known_n.sum()), dtype=np.int64), (code_n[known_n], source_n[known_n])), shape
    )
    held.sum_duplicates()
    copied = held[np.asarray(held.sum(axis=1)).ravel() > 1]
    # One that a source holds once has no copy in that source.
    within = np.bincount(copied.indices, copied.data * (copied.data > 1), minlength=n_sources)
    table = sp.coo_array(copied.T @ (copied > 0).astype(np.int64))
    across, own = table.row != table.col, np.flatnonzero(within)
    row, col = np.append(table.row[across], own), np.append(table.col[across], own)
    count = np.append(table.data[across], within[own]).astype(np.int64)
    copied_kk = sp.coo_array((count, (row, col)), shape=(n_sources, n_sources))
    return np.asarray(copied.sum(axis=0), dtype=np.int64).ravel(), copied_kk


def shuffled_ranks(unit_n: Ints, key_n: Keys, seed: int) -> Ints:
    """(m,) a random place for each of the units 0 … m − 1, from the keys of its images and a seed.

    Units of the same content are interchangeable, and are placed by their number.
    """
    key_m = np.zeros(int(unit_n.max()) + 1, dtype=np.uint64)
    np.add.at(key_m, unit_n, _mixed(key_n))  # modulo 2⁶⁴: the order of the images has no say
    start = np.uint64(np.random.default_rng(seed).integers(2**63))
    order_m = np.argsort(_mixed(key_m ^ start), kind="stable")
    rank_m = np.empty(order_m.size, dtype=np.int64)
    rank_m[order_m] = np.arange(order_m.size)
    return rank_m


def _mixed(key_n: Keys) -> Keys:
    """Scramble 64 bits one to one (SplitMix64 of Steele, Lea & Flood 2014)."""
    mixed_n = key_n + np.uint64(0x9E3779B97F4A7C15)
    mixed_n = (mixed_n ^ (mixed_n >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed_n = (mixed_n ^ (mixed_n >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed_n ^ (mixed_n >> np.uint64(31)), dtype=np.uint64)
