"""Which cells of a table are withheld, so that no small one can be computed from the others.

The rule, `privacy = "aggregate"`: a cell of 1 to 9 units (groups, such as patients, where there are
groups, else images) is withheld with everything computed from it. A table adds up to a total that
is known; so where one cell is withheld, the smallest of the others are, too, until at least two are
and together they have ten units or more. Cells without any image are shown: there is nobody in
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Ints

SMALLEST_CELL = 10
_LARGEST_TABLE = 100_000_000


def hidden_cells(size_c: npt.ArrayLike, forced_c: Any = None) -> npt.NDArray[np.bool_]:
    """Return (C,) True for the cells of a table with a known total that are withheld.

    Facts: every cell of 1 … 9 is hidden; the hidden ones are none, or at least two with a sum of at
    least ten, or all that are not empty (then the total is the caller's to hide, if it is small).
    Ties go to the first cell.

    Parameters
    ----------
    size_c : (C,) units in each cell.
    forced_c : (C,) cells that must be hidden anyway.
    """
    size: Ints = np.asarray(size_c, dtype=np.int64)
    hidden = (size > 0) & (size < SMALLEST_CELL)
    if forced_c is not None:
        hidden |= np.asarray(forced_c, dtype=np.bool_)
    n_hidden, total = int(np.count_nonzero(size[hidden])), int(size[hidden].sum())
    others = np.flatnonzero(~hidden & (size > 0))
    for at in others[np.argsort(size[others], kind="stable")]:
        if n_hidden == 0 or (n_hidden >= 2 and total >= SMALLEST_CELL):
            break
        hidden[at], n_hidden, total = True, n_hidden + 1, total + int(size[at])
    return hidden


def count_units(
    group_n: Ints | None, code_m: Ints, n_codes: int, row_m: Ints | None = None
) -> Ints:
    """Return (n_codes,) the number of groups (or images) that have an entry of each code.

    Parameters
    ----------
    group_n : (n,) code of each image's group, or None.
    code_m : code of each entry, −1 for none.
    row_m : the image of each entry; None: entry m is image m.
    """
    kept_m = code_m >= 0
    if group_n is None:
        return np.bincount(code_m[kept_m], minlength=n_codes).astype(np.int64)
    group_m = (group_n if row_m is None else group_n[row_m])[kept_m]
    n_groups = int(group_n.max(initial=-1)) + 1
    if n_groups * n_codes <= _LARGEST_TABLE:
        # Many times faster than sorting the pairs.
        seen = np.zeros(n_groups * n_codes, dtype=np.bool_)
        seen[group_m * n_codes + code_m[kept_m]] = True
        return np.asarray(seen.reshape(n_groups, n_codes).sum(axis=0, dtype=np.int64))
    pair = np.unique(group_m * n_codes + code_m[kept_m])
    return np.bincount(pair % n_codes, minlength=n_codes).astype(np.int64)


def too_small(size: int | float | None) -> bool:
    """Tell whether this is a number of units that may not be shown by itself."""
    return size is not None and 0 < size < SMALLEST_CELL
