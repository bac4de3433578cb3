"""`Known` and `Subpopulation` in every form, against `debias_weights` on the matrix."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from two_sources import two_sources
from unskew import ConfigError, DataError, Pool, Target, debias, debias_weights
from unskew.bias import Known, Product, Propensity, Strata, Subpopulation, Tilt

NAMES = ("dim", "plain")


def tilted_omega(frame):
    """At the top level, so that a configuration can name it."""
    return np.exp(-frame["x"].to_numpy())


def both_omegas(frame):
    return np.column_stack([tilted_omega(frame), np.ones(len(frame))])


def problem(seed=0, n=400, **columns):
    rng = np.random.default_rng(seed)
    source = np.repeat(NAMES, n // 2)
    x = rng.normal(size=n) - (source == "dim")
    return Pool.from_arrays(
        source,
        x=x,
        chance=np.exp(-x),
        one=np.ones(n),
        log_chance=-x,
        id=[f"i{k}" for k in range(n)],
        **columns,
    )


def forms(pool):
    matrix = both_omegas(pool.frame)
    table = pd.DataFrame(
        matrix[::-1], index=pool.frame["id"].to_numpy()[::-1], columns=list(NAMES)
    )[["plain", "dim"]]
    return {
        "columns": Known({"dim": "chance", "plain": "one"}),
        "function and number": Known({"dim": tilted_omega, "plain": 3}),
        "NumPy numbers": Known({"dim": tilted_omega, "plain": np.float32(2)}),
        "lambda": Known({"plain": np.int64(1), "dim": lambda frame: np.exp(-frame["x"])}),
        "module:function": Known({"dim": f"{__name__}:tilted_omega", "plain": 1.0}),
        "one function": Known(both_omegas),
        "matrix": Known(matrix),
        "table by id": Known(table),
        "logarithms": Known({"dim": "log_chance", "plain": 0.0}, log=True),
        "log matrix": Known(np.log(matrix), log=True),
    }


@pytest.mark.parametrize("form", list(forms(problem())))
def test_every_form_gives_the_weights_and_errors_of_the_matrix(form, monkeypatch):
    pool = problem()
    monkeypatch.setitem(
        __import__("sys").modules,
        __name__,
        __import__("types").SimpleNamespace(tilted_omega=tilted_omega),
    )
    expected = debias_weights(both_omegas(pool.frame), pool.source, names=NAMES)
    weights = debias(pool, forms(pool)[form])
    np.testing.assert_allclose(weights.weight, expected.weight, rtol=1e-10)
    ours, theirs = weights.mean(pool.frame["x"]), expected.mean(pool.frame["x"])
    assert ours.value == pytest.approx(theirs.value, rel=1e-9)
    assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-7)
    np.testing.assert_allclose(weights.covariance(), expected.covariance(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(weights.weigh(pool), weights.sample_weight, rtol=1e-9)


def test_sources_that_are_numbers_are_named_by_numbers_or_text():
    pool = problem()
    number = {"dim": 0, "plain": 7}
    numbered = Pool.from_frame(
        pool.frame.assign(source=pool.frame["source"].astype(object).map(number).astype(int))
    )
    assert numbered.names == ("0", "7")
    expected = debias(pool, Known({"dim": "chance", "plain": 1.0})).weight
    table = pd.DataFrame(both_omegas(pool.frame), index=pool.frame["id"].to_numpy(), columns=[0, 7])
    for omega in (
        {0: "chance", 7: 1.0},
        {np.int64(0): "chance", "7": 1.0},
        {0.0: "chance", 7.0: 1.0},
        table,
        table.set_axis(["0", 7], axis=1),
    ):
        np.testing.assert_allclose(debias(numbered, Known(omega)).weight, expected, rtol=1e-12)
    assert Known({0: 1.0}) == Known({"0": 1.0})
    np.testing.assert_allclose(
        debias(numbered, Subpopulation({0: "all", 7: "x > -99"})).weight, 1 / 400
    )
    for model in (Tilt, Propensity):
        by_text = debias(numbered, model(["x"], reference="7")).weight
        np.testing.assert_array_equal(debias(numbered, model(["x"], reference=7)).weight, by_text)
        assert model(["x"], reference=7).to_dict()["reference"] == "7"
    for clash in (lambda: Known({0: 1.0, "0": 1.0}), lambda: Subpopulation({0: "all", "0": "all"})):
        with refused(ConfigError, source="0"):
            clash()
    with refused(ConfigError, source="0"):
        debias(numbered, Known(pd.concat([table, table[[0]].set_axis(["0"], axis=1)], axis=1)))
    with refused(ConfigError, option="queries", value=["all"]):
        Subpopulation(["all"])


def test_one_source_has_weights_inverse_to_omega():
    pool = Pool.from_arrays(["only"] * 50, x=np.linspace(-1, 1, 50))
    inverse = np.exp(pool.frame["x"])
    np.testing.assert_allclose(
        debias(pool, Known({"only": tilted_omega})).weight, inverse / inverse.sum(), rtol=1e-12
    )


def test_a_matrix_in_a_product_follows_its_images_through_drops_and_the_bootstrap():
    pool = problem(label=np.tile(["cat", "dog", "fox", "fox"], 100))
    target = Target.margins({"label": {"cat": 0.6, "dog": 0.4, "fox": 0}})
    by_matrix = debias(pool, Product(Strata("label"), Known(both_omegas(pool.frame))), target)
    by_function = debias(pool, Product(Strata("label"), Known(both_omegas)), target)
    np.testing.assert_allclose(by_matrix.weight, by_function.weight, rtol=1e-10)
    x = pool.frame["x"]
    np.testing.assert_allclose(
        by_matrix.bootstrap(20, 3, x).mean, by_function.bootstrap(20, 3, x).mean, rtol=1e-8
    )
    assert by_matrix.bootstrap(50, 3, x).mean.std() == pytest.approx(
        by_matrix.mean(x).stderr, rel=0.4
    )


def test_impossible_omegas_are_refused():
    pool = problem()
    cases = [
        (ConfigError, {"dim": "chance"}, "", {"option": "omega", "sources": ["plain"]}),
        (
            ConfigError,
            {"dim": "chance", "plian": 1},
            "Did you mean 'plain'",
            {"option": "omega", "sources": ["plian"]},
        ),
        (
            DataError,
            {"dim": "chanse", "plain": 1},
            "Did you mean 'chance'",
            {"columns": ["chanse"]},
        ),
        (DataError, {"dim": "x", "plain": 1}, "`dim`.*log=True", {}),
        (ConfigError, {"dim": "no.such.module:f", "plain": 1}, "", {"value": "no.such.module:f"}),
        (
            DataError,
            {"dim": lambda frame: 1.0, "plain": 1},
            "`dim`",
            {"value": [], "allowed": [400]},
        ),
        (DataError, np.ones((3, 2)), "", {"value": [3, 2], "allowed": [400, 2]}),
        (ConfigError, pd.DataFrame({"dim": [1.0]}, index=["i0"]), "", {"sources": ["plain"]}),
        (
            DataError,
            pd.DataFrame({"dim": [1.0], "plain": [1.0]}, index=["i0"]),
            "",
            {"count": 399},
        ),
    ]
    for error, omega, message, facts in cases:
        with refused(error, **facts) as caught:
            debias(pool, Known(omega))
        caught.match(message)
    zero_in_own = {"dim": lambda frame: (frame["x"] < 0) * 1.0, "plain": 1}
    with pytest.raises(DataError, match="`dim`"):
        debias(pool, Known(zero_in_own))
    with refused(DataError, ids=["new"] * len(pool)):
        debias(pool, Known(both_omegas(pool.frame))).weigh(pool.frame.assign(id="new"))


def test_columns_and_queries_may_hold_a_colon():
    frame = problem().frame
    frame = frame.assign(
        **{"omega:dim": frame["chance"], "time": np.where(frame["x"] > -3.5, "12:30", "03:15")}
    )
    expected = debias(problem(), Known({"dim": "chance", "plain": 1}))
    np.testing.assert_allclose(
        debias(Pool(frame), Known({"dim": "omega:dim", "plain": 1})).weight, expected.weight
    )
    queries = Subpopulation({"dim": "time > '00:00'", "plain": "all"})
    np.testing.assert_allclose(debias(Pool(frame), queries).weight, 1 / 400)


def test_names_with_odd_characters():
    names = ["a b", "ü/é", "{x}", "%s", "日本", "(", ""]
    pool = Pool.from_arrays(np.repeat(names, 20), x=np.tile(np.arange(20.0), 7))
    weights = debias(pool, Known(dict.fromkeys(names, 1.0)))
    np.testing.assert_allclose(weights.weight, 1 / 140)
    assert set(weights.describe().parameters) == set(names)


def test_an_omega_that_is_no_column_says_what_it_may_be():
    pool = Pool.from_arrays(["a", "a", "b"], label=["x", "y", "x"], light=[1.0, 2.0, 3.0])
    for omega, error, message, facts in (
        (
            "exp(light)",
            ConfigError,
            r"lambda table: exp\(table.light\)",
            {"source": "a", "column": "exp(light)"},
        ),
        ("label", DataError, r"\(x, y\)", {"source": "a", "column": "label"}),
        ("lihgt", DataError, "Did you mean 'light'", {"columns": ["lihgt"]}),
        (np.ones(3), ConfigError, r"Known\(matrix\)", {"source": "a", "value": "ndarray"}),
        (None, ConfigError, "", {"source": "a", "value": "NoneType"}),
    ):
        with refused(error, **facts) as caught:
            debias(pool, Known({"a": omega, "b": 1.0}))
        caught.match(message)


def test_a_negative_omega_is_shown_as_a_plain_number():
    with pytest.raises(DataError, match=r"row 0 has -1\.0\."):
        debias(
            Pool.from_frame(two_sources().assign(chance=-1.0)),
            Known({"p": "chance", "q": 1.0}),
        )
