"""Calibration against closed forms, iterative proportional fitting, its optimality conditions, and
input that cannot work.
"""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from calibration_tables import CAMERAS, LABELS, table
from raising import refused
from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError
from unskew.weigh.calibrate import calibrate_weights


def mass(weight_n, label_n, level):
    return weight_n[label_n == level].sum()


def test_one_margin_is_post_stratification():
    weight_n, label_n, _, _ = table()
    result = calibrate_weights(weight_n, by={"label": label_n}, margins={"label": LABELS})
    share_n = weight_n / weight_n.sum()
    expected_n = share_n * np.array(
        [LABELS[level] / mass(share_n, label_n, level) for level in label_n]
    )
    np.testing.assert_allclose(result.weight, expected_n, rtol=1e-12)
    # The divergence of post-stratification is that of the margins.
    assert result.kl == pytest.approx(
        sum(p * np.log(p / mass(share_n, label_n, level)) for level, p in LABELS.items()), abs=1e-12
    )
    np.testing.assert_allclose(result.sample_weight, result.weight * 400)


def test_two_margins_are_the_limit_of_proportional_fitting():
    weight_n, label_n, camera_n, _ = table()
    result = calibrate_weights(
        weight_n,
        by={"label": label_n, "camera": camera_n},
        margins={"label": LABELS, "camera": CAMERAS},
    )
    fitted_n = weight_n / weight_n.sum()
    for _ in range(500):
        for label_of, margin in ((label_n, LABELS), (camera_n, CAMERAS)):
            for level, target in margin.items():
                fitted_n[label_of == level] *= target / mass(fitted_n, label_of, level)
    np.testing.assert_allclose(result.weight, fitted_n, rtol=1e-9)
    for level, target in LABELS.items():
        assert mass(result.weight, label_n, level) == pytest.approx(target, abs=1e-12)
        assert result.margins["label"][level] == pytest.approx(target, abs=1e-12)
    for level, target in CAMERAS.items():
        assert mass(result.weight, camera_n, level) == pytest.approx(target, abs=1e-12)


def test_means_hold_and_the_move_is_the_smallest():
    weight_n, label_n, camera_n, age_n = table(n=60)
    share_n = weight_n / weight_n.sum()
    result = calibrate_weights(
        weight_n,
        by={"label": label_n, "camera": camera_n},
        margins={"label": LABELS, "camera": CAMERAS},
        means={"age": (age_n, 43.0)},
    )
    assert result.means["age"] == pytest.approx(43.0, abs=1e-11)
    assert result.weight.sum() == pytest.approx(1, abs=1e-14)
    # Optimality: log(p/π) is a linear combination of the constraints and a constant.
    log_ratio_n = np.log(result.weight / share_n)
    columns = (
        [label_n == level for level in LABELS] + [camera_n == level for level in CAMERAS] + [age_n]
    )
    design = np.column_stack(columns).astype(float)
    coefficients = np.linalg.lstsq(design, log_ratio_n)[0]
    np.testing.assert_allclose(design @ coefficients, log_ratio_n, atol=1e-10)
    # Pythagoras: any other weights with the same margins (here from a linear program) are farther
    # by their divergence from p.
    feasible = scipy.optimize.linprog(
        age_n**2, A_eq=design.T, b_eq=[*LABELS.values(), *CAMERAS.values(), 43.0]
    ).x
    other_n = 0.5 * feasible + 0.5 * result.weight
    divergence = other_n @ np.log(other_n / share_n)
    assert divergence == pytest.approx(
        result.kl + other_n @ np.log(other_n / result.weight), abs=1e-9
    )
    assert divergence > result.kl


def test_margins_that_hold_change_nothing():
    weight_n, label_n, _, age_n = table()
    share_n = weight_n / weight_n.sum()
    margins = {level: mass(share_n, label_n, level) for level in LABELS}
    result = calibrate_weights(
        share_n,
        by={"label": label_n},
        margins={"label": margins},
        means={"age": (age_n, share_n @ age_n)},
    )
    np.testing.assert_allclose(result.weight, share_n, rtol=1e-11)
    assert result.kl == pytest.approx(0, abs=1e-14)
    assert result.largest_ratio == pytest.approx(1, abs=1e-11)
    assert result.ess_after == pytest.approx(result.ess_before, rel=1e-10)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.1, 5.0))
def test_order_duplicates_and_scale_do_not_matter(seed, factor):
    weight_n, label_n, camera_n, age_n = table(seed, n=80)
    rng = np.random.default_rng(seed)
    target_n = rng.dirichlet(
        np.ones(80)
    )  # margins of other weights on the same images: they can always be reached together
    labels = {level: mass(target_n, label_n, level) for level in LABELS}
    cameras = {level: mass(target_n, camera_n, level) for level in CAMERAS}

    def calibrated(rows, weight_of):
        return calibrate_weights(
            weight_of,
            by={"label": label_n[rows], "camera": camera_n[rows]},
            margins={"label": labels, "camera": cameras},
            means={"age": (age_n[rows], target_n @ age_n)},
        ).weight

    plain_n = calibrated(np.arange(80), weight_n)
    order = rng.permutation(80)
    np.testing.assert_allclose(
        calibrated(order, weight_n[order]), plain_n[order], rtol=1e-8, atol=1e-15
    )
    np.testing.assert_allclose(
        calibrated(np.arange(80), factor * weight_n), plain_n, rtol=1e-8, atol=1e-15
    )
    twice = calibrated(np.repeat(np.arange(80), 2), np.repeat(weight_n, 2))
    np.testing.assert_allclose(twice.reshape(80, 2).sum(axis=1), plain_n, rtol=1e-8, atol=1e-15)


def test_zero_mass_and_zero_weight():
    weight_n, label_n, _, _ = table()
    weight_n[::7] = 0
    result = calibrate_weights(
        weight_n,
        by={"label": label_n},
        margins={"label": {"cat": 0.6, "dog": 0.4, "fox": 0.0, "owl": 0.0}},
    )
    assert (result.weight[::7] == 0).all()
    assert (result.weight[label_n == "fox"] == 0).all()
    assert result.n_dropped == np.count_nonzero((label_n == "fox") & (weight_n > 0))
    assert result.margins["label"]["fox"] == result.margins["label"]["owl"] == 0.0
    assert result.margins["label"]["cat"] == pytest.approx(0.6, abs=1e-12)


def test_weights_record_is_accepted():
    rng = np.random.default_rng(0)
    weights = unskew.debias_weights(rng.uniform(0.5, 2, (100, 2)), np.arange(100) % 2)
    label_n = rng.integers(0, 2, 100)
    result = calibrate_weights(weights, by={"label": label_n}, margins={"label": {0: 0.5, 1: 0.5}})
    assert result.ess_before == pytest.approx(weights.ess)
    assert mass(result.weight, label_n, 1) == pytest.approx(0.5, abs=1e-12)


def test_redundant_margins_are_no_obstacle():
    weight_n, label_n, _, _ = table()
    wild_n = np.where(label_n == "fox", "wild", "pet")
    once = calibrate_weights(weight_n, by={"label": label_n}, margins={"label": LABELS})
    again = calibrate_weights(
        weight_n,
        by={"label": label_n, "wild": wild_n},
        margins={"label": LABELS, "wild": {"wild": 0.2, "pet": 0.8}},
        means={"is_cat": (label_n == "cat", 0.5), "constant": (np.full(400, 3.0), 3.0)},
    )
    np.testing.assert_allclose(again.weight, once.weight, rtol=1e-10)


def test_tiny_and_huge_scales():
    weight_n, label_n, _, age_n = table()
    result = calibrate_weights(
        weight_n,
        by={"label": label_n},
        margins={"label": LABELS},
        means={"age": (age_n * 1e9, 43e9)},
    )
    assert result.means["age"] == pytest.approx(43e9, rel=1e-12)
    plain = calibrate_weights(
        weight_n, by={"label": label_n}, margins={"label": LABELS}, means={"age": (age_n, 43)}
    )
    np.testing.assert_allclose(result.weight, plain.weight, rtol=1e-8)
    faint_n = np.where(label_n == "cat", 1e-15, 1.0) * weight_n
    result = calibrate_weights(faint_n, by={"label": label_n}, margins={"label": LABELS})
    assert result.margins["label"] == pytest.approx(LABELS, abs=1e-12)
    rare = {"cat": 1e-9, "dog": 1e-9, "fox": 1 - 2e-9}
    assert calibrate_weights(weight_n, by={"label": label_n}, margins={"label": rare}).margins[
        "label"
    ] == pytest.approx(rare, abs=1e-12)


def test_a_mean_at_the_edge_leaves_the_edge_only():
    """The largest value as the mean: all weight on the images that have it, in proportion to their
    weights.
    """
    result = calibrate_weights([1, 2, 3, 4], means={"x": ([0, 1, 2, 2], 2.0)})
    np.testing.assert_allclose(result.weight, [0, 0, 3 / 7, 4 / 7], atol=1e-12)


def test_a_margin_that_empties_a_cell():
    """Margins that only hold if no image is both a and x: a boundary that is not a level of
    mass 0.
    """
    first, second = ["a", "a", "b", "b"], ["x", "y", "x", "y"]
    result = calibrate_weights(
        [1, 1, 1, 0],
        by={"first": first, "second": second},
        margins={"first": {"a": 0.5, "b": 0.5}, "second": {"x": 0.5, "y": 0.5}},
    )
    np.testing.assert_allclose(result.weight, [0, 0.5, 0.5, 0], atol=1e-12)


def test_only_the_margins_in_conflict_are_named():
    weight_n, label_n, _, age_n = table()
    with refused(CoverageError, columns=["the mean of age"]):
        calibrate_weights(
            weight_n,
            by={"label": label_n},
            margins={"label": LABELS},
            means={"age": (age_n, 200.0)},
        )


def test_unreachable_mean_says_how_near_one_can_get():
    with refused(CoverageError, columns=["the mean of age"]) as caught:
        calibrate_weights([1, 1, 1], means={"age": ([20, 40, 60], 70.0)})
    assert "mean of age: 60 instead of 70" in str(caught.value)


def test_margins_that_contradict_each_other():
    weight_n, label_n, camera_n, _ = table()
    wild_n = np.where(label_n == "fox", "wild", "pet")
    with refused(CoverageError, columns=["the margin of label", "the margin of wild"]):
        calibrate_weights(
            weight_n,
            by={"label": label_n, "wild": wild_n, "camera": camera_n},
            margins={"label": LABELS, "wild": {"wild": 0.3, "pet": 0.7}, "camera": CAMERAS},
        )


def test_jointly_unreachable_margins():
    """All cats were taken by camera 1: a target with more cats than camera 1 has mass is out of
    reach, by 0.2.
    """
    label_n = np.array(["cat", "cat", "dog", "dog", "dog"])
    camera_n = np.array([1, 1, 1, 2, 2])
    with refused(CoverageError) as caught:
        calibrate_weights(
            np.ones(5),
            by={"label": label_n, "camera": camera_n},
            margins={"label": {"cat": 0.5, "dog": 0.5}, "camera": {1: 0.3, 2: 0.7}},
        )
    assert any(
        text in str(caught.value)
        for text in ("label = cat: 0.3 instead of 0.5", "camera = 1: 0.5 instead of 0.3")
    )


def test_bad_calls():
    with refused(ConfigError, option="margins"):
        calibrate_weights([1, 1])
    with refused(ConfigError, columns=["label"]):
        calibrate_weights([1, 1], margins={"label": {"a": 1.0}})
    with refused(DataError, column="label", count=2):
        calibrate_weights([1, 1], by={"label": ["a"]}, margins={"label": {"a": 1.0}})
    with refused(DataError, count=2, value=[3]):
        calibrate_weights([1, 1], means={"x": ([1, 2, 3], 1.0)})
    with refused(DataError, column="x"):
        calibrate_weights([1, 1], means={"x": ([1, 2], np.nan)})
    with refused(DataError, row=1, value=-1.0):
        calibrate_weights([1, -1], means={"x": ([1, 2], 1.5)})
    with refused(DataError, option="weights"):
        calibrate_weights([0, 0], means={"x": ([1, 2], 1.5)})
    with refused(DataError, option="weights", value=[2, 2]):
        calibrate_weights(np.ones((2, 2)), means={"x": ([1, 2], 1.5)})


def test_within_rounding_of_the_boundary_is_not_decided():
    """A mean beyond the largest value by less than a linear program resolves: neither weights nor a
    claim that there are none.
    """
    with pytest.raises((ConvergenceError, CoverageError)):
        calibrate_weights([1, 1], means={"x": ([0.0, 1.0], 1.0 + 1e-9)})


@pytest.mark.parametrize("factor", [1e-320, 1e308])
def test_the_size_of_the_weights_does_not_matter(factor):
    _, label_n, _, _ = table()
    plain = calibrate_weights(np.ones(400), by={"label": label_n}, margins={"label": LABELS})
    result = calibrate_weights(
        np.full(400, factor), by={"label": label_n}, margins={"label": LABELS}
    )
    np.testing.assert_allclose(result.weight, plain.weight, rtol=1e-12)


def test_no_calibration_without_a_solution():
    failed = unskew.debias_weights(np.eye(2)[[0, 0, 1, 1]], [0, 0, 1, 1], throw=False)
    with refused(ConvergenceError, value="DISCONNECTED"):
        calibrate_weights(
            failed, by={"label": list("abab")}, margins={"label": {"a": 0.5, "b": 0.5}}
        )
