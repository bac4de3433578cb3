"""Residuals of replicates in which every image gets a source drawn from q, and after a Newton step.

The equations are those of `unskew.bias.redrawn_sources`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.solve.profile_likelihood import LinearDerivative, Profile

Singles = npt.NDArray[np.float32]

# Numbers in the largest temporary of a replicate's residuals, 16 MB.
BLOCK = 2**22


def among(q_bk: Floats, compared_k: npt.NDArray[np.bool_]) -> Floats:
    """Compute q_ik/Σ_{l compared} q_il; 0 for the other sources."""
    if compared_k.all():
        return q_bk
    share_bk = q_bk * compared_k
    return np.asarray(share_bk / np.maximum(share_bk.sum(axis=1, keepdims=True), 1e-300))


@dataclass(frozen=True, eq=False)
class Redraw:
    """Residuals of B replicates, as they are drawn and after a Newton step."""

    profile: Profile
    group_r: Ints | None
    compared_k: npt.NDArray[np.bool_]
    replicates: int
    seed: int

    def refitted(self) -> Iterator[tuple[Ints, dict[int, Singles]]]:
        """Yield rows and, by source, (B, b) residuals of those that are compared."""
        step_bck, step_bp = self._steps
        for cell, at, q_rk, within, _ in self._drawn():
            is_compared = self.compared_k[self.profile.source[at]]
            share_rk = among(q_rk, self.compared_k)[is_compared].astype(np.float32)
            own = at[is_compared]
            change_kbr = {
                k: step_bck[:, cell, k, None] + self._slope(own, k, step_bp) for k in within
            }
            mean_br = sum(share_rk[:, k] * change_kbr[k] for k in within)
            yield (
                own,
                {
                    k: residual_br[:, is_compared] - share_rk[:, k] * (change_kbr[k] - mean_br)
                    for k, residual_br in within.items()
                },
            )

    def centred(self, row: Ints) -> Iterator[tuple[Ints, dict[int, Singles]]]:
        """Yield as `refitted` does for ``row``, whole strata in order, each with a free ω.

        The step removes Σ_i d_i e*_ik/Σ_i d_i, over the stratum, from the residuals among all
        sources; among those compared, what that is of q_ik/Q, Q = Σ_l q_il over these.
        """
        cell_r = self.profile.cell[row]
        start_c = np.flatnonzero(np.diff(cell_r, prepend=-1))
        step = max(BLOCK // (self.replicates * self.compared_k.size), 16)
        # Strata whose last rows are in the same part of the rows make a block.
        block_c = (np.append(start_c[1:], row.size) - 1) // step
        first_b = start_c[np.flatnonzero(np.diff(block_c, prepend=-1))]
        for number, (begin, end) in enumerate(pairwise([*first_b.tolist(), row.size])):
            at = row[begin:end]
            q_rk = self.profile.memberships(at)
            rng = np.random.default_rng([self.seed, number])
            within, every = self._draw(rng, at, q_rk)
            start = np.flatnonzero(np.diff(cell_r[begin:end], prepend=-1))
            count = np.diff(start, append=at.size)
            design_r = None if self.profile.design is None else self.profile.design[at]
            weight_r = np.ones(at.size) if design_r is None else design_r
            part_r = (weight_r / np.repeat(np.add.reduceat(weight_r, start), count)).astype(
                np.float32
            )
            mean_kbc = {k: np.add.reduceat(every[k] * part_r, start, axis=1) for k in within}
            is_compared = self.compared_k[self.profile.source[at]]
            chance_r = q_rk[:, self.compared_k].sum(axis=1)
            share_rk = among(q_rk, self.compared_k).astype(np.float32)
            inverse_r = (1.0 / np.maximum(chance_r, 1e-300)).astype(np.float32)
            total_br: Any = 0.0
            if not self.compared_k.all():
                total_br = np.repeat(sum(mean_kbc.values()), count, axis=1) * inverse_r
            residual = {}
            for k, drawn_br in within.items():
                removed_br = np.repeat(mean_kbc[k], count, axis=1) * inverse_r
                removed_br -= share_rk[:, k] * total_br
                residual[k] = (drawn_br - removed_br)[:, is_compared]
            yield at[is_compared], residual

    @cached_property
    def _steps(self) -> tuple[Singles, Singles]:
        """((B, C, K), (B, P)) δ = I⁻¹ Σ_i score*_i of every replicate."""
        profile = self.profile
        score_bck = np.zeros((self.replicates, *profile.u.shape))
        score_bp = np.zeros((self.replicates, profile.n_parameters))
        for cell, at, _, _, every in self._drawn():
            for k, drawn_br in every.items():
                residual_br = drawn_br
                if profile.design is not None:
                    residual_br = drawn_br * profile.design[at].astype(np.float32)
                score_bck[:, cell, k] += residual_br.sum(axis=1, dtype=np.float64)
                self._add_scores(score_bp, at, k, residual_br)
        step_ckb, step_pb = profile.information.solve_columns(
            np.moveaxis(score_bck, 0, -1), score_bp.T
        )
        return (
            np.ascontiguousarray(np.moveaxis(step_ckb, -1, 0), dtype=np.float32),
            np.ascontiguousarray(step_pb.T, dtype=np.float32),
        )

    def _add_scores(self, score_bp: Floats, at: Ints, k: int, residual_br: Singles) -> None:
        linear = self.profile.derivative
        if isinstance(linear, LinearDerivative):
            if k in linear.free:
                own = self._columns_of(linear, k)
                score_bp[:, own] += residual_br @ linear.phi[at].astype(np.float32)
        elif linear is not None:
            score_bp += residual_br @ self._jacobian(at)[:, k].astype(np.float32)

    def _slope(self, at: Ints, k: int, step_bp: Singles) -> Any:
        """(B, b) J_ik·δ_θ."""
        linear = self.profile.derivative
        if isinstance(linear, LinearDerivative):
            if k not in linear.free:
                return 0.0
            own = self._columns_of(linear, k)
            return step_bp[:, own] @ linear.phi[at].T.astype(np.float32)
        if linear is None:
            return 0.0
        return step_bp @ self._jacobian(at)[:, k].T.astype(np.float32)

    def _columns_of(self, linear: LinearDerivative, k: int) -> slice:
        first = int(np.flatnonzero(linear.free == k)[0]) * linear.phi.shape[1]
        return slice(first, first + linear.phi.shape[1])

    def _jacobian(self, at: Ints) -> Floats:
        assert self.profile.derivative is not None
        return self.profile.derivative.block(at)

    def _drawn(self) -> Iterator[tuple[int, Ints, Floats, dict[int, Singles], dict[int, Singles]]]:
        """Yield stratum, rows, q, and two kinds of residuals by source, (B, b) each."""
        step = max(BLOCK // (self.replicates * len(self.compared_k)), 16)
        for number, (cell, at, q_rk) in enumerate(self._blocks(step)):
            rng = np.random.default_rng([self.seed, number])
            yield cell, at, q_rk, *self._draw(rng, at, q_rk)

    def _draw(
        self, rng: np.random.Generator, at: Ints, q_rk: Floats
    ) -> tuple[dict[int, Singles], dict[int, Singles]]:
        """Draw residuals of rows, among the compared sources and among all."""
        compared = np.flatnonzero(self.compared_k).tolist()
        others = np.flatnonzero(~self.compared_k).tolist()
        if not others:
            within = self._residuals(rng, at, q_rk, compared)
            return within, within
        is_own = self.compared_k[self.profile.source[at]]
        within = self._residuals(rng, at, among(q_rk, self.compared_k), compared, is_own)
        outside = self._residuals(rng, at, among(q_rk, ~self.compared_k), others, ~is_own)
        return within, self._joined(rng, at, q_rk, within, outside)

    def _blocks(self, step: int) -> Iterator[tuple[int, Ints, Floats]]:
        for cell, block, q_bk in self.profile.blocks():
            for start in range(0, block.size, step):
                some = slice(start, start + step)
                yield cell, block[some], q_bk[some]

    def _residuals(
        self,
        rng: np.random.Generator,
        at: Ints,
        q_rk: Floats,
        sources: list[int],
        is_own: npt.NDArray[np.bool_] | None = None,
    ) -> dict[int, Singles]:
        """{k: (B, b) 1{s* = k} − q}; 0 for rows of other sources than ``sources``."""
        share_rk = q_rk.astype(np.float32)
        residual: dict[int, Singles] = {}
        if self.group_r is not None:
            sign_br = self._signs(at)
            for k in sources:
                own_r = (self.profile.source[at] == k).astype(np.float32) - share_rk[:, k]
                residual[k] = sign_br * own_r
        else:
            uniform_br = rng.random((self.replicates, at.size), dtype=np.float32)
            below_r: Any = 0.0
            drawn_before: Any = np.zeros((1, 1), dtype=np.bool_)
            for k in sources[:-1]:
                below_r = below_r + share_rk[:, k]
                is_below = uniform_br < below_r
                residual[k] = (is_below & ~drawn_before).astype(np.float32) - share_rk[:, k]
                drawn_before = is_below
            residual[sources[-1]] = (~drawn_before).astype(np.float32) - share_rk[:, sources[-1]]
            if len(sources) == 1:
                residual[sources[0]] = np.zeros_like(uniform_br)
        if is_own is not None:
            for k in sources:
                residual[k] *= is_own
        return residual

    def _joined(
        self,
        rng: np.random.Generator,
        at: Ints,
        q_rk: Floats,
        within: dict[int, Singles],
        outside: dict[int, Singles],
    ) -> dict[int, Singles]:
        """Add the residuals of whether a row is of a compared source, (1{compared} − Q) q_k/Q."""
        chance_r = q_rk[:, self.compared_k].sum(axis=1).astype(np.float32)
        if self.group_r is not None:
            which_br = self._signs(at) * (self.compared_k[self.profile.source[at]] - chance_r)
        else:
            uniform_br = rng.random((self.replicates, at.size), dtype=np.float32)
            which_br = (uniform_br < chance_r).astype(np.float32) - chance_r
        first_rk = among(q_rk, self.compared_k).astype(np.float32)
        second_rk = among(q_rk, ~self.compared_k).astype(np.float32)
        return {k: part + which_br * first_rk[:, k] for k, part in within.items()} | {
            k: part - which_br * second_rk[:, k] for k, part in outside.items()
        }

    def _signs(self, at: Ints) -> Singles:
        return self._sign_bm[:, self._unit_r[at]]

    @cached_property
    def _unit_r(self) -> Ints:
        assert self.group_r is not None
        return np.unique(self.group_r, return_inverse=True)[1]

    @cached_property
    def _sign_bm(self) -> Singles:
        shape = (self.replicates, int(self._unit_r.max()) + 1)
        bits = np.random.default_rng(self.seed).integers(0, 2, size=shape, dtype=np.int8)
        return bits.astype(np.float32) * 2 - 1
