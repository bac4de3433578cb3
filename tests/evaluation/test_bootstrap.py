"""Intervals: closed forms, whole groups, paired differences, coverage of the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import judge, make_case
from unskew.evaluation.predictions import evaluate_predictions


def test_intervals_do_not_see_images_of_weight_zero() -> None:
    table, predictions = make_case(n=150)
    table.loc[::3, "sample_weight"] = 0.0
    kept = table["sample_weight"] > 0
    one, other = (
        judge(frame, predictions, replicates=50, allow_extra=True) for frame in (table, table[kept])
    )
    for name, figure in one.overall.figures.items():
        assert figure.interval == other.overall.figures[name].interval


def test_standard_error_of_accuracy_is_the_analytic_one() -> None:
    """Of a ratio Σ v a/Σ v with units drawn within sources: √Σ_s Σ_u (T_u − T̄_s)²/Σ v, T_u the
    unit's sum of v (a − mean).
    """
    table, predictions = make_case(n=2000, groups=150)
    figure = judge(table, predictions, replicates=4000).overall.figures["accuracy"]
    weight = table["sample_weight"].to_numpy()
    right = (np.where(predictions["score_yes"] >= 0.5, "yes", "no") == table["label"]).to_numpy()
    total = (
        pd.Series(weight * (right - np.average(right, weights=weight)))
        .groupby(table["group"].to_numpy())
        .sum()
    )
    source = total.index.str.rstrip("0123456789")
    variance = sum(
        np.square(total[source == name] - total[source == name].mean()).sum()
        for name in source.unique()
    )
    # 4,000 replicates know a standard deviation to 1/√8000 = 1.1 %; the ratio's curvature adds
    # less.
    assert figure.stderr == pytest.approx(math.sqrt(variance) / weight.sum(), rel=0.05)
    low, high = figure.interval
    assert (high - low) / (2 * 1.96) == pytest.approx(figure.stderr, rel=0.06)


def test_identical_models_differ_by_exactly_nothing() -> None:
    table, predictions = make_case(classes=("a", "b", "c"), groups=60)
    evaluation = judge(
        table, predictions, second=predictions.sample(frac=1, random_state=0), replicates=100
    )
    for cell in (evaluation.overall, *evaluation.breakdown("source").cells):
        assert cell.difference
        for figure in cell.difference.values():
            assert (figure.value, figure.interval, figure.stderr, figure.unweighted) == (
                0.0,
                (0.0, 0.0),
                0.0,
                0.0,
            )


def test_a_paired_difference_is_narrower_than_two_intervals() -> None:
    table, predictions = make_case(n=600)
    rng = np.random.default_rng(5)
    better = predictions.copy()
    wrong = np.flatnonzero(np.where(predictions["score_yes"] >= 0.5, "yes", "no") != table["label"])
    repaired = rng.choice(wrong, 30, replace=False)
    for at in repaired:
        better.loc[at, ["score_no", "score_yes"]] = (
            (0.9, 0.1) if table["label"][at] == "no" else (0.1, 0.9)
        )
    evaluation = judge(table, predictions, second=better, replicates=500)
    gap = evaluation.overall.difference["accuracy"]
    weight = table["sample_weight"].to_numpy()
    assert gap.value == pytest.approx(weight[repaired].sum() / weight.sum())
    assert gap.unweighted == pytest.approx(30 / 600)
    assert gap.interval[0] > 0
    single = evaluation.overall.figures["accuracy"].interval
    assert gap.interval[1] - gap.interval[0] < 0.75 * (single[1] - single[0])
    # The same in columns of one table.
    both = predictions.assign(score_b_no=better["score_no"], score_b_yes=better["score_yes"])
    assert judge(table, both, replicates=500).overall == evaluation.overall


def test_a_share_of_one_has_the_interval_of_its_effective_images() -> None:
    n = 40
    table = pd.DataFrame(
        {"id": np.arange(n), "source": "a", "label": ["x", "y"] * (n // 2), "sample_weight": 1.0}
    )
    right = pd.DataFrame({"id": np.arange(n), "prediction": table["label"]})
    for predictions, value in ((right, 1.0), (right.assign(prediction=["y", "x"] * (n // 2)), 0.0)):
        figure = judge(table, predictions, replicates=50).overall.figures["accuracy"]
        assert figure.value == value
        # Clopper and Pearson's interval of n out of n.
        reach = 0.025 ** (1 / n)
        assert figure.interval == pytest.approx((reach, 1.0) if value else (0.0, 1 - reach))


def test_a_difference_that_few_images_have_alike_is_not_certain() -> None:
    """Of 8 images one model has all and the other none right; elsewhere both are alike."""
    n = 40
    source = np.where(np.arange(n) < 8, "few", "many")
    table = pd.DataFrame(
        {"id": np.arange(n), "source": source, "label": ["x", "y"] * (n // 2), "sample_weight": 1.0}
    )
    right = pd.DataFrame({"id": np.arange(n), "prediction": table["label"]})
    wrong = right.assign(prediction=np.where(source == "few", "z", right["prediction"]))
    cells = judge(table, right, second=wrong, replicates=50).breakdown("source").cells
    few, many = (cell.difference["accuracy"] for cell in cells)
    # As many others as n of n may hide (Clopper and Pearson) may differ by 1 the other way.
    assert few.value == -1.0
    assert few.interval == pytest.approx((-1.0, 1.0 - 2.0 * 0.025 ** (1 / 8)))
    assert many.value == 0.0
    hidden = 1.0 - 0.025 ** (1 / 32)
    assert many.interval == pytest.approx((-hidden, hidden))


def test_groups_are_drawn_whole() -> None:
    """Every image ten times within its group: the same figures and intervals as once."""
    table, predictions = make_case(n=80)
    table["group"] = table["id"]
    once = judge(table, predictions, replicates=200).overall
    tenfold = [
        frame.loc[frame.index.repeat(10)].reset_index(drop=True) for frame in (table, predictions)
    ]
    for frame in tenfold:
        frame["id"] = [f"{id}#{at % 10}" for at, id in enumerate(frame["id"])]
    many = judge(*tenfold, replicates=200).overall
    for name, figure in once.figures.items():
        assert many.figures[name].interval == pytest.approx(figure.interval, rel=1e-9)
        assert many.figures[name].effective == pytest.approx(figure.effective)
    assert many.ess == pytest.approx(10 * once.ess)
    assert many.ess_groups == pytest.approx(once.ess_groups)


def test_a_replicate_without_a_class_is_counted_not_guessed() -> None:
    table, predictions = make_case(n=60, classes=("a", "b"))
    table["label"] = ["b", "b", *["a"] * 58]
    figure = judge(table, predictions, replicates=400).overall.figures["auroc"]
    # Two images are both left out with probability about e⁻² (a little more or less, by source).
    assert figure.undefined == pytest.approx(400 * math.exp(-2), rel=0.5)
    assert figure.interval is not None
    assert figure.few


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """Two sources with their own share of a subgroup in which the model errs more; weights known.
    300 trials: ±2.5 points.
    """
    rng = np.random.default_rng(0)
    trials, inside = 300, {name: 0 for name in ("accuracy", "auroc", "sensitivity", "difference")}
    truth = {"accuracy": 0.5 * 0.9 + 0.5 * 0.7, "sensitivity": 0.8, "difference": 0.05}
    # Scores are normal with unit variance around ±shift by class: AUROC Φ(2·shift/√2), the same in
    # both subgroups.
    from scipy.stats import norm

    truth["auroc"] = float(norm.cdf(2 * 0.6 / math.sqrt(2)))
    for trial in range(trials):
        parts = []
        for source, share in (("s", 0.8), ("t", 0.3)):
            hard = rng.random(300) < share
            parts.append(pd.DataFrame({"source": source, "hard": hard}))
        frame = pd.concat(parts, ignore_index=True)
        y = rng.random(600) < 0.5
        pooled = frame["hard"].mean()
        right = rng.random(600) < np.where(frame["hard"], 0.7, 0.9)
        better = right | (rng.random(600) < np.where(frame["hard"], 0.05 / 0.3, 0.05 / 0.1))
        frame["label"] = np.where(y, "yes", "no")
        frame["sample_weight"] = np.where(frame["hard"], 0.5 / pooled, 0.5 / (1 - pooled))
        frame["id"] = np.arange(600)
        predicted = pd.DataFrame(
            {
                "id": frame["id"],
                "prediction": np.where(right == y, "yes", "no"),
                "score": rng.normal(np.where(y, 0.6, -0.6), 1),
            }
        )
        predicted["prediction_b"] = np.where(better == y, "yes", "no")
        evaluation = evaluate_predictions(frame, predicted, replicates=300, rng=trial)
        figures = dict(evaluation.overall.figures) | {
            "difference": evaluation.overall.difference["accuracy"]
        }
        for name in inside:
            low, high = figures[name].interval
            inside[name] += low <= truth[name] <= high
    # 95 % nominal; the standard error of a coverage over 300 trials is 1.3 points.
    assert all(0.91 <= count / trials <= 0.99 for count in inside.values()), inside


def _three_classes(n: int, share: float, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """(is it hard, class, probabilities that are too sure) of n images, of which a share is
    hard.
    """
    hard, y = rng.random(n) < share, rng.integers(3, size=n)
    logit = rng.normal(0, 1, (n, 3)) + np.where(hard, 0.8, 2.0)[:, None] * np.eye(3)[y] * np.array(
        [1.3, 1.0, 0.7]
    )
    probability = np.exp(1.4 * logit)
    return hard, y, probability / probability.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_intervals_of_all_metrics_cover_their_truth() -> None:
    """Three classes, two sources with their own share of hard images, known weights; the truth from
    400,000 images of the target.
    """
    rng = np.random.default_rng(1)

    def judged(
        hard: Any, y: Any, probability: Any, source: Any, weight: Any, **options: Any
    ) -> Any:
        id = np.arange(y.size)
        table = pd.DataFrame(
            {"id": id, "source": source, "label": np.array(list("abc"))[y], "sample_weight": weight}
        )
        scores = pd.DataFrame(
            {"id": id} | {f"score_{name}": probability[:, k] for k, name in enumerate("abc")}
        )
        return evaluate_predictions(table, scores, **options).overall.figures

    truth = judged(*_three_classes(400_000, 0.5, rng), "target", 1.0, replicates=0)
    inside = dict.fromkeys(truth, 0)
    for trial in range(300):
        parts = [_three_classes(300, share, rng) for share in (0.8, 0.3)]
        hard, y, probability = (np.concatenate(each) for each in zip(*parts, strict=True))
        weight = np.where(hard, 0.5 / 0.55, 0.5 / 0.45)
        figures = judged(
            hard, y, probability, np.repeat(["s", "t"], 300), weight, replicates=300, rng=trial
        )
        for name, figure in figures.items():
            inside[name] += figure.interval[0] <= truth[name].value <= figure.interval[1]
    # As above.
    assert all(0.91 <= count / 300 <= 0.99 for count in inside.values()), inside
