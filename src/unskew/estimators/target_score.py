"""Scores on the target from held-out images: any score as a weighted mean over images.

A score S(w) of weighted images is written as the mean of s_i = S + dS/dw towards image i, so that
Σ_i w_i s_i = S and, to first order, another weighting w' has S(w') = Σ_i w'_i s_i. For a mean over
images s_i is the image's own score, exactly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean, warn_caller
from unskew.estimators.held_out import HeldOut, Remembering
from unskew.estimators.target_weights import TargetWeights
from unskew.records import Estimate, Floats, Ints
from unskew.records.target import THE_TARGET

# Distinct outcomes of a fold beyond which like ones share a derivative: each costs two evaluations
# of the score, a few milliseconds.
_CELLS = 128
# Relative change of a weight for the central difference: its error is of second order, rounding far
# below.
_CHANGE = 0.05


def score_images(
    held_out: list[HeldOut], scoring: Any, weighing: TargetWeights, level: float
) -> Estimate:
    """Estimate Σ_f W_f S_f over the folds, W_f the target weight of fold f.

    Its standard error is that of the mean of the images' s_i.
    """
    from sklearn.utils import _safe_indexing

    weight_n = weighing.weight
    value_n = np.zeros(weight_n.size)
    for part in held_out:
        weight_f = weight_n[part.rows]
        # Images of weight 0 are not part of the target: what they score does not matter, and may
        # not even be defined.
        kept_f = weight_f > 0
        if not kept_f.any():
            continue
        if not kept_f.all():
            kept = np.flatnonzero(kept_f)
            part = HeldOut(
                part.rows[kept],
                Remembering(part.model.model, _safe_indexing(part.model.X, kept)),
                part.y[kept],
            )
        value_n[part.rows] = image_values(part, scoring, weight_f[kept_f] / weight_f.sum())
    return weighing.mean(value_n, level)


def warn_if_not_the_target(weighing: TargetWeights) -> None:
    """Warn if the score describes another population than the target: an estimate cannot say so."""
    if weighing.weights.estimation is None:
        return
    population = weighing.weights.describe().population
    if population != THE_TARGET:
        warn_caller(f"the score describes {population}.")


def image_values(part: HeldOut, scoring: Any, weight_f: Floats) -> Floats:
    """Compute (n_f,) s_i of the images of one fold, with Σ_i w_i s_i = S_f.

    By closed forms where they are known, else by differences.
    """
    own = _VALUES.get(scoring) if isinstance(scoring, str) else None
    if own is not None:
        return own(part, weight_f)
    return _differences(part, _weighted_scorer(scoring, part), weight_f)


def find_scorer(scoring: Any) -> Callable[..., Any]:
    """Return the scorer of that name, or the callable itself.

    What is no scorer is an error before any model is trained.
    """
    from sklearn.metrics import get_scorer, get_scorer_names

    if isinstance(scoring, str):
        if scoring not in get_scorer_names():
            raise ConfigError(
                f"there is no score {scoring!r}.{did_you_mean(scoring, get_scorer_names())} "
                "sklearn.metrics.get_scorer_names() lists them.",
                option="scoring",
                value=scoring,
            )
        return get_scorer(scoring)  # type: ignore[no-any-return]
    if not callable(scoring) or isinstance(scoring, type):
        raise ConfigError(
            "scoring is the name of a score, or a callable scorer(estimator, X, y, "
            f"sample_weight=…); got {scoring!r}.",
            option="scoring",
            value=repr(scoring),
        )
    if list(inspect.signature(scoring).parameters)[:1] == ["y_true"]:
        name = getattr(scoring, "__name__", "metric")
        raise ConfigError(
            f"{name} compares labels with predictions; a scorer asks the model for them. Write "
            f"scoring=make_scorer({name}).",
            option="scoring",
            value=name,
        )
    return scoring  # type: ignore[no-any-return]


def _weighted_scorer(scoring: Any, part: HeldOut) -> Callable[[Floats], float]:
    """Make S a function of the weights; a scorer that takes none is an error."""
    scorer = find_scorer(scoring)

    def score(weight_f: Floats) -> float:
        try:
            value = scorer(
                part.model,
                part.model.X,
                part.y,
                sample_weight=weight_f * (weight_f.size / weight_f.sum()),
            )
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
            raise ConfigError(
                f"the score {scoring!r} takes no sample_weight, so it cannot be computed for the "
                "target.",
                option="scoring",
                value=str(scoring),
            ) from error
        if np.ndim(value) or not np.isfinite(value):
            raise DataError(
                f"the score {scoring!r} of a fold with {part.y.size} images is {value!r}, not a "
                "finite number. Are some classes missing there? Then use fewer folds.",
                option="scoring",
                value=str(scoring),
                count=int(part.y.size),
            )
        return float(value)

    return score


def _differences(part: HeldOut, score: Callable[[Floats], float], weight_f: Floats) -> Floats:
    """Compute s_i = S + dS/dw by central differences.

    One for every distinct outcome (label and prediction) or, of many, for cells of like ones.
    Raising all weights of cell c by the factor 1 + t changes its mass m_c by t m_c (1 − m_c) after
    normalisation, up to O(t²).
    """
    value = score(weight_f)
    cell_f = gather_cells(_outcomes(part), _CELLS)
    slope_c = np.zeros(int(cell_f.max()) + 1)
    for cell in range(slope_c.size):
        inside_f = cell_f == cell
        mass = float(weight_f[inside_f].sum())
        up, down = (
            score(np.where(inside_f, weight_f * (1.0 + change), weight_f))
            for change in (_CHANGE, -_CHANGE)
        )
        slope_c[cell] = (up - down) / (2.0 * _CHANGE * mass)
    slope_f = slope_c[cell_f]
    return value + slope_f - float(weight_f @ slope_f)


def _outcomes(part: HeldOut) -> list[npt.NDArray[Any]]:
    """List what the score of an image can depend on: its label and the model's answers.

    Without any answers, the image itself.
    """
    columns = (
        [part.y, *part.model.answers.values()]
        if part.model.answers
        else [np.arange(part.y.shape[0])]
    )
    return [
        values for column in columns for values in np.asarray(column).reshape(part.y.shape[0], -1).T
    ]


def gather_cells(columns: list[npt.NDArray[Any]], most: int) -> Ints:
    """Return the (n,) cell of every row: distinct rows, or at most ``most`` groups of them.

    Groups are halved again and again along their widest column. Columns are compared by rank. The
    few distinct values of a class label are never mixed as long as there are fewer than ``most``.
    """
    code_nd = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
    distinct, cell_n = np.unique(code_nd, axis=0, return_inverse=True)
    if len(distinct) <= most:
        return cell_n.reshape(-1).astype(np.int64)
    few_d = code_nd.max(axis=0) < np.sqrt(most)
    # Columns of few values are cut first, each value apart.
    rank_nd = code_nd / code_nd.max(axis=0).clip(1) + np.where(few_d, code_nd * 10.0, 0.0)
    cells = [np.arange(len(code_nd))]
    while 2 * len(cells) <= most:
        halves = [half for rows in cells for half in _halves(rows, rank_nd)]
        if len(halves) == len(cells):
            break
        cells = halves
    cell_n = np.empty(len(code_nd), dtype=np.int64)
    for cell, rows in enumerate(cells):
        cell_n[rows] = cell
    return cell_n


def _halves(rows: Ints, rank_nd: Floats) -> list[Ints]:
    """Cut the rows at the median of their widest column; rows that are all alike stay together."""
    widest = int(np.ptp(rank_nd[rows], axis=0).argmax())
    value = rank_nd[rows, widest]
    upper = value > np.median(value)
    if not upper.any():
        upper = value == value.max()
    return [rows] if upper.all() else [rows[~upper], rows[upper]]


def _predicted(part: HeldOut) -> Floats:
    return np.asarray(part.model.predict(part.model.X), dtype=np.float64).reshape(part.y.shape)


def _is_right(part: HeldOut, weight_f: Floats) -> Floats:
    right_f = np.asarray(part.model.predict(part.model.X)) == part.y
    return np.asarray(right_f if right_f.ndim == 1 else right_f.all(axis=1), dtype=np.float64)


def _class_probabilities(part: HeldOut) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return (n_f, M) probabilities, and where the true class is; nowhere if it was not seen."""
    probability_fm = np.asarray(part.model.predict_proba(part.model.X), dtype=np.float64)
    return probability_fm, np.asarray(part.y)[:, None] == np.asarray(part.model.classes_)[None, :]


def _log_probability(part: HeldOut, weight_f: Floats) -> Floats:
    probability_fm, true_fm = _class_probabilities(part)
    # As scikit-learn clips.
    tiny = np.finfo(np.float64).eps
    return np.asarray(np.log(np.clip((probability_fm * true_fm).sum(axis=1), tiny, 1.0 - tiny)))


def _brier(part: HeldOut, weight_f: Floats) -> Floats:
    probability_fm, true_fm = _class_probabilities(part)
    unseen_f = ~true_fm.any(axis=1)
    loss_f = np.square(probability_fm - true_fm).sum(axis=1) + unseen_f
    # Of two classes scikit-learn counts one.
    return np.asarray(-loss_f / 2.0 if true_fm.shape[1] == 2 else -loss_f)


def _roc_auc(part: HeldOut, weight_f: Floats) -> Floats:
    """Compute s_i = A + (P(s⁻ < s_i) + P(s⁻ = s_i)/2 − A)/w⁺ of a positive, A the area.

    A = P(s⁺ > s⁻) + P(s⁺ = s⁻)/2; a negative likewise (DeLong 1988).
    """
    positive_f = (
        part.y == part.model.classes_[-1]
        if len(part.model.classes_) == 2
        else np.zeros(part.y.shape, dtype=np.bool_)
    )
    if not 0 < np.count_nonzero(positive_f) < part.y.size:
        return _differences(part, _weighted_scorer("roc_auc", part), weight_f)
    by_decision = hasattr(part.model, "decision_function")
    score_f = (
        part.model.decision_function(part.model.X)
        if by_decision
        else part.model.predict_proba(part.model.X)[:, 1]
    )
    level_f = np.unique(score_f, return_inverse=True)[1]
    mass = float(weight_f[positive_f].sum())
    positive_l = np.bincount(level_f, weights=weight_f * positive_f) / mass
    negative_l = np.bincount(level_f, weights=weight_f * ~positive_f) / (1.0 - mass)
    below_l = np.cumsum(negative_l) - negative_l / 2.0
    above_l = 1.0 - np.cumsum(positive_l) + positive_l / 2.0
    area = float(positive_l @ below_l)
    slope_f = np.where(
        positive_f, (below_l[level_f] - area) / mass, (above_l[level_f] - area) / (1.0 - mass)
    )
    return np.asarray(area + slope_f)


def _squared_error(part: HeldOut, weight_f: Floats) -> Floats:
    return -_per_image(np.square(part.y - _predicted(part)))


def _absolute_error(part: HeldOut, weight_f: Floats) -> Floats:
    return -_per_image(np.abs(part.y - _predicted(part)))


def _per_image(loss: Floats) -> Floats:
    return loss if loss.ndim == 1 else np.asarray(loss.mean(axis=1))


def _root_mean_squared_error(part: HeldOut, weight_f: Floats) -> Floats:
    """Compute s_i = −√m − (e_i² − m)/(2√m), m the mean of the squared errors."""
    if part.y.ndim > 1:
        return _differences(part, _weighted_scorer("neg_root_mean_squared_error", part), weight_f)
    square_f = np.square(part.y - _predicted(part))
    root = float(np.sqrt(weight_f @ square_f))
    return -root - (np.zeros_like(square_f) if root == 0.0 else (square_f - root**2) / (2.0 * root))


def _r2(part: HeldOut, weight_f: Floats) -> Floats:
    """Compute s_i = R² − (e_i² − (1 − R²)(y_i − ȳ)²)/v, v the variance of y.

    R² = 1 − m/v, m the mean squared error.
    """
    deviation_f = part.y - weight_f @ part.y
    variance = weight_f @ np.square(deviation_f)
    if part.y.ndim > 1 or not variance > 0:
        return _differences(part, _weighted_scorer("r2", part), weight_f)
    square_f = np.square(part.y - _predicted(part))
    unexplained = float(weight_f @ square_f) / float(variance)
    return np.asarray(
        1.0 - unexplained - (square_f - unexplained * np.square(deviation_f)) / float(variance)
    )


def _median_absolute_error(part: HeldOut, weight_f: Floats) -> Floats:
    """Compute s_i = −q − (1/2 − 1[|e_i| ≤ q])/f, q the weighted median of |e|.

    f is the density, read off quantiles nearby (Woodruff 1952).
    """
    if part.y.ndim > 1:
        raise ConfigError(
            "neg_median_absolute_error has a standard error for one output only.",
            option="scoring",
            value="neg_median_absolute_error",
        )
    loss_f = np.abs(part.y - _predicted(part))
    order = np.argsort(loss_f)
    # Midpoints of the steps, so that no quantile depends on which side a tie falls.
    level_f = np.cumsum(weight_f[order]) - weight_f[order] / 2.0
    width = 0.5 / np.sqrt(1.0 / float(weight_f @ weight_f))
    low, high = np.interp([0.5 - width, 0.5 + width], level_f, loss_f[order])
    value = _weighted_scorer("neg_median_absolute_error", part)(weight_f)
    slope_f = (0.5 - (loss_f <= -value)) * (float(high - low) / (2.0 * width))
    return np.asarray(value - (slope_f - float(weight_f @ slope_f)))


_VALUES: dict[str, Callable[[HeldOut, Floats], Floats]] = {
    "accuracy": _is_right,
    "neg_log_loss": _log_probability,
    "neg_brier_score": _brier,
    "roc_auc": _roc_auc,
    "neg_mean_squared_error": _squared_error,
    "neg_mean_absolute_error": _absolute_error,
    "neg_root_mean_squared_error": _root_mean_squared_error,
    "neg_median_absolute_error": _median_absolute_error,
    "r2": _r2,
}
