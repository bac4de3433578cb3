"""How masses depend on the pool's own counts: raked interactions, and levels kept at their pool
share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unskew.records import Bools, Codes, Floats, Ints
from unskew.target.facts import cells_of
from unskew.target.interactions import CommonInteractions
from unskew.target.mass_covariance import share_jacobian


@dataclass(frozen=True, eq=False)
class RakedFromCounts:
    """Masses q raked from a table of the pool's counts.

    mass_c : (C,) q, the raked masses of the cells within the target's scope.
    indicator_cj : (C, J) the levels of every cell.
    size_c : (C,) the pooled counts; the table itself where ``common`` is None.
    common : the interactions that the sources share; None: those of the pool.
    """

    mass_c: Floats = field(repr=False)
    indicator_cj: Floats = field(repr=False)
    size_c: Floats = field(repr=False)
    common: CommonInteractions | None

    def jacobian(self, k: int) -> Floats:
        """(C, C) ∂q_c/∂n_kd, n_kd the units of source k in cell d."""
        raked_cc = share_jacobian(self.mass_c, self.indicator_cj)
        if self.common is None:
            return raked_cc / self.size_c
        if self.common.fitted_kc.shape[0] == 1:
            k = 0
        return np.asarray(raked_cc @ self.common.log_jacobian(k))


@dataclass(frozen=True, eq=False)
class CountedMasses:
    """The masses of all strata as functions of the counts N_kc of the pool.

    Strata outside the target's scope have the mass N_c/N, N = Σ_c N_c; those within share the rest,
    p_c = q_c N_in/N. Sources keep their sizes when they are drawn again, so the population is that
    of the sources together, each with its own number of images.

    mass_c : (C,) p.
    in_scope_c : (C,) whether a stratum is within the target's scope.
    size_c : (C,) N_c.
    raked : where the masses within scope are raked from the counts, how; None otherwise.
    source_p, cell_p : (P,) source and stratum of every count that is not 0.
    code_n : (n,) the count that a row of the pool adds to; -1 for rows that the target drops.
    weight : (n,) how much it adds.
    names, source : the sources, and the source of every row.
    unit : (n,) which rows are drawn together (groups, copies); None where each is by itself.
    design : (n,) the design weights within ``weight``, those of dropped rows included; they have
        the same sum in a source whatever is drawn. None without any.
    """

    mass_c: Floats = field(repr=False)
    in_scope_c: Bools = field(repr=False)
    size_c: Floats = field(repr=False)
    raked: RakedFromCounts | None = field(repr=False)
    source_p: Ints = field(repr=False)
    cell_p: Ints = field(repr=False)
    code_n: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    names: tuple[str, ...]
    source: Codes = field(repr=False)
    unit: Ints | None = field(repr=False)
    design: Floats | None = field(repr=False, default=None)

    @property
    def n_effects_k(self) -> Ints:
        """(K,) r_k, parameters that every source had of its own: 1, or its main effects and 1."""
        if self.raked is None or self.raked.common is None:
            return np.ones(len(self.names), dtype=np.int64)
        return self.raked.common.n_effects(len(self.names))

    def jacobian(self) -> Floats:
        """(C, P) ∂p_c/∂N_p."""
        inside_c = self.in_scope_c
        jacobian_cp = np.zeros((self.mass_c.size, self.cell_p.size))
        total = float(self.size_c.sum())
        share_in = float(self.size_c[inside_c].sum()) / total
        if not inside_c.all():
            inside_p = inside_c[self.cell_p]
            jacobian_cp[inside_c] = (
                self.mass_c[inside_c][:, None] / share_in * (inside_p - share_in) / total
            )
            own_cp = np.flatnonzero(~inside_c)[:, None] == self.cell_p
            jacobian_cp[~inside_c] = (own_cp - self.mass_c[~inside_c][:, None]) / total
        if self.raked is None:
            return jacobian_cp
        position_c = np.cumsum(inside_c) - 1
        for k in np.unique(self.source_p):
            at = np.flatnonzero((self.source_p == k) & inside_c[self.cell_p])
            raked_cc = share_in * self.raked.jacobian(int(k))
            jacobian_cp[np.ix_(inside_c, at)] += raked_cc[:, position_c[self.cell_p[at]]]
        return jacobian_cp


def design_effects(
    count_kc: Floats, source_m: Ints, group_m: Ints, cell_m: Ints, unit_m: Floats
) -> Floats:
    """(K,) design effect of groups on the shares of the cells in each source, at least 1.

    Σ_g Σ_c (N_gc − N_g p_c)²/(n (1 − Σ_c p_c²)), N_gc the units of group g in cell c, n those of
    the source: m where every group is m copies of one image (or an image of design weight m), about
    1 where images of a group are no more alike than others.
    """
    n_sources = len(count_kc)
    size_k = np.maximum(count_kc.sum(axis=1), 1e-300)
    share_kc = count_kc / size_k[:, None]
    group_ga, of_group_m = cells_of([source_m, group_m])
    pair_pa, of_pair_m = cells_of([of_group_m, cell_m])
    size_g, size_p = np.bincount(of_group_m, unit_m), np.bincount(of_pair_m, unit_m)
    source_g, group_p, cell_p = group_ga[:, 0], pair_pa[:, 0], pair_pa[:, 1]
    even_k = np.square(share_kc).sum(axis=1)
    crossed_p = size_p * (size_p - 2 * size_g[group_p] * share_kc[source_g[group_p], cell_p])
    squares_k = np.bincount(source_g[group_p], crossed_p, n_sources) + even_k * np.bincount(
        source_g, np.square(size_g), n_sources
    )
    alike_k = squares_k / np.maximum(size_k * (1 - even_k), 1e-9 * size_k)
    return np.asarray(np.maximum(alike_k, 1.0))
