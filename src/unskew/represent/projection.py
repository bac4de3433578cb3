"""Principal components of many numbers per image, fitted block by block to bound the memory.

With the mean m and the covariance S = Σ_i (x_i − m)(x_i − m)ᵀ/(n − 1) of all images, S v_j = λ_j
v_j, λ_1 ≥ λ_2 ≥ …, image i is shown by v_jᵀ(x_i − m), j = 1 … c; whitened by v_jᵀ(x_i − m)/√λ_j,
which has variance 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError, wrong_option
from unskew.records.arrays import Floats

# The covariance has d² entries: 134 MB at this d, and its eigenvectors take minutes beyond.
LARGEST_DIMENSION = 4096
# A variance below this share of the total is rounding, and a loading this close to the largest ties
# with it.
_ROUNDING = 1e-12
_TIE = 1e-6


@dataclass(frozen=True, eq=False)
class Projection:
    """Directions of largest variance, and how to express images by them.

    Facts: ``axis_cd`` has orthonormal rows; the entry of largest size in each row is positive (the
    first of those that tie), so that the same images give the same signs on every machine;
    ``variance_c`` falls.

    Attributes
    ----------
    mean_d : (d,) mean of the images it was fitted on.
    axis_cd : (c, d) directions.
    variance_c : (c,) λ, variance along each direction, divisor n − 1.
    total_variance : trace of the covariance, the sum of all d variances.
    whiten : divide by √λ, so that every component has variance 1 (0 where λ is rounding).
    n : number of images it was fitted on.
    """

    mean_d: Floats
    axis_cd: Floats
    variance_c: Floats
    total_variance: float
    whiten: bool
    n: int

    @property
    def explained_c(self) -> Floats:
        """(c,) λ_j / Σ λ, the share of variance of each component; 0 where all images are alike."""
        return (
            self.variance_c / self.total_variance
            if self.total_variance > 0
            else np.zeros_like(self.variance_c)
        )

    def project(self, values_nd: Any) -> Floats:
        """Project (n, d) to (n, c): v_jᵀ(x_i − m), divided by √λ_j when whitened."""
        score_nc: Floats = (np.asarray(values_nd, dtype=np.float64) - self.mean_d) @ self.axis_cd.T
        if not self.whiten:
            return score_nc
        kept_c = self.variance_c > _ROUNDING * self.total_variance
        scale_c = np.sqrt(np.where(kept_c, self.variance_c, 1.0))
        return np.where(kept_c, score_nc / scale_c, 0.0)


def fit_projection(blocks: Iterable[Any], components: int, *, whiten: bool = False) -> Projection:
    """Fit principal components to all rows of all blocks, read once.

    Parameters
    ----------
    blocks : (m, d) arrays, one after the other; only one is needed at a time.
    components : c, at most d and at most n − 1.
    whiten : see `Projection`.

    Raises
    ------
    ConfigError : fewer than one component, or more than d.
    DataError : not more images than components, values that are not finite, or d above 4096.
    """
    n, mean_d, scatter_dd = _gather_moments(blocks, components)
    if n <= components:
        raise DataError(
            f"{components} principal components need more than {components} images; there are {n}. "
            f"Ask for fewer components, at most {max(n - 1, 0)} here, or represent more images "
            "together.",
            option="components",
            value=components,
            count=n,
        )
    d = mean_d.size
    from scipy.linalg import eigh

    covariance_dd = scatter_dd / (n - 1)
    variance_c, vector_dc = eigh(covariance_dd, subset_by_index=(d - components, d - 1))
    axis_cd = _signed(vector_dc.T[::-1])
    return Projection(
        mean_d,
        axis_cd,
        np.maximum(variance_c[::-1], 0.0),
        float(np.trace(covariance_dd)),
        whiten,
        n,
    )


def _gather_moments(blocks: Iterable[Any], components: int) -> tuple[int, Floats, Floats]:
    """Compute n, the mean, and Σ (x − m)(x − m)ᵀ.

    Blocks are joined by the update of Chan, Golub & LeVeque (1983), which does not cancel.
    """
    n, mean_d, scatter_dd = 0, np.zeros(0), np.zeros((0, 0))
    for block in blocks:
        value_md = np.asarray(block, dtype=np.float64)
        m, d = value_md.shape
        if m == 0:
            continue
        if n == 0:
            _check_dimension(d, components)
            mean_d, scatter_dd = np.zeros(d), np.zeros((d, d))
        if not np.isfinite(value_md).all():
            bad = int((~np.isfinite(value_md).all(axis=1)).sum())
            raise DataError(
                f"principal components need finite numbers; {bad} of {m} images of one batch have "
                "NaN or infinity.",
                count=bad,
            )
        block_mean_d = value_md.mean(axis=0)
        centred_md = value_md - block_mean_d
        shift_d = block_mean_d - mean_d
        scatter_dd += centred_md.T @ centred_md
        scatter_dd += np.outer(shift_d, shift_d) * (n * m / (n + m))
        mean_d = mean_d + shift_d * (m / (n + m))
        n += m
    return n, mean_d, scatter_dd


def _check_dimension(d: int, components: int) -> None:
    if components < 1:
        raise wrong_option(
            "components is the number of principal components, 1 or more", components=components
        )
    if components > d:
        raise ConfigError(
            f"components = {components}, but there are only {d} numbers for each image, and so at "
            f"most {d} principal components. Set components = {d} or less.",
            option="components",
            value=components,
            limit=d,
        )
    if d > LARGEST_DIMENSION:
        raise DataError(
            f"{d} numbers for each image are too many for principal components (at most "
            f"{LARGEST_DIMENSION}): their covariance would have {d}² entries. Let the network "
            "average over positions, or end at a narrower layer.",
            count=d,
            limit=LARGEST_DIMENSION,
        )


def _signed(axis_cd: Floats) -> Floats:
    """Multiply each row by ±1, so that its entry of largest size is positive.

    Of entries that tie up to rounding, the first decides.
    """
    size_cd = np.abs(axis_cd)
    first_c = np.argmax(size_cd >= (1 - _TIE) * size_cd.max(axis=1, keepdims=True), axis=1)
    sign_c = np.where(axis_cd[np.arange(len(axis_cd)), first_c] < 0, -1.0, 1.0)
    return np.ascontiguousarray(axis_cd * sign_c[:, None])
