"""Families of calibrations as linear models: η_c = Σ_p θ_p X_cp(x), with the sums that a fit needs.

X is never formed: a classifier may have a thousand classes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unskew.records import Bools, Floats


class Design(Protocol):
    """A linear model of the log-odds of C classes with P parameters, in x (n, C)."""

    @property
    def is_slope(self) -> Bools:
        """(P,) False for intercepts."""

    def logits(self, theta_p: Floats, x_nc: Floats) -> Floats:
        """(n, C) η."""

    def pull(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        """(n, P) Σ_c pull_c ∂η_c/∂θ."""

    def by_class(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        """(C, P) Σ_n pull_nc ∂η_nc/∂θ."""

    def curvature(self, share_n: Floats, p_nc: Floats, x_nc: Floats) -> Floats:
        """(P, P) Σ_n share_n Cov_{c ~ p_n}(∂η_c/∂θ)."""


def number_of_parameters(n_classes: int, family: str) -> int:
    """Count the slopes and the intercepts of all classes but the first."""
    slopes = {"temperature": 1, "vector": n_classes, "matrix": (n_classes - 1) ** 2}[family]
    return slopes + n_classes - 1


def make_design(n_classes: int, family: str) -> Design:
    """Return the design of "temperature", "vector" or "matrix"."""
    return _Full(n_classes) if family == "matrix" else _Diagonal(n_classes, family == "temperature")


class _Diagonal:
    """η_c = a_c x_c + b_c, b_1 = 0; the slopes are one number where they are ``tied``."""

    def __init__(self, n_classes: int, tied: bool) -> None:
        slope = np.ones((n_classes, 1)) if tied else np.eye(n_classes)
        intercept = np.eye(n_classes)[:, 1:]
        # (a, b) = basis θ
        self._basis_ap = np.block(
            [
                [slope, np.zeros((n_classes, n_classes - 1))],
                [np.zeros((n_classes, slope.shape[1])), intercept],
            ]
        )
        self._n_classes = n_classes

    @property
    def is_slope(self) -> Bools:
        return np.asarray((self._basis_ap[: self._n_classes] != 0).any(axis=0))

    def logits(self, theta_p: Floats, x_nc: Floats) -> Floats:
        slope_c, intercept_c = np.split(self._basis_ap @ theta_p, 2)
        return np.asarray(slope_c * x_nc + intercept_c)

    def pull(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        return np.asarray(np.hstack([pull_nc * x_nc, pull_nc]) @ self._basis_ap)

    def by_class(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        slope_cc, intercept_cc = np.diag((pull_nc * x_nc).sum(axis=0)), np.diag(pull_nc.sum(axis=0))
        return np.asarray(np.hstack([slope_cc, intercept_cc]) @ self._basis_ap)

    def curvature(self, share_n: Floats, p_nc: Floats, x_nc: Floats) -> Floats:
        both_na = np.hstack([p_nc * x_nc, p_nc])
        full_aa = -(both_na.T * share_n) @ both_na
        n, at = self._n_classes, np.arange(self._n_classes)
        mean_0, mean_1, mean_2 = (share_n @ (p_nc * x_nc**power) for power in (0, 1, 2))
        full_aa[at, at] += mean_2
        full_aa[at, n + at] += mean_1
        full_aa[n + at, at] += mean_1
        full_aa[n + at, n + at] += mean_0
        return np.asarray(self._basis_ap.T @ full_aa @ self._basis_ap)


class _Full:
    """η_c = Σ_d A_cd (x_d − x_1) + b_c for c > 1, η_1 = 0: multinomial logistic regression."""

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes

    @property
    def is_slope(self) -> Bools:
        free = self._n_classes - 1
        return np.tile(np.r_[np.ones(free, dtype=bool), False], free)

    def _regressors(self, x_nc: Floats) -> Floats:
        """(n, C) the log-odds of the scores against the first class, and 1."""
        return np.hstack([x_nc[:, 1:] - x_nc[:, :1], np.ones((x_nc.shape[0], 1))])

    def logits(self, theta_p: Floats, x_nc: Floats) -> Floats:
        of_others = self._regressors(x_nc) @ theta_p.reshape(self._n_classes - 1, -1).T
        return np.hstack([np.zeros((x_nc.shape[0], 1)), of_others])

    def pull(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        pulled = pull_nc[:, 1:, None] * self._regressors(x_nc)[:, None, :]
        return np.asarray(pulled.reshape(x_nc.shape[0], -1))

    def by_class(self, pull_nc: Floats, x_nc: Floats) -> Floats:
        sum_cr = pull_nc.T @ self._regressors(x_nc)
        of_class = np.zeros((self._n_classes, self._n_classes - 1, self._n_classes))
        at = np.arange(self._n_classes - 1)
        of_class[at + 1, at] = sum_cr[1:]
        return of_class.reshape(self._n_classes, -1)

    def curvature(self, share_n: Floats, p_nc: Floats, x_nc: Floats) -> Floats:
        regressor_nr = self._regressors(x_nc)
        mean_np = self.pull(p_nc, x_nc)
        full_pp = -(mean_np.T * share_n) @ mean_np
        size = self._n_classes
        for c in range(size - 1):
            at = slice(c * size, (c + 1) * size)
            full_pp[at, at] += (regressor_nr.T * (share_n * p_nc[:, c + 1])) @ regressor_nr
        return np.asarray(full_pp)
