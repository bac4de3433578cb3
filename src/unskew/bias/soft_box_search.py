"""Where the search for soft boxes starts, and which edges it opens and closes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unskew.bias.soft_box_likelihood import Boxes, LabelProblem, ascend, evaluate_boxes, uncrossed
from unskew.records import Floats, Ints
from unskew.solve.logarithms import row_maxima

# Tails at which a source is compared with the pool to see whether it has an edge there.
START_TAILS = (0.01, 0.05, 0.15, 0.35)
MISSING_IMAGES = 0.5  # standard errors by which a tail must lack images
ROWS_OF_PLACES = 25_000  # the place of a new edge is chosen on about this many images
ROWS_OF_TRIAL = 6000  # the starts are climbed on a subsample of this size
# Units of log-likelihood that a finite edge must earn. Small: what one source lacks on one side and another on the other can be said with
# two edges or with one farther in, at the same ratios of ω; a dear edge would prefer the one, the more selective.
EDGE_COST = 0.5
PLACES = np.linspace(0.04, 0.96, 12)  # quantiles of the pool at which a new edge is tried
MOST_ROUNDS = 6
MOST_MOVES = 1000  # of the edges of a source; each makes room for the image that lies farthest outside
ROOM = 0.02  # of γ, left between an image and the rim of its own source's support


def search_boxes(problem: LabelProblem, constant_nk: Floats, rng: np.random.Generator) -> Boxes | None:
    """The best local maximum found from a few sparse starts; None if no source lacks images in any tail.

    Starts are climbed on a subsample drawn evenly from the sources (their sizes enter through u only), the best on all images; of many
    images first on a tenth of them.
    Then, in rounds, edges that earn less than ``EDGE_COST`` are made infinite and infinite ones that would earn it are opened.
    """
    trial = _subsample(problem, ROWS_OF_TRIAL, rng)
    trial_nk = constant_nk if trial is problem else constant_membership(trial)[0]
    starts = [boxes for tail in START_TAILS if (boxes := start_from_tail(trial, trial_nk, tail)) is not None]
    if not starts:
        return None
    climbed = [ascend(trial, _restarted(trial, boxes), tol=0.3, max_steps=40) for boxes in starts]
    cost = EDGE_COST / problem.unit_share
    best, _ = max(climbed, key=lambda pair: pair[1].value - cost * pair[0].n_edges)
    if problem.source.size > 20 * ROWS_OF_TRIAL:
        tenth = _subsample(problem, problem.source.size // 10, rng)
        best, _ = ascend(tenth, _restarted(tenth, best), tol=0.05)
    boxes, now = ascend(problem, _restarted(problem, best), tol=0.05)
    for _ in range(MOST_ROUNDS):
        changed = _open_and_close(problem, boxes, cost)
        if changed is None:
            break
        next_boxes, then = ascend(problem, replace(make_room(problem, changed), u=boxes.u), tol=0.05, max_steps=25)
        if then.value - cost * next_boxes.n_edges <= now.value - cost * boxes.n_edges:
            break
        boxes, now = next_boxes, then
    # At the end an edge must earn ½ log n with the others held (Schwarz). Noise at the ends of the pool earns a few units, and an edge that
    # rests on it can leave an image with hardly any ω of any source, and so with nearly all the weight.
    return _open_and_close(problem, boxes, problem.schwarz, may_open=False) or boxes


def start_from_tail(problem: LabelProblem, constant_nk: Floats, tail: float) -> Boxes | None:
    """An edge at the ``tail`` quantile of source k wherever k lacks images beyond it; γ so that all own images are inside.

    Source k has a share ``tail`` of its images beyond the edge; under constant ω it would have Σ_{i beyond} q⁰_ik/n_k.
    """
    from unskew.bias.kernels_soft_box import farthest_images

    nothing = problem.no_boxes()
    lower_kd, upper_kd = nothing.lower, nothing.upper
    for k in np.flatnonzero(~problem.is_fixed):
        own_md = problem.feature[problem.source == k]
        n_own = own_md.shape[0]
        units = n_own * problem.unit_share
        share = max(tail, 1.0 / units)
        bound = share + MISSING_IMAGES * np.sqrt(share / units)
        for d in range(own_md.shape[1]):
            low, high = np.quantile(own_md[:, d], [tail, 1.0 - tail])
            if constant_nk[problem.feature[:, d] < low, k].sum() > n_own * bound:
                lower_kd[k, d] = low
            if constant_nk[problem.feature[:, d] > high, k].sum() > n_own * bound:
                upper_kd[k, d] = high
    farthest = float(farthest_images(problem.feature, problem.source, lower_kd, upper_kd)[1].max())
    return Boxes(lower_kd, upper_kd, 1.1 * farthest, nothing.u) if farthest > 0 else None


def open_opposite_edges(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """The boxes with every edge added that could take over, or share, what another source's edge explains.

    That source k lacks images above an edge, compared with l, is as well said by a lower edge of l, as long as log ω is nearly linear. So
    a source without edges along a feature gets one there on either side on whose opposite another source has one. It begins as far in as
    the source's own images allow: from there the likelihood decides which of the two explains how much.
    """
    has_lower_kd, has_upper_kd = np.isfinite(boxes.lower), np.isfinite(boxes.upper)
    bare_kd = ~(has_lower_kd | has_upper_kd) & ~problem.is_fixed[:, None]
    middle_d = np.median(problem.feature, axis=0)
    lower_kd = np.where(bare_kd & has_upper_kd.any(axis=0), middle_d, boxes.lower)
    upper_kd = np.where(bare_kd & has_lower_kd.any(axis=0), middle_d, boxes.upper)
    return make_room(problem, replace(boxes, lower=lower_kd, upper=upper_kd))


def make_room(problem: LabelProblem, boxes: Boxes) -> Boxes:
    """Edges moved outwards, as little as it takes, until every image lies in its own source's support; γ stays."""
    from unskew.bias.kernels_soft_box import farthest_images

    lower_kd, upper_kd = boxes.lower.copy(), boxes.upper.copy()
    reach = (1.0 - ROOM) * boxes.width
    for tried in range(MOST_MOVES + 1):
        row_k, distance_k = farthest_images(problem.feature, problem.source, lower_kd, upper_kd)
        outside = np.flatnonzero(distance_k > reach * (1.0 + 1e-9))
        if outside.size == 0:
            break
        for k in outside:
            share, z_d = 1.0 - reach / distance_k[k], problem.feature[row_k[k]]
            if tried < MOST_MOVES:
                lower_kd[k] -= share * np.maximum(lower_kd[k] - z_d, 0.0)
                upper_kd[k] += share * np.maximum(z_d - upper_kd[k], 0.0)
            else:
                # The width is lost in the rounding of features so large: no edge there.
                lower_kd[k], upper_kd[k] = -np.inf, np.inf
    return replace(boxes, lower=lower_kd, upper=upper_kd)


def _restarted(problem: LabelProblem, boxes: Boxes) -> Boxes:
    return replace(make_room(problem, boxes), u=problem.no_boxes().u)


def _subsample(problem: LabelProblem, n_rows: int, rng: np.random.Generator) -> LabelProblem:
    """At most ``n_rows`` images, as evenly from the sources as their sizes allow; cells are kept."""
    if problem.source.size <= n_rows:
        return problem
    present = np.unique(problem.source)
    share = n_rows // present.size
    chosen = [rng.permutation(np.flatnonzero(problem.source == k))[:share] for k in present]
    row_m = np.sort(np.concatenate(chosen))
    bound_c = np.searchsorted(problem.cell[row_m], np.arange(len(problem.cells) + 1))
    count_ck = np.zeros_like(problem.count)
    np.add.at(count_ck, (problem.cell[row_m], problem.source[row_m]), 1)
    kept = [c for c in range(len(problem.cells)) if bound_c[c + 1] > bound_c[c]]
    return LabelProblem(
        np.ascontiguousarray(problem.feature[row_m]),
        problem.source[row_m],
        np.ascontiguousarray(problem.offset[row_m]),
        [slice(int(bound_c[c]), int(bound_c[c + 1])) for c in kept],
        np.searchsorted(np.array(kept), problem.cell[row_m]),
        count_ck[kept],
        problem.is_fixed,
        problem.unit_share,
    )


def _open_and_close(problem: LabelProblem, boxes: Boxes, cost: float, may_open: bool = True) -> Boxes | None:
    """Close (make infinite) each edge that earns less than its cost with the others held; open each infinite one that would earn it."""
    from unskew.bias.kernels_soft_box import mass_of_others, soft_box_masses

    lower_kd, upper_kd = boxes.lower.copy(), boxes.upper.copy()
    factor_nk, distance_nk, mass_nk = soft_box_masses(
        problem.feature, problem.offset, problem.cell, boxes.lower, boxes.upper, boxes.width, boxes.u
    )
    stride = max(1, problem.source.size // ROWS_OF_PLACES)
    place_md = np.quantile(problem.feature[::stride], PLACES, axis=0)
    changed = False
    for k in np.flatnonzero(~problem.is_fixed):
        held = _Held(problem, boxes, int(k), distance_nk[:, k], mass_of_others(mass_nk, k), factor_nk[:, k])
        for d in range(problem.feature.shape[1]):
            for side, edge_kd in enumerate((lower_kd, upper_kd)):
                if not (may_open or np.isfinite(edge_kd[k, d])):
                    continue
                edge = _better_edge(held, cost, d, side, place_md[:, d], stride)
                if edge is not None:
                    edge_kd[k, d] = edge
                    changed = True
    if not changed:
        return None
    lower_kd, upper_kd = uncrossed(lower_kd, upper_kd)
    return replace(boxes, lower=lower_kd, upper=upper_kd)


@dataclass(frozen=True, eq=False)
class _Held:
    """What is held while an edge of source k moves: (n,) distances to its box, the other sources' mass, e^{u} and its other factors."""

    problem: LabelProblem
    boxes: Boxes
    k: int
    distance: Floats
    rest: Floats
    factor: Floats

    def values(self, d: int, side: int, edge_m: Floats, stride: int = 1) -> Floats:
        """(m,) log-likelihood, up to a constant, with the edge at each of these places."""
        from unskew.bias.kernels_soft_box import gain_of_edges

        problem, boxes = self.problem, self.boxes
        low, high = float(boxes.lower[self.k, d]), float(boxes.upper[self.k, d])
        lower_m, upper_m = (edge_m, np.full(edge_m.size, high)) if side == 0 else (np.full(edge_m.size, low), edge_m)
        found: Floats = gain_of_edges(
            problem.feature[:, d],
            self.distance,
            self.rest,
            self.factor,
            problem.source,
            self.k,
            problem.cell,
            len(problem.cells),
            low,
            high,
            lower_m,
            upper_m,
            boxes.width,
            stride,
        )
        return found


def _better_edge(held: _Held, cost: float, d: int, side: int, place_m: Floats, stride: int) -> float | None:
    """The edge that should replace this one (infinite ↔ finite), or None.

    Of the places for a new edge the best is chosen on every ``stride``-th image; whether it pays is decided on all.
    """
    low, high = float(held.boxes.lower[held.k, d]), float(held.boxes.upper[held.k, d])
    now, away = (low, -np.inf) if side == 0 else (high, np.inf)
    if np.isfinite(now):
        other, needed = away, -cost
    else:
        inner_m = place_m[place_m <= high] if side == 0 else place_m[place_m >= low]
        if inner_m.size == 0:
            return None
        other, needed = float(inner_m[np.argmax(held.values(d, side, inner_m, stride))]), cost
    before, after = held.values(d, side, np.array([now, other]))
    return other if after - before > needed else None


def constant_membership(problem: LabelProblem) -> tuple[Floats, float]:
    """(n, K) q⁰_ik under ω ≡ 1 (times the offset), and its Σ_i log q⁰_{i,s_i}."""
    boxes = problem.no_boxes()
    if problem.offset.shape[1] and np.isfinite(evaluate_boxes(problem, replace(boxes, width=1.0)).value):
        boxes, _ = ascend(problem, replace(boxes, width=1.0), tol=1e-6)
    log_nk = boxes.u[problem.cell] + problem.offset if problem.offset.shape[1] else boxes.u
    q_nk: Floats = np.exp(log_nk - row_maxima(log_nk)[:, None])
    q_nk /= q_nk.sum(axis=1, keepdims=True)
    if not problem.offset.shape[1]:
        # One row for each cell; with one cell it is not copied for every image.
        q_nk = np.broadcast_to(q_nk, (problem.source.size, problem.n_sources)) if len(problem.cells) == 1 else q_nk[problem.cell]
    own_n: Ints = np.arange(problem.source.size)
    return q_nk, float(np.log(q_nk[own_n, problem.source]).sum())
