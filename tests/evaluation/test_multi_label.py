"""Images with any number of labels: metrics against scikit-learn, and identities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as oracle

from evaluation.judging import judge, make_case, make_sets, values
from unskew.evaluation.metrics import Answers, Cells, Truth
from unskew.evaluation.multi_label import LabelSetMetrics


def test_figures_are_those_of_scikit_learn_with_sample_weight() -> None:
    table, predictions, present = make_sets()
    score, v = predictions.drop(columns="id").to_numpy(), table["sample_weight"].to_numpy()
    evaluation = judge(table, predictions)
    by_label = {cell.name: cell for cell in evaluation.breakdown("label").cells}
    areas = [oracle.roc_auc_score(present[:, m], score[:, m], sample_weight=v) for m in range(3)]
    precisions = [
        oracle.average_precision_score(present[:, m], score[:, m], sample_weight=v)
        for m in range(3)
    ]
    f1 = oracle.f1_score(present, score >= 0.5, average=None, sample_weight=v)
    for m, name in enumerate(("cat", "dog", "owl")):
        figures = {key: figure.value for key, figure in by_label[name].figures.items()}
        assert figures["auroc"] == pytest.approx(areas[m], abs=1e-12)
        assert figures["average_precision"] == pytest.approx(precisions[m], abs=1e-12)
        assert figures["f1"] == pytest.approx(f1[m], abs=1e-12)
        assert by_label[name].images == present[:, m].sum()
        assert by_label[name].weight_share == pytest.approx(v @ present[:, m] / v.sum())
    expected = {"macro_auroc": areas, "macro_average_precision": precisions, "macro_f1": f1}
    found = values(evaluation)
    for key, by in expected.items():
        assert found[key] == pytest.approx(np.mean(by), abs=1e-12)
    micro = {"average": "micro", "sample_weight": v}
    assert found["micro_auroc"] == pytest.approx(oracle.roc_auc_score(present, score, **micro))
    assert found["micro_average_precision"] == pytest.approx(
        oracle.average_precision_score(present, score, **micro)
    )
    assert found["micro_f1"] == pytest.approx(oracle.f1_score(present, score >= 0.5, **micro))
    assert found["worst_label"] == pytest.approx(min(areas))
    worst = evaluation.breakdown("label").worst
    assert worst is not None
    assert worst.where == ("cat", "dog", "owl")[int(np.argmin(areas))]
    assert found["subset_accuracy"] == pytest.approx(
        oracle.accuracy_score(present, score >= 0.5, sample_weight=v)
    )
    assert found["label_accuracy"] == pytest.approx(
        1 - oracle.hamming_loss(present, score >= 0.5, sample_weight=v)
    )
    loss = oracle.log_loss(present.ravel(), score.ravel(), sample_weight=np.repeat(v, 3))
    assert found["log_loss"] == pytest.approx(loss)
    unweighted = evaluation.overall.figures["macro_auroc"].unweighted
    assert unweighted == pytest.approx(oracle.roc_auc_score(present, score))


def test_one_label_is_the_binary_case() -> None:
    table, predictions = make_case(n=200, groups=40)
    score = predictions[["id", "score_yes"]]
    binary = judge(table, score.rename(columns={"score_yes": "score"}), replicates=60)
    sets = np.empty(200, dtype=object)
    sets[:] = [[1] if value == "yes" else [] for value in table["label"]]
    one = judge(
        table.assign(label=sets),
        score.rename(columns={"score_yes": "score_1"}),
        replicates=60,
    )
    same = {
        "subset_accuracy": "accuracy",
        "label_accuracy": "accuracy",
        "macro_auroc": "auroc",
        "micro_auroc": "auroc",
        "worst_label": "auroc",
        "log_loss": "log_loss",
        "calibration_error": "calibration_error",
    }
    first, other = one.overall.figures, binary.overall.figures
    for name, of_two in same.items():
        assert first[name].value == pytest.approx(other[of_two].value, abs=1e-12)
        assert first[name].stderr == pytest.approx(other[of_two].stderr, abs=1e-12)
    (cell,) = one.breakdown("label").cells
    for name in ("sensitivity", "specificity"):
        assert cell.figures[name].value == pytest.approx(other[name].value, abs=1e-12)
    # Sensitivity and specificity of two classes: one of them has the interval of an extreme.
    assert cell.figures["auroc"].interval == first["worst_label"].interval


def test_weights_of_one_are_none_and_weights_of_two_are_repeats() -> None:
    # So many that no label is too rare to be the worst: a repeated image is a unit more.
    table, predictions, _ = make_sets(n=400)
    plain = judge(table.assign(sample_weight=1.0), predictions)
    assert values(plain) == pytest.approx(
        {name: figure.unweighted for name, figure in plain.overall.figures.items()}
    )
    rows = np.r_[np.arange(400), np.arange(100)]
    again = [f"{at}" for at in range(500)]
    doubled = table.assign(sample_weight=np.where(np.arange(400) < 100, 2.0, 1.0))
    repeated = judge(
        table.assign(sample_weight=1.0).iloc[rows].assign(id=again),
        predictions.iloc[rows].assign(id=again),
    )
    assert values(judge(doubled, predictions)) == pytest.approx(values(repeated), abs=1e-12)


def test_a_label_that_all_have_or_nobody_has_is_undefined_and_left_out_of_means() -> None:
    table, predictions, _ = make_sets()
    with_both = table.assign(label=[[*value, "all"] for value in table["label"]])
    score = predictions.assign(score_all=0.9, score_none=0.1)
    evaluation = judge(with_both, score, replicates=20)
    cells = {cell.name: cell for cell in evaluation.breakdown("label").cells}
    for name in ("all", "none"):
        assert not {"auroc", "average_precision", "f1"} & set(cells[name].figures)
        assert cells[name].figures["label_accuracy"].value == 1.0
        assert any(repr(name) in note for note in evaluation.notes)
    alone = values(judge(table, predictions))["macro_auroc"]
    assert values(evaluation)["macro_auroc"] == pytest.approx(alone, abs=1e-12)
    assert cells["none"].images == 0


def test_two_models_are_paired_and_their_trainings_are_means() -> None:
    table, predictions, _ = make_sets()
    noisy = predictions.copy()
    noisy.iloc[:, 1:] = np.random.default_rng(1).random((len(table), 3))
    pair = judge(table, predictions, second=noisy, replicates=50)
    assert pair.overall.difference is not None
    assert pair.overall.second is not None
    gap = pair.overall.difference["macro_auroc"]
    first, second = pair.overall.figures["macro_auroc"], pair.overall.second["macro_auroc"]
    assert gap.value == pytest.approx((second.value or 0) - (first.value or 0))
    assert gap.interval is not None
    assert gap.interval[1] < 0
    mean = judge(table, [predictions, noisy], replicates=20).overall.figures
    for name in ("macro_auroc", "macro_f1", "subset_accuracy", "calibration_error"):
        alone = [values(judge(table, one))[name] or 0 for one in (predictions, noisy)]
        assert mean[name].value == pytest.approx(np.mean(alone), abs=1e-12)


def test_metrics_of_empty_cells_do_not_exist() -> None:
    truth = Truth(("a",), present=np.ones((3, 1), dtype=np.bool_))
    answers = Answers(np.ones((3, 1), dtype=np.int64), np.full((3, 1), 0.9))
    cells = Cells(np.zeros(3, dtype=np.int64), 1, np.arange(3), 3, np.ones(3))
    metrics = LabelSetMetrics(cells, truth, [answers])
    assert metrics.worst() == [None]
    assert np.isnan(metrics.figures(np.ones((3, 1)))["macro_auroc"]).all()
    away = LabelSetMetrics(replace(cells, code=np.full(3, -1)), truth, [answers])
    assert np.isnan(away.figures(np.ones((3, 1)))["subset_accuracy"]).all()


def test_an_unknown_label_counts_nowhere_and_the_others_of_the_image_count() -> None:
    table, predictions, present = make_sets()
    rng = np.random.default_rng(1)
    known = rng.random(present.shape) > 0.3
    known[:, 0] = True
    score, v = predictions.drop(columns="id").to_numpy(), table["sample_weight"].to_numpy()
    names = ("cat", "dog", "owl")
    truth = {f"y_{name}": np.where(known, present, np.nan)[:, m] for m, name in enumerate(names)}
    evaluation = judge(table, predictions.assign(**truth))
    hits = (score >= 0.5) == present
    accuracy = [np.average(hits[known[:, m], m], weights=v[known[:, m]]) for m in range(3)]
    for m, name in enumerate(names):
        rows = known[:, m]
        cell = next(cell for cell in evaluation.breakdown("y").cells if cell.name == name)
        area = oracle.roc_auc_score(present[rows, m], score[rows, m], sample_weight=v[rows])
        assert cell.figures["auroc"].value == pytest.approx(area, abs=1e-12)
        assert cell.figures["label_accuracy"].value == pytest.approx(accuracy[m], abs=1e-12)
        assert cell.images == (present & known)[:, m].sum()
        plain = oracle.roc_auc_score(present[rows, m], score[rows, m])
        assert cell.figures["auroc"].unweighted == pytest.approx(plain, abs=1e-12)
    assert values(evaluation)["label_accuracy"] == pytest.approx(np.mean(accuracy), abs=1e-12)
    assert values(evaluation)["subset_accuracy"] == pytest.approx(
        np.average((hits | ~known).all(axis=1), weights=v), abs=1e-12
    )
    # The same gaps next to lists of labels, as a run has them.
    gaps = table[["id"]].assign(**{f"label={name}": truth[f"y_{name}"] for name in names[1:]})
    again = judge(table, predictions, attributes=gaps)
    assert values(again) == values(evaluation)
    assert any("dog" in note for note in again.notes)
