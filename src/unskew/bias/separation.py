"""Is it more than chance that a classifier tells the target's images from the weighted pool?

The weights were estimated from these very images, and the classifier was trained on images like
them. So every fold is judged by itself, with the classifier of the other folds: its score, as the
rank h among the weighted pool, is a fixed function there. Under the model an image of the fold is
one of the target's with the probability q_t that the weights imply, so that Σ_i (1{i of the target}
− q_it) h(z_i) has mean 0 at the fold's own parameters; it is n_t (AUC − 1/2) times the share of
Σ_i q_it that belongs to the pool. The parameters move to those of the fold by one Newton step, in
the replicates as in the data (`unskew.bias.redrawn_sources`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.fitting import profile_derivative
from unskew.bias.redrawn_sources import sum_residuals
from unskew.bias.residual_draws import Singles
from unskew.records import Floats, Ints
from unskew.records.design_weights import add_design
from unskew.solve.profile_likelihood import DenseDerivative, Profile

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias

_REPLICATES = 999
# A variance this small relative to the number of images is rounding.
_NO_VARIANCE = 1e-8


@dataclass(frozen=True)
class Separation:
    """The p-value of an AUC of 1/2 or less, and the standard error of the AUC."""

    p_value: float
    stderr: float


@dataclass(frozen=True, eq=False)
class ScoredImages:
    """Images of pool and target, in this order, as a classifier saw them.

    frame : their columns.
    pool_row : (m,) the rows of the fit that the pool's images are.
    score : (m + t,) of the classifier that did not see them.
    weight : (m + t,) π of the pool's images.
    fold : (m + t,)
    group : (m + t,) code of each image's group; None without groups.
    design : (m + t,) design weights; None without any.
    """

    frame: pd.DataFrame
    pool_row: Ints
    score: Floats
    weight: Floats
    fold: Ints
    group: Ints | None
    design: Floats | None = None


def judge_separation(fitted: FittedBias, images: ScoredImages, seed: int) -> Separation | None:
    """Test whether the scores of the target's images are larger; None without a reference."""
    data = fitted.data
    if data.reference is None:
        return None
    profile, size_k, placed_r = _profile_of(fitted, images)
    p_values, variance, n_target = [], 0.0, 0.0
    target = profile.u.shape[1] - 1
    for fold in np.unique(images.fold):
        at = np.flatnonzero((images.fold == fold) & placed_r)
        is_target = profile.source[at] == target
        if is_target.all() or not is_target.any():
            continue
        rank_r = _ranks(images.score[at], np.where(is_target, 0.0, images.weight[at]))
        part = _at_these_sizes(profile.take(at), size_k)
        sums = sum_residuals(
            part,
            None if images.group is None else images.group[at],
            np.ones(target + 1, dtype=np.bool_),
            partial(_columns_of, rank_r.astype(np.float32)),
            replicates=_REPLICATES,
            seed=seed,
            refit=True,
        )
        null_b, observed = sums.null[:, target, 0], sums.observed[target, 0]
        if null_b.var() < _NO_VARIANCE * is_target.sum():
            continue  # the model fits this score exactly, whatever the images
        p_values.append((1 + np.count_nonzero(null_b >= observed)) / (1 + null_b.size))
        chance_r = part.memberships(np.arange(at.size))[:, target]
        from_pool = chance_r[~is_target].sum() / chance_r.sum()
        variance += float(null_b.var()) / from_pool**2
        n_target += float(add_design(part.source, part.design, target + 1)[target])
    if not p_values:
        return None
    # An image of one fold and one of another are compared twice, once with each fold's classifier,
    # and with the same outcome if the classifier is symmetric: half as many are independent.
    return Separation(_combine(np.array(p_values)), float(np.sqrt(2 * variance)) / n_target)


def _combine(p_values: Floats) -> float:
    """Combine p-values of dependent tests by the mean of tan(π (1/2 − p)) (Liu & Xie 2020)."""
    return float(0.5 - np.arctan(np.mean(np.tan(np.pi * (0.5 - p_values)))) / np.pi)


def _columns_of(value_r: Singles, at: Ints) -> Singles:
    return value_r[at][:, None]


def _ranks(score_r: Floats, weight_r: Floats) -> Floats:
    """Compute F(score), F the distribution function of the weighted pool, ties at the middle."""
    value, code_r = np.unique(score_r, return_inverse=True)
    mass = np.bincount(code_r, weights=weight_r / weight_r.sum(), minlength=value.size)
    return np.asarray((np.cumsum(mass) - mass / 2)[code_r])


def _profile_of(fitted: FittedBias, images: ScoredImages) -> tuple[Profile, Floats, Any]:
    """Return the likelihood of the images' sources, in which the target's images are the last one.

    Also the number of images of each that its u belong to, and whether an image is in one of the
    strata. The target's ω is that of the reference.
    """
    data, n_pool = fitted.data, images.pool_row.size
    assert data.reference is not None
    log_rk = np.zeros((len(images.frame), data.n_sources))
    log_rk[:n_pool] = fitted.profile.log_omega[images.pool_row]
    cell_r = np.zeros(len(images.frame), dtype=np.int64)
    cell_r[:n_pool] = data.cell[images.pool_row]
    judges = images.frame.iloc[n_pool:]
    for factor in fitted.factors:
        log_rk[n_pool:] += factor.log_omega(judges)
    if fitted.strata is not None:
        cell_r[n_pool:] = fitted.strata.cells(judges)
        log_rk[n_pool:] += fitted.strata.log_factor[cell_r[n_pool:]]
    derivative, penalty = profile_derivative(images.frame, log_rk, fitted.factors)
    source_column = np.arange(data.n_sources)
    if data.sample is None:
        # Images of the reference that were held out are one more source, with the same ω.
        source_column = np.append(source_column, data.reference)
        if derivative is not None:
            every = derivative
            log_rk = log_rk[:, source_column]
            derivative = DenseDerivative(
                every.n_parameters, lambda at: every.block(at)[:, source_column], log_rk
            )
        else:
            log_rk = log_rk[:, source_column]
    source_r = np.full(len(images.frame), source_column.size - 1)
    source_r[:n_pool] = data.source[images.pool_row]
    profile = Profile(
        log_rk,
        fitted.profile.u[:, source_column],
        source_r,
        np.maximum(cell_r, 0),
        derivative,
        penalty,
        design=images.design,
    )
    size_k = data.size_k[source_column]
    return profile, size_k, (cell_r >= 0) & np.isfinite(log_rk).any(axis=1)


def _at_these_sizes(profile: Profile, size_k: Floats) -> Profile:
    """Move u, which belongs to ``size_k`` images of each source, to the numbers among the rows."""
    own_k = add_design(profile.source, profile.design, size_k.size)
    with np.errstate(divide="ignore"):
        return replace(profile, u=profile.u + np.log(own_k / size_k))
