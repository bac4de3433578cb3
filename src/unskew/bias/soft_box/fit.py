"""Soft boxes by maximum likelihood of the source labels.

ω_k is 1 in a box and falls linearly (ℓ1) to 0 over a width γ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew.bias.soft_box.likelihood import (
    Ascent,
    Boxes,
    LabelProblem,
    ascend,
    edge_slots,
    pose_problem,
)
from unskew.bias.soft_box.permutation import permutation_p_value
from unskew.bias.soft_box.plain_boxes import omega_of_boxes
from unskew.bias.soft_box.search import (
    constant_membership,
    make_room,
    open_opposite_edges,
    search_boxes,
)
from unskew.records import Floats, Ints

LEVEL = 0.05
# Units of log-likelihood below which data do not tell one fit from another: half the 95% quantile
# of χ² with one degree of freedom.
TOLD_APART = 1.92


@dataclass(frozen=True, eq=False)
class SoftBoxFit:
    """Boxes and decay width of ω_k(z) = max(0, 1 − Σ_d dist_d(z, box_k)/γ).

    lower, upper : (K, D) edges; infinite where the data cannot tell an edge from none.
    width : γ, in units of the features (they share one); inf if ω is constant.
    log_likelihood : Σ_i log q_{i,s_i} at the fit.
    log_likelihood_constant : the same for ω ≡ 1.
    p_value : of the permutation test against constant ω; None if it was not made.
    n_permutations : how many were made; 0 with a p-value: a bound on all of them was enough.
    is_constant : the data cannot tell the mechanism from none, and ω ≡ 1 is returned.
    rejected : the boxes that were found but are not worth their parameters, where ω ≡ 1 is returned
        although the test rejects it.
    """

    lower: Floats
    upper: Floats
    width: float
    log_likelihood: float
    log_likelihood_constant: float
    p_value: float | None
    n_permutations: int
    is_constant: bool
    rejected: Boxes | None = None


def fit_soft_boxes(
    feature_nd: Floats,
    source_n: Ints,
    n_sources: int,
    *,
    log_offset_nk: Floats | None = None,
    cell_n: npt.NDArray[np.generic] | None = None,
    reference: int | None = None,
    group_n: npt.NDArray[np.generic] | None = None,
    start: SoftBoxFit | None = None,
    test: bool = True,
    seed: int | np.random.Generator = 0,
) -> SoftBoxFit:
    """Find the edges and the width that make the source labels most likely.

    Maximises over (u, edges, log γ)

        Σ_i log q_{i,s_i} + ¼√n (Σ_k log Ω_k − (1/n) Σ_i 1/ω_{i,s_i}),   q_ik ∝ e^{u_k} a_ik ω_ik,
        Ω_k the pool's mean of ω_k.

    The second term is of order √n, the first of order n. It decides only where the likelihood does
    not: q knows ratios of ω, and in a wide mechanism (log ω nearly linear) many boxes have the same
    ratios; of those the least selective is taken. Nor does q know how small ω is on an image that
    no other source selects: on the rim of its own source's support it would get nearly all the
    weight. A finite edge must earn ½ log n units of log-likelihood with the others held (Schwarz),
    otherwise it comes out infinite.

    The constant is returned when (1) the permutation test does not reject it at 5%, or (2) it is
    rejected, but the gain in log-likelihood is below ½ log n for each edge and for γ (Schwarz):
    there is a mechanism then, but its boxes would add more noise than they remove bias.

    Parameters
    ----------
    feature_nd : (n, D) finite numbers. One width is common to all features: scale them so that this
        makes sense.
    source_n : (n,) codes 0 … ``n_sources`` − 1.
    log_offset_nk : (n, K) log a_ik of the other factors of ω, fixed here; −inf is legal except for
        an image's own source.
    cell_n : (n,) strata with a free u in each; a source without images in a cell drops out there.
    reference : the source whose ω is 1.
    group_n : (n,) images of one group are dependent: the test moves them together, and n counts
        groups (¼√n, ½ log n, and a group's images together have the log-likelihood of one).
    start : a fit to climb from, without search or choice of edges (bootstrap replicates). If it is
        constant, so is the result.
    test : make the permutation test (never with ``start``).
    seed : of the permutations and of the subsample on which the starts are tried.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(0).uniform(size=(20_000, 1))
    >>> omega = np.clip(1 - np.maximum(0, z - 0.4) / 0.2, 0, 1)[:, 0]
    >>> taken = np.random.default_rng(1).uniform(size=10_000) < omega[:10_000]
    >>> pool = np.concatenate([z[:10_000][taken], z[10_000:]])
    >>> fit = fit_soft_boxes(pool, np.repeat([0, 1], [taken.sum(), 10_000]), 2, reference=1)
    >>> float(fit.lower[0, 0]), round(float(fit.upper[0, 0]), 1), round(fit.width, 1)
    (-inf, 0.4, 0.2)
    """
    feature_nd = np.asarray(feature_nd, dtype=np.float64)
    source_n = np.asarray(source_n, dtype=np.int64)
    offset_nk = None if log_offset_nk is None else np.asarray(log_offset_nk, dtype=np.float64)
    problem = pose_problem(feature_nd, source_n, n_sources, offset_nk, cell_n, reference, group_n)
    constant_nk, constant = constant_membership(problem)
    rng = np.random.default_rng(seed)
    if start is not None:
        if start.is_constant:
            return _constant_fit(problem, constant, None, 0)
        earlier = Boxes(start.lower, start.upper, start.width, problem.no_boxes().u)
        return _made(ascend(problem, make_room(problem, earlier)), constant)
    if np.count_nonzero(~problem.is_fixed) == 0 or np.count_nonzero(problem.count.sum(axis=0)) < 2:
        return _constant_fit(problem, constant, None, 0)
    p_value, n_permutations = None, 0
    if test:
        p_value, n_permutations = permutation_p_value(
            problem, constant_nk, _sorted_groups(group_n, cell_n), rng
        )
        if p_value > LEVEL:
            return _constant_fit(problem, constant, p_value, n_permutations)
    ascent = search_boxes(problem, constant_nk, rng)
    if ascent is None:
        return _constant_fit(problem, constant, p_value, n_permutations)
    boxes, log_likelihood = ascent.boxes, ascent.at.log_likelihood
    if log_likelihood - constant <= problem.schwarz * (boxes.n_edges + 1):
        return replace(_constant_fit(problem, constant, p_value, n_permutations), rejected=boxes)
    return _made(ascent, constant, p_value, n_permutations)


def widen_soft_boxes(
    feature_nd: Floats,
    source_n: Ints,
    n_sources: int,
    fit: SoftBoxFit,
    *,
    log_offset_nk: Floats | None = None,
    cell_n: npt.NDArray[np.generic] | None = None,
    reference: int | None = None,
    group_n: npt.NDArray[np.generic] | None = None,
) -> SoftBoxFit | None:
    """Add the opposite edges to a fit: what it would be, had it not chosen among edges.

    See `open_opposite_edges`.

    Of a constant fit whose boxes were rejected, the fit with those. None where there is no edge to
    add, nothing but a constant, or where the climb from those edges ends at a likelihood so much
    smaller that the data do tell.
    """
    problem = pose_problem(
        feature_nd, source_n, n_sources, log_offset_nk, cell_n, reference, group_n
    )
    start = (
        Boxes(fit.lower, fit.upper, fit.width, problem.no_boxes().u)
        if fit.rejected is None
        else fit.rejected
    )
    if fit.is_constant and fit.rejected is None:
        return None
    opened = open_opposite_edges(problem, start)
    if opened.n_edges == start.n_edges and fit.rejected is None:
        return None
    widened = ascend(problem, opened)
    if widened.at.log_likelihood < fit.log_likelihood - TOLD_APART / problem.unit_share:
        return None
    return _made(widened, fit.log_likelihood_constant)


def _made(
    ascent: Ascent, constant: float, p_value: float | None = None, n_permutations: int = 0
) -> SoftBoxFit:
    lower_kd, upper_kd, width, _ = ascent.boxes
    log_likelihood = ascent.at.log_likelihood
    return SoftBoxFit(
        lower_kd, upper_kd, width, log_likelihood, constant, p_value, n_permutations, False
    )


def log_soft_boxes(feature_nd: Floats, lower_kd: Floats, upper_kd: Floats, width: float) -> Floats:
    """(n, K) log ω_k(z_i) = log max(0, 1 − Σ_d dist_d(z_i, box_k)/γ).

    It is 0 in the box, and −inf at ℓ1 distance γ and beyond.

    >>> import numpy as np
    >>> x = np.array([[0.5], [1.5], [2.0]])
    >>> log_soft_boxes(x, np.array([[-np.inf]]), np.array([[1.0]]), 1.0)[:, 0].round(3)
    array([ 0.   , -0.693,   -inf])
    """
    feature_nd, lower_kd, upper_kd = (
        np.asarray(array, dtype=np.float64) for array in (feature_nd, lower_kd, upper_kd)
    )
    omega_nk = omega_of_boxes(feature_nd, lower_kd, upper_kd, float(width))
    with np.errstate(divide="ignore"):
        return np.log(omega_nk, out=omega_nk)


def soft_box_jacobian(
    feature_nd: Floats, lower_kd: Floats, upper_kd: Floats, width: float
) -> Floats:
    """(n, K, P) ∂ log ω_ik/∂θ.

    θ = finite lower edges, then finite upper edges (source by source), then log γ.

    With t = γ − distance: −1/t for a lower edge that the image is below, 1/t for an upper edge
    that it is above, distance/t for log γ; 0 where ω = 0, and for the other edges. Constant ω (no
    finite edge, infinite γ) has P = 1 and a zero derivative.
    """
    feature_nd = np.asarray(feature_nd, dtype=np.float64)
    slot_kd2, n_free = edge_slots(lower_kd, upper_kd)
    jacobian_nkp = np.zeros((feature_nd.shape[0], lower_kd.shape[0], n_free))
    for k in range(lower_kd.shape[0]):
        below_nd = np.maximum(lower_kd[k] - feature_nd, 0.0)
        above_nd = np.maximum(feature_nd - upper_kd[k], 0.0)
        distance_n = (below_nd + above_nd).sum(axis=1)
        inside_n = distance_n < width
        slope_n = np.where(inside_n, 1.0 / np.where(inside_n, width - distance_n, 1.0), 0.0)
        for side, beyond_nd in enumerate(
            (-(below_nd > 0).astype(np.float64), (above_nd > 0).astype(np.float64))
        ):
            for d in np.flatnonzero(slot_kd2[k, :, side] >= 0):
                jacobian_nkp[:, k, slot_kd2[k, d, side]] = beyond_nd[:, d] * slope_n
        jacobian_nkp[:, k, -1] = distance_n * slope_n
    return jacobian_nkp


def _sorted_groups(
    group_n: npt.NDArray[np.generic] | None, cell_n: npt.NDArray[np.generic] | None
) -> Ints | None:
    """Sort the codes of the groups as the problem's rows are (by cell)."""
    if group_n is None or np.array_equal(group_n, np.arange(len(group_n))):
        return None
    code_n: Ints = np.unique(group_n, return_inverse=True)[1].astype(np.int64)
    if cell_n is None:
        return code_n
    sorted_n: Ints = code_n[np.argsort(np.unique(cell_n, return_inverse=True)[1], kind="stable")]
    return sorted_n


def _constant_fit(
    problem: LabelProblem, constant: float, p_value: float | None, n_permutations: int
) -> SoftBoxFit:
    nothing = problem.no_boxes()
    return SoftBoxFit(
        nothing.lower, nothing.upper, np.inf, constant, constant, p_value, n_permutations, True
    )
