"""What each source alone says of a target mean, after adjustment, with the joint error of all.

Source k can speak of the part g_k(z) of the target, 0 ≤ g_k ≤ 1: 1 where its membership q_k(z) is
not far below its share of the target's weight, c_k = κ Σ_i π_i q_ik, and q_k/c_k elsewhere, so that
no image of it weighs more than π_i/c_k. There its own weighted mean is compared with the mean of
all sources under the same g_k,

    e_k = Σ_{i in k} W_i h_i − Σ_i R_ik h_i,   W_i ∝ π_i g_ik/q_ik,   R_ik ∝ π_i g_ik,

both of which have the same expectation if h given z does not depend on the source. If sources
differ by δ_k, the second is Σ_l V_kl δ_l with V = RᵀQ, so e = (I − V) δ, solved by the group
inverse:

    y = μ̂ + [(I − 1vᵀ)(I − V)^# + 1aᵀ] e,   v_k = Σ_i π_i q_ik,   aᵀV = aᵀ.

Facts: where every source sees the whole target, y_k is the weighted mean of source k alone, and no
additivity is assumed. Where A shares images with B and B with C, A and C are compared through B.
Differences by source add up to μ̂: Σ_k v_k y_k = μ̂ if they are the same for all z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse
import scipy.sparse.csgraph

from unskew.records import Codes, Floats, Ints
from unskew.records.design_weights import add_design
from unskew.weigh.effective_size import add_by_code

# κ: an image of a source weighs at most 1/κ as much as if its source were a random part of all.
_LEAST_MEMBERSHIP = 0.1
# Sources that have less of the target in common are not compared.
_LEAST_SHARED = 0.01
# Where a source has fewer degrees of freedom, the spread of all sources lends it so many.
FEW_FREEDOM = 9
LENT_FREEDOM = 4.0


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Weighted images (all with positive weight), their sources, values and sampling units.

    ``design``: their design weights, which the weights contain; None without any.
    """

    n_sources: int
    source: Codes
    weight: Floats
    value: Floats
    unit: Ints | None
    design: Floats | None = None


@dataclass(frozen=True)
class WithinCells:
    """How far sources are apart within the cells that they share, whatever they say on average.

    q : Σ_c Σ_k w_ck (m_ck − m̄_c)², w_ck = 1/variance_ck, m̄_c the mean with these weights.
    freedom : Σ_c (K_c − 1), its expectation if sources agree in every cell.
    precision : Σ_c s_c² (Σ_k w_ck − Σ_k w_ck²/Σ_k w_ck): a spread τ in every cell, on the scale on
        which a unit is s_c, adds τ² times this to the expectation of q. s_c is m_c (1 − m_c) for
        shares (the logit scale), 1 otherwise.
    """

    q: float
    freedom: int
    precision: float

    @property
    def sd(self) -> float:
        """The spread beyond sampling error, √((q − freedom)/precision), 0 at least."""
        return float(np.sqrt(max(self.q - self.freedom, 0.0) / self.precision))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The estimates of the sources that can be compared.

    compared : (J,) their codes.
    y, covariance, freedom : (J,), (J, J), (J,) estimates, their covariance, and the degrees of
        freedom of their variances.
    null_covariance : (J, J) their covariance if sources agree, of values 0 and 1: those of a source
        with few ones would show too small a variance just where it has too few. None otherwise.
    within : how far they are apart within cells; None where there are no cells, or only one.
    effective : (J,) effective number of images behind each.
    mean, mean_variance : μ̂, and its variance as far as it comes from the values of these images.
    share, shared : (K,) share of the target that each source sees, and sees with another one.
    all_shared : share of the target that two sources see at least.
    """

    compared: Ints
    y: Floats
    covariance: Floats
    freedom: Floats
    effective: Floats
    mean: float
    mean_variance: float
    share: Floats
    shared: Floats
    all_shared: float
    null_covariance: Floats | None = None
    within: WithinCells | None = None


@dataclass(frozen=True, eq=False)
class Ground:
    """Which part of the target each source sees.

    seen : (B, K) g of rows or cells.
    reference : (B, K) R.
    compared : (J,) the sources that can be compared.
    solve : (J, J) what makes y − μ̂ of the e of those sources.
    """

    seen: Floats
    reference: Floats
    compared: Ints
    solve: Floats
    share: Floats
    shared: Floats
    all_shared: float


def find_ground(mass_b: Floats, q_bk: Floats, usable_bk: Floats | None = None) -> Ground:
    """Find the ground that sources share, from masses of rows (or cells) and memberships there."""
    v_k = mass_b @ q_bk
    seen_bk = q_bk / np.maximum(_LEAST_MEMBERSHIP * v_k, 1e-300)
    np.minimum(seen_bk, 1.0, out=seen_bk)
    if usable_bk is not None:
        seen_bk *= usable_bk
    reference_bk = mass_b[:, None] * seen_bk
    share_k = reference_bk.sum(axis=0)
    linked = (seen_bk.T @ reference_bk) >= _LEAST_SHARED
    compared = _largest_part(linked, v_k)
    reference_bk /= np.maximum(share_k, 1e-300)
    shared_k, all_shared = _shared_ground(mass_b, seen_bk)
    return Ground(
        seen_bk,
        reference_bk,
        compared,
        _chain(reference_bk[:, compared].T @ q_bk[:, compared], v_k[compared]),
        share_k,
        shared_k,
        all_shared,
    )


def _largest_part(linked_kk: np.ndarray, v_k: Floats) -> Ints:
    """Return the sources of the linked part with the largest weight, if it has two or more."""
    _, part_k = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(linked_kk), directed=False
    )
    size_p = np.bincount(part_k)
    weight_p = np.where(size_p > 1, np.bincount(part_k, weights=v_k), -1.0)
    best = int(np.argmax(weight_p))
    members = np.flatnonzero(part_k == best) if size_p[best] > 1 else np.zeros(0)
    return np.asarray(members, dtype=np.int64)


def _shared_ground(mass_b: Floats, seen_bk: Floats) -> tuple[Floats, float]:
    """Return (K,) Σ_b p_b g_bk max_{l≠k} g_bl, and Σ_b p_b times the second largest g_b."""
    if seen_bk.shape[1] < 2:
        return np.zeros(seen_bk.shape[1]), 0.0
    first_b = seen_bk.max(axis=1)
    best_b = seen_bk.argmax(axis=1)
    rest_bk = seen_bk.copy()
    rest_bk[np.arange(best_b.size), best_b] = -1.0
    second_b = np.maximum(rest_bk.max(axis=1), 0.0)
    shared_k = (mass_b * first_b) @ seen_bk
    # For the largest of a row the other is the second.
    own_b = mass_b * first_b * (second_b - first_b)
    shared_k += add_by_code(best_b, own_b, seen_bk.shape[1])
    return shared_k, float(mass_b @ second_b)


def _chain(v_jj: Floats, v_j: Floats) -> Floats:
    """Compute (J, J) (I − 1vᵀ)(I − V)^# + 1aᵀ; the identity where all rows of V are v."""
    n = v_j.size
    if n < 2:
        return np.eye(n)
    v_jj = v_jj / v_jj.sum(axis=1, keepdims=True)
    v_j = v_j / v_j.sum()
    one = np.ones(n)
    stationary_j = np.linalg.lstsq(
        np.vstack([np.eye(n) - v_jj.T, one]), np.append(np.zeros(n), 1.0), rcond=None
    )[0]
    # The group inverse is the fundamental matrix (I − V + 1aᵀ)⁻¹ less 1aᵀ.
    group_jj = np.linalg.inv(np.eye(n) - v_jj + np.outer(one, stationary_j)) - np.outer(
        one, stationary_j
    )
    return np.asarray(group_jj - np.outer(one, v_j @ group_jj) + np.outer(one, stationary_j))


# (what images pull at log v directly (n, J), own pulls (n,), contrast of each own pull (n,)) -> (n,
# J) what the estimation of u and θ adds to their influence.
Correction = Callable[[Floats, Floats, Ints], Floats]


def contrast_memberships(
    rows: SourceRows,
    q_nk: Floats,
    correct: Correction | None,
    cell_n: Ints,
    residual_n: Floats | None = None,
) -> Contrasts:
    """Compare weighted means with memberships that differ from image to image.

    Their influence functions are W_i (h_i − m_k) 1{s_i = k} − R_ik (h_i − r_k), and what the
    estimation of q adds (``correct``); g is taken as given, as it has no effect if sources agree.
    They are centred within sources, and images divided by √(1 − W_i).

    q_nk : (n, K) memberships.
    correct : what estimated normalizers and parameters add; None: no covariance is wanted.
    cell_n : (n,) stratum of each image, whose mass is known.
    residual_n : (n,) what takes the place of h in e: h less any function of z.
    """
    n, source = rows.weight.size, rows.source
    ground = find_ground(rows.weight, q_nk)
    at = ground.compared
    if at.size < 2:
        return make_contrasts(
            rows, ground, np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0), 0.0
        )
    own_n = rows.weight * np.divide(
        ground.seen[np.arange(n), source],
        q_nk[np.arange(n), source],
        out=np.zeros(n),
        where=q_nk[np.arange(n), source] > 0,
    )
    own_n /= np.maximum(add_by_code(source, own_n, rows.n_sources), 1e-300)[source]
    value_n = rows.value if residual_n is None else residual_n
    mean_k = add_by_code(source, own_n * value_n, rows.n_sources)
    reference_nj = ground.reference[:, at]
    pooled_j = value_n @ reference_nj
    e_j = mean_k[at] - pooled_j
    code_k = np.full(rows.n_sources, -1)
    code_k[at] = np.arange(at.size)
    contrast_n = code_k[source]
    y_j = float(rows.weight @ rows.value) + ground.solve @ e_j
    effective_j, n_units_j, freedom_j = _effective(rows, own_n, at)
    if correct is None:
        no_covariance = np.zeros((at.size, at.size))
        return make_contrasts(rows, ground, y_j, no_covariance, freedom_j, effective_j, 0.0)
    own_pull_n = np.where(contrast_n >= 0, own_n * (value_n - mean_k[source]), 0.0)
    pooled_pull_nj = reference_nj * (value_n[:, None] - pooled_j)
    cell_mass = add_by_code(cell_n, rows.weight, int(cell_n.max()) + 1)
    mean_c = add_by_code(cell_n, rows.weight * rows.value, cell_mass.size) / np.maximum(
        cell_mass, 1e-300
    )
    mean_pull_n = rows.weight * (rows.value - mean_c[cell_n])
    direct_nj = -pooled_pull_nj
    inside = np.flatnonzero(contrast_n >= 0)
    direct_nj[inside, contrast_n[inside]] += own_pull_n[inside]
    pull_nj = pooled_pull_nj
    if cell_mass.size > 1:
        # The mass of each stratum is given, whatever the v of its images.
        for j in range(at.size):
            pull_nj[:, j] += (
                rows.weight
                / cell_mass[cell_n]
                * add_by_code(cell_n, direct_nj[:, j], cell_mass.size)[cell_n]
            )
    influence_nj = np.column_stack([direct_nj, mean_pull_n]) + correct(
        np.column_stack([pull_nj, -mean_pull_n]), own_pull_n, contrast_n
    )
    influence_nj[:, :-1] = influence_nj[:, :-1] @ ground.solve.T + influence_nj[:, -1:]
    covariance_jj = _spread(rows, influence_nj, own_n)
    return make_contrasts(
        rows,
        ground,
        y_j,
        _steadied(covariance_jj[:-1, :-1], freedom_j, n_units_j),
        np.where(freedom_j < FEW_FREEDOM, freedom_j + LENT_FREEDOM, freedom_j),
        effective_j,
        float(covariance_jj[-1, -1]),
    )


def _steadied(covariance_jj: Floats, freedom_j: Floats, n_units_j: Floats) -> Floats:
    """Lend sources of fewer than ten units the spread of all.

    With s²_j = S_jj n_j the variance of one (effective) unit of source j, known from ν_j degrees of
    freedom, and s² their mean weighted by n_j, it becomes (ν_j s²_j + 4 s²)/(ν_j + 4): two
    images that are alike by chance do not make a source certain.
    """
    own_j = np.diagonal(covariance_jj) * n_units_j
    lent = LENT_FREEDOM * float(np.average(own_j, weights=n_units_j))
    steady_j = (freedom_j * own_j + lent) / (freedom_j + LENT_FREEDOM)
    steady_j = np.where(freedom_j < FEW_FREEDOM, steady_j, own_j)
    # What sources have in common keeps its correlation.
    ratio_j = np.sqrt(np.divide(steady_j, own_j, out=np.ones_like(own_j), where=own_j > 0))
    steady_jj: Floats = covariance_jj * np.outer(ratio_j, ratio_j)
    np.fill_diagonal(steady_jj, steady_j / n_units_j)
    return steady_jj


def _spread(rows: SourceRows, influence_nj: Floats, own_n: Floats) -> Floats:
    """Compute (J, J) Σ_u T_u T_uᵀ/(1 − W_u), T_u the sums over units, centred within sources."""
    size_k = add_design(rows.source, rows.design, rows.n_sources)
    mean_kj = np.column_stack(
        [add_by_code(rows.source, column, rows.n_sources) for column in influence_nj.T]
    )
    centre_nj = (mean_kj / np.where(size_k > 0, size_k, 1.0)[:, None])[rows.source]
    influence_nj -= centre_nj if rows.design is None else rows.design[:, None] * centre_nj
    leverage_u = own_n
    if rows.unit is not None:
        n_units = int(rows.unit.max()) + 1
        influence_nj = np.column_stack(
            [add_by_code(rows.unit, column, n_units) for column in influence_nj.T]
        )
        leverage_u = add_by_code(rows.unit, own_n, n_units)
    # All the weight of a source in one unit: nothing shows how much it may vary.
    influence_nj /= np.sqrt(np.maximum(1.0 - leverage_u, 1e-3))[:, None]
    return np.asarray(influence_nj.T @ influence_nj)


def _effective(rows: SourceRows, own_n: Floats, at: Ints) -> tuple[Floats, Floats, Floats]:
    """Return (J,) the effective numbers of images and of units, and degrees of freedom."""
    if rows.unit is None:
        weight_e, source_e = own_n, rows.source
    else:
        key, entry_n = np.unique(rows.unit * rows.n_sources + rows.source, return_inverse=True)
        weight_e = add_by_code(entry_n, own_n, key.size)
        source_e = (key % rows.n_sources).astype(rows.source.dtype)
    squares_k = add_by_code(source_e, np.square(weight_e), rows.n_sources)
    fourth_k = add_by_code(source_e, weight_e**4, rows.n_sources)
    image_k = add_by_code(rows.source, np.square(own_n), rows.n_sources)
    freedom_k = squares_k**2 / np.maximum(fourth_k, 1e-300) - 1.0
    n_images_j, n_units_j = (1.0 / np.maximum(x_k[at], 1e-300) for x_k in (image_k, squares_k))
    return n_images_j, n_units_j, np.maximum(freedom_k[at], 1.0)


def make_contrasts(
    rows: SourceRows,
    ground: Ground,
    y_j: Floats,
    covariance_jj: Floats,
    freedom_j: Floats,
    effective_j: Floats,
    mean_variance: float,
) -> Contrasts:
    """Make the record of the sources that the ground lets compare."""
    return Contrasts(
        ground.compared,
        y_j,
        covariance_jj,
        np.maximum(freedom_j, 1.0),
        effective_j,
        float(rows.weight @ rows.value),
        mean_variance,
        ground.share,
        ground.shared,
        ground.all_shared,
    )
