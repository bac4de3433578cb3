"""Columns of labels: where truth and scores come from, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as oracle

from evaluation.judging import judge, make_sets, values
from raising import refused
from unskew.errors import ConfigError, DataError


def test_the_truth_may_be_in_columns_and_must_agree_with_the_lists() -> None:
    table, predictions, present = make_sets()
    truth = {f"y_{name}": present[:, m] for m, name in enumerate(("cat", "dog", "owl"))}
    both = predictions.assign(**truth)
    expected = values(judge(table, predictions))
    assert values(judge(table, both)) == expected
    assert values(judge(table.drop(columns="label"), both)) == expected
    assert values(judge(table.drop(columns="label"), both.astype({"y_cat": float}))) == expected
    wrong = both.assign(y_cat=~present[:, 0])
    with refused(DataError, option="truth", count=len(table)):
        judge(table, wrong)
    assert values(judge(table, wrong, truth="label")) == expected
    assert values(judge(table, wrong, truth="y"))["macro_auroc"] != expected["macro_auroc"]
    with refused(DataError, columns=["y_owl"]):
        judge(table.drop(columns="label"), both.drop(columns="y_owl"))
    with refused(DataError, column="y_dog", value=2.0):
        judge(table.drop(columns="label"), both.assign(y_dog=2))


def test_what_cannot_be_judged_is_refused_by_name() -> None:
    table, predictions, _ = make_sets()
    with refused(DataError, levels=["dog"]):
        judge(table, predictions.drop(columns="score_dog"))
    with refused(DataError, column="score_dog"):
        judge(table, predictions.assign(score_dog=np.linspace(-3, 3, len(table))))
    with refused(ConfigError, option="positive"):
        judge(table, predictions, positive="cat")
    with refused(ConfigError, option="regression"):
        judge(table, predictions, regression=True)
    with refused(ConfigError, option="target_predictions"):
        judge(table, predictions, target_predictions=predictions)
    gap = predictions.astype({"score_cat": object}).assign(
        score_cat=[None, *predictions["score_cat"][1:]]
    )
    with refused(DataError, count=1):
        judge(table, gap)
    assert judge(table, gap, allow_missing=True).coverage.missing == 1


def test_hostile_names_and_fifty_labels() -> None:
    hostile = ("b", "b_cat", "y_", "", "score_x", "=1+1", "a,b", "[red]", "naïve 🐈", "1", "all")
    labels = (*hostile, *(f"label {m}" for m in range(50 - len(hostile))))
    table, predictions, present = make_sets(n=150, labels=labels, seed=3)
    evaluation = judge(table, predictions, replicates=10)
    assert set(evaluation.classes) == set(labels)
    score = predictions.drop(columns="id").to_numpy()
    v = table["sample_weight"].to_numpy()
    cells = {cell.name: cell for cell in evaluation.breakdown("label").cells}
    for m, name in enumerate(labels):
        area = oracle.roc_auc_score(present[:, m], score[:, m], sample_weight=v)
        assert cells[name].figures["auroc"].value == pytest.approx(area, abs=1e-12)
