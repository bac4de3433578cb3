"""Where the search for soft boxes starts, and which edges it opens and closes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from unskew.bias.soft_box.likelihood import (
    ROWS_OF_INFORMATION,
    Ascent,
    Boxes,
    LabelProblem,
    ascend,
    evaluate_boxes,
    uncrossed,
)
from unskew.bias.soft_box.plain_boxes import (
    box_loops,
    farthest_images,
    innermost_places,
    own_distances,
    spread_of_gain,
)
from unskew.engine.threads import one_blas_thread
from unskew.records import Floats, Ints
from unskew.records.arrays import count_pairs, row_maxima

# Tails at which a source is compared with the pool to see whether it has an edge there.
START_TAILS = (0.01, 0.05, 0.15, 0.35)
MISSING_IMAGES = 0.5  # standard errors by which a tail must lack images
ROWS_OF_PLACES = 5_000  # the place of a new edge is chosen on about this many images
MORE_ROWS = 4  # times as many are looked at where they leave doubt what an edge earns
BEYOND_DOUBT = 5.0  # standard errors
ROWS_OF_ROUGH_INFORMATION = 1000  # steers climbs on a subsample
ROWS_TO_PERMUTE = 20_000
ROWS_OF_TRIAL = 6000  # the starts are climbed on a subsample of this size
# Units of log-likelihood that a finite edge must earn. Small: what one source lacks on one side and
# another on the other can be said with two edges or with one farther in, at the same ratios of ω; a
# dear edge would prefer the one, the more selective.
EDGE_COST = 0.5
PLACES = np.linspace(0.04, 0.96, 12)  # quantiles of the pool at which a new edge is tried
MOST_ROUNDS = 6
MOST_MOVES = 1000  # of the edges of a source; each makes room for the image farthest outside
ROOM = 0.02  # of γ, left between an image and the rim of its own source's support


@one_blas_thread()
def search_boxes(
    problem: LabelProblem, constant_nk: Floats, rng: np.random.Generator
) -> Ascent | None:
    """Find the best local maximum from a few sparse starts.

    None if no source lacks images in any tail.

    Starts are climbed on a subsample drawn evenly from the sources (their sizes enter through u
    only), the best on all images; of many images first on a tenth of them, of which the subsample
    is drawn then. Then, in rounds, edges that earn less than ``EDGE_COST`` are made infinite and
    infinite ones that would earn it are opened.
    """
    n = problem.source.size
    tenth = _subsample(problem, n // 10, rng) if n > 10 * ROWS_OF_TRIAL else None
    trial = _subsample(tenth or problem, ROWS_OF_TRIAL, rng)
    trial_nk = constant_nk if trial is problem else constant_membership(trial)[0]
    starts = start_from_tails(trial, trial_nk)
    if not starts:
        return None
    rows = ROWS_OF_INFORMATION if trial is problem else ROWS_OF_ROUGH_INFORMATION
    climbed = [
        ascend(trial, make_room(trial, boxes), tol=0.3, max_steps=40, rows=rows) for boxes in starts
    ]
    cost = EDGE_COST / problem.unit_share
    best = max(climbed, key=lambda ascent: ascent.value - cost * ascent.boxes.n_edges).boxes
    if tenth is not None:
        best = ascend(tenth, _carried(trial, tenth, best), tol=0.05).boxes
    now = ascend(problem, _carried(tenth or trial, problem, best), tol=0.05)
    for _ in range(MOST_ROUNDS):
        changed = _open_and_close(problem, now.boxes, cost)
        if changed is None:
            break
        then = ascend(
            problem, make_room(problem, changed)._replace(u=now.boxes.u), tol=0.05, max_steps=25
        )
        if then.value - cost * then.boxes.n_edges <= now.value - cost * now.boxes.n_edges:
            break
        now = then
    # At the end an edge must earn ½ log n with the others held (Schwarz). Noise at the ends of the
    # pool earns a few units, and an edge that rests on it can leave an image with hardly any ω of
    # any source, and so with nearly all the weight.
    closed = _open_and_close(problem, now.boxes, problem.schwarz, may_open=False)
    if closed is None:
        return ascend(problem, now.boxes, tol=1e-3, evaluated=now.at)
    return ascend(problem, closed, tol=1e-3)


def start_from_tails(problem: LabelProblem, constant_nk: Floats) -> list[Boxes]:
    """Start, for each tail, with edges at that quantile of source k wherever k lacks images.

    γ is such that all images are in their own source's support.

    Source k has a share ``tail`` of its images beyond the edge; under constant ω it would have Σ_{i
    beyond} q⁰_ik/n_k. A tail without any edge is left out.
    """
    nothing = problem.no_boxes()
    tail_a = np.array(START_TAILS)
    lower_akd, upper_akd = (
        np.repeat(edge_kd[None], tail_a.size, axis=0) for edge_kd in (nothing.lower, nothing.upper)
    )
    for d, column_n in enumerate(problem.feature.T):
        order_n = np.argsort(column_n)
        sorted_n, source_n = column_n[order_n], problem.source[order_n]
        for k in np.flatnonzero(~problem.is_fixed):
            own_m = sorted_n[source_n == k]
            units = own_m.size * problem.unit_share
            share_a = np.maximum(tail_a, 1.0 / units)
            bound_a = own_m.size * (share_a + MISSING_IMAGES * np.sqrt(share_a / units))
            low_a, high_a = np.quantile(own_m, np.stack([tail_a, 1.0 - tail_a]))
            expected_n = np.concatenate([[0.0], np.cumsum(constant_nk[order_n, k])])
            below_a = expected_n[np.searchsorted(sorted_n, low_a, side="left")]
            above_a = expected_n[-1] - expected_n[np.searchsorted(sorted_n, high_a, side="right")]
            lower_akd[:, k, d] = np.where(below_a > bound_a, low_a, -np.inf)
            upper_akd[:, k, d] = np.where(above_a > bound_a, high_a, np.inf)
    starts = []
    for lower_kd, upper_kd in zip(lower_akd, upper_akd, strict=True):
        farthest = float(
            farthest_images(problem.feature, problem.source, lower_kd, upper_kd)[1].max()
        )
        if farthest > 0:
            starts.append(Boxes(lower_kd, upper_kd, 1.1 * farthest, nothing.u))
    return starts


def open_opposite_edges(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """Add every edge that could take over, or share, what another source's edge explains.

    That source k lacks images above an edge, compared with l, is as well said by a lower edge of l,
    as long as log ω is nearly linear. So a source without edges along a feature gets one there on
    either side on whose opposite another source has one. It begins where that one is (the farthest
    in of several), or as near to it as the source's own images allow: from there the likelihood
    decides which of the two explains how much.
    """
    has_lower_kd, has_upper_kd = np.isfinite(boxes.lower), np.isfinite(boxes.upper)
    bare_kd = ~(has_lower_kd | has_upper_kd) & ~problem.is_fixed[:, None]
    highest_d = np.max(boxes.upper, axis=0, where=has_upper_kd, initial=-np.inf)
    lowest_d = np.min(boxes.lower, axis=0, where=has_lower_kd, initial=np.inf)
    lower_kd = np.where(bare_kd & has_upper_kd.any(axis=0), highest_d, boxes.lower)
    upper_kd = np.where(bare_kd & has_lower_kd.any(axis=0), lowest_d, boxes.upper)
    # Where the two would cross, both begin half way.
    crossed_kd = lower_kd > upper_kd
    lower_kd[crossed_kd] = upper_kd[crossed_kd] = 0.5 * (
        lower_kd[crossed_kd] + upper_kd[crossed_kd]
    )
    return make_room(problem, boxes._replace(lower=lower_kd, upper=upper_kd))


def make_room(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """Move edges outwards until every image is in its own source's support; γ stays.

    They move as little as it takes.
    """
    lower_kd, upper_kd = boxes.lower.copy(), boxes.upper.copy()
    reach = (1.0 - ROOM) * boxes.width
    distance_n = own_distances(problem.feature, problem.source, lower_kd, upper_kd)[2]
    # Edges move outwards only: an image that is inside stays there.
    row_m = np.flatnonzero(distance_n > reach * (1.0 + 1e-9))
    feature_md, source_m = problem.feature[row_m], problem.source[row_m]
    for tried in range(MOST_MOVES + 1):
        far_k, distance_k = farthest_images(feature_md, source_m, lower_kd, upper_kd)
        outside = np.flatnonzero(distance_k > reach * (1.0 + 1e-9))
        if outside.size == 0:
            break
        for k in outside:
            share, z_d = 1.0 - reach / distance_k[k], feature_md[far_k[k]]
            if tried < MOST_MOVES:
                lower_kd[k] -= share * np.maximum(lower_kd[k] - z_d, 0.0)
                upper_kd[k] += share * np.maximum(z_d - upper_kd[k], 0.0)
            else:
                # The width is lost in the rounding of features so large: no edge there.
                lower_kd[k], upper_kd[k] = -np.inf, np.inf
    return boxes._replace(lower=lower_kd, upper=upper_kd)


def _carried(few: LabelProblem, many: LabelProblem, boxes: Boxes) -> Boxes:
    """Turn boxes fitted to few of the images into a start on all of them.

    That makes room for these, and shifts u as the sources' shares differ.

    On the same images u starts again: that is another way up, which at times goes on where the
    first ended on a ridge.
    """
    moved = make_room(many, boxes)
    if few is many or not np.array_equal(few.count > 0, many.count > 0):
        return moved._replace(u=many.no_boxes().u)
    return moved._replace(u=boxes.u + np.log(np.maximum(many.count, 1) / np.maximum(few.count, 1)))


def _subsample(problem: LabelProblem, n_rows: int, rng: np.random.Generator) -> LabelProblem:
    """Choose at most ``n_rows`` images, as evenly from the sources as their sizes allow."""
    if problem.source.size <= n_rows:
        return problem
    size_k = problem.count.sum(axis=0)
    share = n_rows // int(np.count_nonzero(size_k))
    chosen = [_some_rows(problem.source, int(k), share, rng) for k in np.flatnonzero(size_k)]
    row_m = np.sort(np.concatenate(chosen))
    bound_c = np.searchsorted(problem.cell[row_m], np.arange(problem.n_cells + 1))
    count_ck = count_pairs(problem.cell[row_m], problem.source[row_m], problem.count.shape)
    kept = np.flatnonzero(np.diff(bound_c) > 0)
    return LabelProblem(
        np.ascontiguousarray(problem.feature[row_m]),
        problem.source[row_m],
        np.ascontiguousarray(problem.offset[row_m]),
        np.append(bound_c[kept], row_m.size),
        np.searchsorted(kept, problem.cell[row_m]),
        count_ck[kept],
        problem.is_fixed,
        problem.unit_share,
        problem.numbers,
    )


def _some_rows(source_n: Ints, k: int, most: int, rng: np.random.Generator) -> Ints:
    """Choose rows of source k at random; of very many rows only every so many are permuted."""
    own_m = np.flatnonzero(source_n == k)
    stride = max(1, own_m.size // max(2 * most, ROWS_TO_PERMUTE))
    return rng.permutation(own_m[rng.integers(stride) :: stride] if stride > 1 else own_m)[:most]


def _open_and_close(
    problem: LabelProblem, boxes: Boxes, cost: float, may_open: bool = True
) -> Boxes | None:
    """Close edges that earn less than their cost, and open those that would earn it."""
    levels = [_Held(problem, boxes, stride) for stride in _strides(problem.source.size)]
    edges_kd = [boxes.lower.copy(), boxes.upper.copy()]
    place_md = np.quantile(levels[0].rows[0], PLACES, axis=0)
    innermost = innermost_places(
        problem.feature, problem.source, boxes.lower, boxes.upper, (1.0 - ROOM) * boxes.width
    )
    changed = False
    for k, d, side in product(
        np.flatnonzero(~problem.is_fixed), range(problem.feature.shape[1]), range(2)
    ):
        edge = _Edge(int(k), d, side, float(edges_kd[side][k, d]))
        if not (edge.is_finite or may_open):
            continue
        other = (
            edge.away
            if edge.is_finite
            else levels[0].best_place(edge, place_md[:, d], float(innermost[side][k, d]))
        )
        if other is not None and _pays(levels, edge, other, -cost if edge.is_finite else cost):
            edges_kd[side][k, d] = other
            changed = True
    return Boxes(*uncrossed(*edges_kd), boxes.width, boxes.u) if changed else None


def _strides(n: int) -> list[int]:
    """List every how many images are read first, and where those leave doubt; at last all.

    >>> _strides(100_000), _strides(1000)
    ([20, 5, 1], [1])
    """
    strides = [max(1, n // ROWS_OF_PLACES)]
    while strides[-1] > 1:
        strides.append(max(1, strides[-1] // MORE_ROWS))
    return strides


def _pays(levels: Sequence[_Held], edge: _Edge, other: float, needed: float) -> bool:
    """Tell whether moving the edge gains more than ``needed``."""
    *some, every = levels
    for held in some:
        gain = held.gain(edge, other)
        if gain == -np.inf:
            return False
        # Of what only few images tell some may show nothing: an edge is not given up if one image
        # more could be for it.
        error = max(held.error_of_gain(edge, other), float(held.stride) if edge.is_finite else 0.0)
        if abs(gain - needed) > BEYOND_DOUBT * error:
            return gain > needed
    return every.gain(edge, other) > needed


class _Edge(NamedTuple):
    """Edge of source k along feature d; side 0 is the lower one."""

    k: int
    d: int
    side: int
    at: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.at))

    @property
    def sign(self) -> float:
        return 1.0 if self.side else -1.0

    @property
    def away(self) -> float:
        return self.sign * math.inf


class _Masses(NamedTuple):
    """(n, K) e^{u} and the other factors, distances to the boxes, the first times ω."""

    factor: Floats
    distance: Floats
    mass: Floats
    slope: Floats
    curvature: Floats


class _Held:
    """What is held while one edge moves, of every ``stride``-th image."""

    def __init__(self, problem: LabelProblem, boxes: Boxes, stride: int) -> None:
        self.problem, self.boxes, self.stride = problem, boxes, stride

    @cached_property
    def rows(self) -> tuple[Floats, Ints, Floats, Ints]:
        """Features, sources, offsets and cells of the images."""
        problem = self.problem
        feature_nd, offset_nk = (
            np.ascontiguousarray(array_nd[:: self.stride])
            for array_nd in (problem.feature, problem.offset)
        )
        source_n, cell_n = (
            np.ascontiguousarray(code_n[:: self.stride])
            for code_n in (problem.source, problem.cell)
        )
        return feature_nd, source_n, offset_nk, cell_n

    @cached_property
    def masses(self) -> _Masses:
        return _Masses(*box_loops(self.problem.numbers).soft_box_masses(*self.rows, *self.boxes))

    def gain(self, edge: _Edge, other: float) -> float:
        """Compute what the log-likelihood of all images gains with the edge at another place."""
        return self.stride * float(self._gains(edge, np.array([other]))[0])

    def error_of_gain(self, edge: _Edge, other: float) -> float:
        """Compute the standard error of `gain`, as far as images differ in their gains."""
        feature_nd, source_n, _, _ = self.rows
        held = (feature_nd, source_n, *self.masses[:3])
        return self.stride * float(
            spread_of_gain(*held, edge.k, edge.d, edge.sign, edge.at, other, self.boxes.width)
        )

    def best_place(self, edge: _Edge, place_m: Floats, innermost: float) -> float | None:
        """Find the place between the opposite edge and the innermost one that gains most."""
        low, high = self.boxes.lower[edge.k, edge.d], self.boxes.upper[edge.k, edge.d]
        is_open_m = (
            (place_m >= max(low, innermost)) if edge.side else (place_m <= min(high, innermost))
        )
        open_m = place_m[is_open_m]
        return float(open_m[np.argmax(self._gains(edge, open_m))]) if open_m.size else None

    def _gains(self, edge: _Edge, place_m: Floats) -> Floats:
        feature_nd, source_n, _, cell_n = self.rows
        gain_m: Floats = box_loops(self.problem.numbers).gains_of_edge(
            feature_nd,
            source_n,
            cell_n,
            *self.masses,
            edge.k,
            edge.d,
            edge.sign,
            edge.at,
            place_m,
            self.boxes.width,
        )
        return gain_m


def constant_membership(problem: LabelProblem) -> tuple[Floats, float]:
    """(n, K) q⁰_ik under ω ≡ 1 (times the offset), and its Σ_i log q⁰_{i,s_i}."""
    boxes = problem.no_boxes()
    if problem.offset.shape[1] and np.isfinite(
        evaluate_boxes(problem, boxes._replace(width=1.0), False).value
    ):
        boxes = ascend(problem, boxes._replace(width=1.0), tol=1e-6).boxes
    log_nk = boxes.u[problem.cell] + problem.offset if problem.offset.shape[1] else boxes.u
    q_nk: Floats = np.exp(log_nk - row_maxima(log_nk)[:, None])
    q_nk /= q_nk.sum(axis=1, keepdims=True)
    if not problem.offset.shape[1]:
        # One row for each cell; with one cell it is not copied for every image.
        q_nk = (
            np.broadcast_to(q_nk, (problem.source.size, problem.n_sources))
            if problem.n_cells == 1
            else q_nk[problem.cell]
        )
    own_n: Ints = np.arange(problem.source.size)
    return q_nk, float(np.log(q_nk[own_n, problem.source]).sum())
