"""Copies of an image are one unit of every error, while the weights stay."""

import numpy as np
import pytest

import unskew
from simulation_measures import bootstrap_of, measure_coverage
from simulations import DataSet
from unskew.weigh.sampling_units import find_units
from worlds_design import COPIES, without_content

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")


def with_groups(data: DataSet) -> DataSet:
    """Copies given as groups: what the code knew before it knew copies."""
    frame = data.pool.frame.rename(columns={"content": "group"})
    return DataSet(unskew.Pool(frame), data.bias, data.target, data.value, data.truth)


@pytest.mark.parametrize("recipe", COPIES)
def test_copies_are_groups_of_the_errors_and_leave_the_weights(recipe) -> None:
    data = recipe(np.random.default_rng(1))
    copied, grouped, plain = (
        each.debias() for each in (data, with_groups(data), without_content(data))
    )
    np.testing.assert_array_equal(copied.weight, plain.weight)
    assert copied.mean(data.value) == grouped.mean(data.value)
    assert copied.mean(data.value).stderr > 1.2 * plain.mean(data.value).stderr
    np.testing.assert_array_equal(copied.covariance(), grouped.covariance())
    assert copied.ess == plain.ess
    assert copied.ess_groups == pytest.approx(grouped.ess_groups, rel=1e-12)
    assert copied.group is None
    assert plain.unit is None
    replicates = [weights.bootstrap(5, 0, data.value).mean for weights in (copied, grouped, plain)]
    np.testing.assert_allclose(replicates[0], replicates[1], rtol=1e-9)
    assert not np.allclose(replicates[0], replicates[2], rtol=1e-3)


def test_copies_across_sources_link_their_strata() -> None:
    content = ["p", "p", "q", "r", "s", "t", "u", "v"]
    pool = unskew.Pool.from_arrays(list("aaabbbcc"), content=content)
    within = unskew.debias(pool, unskew.bias.Known(np.ones((8, 3))))
    assert sorted(find_units(within).size_s.tolist()) == [2, 2, 3]
    across = pool.with_columns({"content": ["p", "p", "q", "q", "s", "t", "u", "v"]})
    weights = unskew.debias(across, unskew.bias.Known(np.ones((8, 3))))
    assert sorted(find_units(weights).size_s.tolist()) == [2, 4]


def test_a_copy_in_the_sample_of_the_target_is_not_independent_of_it() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    names = np.array([f"image {i}" for i in range(300)], dtype=object)
    pool = unskew.Pool.from_arrays(["a"] * 200, x=x[:200], content=names[:200])

    def spread(first: int) -> float:
        rows = slice(first, first + 100)
        sample = unskew.Pool.from_arrays(["t"] * 100, x=x[rows], content=names[rows])
        weights = unskew.debias(
            pool, unskew.bias.Tilt(["x"]), unskew.Target.sample(sample), check_sample=False
        )
        rows = weights.estimation.rows
        assert (rows.unit is not None) == (first < 200)
        return rows.unit is not None and np.unique(rows.unit).size

    assert spread(150) == 250
    assert not spread(200)


def test_copies_stay_together_in_a_test_of_fit() -> None:
    data = COPIES[0](np.random.default_rng(5))
    results = [
        unskew.check_fit(each.pool, each.bias, weights=each.debias(), features=["x"])
        for each in (data, with_groups(data), without_content(data))
    ]
    assert results[0].p_value == pytest.approx(results[1].p_value, rel=1e-9)
    assert results[0].p_value != results[2].p_value


@pytest.mark.slow
@pytest.mark.parametrize("recipe", COPIES)
def test_coverage_with_copies(recipe) -> None:
    # 95% with three binomial errors of 1.26%.
    assert measure_coverage(recipe, 300, 11).share > 0.912


@pytest.mark.slow
def test_coverage_of_the_bootstrap_with_copies() -> None:
    coverage = measure_coverage(COPIES[1], 100, 12, lambda data: bootstrap_of(data, 100))
    # The spread of the replicates is the spread of the estimates up to 7% (100 data sets).
    assert coverage.stderr == pytest.approx(coverage.spread, rel=0.21)
