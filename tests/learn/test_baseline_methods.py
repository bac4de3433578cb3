"""Every baseline against its closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import ParameterGrid

from baseline_pools import COUNTS, TARGET, class_shares, small_pool
from raising import refused
from unskew import ConfigError, CoverageError, Pool, Target
from unskew.learn import BASELINES, make_baseline


def test_naive_is_one_over_n() -> None:
    found = make_baseline("naive", small_pool())
    assert found.weight.tolist() == [1 / 16] * 16
    assert found.sample_weight.tolist() == [1.0] * 16
    assert found.ess == pytest.approx(16)
    assert found.rows.tolist() == list(range(16))


def test_one_source_weighs_its_images_by_target_share_over_own_share() -> None:
    pool = small_pool()
    found = make_baseline("one_source", pool, Target.margins({"label": TARGET}), source="day")
    share = {"car": 0.6, "bus": 0.3, "truck": 0.1}
    expected = [
        TARGET[y] / share[y] / 10 if s == "day" else 0.0
        for s, y in zip(pool.frame["source"], pool.frame["label"], strict=True)
    ]
    assert found.weight == pytest.approx(np.array(expected))
    assert class_shares(pool, found.weight) == pytest.approx(TARGET)
    assert found.sample_weight.mean() == pytest.approx(1.0)
    assert "day" in found.describe()[0]
    # A source that holds everything is weighted as post-stratification of it alone.
    alone = Pool(pool.frame[pool.frame["source"] == "day"])
    assert found.weight[:10] == pytest.approx(
        Target.margins({"label": TARGET}).stratify(alone).weight
    )


def test_one_source_takes_the_levels_of_a_uniform_target_from_the_whole_pool() -> None:
    """Of the source alone, "night" would look complete: it lacks a class that only the pool
    knows.
    """
    pool, target = small_pool(), Target.uniform("label")
    with pytest.raises(CoverageError, match=r"source `night` has none of truck \(0.333\)"):
        make_baseline("one_source", pool, target, source="night")
    restricted = make_baseline(
        "one_source", pool, Target.uniform("label", uncovered="restrict"), source="night"
    )
    assert class_shares(pool, restricted.weight) == pytest.approx(
        {"car": 0.5, "bus": 0.5, "truck": 0.0}
    )
    assert "none of truck" in " ".join(restricted.describe())


@pytest.mark.parametrize("name", ["one_source", "subsample", "logit_adjustment"])
def test_a_restricted_target_is_named_with_what_is_missing(name: str) -> None:
    mass = {"car": 0.4, "bus": 0.3, "truck": 0.2, "tram": 0.1}
    target = Target.margins({"label": mass}, uncovered="restrict")
    population = target.stratify(small_pool()).population
    assert "label = tram (0.1)" in population
    assert population in " ".join(make_baseline(name, small_pool(), target).describe())
    assert "Results describe" not in " ".join(
        make_baseline(name, small_pool(), Target.uniform("label")).describe()
    )


def test_one_source_takes_the_source_worth_most_among_those_that_cover_the_target() -> None:
    counts = {("a", "x"): 9, ("a", "y"): 1, ("b", "x"): 4, ("b", "y"): 4, ("c", "x"): 50}
    found = make_baseline("one_source", small_pool(counts), Target.uniform("label"))
    assert set(found.rows.tolist()) == set(range(10, 18))
    assert found.ess == pytest.approx(8)
    assert "source b (the source whose weighted images are worth most)" in found.describe()[0]
    # Where the target may be restricted, what a source covers comes before what its images are
    # worth.
    restricted = make_baseline(
        "one_source", small_pool(counts), Target.uniform("label", uncovered="restrict")
    )
    assert (restricted.weight == found.weight).all()
    with pytest.raises(CoverageError, match=r"source `a` has none of y.*source `b` has none of x"):
        make_baseline(
            "one_source", small_pool({("a", "x"): 3, ("b", "y"): 3}), Target.uniform("label")
        )


def test_one_source_with_several_attributes_and_groups_as_units() -> None:
    pool = Pool.from_arrays(["a"] * 4 + ["b"], [0, 0, 0, 1, 1], group=[1, 1, 2, 3, 4])
    found = make_baseline("one_source", pool, Target.uniform("label", unit="group"), source="a")
    assert found.weight == pytest.approx([0.125, 0.125, 0.25, 0.5, 0.0])
    table = pd.DataFrame(
        {"label": [0, 1, 0, 1], "site": ["s", "s", "t", "t"], "mass": [0.1, 0.2, 0.3, 0.4]}
    )
    pool = Pool.from_arrays(["a"] * 5, [0, 1, 0, 1, 1], site=["s", "s", "t", "t", "t"])
    found = make_baseline("one_source", pool, Target.table(table))
    assert found.weight == pytest.approx([0.1, 0.2, 0.3, 0.2, 0.2])


def test_class_shares_are_read_from_a_labelled_sample_or_source() -> None:
    pool = small_pool()
    sample = Pool.from_arrays(["t"] * 10, ["car"] * 5 + ["bus"] * 5)
    found = make_baseline("one_source", pool, Target.sample(sample), source="night")
    assert class_shares(pool, found.weight) == pytest.approx({"car": 0.5, "bus": 0.5, "truck": 0.0})
    found = make_baseline("one_source", pool, Target.source("night"), source="day")
    assert class_shares(pool, found.weight) == pytest.approx(
        {"car": 1 / 3, "bus": 2 / 3, "truck": 0.0}
    )
    assert class_shares(pool, found.weight, "source") == pytest.approx({"day": 1.0, "night": 0.0})
    with refused(ConfigError, column="label"):
        make_baseline("one_source", pool, Target.sample(Pool.from_arrays(["t"], x=[1.0])))
    with pytest.raises(CoverageError, match="bike"):
        make_baseline("one_source", pool, Target.sample(Pool.from_arrays(["t"], ["bike"])))


def test_subsampling_takes_as_many_of_every_class_as_the_smallest_has() -> None:
    pool = small_pool({("a", 0): 30, ("b", 0): 10, ("a", 1): 7, ("b", 2): 12})
    found = make_baseline("subsample", pool)
    assert pool.frame["label"].iloc[found.rows].value_counts().to_dict() == {0: 7, 1: 7, 2: 7}
    assert set(found.weight.tolist()) == {0.0, 1 / 21}
    assert found.ess == pytest.approx(21)
    same, other = make_baseline("subsample", pool, seed=0), make_baseline("subsample", pool, seed=1)
    assert (same.rows == found.rows).all()
    assert not np.array_equal(other.rows, found.rows)
    both = make_baseline("subsample", pool, by=["source", "label"])
    assert (
        pool.frame.iloc[both.rows].groupby(["source", "label"], observed=True).size().tolist()
        == [7] * 4
    )


def test_subsampling_draws_every_image_of_a_class_equally_often() -> None:
    pool = small_pool({("a", 0): 8, ("a", 1): 2})
    times = sum(make_baseline("subsample", pool, seed=seed).weight > 0 for seed in range(400))
    # 2 of 8 in 400 draws: 100 ± 8.7; five standard deviations.
    assert (np.abs(times[:8] - 100) < 43).all()
    assert times[8:].tolist() == [400, 400]


def test_subsampling_to_a_target_uses_up_one_stratum_and_has_the_target_shares() -> None:
    pool = small_pool({("a", "x"): 100, ("a", "y"): 30, ("b", "z"): 7})
    found = make_baseline(
        "subsample", pool, Target.margins({"label": {"x": 0.5, "y": 0.5, "z": 0.0}})
    )
    assert class_shares(pool, found.weight) == pytest.approx({"x": 0.5, "y": 0.5, "z": 0.0})
    assert found.rows.size == 60
    dropped = make_baseline(
        "subsample", pool, Target.uniform("label", outside={"label": {"z": "drop"}})
    )
    assert dropped.rows.size == 60
    rare = make_baseline(
        "subsample", pool, Target.margins({"label": {"x": 0.001, "y": 0.009, "z": 0.99}})
    )
    assert class_shares(pool, rare.weight > 0) == {
        "x": 1,
        "y": 1,
        "z": 7,
    }  # no stratum of the target vanishes
    with refused(ConfigError, option="unit", value="group"):
        make_baseline(
            "subsample",
            Pool.from_arrays(["a"], [0], group=[0]),
            Target.uniform("label", unit="group"),
        )


def test_class_balanced_weights_are_n_over_m_n_y() -> None:
    pool = small_pool()
    found = make_baseline("class_balanced", pool)
    size = {"car": 8, "bus": 7, "truck": 1}
    assert found.sample_weight == pytest.approx([16 / (3 * size[y]) for y in pool.frame["label"]])
    assert class_shares(pool, found.weight) == pytest.approx(dict.fromkeys(size, 1 / 3))
    assert found.classes == ("car", "bus", "truck")


def test_the_effective_number_lies_between_equal_weights_and_balance() -> None:
    pool = small_pool()
    size_n = pool.frame.groupby("label")["id"].transform("size").to_numpy()
    assert make_baseline("class_balanced", pool, beta=0.0).weight == pytest.approx(
        np.full(16, 1 / 16)
    )
    near = make_baseline("class_balanced", pool, beta=1 - 1e-12)
    assert near.weight == pytest.approx(make_baseline("class_balanced", pool).weight)
    ratio = make_baseline("class_balanced", pool, beta=0.9).weight * (1 - 0.9**size_n)
    assert np.ptp(ratio) == pytest.approx(0.0, abs=1e-15)
    with refused(ConfigError, option="beta", value=1.0):
        make_baseline("class_balanced", pool, beta=1.0)


def test_the_offset_of_logit_adjustment_is_tau_log_pi() -> None:
    pool = small_pool()
    found = make_baseline("logit_adjustment", pool, tau=1.5)
    assert found.classes == ("car", "bus", "truck")
    assert found.logit_offset == pytest.approx(1.5 * np.log([8 / 16, 7 / 16, 1 / 16]))
    assert found.weight == pytest.approx(np.full(16, 1 / 16))
    aimed = make_baseline("logit_adjustment", pool, Target.margins({"label": TARGET}))
    assert aimed.logit_offset == pytest.approx(np.log([8 / 16 / 0.5, 7 / 16 / 0.2, 1 / 16 / 0.3]))
    uniform = make_baseline("logit_adjustment", pool, Target.uniform("label"))
    assert np.ptp(
        uniform.logit_offset - make_baseline("logit_adjustment", pool).logit_offset
    ) == pytest.approx(0, abs=1e-12)
    without = make_baseline(
        "logit_adjustment", pool, Target.margins({"label": {"car": 0.5, "bus": 0.5, "truck": 0}})
    )
    assert without.classes == ("car", "bus")
    assert without.rows.size == 15
    with refused(ConfigError, column="label", columns=["source"]):
        make_baseline("logit_adjustment", pool, Target.uniform("source"))


OF_NETWORKS = ("classifier_retraining", "deferred_weighting", "vs_loss")


def test_baselines_of_networks_have_the_offset_of_logit_adjustment() -> None:
    pool, target = small_pool(), Target.margins({"label": TARGET})
    adjusted = make_baseline("logit_adjustment", pool, target)
    made = {name: make_baseline(name, pool, target) for name in OF_NETWORKS}
    forms = ["retrained", "deferred", "loss"]
    assert [baseline.form for baseline in made.values()] == forms
    for name, baseline in made.items():
        assert baseline.logit_offset == pytest.approx(adjusted.logit_offset)
        assert baseline.weight == pytest.approx(adjusted.weight)
        assert "target shares" in baseline.sentences[0]
        with refused(ConfigError, option="form", value=baseline.form):
            baseline.fit(None, np.zeros((2, 1)), np.arange(2))
        assert (baseline.logit_factor is None) == (name != "vs_loss")
    # (n_y/n_max)^γ towards equal shares, as Kini et al. have it.
    equal = make_baseline("vs_loss", pool, tau=0.5, gamma=0.2)
    assert equal.logit_factor == pytest.approx((np.array([8, 7, 1]) / 8) ** 0.2)
    assert equal.logit_offset == pytest.approx(0.5 * np.log([8 / 16, 7 / 16, 1 / 16]))


@pytest.mark.parametrize("grid", list(ParameterGrid({"name": BASELINES, "scale": [1, 3]})), ids=str)
def test_repeating_the_whole_pool_changes_no_share_of_a_class(grid: dict[str, object]) -> None:
    """Images repeated three times: every class keeps its share of the weight, and every image a
    third (a subsample on average).
    """
    counts = {key: size * grid["scale"] for key, size in COUNTS.items()}
    pool = small_pool(counts)
    sample = Pool.from_arrays(["t"] * 6, ["car", "bus", "truck"] * 2)
    options = {"features": "label", "C": 1e4} if grid["name"] == "density_ratio" else {}
    shares = class_shares(
        pool, make_baseline(grid["name"], pool, Target.sample(sample), **options).weight
    )
    expected = (
        {"car": 8 / 16, "bus": 7 / 16, "truck": 1 / 16}
        if grid["name"] in ("naive", "logit_adjustment", *OF_NETWORKS)
        else dict.fromkeys(shares, 1 / 3)
    )
    assert shares == pytest.approx(expected, abs=2e-3)
