"""Predictions judged with weights: scikit-learn's metrics as an oracle, identities of weights,
intervals, two models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from unskew import ConfigError
from unskew.evaluation.metrics import CALIBRATION_BINS
from unskew.evaluation.predictions import Evaluation, evaluate_predictions


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
    y, said = table["label"].to_numpy(), np.array(classes)[score.argmax(axis=1)]
    if len(classes) == 2:
        said = np.where(score[:, 1] >= 0.5, classes[1], classes[0])
    recall = oracle.recall_score(y, said, labels=classes, average=None, sample_weight=weight)
    found = {
        "accuracy": oracle.accuracy_score(y, said, sample_weight=weight),
        "balanced_accuracy": oracle.balanced_accuracy_score(y, said, sample_weight=weight),
        "worst_class": recall.min(),
        "log_loss": oracle.log_loss(y, score, labels=classes, sample_weight=weight),
        "calibration_error": expected_calibration_error(
            y == np.array(classes)[score.argmax(axis=1)], score.max(axis=1), weight
        ),
    }
    if len(classes) == 2:
        auroc = oracle.roc_auc_score(y == classes[1], score[:, 1], sample_weight=weight)
        return found | {"auroc": auroc, "sensitivity": recall[1], "specificity": recall[0]}
    one_hot = y[:, None] == np.array(classes)[None, :]
    areas = [
        oracle.roc_auc_score(one_hot[:, k], score[:, k], sample_weight=weight)
        for k in range(len(classes))
    ]
    return found | {"auroc": float(np.mean(areas))}


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("equal", [True, False])
def test_every_metric_is_that_of_scikit_learn(classes: tuple[str, ...], equal: bool) -> None:
    table, predictions = make_case(classes=classes)
    if equal:
        table["sample_weight"] = 1.0
    found = judge(table, predictions)
    expected = sklearn_values(table, predictions, table["sample_weight"].to_numpy())
    assert values(found) == pytest.approx(expected, rel=1e-12)
    naive = {name: figure.naive for name, figure in found.overall.figures.items()}
    assert naive == pytest.approx(
        sklearn_values(table, predictions, np.ones(len(table))), rel=1e-12
    )


def test_subgroups_are_the_metrics_of_their_images() -> None:
    table, predictions = make_case(classes=("a", "b", "c"))
    found = judge(table, predictions)
    for cell in found.breakdown("source").cells:
        inside = (table["source"] == cell.name).to_numpy()
        expected = sklearn_values(
            table[inside], predictions[inside], table["sample_weight"].to_numpy()[inside]
        )
        assert {name: figure.value for name, figure in cell.figures.items()} == pytest.approx(
            expected, rel=1e-12
        )
        assert cell.images == inside.sum()
        weight = table["sample_weight"][inside]
        assert cell.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    by_label = {
        cell.name: cell.figures["accuracy"].value for cell in found.breakdown("label").cells
    }
    assert min(by_label.values()) == found.overall.figures["worst_class"].value
    assert found.overall.figures["worst_class"].where == min(
        by_label, key=lambda name: by_label[name]
    )
    assert np.mean(list(by_label.values())) == pytest.approx(
        found.overall.figures["balanced_accuracy"].value
    )
    # With one class there is nothing to tell apart.
    assert all(
        "auroc" not in cell.figures and "balanced_accuracy" not in cell.figures
        for cell in found.breakdown("label").cells
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
    found = judge(table, predictions)
    assert found.task == "regression"
    assert any("regression" in note for note in found.notes)
    weight, said = table["sample_weight"], predictions["prediction"]
    expected = {
        "mae": oracle.mean_absolute_error(y, said, sample_weight=weight),
        "rmse": oracle.root_mean_squared_error(y, said, sample_weight=weight),
        "r2": oracle.r2_score(y, said, sample_weight=weight),
    }
    # Squares of 10⁶ leave nine digits.
    assert values(found) == pytest.approx(expected, rel=1e-9)


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
    # Images of weight 0 are in the naive figures, and need no prediction.
    assert with_zero.coverage.zero == (~positive).sum()
    assert with_zero.overall.images == len(table)
    assert values(judge(table, predictions[positive])) == values(without)


def test_intervals_do_not_see_images_of_weight_zero() -> None:
    table, predictions = make_case(n=150)
    table.loc[::3, "sample_weight"] = 0.0
    kept = table["sample_weight"] > 0
    one, other = (
        judge(frame, predictions, replicates=50, allow_extra=True) for frame in (table, table[kept])
    )
    for name, figure in one.overall.figures.items():
        assert figure.interval == other.overall.figures[name].interval


def test_only_ratios_of_weights_matter_and_no_order_of_rows() -> None:
    table, predictions = make_case(groups=40)
    first = judge(table, predictions, replicates=64)
    shuffled = judge(
        table.sample(frac=1, random_state=3).assign(
            sample_weight=lambda frame: 7.0 * frame["sample_weight"]
        ),
        predictions.sample(frac=1, random_state=4),
        replicates=64,
    )
    for name, figure in first.overall.figures.items():
        other = shuffled.overall.figures[name]
        assert other.value == pytest.approx(figure.value, rel=1e-12)
        assert other.interval == pytest.approx(figure.interval, rel=1e-9)
    assert judge(table, predictions, replicates=64).to_dict() == first.to_dict()
    assert judge(table, predictions, replicates=64, seed=1).overall != first.overall


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30
    )
)
def test_auroc_with_ties_counts_pairs(rows: list[tuple[bool, int, int]]) -> None:
    """Σ over pairs of v⁺v⁻(1[s⁺ > s⁻] + 1[s⁺ = s⁻]/2)/Σ v⁺v⁻."""
    y, score, weight = (np.array(each) for each in zip(*rows, strict=True))
    id = np.arange(len(rows))
    if weight[y].sum() == 0 or weight[~y].sum() == 0:
        return
    table = pd.DataFrame(
        {"id": id, "source": "a", "label": y, "sample_weight": weight.astype(float)}
    )
    found = judge(table, pd.DataFrame({"id": id, "score": score / 3}), positive="True")
    pairs = weight[y][:, None] * weight[~y][None, :]
    wins = (score[y][:, None] > score[~y][None, :]) + 0.5 * (
        score[y][:, None] == score[~y][None, :]
    )
    assert found.overall.figures["auroc"].value == pytest.approx((pairs * wins).sum() / pairs.sum())


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
        cells, Truth(classes, code), Answers(probability.argmax(axis=1), probability)
    )
    count = (
        np.random.default_rng(0)
        .multinomial(cells.n_units, np.full(cells.n_units, 1 / cells.n_units), size=5)
        .T.astype(float)
    )
    found = judged.figures(count)
    for b in range(5):
        drawn = weight * count[unit, b]
        kept = drawn > 0
        expected = sklearn_values(table[kept], predictions[kept], drawn[kept])
        assert {name: value[0, b] for name, value in found.items()} == pytest.approx(
            expected, rel=1e-12
        )


def test_standard_error_of_accuracy_is_the_analytic_one() -> None:
    """Of a ratio Σ v a/Σ v with units drawn within sources: √Σ_s Σ_u (T_u − T̄_s)²/Σ v, T_u the
    unit's sum of v (a − mean).
    """
    table, predictions = make_case(n=2000, groups=150)
    found = judge(table, predictions, replicates=4000).overall.figures["accuracy"]
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
    assert found.stderr == pytest.approx(math.sqrt(variance) / weight.sum(), rel=0.05)
    low, high = found.interval
    assert (high - low) / (2 * 1.96) == pytest.approx(found.stderr, rel=0.06)


def test_identical_models_differ_by_exactly_nothing() -> None:
    table, predictions = make_case(classes=("a", "b", "c"), groups=60)
    found = judge(
        table, predictions, second=predictions.sample(frac=1, random_state=0), replicates=100
    )
    for cell in (found.overall, *found.breakdown("source").cells):
        assert cell.difference
        for figure in cell.difference.values():
            assert (figure.value, figure.interval, figure.stderr, figure.naive) == (
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
    found = judge(table, predictions, second=better, replicates=500)
    gap = found.overall.difference["accuracy"]
    weight = table["sample_weight"].to_numpy()
    assert gap.value == pytest.approx(weight[repaired].sum() / weight.sum())
    assert gap.naive == pytest.approx(30 / 600)
    assert gap.interval[0] > 0
    single = found.overall.figures["accuracy"].interval
    assert gap.interval[1] - gap.interval[0] < 0.75 * (single[1] - single[0])
    # The same in columns of one table.
    both = predictions.assign(score_b_no=better["score_no"], score_b_yes=better["score_yes"])
    assert judge(table, both, replicates=500).overall == found.overall


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


def test_few_effective_images_are_flagged() -> None:
    table, predictions = make_case(n=400)
    table["sample_weight"] = np.where(table["source"] == "north", 1.0, 1e-6)
    heavy = table.index[table["source"] == "south"][:5]
    table.loc[heavy, "sample_weight"] = 1.0
    cells = {cell.name: cell for cell in judge(table, predictions).breakdown("source").cells}
    assert cells["south"].few
    assert cells["south"].ess == pytest.approx(5, rel=0.01)
    assert cells["south"].figures["accuracy"].few
    assert not cells["north"].few
    assert cells["north"].weight_share > 0.9


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
    found = judge(table, predictions, replicates=400).overall.figures["auroc"]
    # Two images are both left out with probability about e⁻² (a little more or less, by source).
    assert found.undefined == pytest.approx(400 * math.exp(-2), rel=0.5)
    assert found.interval is not None
    assert found.few


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
        said = pd.DataFrame(
            {
                "id": frame["id"],
                "prediction": np.where(right == y, "yes", "no"),
                "score": rng.normal(np.where(y, 0.6, -0.6), 1),
            }
        )
        said["prediction_b"] = np.where(better == y, "yes", "no")
        found = evaluate_predictions(frame, said, replicates=300, seed=trial)
        figures = dict(found.overall.figures) | {"difference": found.overall.difference["accuracy"]}
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
            hard, y, probability, np.repeat(["s", "t"], 300), weight, replicates=300, seed=trial
        )
        for name, figure in figures.items():
            inside[name] += figure.interval[0] <= truth[name].value <= figure.interval[1]
    # As above.
    assert all(0.91 <= count / 300 <= 0.99 for count in inside.values()), inside


def _judged(n: int = 400, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": np.arange(n), "source": ["s"] * n, "label": np.where(np.arange(n) % 2, "dog", "cat")}
    )
    light = np.where(np.arange(n) % 4 < 2, "dim", "bright")
    wrong = rng.random(n) < np.where((frame["label"] == "dog") & (light == "dim"), 0.5, 0.1)
    said = np.where(wrong, np.where(frame["label"] == "dog", "cat", "dog"), frame["label"])
    table = frame.assign(sample_weight=rng.uniform(0.5, 1.5, n))
    predictions = pd.DataFrame({"id": frame["id"], "prediction": said, "light": light})
    return table, predictions, evaluate_predictions(table, predictions, replicates=60, **options)


def test_every_combination_of_two_columns_and_the_worst_of_them() -> None:
    table, predictions, found = _judged(by=["label*light"])
    part = found.breakdown("label*light")
    assert [cell.name for cell in part.cells] == [
        "cat × bright",
        "cat × dim",
        "dog × bright",
        "dog × dim",
    ]
    for cell in part.cells:
        label, light = cell.name.split(" × ")
        rows = (table["label"] == label) & (predictions["light"] == light)
        right = (predictions["prediction"] == table["label"])[rows]
        assert cell.figures["accuracy"].value == pytest.approx(
            np.average(right, weights=table["sample_weight"][rows])
        )
    assert part.worst.where == "dog × dim"
    assert part.worst.value == part.cells[3].figures["accuracy"].value
    low, high = part.worst.interval
    assert low < part.worst.value < high
    # The worst class is the worst cell of the breakdown by class.
    assert found.breakdown("label").worst.value == pytest.approx(
        found.overall.figures["worst_class"].value
    )
    with pytest.raises(ConfigError, match="--by nothing"):
        _judged(by=["label*nothing"])


def test_cells_that_are_hardly_known_are_no_worst_group() -> None:
    n = 200
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "source": ["s"] * n,
            "label": ["cat", "dog"] * (n // 2),
            "sample_weight": 1.0,
        }
    )
    place = np.array(["a", "b"] * (n // 2), dtype=object)
    place[:2] = "rare"
    said = table["label"].where(np.arange(n) % 10 != 2, "dog").where(place != "rare", "neither")
    predictions = pd.DataFrame({"id": table["id"], "prediction": said, "place": place})
    part = evaluate_predictions(table, predictions, by=["place"], replicates=20).breakdown("place")
    assert {cell.name: cell.figures["accuracy"].value for cell in part.cells}["rare"] == 0.0
    assert part.worst.where == "a"
