"""`check_fit`: the right level under the truth, power against wrong models, and what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import LogisticRegression

import unskew
from raising import refused
from simulation_measures import draw_sets, fit_p_values
from simulations import (
    DataSet,
    known,
    known_categorical,
    known_groups,
    make_pool,
    propensity,
    strata,
    strata_disconnected,
    strata_feature,
    strata_groups_feature,
    strata_tilt,
    text,
    tilt_categorical,
    tilt_groups,
    tilt_small,
    wrong_box,
    wrong_known,
    wrong_linear,
    wrong_product,
    wrong_strata,
)
from unskew import Target
from unskew.bias import Box, Known, Propensity, Strata, Subpopulation, Tilt
from unskew.errors import ConfigError, DataError
from unskew.records import Pool

LEVELS = [
    (known, ["x"], False),
    (known, ["x"], True),
    (known_groups, ["x"], False),
    (known_groups, ["x"], True),
    (known_categorical, None, False),
    (strata_feature, ["x"], False),
    (strata_groups_feature, ["x"], False),
    (tilt_small, ["x"], False),
    (tilt_groups, ["x"], False),
    (tilt_categorical, None, False),
    (propensity, ["x"], False),
    (strata_tilt, None, False),
]
WRONG = [
    (wrong_known, ["x"], 0.7),
    (wrong_strata, ["light", "x"], 0.7),
    (wrong_linear, ["x"], 0.9),
    (wrong_box, ["x"], 0.35),
    (wrong_product, ["x", "cross"], 0.9),
]


def label_of(value) -> str | None:
    return value.__name__ if callable(value) else None


def one(recipe, seed: int = 0) -> DataSet:
    return next(iter(draw_sets(recipe, 1, seed)))


@pytest.mark.parametrize(("recipe", "features", "raw"), [LEVELS[3], LEVELS[7]], ids=label_of)
def test_the_level_over_a_few_data_sets(recipe, features, raw):
    p = fit_p_values(recipe, 60, seed=0, features=features, raw=raw)
    # A right test rejects as often as a coin of 5%: more often than this once in ten thousand
    # seeds.
    assert np.mean(p <= 0.05) <= scipy.stats.binom.ppf(1 - 1e-4, 60, 0.05) / 60
    # p-values are spread over (0, 1): half of them above a half, within four binomial standard
    # deviations.
    assert np.mean(p > 0.5) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 60))


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "features", "raw"), LEVELS, ids=label_of)
def test_the_level(recipe, features, raw):
    # 5% ± 1.5%, and one binomial sd of 600 data sets, 0.9%.
    assert np.mean(
        fit_p_values(recipe, 600, seed=1, features=features, raw=raw) <= 0.05
    ) == pytest.approx(0.05, abs=0.015 + 0.009)


@pytest.mark.parametrize(("recipe", "features", "power"), WRONG, ids=label_of)
def test_wrong_models_are_found_out(recipe, features, power):
    p = fit_p_values(recipe, 25, seed=0, features=features)
    # Measured over 500 data sets and lowered by three binomial standard deviations of 25.
    assert np.mean(p <= 0.05) >= power - 3 * math.sqrt(power * (1 - power) / 25)


def test_power_grows_with_the_images():
    def rejected(n: int) -> float:
        share = []
        for seed in range(25):
            rng = np.random.default_rng([9, seed])
            source = np.repeat([0, 1], n)
            x = rng.normal(np.array([0.3, 0.0])[source], 1.0)
            pool = make_pool(source, x=x)
            share.append(
                unskew.check_fit(
                    pool,
                    None,
                    weights=unskew.debias_weights(np.ones((2 * n, 2)), source),
                    replicates=99,
                ).p_value
                <= 0.05
            )
        return float(np.mean(share))

    few, many = rejected(40), rejected(400)
    assert few < 0.6
    assert many > 0.9


def test_the_feature_that_is_off_is_named():
    data = one(wrong_strata)
    check = unskew.check_fit(data.pool, data.bias, weights=data.debias(), features=["light", "x"])
    by_name = {feature.feature: feature for feature in check.features}
    assert by_name["light"].p_value < 0.01 < by_name["x"].p_value
    assert check.p_value < 0.05
    assert "does not describe" in check.message
    assert "light" in check.message
    assert str(check).count("p =") == 4  # all, each of two features, and both together


def test_the_excess_is_the_difference_of_shares():
    # Equal ω: source a has 30 of 40 at level a, the pool 50 of 80; expected is the pool's share.
    source = np.repeat([0, 1], 40)
    kind = np.concatenate([np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [20, 20])])
    pool = make_pool(source, kind=text(kind))
    check = unskew.check_fit(
        pool, None, weights=unskew.debias_weights(np.ones((80, 2)), source, names=["a", "b"])
    )
    (feature,) = check.features
    assert abs(feature.excess) == pytest.approx(30 / 40 - 50 / 80)
    assert feature.place in ("kind = a", "kind = b")
    assert feature.source in ("a", "b")


def test_the_statistic_against_the_chi_square_of_a_two_by_two_table():
    """Two sources, a yes-or-no feature, equal ω: the homogeneity test, up to n/(n − 1)."""
    rng = np.random.default_rng(3)
    source = np.repeat([0, 1], [150, 100])
    kind = (rng.uniform(size=250) < np.where(source == 0, 0.5, 0.38)).astype(np.int64)
    check = unskew.check_fit(
        make_pool(source, kind=text(kind)),
        None,
        weights=unskew.debias_weights(np.ones((250, 2)), source),
        replicates=9999,
    )
    table = np.array([[np.sum((source == k) & (kind == t)) for t in (0, 1)] for k in (0, 1)])
    expected = scipy.stats.chi2_contingency(table, correction=False).pvalue
    # Random signs of 250 images: the bootstrap's p-value has an error of √(p/9999) and one of order
    # 1/n.
    assert check.p_value == pytest.approx(expected, rel=0.15, abs=0.01)


def test_weights_from_debias_and_from_numbers_agree_for_known_omega():
    data = one(known)
    raw = unskew.debias_weights(data.bias.omega, data.pool.source, names=data.pool.names)
    by_model = unskew.check_fit(data.pool, data.bias, weights=data.debias(), features=["x"])
    by_number = unskew.check_fit(data.pool, None, weights=raw, features=["x"])
    assert by_model.p_value == by_number.p_value
    assert by_model.features[0].statistic == pytest.approx(
        by_number.features[0].statistic, rel=1e-8
    )


def test_a_scale_of_each_source_changes_nothing():
    data = one(known)
    first, second = (
        unskew.debias_weights(data.bias.omega * scale, data.pool.source)
        for scale in ([1.0, 1.0], [1e6, 1e-3])
    )
    a, b = (unskew.check_fit(data.pool, None, weights=weights) for weights in (first, second))
    assert a.p_value == b.p_value


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_c_of_z_cannot_be_seen():
    """Multiplying every ω_k by one function of the image changes nothing in the test."""
    data = one(known)
    common = np.exp(data.pool.frame["x"].to_numpy())[:, None]
    first, second = (
        unskew.debias_weights(data.bias.omega * factor, data.pool.source)
        for factor in (1.0, common)
    )
    a, b = (unskew.check_fit(data.pool, None, weights=weights) for weights in (first, second))
    assert a.features[0].statistic == pytest.approx(b.features[0].statistic, rel=1e-6)
    assert a.p_value == b.p_value
    assert "nothing about c(z)" in a.message


def test_the_feature_that_the_tilt_fits_exactly_is_not_used_up():
    """The mean of x is fitted, its distribution is not: a tilt is tested at thresholds of x."""
    data = one(tilt_small)
    check = unskew.check_fit(data.pool, data.bias, weights=data.debias())
    assert [feature.feature for feature in check.features] == ["x"]
    assert 0 < check.p_value <= 1
    assert check.n_replicates == 999
    assert check.n_redrawn == 400  # the sample of the target included


def test_of_many_images_some_are_redrawn():
    rng = np.random.default_rng(0)
    source, x = np.repeat([0, 1], 4000), rng.normal(size=8000)
    weights = unskew.debias_weights(np.ones((8000, 2)), source)
    pool = unskew.Pool.from_arrays(source, x=x, z=x + rng.normal(size=8000))
    check = unskew.check_fit(pool, None, weights=weights, replicates=99)
    assert 1000 <= check.n_redrawn <= 5000
    assert check.p_value > 0.02


def test_levels_that_a_model_fits_exactly_cannot_be_tested():
    """Strata reproduce the labels of every source: nothing is left to test, and p = 1."""
    data = one(strata)
    check = unskew.check_fit(data.pool, data.bias, weights=data.debias())
    assert math.isnan(check.p_value)
    assert check.features[0].p_value == 1.0
    assert "cannot be tested" in check.message


def test_the_same_seed_gives_the_same_answer():
    data = one(tilt_categorical)
    weights = data.debias()
    first, again, other = (
        unskew.check_fit(data.pool, data.bias, weights=weights, replicates=199, rng=seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    # The scale of a statistic comes from 199 replicates: a standard deviation of 10%.
    assert [feature.statistic for feature in first.features] == pytest.approx(
        [feature.statistic for feature in other.features], rel=0.5
    )


def test_one_source_cannot_be_tested():
    pool = make_pool(np.zeros(30, dtype=np.int64), x=np.arange(30.0))
    check = unskew.check_fit(
        pool, None, weights=unskew.debias_weights(np.ones((30, 1)), pool.source)
    )
    assert math.isnan(check.p_value)
    assert "one source only" in check.message


def test_sources_that_share_no_image_cannot_be_tested():
    data = one(strata_disconnected)
    data = DataSet(data.pool, data.bias, data.target, data.value, data.truth)
    pool = unskew.Pool(data.pool.frame.assign(x=data.value))
    check = unskew.check_fit(
        pool, data.bias, weights=unskew.debias(pool, data.bias, data.target), features=["x"]
    )
    assert math.isnan(check.p_value)
    assert "more than one source" in check.message


def test_a_constant_feature_is_reported_as_constant():
    source = np.repeat([0, 1], 20)
    pool = make_pool(source, x=np.random.default_rng(0).normal(size=40), flat=np.ones(40))
    check = unskew.check_fit(pool, None, weights=unskew.debias_weights(np.ones((40, 2)), source))
    flat = next(feature for feature in check.features if feature.feature == "flat")
    assert flat.p_value == 1.0
    assert "constant" in flat.place
    assert 0 < check.p_value <= 1


def test_columns_with_missing_values_are_left_out_and_none_left_is_an_error():
    source = np.repeat([0, 1], 20)
    x = np.random.default_rng(0).normal(size=40)
    hole = np.where(np.arange(40) == 3, np.nan, x)
    weights = unskew.debias_weights(np.ones((40, 2)), source)
    check = unskew.check_fit(make_pool(source, x=x, hole=hole), None, weights=weights)
    assert [feature.feature for feature in check.features] == ["x"]
    with refused(DataError, columns=["hole"]):
        unskew.check_fit(make_pool(source, hole=hole), None, weights=weights)


def test_too_few_replicates_and_another_pool_are_errors():
    data = one(tilt_small)
    weights = data.debias()
    with refused(ConfigError, option="replicates", value=10, limit=19):
        unskew.check_fit(data.pool, data.bias, weights=weights, replicates=10)
    smaller = unskew.Pool(data.pool.frame.iloc[:50])
    with refused(DataError, count=50, limit=len(data.pool)):
        unskew.check_fit(smaller, data.bias, weights=weights)
    with refused(DataError, count=50, limit=300):
        unskew.check_fit(
            smaller, None, weights=unskew.debias_weights(np.ones((300, 2)), data.pool.source)
        )


def test_a_missing_column_is_named():
    data = one(known)
    with pytest.raises((ConfigError, DataError), match="brightness"):
        unskew.check_fit(data.pool, data.bias, weights=data.debias(), features=["brightness"])


def test_groups_that_repeat_every_image_change_no_p_value():
    rng = np.random.default_rng(5)
    source = np.repeat([0, 1], 60)
    x = rng.normal(np.array([0.3, 0.0])[source], 1.0)
    once = unskew.check_fit(
        make_pool(source, x=x),
        None,
        weights=unskew.debias_weights(np.ones((120, 2)), source),
        replicates=499,
    )
    group = np.repeat(np.arange(120), 3)
    pool = make_pool(np.repeat(source, 3), x=np.repeat(x, 3), group=group)
    thrice = unskew.check_fit(
        pool,
        None,
        weights=unskew.debias_weights(np.ones((360, 2)), pool.source, group=group),
        replicates=499,
        features=["x"],
    )
    assert thrice.p_value == pytest.approx(once.p_value, abs=0.05)
    blind = unskew.check_fit(
        pool,
        None,
        weights=unskew.debias_weights(np.ones((360, 2)), pool.source),
        replicates=499,
        features=["x"],
    )
    assert blind.p_value < thrice.p_value


def test_models_by_name_compare_their_own_features_and_the_label():
    rng = np.random.default_rng(6)
    source = np.repeat([0, 1, 2], 50)
    pool = make_pool(
        source, x=rng.normal(size=150), z=rng.normal(size=150), label=text(rng.choice(2, 150))
    )
    tilt = unskew.debias(
        pool, Tilt(["x"], reference="c"), unskew.Target.source("c"), check_sample=False
    )
    assert [
        feature.feature
        for feature in unskew.check_fit(pool, Tilt(["x"]), weights=tilt, replicates=99).features
    ] == [
        "x",
        "label",
    ]
    known_model = Known({"a": 1.0, "b": 1.0, "c": 1.0})
    weights = unskew.debias(pool, known_model)
    assert {
        feature.feature
        for feature in unskew.check_fit(pool, known_model, weights=weights, replicates=99).features
    } == {
        "x",
        "z",
        "label",
    }


def test_another_model_than_the_one_behind_the_weights_is_an_error():
    # Its name would be taken for that of the model that passed.
    pool = make_pool(
        np.repeat([0, 1], 60), x=np.random.default_rng(0).normal(size=120), z=np.arange(120.0)
    )
    weights = unskew.debias(pool, Tilt(["x"], reference="a"))
    with refused(ConfigError, option="bias", value="Box(z)") as caught:
        unskew.check_fit(pool, Box(["z"]), weights=weights)
    caught.match(r"Tilt\(x\).*features=")
    for other in (Tilt(["x"], reference="a", degree=2), Tilt(["x"], reference="b")):
        with refused(ConfigError, option="bias", value="Tilt(x)"):
            unskew.check_fit(pool, other, weights=weights)
    assert (
        unskew.check_fit(
            pool, Tilt(["x"], reference="a"), weights=weights, replicates=99
        ).n_replicates
        == 99
    )
    assert (
        unskew.check_fit(pool, None, weights=weights, features=["z"], replicates=99).n_replicates
        == 99
    )


def test_another_target_than_the_one_behind_the_weights_is_an_error():
    data = one(strata_feature)
    weights = data.debias()
    checks = [
        unskew.check_fit(
            data.pool, data.bias, target, weights=weights, features=["x"], replicates=99
        )
        for target in (None, data.target)
    ]
    assert checks[0] == checks[1]
    with refused(ConfigError, option="target", value="source"):
        unskew.check_fit(data.pool, data.bias, unskew.Target.source("a"), weights=weights)


def test_a_generator_is_as_good_as_a_seed():
    data = one(tilt_small)
    weights = data.debias()
    seed = int(np.random.default_rng(3).integers(2**31))
    by_seed, by_generator = (
        unskew.check_fit(data.pool, data.bias, weights=weights, replicates=99, rng=rng)
        for rng in (seed, np.random.default_rng(3))
    )
    assert by_seed == by_generator
    with refused(ConfigError, option="rng"):
        unskew.check_fit(data.pool, data.bias, weights=weights, rng="0")


def test_models_are_compared_by_their_settings():
    pool = make_pool(np.repeat([0, 1], 60), x=np.random.default_rng(0).normal(size=120))
    omega = np.exp(0.1 * np.arange(240.0).reshape(120, 2) / 240)
    for own, other in (
        (lambda: Known(omega.copy()), Known(omega + 1.0)),
        (
            lambda: Known({"a": lambda frame: np.exp(frame["x"]), "b": 1.0}),
            Known({"a": lambda frame: np.exp(2 * frame["x"]), "b": 1.0}),
        ),
        (
            lambda: Subpopulation({"a": "x > -9", "b": "x < 9"}),
            Subpopulation({"a": "x > -9", "b": "x < 8"}),
        ),
        (
            lambda: Propensity(["x"], classifier=LogisticRegression(C=2.0), reference="a"),
            Propensity(["x"], classifier=LogisticRegression(C=1.0), reference="a"),
        ),
    ):
        weights = unskew.debias(pool, own())
        assert (
            unskew.check_fit(
                pool, own(), weights=weights, features=["x"], replicates=99
            ).n_replicates
            == 99
        )
        with refused(ConfigError, option="bias"):
            unskew.check_fit(pool, other, weights=weights, features=["x"])


def unlabelled(seed: int, label, n: int = 300, reverse: bool = False):
    """Two labelled sources and an unlabelled sample; label depends on x, alike in both or not."""
    rng = np.random.default_rng([21, seed])
    source = np.repeat([0, 1], n)
    x = rng.normal(np.array([0.5, -0.4])[source], 1.0)
    slope = np.where(reverse & (source == 1), -1.5, 1.5)
    y = label((rng.uniform(size=2 * n) < 1 / (1 + np.exp(-slope * x))).astype(np.int64))
    pool = make_pool(source, x=x, label=y)
    target = Target.sample(make_pool(np.zeros(150, dtype=int), ("t",), x=rng.normal(size=150)))
    return pool, Tilt(["x"]), target


@pytest.mark.parametrize("label", [text, lambda code: code * 2.0 + 1])
def test_an_unlabelled_sample_is_no_evidence_against_a_right_model(label):
    p = []
    for seed in range(25):
        pool, bias, target = unlabelled(seed, label)
        weights = unskew.debias(pool, bias, target, check_sample=False)
        check = unskew.check_fit(pool, bias, weights=weights, replicates=99)
        assert [feature.feature for feature in check.features] == ["x", "label"]
        assert check.joint.sources == ("a", "b")
        assert "label is compared between the other sources only" in check.notes[0]
        p.append(check.p_value)
    # As often as a coin of 5%, or more often than this once in ten thousand seeds.
    assert np.sum(np.array(p) <= 0.05) <= scipy.stats.binom.ppf(1 - 1e-4, 25, 0.05)


@pytest.mark.parametrize("label", [text, lambda code: code * 2.0 + 1])
def test_labels_that_mean_something_else_in_one_source_are_found_without_labels_of_the_target(
    label,
):
    pool, bias, target = unlabelled(0, label, reverse=True)
    weights = unskew.debias(pool, bias, target, check_sample=False)
    check = unskew.check_fit(pool, bias, weights=weights)
    assert check.p_value < 0.01
    assert check.joint.p_value < 0.01
    assert "label" in check.joint.place
    assert "x" in check.joint.place
    assert check.joint.place in check.message


def test_a_source_with_some_values_missing_is_left_out_of_that_column():
    pool, bias, target = unlabelled(1, text)
    frame = pool.frame.copy()
    frame.loc[frame.index[frame["source"] == "b"][:5], "label"] = None
    weights = unskew.debias(Pool(frame), bias, target, check_sample=False)
    check = unskew.check_fit(Pool(frame), bias, weights=weights, replicates=99)
    assert [feature.feature for feature in check.features] == ["x"]
    assert "label is not compared" in check.notes[0]
    assert "some images of `b`" in check.notes[0]


def checker_board(seed: int, strength: float, n: int = 500) -> DataSet:
    """Source b prefers images whose two levels are alike; each level by itself is as everywhere."""
    rng = np.random.default_rng([22, seed])
    source = np.repeat([0, 1], n)
    first = rng.choice(2, 2 * n)
    alike = rng.uniform(size=2 * n) < np.where(source == 0, 0.5, 1 / (1 + np.exp(-strength)))
    second = np.where(alike, first, 1 - first)
    pool = make_pool(source, first=text(first), second=text(second), z=rng.normal(size=2 * n))
    return DataSet(pool, Tilt(["first", "second", "z"], reference="a"), None, first, 0.5)


def test_what_no_column_shows_by_itself_is_found_and_named():
    data = checker_board(0, 1.0)
    check = unskew.check_fit(data.pool, data.bias, weights=data.debias())
    assert min(feature.p_value for feature in check.features) > 0.05
    assert check.p_value < 0.01
    # Of b's images a share 1/(1 + e) differs; the excess is that of a's and b's, halved by the fit.
    assert check.joint.place.count("first") == check.joint.place.count("second") == 1
    assert "no column shows by itself" in check.message


@pytest.mark.slow
def test_the_level_of_the_joint_test():
    p = []
    for seed in range(600):
        data = checker_board(seed, 0.0, n=100)
        check = unskew.check_fit(data.pool, data.bias, weights=data.debias(), replicates=199)
        p.append((check.p_value, check.joint.p_value))
    assert np.mean(np.array(p) <= 0.05, axis=0) == pytest.approx(0.05, abs=0.015 + 0.009)


def test_check_fit_takes_the_fitted_model_and_says_when_nothing_can_be_tested() -> None:
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["p", "q"], 100), label=rng.choice(["a", "b"], 200), x=rng.normal(size=200)
    )
    weights = unskew.debias(pool, Strata("label"), Target.uniform("label"))
    nothing = unskew.check_fit(pool, weights.estimation.fitted, weights=weights)
    assert "fits these features exactly" in nothing.message
    assert unskew.check_fit(pool, None, weights=weights, features=["x"]).p_value > 0.001
