"""Which images of a reference judge and do not fit: whole groups and copies, at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.records import Bools
from unskew.records.content_keys import content_keys, shuffled_ranks
from unskew.records.pool_table import ROLES
from unskew.splits.folds import join_units, tell_copies, unit_codes

if TYPE_CHECKING:
    import pandas as pd


def held_out_rows(frame: pd.DataFrame, holdout: float, rng: np.random.Generator) -> Bools:
    """(n,) which images judge: whole groups and copies, at random, up to the share ``holdout``.

    Chance follows from labels and features of the images, not from the order of the rows or from
    where their files are.
    """
    n = len(frame)
    if not holdout:
        return np.zeros(n, dtype=np.bool_)
    code_n = join_units(n, unit_codes(frame), tell_copies(frame))
    content = [str(name) for name in frame.columns if name == "label" or name not in ROLES]
    seed = int(rng.integers(2**32))
    order = np.argsort(shuffled_ranks(code_n, content_keys(frame, content), seed))
    size_g = np.bincount(code_n)[order]
    before_g = np.cumsum(size_g) - size_g
    held_g = np.zeros(order.size, dtype=np.bool_)
    held_g[order[before_g + size_g / 2 < holdout * n]] = True
    return np.asarray(held_g[code_n])
