"""Odds ratios that all sources share: the log-linear model without source × interaction.

A source that selects by A and B separately, ω_k = a_k(A) b_k(B), has its own distribution of A and
of B, and the target's odds ratios. The pool has not (Simpson's paradox). So the counts n_kc of
source k and cell c are fitted by

    μ_kc = exp(θ_c + z_c·β_k),   z_c the indicators of the cell's levels,

the maximum of the likelihood (Σ_k μ_kc = n_+c, and every source keeps its own margins), corrected
for the bias that the main effects of many small sources cause. θ, up to functions of single
attributes, are the common interactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unskew.records import Bools, Floats, Ints
from unskew.records.solution import count_of
from unskew.target.mass_covariance import inverse_margins
from unskew.target.raking import sweep_margins

_SWEEPS = 20
_MAX_STEPS = 30
# Largest change of log μ in the last step of Newton's method. Where the maximum is at infinity
# every step changes some log μ by about 1.
_STEP_TOLERANCE = 1e-8
# Relative to the largest, eigenvalues below this belong to interactions that no source shows.
_NULL = 1e-9
# Images that are spread over the cells of every source where the likelihood has no maximum.
_PSEUDO_COUNT = 1.0
_DRAWS = 200
# Sources that would move more than this share of the target between strata disagree.
LARGE_SHIFT = 0.05


@dataclass(frozen=True, eq=False)
class CommonInteractions:
    """The table of the common interactions, and how it depends on the counts.

    count_kc : (K, C) n, images (or groups) by source and cell; every cell has some.
    indicator_cj : (C, J) Z, the levels of every cell.
    fitted_kc : (K, C) μ; 0 where a source lacks a level of the cell.
    table_c : (C,) w: the common interactions with the pool's margins. For one source it is n.
    n_lacking : number of interactions that no source shows, since none has the levels side by
        side. They are the pool's: w has the largest likelihood of the pooled counts that the
        common interactions allow.
    is_smoothed : whether one image was spread over the cells of every source, because some odds
        ratio would have been 0 or infinite.
    """

    count_kc: Floats = field(repr=False)
    indicator_cj: Floats = field(repr=False)
    fitted_kc: Floats = field(repr=False)
    table_c: Floats = field(repr=False)
    n_lacking: int
    is_smoothed: bool

    @cached_property
    def _spectrum(self) -> _Spectrum:
        return _spectrum(self.fitted_kc, self.indicator_cj)

    def n_effects(self, n_sources: int) -> Ints:
        """(K,) 1 + Σ_a (levels of attribute a that the source has − 1); 1 for one source."""
        if self.fitted_kc.shape[0] < n_sources or n_sources == 1:
            return np.ones(n_sources, dtype=np.int64)
        seen_kj = (self.fitted_kc @ self.indicator_cj) > 0
        n_attributes = int(self.indicator_cj[0].sum())
        return np.asarray(np.maximum(seen_kj.sum(axis=1) - n_attributes + 1, 1), dtype=np.int64)

    def log_jacobian(self, k: int) -> Floats:
        """(C, C) ∂ log w_c/∂ n_kd, up to functions of single attributes.

        With A_k = diag(μ_k) Z (Zᵀ diag(μ_k) Z)⁺ Zᵀ and S = Σ_k (I − A_k) diag(μ_k), the
        information of θ, dθ = S⁺ Σ_k (I − A_k) dn_k. In the null space N of S, w follows the
        pool: Nᵀ dw = Nᵀ dn_+.
        """
        spectrum = self._spectrum
        null_cj, inverse_cc = spectrum.null_cj, spectrum.inverse_cc
        weighted_cj = self.table_c[:, None] * null_cj
        to_null_cc = null_cj @ np.linalg.solve(null_cj.T @ weighted_cj, null_cj.T)
        residual_cc = np.eye(self.table_c.size) - _projection(self.fitted_kc[k], self.indicator_cj)
        within_cc = inverse_cc @ residual_cc
        return np.asarray(within_cc - to_null_cc @ (self.table_c[:, None] * within_cc) + to_null_cc)


def fit_common_interactions(
    count_kc: Floats, codes: Sequence[Ints], effect_k: Floats | None = None
) -> CommonInteractions:
    """Fit the log-linear model whose interactions are common to all sources.

    count_kc : (K, C) counts by source and cell; every cell has some.
    codes : for each attribute, (C,) the level of every cell.
    effect_k : (K,) design effect of each source, by which groups that are alike count less; default
        1.
    """
    effect_k = np.ones(len(count_kc)) if effect_k is None else effect_k
    indicator_cj = np.hstack([np.eye(int(code_c.max()) + 1)[code_c] for code_c in codes])
    fitted_kc = _fit(count_kc, indicator_cj, codes, effect_k)
    is_smoothed = fitted_kc is None
    if fitted_kc is None:
        count_kc = count_kc + effect_k[:, None] * _pseudo_counts(count_kc, codes)
        fitted_kc = _fit(count_kc, indicator_cj, codes, effect_k)
    if fitted_kc is None:
        # Beyond double precision: nothing is taken from within sources.
        fitted_kc = count_kc.sum(axis=0)[None, :]
        count_kc = fitted_kc
    spectrum = _spectrum(fitted_kc, indicator_cj)
    total_c = count_kc.sum(axis=0)
    table_c = _pooled_in_null(spectrum, fitted_kc, indicator_cj, total_c)
    n_lacking = spectrum.null_cj.shape[1] - int(np.linalg.matrix_rank(indicator_cj))
    return CommonInteractions(count_kc, indicator_cj, fitted_kc, table_c, n_lacking, is_smoothed)


def _margins(count_kc: Floats, code_c: Ints) -> Floats:
    """(K, L) counts of each source by level."""
    return np.asarray(count_kc @ np.eye(int(code_c.max()) + 1)[code_c])


def _seen(count_kc: Floats, codes: Sequence[Ints]) -> Bools:
    """(K, C) whether the source has images with each level of the cell."""
    seen_kc = np.ones(count_kc.shape, dtype=np.bool_)
    for code_c in codes:
        seen_kc &= (_margins(count_kc, code_c) > 0)[:, code_c]
    return seen_kc


def _pseudo_counts(count_kc: Floats, codes: Sequence[Ints]) -> Floats:
    """One image for every source, spread as if its attributes were independent."""
    spread_kc = _seen(count_kc, codes).astype(np.float64)
    for code_c in codes:
        spread_kc *= _margins(count_kc, code_c)[:, code_c]
    total_k = spread_kc.sum(axis=1, keepdims=True)
    return np.asarray(_PSEUDO_COUNT * spread_kc / np.where(total_k > 0, total_k, 1.0))


def _fit(
    count_kc: Floats, indicator_cj: Floats, codes: Sequence[Ints], effect_k: Floats
) -> Floats | None:
    """(K, C) μ at the maximum of the likelihood, corrected for bias; None where it is at infinity.

    Main effects of many small sources bias the interactions, as the fixed effects of a logistic
    regression do. Firth (1993) removes that to first order: half the leverage of a cell is added to
    its count, times the design effect. Here it is the leverage beyond the cell's own θ, μ_kc/Σ_k
    μ_kc; so one source has its own table.
    """
    if count_kc.shape[0] == 1:
        return count_kc if (count_kc > 0).all() else None
    fitted_kc = _sweep(count_kc, codes)
    for _ in range(_MAX_STEPS):
        margins = _Margins(fitted_kc, indicator_cj)
        added_kc = 0.5 * effect_k[:, None] * _excess_leverage(fitted_kc, margins)
        step_kc = _newton_step(count_kc + added_kc - fitted_kc, fitted_kc, margins)
        largest = float(np.abs(step_kc).max())
        # Far from the maximum of a concave function a short step never goes wrong.
        fitted_kc = fitted_kc * np.exp(step_kc * min(1.0, 2.0 / max(largest, 1e-300)))
        if largest < _STEP_TOLERANCE:
            return fitted_kc
        if not np.isfinite(fitted_kc).all():
            return None
    return None


def _excess_leverage(fitted_kc: Floats, margins: _Margins) -> Floats:
    """(K, C) μ_kc Var(log μ_kc) − μ_kc/Σ_k μ_kc; not negative, and 0 for one source.

    With G_k = (Zᵀ diag(μ_k) Z)⁺ Zᵀ diag(μ_k), log μ_k varies by (I − Z G_k) S⁺ (I − Z G_k)ᵀ and by
    Z (Zᵀ diag(μ_k) Z)⁺ Zᵀ.
    """
    indicator_cj = margins.indicator_cj
    inverse_cc = np.linalg.inv(margins.fixed_information)
    gain_kjc = margins.inverse_kjj @ margins.weighted_kcj.transpose(0, 2, 1)
    half_kjc = gain_kjc @ inverse_cc
    own_kjj = half_kjc @ gain_kjc.transpose(0, 2, 1) + margins.inverse_kjj
    variance_kc = (
        np.diagonal(inverse_cc)
        - 2 * (indicator_cj * half_kjc.transpose(0, 2, 1)).sum(axis=2)
        + ((indicator_cj @ own_kjj) * indicator_cj).sum(axis=2)
    )
    excess_kc = fitted_kc * variance_kc - fitted_kc / fitted_kc.sum(axis=0)
    return np.asarray(np.maximum(excess_kc, 0.0))


def _sweep(count_kc: Floats, codes: Sequence[Ints]) -> Floats:
    """Do a few sweeps of iterative proportional fitting: a good start for Newton's method."""
    fitted_kc = _seen(count_kc, codes).astype(np.float64)
    total_c = count_kc.sum(axis=0)
    for _ in range(_SWEEPS):
        for code_c in codes:
            ratio_kl = _margins(count_kc, code_c) / np.maximum(_margins(fitted_kc, code_c), 1e-300)
            fitted_kc = fitted_kc * ratio_kl[:, code_c]
        fitted_kc = fitted_kc * (total_c / np.maximum(fitted_kc.sum(axis=0), 1e-300))
    return fitted_kc


def _projection(fitted_c: Floats, indicator_cj: Floats) -> Floats:
    """(C, C) A = diag(μ) Z (Zᵀ diag(μ) Z)⁺ Zᵀ of one source."""
    weighted_cj = fitted_c[:, None] * indicator_cj
    return np.asarray(weighted_cj @ inverse_margins(fitted_c, indicator_cj) @ indicator_cj.T)


class _Margins:
    """The main effects of all sources at fitted counts μ, and the information S that they leave.

    indicator_cj : (C, J) Z.
    weighted_kcj : (K, C, J) diag(μ_k) Z.
    inverse_kjj : (K, J, J) (Zᵀ diag(μ_k) Z)⁺.
    information_cc : (C, C) S = Σ_k (I − A_k) diag(μ_k).
    fixed_information : S and, to make it regular, what fixes the functions of single attributes,
        and those that no source shows; no μ depends on them.
    """

    def __init__(self, fitted_kc: Floats, indicator_cj: Floats) -> None:
        self.indicator_cj = indicator_cj
        self.weighted_kcj = fitted_kc[:, :, None] * indicator_cj
        self.inverse_kjj = inverse_margins(fitted_kc, indicator_cj)
        explained_kcj = self.weighted_kcj @ self.inverse_kjj
        total_c = fitted_kc.sum(axis=0)
        self.information_cc = np.diag(total_c) - np.tensordot(
            explained_kcj, self.weighted_kcj, axes=((0, 2), (0, 2))
        )
        weighted_cj = total_c[:, None] * indicator_cj
        free_cc = weighted_cj @ inverse_margins(total_c, indicator_cj) @ weighted_cj.T
        self.fixed_information = self.information_cc + free_cc + np.diag(1e-9 * total_c)


def _newton_step(residual_kc: Floats, fitted_kc: Floats, margins: _Margins) -> Floats:
    """(K, C) change of log μ: θ first, then the main effects of every source given θ."""
    indicator_cj = margins.indicator_cj
    explained_kj = np.einsum("kji,ki->kj", margins.inverse_kjj, residual_kc @ indicator_cj)
    pull_c = (residual_kc - fitted_kc * (explained_kj @ indicator_cj.T)).sum(axis=0)
    theta_c = np.linalg.solve(margins.fixed_information, pull_c)
    left_kc = residual_kc - fitted_kc * theta_c
    beta_kj = np.einsum("kji,ki->kj", margins.inverse_kjj, left_kc @ indicator_cj)
    return np.where(fitted_kc > 0, theta_c + beta_kj @ indicator_cj.T, 0.0)


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """S⁺, and a basis N of the null space of S with Nᵀ diag(n_+) N = I."""

    inverse_cc: Floats
    null_cj: Floats


def _spectrum(fitted_kc: Floats, indicator_cj: Floats) -> _Spectrum:
    root_c = np.sqrt(fitted_kc.sum(axis=0))
    scaled_cc = _Margins(fitted_kc, indicator_cj).information_cc / np.outer(root_c, root_c)
    value_j, vector_cj = np.linalg.eigh((scaled_cc + scaled_cc.T) / 2)
    is_null_j = value_j <= _NULL
    kept_cj = vector_cj[:, ~is_null_j] / root_c[:, None]
    return _Spectrum(
        np.asarray((kept_cj / value_j[~is_null_j]) @ kept_cj.T),
        np.asarray(vector_cj[:, is_null_j] / root_c[:, None]),
    )


def _pooled_in_null(
    spectrum: _Spectrum, fitted_kc: Floats, indicator_cj: Floats, total_c: Floats
) -> Floats:
    """(C,) w = exp(θ + N ν) with Nᵀ w = Nᵀ n_+: what θ leaves open is that of the pool."""
    null_cj = spectrum.null_cj
    log_c = _log_interactions(fitted_kc, indicator_cj)
    log_c = log_c + null_cj @ (null_cj.T @ (total_c * (np.log(total_c) - log_c)))
    for _ in range(100):
        weighted_cj = np.exp(log_c)[:, None] * null_cj
        step_c = null_cj @ np.linalg.solve(
            null_cj.T @ weighted_cj, null_cj.T @ (total_c - np.exp(log_c))
        )
        largest = float(np.abs(step_c).max())
        log_c = log_c + step_c * min(1.0, 1.0 / max(largest, 1e-300))
        if largest < 1e-10:
            break
    return np.exp(log_c)


def _log_interactions(fitted_kc: Floats, indicator_cj: Floats) -> Floats:
    """(C,) one θ with log μ_kc = θ_c + z_c·β_k: least squares, weighted by μ."""
    seen_kc = fitted_kc > 0
    log_kc = np.log(np.where(seen_kc, fitted_kc, 1.0))
    pull_c = np.zeros(fitted_kc.shape[1])
    for fitted_c, log_c in zip(fitted_kc, log_kc, strict=True):
        pull_c += fitted_c * log_c - _projection(fitted_c, indicator_cj) @ (fitted_c * log_c)
    return _spectrum(fitted_kc, indicator_cj).inverse_cc @ pull_c


@dataclass(frozen=True)
class Disagreement:
    """How far the interactions of one source alone are from the common ones.

    source : index of the source that is farthest.
    shift : share of the target that its own interactions would move between cells (total
        variation), sampling noise taken off; 0 where noise explains all of it.
    """

    source: int
    shift: float

    @property
    def is_large(self) -> bool:
        """Whether the shift would matter, however well it is measured."""
        return self.shift > LARGE_SHIFT


def source_disagreement(
    common: CommonInteractions, mass_c: Floats, codes: Sequence[Ints], effect_k: Floats
) -> Disagreement | None:
    """Compare the interactions of each source with the common ones; None for one source.

    Source k alone would give the raked masses p_c r_kc, r = (n + ½)/(μ + ½), raked to the margins
    of p; d_k is half the sum of the absolute differences. Its noise is that of counts drawn from
    μ_k, times √``effect_k``, the design effect of groups. A source counts where d_k exceeds all but
    a share 0.05/K of the draws, and then with √(d_k² − mean square of the draws).
    """
    count_kc, fitted_kc = common.count_kc, common.fitted_kc
    if count_kc.shape[0] < 2 or fitted_kc.shape != count_kc.shape:
        return None
    shift_k = np.zeros(count_kc.shape[0])
    rng = np.random.default_rng(0)
    for k, (seen_c, noise_b) in enumerate(_noise(common, mass_c, effect_k, rng)):
        if noise_b.size == 0:
            continue
        own_c = np.where(seen_c, (count_kc[k] + 0.5) / (fitted_kc[k] + 0.5), 1.0) * mass_c
        distance = _raked_distance(own_c, mass_c, codes)
        if distance > float(np.quantile(noise_b, 1 - 0.05 / count_kc.shape[0])):
            shift_k[k] = np.sqrt(max(distance**2 - float(np.mean(noise_b**2)), 0.0))
    farthest = int(np.argmax(shift_k))
    return Disagreement(farthest, float(shift_k[farthest]))


def _noise(
    common: CommonInteractions, mass_c: Floats, effect_k: Floats, rng: np.random.Generator
) -> Iterator[tuple[Bools, Floats]]:
    """((C,) the cells that a source sees, distances of counts drawn from the fit) by source."""
    indicator_cj = common.indicator_cj
    inverse_jj = inverse_margins(mass_c, indicator_cj)
    for fitted_c, effect in zip(common.fitted_kc, effect_k, strict=True):
        seen_c, size = fitted_c > 0, float(fitted_c.sum())
        if not seen_c.any() or size < 1:
            yield seen_c, np.empty(0)
            continue
        drawn_bc = rng.multinomial(round(size), fitted_c / size, size=_DRAWS)
        log_cb = np.where(seen_c, np.log((drawn_bc + 0.5) / (fitted_c + 0.5)), 0.0).T
        moved_cb = mass_c[:, None] * log_cb
        moved_cb -= mass_c[:, None] * (indicator_cj @ (inverse_jj @ (indicator_cj.T @ moved_cb)))
        yield seen_c, np.asarray(0.5 * np.sqrt(effect) * np.abs(moved_cb).sum(axis=0))


def _raked_distance(own_c: Floats, mass_c: Floats, codes: Sequence[Ints]) -> float:
    kept_c = mass_c > 0
    kept_codes = [code_c[kept_c] for code_c in codes]
    margins = [_margins(mass_c[None, :], code_c)[0] for code_c in codes]
    raked_c = sweep_margins(own_c[kept_c] / own_c[kept_c].sum(), kept_codes, margins)
    return 0.5 * float(np.abs(raked_c - mass_c[kept_c]).sum())


def agreement_sentences(
    common: CommonInteractions | None, disagreement: Disagreement | None, names: Sequence[str]
) -> list[str]:
    """Say how far the sources agree on the interactions that are taken from within them."""
    if common is None:
        return []
    sentences = []
    if common.n_lacking:
        sentences.append(
            f"{count_of(common.n_lacking, 'interaction')} cannot be seen within any source, "
            "because none has the levels side by side; there the pool's are assumed."
        )
    if common.is_smoothed:
        sentences.append(
            "Within sources some odds ratio is 0 or infinite, so one image was spread over the "
            "cells of every source as if its attributes were independent."
        )
    if disagreement is not None:
        sentences.append(
            "The sources agree on these interactions as far as sampling noise lets one see."
            if disagreement.shift == 0
            else f"The sources {'disagree' if disagreement.is_large else 'nearly agree'} on these "
            f"interactions: those of {names[disagreement.source]} alone would move "
            f"{disagreement.shift:.2g} of the target between strata, sampling noise taken off."
        )
    return sentences
