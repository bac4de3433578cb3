"""Predictions to judge, and scikit-learn's metrics of them as an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics as oracle

from unskew.evaluation.metrics import CALIBRATION_BINS
from unskew.evaluation.predictions import Evaluation, evaluate_predictions

N = 60


def make_case(
    n: int = 300, classes: tuple[str, ...] = ("no", "yes"), seed: int = 0, groups: int | None = None
) -> Any:
    """(table of weights, predictions): scores that know a little, rounded so that there are
    ties.
    """
    rng = np.random.default_rng(seed)
    k = len(classes)
    truth = rng.integers(k, size=n)
    logit = rng.normal(0, 1, (n, k)) + 1.2 * np.eye(k)[truth]
    probability = np.exp(logit) / np.exp(logit).sum(axis=1, keepdims=True)
    probability = np.round(probability, 2) + 0.01
    probability /= probability.sum(axis=1, keepdims=True)
    id = [f"{source}/{at}.jpg" for at, source in enumerate(rng.choice(["north", "south"], n))]
    weight = rng.exponential(1.0, n)
    table = pd.DataFrame(
        {
            "id": id,
            "source": [each.split("/")[0] for each in id],
            "label": np.array(classes)[truth],
            "sample_weight": weight / weight.mean(),
        }
    )
    if groups:
        table["group"] = [f"{each.split('/')[0]}{rng.integers(groups)}" for each in id]
    predictions = pd.DataFrame(
        {"id": id} | {f"score_{name}": probability[:, at] for at, name in enumerate(classes)}
    )
    return table, predictions


def make_sets(
    n: int = 240, labels: tuple[str, ...] = ("cat", "dog", "owl"), seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """(weights, predictions, (n, M) truth): scores that know a little, with ties."""
    rng = np.random.default_rng(seed)
    present = rng.random((n, len(labels))) < np.linspace(0.2, 0.6, len(labels))
    score = 1 / (1 + np.exp(-rng.normal(0, 1, present.shape) - 1.5 * present + 0.8))
    score = np.round(score, 2)
    id = [f"{at}.jpg" for at in range(n)]
    lists = np.empty(n, dtype=object)
    lists[:] = [[labels[m] for m in np.flatnonzero(row)] for row in present]
    table = pd.DataFrame(
        {
            "id": id,
            "source": rng.choice(["north", "south"], n),
            "label": lists,
            "sample_weight": rng.exponential(1.0, n),
        }
    )
    scores = pd.DataFrame(score, columns=[f"score_{name}" for name in labels])
    return table, pd.concat([pd.DataFrame({"id": id}), scores], axis=1), present


def judge(table: pd.DataFrame, predictions: pd.DataFrame, **options: Any) -> Evaluation:
    return evaluate_predictions(table, predictions, **({"replicates": 0} | options))


def values(evaluation: Evaluation) -> dict[str, float | None]:
    return {name: figure.value for name, figure in evaluation.overall.figures.items()}


def expected_calibration_error(right: Any, confidence: Any, weight: Any) -> float:
    """By the definition, bin after bin."""
    total = 0.0
    for at in range(CALIBRATION_BINS):
        low, high = at / CALIBRATION_BINS, (at + 1) / CALIBRATION_BINS
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            mass = weight[inside].sum()
            total += mass * abs(
                np.average(right[inside], weights=weight[inside])
                - np.average(confidence[inside], weights=weight[inside])
            )
    return float(total / weight.sum())


def sklearn_values(table: pd.DataFrame, predictions: pd.DataFrame, weight: Any) -> dict[str, float]:
    """All metrics of a classifier by scikit-learn's sample_weight."""
    classes = sorted(table["label"].unique())
    score = predictions[[f"score_{name}" for name in classes]].to_numpy()
    y, predicted = table["label"].to_numpy(), np.array(classes)[score.argmax(axis=1)]
    if len(classes) == 2:
        predicted = np.where(score[:, 1] >= 0.5, classes[1], classes[0])
    recall = oracle.recall_score(y, predicted, labels=classes, average=None, sample_weight=weight)
    expected = {
        "accuracy": oracle.accuracy_score(y, predicted, sample_weight=weight),
        "balanced_accuracy": oracle.balanced_accuracy_score(y, predicted, sample_weight=weight),
        "worst_class": recall.min(),
        "log_loss": oracle.log_loss(y, score, labels=classes, sample_weight=weight),
        "calibration_error": expected_calibration_error(
            y == np.array(classes)[score.argmax(axis=1)], score.max(axis=1), weight
        ),
    }
    if len(classes) == 2:
        auroc = oracle.roc_auc_score(y == classes[1], score[:, 1], sample_weight=weight)
        return expected | {"auroc": auroc, "sensitivity": recall[1], "specificity": recall[0]}
    one_hot = y[:, None] == np.array(classes)[None, :]
    areas = [
        oracle.roc_auc_score(one_hot[:, k], score[:, k], sample_weight=weight)
        for k in range(len(classes))
    ]
    return expected | {"auroc": float(np.mean(areas))}
