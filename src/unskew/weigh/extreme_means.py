"""The largest weighted mean when every weight may change by a factor, exactly, in O(n log n)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from unskew.records import Floats, Ints
from unskew.weigh.effective_size import add_by_code

# Γ = e^690 is the largest factor that is distinguished from infinity.
_LOG_LARGEST = 690.0


@dataclass(frozen=True, eq=False)
class Extreme:
    """The largest mean, and what changes for every image to reach it.

    That is the ratio p/π of its changed weight, the changed mean e of its cell, and (p/π)(h − e).
    """

    value: float
    ratio_n: Floats
    mean_n: Floats
    residual_n: Floats


@dataclass(frozen=True, eq=False)
class OrderedValues:
    """The atoms of positive weight, by cell and within a cell from the largest value.

    An atom is an image, or a level within a cell. ``part_a`` is an atom's part of its cell,
    ``share_a`` and ``gain_a`` are W_j and A_j of `bound_mean` within the cell; ``start_c`` is the
    first atom of a cell, ``atom_n`` the atom of an image (−1 without weight).
    """

    weight_n: Floats
    value_n: Floats
    atom_n: Ints
    cell_a: Ints
    start_c: Ints
    mass_c: Floats
    mean_c: Floats
    value_a: Floats
    part_a: Floats
    share_a: Floats
    gain_a: Floats

    def rise_a(self, factor: float) -> Floats:
        """Compute (a,) by how much the cell's mean rises if c changes ends after this atom.

        Up to the atom c is at its lower end, beyond it at its upper end.
        """
        inverse = math.inf if factor == 1.0 else 1.0 / (factor - 1.0)
        return self.gain_a / (inverse + self.share_a)

    def high(self, factor: float) -> float:
        """Compute the largest mean."""
        return float(
            self.mass_c @ (self.mean_c + np.maximum.reduceat(self.rise_a(factor), self.start_c))
        )

    def extreme(self, factor: float) -> Extreme:
        """Compute the largest mean, and the weights that give it."""
        rise_a = self.rise_a(factor)
        best_c = np.maximum.reduceat(rise_a, self.start_c)
        last_c = np.maximum.reduceat(
            np.where(rise_a == best_c[self.cell_a], np.arange(rise_a.size), -1), self.start_c
        )
        ratio_a = np.where(np.arange(rise_a.size) <= last_c[self.cell_a], 1.0, 1.0 / factor)
        used_n = self.atom_n >= 0
        cell_n = self.cell_a[self.atom_n]
        ratio_n = np.where(used_n, ratio_a[self.atom_n], 0.0)
        ratio_n *= (self.mass_c / add_by_code(cell_n, self.weight_n * ratio_n, self.mass_c.size))[
            cell_n
        ]
        mean_c = self.mean_c + best_c
        mean_n = mean_c[cell_n]
        return Extreme(
            float(self.mass_c @ mean_c),
            ratio_n,
            mean_n,
            ratio_n * np.where(used_n, self.value_n - mean_n, 0.0),
        )

    def turning_factor(self, aim: float) -> float:
        """Compute the smallest Γ with high(Γ) ≥ ``aim``.

        Without cells it has a closed form, else it is the root of an increasing function.
        """
        if self.high(math.inf) <= aim:
            return math.inf
        if self.mass_c.size == 1:
            above = float(self.part_a @ np.maximum(self.value_a - aim, 0.0))
            below = float(self.part_a @ np.maximum(aim - self.value_a, 0.0))
            return max(1.0, below / above) if above > 0.0 else math.inf
        return solve_log_factor(
            lambda log_factor: self.high(math.exp(log_factor)) - aim, _LOG_LARGEST, 1e-12
        )


def order_values(
    weight_n: Floats, value_n: Floats, cell_n: Ints, by_n: Ints | None
) -> OrderedValues:
    """Order the images, or the levels ``by_n`` within cells, from the largest value."""
    used = np.flatnonzero(weight_n > 0.0)
    atom_m = np.arange(used.size)
    if by_n is not None:
        _, atom_m = np.unique(cell_n[used] * (by_n.max() + 1) + by_n[used], return_inverse=True)
    # Cells without weight disappear.
    seen_c = np.bincount(cell_n[used]) > 0
    cell_m = (np.cumsum(seen_c) - 1)[cell_n[used]]
    size = int(atom_m.max()) + 1
    weight_a = add_by_code(atom_m, weight_n[used], size)
    value_a = (
        value_n[used]
        if by_n is None
        else add_by_code(atom_m, weight_n[used] * value_n[used], size) / weight_a
    )
    cell_a = np.empty(size, dtype=np.int64)
    cell_a[atom_m] = cell_m
    order = np.lexsort((-value_a, cell_a))
    atom_n = np.full(weight_n.size, -1, dtype=np.int64)
    rank_a = np.empty(size, dtype=np.int64)
    rank_a[order] = np.arange(size)
    atom_n[used] = rank_a[atom_m]
    weight_a, value_a, cell_a = weight_a[order], value_a[order], cell_a[order]
    start_c = np.flatnonzero(np.diff(cell_a, prepend=-1))
    mass_c = np.add.reduceat(weight_a, start_c)
    mean_c = np.add.reduceat(weight_a * value_a, start_c) / mass_c
    part_a = weight_a / mass_c[cell_a]
    share_a, gain_a = part_a.copy(), part_a * (value_a - mean_c[cell_a])
    size_c = np.diff(start_c, append=size)
    for width in np.unique(size_c[size_c > 1]).tolist():
        # Cell by cell, those of one size at once: what one sum over all cells loses to rounding
        # would be divided by the share of a few images.
        at_cj = start_c[size_c == width][:, None] + np.arange(width)
        share_a[at_cj] = np.cumsum(share_a[at_cj], axis=1)
        gain_a[at_cj] = np.cumsum(gain_a[at_cj], axis=1)
    return OrderedValues(
        weight_n, value_n, atom_n, cell_a, start_c, mass_c, mean_c, value_a, part_a, share_a, gain_a
    )


def solve_log_factor(excess: Callable[[float], float], upper: float, tolerance: float) -> float:
    """Return e^x at the root x of ``excess``, 1 if it is positive at 0, at most e^``upper``."""
    if excess(0.0) >= 0.0:
        return 1.0
    if excess(upper) <= 0.0:
        return math.exp(upper)
    return math.exp(float(scipy.optimize.brentq(excess, 0.0, upper, xtol=tolerance)))
