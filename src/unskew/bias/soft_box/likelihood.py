"""The likelihood of the source labels under soft boxes, and its ascent by damped Fisher scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from unskew.bias.likelihood import own_means
from unskew.bias.soft_box.plain_boxes import own_distances
from unskew.bias.soft_box.plain_likelihood import likelihood_loops, sum_information
from unskew.engine.compilation import pays_to_compile
from unskew.engine.threads import one_blas_thread
from unskew.records import Bools, Floats, Ints
from unskew.records.arrays import count_pairs

LARGEST_CHANGE = 1.0  # of log γ in one step
FIRST_DAMPING = 1e-3
DAMPING_UP = 4.0
DAMPING_DOWN = 0.2
LEAST_DAMPING = 1e-9
TRIALS_OF_LENGTH = 3  # lengths of a step that are tried before it is damped more
MOST_TRIALS = 24  # then no direction climbs
ROWS_OF_INFORMATION = 3_000  # the Fisher information is summed over about this many images,
SHARE_OF_INFORMATION = 0.01  # or this share of them, if that is more
RIM_BELOW = 0.5
NEAR_RIM = 0.75  # images with so small an ω where an ascent begins may come near their rim


class Boxes(NamedTuple):
    """Edges (K, D), infinite where there is none; width γ; u (C, K)."""

    lower: Floats
    upper: Floats
    width: float
    u: Floats

    @property
    def n_edges(self) -> int:
        return int(
            np.count_nonzero(np.isfinite(self.lower)) + np.count_nonzero(np.isfinite(self.upper))
        )


class InformingImages(NamedTuple):
    """Images of which the Fisher information is summed, each for ``weight`` images.

    Then features and sources of all that are, or may come, near their own rim, ρ, and the ω below
    which the curvature is that of the images there, in place of its expectation.
    """

    feature: Floats
    offset: Floats
    bound: Ints
    weight: float
    rim_feature: Floats
    rim_source: Ints
    rim_prior: float
    rim_below: float


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """Images sorted by cell, with their labels.

    feature : (n, D). ``source`` : (n,). ``offset`` : (n, K) log of the other factors, or (n, 0).
    bound : (C + 1,) where the rows of each cell begin and end. ``cell`` : (n,) its number.
    count : (C, K) images of each source in each cell.
    is_fixed : (K,) sources whose ω is 1: the reference, and those without images.
    unit_share : independent units (groups) for each image: so much of an image's log-likelihood is
        evidence.
    numbers : images × sources of the problem that this is or is a part of: whether compiling pays.
    """

    feature: Floats
    source: Ints
    offset: Floats
    bound: Ints
    cell: Ints
    count: Ints
    is_fixed: Bools
    unit_share: float = 1.0
    numbers: float = 0.0

    @property
    def n_sources(self) -> int:
        return int(self.count.shape[1])

    @property
    def n_cells(self) -> int:
        return int(self.count.shape[0])

    def informing(self, at_least: int, boxes: Boxes) -> InformingImages:
        """Choose every so many images: ``at_least`` as many, or ``SHARE_OF_INFORMATION`` of all."""
        # A pass of the compiled loop costs less than the curvature of the rims would.
        rim_below = 0.0 if pays_to_compile(self.numbers) else RIM_BELOW
        rim_m = np.empty(0, dtype=np.int64)
        if rim_below:
            distance_n = own_distances(self.feature, self.source, boxes.lower, boxes.upper)[2]
            rim_m = np.flatnonzero(distance_n > (1.0 - NEAR_RIM) * boxes.width)
        stride = max(1, min(self.source.size // at_least, round(1.0 / SHARE_OF_INFORMATION)))
        feature_md, offset_mk = (
            np.ascontiguousarray(array_nd[::stride]) for array_nd in (self.feature, self.offset)
        )
        bound_c = np.searchsorted(self.cell[::stride], np.arange(self.n_cells + 1))
        rim = (self.feature[rim_m], self.source[rim_m], self.prior / self.source.size, rim_below)
        return InformingImages(feature_md, offset_mk, bound_c, float(stride), *rim)

    @property
    def prior(self) -> float:
        """τ = ¼ √units, in units of the images' log-likelihood.

        Next to a score of order √units it decides only what that leaves open.
        """
        return 0.25 * float(np.sqrt(self.source.size / self.unit_share))

    @property
    def schwarz(self) -> float:
        """½ log units, in units of the log-likelihood of all images: what a parameter must earn."""
        return 0.5 * float(np.log(self.source.size * self.unit_share)) / self.unit_share

    @cached_property
    def reach(self) -> tuple[Floats, Floats]:
        """(D,) smallest and largest value of each feature."""
        # Column by column: thirty times as fast as along the axis of a long narrow array.
        smallest_d, largest_d = (
            np.array([of(column_n) for column_n in self.feature.T]) for of in (np.min, np.max)
        )
        return smallest_d, largest_d

    def no_boxes(self) -> Boxes:
        """Return ω ≡ 1, with u = log of the shares less the mean of the offset."""
        edge_kd = np.full((self.n_sources, self.feature.shape[1]), np.inf)
        with np.errstate(divide="ignore"):
            u_ck = np.log(self.count / self.count.sum(axis=1, keepdims=True))
        if self.offset.shape[1]:
            u_ck -= own_means(self.offset, self.source, self.cell, self.n_cells)
        return Boxes(-edge_kd, edge_kd, np.inf, u_ck)


def pose_problem(
    feature_nd: Floats,
    source_n: Ints,
    n_sources: int,
    log_offset_nk: Floats | None,
    cell_n: npt.NDArray[np.generic] | None,
    reference: int | None,
    group_n: npt.NDArray[np.generic] | None = None,
) -> LabelProblem:
    """Sort the rows by cell; images of one group of ``group_n`` are one unit."""
    n = source_n.size
    code_n: Ints = (
        np.zeros(n, dtype=np.int64)
        if cell_n is None
        else np.unique(cell_n, return_inverse=True)[1].astype(np.int64)
    )
    bound_c: Ints = np.concatenate([[0], np.cumsum(np.bincount(code_n))])
    n_cells = bound_c.size - 1
    order_n = slice(None) if n_cells == 1 else np.argsort(code_n, kind="stable")
    count_ck = count_pairs(code_n, source_n, (n_cells, n_sources))
    is_fixed_k = count_ck.sum(axis=0) == 0
    if reference is not None:
        is_fixed_k[reference] = True
    offset_nk = (
        np.empty((n, 0)) if log_offset_nk is None else np.ascontiguousarray(log_offset_nk[order_n])
    )
    return LabelProblem(
        np.ascontiguousarray(feature_nd[order_n]),
        source_n[order_n],
        offset_nk,
        bound_c,
        code_n[order_n],
        count_ck,
        is_fixed_k,
        1.0
        if group_n is None or np.array_equal(group_n, np.arange(n))
        else np.unique(group_n).size / n,
        float(n * n_sources),
    )


class LikelihoodValue(NamedTuple):
    """Penalised log-likelihood ``value``, ``log_likelihood``, and the gradients of the first."""

    value: float
    log_likelihood: float
    gradient: Floats
    gradient_u: Floats


class Ascent(NamedTuple):
    """Where an ascent ended: the boxes, and the likelihood there."""

    boxes: Boxes
    at: LikelihoodValue

    @property
    def value(self) -> float:
        return self.at.value


class LabelInformation(NamedTuple):
    """Fisher information of θ, of each cell's u, and across."""

    theta: Floats
    u: Floats
    cross: Floats


def edge_slots(lower_kd: Floats, upper_kd: Floats) -> tuple[Ints, int]:
    """(K, D, 2) index of each finite edge in θ, −1 for infinite ones; and the length of θ."""
    slot_kd2 = np.full((*lower_kd.shape, 2), -1, dtype=np.int64)
    n_lower = int(np.isfinite(lower_kd).sum())
    n_upper = int(np.isfinite(upper_kd).sum())
    slot_kd2[..., 0][np.isfinite(lower_kd)] = np.arange(n_lower)
    slot_kd2[..., 1][np.isfinite(upper_kd)] = n_lower + np.arange(n_upper)
    return slot_kd2, n_lower + n_upper + 1


def evaluate_boxes(
    problem: LabelProblem, boxes: Boxes, with_gradient: bool = True
) -> LikelihoodValue:
    """Evaluate L(θ, u) and its gradient.

    L = Σ_i log q_{i,s_i} + τ (Σ_k log Ω_k − (1/n) Σ_i 1/ω_{i,s_i}), Ω_k the mean of ω_k over the
    pool.

    −inf if infeasible. The last term is nothing but for images on the rim of their own source's
    support: the likelihood does not mind how small ω is there if no other source has them, and one
    such image would get most of the weight.
    """
    images = (problem.feature, problem.source, problem.offset, problem.bound)
    arguments = (*images, problem.is_fixed, problem.prior, *boxes, with_gradient)
    return LikelihoodValue(*likelihood_loops(problem.numbers).evaluate_soft_boxes(*arguments))


def inform_boxes(images: InformingImages, boxes: Boxes) -> LabelInformation:
    """Sum the Fisher information at the boxes, and the curvature of the rims."""
    theta_pp, u_ckk, cross_cpk = (
        images.weight * sum_
        for sum_ in sum_information(
            images.feature, images.offset, images.bound, *boxes, images.rim_below
        )
    )
    return LabelInformation(theta_pp + rim_curvature(images, boxes), u_ckk, cross_cpk)


def rim_curvature(images: InformingImages, boxes: Boxes) -> Floats:
    """(P, P) minus the second derivative by θ of Σ_i log ω − ρ/ω, ρ = τ/n, ω = ω_{i,s_i} < ½.

    That is Σ_i (1/ω² + 2ρ/ω³) g gᵀ with g = ∂ω/∂θ (γ moves ω nearly linearly). It replaces what the
    information expects there. These images wall the boxes in, and a sum over some of the images has
    few of them: steps without them run into the wall, and are shortened again and again.
    """
    source_n = images.rim_source
    below_dn, above_dn, distance_n = own_distances(
        images.rim_feature, source_n, boxes.lower, boxes.upper
    )
    row_m = np.flatnonzero(distance_n > (1.0 - images.rim_below) * boxes.width)
    slot_kd2, n_free = edge_slots(boxes.lower, boxes.upper)
    slot_md2 = slot_kd2[source_n[row_m]]
    sign_2 = np.array([-1.0, 1.0]) / boxes.width
    by_edge_md2 = (np.stack([below_dn.T[row_m], above_dn.T[row_m]], axis=2) > 0) * sign_2
    of_edge = np.nonzero(by_edge_md2)
    omega_m = np.maximum(1.0 - distance_n[row_m] / boxes.width, 1e-6)
    by_theta_mp = csr_array(
        (
            np.concatenate([by_edge_md2[of_edge], 1.0 - omega_m]),
            (
                np.concatenate([of_edge[0], np.arange(row_m.size)]),
                np.concatenate([slot_md2[of_edge], np.full(row_m.size, n_free - 1)]),
            ),
        ),
        shape=(row_m.size, n_free),
    )
    bend_m = (1.0 + 2.0 * images.rim_prior / omega_m) / omega_m**2
    curvature_pp: Floats = (by_theta_mp.T @ by_theta_mp.multiply(bend_m[:, None])).toarray()
    return curvature_pp


@one_blas_thread()
def ascend(
    problem: LabelProblem,
    boxes: Boxes,
    *,
    max_steps: int = 60,
    tol: float = 1e-2,
    rows: int = ROWS_OF_INFORMATION,
    evaluated: LikelihoodValue | None = None,
) -> Ascent:
    """Climb to a local maximum of L over (edges, log γ, u) by damped Fisher scoring.

    The damping is Levenberg's.

    log t_{i,s_i} is a barrier that keeps every image in its own source's support; a step that
    crosses it, or leads down, is shortened, and if that does not help, damped. Steps are invariant
    to the scale of each feature. An edge that leaves the range of the pool has no influence any
    more and becomes infinite. Stops when a step gains, and was predicted to gain, less than ``tol``
    units of log-likelihood (one standard error: ½). The information is of at least ``rows`` images.
    ``evaluated``: the likelihood at the boxes, if known.
    """
    boxes = _without_idle_edges(problem, boxes)
    images = problem.informing(rows, boxes)
    now = evaluate_boxes(problem, boxes) if evaluated is None else evaluated
    information = inform_boxes(images, boxes)
    damping = FIRST_DAMPING
    for _ in range(max_steps):
        length, step, predicted = 1.0, *_damped_step(problem, boxes, now, information, damping)
        for tried in range(1, MOST_TRIALS + 1):
            trial = _moved(boxes, step, length)
            then = evaluate_boxes(problem, trial)
            gain = then.value - now.value
            if gain > 0:
                break
            length *= _shortening(gain, 2.0 * length * predicted)
            if tried % TRIALS_OF_LENGTH == 0:
                damping *= DAMPING_UP**TRIALS_OF_LENGTH
                length, step, predicted = (
                    1.0,
                    *_damped_step(problem, boxes, now, information, damping),
                )
        else:
            break
        if length < 1.0:
            damping *= DAMPING_UP
        elif gain > 0.3 * predicted:
            damping = max(damping * DAMPING_DOWN, LEAST_DAMPING)
        boxes = _without_idle_edges(problem, trial)
        now = then if boxes is trial else evaluate_boxes(problem, boxes)
        if gain < tol and predicted < 5 * tol:
            break
        information = inform_boxes(images, boxes)
    return Ascent(boxes, now)


def _shortening(gain: float, slope: float) -> float:
    """Shorten a step that failed: to the top of the parabola through its ``gain``."""
    if not math.isfinite(gain) or slope <= 0:
        return 0.3
    return min(max(slope / (2.0 * (slope - gain)), 0.1), 0.5)


def _damped_step(
    problem: LabelProblem,
    boxes: Boxes,
    now: LikelihoodValue,
    information: LabelInformation,
    damping: float,
) -> tuple[tuple[Floats, Floats], float]:
    """Compute a step in (θ, u) and the gain it predicts; u is eliminated cell by cell (Schur)."""
    damping += 1e-10
    is_in_ck = (boxes.u > -np.inf).astype(np.float64)
    scale_ck = _positive(_diagonal(information.u), 1.0)
    # Adding one constant to u changes nothing: that direction is held by its scale.
    held_c = (is_in_ck * scale_ck).sum(axis=1) / is_in_ck.sum(axis=1) ** 2
    block_ckk = information.u + held_c[:, None, None] * is_in_ck[:, :, None] * is_in_ck[:, None, :]
    _add_diagonal(block_ckk, damping * scale_ck)
    solved_ckp = np.linalg.solve(
        block_ckk,
        np.concatenate([information.cross.swapaxes(1, 2), now.gradient_u[:, :, None]], axis=2),
    )
    shared_pp = (information.cross @ solved_ckp).sum(axis=0)
    system_pp = information.theta - shared_pp[:, :-1]
    _add_diagonal(
        system_pp,
        damping * _positive(_diagonal(information.theta), problem.source.size / boxes.width**2),
    )
    step_p: Floats = np.linalg.solve(system_pp, now.gradient - shared_pp[:, -1])
    step_ck: Floats = solved_ckp[:, :, -1] - solved_ckp[:, :, :-1] @ step_p
    predicted = 0.5 * float(step_p @ now.gradient + (step_ck * now.gradient_u).sum())
    return (step_p, step_ck), predicted


def _diagonal(matrix: Floats) -> Floats:
    return matrix.diagonal(axis1=-2, axis2=-1)


def _add_diagonal(matrix: Floats, diagonal: Floats) -> None:
    at = np.arange(diagonal.shape[-1])
    matrix[..., at, at] += diagonal


def _positive(scale_p: Floats, otherwise: float) -> Floats:
    return np.where(scale_p > 0, scale_p, otherwise)


def _moved(boxes: Boxes, step: tuple[Floats, Floats], length: float) -> Boxes:
    """Move the boxes by ``length`` times the step."""
    step_p, step_ck = length * step[0], length * step[1]
    lower_kd, upper_kd = boxes.lower.copy(), boxes.upper.copy()
    has_lower_kd, has_upper_kd = np.isfinite(lower_kd), np.isfinite(upper_kd)
    n_lower = np.count_nonzero(has_lower_kd)
    lower_kd[has_lower_kd] += step_p[:n_lower]
    upper_kd[has_upper_kd] += step_p[n_lower:-1]
    width = boxes.width * math.exp(min(max(step_p[-1], -LARGEST_CHANGE), LARGEST_CHANGE))
    u_ck = boxes.u + step_ck
    return Boxes(*uncrossed(lower_kd, upper_kd), width, u_ck - u_ck.max(axis=1, keepdims=True))


def _without_idle_edges(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """Make edges infinite that are beyond all images of the pool, or of fixed sources."""
    smallest_d, largest_d = problem.reach
    fixed_k1 = problem.is_fixed[:, None]
    lower_kd = np.where((boxes.lower <= smallest_d) | fixed_k1, -np.inf, boxes.lower)
    upper_kd = np.where((boxes.upper >= largest_d) | fixed_k1, np.inf, boxes.upper)
    moved = boxes._replace(lower=lower_kd, upper=upper_kd)
    return boxes if moved.n_edges == boxes.n_edges else moved


def uncrossed(lower_kd: Floats, upper_kd: Floats) -> tuple[Floats, Floats]:
    """Let a lower edge above its upper one meet it in the middle."""
    crossed_kd = lower_kd > upper_kd  # then both are finite
    if not crossed_kd.any():
        return lower_kd, upper_kd
    middle = 0.5 * (lower_kd[crossed_kd] + upper_kd[crossed_kd])
    lower_kd, upper_kd = lower_kd.copy(), upper_kd.copy()
    lower_kd[crossed_kd] = middle
    upper_kd[crossed_kd] = middle
    return lower_kd, upper_kd
