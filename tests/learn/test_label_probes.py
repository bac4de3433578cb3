"""Probes of images with any number of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from raising import refused
from unskew.errors import DataError
from unskew.evaluation.predictions import evaluate_predictions
from unskew.learn import WayChoice, tune_label_probes, tune_probe


def make_data(n: int = 300, m: int = 3, seed: int = 0) -> tuple[Any, Any, Any]:
    """(n, 4) features, (n, m) labels that depend on them, weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    present = X @ rng.normal(size=(4, m)) + rng.logistic(size=(n, m)) > 0.5
    return X, present, rng.exponential(1.0, n)


def test_one_label_is_the_probe_of_two_classes() -> None:
    X, present, weight = make_data(m=1)
    probes = tune_label_probes(X, present, weight, ["cat"])
    tuned = tune_probe(X, present[:, 0].astype(np.int64), weight, 2)
    logit = tuned.probe.logits(X)
    expected = 1 / (1 + np.exp(logit[:, 0] - logit[:, 1]))
    assert probes.scores(X)[:, 0] == pytest.approx(expected, abs=1e-12)
    assert probes.choices[0] is not None
    assert probes.choices[0].to_dict() == tuned.choice.to_dict()


def test_each_label_is_scikit_learns_weighted_logistic_regression() -> None:
    X, present, weight = make_data()
    ridge = 0.03
    probes = tune_label_probes(
        X, present, weight, list("abc"), taus=(0.0,), ridges=(ridge,), calibrate=False
    )
    for m in range(3):
        fit = LogisticRegression(C=2 / (ridge * weight.sum()), tol=1e-10, max_iter=1000)
        fit.fit(X, present[:, m], sample_weight=weight)
        # The gradient at which L-BFGS stops is 1e-5.
        assert probes.scores(X)[:, m] == pytest.approx(fit.predict_proba(X)[:, 1], abs=1e-3)


def test_weights_of_zero_remove_and_of_two_repeat() -> None:
    X, present, _ = make_data(n=120)
    # All in the loss: a dial counts a row of weight two as one image.
    options: dict[str, Any] = {"taus": (0.0,), "ridges": (0.03,), "calibrate": False}
    double = np.where(np.arange(120) < 40, 2.0, np.where(np.arange(120) < 60, 0.0, 1.0))
    rows = np.r_[np.arange(40), np.arange(40), np.arange(60, 120)]
    one = tune_label_probes(X, present, double, list("abc"), **options)
    other = tune_label_probes(X[rows], present[rows], np.ones(rows.size), list("abc"), **options)
    assert one.coefficient == pytest.approx(other.coefficient, abs=1e-3)


def test_a_label_that_all_have_or_nobody_has_is_always_or_never_predicted() -> None:
    X, present, weight = make_data(n=80)
    present[:, 0], present[:, 1] = False, True
    probes = tune_label_probes(X, present, weight, ["none", "all", "some"], ridges=(0.03,))
    score = probes.scores(X)
    assert (score[:, 0] == 0).all()
    assert (score[:, 1] == 1).all()
    assert ((score[:, 2] > 0) & (score[:, 2] < 1)).all()
    assert probes.choices[:2] == (None, None)


def test_the_table_is_what_evaluate_reads() -> None:
    X, present, weight = make_data(n=400)
    labels = ("b", "=1", "naïve 🐈")
    probes = tune_label_probes(X[:200], present[:200], weight[:200], labels, ridges=(0.01,))
    ids = [f"{at}.jpg" for at in range(200, 400)]
    lists = [[labels[m] for m in np.flatnonzero(row)] for row in present[200:]]
    table = pd.DataFrame({"id": ids, "label": lists, "sample_weight": weight[200:]})
    evaluation = evaluate_predictions(table, probes.predict_table(ids, X[200:]), replicates=0)
    assert evaluation.task == "multi-label"
    # Features decide on the labels but for logistic noise.
    assert (evaluation.overall.figures["worst_label"].value or 0) > 0.65


def test_wrong_labels_are_refused() -> None:
    X, present, weight = make_data(n=30)
    with refused(DataError, levels=["a", "a", "b"]):
        tune_label_probes(X, present, weight, list("aab"))
    with refused(DataError, option="present_nm", value=[30, 3]):
        tune_label_probes(X, present, weight, ["a", "b"])
    with refused(DataError, option="present_nm"):
        tune_label_probes(X, np.where(present, 2, 0), weight, list("abc"))
    with refused(DataError, option="weight_n"):
        tune_label_probes(X, present, np.zeros(30), list("abc"))


def test_an_unknown_label_is_the_image_left_out_of_that_label_alone() -> None:
    X, present, weight = make_data(n=200)
    label = present.astype(float)
    label[:60, 1] = np.nan
    unit = np.arange(200) // 2
    options: dict[str, Any] = {"ridges": (0.01, 0.1)}
    probes = tune_label_probes(X, label, weight, list("abc"), unit_n=unit, **options)
    part = slice(60, 200)
    alone = tune_label_probes(
        X[part], present[part, 1:2], weight[part], ["b"], unit_n=unit[part], **options
    )
    assert np.array_equal(probes.coefficient[:, 1], alone.coefficient[:, 0])
    # All labels together are each of them by itself.
    others = tune_label_probes(X, present[:, [0, 2]], weight, ["a", "c"], unit_n=unit, **options)
    assert np.array_equal(probes.scores(X)[:, [0, 2]], others.scores(X))
    assert probes.choice.labels["b"].to_dict() == alone.choice.labels["b"].to_dict()
    assert WayChoice.from_dict(probes.choice.to_dict()) == probes.choice
