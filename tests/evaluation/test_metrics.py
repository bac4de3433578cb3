"""Weighted metrics: scikit-learn's as an oracle, and the identities of weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as oracle

from evaluation.judging import judge, make_case, sklearn_values, values


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("equal", [True, False])
def test_every_metric_is_that_of_scikit_learn(classes: tuple[str, ...], equal: bool) -> None:
    table, predictions = make_case(classes=classes)
    if equal:
        table["sample_weight"] = 1.0
    evaluation = judge(table, predictions)
    expected = sklearn_values(table, predictions, table["sample_weight"].to_numpy())
    assert values(evaluation) == pytest.approx(expected, rel=1e-12)
    unweighted = {name: figure.unweighted for name, figure in evaluation.overall.figures.items()}
    assert unweighted == pytest.approx(
        sklearn_values(table, predictions, np.ones(len(table))), rel=1e-12
    )


def test_regression_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    n = 200
    y = rng.normal(1e6, 3, n)
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "source": rng.choice(["a", "b"], n),
            "sample_weight": rng.exponential(1, n),
        }
    )
    predictions = pd.DataFrame({"id": np.arange(n), "y": y, "prediction": y + rng.normal(0, 1, n)})
    evaluation = judge(table, predictions)
    assert evaluation.task == "regression"
    assert any("regression" in note for note in evaluation.notes)
    weight, predicted = table["sample_weight"], predictions["prediction"]
    expected = {
        "mae": oracle.mean_absolute_error(y, predicted, sample_weight=weight),
        "rmse": oracle.root_mean_squared_error(y, predicted, sample_weight=weight),
        "r2": oracle.r2_score(y, predicted, sample_weight=weight),
    }
    # Squares of 10⁶ leave nine digits.
    assert values(evaluation) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_weight_two_is_an_image_twice_and_weight_zero_none(classes: tuple[str, ...]) -> None:
    table, predictions = make_case(n=120, classes=classes)
    table["sample_weight"] = np.random.default_rng(2).integers(0, 3, len(table)).astype(float)
    count = table["sample_weight"].to_numpy().astype(int)
    repeated = [
        frame.loc[frame.index.repeat(count)].reset_index(drop=True)
        for frame in (table, predictions)
    ]
    for frame in repeated:
        frame["id"] = [f"{id}#{at}" for at, id in enumerate(frame["id"])]
    repeated[0]["sample_weight"] = 1.0
    assert values(judge(table, predictions)) == pytest.approx(values(judge(*repeated)), rel=1e-12)
    positive = count > 0
    with_zero, without = (
        judge(frame, predictions, allow_extra=True) for frame in (table, table[positive])
    )
    assert values(with_zero) == values(without)
    # Images of weight 0 are in the unweighted figures, and need no prediction.
    assert with_zero.coverage.zero == (~positive).sum()
    assert with_zero.overall.images == len(table)
    assert values(judge(table, predictions[positive])) == values(without)


def test_replicates_are_metrics_of_drawn_groups() -> None:
    """A replicate that counts unit u c_u times is the metric with weights c × v: every metric,
    against scikit-learn.
    """
    from unskew.evaluation.metrics import Answers, Cells, ClassMetrics, Truth

    table, predictions = make_case(n=200, classes=("a", "b", "c"), groups=30)
    classes = ("a", "b", "c")
    unit = np.unique(table["group"], return_inverse=True)[1].astype(np.int64)
    probability = predictions[[f"score_{name}" for name in classes]].to_numpy()
    code = np.searchsorted(classes, table["label"]).astype(np.int64)
    weight = table["sample_weight"].to_numpy()
    cells = Cells(np.zeros(len(table), dtype=np.int64), 1, unit, int(unit.max()) + 1, weight)
    judged = ClassMetrics(
        cells, Truth(classes, code), [Answers(probability.argmax(axis=1), probability)]
    )
    count = (
        np.random.default_rng(0)
        .multinomial(cells.n_units, np.full(cells.n_units, 1 / cells.n_units), size=5)
        .T.astype(float)
    )
    replicates = judged.figures(count)
    for b in range(5):
        drawn = weight * count[unit, b]
        kept = drawn > 0
        expected = sklearn_values(table[kept], predictions[kept], drawn[kept])
        assert {name: value[0, b] for name, value in replicates.items()} == pytest.approx(
            expected, rel=1e-12
        )
