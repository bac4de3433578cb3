"""Ranks of new units among old ones: uniform and independent as long as nothing has changed.

The rank of the unit that arrives as number t, among all that came before and itself, is

    p_t = (#{i < t: x_i < x_t} + U_t (1 + #{i < t: x_i = x_t}))/t,   U_t uniform.

If the units are exchangeable, p_{n+1}, p_{n+2}, … are independent and uniform on [0, 1] after any
number n of old units, for every distribution of x, with any ties (Vovk, Gammerman & Shafer 2005,
theorem 8.2). The old units are a sample, not the truth: that is what joining the bag accounts for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.monitoring.change_evidence import CELLS
from unskew.records.arrays import Floats, Ints

# New units that are compared pair by pair at a time.
_BLOCK = 512


def rank_in_turn(old_n: npt.NDArray[Any], new_m: npt.NDArray[Any], uniform_m: Floats) -> Floats:
    """Compute (m,) p_t of new units in their order; those before join the ``old_n``.

    Values are numbers (missing ones rank lowest) or texts, in alphabetical order.
    """
    old, new = _comparable(old_n, new_m)
    bag, ranks = np.sort(old), [np.zeros(0)]
    for start in range(0, new.size, _BLOCK):
        x_b, u_b = new[start : start + _BLOCK], uniform_m[start : start + _BLOCK]
        below_b = np.searchsorted(bag, x_b, side="left")
        same_b = np.searchsorted(bag, x_b, side="right") - below_b
        earlier = np.tri(x_b.size, k=-1, dtype=np.bool_)
        below_b = below_b + ((x_b[None, :] < x_b[:, None]) & earlier).sum(axis=1)
        same_b = same_b + ((x_b[None, :] == x_b[:, None]) & earlier).sum(axis=1)
        seen_b = bag.size + np.arange(1, x_b.size + 1)
        ranks.append((below_b + u_b * (1 + same_b)) / seen_b)
        bag = np.sort(np.concatenate([bag, x_b]))
    return np.concatenate(ranks)


def _comparable(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Return numbers of the same order: texts become their places in the alphabet."""
    if old.dtype.kind == "f" and new.dtype.kind == "f":
        return _lowest_if_missing(old), _lowest_if_missing(new)
    both = np.concatenate([old.astype(str), new.astype(str)])
    code = np.unique(both, return_inverse=True)[1].astype(np.float64)
    return code[: old.size], code[old.size :]


def _lowest_if_missing(x: Floats) -> Floats:
    return np.where(np.isnan(x), -np.inf, x)


def rank_known_shares(
    level_m: npt.NDArray[Any], share: dict[str, float], uniform_m: Floats
) -> Floats:
    """Compute (m,) ranks of levels whose shares are known: F(level −) + U P(level).

    Every level has a positive share; shares sum to 1.
    """
    names = sorted(share)
    share_l = np.array([share[name] for name in names])
    code_m = np.array([names.index(level) for level in level_m.tolist()], dtype=np.int64)
    before_l = np.concatenate([[0.0], np.cumsum(share_l)[:-1]])
    return np.asarray(np.clip(before_l[code_m] + uniform_m * share_l[code_m], 0.0, 1.0))


def count_cells(rank_m: Floats, look_m: Ints, n_looks: int) -> Ints:
    """Count (T, 64) ranks by look and cell; missing ranks are not counted."""
    known = ~np.isnan(rank_m)
    cell_m = np.minimum((rank_m[known] * CELLS).astype(np.int64), CELLS - 1)
    flat = np.bincount(look_m[known] * CELLS + cell_m, minlength=n_looks * CELLS)
    return flat.reshape(n_looks, CELLS)
