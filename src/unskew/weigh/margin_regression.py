"""The generalised regression estimator: an outcome model on attributes whose shares on the target
are known.

With x_i the indicators of the image's levels, p their shares on the target and b the coefficients
of the weighted regression of h on x, the mean of the predictions on the target is b·p: no image of
the target is needed (Särndal, Swensson & Wretman 1992).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from unskew.errors import ConfigError, CoverageError, first_few
from unskew.records import Floats, Ints, Target
from unskew.splits.folds import deal_folds
from unskew.target.facts import Distribution, cell_text, mass_array
from unskew.target.mass_covariance import mass_error
from unskew.target.resolution import find_pool_cells
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import find_units
from unskew.weigh.target_predictions import TargetMean
from unskew.weigh.unit_spread import root_of

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights

_FOLDS = 5
# Predictions that differ from a sum over attributes by less than this share of their range.
_ROUNDING = 1e-9


def regress_on_margins(
    weights: Weights, value_n: Floats, target: Target
) -> tuple[Floats, TargetMean] | None:
    """Predict the values by regression on the target's attributes: (predictions, T̂).

    The regression is cross-fitted, so that many levels do not fit themselves. None where the
    weights were fitted to these very shares: the predictions have their mean on the target then.
    """
    estimation = _pool_of(weights)
    if _holds_already(estimation, target):
        return None
    x_nj, share_j, root_jj, freedom = _design(weights, estimation, target)
    unit_n = find_units(weights).unit_n
    folds = min(_FOLDS, int(unit_n.max()) + 1)
    if folds < 2:
        raise ConfigError(
            "regression on margins needs at least two images or groups.", option="predicted"
        )
    fold_n = deal_folds(unit_n, weights.source.astype(np.int64), folds, 0)
    mean = float(weights.weight @ value_n)
    predicted_n, known, slope_j = np.zeros(value_n.size), 0.0, np.zeros(share_j.size)
    for fold in range(folds):
        is_out_n = fold_n == fold
        train_n = np.where(is_out_n, 0.0, weights.weight)
        own, part = np.zeros(share_j.size), float(weights.weight[is_out_n].sum())
        if train_n.any():
            # Deviations from the other folds' mean: a model that knows no more predicts `mean`.
            centre = float(train_n @ value_n) / float(train_n.sum())
            own = _least_squares(x_nj, value_n - centre, train_n)
        predicted_n[is_out_n] = mean + x_nj[is_out_n] @ own
        known += part * (mean + float(share_j @ own))
        slope_j += part * own
    return predicted_n, TargetMean(known, None, root_jj @ slope_j, freedom)


def mean_by_margins(weights: Weights, predicted_n: Floats, target: Target) -> TargetMean | None:
    """Find T̂ of predictions that are a sum over the target's attributes; refuse others."""
    estimation = _pool_of(weights)
    x_nj, share_j, root_jj, freedom = _design(weights, estimation, target)
    slope_j = _least_squares(x_nj, predicted_n, weights.weight)
    rest_n = (predicted_n - x_nj @ slope_j)[weights.weight > 0]
    if np.abs(rest_n).max() > _ROUNDING * max(float(np.ptp(predicted_n)), 1e-300):
        raise ConfigError(
            f"shares of {' and '.join(target.by)} do not tell the target's mean of predictions "
            "that depend on more, or on how these go together. Pass target_predicted as "
            "predictions for images of the target, or leave predicted out: then the values are "
            "predicted from these attributes.",
            option="target_predicted",
            value=list(target.by),
        )
    if _holds_already(estimation, target):
        return None
    return TargetMean(float(share_j @ slope_j), None, root_jj @ slope_j, freedom)


def _pool_of(weights: Weights) -> Estimation:
    if weights.estimation is None:
        raise ConfigError(
            "a target is compared with the columns of a pool, and these weights came from numbers. "
            "Compute them with unskew.debias, or pass predicted and target_predicted as numbers.",
            option="target_predicted",
        )
    return weights.estimation


def _holds_already(estimation: Estimation, target: Target) -> bool:
    """Say whether the weights were fitted to these shares; refuse others of the same attributes."""
    strata, own = estimation.fitted.strata, estimation.fitted.target
    if strata is None or own is None:
        return False
    same = [name for name in target.by if name in strata.target.by]
    if not same:
        return False
    if own.facts == target.facts and own.bins == target.bins:
        return True
    raise ConfigError(
        f"the weights were already fitted to the target's distribution of {first_few(same)}; name "
        "other attributes, or put these shares into the target of debias.",
        option="target_predicted",
        value=same,
    )


class _Design(NamedTuple):
    """(n, J) x with a constant, (J,) their means on the target, and (J, J) a root of their error.

    The first level of every distribution is the constant's. ``freedom``: that of the smallest
    survey.
    """

    x_nj: Floats
    share_j: Floats
    root_jj: Floats
    freedom: float


def _design(weights: Weights, estimation: Estimation, target: Target) -> _Design:
    if not target.facts:
        raise ConfigError(
            f"this target ({target.kind}) has no shares to regress on: pass Target.margins or "
            "Target.table, or predictions for images of the target.",
            option="target_predicted",
            value=target.kind,
        )
    cells = find_pool_cells(target, estimation.pool.frame)
    weighed_n = weights.weight > 0
    outside_n = weighed_n & ~np.append(cells.in_scope_c, False)[cells.code_n]
    if outside_n.any():
        raise ConfigError(
            f"{int(outside_n.sum())} images with a weight have levels of "
            f"{' or '.join(target.by)} outside the target's scope, so that the regression does not "
            "know their share. Leave them out of the pool.",
            option="target_predicted",
            count=int(outside_n.sum()),
        )
    columns, shares, roots = [np.ones((weighed_n.size, 1))], [np.ones(1)], [np.zeros((1, 1))]
    freedom = math.inf
    for fact in target.facts:
        code_n = _codes(fact, target, cells.cells)[cells.code_n]
        _check_covered(fact, code_n, weights.weight)
        columns.append((code_n[:, None] == np.arange(1, len(fact.cells))).astype(np.float64))
        shares.append(mass_array(fact)[1:])
        error, size = mass_error(fact), len(fact.cells) - 1
        roots.append(
            np.zeros((size, size)) if error is None else root_of(error.covariance_cc[1:, 1:])
        )
        freedom = freedom if error is None else min(freedom, error.freedom)
    return _Design(
        np.column_stack(columns), np.concatenate(shares), scipy.linalg.block_diag(*roots), freedom
    )


def _codes(fact: Distribution, target: Target, cells: list[tuple[str, ...]]) -> Ints:
    """(C + 1,) the cell of ``fact`` that every cell of the pool is in; −1 for dropped rows."""
    at = [target.by.index(name) for name in fact.by]
    number = {levels: code for code, levels in enumerate(fact.cells)}
    return np.array([*(number.get(tuple(cell[a] for a in at), -1) for cell in cells), -1])


def _check_covered(fact: Distribution, code_n: Ints, weight_n: Floats) -> None:
    mass_c = mass_array(fact)
    seen_c = add_by_code(code_n[code_n >= 0], weight_n[code_n >= 0], mass_c.size)
    empty = np.flatnonzero((mass_c > 0) & (seen_c <= 0))
    if empty.size:
        levels = [cell_text(fact.by, fact.cells[at]) for at in empty]
        raise CoverageError(
            f"no image with a weight has {first_few(levels)}, which hold "
            f"{float(mass_c[empty].sum()):.1%} of the target: the regression cannot predict them.",
            levels=levels,
            value=float(mass_c[empty].sum()),
        )


def _least_squares(x_nj: Floats, value_n: Floats, weight_n: Floats) -> Floats:
    """(J,) the coefficients of the weighted regression; the shortest where they are not unique."""
    root_n = np.sqrt(weight_n)
    return np.asarray(np.linalg.lstsq(root_n[:, None] * x_nj, root_n * value_n, rcond=None)[0])
