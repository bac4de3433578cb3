"""The likelihood of the source labels under soft boxes, and how it is climbed: Fisher scoring with damping."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unskew.bias.likelihood import own_means
from unskew.records import Floats, Ints

LARGEST_CHANGE = 1.0  # of log γ in one step
FIRST_DAMPING = 1e-3
DAMPING_UP = 4.0
DAMPING_DOWN = 0.2
ROWS_OF_INFORMATION = 3_000  # the Fisher information is summed over about this many images
TRIALS_OF_LENGTH = 3  # lengths of a step that are tried before it is damped more
MOST_TRIALS = 24  # then no direction climbs


@dataclass(frozen=True, eq=False)
class Boxes:
    """Edges (K, D), infinite where there is none; width γ; u (C, K), −inf for a source without images in the cell."""

    lower: Floats
    upper: Floats
    width: float
    u: Floats

    @property
    def n_edges(self) -> int:
        return int(np.isfinite(self.lower).sum() + np.isfinite(self.upper).sum())


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """Images sorted by cell, with their labels.

    Attributes
    ----------
    feature : (n, D). ``source`` : (n,). ``offset`` : (n, K) log of the other factors, or (n, 0).
    cells : the rows of each cell. ``cell`` : (n,) its number.
    count : (C, K) images of each source in each cell.
    is_fixed : (K,) sources whose ω is 1: the reference, and those without images.
    unit_share : independent units (groups) for each image: so much of an image's log-likelihood is evidence.
    """

    feature: Floats
    source: Ints
    offset: Floats
    cells: Sequence[slice]
    cell: Ints
    count: Ints
    is_fixed: npt.NDArray[np.bool_]
    unit_share: float = 1.0

    @property
    def n_sources(self) -> int:
        return int(self.count.shape[1])

    @property
    def prior(self) -> float:
        """τ = ¼ √units, as the images' log-likelihood counts: beside a score of order √units it decides only what that leaves open."""
        return 0.25 * float(np.sqrt(self.source.size / self.unit_share))

    @property
    def schwarz(self) -> float:
        """½ log units, in units of the log-likelihood of all images: what a parameter must earn."""
        return 0.5 * float(np.log(self.source.size * self.unit_share)) / self.unit_share

    @cached_property
    def reach(self) -> tuple[Floats, Floats]:
        """(D,) smallest and largest value of each feature."""
        return self.feature.min(axis=0), self.feature.max(axis=0)

    def no_boxes(self) -> Boxes:
        """ω ≡ 1, with u = log of the shares (exact when there is no offset), less the mean of the offset."""
        edge_kd = np.full((self.n_sources, self.feature.shape[1]), np.inf)
        with np.errstate(divide="ignore"):
            u_ck = np.log(self.count / self.count.sum(axis=1, keepdims=True))
        if self.offset.shape[1]:
            u_ck -= own_means(self.offset, self.source, self.cell, len(self.cells))
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
    """Rows sorted by cell; images of one group of ``group_n`` are one unit."""
    n = source_n.size
    raw_n = np.zeros(n, dtype=np.int64) if cell_n is None else np.unique(cell_n, return_inverse=True)[1].astype(np.int64)
    order_n = np.arange(n) if cell_n is None else np.argsort(raw_n, kind="stable")
    bound_c = np.concatenate([[0], np.cumsum(np.bincount(raw_n))])
    count_ck = np.zeros((bound_c.size - 1, n_sources), dtype=np.int64)
    np.add.at(count_ck, (raw_n, source_n), 1)
    is_fixed_k = count_ck.sum(axis=0) == 0
    if reference is not None:
        is_fixed_k[reference] = True
    offset_nk = np.empty((n, 0)) if log_offset_nk is None else np.ascontiguousarray(log_offset_nk[order_n])
    return LabelProblem(
        np.ascontiguousarray(feature_nd[order_n]),
        source_n[order_n],
        offset_nk,
        [slice(int(a), int(b)) for a, b in itertools.pairwise(bound_c)],
        raw_n[order_n],
        count_ck,
        is_fixed_k,
        1.0 if group_n is None or np.array_equal(group_n, np.arange(n)) else np.unique(group_n).size / n,
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Penalised log-likelihood ``value``, ``log_likelihood``, and (order 2) gradient and information of θ and of each cell's u."""

    value: float
    log_likelihood: float
    count: int
    slot: Ints
    gradient: Floats
    information: Floats
    gradient_u: Floats
    information_u: Floats
    cross: Floats


def edge_slots(lower_kd: Floats, upper_kd: Floats) -> tuple[Ints, int]:
    """(K, D, 2) place of each finite edge in θ (lower edges first, source by source), −1 for infinite ones; and the length of θ."""
    slot_kd2 = np.full((*lower_kd.shape, 2), -1, dtype=np.int64)
    n_lower = int(np.isfinite(lower_kd).sum())
    n_upper = int(np.isfinite(upper_kd).sum())
    slot_kd2[..., 0][np.isfinite(lower_kd)] = np.arange(n_lower)
    slot_kd2[..., 1][np.isfinite(upper_kd)] = n_lower + np.arange(n_upper)
    return slot_kd2, n_lower + n_upper + 1


def evaluate_boxes(problem: LabelProblem, boxes: Boxes, order: int = 0) -> Evaluation:
    """L(θ, u) = Σ_i log q_{i,s_i} + τ Σ_k log Ω_k, Ω_k the mean of ω_k over the pool, and its derivatives; −inf if infeasible."""
    from unskew.bias.kernels_soft_box import sweep_soft_boxes

    slot_kd2, n_free = edge_slots(boxes.lower, boxes.upper)
    n_all, n_cells = n_free + problem.n_sources, len(problem.cells)
    gradient_cp = np.zeros((n_cells, n_all))
    fisher_cpp = np.zeros((n_cells, n_all, n_all) if order == 2 else (n_cells, 1, 1))
    mass_k, slope_k = np.zeros((2, problem.n_sources))
    slope_p = np.zeros(n_free)
    stride = max(1, problem.source.size // ROWS_OF_INFORMATION)
    total = 0.0
    for c, rows in enumerate(problem.cells):
        total += sweep_soft_boxes(
            problem.feature[rows],
            problem.source[rows],
            problem.offset[rows],
            boxes.lower,
            boxes.upper,
            boxes.width,
            boxes.u[c],
            slot_kd2,
            n_free,
            order,
            stride,
            gradient_cp[c],
            fisher_cpp[c],
            mass_k,
            slope_p,
            slope_k,
        )
        if total == -np.inf:
            break
    free_k = ~problem.is_fixed
    penalty = 0.0 if total == -np.inf else problem.prior * float(np.log(mass_k[free_k] / problem.source.size).sum())
    gradient_p = gradient_cp[:, :n_free].sum(axis=0)
    if order > 0 and total > -np.inf:
        _add_penalty_slope(gradient_p, problem.prior, slot_kd2, slope_p, slope_k[free_k] / mass_k[free_k], mass_k)
    if order == 2:
        twice_cpp = fisher_cpp + np.swapaxes(fisher_cpp, 1, 2)
        _add_diagonal(twice_cpp, -_diagonal(fisher_cpp))
        fisher_cpp = twice_cpp
    return Evaluation(
        total + penalty,
        total,
        problem.source.size,
        slot_kd2,
        gradient_p,
        fisher_cpp[:, :n_free, :n_free].sum(axis=0),
        gradient_cp[:, n_free:],
        fisher_cpp[:, n_free:, n_free:],
        fisher_cpp[:, :n_free, n_free:],
    )


def _add_penalty_slope(gradient_p: Floats, prior: float, slot_kd2: Ints, slope_p: Floats, ratio_k: Floats, mass_k: Floats) -> None:
    source_e = np.empty(gradient_p.size - 1, dtype=np.int64)
    is_free_kd2 = slot_kd2 >= 0
    source_e[slot_kd2[is_free_kd2]] = np.nonzero(is_free_kd2)[0]
    gradient_p[:-1] += prior * slope_p[:-1] / mass_k[source_e]
    gradient_p[-1] += prior * float(ratio_k.sum())


def ascend(problem: LabelProblem, boxes: Boxes, *, max_steps: int = 60, tol: float = 1e-2) -> tuple[Boxes, Evaluation]:
    """Climb to a local maximum of L over (edges, log γ, u) by Fisher scoring with Levenberg's damping.

    log t_{i,s_i} is a barrier that keeps every image in its own source's support; a step that crosses it, or leads down, is shortened, and
    if that does not help, damped. Steps are invariant to the scale of each feature. An edge that leaves the range of the pool has no
    influence any more and becomes infinite. Stops when a step gains, and was predicted to gain, less than ``tol`` units of log-likelihood
    (one standard error: ½).
    """
    boxes = _drop_idle_edges(problem, boxes)
    now = evaluate_boxes(problem, boxes, 2)
    damping = FIRST_DAMPING
    for _ in range(max_steps):
        length, step, predicted = 1.0, *_damped_step(boxes, now, damping)
        for tried in range(1, MOST_TRIALS + 1):
            trial = _moved(boxes, now.slot, step, length)
            # Most steps climb, so that the derivatives there are wanted.
            then = evaluate_boxes(problem, trial, 2)
            gain = then.value - now.value
            if gain > 0:
                break
            length *= _shortening(gain, 2.0 * length * predicted)
            if tried % TRIALS_OF_LENGTH == 0:
                damping *= DAMPING_UP**TRIALS_OF_LENGTH
                length, step, predicted = 1.0, *_damped_step(boxes, now, damping)
        else:
            break
        if length < 1.0:
            damping *= DAMPING_UP
        elif gain > 0.3 * predicted:
            damping = max(damping * DAMPING_DOWN, 1e-9)
        boxes = _drop_idle_edges(problem, trial)
        now = then if boxes.n_edges == trial.n_edges else evaluate_boxes(problem, boxes, 2)
        if gain < tol and predicted < 5 * tol:
            break
    return boxes, now


def _shortening(gain: float, slope: float) -> float:
    """By how much a step that failed is shortened: to the top of the parabola through its ``gain``, with the ``slope`` at its beginning."""
    if not np.isfinite(gain):
        return 0.3
    return min(max(slope / (2.0 * (slope - gain)), 0.1), 0.5) if slope > 0 else 0.3


def _damped_step(boxes: Boxes, now: Evaluation, damping: float) -> tuple[tuple[Floats, Floats], float]:
    """One step in (θ, u), u eliminated cell by cell (Schur complement); and the gain it predicts."""
    is_in_ck = np.isfinite(boxes.u)
    is_in_ckk = is_in_ck[:, :, None] & is_in_ck[:, None, :]
    system_pp = now.information.copy()
    _add_diagonal(system_pp, (damping + 1e-10) * _positive(_diagonal(now.information), now.count / boxes.width**2))
    scale_ck = is_in_ck * _positive(_diagonal(now.information_u), 1.0)
    # Adding one constant to u changes nothing: that direction is held by its scale.
    held_c = scale_ck.sum(axis=1) / is_in_ck.sum(axis=1) ** 2
    block_ckk = np.where(is_in_ckk, now.information_u + held_c[:, None, None], 0.0)
    _add_diagonal(block_ckk, np.where(is_in_ck, (damping + 1e-10) * scale_ck, 1.0))
    inverse_ckk = np.where(is_in_ckk, np.linalg.inv(block_ckk), 0.0)
    reduced_cpk = now.cross @ inverse_ckk
    system_pp -= np.tensordot(reduced_cpk, now.cross, axes=((0, 2), (0, 2)))
    right_p = now.gradient - np.tensordot(reduced_cpk, now.gradient_u, axes=((0, 2), (0, 1)))
    step_p: Floats = np.linalg.solve(system_pp, right_p).astype(np.float64)
    step_ck = (inverse_ckk @ (now.gradient_u - step_p @ now.cross)[:, :, None])[:, :, 0]
    predicted = 0.5 * float(step_p @ now.gradient + (step_ck * now.gradient_u).sum())
    return (step_p, step_ck), predicted


def _diagonal(matrix: Floats) -> Floats:
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def _add_diagonal(matrix: Floats, diagonal: Floats) -> None:
    at = np.arange(diagonal.shape[-1])
    matrix[..., at, at] += diagonal


def _positive(scale_p: Floats, otherwise: float) -> Floats:
    return np.where(scale_p > 0, scale_p, otherwise)


def _moved(boxes: Boxes, slot_kd2: Ints, step: tuple[Floats, Floats], length: float) -> Boxes:
    """The boxes ``length`` times the step further."""
    step_p, step_ck = length * step[0], length * step[1]
    padded_p = np.concatenate([step_p[:-1], [0.0]])  # slot −1: an infinite edge stays
    lower_kd = boxes.lower + padded_p[slot_kd2[..., 0]]
    upper_kd = boxes.upper + padded_p[slot_kd2[..., 1]]
    width = boxes.width * float(np.exp(np.clip(step_p[-1], -LARGEST_CHANGE, LARGEST_CHANGE)))
    u_ck = boxes.u + step_ck
    top_c = np.max(u_ck, axis=1, keepdims=True)
    return Boxes(*uncrossed(lower_kd, upper_kd), width, u_ck - top_c)


def uncrossed(lower_kd: Floats, upper_kd: Floats) -> tuple[Floats, Floats]:
    """A lower edge above its upper one meets it in the middle."""
    crossed_kd = lower_kd > upper_kd  # then both are finite
    middle = 0.5 * (lower_kd[crossed_kd] + upper_kd[crossed_kd])
    lower_kd, upper_kd = lower_kd.copy(), upper_kd.copy()
    lower_kd[crossed_kd] = middle
    upper_kd[crossed_kd] = middle
    return lower_kd, upper_kd


def _drop_idle_edges(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """An edge beyond all images of the pool is infinite: the data cannot tell where it is."""
    smallest_d, largest_d = problem.reach
    lower_kd = np.where(boxes.lower <= smallest_d, -np.inf, boxes.lower)
    upper_kd = np.where(boxes.upper >= largest_d, np.inf, boxes.upper)
    lower_kd[problem.is_fixed] = -np.inf
    upper_kd[problem.is_fixed] = np.inf
    return replace(boxes, lower=lower_kd, upper=upper_kd)
