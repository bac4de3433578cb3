"""Figures augmented by the model's own confidence on unlabelled images of the target.

Where the model is confident on the target, it is likely to be right there. With r_i = 1 if image i
is predicted right and c_i the probability that the model gives to its prediction,

    accuracy = Σ π_i r_i + λ (mean of c on the target − Σ π_i c_i),

and log-loss likewise, with the entropy −Σ_k p_k log p_k in place of c. λ is tuned as in
`unskew.weigh.doubly_robust`: confidence that says nothing changes nothing, and it need not be
calibrated. The weights are taken as fixed, as in all figures of predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.answers import find_columns, read_class_answers
from unskew.evaluation.bootstrap import Sampled
from unskew.evaluation.cells import JudgedImages
from unskew.evaluation.matching import read_predictions
from unskew.evaluation.metrics import Answers, Truth
from unskew.records import Estimate, Floats, Ints, RobustEstimate
from unskew.records.levels import level_text
from unskew.splits.folds import unit_or_row
from unskew.weigh.doubly_robust import augment_mean
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import centre_within_sources, degrees_of_freedom, find_units
from unskew.weigh.target_predictions import TargetMean

if TYPE_CHECKING:
    import pandas as pd

_NAME = "the predictions for the target"


def augment_figures(
    table: pd.DataFrame,
    images: JudgedImages,
    predictions: pd.DataFrame | str | PathLike[str],
    level: float,
) -> Mapping[str, RobustEstimate]:
    """Estimate accuracy and log-loss with the first model's answers on images of the target.

    ``predictions`` has the columns of the judged images' predictions, without a truth; images of a
    group (a column ``group``) are one unit.
    """
    truth, own = images.truth, images.answers[0][0]
    _check_answers(truth, own)
    frame = read_predictions(predictions)
    _check_other_images(table, frame)
    target = _read_answers(frame, truth)
    unit_t = np.unique(unit_or_row(frame), return_inverse=True)[1]
    kept = images.kept
    own, truth = own.take(kept), truth.take(kept)
    assert truth.code is not None
    assert own.probability is not None
    names, code = np.unique(images.source[kept].astype(str), return_inverse=True)
    weight_n = images.weight[kept] / images.weight[kept].sum()
    unit_n = None if images.unit is None else images.unit[kept]
    sampled = Sampled(tuple(names.tolist()), code.astype(np.int32), weight_n, unit_n)
    value_of = {
        "accuracy": np.asarray(own.predicted == truth.code).astype(np.float64),
        "log_loss": find_losses(own.probability, truth.code),
    }
    figures = {}
    for name, expected in (("accuracy", _confidence), ("log_loss", _entropy)):
        mean = _target_mean(expected(target), unit_t)
        figures[name] = _augment(sampled, value_of[name], expected(own), mean, level)
    figures["accuracy"] = _within_shares(figures["accuracy"])
    return figures


def _check_answers(truth: Truth, answers: Answers) -> None:
    if truth.code is None:
        raise ConfigError(
            "target_predictions augment the figures of classifiers; predicted numbers do not say "
            "how far off they may be. Use weights.mean(squared errors, predicted=…, "
            "target_predicted=…) with a model of the errors.",
            option="target_predictions",
        )
    if answers.probability is None:
        raise ConfigError(
            "target_predictions need probabilities: columns score_<class>, or score between 0 and "
            "1 of two classes, for the judged images and for the target's.",
            option="target_predictions",
        )


def _check_other_images(table: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Refuse images that have weights: the target's must be drawn independently."""
    known = set(table["id"].map(level_text))
    same = [name for name in frame["id"].map(level_text) if name in known]
    if same:
        raise DataError(
            f"{len(same)} of {len(frame)} images of the target have ids of images that have "
            f"weights: {first_few(same)}. The target's images must be others, drawn independently "
            "of the sources; if they are, rename them.",
            option="target_predictions",
            count=len(same),
            ids=same,
        )


def _read_answers(frame: pd.DataFrame, truth: Truth) -> Answers:
    columns = find_columns([str(name) for name in frame.columns], truth.classes)
    if not (columns.score or columns.by_class):
        raise DataError(
            f"{_NAME} need probabilities: columns score or score_<class>; these have "
            f"{first_few(list(frame.columns), 12)}.",
            option="target_predictions",
            columns=[str(name) for name in frame.columns],
        )
    answers, usable_t = read_class_answers(frame, columns, truth, _NAME, [])
    lacking = int(np.count_nonzero(~usable_t))
    if lacking or answers.probability is None:
        raise DataError(
            f"{_NAME}: {lacking or len(frame)} of {len(frame)} images have no probabilities. "
            "Predict them, or leave those images out at random.",
            option="target_predictions",
            count=lacking or len(frame),
        )
    return answers


def _confidence(answers: Answers) -> Floats:
    """(n,) the probability of the predicted class; 0 for a class that the truth does not have."""
    assert answers.probability is not None
    assert answers.predicted is not None
    own_n = answers.probability[np.arange(answers.predicted.size), answers.predicted]
    return np.where(answers.predicted >= 0, own_n, 0.0)


def _entropy(answers: Answers) -> Floats:
    """(n,) −Σ_k p_k log p_k: the log-loss that the model expects."""
    assert answers.probability is not None
    return np.asarray(scipy.special.entr(answers.probability).sum(axis=1))


def find_losses(probability_nk: Floats, code_n: Ints) -> Floats:
    """Compute (n,) −log p of the truth, clipped as scikit-learn does."""
    tiny = float(np.finfo(np.float64).eps)
    true_n = probability_nk[np.arange(code_n.size), code_n]
    return np.asarray(-np.log(np.clip(true_n, tiny, 1.0 - tiny)))


def _target_mean(value_t: Floats, unit_t: Ints) -> TargetMean:
    n_units = int(unit_t.max()) + 1
    if n_units < 2:
        raise DataError(
            f"{_NAME} are of one image or group: more are needed to tell how much their mean "
            "varies.",
            option="target_predictions",
            count=n_units,
        )
    mean = float(value_t.mean())
    spread_u = add_by_code(unit_t, value_t - mean, n_units) / value_t.size
    return TargetMean(mean, None, spread_u * math.sqrt(n_units / (n_units - 1)), n_units - 1.0)


def _augment(
    sampled: Sampled, value_n: Floats, predicted_n: Floats, target: TargetMean, level: float
) -> RobustEstimate:
    units, weight_n = find_units(sampled), sampled.weight

    def spread_of(value_n: Floats) -> Floats:
        pull_n = weight_n * (value_n - weight_n @ value_n)
        return centre_within_sources(sampled, units, pull_n.size * pull_n)

    def mean_of(value_n: Floats) -> Estimate:
        mean = float(weight_n @ value_n)
        if units.cannot_vary:
            return Estimate(mean, math.inf, (-math.inf, math.inf), level)
        variance_s = add_by_code(units.stratum_m, np.square(spread_of(value_n)), units.size_s.size)
        stderr = math.sqrt(float(variance_s.sum()))
        freedom = degrees_of_freedom(variance_s, units.size_s)
        reach = stderr * float(scipy.special.stdtrit(freedom, 0.5 + level / 2))
        return Estimate(mean, stderr, (mean - reach, mean + reach), level)

    def spreads_of(value_nj: Floats, row_r: Floats | None) -> tuple[Floats, Floats]:
        columns = [spread_of(value_n) for value_n in value_nj.T]
        return np.column_stack(columns), np.zeros(units.stratum_m.size)

    return augment_mean(weight_n, value_n, predicted_n, target, units.unit_n, mean_of, spreads_of)


def _within_shares(figure: RobustEstimate) -> RobustEstimate:
    """Cut a share and its interval to [0, 1]."""
    low, value, high = np.clip([figure.interval[0], figure.value, figure.interval[1]], 0.0, 1.0)
    return replace(figure, value=float(value), interval=(float(low), float(high)))
