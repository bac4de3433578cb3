"""Sums of residuals over the images, and what they are under the model: sources drawn again.

Under the model image i comes from source k with probability q_ik, so that S_k(f) = Σ_i (1{s_i = k}
− q_ik) f(z_i) has mean 0 for every function f. How far it varies depends on what was estimated: q
was fitted to these very sources. In a replicate every image gets a source drawn from q_i, the
parameters η = (u, θ) move by one Newton step, and the residuals with them:

    e*_ik = 1{s*_i = k} − q_ik,   δ = I⁻¹ Σ_i score*_i,
    e*_ik − q_ik (δ_ik − Σ_l q_il δ_il),   δ_ik = δ_{u, ck} + J_ik·δ_θ,

with score and information I as in `unskew.solve.profile_likelihood`. That is what a new draw and a
new fit give, up to terms of order 1/n, without any fit. Images of one group come from one source,
and how alike they are is not part of the model: there e*_ik is the observed residual with a random
sign for each group (a multiplier bootstrap). So it is with design weights d_i, by which every sum
over images is weighted: given an image that was drawn, q_i is not the chance of its source.

Where some sources lack a column, the others are compared: given the image, and that it comes from
one of the sources l in A, its source is k with probability q_ik/Σ_{l in A} q_il.

Where every stratum has a free ω and there are many strata, the step needs no information: after it
the residuals of each source sum to 0 in the stratum again. Strata are then drawn again whole, and
some thousands of them, or of their images, are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.records.design_weights import add_design
from unskew.solve.profile_likelihood import LinearDerivative, Profile

Singles = npt.NDArray[np.float32]
Functions = Callable[[Ints], Singles]

# Numbers in the largest temporary of a replicate's residuals, 16 MB.
_BLOCK = 2**22
# Strata are drawn whole: of a large one fewer replicates at once, in up to 256 MB.
_LARGE_BLOCK = 2**26
# The spread of sums over all images is that over so many of them (or groups), scaled: it is then
# known to 2%. Beyond _MOST_WORK products of rows, replicates, sources and functions, which take a
# second, fewer do, but not fewer than _FEWEST_UNITS. A fit of many parameters to few rows would be
# another one.
_ENOUGH_UNITS = 5_000
_FEWEST_UNITS = 1_000
_ROWS_OF_PARAMETER = 20
_MOST_WORK = 1e10
# More strata than this, each with its own free ω, are drawn again together.
_MANY_STRATA = 500


@dataclass(frozen=True, eq=False)
class Sums:
    """S_k(f_t) of some sources and functions.

    Attributes
    ----------
    observed : (K, T); 0 for sources that are not compared.
    null : (B, K, T) the same in the replicates.
    size : (K,) number of images of each source that is compared.
    n_redrawn : images whose sources were drawn again; the spread of all follows by scale.
    """

    observed: Floats
    null: Singles = field(repr=False)
    size: Floats
    n_redrawn: int

    def take(self, part: slice) -> Sums:
        """Return the sums of some functions."""
        return replace(self, observed=self.observed[:, part], null=self.null[:, :, part])

    def of_source(self, k: int) -> Sums:
        """Return the sums of one source."""
        return replace(
            self, observed=self.observed[[k]], null=self.null[:, [k]], size=self.size[[k]]
        )


def sum_residuals(
    profile: Profile,
    group_r: Ints | None,
    compared_k: npt.NDArray[np.bool_],
    functions: Functions,
    *,
    replicates: int,
    seed: int,
    refit: bool = False,
) -> Sums:
    """Sum the residuals of the compared sources times (b, T) ``functions`` of rows.

    ``refit``: the parameters are those of other rows, and move to these by a Newton step.
    """
    if profile.design is not None:
        group_r = np.arange(profile.source.size) if group_r is None else group_r
    elif group_r is not None and np.unique(group_r).size == group_r.size:
        group_r = None  # every image is by itself
    observed_kt = _observed(profile, compared_k, functions, refit)
    size_k = add_design(profile.source, profile.design, compared_k.size) * compared_k
    if profile.is_saturated and profile.u.shape[0] > _MANY_STRATA:
        settings: dict[str, Any] = {"replicates": replicates, "seed": seed}
        null_bkt, n_redrawn = _redraw_strata(profile, group_r, compared_k, functions, **settings)
        return Sums(observed_kt, null_bkt, size_k, n_redrawn)
    rows = _some_rows(profile, group_r, replicates * observed_kt[:-1].size, seed)
    part = profile if rows.size == profile.source.size else profile.take(rows)
    redraw = _Redraw(part, None if group_r is None else group_r[rows], compared_k, replicates, seed)
    null_bkt = _summed(
        redraw.refitted(), compared_k, lambda at: _counted(part, at, functions(rows[at]))
    )
    units = rows.size if group_r is None else np.unique(group_r[rows]).size
    null_bkt *= np.float32(np.sqrt(profile.source.size / rows.size * _inflation(part, units)))
    return Sums(observed_kt, null_bkt, size_k, rows.size)


def _summed(
    drawn: Iterable[tuple[Ints, dict[int, Singles]]],
    compared_k: npt.NDArray[np.bool_],
    functions: Functions,
) -> Singles:
    """Sum (B, K, T) the residuals of the compared sources times functions of their rows."""
    null_bkt: Any = None
    last = int(np.flatnonzero(compared_k)[-1])
    for at, residual_kbr in drawn:
        f_rt = functions(at)
        if null_bkt is None:
            shape = len(residual_kbr[last]), compared_k.size, f_rt.shape[1]
            null_bkt = np.zeros(shape, dtype=np.float32)
        for k, residual_br in residual_kbr.items():
            if k != last:
                null_bkt[:, k] += residual_br @ f_rt
    # Residuals of an image sum to 0 over the sources.
    null_bkt[:, last] = -null_bkt.sum(axis=1)
    return np.asarray(null_bkt)


def _counted(profile: Profile, at: Ints, f_rt: Singles) -> Singles:
    return f_rt if profile.design is None else f_rt * profile.design[at][:, None].astype(np.float32)


def _redraw_strata(
    profile: Profile,
    group_r: Ints | None,
    compared_k: npt.NDArray[np.bool_],
    functions: Functions,
    *,
    replicates: int,
    seed: int,
) -> tuple[Singles, int]:
    """Return (B, K, T) sums of replicates where each stratum has a free ω, and rows behind them.

    Strata of one source tell nothing. Groups may be in several strata: then all rows are drawn.
    """
    row = np.flatnonzero(profile.is_shared_c[profile.cell])
    n_shared = row.size
    if n_shared == 0:
        row = np.arange(1)
    elif group_r is None:
        size_c = np.bincount(profile.cell[row])
        order_c = np.random.default_rng([seed, n_shared]).permutation(np.flatnonzero(size_c))
        enough = int(np.searchsorted(np.cumsum(size_c[order_c]), _ENOUGH_UNITS)) + 1
        is_chosen_c = np.zeros(size_c.size, dtype=np.bool_)
        is_chosen_c[order_c[: max(enough, _FEWEST_UNITS)]] = True
        row = row[is_chosen_c[profile.cell[row]]]
    row = row[np.argsort(profile.cell[row], kind="stable")]
    largest = int(np.bincount(profile.cell[row]).max())
    at_once = max(min(replicates, _LARGE_BLOCK // (largest * compared_k.size)), 1)
    parts = []
    for first in range(0, replicates, at_once):
        size = min(at_once, replicates - first)
        redraw = _Redraw(profile, group_r, compared_k, size, seed + first)
        drawn = redraw.centred(row)
        parts.append(_summed(drawn, compared_k, lambda at: _counted(profile, at, functions(at))))
    null_bkt = np.concatenate(parts)
    units = profile.source.size if group_r is None else np.unique(group_r).size
    scale = max(n_shared, 1) / row.size * _inflation(profile, units)
    null_bkt *= np.float32(np.sqrt(scale))
    return null_bkt, row.size


def _observed(
    profile: Profile, compared_k: npt.NDArray[np.bool_], functions: Functions, refit: bool
) -> Floats:
    # Where each stratum has a free ω, q are its sources' shares: no step improves them.
    step = _newton_step(profile) if refit and not profile.is_saturated else None
    total_kt: Any = 0.0
    for cell, block, q_bk in _blocks_of_rows(profile):
        is_compared = compared_k[profile.source[block]]
        at, share_bk = block[is_compared], _among(q_bk[is_compared], compared_k)
        residual_bk = -profile.residuals(at, share_bk)
        if step is not None:
            change_bk = np.broadcast_to(step[0][cell], share_bk.shape)
            if profile.derivative is not None:
                change_bk = change_bk + profile.derivative.block(at) @ step[1]
            mean_b = np.einsum("bk,bk->b", share_bk, change_bk)
            residual_bk -= share_bk * (change_bk - mean_b[:, None])
        total_kt = total_kt + profile.counted(at, residual_bk).T @ functions(at)
    return np.asarray(total_kt)


def _blocks_of_rows(profile: Profile) -> Iterator[tuple[int, Ints, Floats]]:
    """Yield (stratum, rows, q); rows of any strata, numbered 0, where each has a free ω."""
    if not profile.is_saturated:
        yield from profile.blocks(_WIDTH)
        return
    step = max(_BLOCK // (profile.u.shape[1] * _WIDTH), 64)
    for begin in range(0, profile.source.size, step):
        at = np.arange(begin, min(begin + step, profile.source.size))
        yield 0, at, profile.memberships(at)


def _newton_step(profile: Profile) -> tuple[Floats, Floats]:
    """((C, K), (P,)) I⁻¹ Σ_i score_i."""
    score_ck, score_p = np.zeros(profile.u.shape), np.zeros(profile.n_parameters)
    for cell, at, q_bk in profile.blocks():
        residual_bk = -profile.counted(at, profile.residuals(at, q_bk))
        score_ck[cell] += residual_bk.sum(axis=0)
        if profile.derivative is not None:
            score_p += profile.derivative.total(at, residual_bk)
    return profile.information.solve(score_ck, score_p)


# Numbers that functions need for each row and source, in blocks of rows.
_WIDTH = 200


def _among(q_bk: Floats, compared_k: npt.NDArray[np.bool_]) -> Floats:
    """Compute q_ik/Σ_{l compared} q_il; 0 for the other sources."""
    if compared_k.all():
        return q_bk
    share_bk = q_bk * compared_k
    return np.asarray(share_bk / np.maximum(share_bk.sum(axis=1, keepdims=True), 1e-300))


def _some_rows(profile: Profile, group_r: Ints | None, work: int, seed: int) -> Ints:
    """Choose the rows whose sources are drawn again, whole groups of them; all if there are few."""
    n = profile.source.size
    code_r = np.arange(n) if group_r is None else np.unique(group_r, return_inverse=True)[1]
    n_units = int(code_r.max()) + 1
    affordable = int(_MOST_WORK / max(work, 1) * n_units / n)
    wanted = max(
        min(_ENOUGH_UNITS, max(affordable, _FEWEST_UNITS)),
        int(_ROWS_OF_PARAMETER * _count_parameters(profile) * n_units / n),
    )
    if n_units <= wanted:
        return np.arange(n)
    chosen_m = np.zeros(n_units, dtype=np.bool_)
    chosen_m[np.random.default_rng([seed, n]).permutation(n_units)[:wanted]] = True
    return np.flatnonzero(chosen_m[code_r])


def _count_parameters(profile: Profile) -> int:
    """Count the free u of the strata, and θ."""
    free_c = np.isfinite(profile.u).sum(axis=1) - 1
    return int(free_c.sum()) + profile.n_parameters


def _inflation(profile: Profile, n_units: int) -> float:
    """Compute 1/(1 − P/(n (K − 1))): by how much fitted q vary less than true ones.

    A fit to n images makes q more extreme, so that Σ_i q_i (1 − q_i) is too small by a share of
    parameters to residuals; where u are all there is, this is the n/(n − 1) of a variance.
    """
    share = _count_parameters(profile) / (n_units * max(profile.u.shape[1] - 1, 1))
    return float(1.0 / (1.0 - min(share, 0.5)))


@dataclass(frozen=True, eq=False)
class _Redraw:
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
            share_rk = _among(q_rk, self.compared_k)[is_compared].astype(np.float32)
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
        step = max(_BLOCK // (self.replicates * self.compared_k.size), 16)
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
            share_rk = _among(q_rk, self.compared_k).astype(np.float32)
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

    def _drawn(
        self,
    ) -> Iterator[tuple[int, Ints, Floats, dict[int, Singles], dict[int, Singles]]]:
        """Yield stratum, rows, q, and two kinds of residuals by source, (B, b) each.

        The first are among the compared sources, the second among all, which make the scores. They
        are the same every time.
        """
        step = max(_BLOCK // (self.replicates * len(self.compared_k)), 16)
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
        within = self._residuals(rng, at, _among(q_rk, self.compared_k), compared, is_own)
        outside = self._residuals(rng, at, _among(q_rk, ~self.compared_k), others, ~is_own)
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
        first_rk = _among(q_rk, self.compared_k).astype(np.float32)
        second_rk = _among(q_rk, ~self.compared_k).astype(np.float32)
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
