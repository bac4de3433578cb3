"""What further images would do: exact where the truth is a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import simulations as recipes
import unskew
from unskew.diagnosis.collectables import list_collectables
from unskew.diagnosis.expected_problem import Collectable, ExpectedProblem, expect_problem
from unskew.weigh.sampling_units import find_units
from unskew.weigh.uncertainty import spread_of_mean, weighted_mean

RECIPES = [recipes.known, recipes.strata, recipes.tilt, recipes.strata_tilt, recipes.tilt_source]


def problem_of(
    recipe: recipes.Recipe, seed: int = 0, **options: int
) -> tuple[recipes.DataSet, unskew.Weights, ExpectedProblem, float]:
    data = recipe(np.random.default_rng(seed))
    weights = data.debias()
    stderr = weighted_mean(weights, data.value).stderr
    problem = expect_problem(weights, {"value": data.value}, {"value": stderr}, **options)
    return data, weights, problem, stderr


def kind_of(weights: unskew.Weights, problem: ExpectedProblem, kind: str, name: str) -> Collectable:
    kinds = list_collectables(weights, problem)
    return next(each for each in kinds if (each.kind, each.name) == (kind, name))


@pytest.mark.parametrize("recipe", RECIPES)
def test_with_no_further_image_errors_are_those_of_today(recipe: recipes.Recipe) -> None:
    _, weights, problem, stderr = problem_of(recipe)
    assert problem.variances({})[0] == pytest.approx(stderr**2, rel=1e-9)
    assert problem.effective_size({}) == pytest.approx(weights.ess, rel=1e-9)


@pytest.mark.parametrize("recipe", RECIPES)
def test_twice_as_much_of_everything_halves_the_variance(recipe: recipes.Recipe) -> None:
    _, weights, problem, stderr = problem_of(recipe)
    n = float(problem.size_ck.sum())
    every = kind_of(weights, problem, "every", "")
    # Exact: all sums over images are multiplied by 2; the ridge of a Tilt, 1e-9, is not.
    assert problem.variances({every: n})[0] == pytest.approx(stderr**2 / 2, rel=1e-5)
    assert problem.effective_size({every: n}) == pytest.approx(2 * weights.ess, rel=1e-9)


@pytest.mark.parametrize("recipe", RECIPES)
def test_more_images_never_raise_the_variance(recipe: recipes.Recipe) -> None:
    _, weights, problem, _ = problem_of(recipe)
    for kind in list_collectables(weights, problem):
        variance = [problem.variances({kind: float(m)})[0] for m in (0, 10, 100, 1000)]
        assert (np.diff(variance) <= 1e-12).all(), kind


def test_strata_follow_the_closed_form() -> None:
    data, weights, problem, _ = problem_of(recipes.strata)
    label_n = data.pool.frame["label"].to_numpy()
    expected = 0.0
    for level, mass in zip("abc", recipes.MASS, strict=True):
        value = data.value[label_n == level]
        more = 25 if level == "b" else 0
        expected += mass**2 * value.var(ddof=1) / (value.size + more)
    kind = kind_of(weights, problem, "stratum", "label = b")
    assert problem.variances({kind: 25.0})[0] == pytest.approx(expected, rel=1e-9)
    # 40 images of the target are 40 p_c of each stratum.
    counts = {level: np.count_nonzero(label_n == level) for level in "abc"}
    drawn = sum(
        mass**2 * data.value[label_n == level].var(ddof=1) / (counts[level] + 40 * mass)
        for level, mass in zip("abc", recipes.MASS, strict=True)
    )
    target = kind_of(weights, problem, "target", "target")
    assert problem.variances({target: 40.0})[0] == pytest.approx(drawn, rel=1e-9)


def test_the_error_of_a_survey_is_a_floor() -> None:
    _, weights, problem, stderr = problem_of(recipes.strata_survey)
    every = kind_of(weights, problem, "every", "")
    assert 0.0 < problem.floor_h[0] < stderr**2
    assert problem.variances({every: 1e12})[0] == pytest.approx(problem.floor_h[0], rel=1e-6)


def test_expected_counts_solve_the_larger_problem() -> None:
    _, weights, problem, _ = problem_of(recipes.known)
    kind = kind_of(weights, problem, "source", "b")
    every_rl, _ = problem.expected_counts({kind: 30.0})
    # Newton's tolerance is 1e-10.
    np.testing.assert_allclose(every_rl.sum(axis=0), [80.0, 90.0], rtol=1e-8)


def test_the_model_variance_is_that_of_the_standard_errors() -> None:
    data, weights, problem, _ = problem_of(recipes.known)
    deviation_n = data.value - weights.weight @ data.value
    _, model = spread_of_mean(weights, find_units(weights), deviation_n)
    assert problem._model_now[0] == pytest.approx(model, rel=1e-8)


def test_links_are_judged_as_the_overlap_does() -> None:
    _, weights, problem, _ = problem_of(recipes.known)
    assert problem.link_error({}) == pytest.approx(weights.overlap.link_error, rel=1e-6)
    assert problem.heaviest({}) == pytest.approx(weights.overlap.heaviest, rel=1e-9)


def test_one_source_with_equal_weights_is_the_textbook() -> None:
    value = np.random.default_rng(0).normal(size=50)
    pool = unskew.Pool.from_arrays(["a"] * 50, value=value)
    weights = unskew.debias(pool, unskew.bias.Known(np.ones((50, 1))))
    problem = expect_problem(weights, {"v": value}, {"v": value.std(ddof=1) / math.sqrt(50)})
    kind = kind_of(weights, problem, "source", "a")
    assert problem.variances({kind: 150.0})[0] == pytest.approx(value.var(ddof=1) / 200, rel=1e-9)
    assert problem.effective_size({kind: 150.0}) == pytest.approx(200.0)


def test_some_rows_represent_all() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat([0, 1], [4000, 2000])
    x = rng.normal(np.array([0.7, -0.5])[source])
    pool = recipes.make_pool(source, x=x)
    weights = unskew.debias(pool, unskew.bias.Known(np.exp(x[:, None] * np.array([0.7, -0.5]))))
    stderr = {"x": weighted_mean(weights, x).stderr}
    exact = expect_problem(weights, {"x": x}, stderr)
    few = expect_problem(weights, {"x": x}, stderr, most_rows=1500)
    assert few.row_r.size <= 1501
    assert few.inflate_r.sum() == pytest.approx(6000)
    for name in ("a", "b"):
        plans = [{kind_of(weights, problem, "source", name): 3000.0} for problem in (exact, few)]
        # Ratios of averages over 1,500 rows: some 3% of noise.
        ratio = few.variances(plans[1])[0] / exact.variances(plans[0])[0]
        assert ratio == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_the_predicted_error_is_the_realised_one() -> None:
    """benchmarks/advising.py has more worlds."""
    predicted, errors = [], []
    for seed in range(400):
        rng = np.random.default_rng([7, seed])
        _, weights, problem, _ = problem_of(recipes.known, seed=seed)
        kind = kind_of(weights, problem, "source", "b")
        predicted.append(problem.variances({kind: 240.0})[0])
        source = np.repeat([0, 1], [80, 300])
        x = rng.normal(np.array([0.7, -0.5])[source], 1.0)
        omega = np.exp(x[:, None] * np.array([0.7, -0.5]))
        larger = unskew.debias_weights(omega, source)
        errors.append(float(larger.weight @ (x + rng.normal(size=x.size))))
    # The spread of 400 errors is known to 3.5%.
    assert math.sqrt(np.mean(predicted)) == pytest.approx(np.std(errors), rel=0.12)
