"""Score and information of the profile likelihood −Σ_i log q_{i,s_i}(u, θ).

ω has parameters θ, and strata have their own u. With ω_ik = ω_k(z_i; θ), image i in stratum c and
q_ik = e^{u_ck} ω_ik/Σ_l e^{u_cl} ω_il, write r_ik = q_ik − 1{s_i = k}, J_ik = ∂ log ω_ik/∂θ and
J̄_i = Σ_k q_ik J_ik. The score of image i is r_ik for u_ck and Σ_k r_ik J_ik for θ. Its
information, the expectation of the second derivative given the image, has the blocks

    H_c = Σ_{i in c} (diag q_i − q_i q_iᵀ),   B_c = Σ_{i in c} (q_ik J_ik − q_ik J̄_i)_k,
    T = Σ_i (Σ_k q_ik J_ik J_ikᵀ − J̄_i J̄_iᵀ) + penalty.

One stratum and no parameters give n times the Hessian of the objective. Where image i counts d_i
times (design weights), every sum over images is weighted by d_i; the score of an image is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy

from unskew.records import Bools, Floats, Ints
from unskew.records.design_weights import add_design
from unskew.solve.log_linear import sum_log_linear
from unskew.solve.methods import Solved, solve_prepared
from unskew.solve.options import Options
from unskew.solve.prepared_rows import prepare

# Numbers in the largest temporary, 32 MB.
_BLOCK = 2**22


class Derivative(Protocol):
    """J_ik = ∂ log ω_ik/∂θ, in the forms in which it is needed.

    ``at`` are rows, ``weight_bk`` one number for each of them and source.
    """

    @property
    def n_parameters(self) -> int:
        """P."""

    def take(self, at: Ints) -> Derivative:
        """Return the derivative of the rows ``at`` alone."""

    def block(self, at: Ints) -> Floats:
        """Return (b, K, P) J itself."""

    def by_row(self, at: Ints, weight_bk: Floats) -> Floats:
        """Compute (b, P) Σ_k w_ik J_ik."""

    def total(self, at: Ints, weight_bk: Floats) -> Floats:
        """Compute (P,) Σ_i Σ_k w_ik J_ik."""

    def along(self, at: Ints, weight_bk: Floats, a_p: Floats) -> Floats:
        """Compute (b,) Σ_k w_ik J_ik·a."""

    def slopes(self, at: Ints, q_bk: Floats, value_bt: Floats) -> Floats:
        """Compute (P, K, T) Σ_i f_it q_ik (J_ik − J̄_i): the derivative of Σ_i q_ik f_it by θ."""


@dataclass(frozen=True, eq=False)
class DenseDerivative:
    """J of any factors, evaluated block by block; what it says where ω = 0 is ignored."""

    n_parameters: int
    jacobian: Callable[[Ints], Floats] = field(repr=False)
    log_omega: Floats = field(repr=False)

    def take(self, at: Ints) -> DenseDerivative:
        return replace(
            self, jacobian=lambda some: self.jacobian(at[some]), log_omega=self.log_omega[at]
        )

    def block(self, at: Ints) -> Floats:
        # Where ω = 0 the image tells nothing of that source's parameters.
        return np.where(np.isneginf(self.log_omega[at])[:, :, None], 0.0, self.jacobian(at))

    def by_row(self, at: Ints, weight_bk: Floats) -> Floats:
        return np.asarray(np.einsum("bk,bkp->bp", weight_bk, self.block(at)))

    def total(self, at: Ints, weight_bk: Floats) -> Floats:
        return np.asarray(np.einsum("bk,bkp->p", weight_bk, self.block(at)))

    def along(self, at: Ints, weight_bk: Floats, a_p: Floats) -> Floats:
        return np.asarray(np.einsum("bk,bk->b", weight_bk, self.block(at) @ a_p))

    def slopes(self, at: Ints, q_bk: Floats, value_bt: Floats) -> Floats:
        j_bkp = self.block(at)
        centred_bkp = j_bkp - np.einsum("bk,bkp->bp", q_bk, j_bkp)[:, None, :]
        return np.asarray(np.einsum("bk,bkp,bt->pkt", q_bk, centred_bkp, value_bt, optimize=True))


@dataclass(frozen=True, eq=False)
class LinearDerivative:
    """J of a log-linear factor: φ_i for the parameters of source k, 0 for those of others.

    ``free`` are the sources that have any.
    """

    phi: Floats = field(repr=False)
    free: Ints
    n_sources: int

    @property
    def n_parameters(self) -> int:
        return int(self.free.size * self.phi.shape[1])

    def take(self, at: Ints) -> LinearDerivative:
        return replace(self, phi=self.phi[at])

    def block(self, at: Ints) -> Floats:
        block = np.zeros((at.size, self.n_sources, self.free.size, self.phi.shape[1]))
        block[:, self.free, np.arange(self.free.size)] = self.phi[at][:, None, :]
        return block.reshape(at.size, self.n_sources, -1)

    def by_row(self, at: Ints, weight_bk: Floats) -> Floats:
        return (weight_bk[:, self.free, None] * self.phi[at][:, None, :]).reshape(at.size, -1)

    def total(self, at: Ints, weight_bk: Floats) -> Floats:
        return np.asarray(weight_bk[:, self.free].T @ self.phi[at]).ravel()

    def along(self, at: Ints, weight_bk: Floats, a_p: Floats) -> Floats:
        slope_bk = self.phi[at] @ a_p.reshape(self.free.size, -1).T
        return np.asarray(np.einsum("bk,bk->b", weight_bk[:, self.free], slope_bk))

    def slopes(self, at: Ints, q_bk: Floats, value_bt: Floats) -> Floats:
        phi_bd, free = self.phi[at], self.free
        slope_ldkt = np.empty((free.size, phi_bd.shape[1], self.n_sources, value_bt.shape[1]))
        for d, t in np.ndindex(phi_bd.shape[1], value_bt.shape[1]):
            # J_ik − J̄_i for the parameters of source l is φ_i (1{k = l} − q_il); all K × K × P of
            # it at once would not fit.
            pulled_bk = (phi_bd[:, d] * value_bt[:, t])[:, None] * q_bk
            slope_ldkt[:, d, :, t] = -(q_bk[:, free].T @ pulled_bk)
            slope_ldkt[np.arange(free.size), d, free, t] += pulled_bk[:, free].sum(axis=0)
        return slope_ldkt.reshape(self.n_parameters, self.n_sources, -1)


@dataclass(frozen=True, eq=False)
class OmegaOfCells:
    """(R, K) log ω that is the same for all rows of a stratum, computed where it is read.

    table : (C, K) log ω of every stratum.
    cell : (R,) stratum of every row.
    """

    table: Floats = field(repr=False)
    cell: Ints = field(repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.cell.size, self.table.shape[1]

    def __getitem__(self, part: Any) -> Floats:
        rows, columns = part if isinstance(part, tuple) else (part, slice(None))
        return np.asarray(self.table[:, columns][self.cell[rows]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self.table[self.cell], dtype=dtype)


@dataclass(frozen=True, eq=False)
class Profile:
    """The likelihood at its maximum.

    log_omega : (R, K) log ω_k(z_r; θ̂).
    u : (C, K) the maximising u of every stratum; −inf for sources without images there.
    source : (R,)
    cell : (R,) stratum of every row.
    derivative : ∂ log ω/∂θ; None without parameters.
    penalty : (P, P) second derivative of the penalty of the fit.
    solved : the solve that gave u, where there is one stratum: whoever weighs the rows need not
        solve again.
    design : (R,) d, how often each row counts; None: once.
    """

    log_omega: Floats = field(repr=False)
    u: Floats = field(repr=False)
    source: Ints = field(repr=False)
    cell: Ints = field(repr=False)
    derivative: Derivative | None = field(repr=False, default=None)
    penalty: Floats = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    solved: Solved | None = field(repr=False, default=None)
    design: Floats | None = field(repr=False, default=None)

    @property
    def n_parameters(self) -> int:
        return int(self.penalty.shape[0])

    @property
    def is_saturated(self) -> bool:
        """Tell whether each stratum has its own free ω, so that q is its sources' shares of it."""
        return isinstance(self.log_omega, OmegaOfCells)

    def take(self, at: Ints) -> Profile:
        """Return the likelihood of the rows ``at`` alone, at the same parameters.

        They must have the same shares of sources as all rows.
        """
        return Profile(
            self.log_omega[at],
            self.u,
            self.source[at],
            self.cell[at],
            None if self.derivative is None else self.derivative.take(at),
            self.penalty * (at.size / self.source.size),
            design=None if self.design is None else self.design[at],
        )

    def blocks(self, n_values: int = 1) -> Iterator[tuple[int, Ints, Floats]]:
        """Yield (stratum, rows, (b, K) q) for blocks of rows of one stratum each.

        ``n_values``: numbers needed for each row and source.
        """
        dense = 1 if isinstance(self.derivative, LinearDerivative) else max(self.n_parameters, 1)
        step = max(64, _BLOCK // (self.u.shape[1] * max(dense, n_values)))
        for cell, rows in enumerate(self._rows_of_cells):
            for start in range(0, rows.size, step):
                at = rows[start : start + step]
                yield cell, at, self.memberships(at)

    @cached_property
    def _rows_of_cells(self) -> list[Ints]:
        order = np.argsort(self.cell, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.cell, minlength=self.u.shape[0]))[:-1])

    def memberships(self, at: Ints) -> Floats:
        """Compute (b, K) q of the rows ``at``."""
        if self.is_saturated:
            return np.asarray(self._membership_ck[self.cell[at]])
        return np.asarray(scipy.special.softmax(self.log_omega[at] + self.u[self.cell[at]], axis=1))

    @property
    def shares_images(self) -> bool:
        """Tell whether any image could have come from more than one source."""
        if self.is_saturated:
            return bool(self.is_shared_c[self.cell].any())
        return any(bool((q_bk.max(axis=1) < 1.0).any()) for _, _, q_bk in self.blocks())

    @cached_property
    def is_shared_c(self) -> Bools:
        """(C,) which strata have images of several sources, where each has its own free ω."""
        return np.asarray(self._membership_ck.max(axis=1) < 1.0)

    @cached_property
    def _membership_ck(self) -> Floats:
        """(C, K) q where it is the same for all rows of a stratum."""
        with np.errstate(invalid="ignore"):  # a stratum without images
            return np.asarray(scipy.special.softmax(self.distinct_omega()[0] + self.u, axis=1))

    def distinct_omega(self) -> tuple[Floats, Ints]:
        """Return log ω of each stratum if it is the same for all of its rows, else of each row.

        (m, K) and, of every row, which of these it has.
        """
        omega: Any = self.log_omega
        if isinstance(omega, OmegaOfCells):
            return omega.table, omega.cell
        return self.log_omega, np.arange(self.source.size)

    def counted(self, at: Ints, value_bk: Floats) -> Floats:
        """Return d_i times the values of the rows ``at``, whose sums are over images."""
        return value_bk if self.design is None else self.design[at][:, None] * value_bk

    def residuals(self, at: Ints, q_bk: Floats) -> Floats:
        """Compute (b, K) r = q − 1{s = k}."""
        residual_bk = q_bk.copy()
        residual_bk[np.arange(at.size), self.source[at]] -= 1.0
        return residual_bk

    @cached_property
    def information(self) -> Information:
        """The blocks H_c, B_c and T of the information."""
        if isinstance(self.derivative, LinearDerivative):
            return self._linear_information()
        return self._dense_information()

    def _linear_information(self) -> Information:
        linear = self.derivative
        assert isinstance(linear, LinearDerivative)
        theta_kd = np.zeros((linear.n_sources, linear.phi.shape[1]))
        hessian = sum_log_linear(
            linear.phi,
            self.log_omega,
            self.source,
            self.cell,
            self.u,
            theta_kd,
            design_r=self.design,
        ).hessian
        assert hessian is not None
        p = linear.n_parameters
        b_ckp = hessian[:, :, 0, :, 1:][:, :, linear.free].reshape(*self.u.shape, p)
        t_pp = hessian[:, :, 1:, :, 1:].sum(axis=0)[linear.free][:, :, linear.free].reshape(p, p)
        return Information(
            _as_laplacians(hessian[:, :, 0, :, 0].copy()), b_ckp, t_pp + self.penalty
        )

    def _dense_information(self) -> Information:
        n_cells, n_sources = self.u.shape
        p = self.n_parameters
        h_ckk, b_ckp, t_pp = (
            np.zeros((n_cells, n_sources, n_sources)),
            np.zeros((n_cells, n_sources, p)),
            self.penalty.copy(),
        )
        for cell, at, q_bk in self.blocks():
            counted_bk = self.counted(at, q_bk)
            h_ckk[cell] -= counted_bk.T @ q_bk
            if self.derivative is not None:
                j_bkp = self.derivative.block(at)
                mean_bp = np.einsum("bk,bkp->bp", q_bk, j_bkp)
                b_ckp[cell] += np.einsum("bk,bkp->kp", counted_bk, j_bkp) - counted_bk.T @ mean_bp
                root_bkp = (np.sqrt(counted_bk)[:, :, None] * j_bkp).reshape(-1, p)
                t_pp += root_bkp.T @ root_bkp - self.counted(at, mean_bp).T @ mean_bp
        return Information(_as_laplacians(h_ckk), b_ckp, t_pp)


def _as_laplacians(h_ckk: Floats) -> Floats:
    """Restore the diagonal from the rest, so that rows sum to 0 exactly."""
    diagonal = np.arange(h_ckk.shape[1])
    h_ckk[:, diagonal, diagonal] = 0.0
    h_ckk[:, diagonal, diagonal] = -h_ckk.sum(axis=2)
    return h_ckk


@dataclass(frozen=True, eq=False)
class Information:
    """The information of (u, θ): H_c (C, K, K), B_c (C, K, P) and T (P, P)."""

    h_ckk: Floats
    b_ckp: Floats
    t_pp: Floats

    def solve(self, g_ck: Floats, g_p: Floats) -> tuple[Floats, Floats]:
        """Solve I a = g.

        a_θ = S⁻ (g_θ − Σ_c B_cᵀ H_c⁻ g_c) with S = T − Σ_c B_cᵀ H_c⁻ B_c, then a_c = H_c⁻ (g_c −
        B_c a_θ). H_c is a Laplacian: its constant is left at 0 in each linked part. Directions of θ
        that the data do not tell are left at 0.
        """
        a_p = np.zeros(g_p.size)
        if g_p.size:
            right_p = g_p - np.einsum("ckp,ck->p", self._reduced[0], g_ck)
            a_p = self._reduced[1] @ right_p
            g_ck = g_ck - self.b_ckp @ a_p
        return np.einsum("ckl,cl->ck", self._inverse_ckk, g_ck), a_p

    def solve_columns(self, g_ckj: Floats, g_pj: Floats) -> tuple[Floats, Floats]:
        """Solve I a = g for many right-hand sides, the columns j of g."""
        a_pj = np.zeros(g_pj.shape)
        if g_pj.shape[0]:
            a_pj = self._reduced[1] @ (g_pj - np.einsum("ckp,ckj->pj", self._reduced[0], g_ckj))
            g_ckj = g_ckj - self.b_ckp @ a_pj
        return self._inverse_ckk @ g_ckj, a_pj

    def parameter_covariance(self) -> Floats:
        """Return (P, P) S⁻."""
        return self._reduced[1]

    @cached_property
    def _inverse_ckk(self) -> Floats:
        """H_c⁻: pseudo-inverses of symmetric Laplacians, one for each stratum."""
        return np.asarray(np.linalg.pinv(self.h_ckk, rcond=1e-13, hermitian=True), dtype=np.float64)

    @cached_property
    def _reduced(self) -> tuple[Floats, Floats]:
        solved_ckp = self._inverse_ckk @ self.b_ckp
        schur_pp = self.t_pp - np.einsum("ckp,ckq->pq", self.b_ckp, solved_ckp)
        return solved_ckp, np.asarray(scipy.linalg.pinvh((schur_pp + schur_pp.T) / 2, rtol=1e-12))


def solve_one_stratum(
    log_omega_rk: Floats, source_r: Ints, names: Sequence[str], design_r: Floats | None = None
) -> tuple[Floats, Solved | None]:
    """Return (1, K) u as `solve_strata` of one stratum, and the solve behind it."""
    count_k = np.bincount(source_r, minlength=log_omega_rk.shape[1])
    is_one = all(
        (log_omega_rk[rows] == log_omega_rk[rows, :1]).all()
        for rows in (slice(0, 100), slice(None))
    )
    if is_one or np.count_nonzero(count_k) < count_k.size:
        one_cell_r = np.zeros(source_r.size, dtype=np.int64)
        return solve_strata(log_omega_rk, source_r, one_cell_r, 1, names, design_r), None
    options = Options(log=True, names=names)
    solved = solve_prepared(prepare(log_omega_rk, source_r, options, design_r), options)
    n = source_r.size if design_r is None else design_r.sum()
    return solved.solution.u[None, :] + np.log(n), solved


def solve_strata(
    log_omega_rk: Floats,
    source_r: Ints,
    cell_r: Ints,
    n_cells: int,
    names: Sequence[str],
    design_r: Floats | None = None,
) -> Floats:
    """Solve every stratum by itself: (C, K) u, −inf for sources without images in it."""
    n_sources = log_omega_rk.shape[1]
    # A constant that is spread over all rows and sources need not be read entry by entry.
    if not (log_omega_rk if any(log_omega_rk.strides) else log_omega_rk[:1, :1]).any():
        # ω = 1 everywhere: e^{u_yk} ∝ n_yk, without a solve.
        count = add_design(cell_r * n_sources + source_r, design_r, n_cells * n_sources)
        with np.errstate(divide="ignore"):
            return np.log(count).reshape(n_cells, n_sources)
    u_ck = np.full((n_cells, n_sources), -np.inf)
    for cell in range(n_cells):
        at = np.flatnonzero(cell_r == cell)
        present, code = np.unique(source_r[at], return_inverse=True)
        own_r = None if design_r is None else design_r[at]
        size_k = add_design(code, own_r, present.size)
        if present.size == 1:
            u_ck[cell, present] = np.log(size_k)
            continue
        block = log_omega_rk[np.ix_(at, present)]
        if (block == block[:, :1]).all():
            # All ω equal: e^{u_k} ∝ n_k, without a solve.
            u_ck[cell, present] = np.log(size_k)
            continue
        options = Options(log=True, names=[names[k] for k in present])
        solved = solve_prepared(prepare(block, code, options, own_r), options)
        u_ck[cell, present] = solved.solution.u + np.log(size_k.sum())
    return u_ck
