"""How far sources spread beyond their sampling errors, and what a source like none of these may
measure.

The model is that of a random-effects meta-analysis. Source k measures θ_k = θ + δ_k, δ_k ~
N(0, τ²), and its estimate is y = θ_k + ε, ε ~ N(0, S). Everything about τ comes from contrasts
between the sources: with C the K − 1 orthonormal contrasts, C S Cᵀ = U diag(l) Uᵀ and z = UᵀC y,

    z_j ~ N(0, l_j + τ²), independent,   Q(τ²) = Σ_j z_j²/(l_j + τ²) ~ χ² with K − 1 degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from unskew.records import Floats

# Nodes of the quadrature over τ; four times as many change no end of an interval by 1e-4 of it.
_NODES = 400
# As far as the posterior of τ is computed, in scales of the prior: with three sources beyond it is
# 1e-6 of its mass, or the sources differ by more than 50 scales.
_FARTHEST = 300.0


@dataclass(frozen=True, eq=False)
class SourceSpread:
    """The estimates of K ≥ 2 sources and their joint sampling error.

    y : (K,) the estimates.
    covariance : (K, K) S.
    freedom : (K,) degrees of freedom behind the variance of each estimate.
    """

    y: Floats
    covariance: Floats
    freedom: Floats

    @cached_property
    def contrasts(self) -> tuple[Floats, Floats]:
        """(K − 1,) z_j and l_j."""
        helmert = np.asarray(scipy.linalg.helmert(self.y.size))
        inner = helmert @ self.covariance @ helmert.T
        value_j, vector_jj = np.linalg.eigh((inner + inner.T) / 2)
        z_j = vector_jj.T @ (helmert @ self.y)
        return z_j, np.maximum(value_j, self._least_variance)

    @cached_property
    def _least_variance(self) -> float:
        """What rounding leaves of a variance of 0."""
        size = float(np.diagonal(self.covariance).max()) + float(np.square(np.ptp(self.y)))
        return max(1e-14 * size, 1e-300)

    def q(self, tau: float) -> float:
        """Compute Q(τ²) = Σ_j z_j²/(l_j + τ²)."""
        z_j, l_j = self.contrasts
        return float(np.sum(z_j**2 / (l_j + tau**2)))

    def p_value(self, margin: float = 0.0) -> float:
        """Return P(Q(0) ≥ the one seen) if the sources at hand differ by ``margin`` or less.

        That is, if Σ_j (E z_j)² = (K − 1) margin². Then Q(0) is a noncentral χ² with noncentrality
        margin² Σ_j 1/l_j, whatever the direction of the differences on average. S is estimated, so
        that it is compared as in Welch's analysis of variance (1951): with w_k = 1/S_kk, W their
        sum, ν_k degrees of freedom and Λ = Σ_k (1 − w_k/W)²/ν_k,

            Q/(K − 1)/(1 + 2 (K − 2)/(K² − 1) Λ) ~ F with K − 1 and (K² − 1)/(3 Λ) degrees.
        """
        n = self.y.size
        variance_k = np.maximum(np.diagonal(self.covariance), self._least_variance)
        weight_k = 1.0 / variance_k
        lack = float(np.sum((1.0 - weight_k / weight_k.sum()) ** 2 / self.freedom))
        ratio = self.q(0.0) / (n - 1) / (1.0 + 2.0 * (n - 2) / (n**2 - 1) * lack)
        below = (n**2 - 1) / (3.0 * lack) if lack > 0 else math.inf
        apart = margin**2 * float(np.sum(1.0 / self.contrasts[1]))
        if below > 1e6:
            return noncentral_p(ratio * (n - 1), n - 1, apart)
        if apart == 0.0:
            return float(scipy.special.fdtrc(n - 1, below, ratio))
        if apart > 1e4:
            # Far beyond what the noncentral F can be computed for.
            return noncentral_p(ratio * (n - 1), n - 1, apart)
        return float(np.clip(1.0 - scipy.special.ncfdtr(n - 1, below, apart, ratio), 0.0, 1.0))

    @cached_property
    def tau(self) -> float:
        """τ̂ of Paule and Mandel (1982): Q(τ̂²) = K − 1, or 0 where Q(0) is smaller."""
        expected = self.y.size - 1
        if self.q(0.0) <= expected:
            return 0.0
        z_j, _ = self.contrasts
        high = math.sqrt(float(z_j @ z_j) / expected)
        return float(scipy.optimize.brentq(lambda tau: self.q(tau) - expected, 0.0, high))

    def mean(self, tau: float = 0.0) -> tuple[float, float]:
        """Return (θ̂, its standard error) of generalised least squares, given τ."""
        centre_t, variance_t = self._means(np.array([tau]))
        return float(centre_t[0]), math.sqrt(float(variance_t[0]))

    def _means(self, tau_t: Floats) -> tuple[Floats, Floats]:
        """Compute (T,) θ̂ and its variance for every τ."""
        value_j, vector_kj = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        least_j = np.maximum(value_j, self._least_variance)
        inverse_tj = 1.0 / (least_j + np.square(tau_t)[:, None])
        one_j, y_j = vector_kj.sum(axis=0), vector_kj.T @ self.y
        total_t = inverse_tj @ one_j**2
        return (inverse_tj @ (one_j * y_j)) / total_t, 1.0 / total_t

    def predict(self, prior_scale: float, level: float) -> tuple[float, float]:
        """Compute the interval that holds θ + δ of another source with probability ``level``.

        τ has a half-Cauchy prior of scale ``prior_scale`` (Gelman 2006), whose tails yield to the
        data where sources differ more than it expects, θ a flat one. The posterior density of τ, ∝
        (1 + τ²/scale²)^{−1} Π_j (l_j + τ²)^{−1/2} exp(−z_j²/(2 (l_j + τ²))), weighs the normal
        distributions of θ + δ given τ, by quadrature (as bayesmeta does; Röver 2020).
        """
        z_j, l_j = self.contrasts
        # Dense where τ is of the size of the sampling errors, reaching as far as the prior.
        smallest = min(math.sqrt(float(np.median(l_j))), prior_scale)
        grid = np.linspace(0.0, math.asinh(_FARTHEST * prior_scale / smallest), _NODES)
        tau_t = smallest * np.sinh(grid)
        spread_tj = l_j + np.square(tau_t)[:, None]
        log_t = (
            -np.log1p(np.square(tau_t / prior_scale))
            - 0.5 * np.sum(np.log(spread_tj) + z_j**2 / spread_tj, axis=1)
            + np.log(np.cosh(grid))
        )
        mass_t = np.exp(log_t - log_t.max())
        mass_t[[0, -1]] /= 2.0
        mass_t /= mass_t.sum()
        centre_t, variance_t = self._means(tau_t)
        sd_t = np.sqrt(variance_t + np.square(tau_t))

        def below(at: float) -> float:
            return float(mass_t @ scipy.special.ndtr((at - centre_t) / sd_t))

        used = mass_t > 1e-14
        reach = 9.0 * float(sd_t[used].max())
        low, high = float(centre_t[used].min()) - reach, float(centre_t[used].max()) + reach
        ends = [
            float(scipy.optimize.brentq(lambda at, share=share: below(at) - share, low, high))
            for share in (0.5 - level / 2, 0.5 + level / 2)
        ]
        return ends[0], ends[1]

    def without(self, k: int) -> SourceSpread:
        """Return the same without source ``k``."""
        rest = np.delete(np.arange(self.y.size), k)
        return SourceSpread(self.y[rest], self.covariance[np.ix_(rest, rest)], self.freedom[rest])


def noncentral_p(q: float, freedom: int, apart: float) -> float:
    """Compute P(χ² ≥ q) with noncentrality ``apart``; normal where that is large (Sankaran)."""
    if apart == 0.0:
        return float(scipy.special.chdtrc(freedom, q))
    if apart < 1e4:
        return float(np.clip(1.0 - scipy.special.chndtr(q, freedom, apart), 0.0, 1.0))
    # √Q is nearly normal with variance 1 around √(noncentrality + degrees − 1/2).
    return float(scipy.special.ndtr(math.sqrt(apart + freedom - 0.5) - math.sqrt(q)))
