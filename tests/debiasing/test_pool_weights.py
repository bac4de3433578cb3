"""`debias` over all families: what they describe, ids, input of the wrong kind, many sources."""

import time

import numpy as np
import pandas as pd
import pytest

from mixed_sources import simple_pool
from raising import refused
from unskew import ConfigError, CoverageError, DataError, Pool, Target, debias
from unskew.bias import Box, Known, Product, Propensity, Strata, Subpopulation, Tilt
from unskew.errors import UnskewWarning

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
        DataError, match=r"pool is a Pool; got a DataFrame\. Make one with Pool\.from_frame"
    ):
        Tilt(["x"], reference="a").fit(pool.frame)
    with pytest.raises(ConfigError, match="target is a Target"):
        Tilt(["x"], reference="a").fit(pool, "a")
    with pytest.raises(DataError, match=r"a Pool, or a DataFrame.*got a ndarray"):
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


def test_a_part_of_the_target_without_an_image_is_refused_beside_known_biasing_functions():
    """A source that hardly ever selects foxes has none: weights cannot describe them, and no
    verdict on the weights could tell.
    """
    target = Target.margins({"label": {"cat": 0.5, "dog": 0.4, "fox": 0.1}})
    pool = Pool.from_arrays(["s"] * 4, label=["cat", "cat", "dog", "dog"])
    with refused(CoverageError) as caught:
        debias(pool, Known(np.ones((4, 1))), target)
    assert "fox" in str(caught.value)
    unlike = Target.margins({"species": {"cat": 1.0}})
    with pytest.warns(UnskewWarning, match="species"):
        debias(pool, Known(np.ones((4, 1))), unlike)


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
