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
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.bias.residual_draws import BLOCK, Redraw, Singles, among
from unskew.records import Floats, Ints
from unskew.records.design_weights import add_design
from unskew.solve.profile_likelihood import Profile

Functions = Callable[[Ints], Singles]

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
    redraw = Redraw(part, None if group_r is None else group_r[rows], compared_k, replicates, seed)
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
    """Return (B, K, T) sums of replicates where each stratum has a free ω, and rows behind them."""
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
        redraw = Redraw(profile, group_r, compared_k, size, seed + first)
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
        at, share_bk = block[is_compared], among(q_bk[is_compared], compared_k)
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
    step = max(BLOCK // (profile.u.shape[1] * _WIDTH), 64)
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
