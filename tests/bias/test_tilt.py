"""`Tilt` against logistic regression, Gaussian truths and the rule for a sample that is left out of
training.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

from raising import refused
from simulation_measures import measure_coverage
from two_sources import two_sources
from unskew import ConfigError, DataError, Pool, Target, choose_bias, debias, debias_weights
from unskew.bias import Product, Strata, Tilt
from unskew.errors import UnskewWarning
from worlds_variance import RIDGES


def shifted_pool(seed=0, n=600, shift=1.0, **columns):
    """x ~ N(0, 1) in the reference, N(shift, 1) in "bright": log ω = shift·x − shift²/2."""
    rng = np.random.default_rng(seed)
    source = np.where(rng.random(n) < 0.5, "plain", "bright")
    x = rng.normal(size=n) + shift * (source == "bright")
    kind = np.where(rng.random(n) < 0.3 + 0.3 * (source == "bright"), "new", "old")
    return Pool.from_arrays(
        source,
        x=x,
        y=rng.normal(size=n),
        kind=kind,
        label=(rng.random(n) < 1 / (1 + np.exp(-x))),
        **columns,
    )


def raw_slopes(fitted, features):
    """∂ log ω/∂x on the scale of the table."""
    factor = fitted.factors[0]
    scale = np.array(
        [column.scale for column in factor.feature_map.columns if column.name in features]
    )
    return factor.theta[:, : len(features)] / scale


def test_coefficients_are_those_of_multinomial_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    source = rng.choice(["a", "b", "c"], 500)
    z = (
        rng.normal(size=(500, 2))
        + 0.7 * (source == "a")[:, None] * [1, 0]
        + 0.5 * (source == "b")[:, None] * [0, 1]
    )
    pool = Pool.from_arrays(source, z=z * [3.0, 0.1])
    slope = raw_slopes(Tilt(["z"], reference="c").fit(pool), ["z_0", "z_1"])
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z * [3.0, 0.1], source)
    coefficient = {name: oracle.coef_[list(oracle.classes_).index(name)] for name in "abc"}
    for k, name in enumerate(pool.names):
        np.testing.assert_allclose(
            slope[k], coefficient[name] - coefficient["c"], rtol=2e-4, atol=2e-4
        )


def test_a_gaussian_shift_has_the_analytic_slope_and_degree_2_the_analytic_curvature():
    pool = shifted_pool(1, 40_000, shift=0.8)
    bright = pool.names.index("bright")
    assert raw_slopes(Tilt(["x"], reference="plain").fit(pool), ["x"])[bright, 0] == pytest.approx(
        0.8, abs=0.04
    )
    wide = pool.frame.assign(
        x=np.where(pool.frame["source"] == "bright", 1.5 * (pool.frame["x"] - 0.8), pool.frame["x"])
    )
    factor = Tilt(["x"], reference="plain", degree=2).fit(Pool(wide)).factors[0]
    # log N(0, 1.5²) − log N(0, 1) has the second-order coefficient (1 − 1/1.5²)/2; φ is
    # standardised.
    curvature = factor.theta[bright, 1] / factor.feature_map.columns[0].scale ** 2
    assert curvature == pytest.approx((1 - 1 / 2.25) / 2, abs=0.02)


def test_weights_do_not_depend_on_units_order_of_rows_or_of_sources():
    pool = shifted_pool()
    model = Tilt(["x", "y", "kind"], reference="plain")
    plain = debias(pool, model)
    rescaled = debias(
        Pool(pool.frame.assign(x=1e4 * pool.frame["x"] - 77, y=-1e-5 * pool.frame["y"])), model
    )
    np.testing.assert_allclose(rescaled.weight, plain.weight, rtol=1e-6)
    shuffled = pool.frame.sample(frac=1, random_state=1)
    np.testing.assert_allclose(
        debias(Pool(shuffled), model).align(pool.frame["id"]), plain.weight, rtol=1e-6
    )
    turned = pool.frame.assign(
        source=pd.Categorical(pool.frame["source"], categories=pool.names[::-1])
    )
    np.testing.assert_allclose(debias(Pool(turned), model).weight, plain.weight, rtol=1e-6)
    assert debias(Pool(shuffled), model).mean(shuffled["x"]).stderr == pytest.approx(
        plain.mean(pool.frame["x"]).stderr, rel=1e-6
    )


def test_the_first_moment_of_the_reference_is_matched_and_score_and_update_agree():
    """At the maximum Σ_i π_i φ_i equals the mean that the reference shows; score(pool) is
    sample_weight, update a fresh fit.
    """
    pool = shifted_pool()
    model = Tilt(["x", "kind"], reference="plain")
    weights = debias(pool, model)
    np.testing.assert_allclose(weights.weigh(pool), weights.sample_weight, rtol=1e-9)
    levels = pool.frame.assign(kind=np.where(np.arange(600) < 30, "third", pool.frame["kind"]))
    for frame in (pool.frame.iloc[:500], levels):
        np.testing.assert_allclose(
            weights.refit(Pool(frame)).weight, debias(Pool(frame), model).weight, rtol=1e-9
        )


@pytest.mark.parametrize("labelled", [True, False])
def test_a_sample_is_left_out_by_the_rule(labelled):
    pool, sample = shifted_pool(), shifted_pool(7, 300, shift=0.0)
    frame = sample.frame.assign(source="phone")
    target = Target.sample(Pool(frame if labelled else frame.drop(columns="label")))
    weights = debias(pool, Tilt(["x"]), target, check_sample=False)
    fitted = weights.estimation.fitted
    omega = np.exp(fitted.profile.log_omega)
    whole = debias_weights(omega, fitted.data.source)
    share = np.bincount(fitted.data.source) / fitted.data.source.size
    kept = 1 / (omega[:600, :2] @ (share[:2] / whole.normalizer[:2]))
    np.testing.assert_allclose(weights.weight, kept / kept.sum(), rtol=1e-7)
    np.testing.assert_allclose(
        weights.normalizer / weights.normalizer[0],
        whole.normalizer[:2] / whole.normalizer[0],
        rtol=1e-7,
    )
    notes = " ".join(weights.describe().notes)
    assert "300 images of the target fitted the model and are left out of training" in notes
    assert (
        "p(label) of the target is assumed to follow from the features" in notes
    ) is not labelled


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, ""), (0.1, "plain has 30 of 300 images without a label"), (1.0, "plain has no labels")],
    ids=["all", "most", "none"],
)
def test_a_reference_without_labels_says_what_is_assumed_of_them(share, said):
    """A source that is the target, or that the model names, as a sample does."""
    frame = shifted_pool().frame.assign(source=np.repeat(["plain", "bright"], 300))
    pool = Pool(
        frame.assign(label=frame["label"].astype(object).where(np.arange(600) >= 300 * share))
    )
    for model, target in (
        (Tilt(["x"]), Target.source("plain")),
        (Tilt(["x"], reference="plain"), None),
    ):
        notes = [
            note
            for note in debias(pool, model, target, check_sample=False).describe().notes
            if "p(label)" in note
        ]
        assert len(notes) == bool(said)
        assert all(
            f"the reference {said}: p(label) of the target is assumed to follow from the features"
            in note
            for note in notes
        )
    choice = choose_bias(
        pool, [Tilt(["x"], reference="plain")], check=False, baseline=False, folds=2
    )
    assert ("With it, the reference plain has" in str(choice)) == bool(said)
    sentences = Target.source("plain").resolve(pool).describe()
    assert any(
        "that the labels follow from the features as in the sources is assumed" in each
        for each in sentences
    ) == bool(said)


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_simply_dropping_the_rows_of_the_sample_would_be_wrong():
    """Over 20 data sets the mean of x by the rule is right; π of all rows with the sample's dropped
    is biased by many errors.
    """
    by_rule, dropped = [], []
    for seed in range(20):
        pool, sample = shifted_pool(seed, 600, shift=1.0), shifted_pool(100 + seed, 800, shift=0.0)
        biased = Pool(pool.frame[pool.frame["source"] == "bright"])
        weights = debias(
            biased,
            Tilt(["x"]),
            Target.sample(Pool(sample.frame.assign(source="t"))),
            check_sample=False,
        )
        fitted, x = weights.estimation.fitted, biased.frame["x"]
        by_rule.append(weights.mean(x).value)
        every = debias_weights(np.exp(fitted.profile.log_omega), fitted.data.source).weight[
            : len(biased)
        ]
        dropped.append(every @ x / every.sum())
    assert abs(np.mean(by_rule)) < 4 * np.std(by_rule) / np.sqrt(20) + 0.05
    assert np.mean(dropped) > 0.2
    assert np.mean(dropped) > 8 * np.std(dropped) / np.sqrt(20)


def test_the_bootstrap_refits_and_agrees_with_the_influence_functions():
    pool = shifted_pool(2, 500)
    weights = debias(pool, Tilt(["x"], reference="plain"))
    ours = weights.mean(pool.frame["label"])
    known = debias_weights(weights.estimation.fitted.omega(pool), pool.source).mean(
        pool.frame["label"]
    )
    drawn = weights.bootstrap(80, 0, pool.frame["label"])
    assert drawn.mean.std() == pytest.approx(ours.stderr, rel=0.3)
    # Treating ω as known is too optimistic.
    assert known.stderr < ours.stderr


def test_the_jacobian_is_the_derivative():
    from dataclasses import replace

    pool = shifted_pool(3, 40)
    factor = Tilt(["x", "kind", "y"], reference="plain", degree=2).fit(pool).factors[0]
    jacobian, step = factor.jacobian(pool.frame), 1e-6
    free = [k for k in range(2) if k != factor.reference]
    for p in range(factor.n_parameters):
        moved = np.zeros_like(factor.theta)
        moved[free[p // factor.theta.shape[1]], p % factor.theta.shape[1]] = step
        up, down = (
            replace(factor, theta=factor.theta + moved),
            replace(factor, theta=factor.theta - moved),
        )
        numeric = (up.log_omega(pool.frame) - down.log_omega(pool.frame)) / (2 * step)
        np.testing.assert_allclose(jacobian[:, :, p], numeric, atol=1e-7)


def test_impossible_fits_are_refused():
    pool = shifted_pool()
    frame = pool.frame
    named = Tilt(["x"], reference="plain")
    for error, model, target, facts in (
        (ConfigError, Tilt(["x"]), None, {"option": "reference", "value": None}),
        (ConfigError, Tilt(["x"], reference="plian"), None, {"source": "plian"}),
        (ConfigError, named, Target.source("bright"), {"value": "plain", "source": "bright"}),
        (ConfigError, named, Target.sample(pool), {"option": "reference", "value": "plain"}),
        (DataError, Tilt(["x"]), Target.source("brigt"), {"source": "brigt"}),
    ):
        with refused(error, **facts):
            debias(pool, model, target)
    with pytest.raises(ConfigError, match="Did you mean 'plain'"):
        debias(pool, Tilt(["x"], reference="plian"))
    with refused(ConfigError, option="ridge", value=-1):
        Tilt(["x"], ridge=-1)
    with refused(ConfigError, option="degree", value=3):
        Tilt(["x"], degree=3)
    with pytest.warns(UnskewWarning, match="distribution of kind, which Tilt cannot use"):
        debias(pool, Tilt(["x"], reference="plain"), Target.margins({"kind": {"new": 1, "old": 1}}))
    apart = frame.assign(x=frame["x"] + 100 * (frame["source"] == "bright"))
    with pytest.warns(UnskewWarning) as caught:
        weights = debias(Pool(apart), Tilt(["x"], reference="plain"))
    said = " ".join(str(each.message) for each in caught)
    assert "x identifies the source of" in said
    assert "separate source `bright`" in said
    # All of the target is where `plain` is: nothing hangs on the normalizer of `bright`.
    assert weights.overlap.link_error < 1e-4
    assert weights.weight[apart["source"] == "bright"].sum() < 1e-4


def test_a_pool_of_one_source_and_a_source_of_one_image():
    pool = shifted_pool()
    one = debias(Pool(pool.frame.assign(source="z")), Tilt(["x"], reference="z"))
    np.testing.assert_allclose(one.weight, 1 / 600)
    source = pool.frame["source"].astype(object)
    source.iloc[0] = "lone"
    weights = debias(
        Pool(pool.frame.assign(source=source)), Tilt(["x"], reference="plain", ridge=1.0)
    )
    # One image more or less changes nothing, whatever its source's normalizer.
    assert weights.overlap.verdict == "ok"
    assert np.isfinite(weights.mean(pool.frame["x"]).stderr)


def test_groups_of_the_pool_hold_beside_a_sample_without_groups():
    pool = shifted_pool(group=np.arange(600) // 3)
    sample = Pool(shifted_pool(9, 100, shift=0).frame)
    fitted = debias(pool, Tilt(["x"]), Target.sample(sample), check_sample=False).estimation.fitted
    assert np.unique(fitted.data.fold_group[:600]).size == 200
    assert np.unique(fitted.data.fold_group[600:]).size == 100
    doubled = Pool(pd.concat([pool.frame, pool.frame.assign(id=pool.frame["id"] + 10_000)]))
    model = Tilt(["x"], reference="plain")
    one, two = (
        debias(pool, model).mean(pool.frame["y"]),
        debias(doubled, model).mean(doubled.frame["y"]),
    )
    assert two.value == pytest.approx(one.value, abs=1e-7)
    assert two.stderr == pytest.approx(one.stderr, rel=1e-4)


def test_second_degree_of_categories_alone_is_the_first():
    pool = Pool.from_frame(two_sources())
    first, second = (
        debias(pool, Tilt(["label"], reference="p", degree=degree)) for degree in (1, 2)
    )
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("ridge", [0.5, 30.0])
def test_intervals_reach_to_the_fit_without_the_ridge(ridge, product):
    rng = np.random.default_rng(4)
    source = np.repeat(["a", "b"], 150)
    x = rng.normal(np.where(source == "a", 1.0, 0.5), 1.0)
    pool = Pool.from_arrays(source, np.where(rng.random(300) < 0.5, "u", "v"), x=x)
    labels = np.where(rng.random(100) < 0.5, "u", "v")
    target = Target.sample(Pool.from_arrays(["t"] * 100, labels, x=rng.normal(size=100)))

    def weigh(ridge):
        tilt = Tilt(["x"], ridge=ridge)
        return debias(
            pool, Product(Strata("label"), tilt) if product else tilt, target, check_sample=False
        )

    plain = weigh(0.0).mean(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        weights = weigh(ridge)
        found = weights.mean(x)
    assert found.value == pytest.approx(weights.weight @ x)
    apart = abs(found.value - plain.value)
    assert apart > 0.01
    assert found.interval[0] <= plain.interval[0] + 1e-6
    assert found.interval[1] >= plain.interval[1] - 1e-6
    assert found.interval[0] < found.value < found.interval[1]
    assert found.stderr >= np.hypot(plain.stderr, apart) - 1e-6
    assert bool(caught) == (apart > plain.stderr)
    # Where the penalty is nothing, so is what it adds.
    assert weigh(1e-6).mean(x) == plain


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RIDGES)
@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_intervals_hold_with_a_ridge(recipe):
    assert measure_coverage(recipe, 300, 7).share >= 0.92
