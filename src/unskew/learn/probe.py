"""A linear probe: weighted multinomial logistic regression, fast enough for dozens of fits."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from unskew.engine.arguments import Count, NotNegative, Positive, Steps, checked
from unskew.engine.threads import one_blas_thread
from unskew.errors import ConfigError, DataError
from unskew.records import Floats, Ints

logger = logging.getLogger(__name__)

Scaling = Literal["standard", "fourth_root", "none"]
SCALINGS: tuple[Scaling, ...] = ("standard", "fourth_root", "none")
# Pairs of steps and gradients that L-BFGS remembers: each is small compared with the features, and
# more of them save passes over those.
_MEMORY = 20
# Features below this many numbers are passed over faster by one thread than by several.
_WORTH_THREADS = 1 << 20


@dataclass(frozen=True, eq=False)
class Probe:
    """A fitted probe: P(y = m | x) ∝ exp(x·W_m + b_m).

    Attributes
    ----------
    coefficient : (d, M) W; 0 for a class that was not seen.
    intercept : (M,) b; −inf for a class that was not seen, which is therefore never predicted.
    converged : whether the gradient came below the tolerance.
    """

    coefficient: Floats = field(repr=False)
    intercept: Floats
    converged: bool = True

    @checked
    def logits(self, X_nd: npt.NDArray[Any]) -> Floats:
        """Compute (n, M) x·W_m + b_m."""
        return (
            np.asarray(X_nd @ self.coefficient.astype(X_nd.dtype, copy=False), dtype=np.float64)
            + self.intercept
        )

    @checked
    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        """Return the (n,) class with the largest logit, after subtracting ``logit_offset`` (M,)."""
        logit_nm = self.logits(X_nd)
        if logit_offset is not None and logit_offset.shape != self.intercept.shape:
            raise DataError(
                f"logit_offset has one entry for each of {self.intercept.size} classes; got shape "
                f"{logit_offset.shape}.",
                option="logit_offset",
                limit=self.intercept.size,
            )
        return np.asarray(
            (logit_nm if logit_offset is None else logit_nm - logit_offset).argmax(axis=1),
            dtype=np.int64,
        )


@checked
def fit_probe(
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    weight_n: Floats,
    n_classes: Count,
    *,
    ridge: NotNegative = 3e-3,
    tol: Positive = 1e-5,
    max_steps: Steps = 500,
    start: Probe | None = None,
) -> Probe:
    """Minimise Σ_i p_i (log Σ_m e^{z_im} − z_{i,y_i}) + ridge/2 Σ_m ‖W_m‖² by L-BFGS.

    z_im = x_i·W_m + b_m, p_i = w_i/Σ_j w_j.

    Facts: multiplying all weights by one number changes nothing; weight zero = image removed;
    weight two = image repeated. It is scikit-learn's ``LogisticRegression(C=1/(ridge Σ_i w_i))``
    with ``sample_weight`` (of two classes, which scikit-learn gives one coefficient vector,
    ``C=2/(ridge Σ_i w_i)``). Intercepts are not penalised.

    Parameters
    ----------
    X_nd : (n, d) features, float32 or float64; sums over images are float64 either way.
    label_n : (n,) classes 0 … M−1.
    weight_n : (n,) not negative, some of them positive.
    n_classes : M; a class without weight is left out of the model.
    ridge : of the mean loss, so that it need not change with n.
    tol : largest entry of the gradient at which to stop.
    max_steps : L-BFGS steps.
    start : where to begin; the minimum is unique, so this saves time and changes nothing beyond
        ``tol``.
    """
    _check(X_nd, label_n, weight_n, n_classes, ridge)
    rows = np.flatnonzero(weight_n > 0)
    if rows.size < weight_n.size:
        X_nd, label_n, weight_n = X_nd[rows], label_n[rows], weight_n[rows]
    seen = np.unique(label_n)
    d = X_nd.shape[1]
    coefficient, intercept = np.zeros((d, n_classes)), np.full(n_classes, -np.inf)
    if seen.size == 1:
        intercept[seen] = 0.0
        return Probe(coefficient, intercept)
    problem = _Problem(X_nd, np.searchsorted(seen, label_n), weight_n / weight_n.sum(), ridge)
    with nullcontext() if X_nd.size >= _WORTH_THREADS else one_blas_thread():
        optimum = scipy.optimize.minimize(
            problem.value_and_gradient,
            _begin(start, seen, d),
            jac=True,
            method="L-BFGS-B",
            # The gradient decides; ftol, far below what rounding leaves of a decrease, ends a
            # search that no longer moves.
            options={
                "maxiter": max_steps,
                "maxcor": _MEMORY,
                "gtol": tol,
                "ftol": float(np.finfo(X_nd.dtype).eps) * 1e-3,
                "maxls": 40,
            },
        )
    converged = bool(np.abs(optimum.jac).max() <= 10 * tol)
    if not converged:
        logger.info(
            "the probe stopped at a gradient of %.2g after %d steps: %s",
            np.abs(optimum.jac).max(),
            optimum.nit,
            optimum.message,
        )
    solution = optimum.x.reshape(d + 1, seen.size)
    coefficient[:, seen] = solution[:d]
    intercept[seen] = solution[d] - solution[d].mean()
    return Probe(coefficient, intercept, converged)


def _begin(start: Probe | None, seen: Ints, d: int) -> Floats:
    if start is None or not np.isfinite(start.intercept[seen]).all():
        return np.zeros((d + 1) * seen.size)
    begin = np.vstack([start.coefficient[:, seen], start.intercept[None, seen]])
    return np.asarray((begin - begin.mean(axis=1, keepdims=True)).ravel())


@dataclass(frozen=True, eq=False)
class _Problem:
    """Value and gradient of the weighted loss at (W, b), stacked (d + 1, M)."""

    X_nd: npt.NDArray[Any]
    label_n: Ints
    share_n: Floats
    ridge: float

    def value_and_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Compute both in two passes over the features."""
        n, d = self.X_nd.shape
        point = flat.reshape(d + 1, -1)
        z_nm = np.asarray(self.X_nd @ point[:d].astype(self.X_nd.dtype), dtype=np.float64)
        z_nm += point[d] - z_nm.max(axis=1, keepdims=True)
        own_n = z_nm[np.arange(n), self.label_n]
        np.exp(z_nm, out=z_nm)
        total_n = z_nm.sum(axis=1)
        value = float(self.share_n @ (np.log(total_n) - own_n)) + 0.5 * self.ridge * float(
            np.square(point[:d]).sum()
        )
        z_nm *= (self.share_n / total_n)[:, None]
        z_nm[np.arange(n), self.label_n] -= self.share_n
        gradient = np.empty_like(point)
        gradient[:d] = self.X_nd.T @ z_nm.astype(self.X_nd.dtype, copy=False)
        gradient[:d] += self.ridge * point[:d]
        gradient[d] = z_nm.sum(axis=0)
        return value, gradient.ravel()


def _check(
    X_nd: npt.NDArray[Any], label_n: Ints, weight_n: Floats, n_classes: int, ridge: float
) -> None:
    if X_nd.ndim != 2 or X_nd.dtype not in (np.float32, np.float64):
        raise DataError(
            "features are a matrix of float32 or float64, one row for each image; got shape "
            f"{X_nd.shape} of {X_nd.dtype}.",
            option="X_nd",
            value=str(X_nd.dtype),
        )
    if label_n.shape != (X_nd.shape[0],) or weight_n.shape != label_n.shape:
        raise DataError(
            f"the features have {X_nd.shape[0]} rows, but there are {label_n.shape} labels and "
            f"{weight_n.shape} weights.",
            count=X_nd.shape[0],
        )
    if not np.isfinite(weight_n).all() or weight_n.min(initial=0.0) < 0 or not weight_n.any():
        raise DataError("weights are finite, not negative, and not all zero.", option="weight_n")
    if label_n.min() < 0 or label_n.max() >= n_classes:
        raise DataError(
            f"labels are codes from 0 to {n_classes - 1}; got {int(label_n.min())} … "
            f"{int(label_n.max())}.",
            option="label_n",
            value=[int(label_n.min()), int(label_n.max())],
            limit=n_classes,
        )
    if not ridge > 0:
        raise ConfigError(
            "ridge is the strength of a penalty, above 0 (without one separable classes have no "
            f"solution); got {ridge!r}.",
            option="ridge",
            value=ridge,
        )


@checked
def scale_features(X_nd: npt.NDArray[Any], scaling: Scaling = "standard") -> npt.NDArray[Any]:
    """Centre the columns of (n, d) features, and scale them.

    "standard": by the standard deviation. "fourth_root": by the fourth root of the variance, all
    columns then by one number so that their variances are 1 on average. Principal components keep
    some of their order that way: noise in late ones is not blown up to the size of the first.
    "none": centred only. Constant columns become 0. Integers become float32 (exact for pixels),
    float32 and float64 keep their type.
    """
    if scaling not in SCALINGS:
        raise ConfigError(
            f"scaling is one of {', '.join(map(repr, SCALINGS))}; got {scaling!r}.",
            option="scaling",
            value=scaling,
            allowed=list(SCALINGS),
        )
    X_nd = (
        X_nd
        if X_nd.dtype in (np.float32, np.float64)
        else X_nd.astype(np.float64 if X_nd.dtype.itemsize > 2 else np.float32)
    )
    mean_d = X_nd.mean(axis=0, dtype=np.float64)
    deviation_d = np.sqrt(X_nd.var(axis=0, dtype=np.float64))
    # What is constant up to rounding has no scale.
    varies_d = (
        deviation_d > 1e-6 * np.abs(mean_d)
        if X_nd.dtype == np.float32
        else deviation_d > 1e-12 * np.abs(mean_d)
    )
    divisor_d = np.ones_like(deviation_d)
    if scaling != "none":
        divisor_d[varies_d] = (
            deviation_d[varies_d] if scaling == "standard" else np.sqrt(deviation_d[varies_d])
        )
    if scaling == "fourth_root" and varies_d.any():
        divisor_d *= np.sqrt(deviation_d[varies_d].mean())
    factor_d = np.where(varies_d, 1.0 / divisor_d, 0.0)
    scaled_nd: npt.NDArray[Any] = X_nd - mean_d.astype(X_nd.dtype)
    scaled_nd *= factor_d.astype(X_nd.dtype)
    return scaled_nd
