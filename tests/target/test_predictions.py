"""Targets from the scores of a classifier: estimate, record, refusal, configuration."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from unskew import ConfigError, CoverageError, DataError, Target, UnskewWarning
from unskew.bias import Strata
from worlds_label_shift import (
    NAMES,
    absent_class,
    blind,
    blurred,
    bursts,
    overconfident,
    pool_of,
    rare_sharp,
    subtypes,
)


def drawn(world, seed=0):
    return world(np.random.default_rng([5, seed]))


def test_shares_covariance_and_record_belong_together():
    target = drawn(overconfident).target()
    record, (fact,) = target.label_shift, target.facts
    assert target.kind == "predictions"
    assert target.by == ("label",)
    np.testing.assert_allclose(fact.mass, record.share)
    covariance = np.array(fact.covariance)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), record.stderr)
    np.testing.assert_allclose(covariance.sum(axis=0), 0, atol=1e-12)
    assert (np.linalg.eigvalsh(covariance) > -1e-12).all()
    for share, (low, high) in zip(record.share, record.interval, strict=True):
        assert 0 <= low < share < high <= 1
    assert (record.n_target, record.n_validation) == (500, 400)
    assert 0 < max(record.calibration_part) < 1


def test_a_wider_level_gives_wider_intervals():
    predictions = drawn(overconfident)
    narrow, wide = (predictions.target(level=level).label_shift for level in (0.5, 0.99))
    for (low, high), (lower, higher) in zip(narrow.interval, wide.interval, strict=True):
        assert lower < low < high < higher


def test_the_covariance_enters_the_interval_of_a_mean():
    """mᵀ Cov(q̂) m comes on top of the error of exact shares."""
    data = pool_of(np.random.default_rng(0), drawn(overconfident))
    record = data.target.label_shift
    exact = Target.margins({"label": dict(zip(record.classes, record.share, strict=True))})
    label = data.pool.frame["label"].to_numpy()
    mean_c = np.array([data.value[label == name].mean() for name in record.classes])
    own = data.debias().mean(data.value)
    alone = unskew.debias(data.pool, Strata("label"), exact).mean(data.value)
    margin = mean_c @ np.array(data.target.facts[0].covariance) @ mean_c
    assert own.value == pytest.approx(alone.value)
    assert own.stderr == pytest.approx(np.sqrt(alone.stderr**2 + margin))


def test_a_class_that_the_target_may_lack_keeps_its_error():
    data = next(
        data
        for data in (pool_of(np.random.default_rng(s), drawn(absent_class, s)) for s in range(20))
        if data.target.label_shift.share[3] < 1e-9
    )
    record = data.target.label_shift
    low, high = record.interval[3]
    assert low == 0
    assert 0.001 < high < 0.05
    assert 0.001 < record.stderr[3] < 0.05
    # its images differ from all others, so that the error of its share counts
    weights, label = data.debias(), data.pool.frame["label"].to_numpy()
    far = np.where(label == NAMES[3], 1000.0, 0.0)
    assert weights.mean(far).stderr == pytest.approx(1000 * record.stderr[3], rel=0.05)


def test_a_rare_class_has_a_skewed_interval():
    record = drawn(rare_sharp).target().label_shift
    low, high = record.interval[2]
    assert high - record.share[2] > 1.3 * (record.share[2] - low)


def test_order_and_form_of_the_input_do_not_matter():
    predictions = drawn(overconfident)
    first = predictions.target().label_shift
    names = list(NAMES[:3])
    frame = pd.DataFrame(predictions.target_scores, columns=names)
    other = pd.DataFrame(predictions.validation_scores, columns=names)
    turned = Target.from_predictions(
        frame[names[::-1]], other, predictions.validation_labels
    ).label_shift
    assert turned.classes == tuple(names[::-1])
    np.testing.assert_allclose(turned.share[::-1], first.share, atol=1e-8)
    np.testing.assert_allclose(turned.stderr[::-1], first.stderr, rtol=1e-6)
    np.testing.assert_allclose(turned.interval[::-1], first.interval, atol=2e-5)


def test_two_classes_by_the_score_of_the_second():
    rng = np.random.default_rng(3)
    label = np.repeat([0, 1], 60)
    score = 1 / (1 + np.exp(-rng.normal(np.where(label == 1, 1.5, -1.5))))
    first = Target.from_predictions(score, score, label)
    second = Target.from_predictions(np.c_[1 - score, score], np.c_[1 - score, score], label)
    assert first == second
    # the validation images themselves: their own shares
    np.testing.assert_allclose(first.label_shift.share, 0.5, atol=1e-8)
    assert first.label_shift.agreement_p > 0.9


def test_weights_count_within_classes_only():
    predictions = drawn(subtypes)
    weight = predictions.options["validation_weights"]
    label = predictions.validation_labels
    scaled = weight * np.where(label == "c0", 5.0, 0.1)
    plain = predictions.target().label_shift
    other = predictions.target(validation_weights=scaled).label_shift
    np.testing.assert_allclose(other.share, plain.share, atol=1e-9)
    np.testing.assert_allclose(other.stderr, plain.stderr, rtol=1e-6)
    dropped = np.where(np.arange(label.size) < 100, 0.0, weight)
    without = Target.from_predictions(
        predictions.target_scores,
        predictions.validation_scores[100:],
        label[100:],
        validation_weights=weight[100:],
    ).label_shift
    np.testing.assert_allclose(
        predictions.target(validation_weights=dropped).label_shift.share, without.share, atol=1e-9
    )


def test_weights_may_be_those_of_a_debiased_pool():
    predictions = drawn(overconfident)
    omega, source = np.ones((400, 2)), np.arange(400) % 2
    omega[:, 1] = np.random.default_rng(0).uniform(0.5, 1.5, 400)
    weights = unskew.debias_weights(omega, source)
    one = predictions.target(validation_weights=weights).label_shift
    other = predictions.target(validation_weights=weights.weight).label_shift
    np.testing.assert_allclose(one.share, other.share, atol=1e-10)


def test_groups_widen_the_error():
    predictions = drawn(bursts)
    grouped = predictions.target(calibrate="temperature").label_shift
    alone = predictions.target(
        calibrate="temperature", group=None, validation_group=None
    ).label_shift
    np.testing.assert_allclose(grouped.share, alone.share, atol=1e-9)
    assert min(np.divide(grouped.stderr, alone.stderr)) > 1.3
    assert np.ptp(grouped.interval[0]) > 1.3 * np.ptp(alone.interval[0])


def test_other_looks_of_a_class_are_a_warning_and_a_wider_error():
    predictions = drawn(blurred)
    with pytest.warns(UnskewWarning, match="Black-box"):
        target = Target.from_predictions(
            predictions.target_scores, predictions.validation_scores, predictions.validation_labels
        )
    record = target.label_shift
    assert record.agreement_p < 0.01
    apart = np.abs(np.subtract(record.black_box, record.share))
    assert (np.array(record.stderr) >= apart).all()


def test_it_describes_what_it_did_and_assumed():
    target = drawn(overconfident).target(missing={"label": "drop"})
    sentences = " ".join(target.describe())
    for part in ("label shift", "p(image | label)", "500", "400", "c2", "Missing values"):
        assert part in sentences
    assert "scores" in repr(target)


@pytest.mark.parametrize("world", [overconfident, blurred])
def test_what_is_written_reads_back_the_same(world):
    target = drawn(world).target(uncovered="restrict", by="animal")
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target
    assert Target.from_dict(target.to_dict()) == target


def test_a_blind_classifier_is_refused():
    predictions = drawn(blind)
    with refused(CoverageError, limit=0.25) as caught:
        predictions.target()
    assert set(caught.value.facts["levels"]) <= {"c0", "c1", "c2"}
    constant = np.full((200, 2), 0.5)
    with refused(CoverageError, limit=0.25):
        Target.from_predictions(constant, constant, np.arange(200) % 2)


def test_settings_are_checked():
    predictions = drawn(overconfident)
    with refused(ConfigError, option="calibrate", value="isotonic"):
        predictions.target(calibrate="isotonic")
    with refused(ConfigError, option="level", value=95):
        predictions.target(level=95)
    with refused(ConfigError, option="by"):
        predictions.target(by="")
    with refused(ConfigError, option="outsid"):
        predictions.target(outsid={})


def write_tables(folder, predictions, suffix="csv"):
    names = list(NAMES[:3])
    target = pd.DataFrame(predictions.target_scores, columns=names).assign(
        id=range(len(predictions.target_scores))
    )
    validation = pd.DataFrame(predictions.validation_scores, columns=names).assign(
        label=predictions.validation_labels,
        w=predictions.options.get("validation_weights", 1.0),
        patient=np.arange(len(predictions.validation_labels)) // 2,
    )
    for name, frame in (("target", target), ("validation", validation)):
        path = folder / f"{name}.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    return {"target_scores": f"target.{suffix}", "validation_scores": f"validation.{suffix}"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_of_a_configuration(tmp_path, suffix):
    predictions = drawn(subtypes)
    files = write_tables(tmp_path, predictions, suffix)
    settings = {"predictions": {**files, "weight": "w", "calibrate": "temperature"}}
    read = Target.from_dict(settings, tmp_path).label_shift
    same = predictions.target(calibrate="temperature").label_shift
    assert read.classes == same.classes
    np.testing.assert_allclose(read.share, same.share, atol=1e-9)
    grouped = {"predictions": {**files, "weight": "w", "group": "patient"}}
    assert Target.from_dict(grouped, tmp_path).label_shift.stderr != same.stderr


def test_wrong_configurations(tmp_path):
    files = write_tables(tmp_path, drawn(overconfident))
    with refused(ConfigError, key="predictions"):
        Target.from_dict({"predictions": "target.csv"}, tmp_path)
    with refused(ConfigError, key="predictions.validation_scores"):
        Target.from_dict({"predictions": {"target_scores": "target.csv"}}, tmp_path)
    with refused(ConfigError, key="predictions.labels"):
        Target.from_dict({"predictions": {**files, "labels": "label"}}, tmp_path)
    with refused(ConfigError, path=str(tmp_path / "none.csv")):
        Target.from_dict({"predictions": {**files, "target_scores": "none.csv"}}, tmp_path)
    with refused(DataError, column="truth"):
        Target.from_dict({"predictions": {**files, "label": "truth"}}, tmp_path)
    with refused(ConfigError, key="predictions.stderr"):
        Target.from_dict({"predictions": {"share": [1.0], "classes": ["a"]}}, tmp_path)
    written = drawn(overconfident).target().to_dict()
    written["predictions"]["covariance"] = [[0.0]]
    with refused(ConfigError, key="predictions.covariance"):
        Target.from_dict(written)


@pytest.mark.slow
@pytest.mark.parametrize("world", [overconfident, rare_sharp, absent_class, subtypes])
def test_intervals_of_means_hold_the_truth(world):
    """300 data sets: a binomial error of 1.3%; small shares may be covered more often."""
    hits = []
    for at in range(300):
        rng = np.random.default_rng([17, at])
        data = pool_of(rng, world(rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            low, high = data.debias().mean(data.value).interval
        hits.append(low <= data.truth <= high)
    assert 0.91 <= np.mean(hits) <= 0.995
