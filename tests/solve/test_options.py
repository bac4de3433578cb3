"""The options of a solve are plain keywords, defined once for every function that solves."""

import inspect

import numpy as np
import pytest

import unskew
from problems import random_problem
from raising import refused
from unskew.debiasing.pool_weights import weigh_splits
from unskew.solve.options import OmegaOptions, Options, SolverOptions, read_options

OF_EVERY_SOLVE = {
    "method": "newton",
    "tol": 1e-10,
    "max_steps": None,
    "throw": True,
    "jobs": None,
}
OF_OMEGA = {"log": False, "names": None, "start": None, "rng": 0}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (unskew.solve_normalizers, OF_EVERY_SOLVE | OF_OMEGA),
        (unskew.debias_weights, OF_EVERY_SOLVE | OF_OMEGA),
        (unskew.debias, OF_EVERY_SOLVE),
        (weigh_splits, OF_EVERY_SOLVE),
    ],
)
def test_the_signature_and_the_docstring_show_every_option(function, expected) -> None:
    parameters = inspect.signature(function).parameters
    shown = {name: parameters[name].default for name in expected}
    assert shown == expected
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in expected)
    assert not any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    assert all(f"\n    {name} : " in function.__doc__ for name in expected)
    assert "**options" not in function.__doc__


@pytest.mark.parametrize("function", [unskew.solve_normalizers, unskew.debias_weights])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("method", "newtn"),
        ("tol", 0.0),
        ("tol", float("nan")),
        ("max_steps", 0),
        ("jobs", 0),
        ("rng", -1),
        ("start", [float("inf"), 0.0]),
    ],
)
def test_every_function_refuses_the_same_values(function, option, value) -> None:
    problem = random_problem(0, 60, 2, zeros=0.0)
    with refused(unskew.ConfigError, option=option):
        function(problem.omega, problem.source, **{option: value})


def test_a_misspelt_option_is_named_with_the_nearest_one() -> None:
    with refused(unskew.ConfigError, option="max_step", allowed=list(OF_EVERY_SOLVE)) as caught:
        read_options({"max_step": 3}, SolverOptions)
    assert "Did you mean 'max_steps'?" in str(caught.value)
    with refused(unskew.ConfigError, option="start"):
        read_options({"start": [0.0]}, SolverOptions)
    assert read_options({"start": [0.0]}, OmegaOptions).start_k.tolist() == [0.0]


def test_the_number_of_steps_depends_on_the_method() -> None:
    methods = ("newton", "fixed_point", "sgd")
    assert [Options(method=name).most_steps for name in methods] == [100, 100_000, 4000]
    assert Options(method="sgd", max_steps=7).most_steps == 7


def test_debias_follows_the_options() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 80), rng.normal(0.5, 1, 80)])
    pool = unskew.Pool.from_arrays(np.repeat(["a", "b"], 80), x=x)
    model = unskew.bias.Tilt(["x"], reference="a")
    exact = unskew.debias(pool, model)
    slow = unskew.debias(pool, model, method="fixed_point", tol=1e-11)
    assert (exact.solution.method, slow.solution.method) == ("newton", "fixed_point")
    np.testing.assert_allclose(slow.weight, exact.weight, rtol=1e-8)
    few = {"method": "fixed_point", "max_steps": 1, "tol": 1e-14}
    with refused(unskew.ConvergenceError, option="tol", value=1e-14):
        unskew.debias(pool, model, **few)
    assert unskew.debias(pool, model, throw=False, **few).solution.status.name == "MAX_STEPS"
    draws = [unskew.debias(pool, model, method="sgd", rng=seed).weight for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert np.abs(draws[0] - draws[2]).max() > 0
