"""What further images would do to errors, effective size and links: the problem as expected.

Image i of the fit represents its like: under the solution source k draws it with probability
F_ck(i) = d_i q_ik/n_ck within stratum c, n_ck = Σ_{i in c} d_i q_ik. With n'_ck images in place of
n_ck the expected number of images like i from source k is

    M_ik = d_i q_ik n'_ck/n_ck,   M_i = Σ_k M_ik,   q'_ik = M_ik/M_i,

which solves the equations of the larger problem with no new solve, since Σ_i M_ik = n'_ck. A new
source that draws from the law F adds a column m F(i). The target's measure π is what it was, so an
image like i weighs π_i/M_i, and with b_i = π_i (h_i − m_{c_i}) and I' the information at M (of u
and of the parameters of ω), the variance of a target mean is

    Σ_i b_i²/M_i + g'ᵀ I'⁻¹ g',   g'_k = −Σ_i b_i q'_ik,   g'_θ = −Σ_i b_i Σ_k q'_ik J_ik.

Where a sample of the target is left out of training, the numbers N_ik of images that are kept take
the place of M_ik in the first term and in g', and with f = Σ_i b_i q' over all sources the variance
is Σ_i b_i²/N_i − g'ᵀa − 2 fᵀa, I'a = g'. At n' = n it is the model-based variance of today; what
today's standard error is more than that (groups, misfit, few images) is kept as a factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from unskew.records import Bools, Floats, Ints
from unskew.solve.link_error import covariance_root, expected_move
from unskew.solve.profile_likelihood import DenseDerivative, Derivative, LinearDerivative, Profile
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    EstimatedRows,
    deviations_from_strata,
    mass_variances,
)
from unskew.weigh.sampling_units import counts_of, find_units
from unskew.weigh.stratified_spread import stratified_variance

if TYPE_CHECKING:
    from unskew.records import Weights

Kind = Literal["source", "sample", "stratum", "class", "target", "every"]

# Rows of the fit that stand for all of them: the sums of a prediction are averages.
MOST_ROWS = 20_000
# Of every source in every stratum so many rows are kept.
_FEWEST_ROWS = 30


@dataclass(frozen=True, eq=False)
class Collectable:
    """A kind of image that can be collected, and where one more of it falls.

    Attributes
    ----------
    kind : "source" (drawn as that source draws), "sample" (more of the target's sample, which is
        left out of training), "stratum" (of one stratum, by the sources that have it), "class" (of
        one class, drawn from the target), "target" (drawn from the target), "every" (all sources
        and the target's sample, in proportion).
    name : of the source, stratum or class.
    rate_ck : (C, K) what one image adds to n'_ck/n_ck; None for a new source.
    law_r : (R,) the law of a new source over the rows, sum 1; None for others. There is none
        beside a sample of the target.
    """

    kind: Kind
    name: str
    rate_ck: Floats | None = field(default=None, repr=False)
    law_r: Floats | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class ExpectedProblem:
    """The solved problem as a function of how many images of each kind there will be.

    Attributes
    ----------
    row_r : (R,) rows of the fit that represent all of them.
    weight_r : (R,) π, times ``inflate_r``; 0 for the target's sample.
    count_r : (R,) d, times ``inflate_r``.
    inflate_r : (R,) how many rows of the fit each row stands for.
    q_rk : (R, K) memberships.
    cell_r : (R,) stratum.
    kept_k : (K,) False for the target's sample.
    deviation_rh : (R, H) h_i − m_{c_i} of the H outcomes.
    derivative, penalty : of the parameters of ω, as in `Profile`.
    variance_h : (H,) today's variance of each target mean, without what follows.
    counted_h : (H,) variance from masses that follow the pool's own counts.
    floor_h : (H,) variance from the error of the target's given masses: no image lowers it.
    variance_ch : (C, H) variance by stratum where there are strata and nothing else.
    ess : today's effective number of images.
    """

    row_r: Ints
    weight_r: Floats
    count_r: Floats
    inflate_r: Floats
    q_rk: Floats
    cell_r: Ints
    n_cells: int
    kept_k: Bools
    deviation_rh: Floats
    derivative: Derivative | None
    penalty: Floats
    variance_h: Floats
    counted_h: Floats
    floor_h: Floats
    variance_ch: Floats | None
    ess: float

    @cached_property
    def size_ck(self) -> Floats:
        """(C, K) n_ck, images of every source in every stratum."""
        n_sources = self.q_rk.shape[1]
        counted_rk = self.count_r[:, None] * self.q_rk
        return np.column_stack(
            [add_by_code(self.cell_r, counted_rk[:, k], self.n_cells) for k in range(n_sources)]
        )

    def expected_counts(self, plan: Mapping[Collectable, float]) -> tuple[Floats, Floats]:
        """Return (R, L) M and N: all expected images, and those kept in training."""
        rate_ck = np.ones((self.n_cells, self.q_rk.shape[1]))
        new = []
        for kind, images in plan.items():
            if kind.rate_ck is not None:
                rate_ck = rate_ck + images * kind.rate_ck
            elif kind.law_r is not None:
                new.append(images * kind.law_r)
        every_rk = self.count_r[:, None] * self.q_rk * rate_ck[self.cell_r]
        kept_rk = every_rk
        if not self.kept_k.all():
            kept_rk = every_rk * self.kept_k
            own_r = (self.q_rk * self.kept_k).sum(axis=1)
            in_pool_r = self.weight_r > 0
            scale_r = np.divide(1.0, own_r, out=np.zeros_like(own_r), where=in_pool_r & (own_r > 0))
            kept_rk = kept_rk * scale_r[:, None]
        if not new:
            return every_rk, kept_rk
        every_rl = np.column_stack([every_rk, *new])
        return every_rl, every_rl

    def variances(self, plan: Mapping[Collectable, float]) -> Floats:
        """Compute (H,) the expected variance of each target mean once the plan is collected."""
        if not self.variance_h.size:
            return self.variance_h
        before = float(self.size_ck.sum())
        growth = (before + sum(plan.values())) / before
        return self._sampling(plan) + self.counted_h / growth + self.floor_h

    def _sampling(self, plan: Mapping[Collectable, float]) -> Floats:
        every_rl, kept_rl = self.expected_counts(plan)
        if self.variance_ch is not None:
            now_c = add_by_code(self.cell_r, self.count_r, self.n_cells)
            then_c = add_by_code(self.cell_r, kept_rl.sum(axis=1), self.n_cells)
            share_c = np.divide(now_c, then_c, out=np.zeros_like(now_c), where=then_c > 0)
            return np.asarray(share_c @ self.variance_ch)
        then_h = self._model_variances(every_rl, kept_rl)
        ratio_h = np.divide(
            then_h, self._model_now, out=np.zeros_like(then_h), where=self._model_now > 0
        )
        return self.variance_h * ratio_h

    @cached_property
    def _model_now(self) -> Floats:
        return self._model_variances(*self.expected_counts({}))

    def _model_variances(self, every_rl: Floats, kept_rl: Floats) -> Floats:
        """Compute (H,) Σ b²/N − gᵀa − 2 fᵀa."""
        profile = self._profile(every_rl)
        pull_rh = self.weight_r[:, None] * self.deviation_rh
        kept_r = kept_rl.sum(axis=1)
        inverse_r = np.divide(1.0, kept_r, out=np.zeros_like(kept_r), where=kept_r > 0)
        direct_h = inverse_r @ np.square(pull_rh)
        share_rl = kept_rl * inverse_r[:, None]
        g_clh, g_ph = self._pulled(profile, pull_rh, share_rl)
        a_clh, a_ph = profile.information.solve_columns(-g_clh, -g_ph)
        curved_h = -np.einsum("clh,clh->h", a_clh, g_clh) - np.einsum("ph,ph->h", a_ph, g_ph)
        if self.kept_k.all():
            return np.asarray(direct_h + np.maximum(curved_h, 0.0))
        f_clh, f_ph = self._pulled(profile, pull_rh, every_rl / every_rl.sum(axis=1)[:, None])
        cross_h = np.einsum("clh,clh->h", a_clh, f_clh) + np.einsum("ph,ph->h", a_ph, f_ph)
        # Sampling noise can make a sum of differences negative; a variance is not.
        return np.asarray(np.maximum(direct_h - curved_h - 2.0 * cross_h, 0.1 * direct_h))

    def _pulled(self, profile: Profile, pull_rh: Floats, share_rl: Floats) -> tuple[Floats, Floats]:
        """Compute (C, L, H) Σ_i b_ih s_il and (P, H) Σ_i b_ih Σ_l s_il J_il."""
        n_outcomes = pull_rh.shape[1]
        g_clh = np.zeros((self.n_cells, share_rl.shape[1], n_outcomes))
        g_ph = np.zeros((profile.n_parameters, n_outcomes))
        for cell, at, _ in profile.blocks():
            g_clh[cell] += share_rl[at].T @ pull_rh[at]
            if profile.derivative is not None:
                for h in range(n_outcomes):
                    pulled_bl = pull_rh[at, h][:, None] * share_rl[at]
                    g_ph[:, h] += profile.derivative.total(at, pulled_bl)
        return g_clh, g_ph

    def _profile(self, every_rl: Floats) -> Profile:
        with np.errstate(divide="ignore"):
            log_rl = np.log(every_rl)
        derivative = _padded(self.derivative, log_rl)
        return Profile(
            log_omega=log_rl,
            u=np.zeros((self.n_cells, log_rl.shape[1])),
            source=np.zeros(self.cell_r.size, dtype=np.int64),
            cell=self.cell_r,
            derivative=derivative,
            penalty=self.penalty,
            design=every_rl.sum(axis=1),
        )

    def never_selected(self, kind: Collectable) -> float:
        """Return the target mass of images like which none would be collected."""
        law_r = (
            kind.law_r
            if kind.rate_ck is None
            else (self.q_rk * self.kept_k * kind.rate_ck[self.cell_r]).sum(axis=1)
        )
        return 1.0 if law_r is None else float(self.weight_r[law_r == 0.0].sum())

    def effective_size(self, plan: Mapping[Collectable, float]) -> float:
        """Compute the expected effective number of images, 1/Σ_i π_i²/S_i, S = N/d."""
        return self.ess * self._squares({}) / self._squares(plan)

    def _squares(self, plan: Mapping[Collectable, float]) -> float:
        weight_r, grown_r = self._weights(plan)
        return float(np.sum(self.inflate_r * weight_r * weight_r * grown_r))

    def _weights(self, plan: Mapping[Collectable, float]) -> tuple[Floats, Floats]:
        """Return (R,) the weight of one image like i, and how often as many there are as now."""
        grown_r = self.expected_counts(plan)[1].sum(axis=1) / self.count_r
        with np.errstate(divide="ignore"):
            weight_r = np.where(
                self.weight_r > 0, self.weight_r / self.inflate_r / np.maximum(grown_r, 1e-300), 0.0
            )
        return weight_r, np.where(self.weight_r > 0, grown_r, 0.0)

    def heaviest(self, plan: Mapping[Collectable, float]) -> float:
        """Compute what the heaviest image would add to Σ_j w_j²."""
        weight_r, grown_r = self._weights(plan)
        return float(weight_r.max() ** 2 / np.sum(self.inflate_r * weight_r * weight_r * grown_r))

    def link_error(self, plan: Mapping[Collectable, float]) -> float:
        """Compute the target mass that errors of the normalizers would move, summed over strata."""
        every_rl, kept_rl = self.expected_counts(plan)
        moved = 0.0
        for at in _rows_of_cells(self.cell_r, self.n_cells):
            size_l = every_rl[at].sum(axis=0)
            present = np.flatnonzero(size_l > 0)
            if present.size < 2:
                continue
            moved += _moved(
                every_rl[np.ix_(at, present)], kept_rl[np.ix_(at, present)], self.weight_r[at]
            )
        return min(moved, 1.0)


def _moved(every_bl: Floats, kept_bl: Floats, weight_b: Floats) -> float:
    total_b = every_bl.sum(axis=1)
    root_bl = every_bl / np.sqrt(np.maximum(total_b, 1e-300))[:, None]
    size_l = every_bl.sum(axis=0)
    laplacian_ll = -(root_bl.T @ root_bl)
    np.fill_diagonal(laplacian_ll, 0.0)
    np.fill_diagonal(laplacian_ll, -laplacian_ll.sum(axis=1))
    share_bl = kept_bl / np.maximum(kept_bl.sum(axis=1, keepdims=True), 1e-300)
    root_lj = covariance_root(laplacian_ll, size_l)
    return expected_move(lambda: iter([(share_bl, weight_b)]), root_lj).moved


def _rows_of_cells(cell_r: Ints, n_cells: int) -> Iterator[Ints]:
    order = np.argsort(cell_r, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(cell_r, minlength=n_cells))[:-1])


def _padded(derivative: Derivative | None, log_rl: Floats) -> Derivative | None:
    """Give new sources, whose ω is known, columns of zeros."""
    if isinstance(derivative, LinearDerivative):
        return replace(derivative, n_sources=log_rl.shape[1])
    if not isinstance(derivative, DenseDerivative):
        return derivative
    jacobian, n_sources = derivative.jacobian, derivative.log_omega.shape[1]
    extra = log_rl.shape[1] - n_sources

    def padded(at: Ints) -> Floats:
        return np.pad(jacobian(at), ((0, 0), (0, extra), (0, 0)))

    return replace(derivative, jacobian=padded if extra else jacobian, log_omega=log_rl)


def expect_problem(
    weights: Weights,
    values: Mapping[str, Floats],
    stderr: Mapping[str, float],
    most_rows: int = MOST_ROWS,
) -> ExpectedProblem:
    """Prepare predictions from solved weights.

    Parameters
    ----------
    weights : from `unskew.debias`.
    values : (n,) values of every outcome, in the order of the weights.
    stderr : the standard error of its target mean today.
    most_rows : rows of the fit that are kept to represent all, each stratum of each source by
        itself.
    """
    estimation = weights.estimation
    assert estimation is not None
    rows, profile = estimation.rows, estimation.rows.profile
    value_rh = np.zeros((rows.weight.size, len(values)))
    for h, value_n in enumerate(values.values()):
        value_rh[:, h] = estimation.values_of_rows(value_n)
    total_h = np.square([stderr[name] for name in values])
    floor_h, counted_h = _mass_parts(weights, values)
    at, inflate_r = _represent(rows, most_rows)
    deviation_rh = np.column_stack(
        [deviations_from_strata(rows, column) for column in value_rh.T]
        or [np.zeros((rows.weight.size, 0))]
    )
    derivative = profile.derivative
    return ExpectedProblem(
        row_r=at,
        weight_r=rows.weight[at] * inflate_r,
        count_r=counts_of(rows)[at] * inflate_r,
        inflate_r=inflate_r,
        q_rk=profile.memberships(at),
        cell_r=profile.cell[at],
        n_cells=profile.u.shape[0],
        kept_k=rows.kept,
        deviation_rh=deviation_rh[at],
        derivative=None if derivative is None else derivative.take(at),
        penalty=profile.penalty,
        variance_h=np.maximum(total_h - floor_h - counted_h, 0.0),
        counted_h=counted_h,
        floor_h=floor_h,
        variance_ch=_by_stratum(rows, value_rh, deviation_rh),
        ess=weights.ess,
    )


def _mass_parts(weights: Weights, values: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return (H,) variances from given masses, and from masses that follow the pool's counts."""
    estimation = weights.estimation
    assert estimation is not None
    floor_h, counted_h = np.zeros(len(values)), np.zeros(len(values))
    strata = estimation.fitted.strata
    if strata is None:
        return floor_h, counted_h
    n_surveys = len(strata.target.errors)
    for h, value_n in enumerate(values.values()):
        part_e = mass_variances(
            estimation.rows,
            estimation.values_of_rows(value_n),
            estimation.means_without_mass(value_n),
        )
        floor_h[h], counted_h[h] = part_e[:n_surveys].sum(), part_e[n_surveys:].sum()
    return floor_h, counted_h


def _by_stratum(rows: EstimatedRows, value_rh: Floats, deviation_rh: Floats) -> Floats | None:
    """Return (C, H) variances p_c² s_c²/N_c; None where there is more than strata."""
    if not rows.is_post_stratified:
        return None
    units, n_cells = find_units(rows), rows.profile.u.shape[0]
    columns = [
        stratified_variance(rows, units, value_r, deviation_r)[0]
        for value_r, deviation_r in zip(value_rh.T, deviation_rh.T, strict=True)
    ]
    return np.column_stack(columns) if columns else np.zeros((n_cells, 0))


def _represent(rows: EstimatedRows, most: int) -> tuple[Ints, Floats]:
    """Choose rows that stand for all, and return how many each of them stands for.

    Every source in every stratum keeps its share, and at least 30 rows.
    """
    n_rows = rows.weight.size
    if n_rows <= most:
        return np.arange(n_rows), np.ones(n_rows)
    key_r = rows.profile.cell * len(rows.names) + rows.source
    shuffled = np.random.default_rng(0).permutation(n_rows)
    order = shuffled[np.argsort(key_r[shuffled], kind="stable")]
    _, start, size = np.unique(key_r[order], return_index=True, return_counts=True)
    keep = np.minimum(size, np.maximum(np.ceil(size * most / n_rows), _FEWEST_ROWS)).astype(
        np.int64
    )
    at = np.concatenate([order[s : s + k] for s, k in zip(start, keep, strict=True)])
    return at, np.repeat(size / keep, keep)
