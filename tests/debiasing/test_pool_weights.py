"""`debias` over all families: what they describe, ids, input of the wrong kind, many sources."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest

from raising import refused
from two_sources import two_sources
from unskew import ConfigError, CoverageError, DataError, Pool, Target, debias
from unskew.bias import Box, Known, Product, Propensity, Strata, Subpopulation, Tilt
from unskew.debiasing.estimation import evaluate_fitted
from unskew.errors import UnskewWarning, WeakOverlapWarning

MARGIN = Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
CASES = {
    "known": (Known({"a": 1.0, "b": lambda frame: np.exp(frame["x"] / 2)}), None),
    "subpopulation": (Subpopulation({"a": "x < 99", "b": "all"}), None),
    "strata": (Strata("label"), MARGIN),
    "box": (Box(["x"]), None),
    "tilt": (Tilt(["x"], reference="a"), None),
    "tilt to a source": (Tilt(["x"]), Target.source("a")),
    "propensity": (Propensity(["x"], reference="a"), None),
    "product": (Product(Strata("label"), Tilt(["x"], reference="a")), MARGIN),
}


def simple_pool(n=300, seed=0, **columns):
    rng = np.random.default_rng(seed)
    source = np.where(np.arange(n) % 2, "a", "b")
    return Pool.from_arrays(
        source,
        rng.choice(["cat", "dog"], n),
        x=rng.normal(size=n) + 0.4 * (source == "b"),
        **columns,
    )


@pytest.mark.parametrize("case", CASES)
def test_every_family_weighs_describes_itself_and_scores(case):
    model, target = CASES[case]
    pool = simple_pool(id=[f"image {k}" for k in range(300)])
    weights = debias(pool, model, target)
    assert weights.weight.sum() == pytest.approx(1.0, rel=1e-12)
    assert weights.weight.min() >= 0
    described = weights.describe()
    assert described.assumed
    assert described.anchor
    assert described.estimated or case in ("known", "subpopulation")
    for word in ("Assumed: ", "Common factor c(z): "):
        assert word in str(described)
    score = weights.weigh(pool)
    if case == "propensity":  # the pool has out-of-fold values
        assert np.corrcoef(score, weights.sample_weight)[0, 1] > 0.95
    else:
        np.testing.assert_allclose(score, weights.sample_weight, rtol=1e-8)
    np.testing.assert_allclose(weights.weigh(pool.frame.iloc[:5]), score[:5], rtol=1e-9)
    np.testing.assert_allclose(weights.refit(pool).weight, weights.weight, rtol=1e-9)
    estimate = weights.mean(pool.frame["x"])
    assert estimate.stderr > 0
    assert weights.bootstrap(5, 0, pool.frame["x"]).mean.shape == (5,)


@pytest.mark.parametrize(
    "ids",
    [list(range(5, 305)), [f"f{k}" if k % 2 else k for k in range(300)]],
    ids=["integers", "mixed"],
)
def test_ids_of_any_kind(ids):
    pool = simple_pool(id=pd.Series(ids, dtype=object))
    for model, target in CASES.values():
        weights = debias(pool, model, target)
        np.testing.assert_array_equal(
            weights.align(np.array(ids[::-1], dtype=object)), weights.weight[::-1]
        )


def test_arguments_of_the_wrong_kind():
    pool = simple_pool()
    for arguments, kind, option in (
        ((pool.frame, Strata("label"), MARGIN), DataError, "pool"),
        ((pool, "strata", MARGIN), ConfigError, "bias"),
        ((pool, Strata("label"), {"label": {"cat": 1}}), ConfigError, "target"),
    ):
        with refused(kind, option=option):
            debias(*arguments)
    with refused(ConfigError, option="metod") as caught:
        debias(pool, Tilt(["x"], reference="a"), metod="sgd")
    assert "Did you mean 'method'?" in str(caught.value)
    with refused(ConfigError, option="method", value="sdg"):
        debias(pool, Tilt(["x"], reference="a"), method="sdg")
    with pytest.raises(
        DataError, match=r"Tilt\.fit takes a Pool; got DataFrame\. Make one with Pool\.from_frame"
    ):
        Tilt(["x"], reference="a").fit(pool.frame)
    with pytest.raises(ConfigError, match=r"target is an unskew\.Target"):
        Tilt(["x"], reference="a").fit(pool, "a")
    with pytest.raises(DataError, match=r"a Pool or a DataFrame.*got ndarray"):
        Tilt(["x"], reference="a").fit(pool).omega(np.ones((3, 1)))
    with refused(ConfigError, option="max_uncovered", value=0):
        debias(pool, Strata("label"), MARGIN, max_uncovered=0)


@pytest.mark.parametrize("case", ["known", "box", "tilt", "propensity"])
def test_a_margin_that_the_family_cannot_use_is_said(case):
    with pytest.warns(UnskewWarning, match="cannot use: the weights do not follow it"):
        debias(simple_pool(), CASES[case][0], MARGIN)


def test_a_pool_without_labels_or_of_odd_names():
    pool = Pool.from_arrays(
        ["a b/ü", "日本 (2)"] * 100, **{"x y: [%]": np.random.default_rng(0).normal(size=200)}
    )
    weights = debias(pool, Tilt(["x y: [%]"], reference="日本 (2)"))
    assert "x y: [%]" in weights.describe().assumed[0]
    debias(pool, Box(["x y: [%]"]))
    debias(pool, Propensity(["x y: [%]"], reference="a b/ü"))


@pytest.mark.slow
def test_a_thousand_sources_take_seconds():
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(np.arange(1000), 20).astype(str),
        rng.choice(["cat", "dog"], 20_000),
        x=rng.normal(size=20_000),
    )
    for model, target in ((Strata("label"), MARGIN), (Known(dict.fromkeys(pool.names, 1.0)), None)):
        began = time.perf_counter()
        debias(pool, model, target).mean(pool.frame["x"])
        assert time.perf_counter() - began < 60


def test_known_omega_is_solved_once_and_as_from_numbers(monkeypatch):
    """The weights of `debias` are those of `debias_weights`, without a second solve; so are a
    constant ω and groups.
    """
    from unskew import debias_weights
    from unskew.solve import profile_likelihood as entry

    solves = []
    solve = entry.solve_prepared
    monkeypatch.setattr(
        entry,
        "solve_prepared",
        lambda *given, **options: solves.append(1) or solve(*given, **options),
    )
    rng = np.random.default_rng(0)
    omega = rng.uniform(0.1, 2.0, size=(600, 3))
    source = np.repeat(["a", "b", "c"], [300, 200, 100])
    pool = Pool.from_arrays(source, group=np.arange(600) // 3, x=rng.normal(size=600))
    weights = debias(pool, Known(np.log(omega), log=True))
    assert len(solves) == 1
    plain = debias_weights(omega, source, group=np.arange(600) // 3)
    np.testing.assert_allclose(weights.weight, plain.weight, rtol=1e-9)
    np.testing.assert_allclose(
        weights.solution.log_normalizer, plain.solution.log_normalizer, atol=1e-9
    )
    assert weights.mean(pool.frame["x"]).stderr == pytest.approx(
        plain.mean(pool.frame["x"]).stderr, rel=1e-6
    )
    np.testing.assert_allclose(weights.weigh(pool), 600 * weights.weight, rtol=1e-9)
    even = debias(pool, Known(np.full((600, 3), 7.0)))
    np.testing.assert_allclose(even.weight, 1 / 600, rtol=1e-12)
    np.testing.assert_allclose(even.weigh(pool), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    "model", [Tilt(["colour"]), Propensity(["colour", "x"])], ids=lambda model: model.family
)
def test_levels_of_the_target_that_no_source_has_are_named(model):
    # A tilt is positive everywhere and a classifier needs more than a few images: neither would
    # notice that part of the target is missing.
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 200), colour=rng.choice(["red", "green"], 400), x=rng.normal(size=400)
    )

    def sample(n_blue):
        colour = np.repeat(["blue", "red", "green"], [n_blue, 30, 30])
        return Target.sample(
            Pool.from_arrays(["t"] * colour.size, colour=colour, x=rng.normal(size=colour.size))
        )

    with pytest.warns(
        UnskewWarning, match=r"11.8% of the target's images have colour = blue, which no source has"
    ):
        weights = debias(pool, model, sample(8))
    assert (
        weights.describe().population
        == "the target excluding strata with no images in any source: colour = blue (0.1176)"
    )
    facts = {"option": "max_uncovered", "value": 0.5, "limit": 0.2, "levels": ["colour = blue"]}
    with pytest.warns(UnskewWarning), refused(CoverageError, **facts):
        debias(pool, model, sample(60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert debias(pool, model, sample(0)).describe().population == "the target"


@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_replicates_without_a_level_of_the_target_are_left_out():
    label = np.array(["a"] * 100 + ["b"] * 2 + ["a"] * 100, dtype=object)
    pool = Pool.from_arrays(np.repeat(["s", "t"], [102, 100]), label=label)
    value = np.where(label == "b", 10.0, 0.0) + np.random.default_rng(0).normal(0, 0.1, 202)
    expected = debias(pool, Strata("label"), Target.margins({"label": {"a": 1, "b": 1}})).bootstrap(
        100, values=value
    )
    # Neither of two images is drawn in (100/102)^102 = 13% of the replicates.
    assert expected.n_disconnected > 0
    for target in (
        Target.uniform("label"),
        Target.margins({"label": {"a": 2, "b": 2, "c": 1}}, uncovered="restrict"),
    ):
        drawn = debias(pool, Strata("label"), target).bootstrap(100, values=value)
        assert drawn.n_disconnected == expected.n_disconnected
        np.testing.assert_allclose(drawn.mean, expected.mean, rtol=1e-12)
        assert drawn.mean.min() > 4.9


@pytest.mark.parametrize("x_of_pool", ["continuous", "few values", "far from the sample"])
def test_weights_beside_a_sample_are_the_same_from_the_solvers_rows_and_from_omega(x_of_pool):
    """Rows that repeat are stored once; and where ω of the sample is e^700 times that of the
    sources, sums of scaled rows would be 0.
    """
    pool, sample = simple_pool(), simple_pool(200, seed=1)
    drop = {"continuous": 0.0, "few values": 0.0, "far from the sample": 700.0}[x_of_pool]
    if x_of_pool == "few values":
        pool, sample = (
            Pool(part.frame.assign(x=part.frame["x"].round())) for part in (pool, sample)
        )
    largest = pool.frame["x"].max()
    faint = Known(
        {
            name: lambda frame: np.where(frame["x"] == largest, np.exp(-drop), 1.0)
            for name in pool.names
        }
    )
    model = faint if drop else Product(faint, Tilt(["x"]))
    weights = debias(pool, model, Target.sample(sample), check_sample=False)
    weight, log_total, log_normalizer = evaluate_fitted(weights.estimation.fitted)
    np.testing.assert_allclose(weights.weight, weight, rtol=1e-9, atol=0)
    np.testing.assert_allclose(weights.solution.log_normalizer, log_normalizer, rtol=1e-9)
    assert weights.estimation.log_total == pytest.approx(log_total, rel=1e-9)
    assert weights.weight.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("model", [Strata("label"), Tilt(["label"])])
def test_a_missing_column_is_named_with_the_table_that_lacks_it(model):
    frame, sample = two_sources(), two_sources(120, seed=1)
    with pytest.raises(DataError, match=r"the pool.*'label'"):
        debias(
            Pool.from_frame(frame.drop(columns="label")),
            model,
            Target.sample(Pool.from_frame(sample)),
        )
    with pytest.raises(DataError, match=r"the target's sample.*'label'"):
        debias(
            Pool.from_frame(frame),
            model,
            Target.sample(Pool.from_frame(sample.drop(columns="label"))),
        )


def test_a_weak_link_is_warned_of_once():
    frame = two_sources()
    frame["x"] += np.where(frame["source"] == "q", 6.0, 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    assert sum(issubclass(each.category, WeakOverlapWarning) for each in caught) == 1


def test_groups_in_the_pool_but_not_in_the_sample() -> None:
    import unskew

    rng = np.random.default_rng(0)
    pool = unskew.Pool.from_arrays(
        rng.choice(["a", "b"], 120), z=rng.normal(size=120), group=[f"g{at}" for at in range(120)]
    )
    sample = unskew.Pool.from_arrays(["t"] * 60, z=rng.normal(size=60))
    weights = unskew.debias(pool, unskew.bias.Tilt(["z"]), unskew.Target.sample(sample))
    assert weights.ess_groups is not None
