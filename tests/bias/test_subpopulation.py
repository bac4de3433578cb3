"""Subpopulations: known omegas of 0 and 1, and queries that must say what missing values are."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import ConfigError, DataError, OverlapError, Pool, debias, debias_weights
from unskew.bias import Subpopulation


def test_a_subpopulation_is_a_known_omega_of_0_and_1():
    rng = np.random.default_rng(2)
    hour = rng.uniform(0, 24, 600)
    source = np.where((hour > 18) & (rng.random(600) < 0.6), "night", "any")
    pool = Pool.from_arrays(source, hour=hour)
    omega = np.column_stack(
        [(hour > 18) if name == "night" else np.ones(600) for name in pool.names]
    )
    expected = debias_weights(omega.astype(float), pool.source)
    for query in (
        "hour > 18",
        lambda frame: frame["hour"] > 18,
        lambda frame: (frame["hour"] > 18).astype("boolean"),
    ):
        weights = debias(pool, Subpopulation({"night": query, "any": "all"}))
        np.testing.assert_allclose(weights.weight, expected.weight, rtol=1e-10)
    assert weights.describe().family == "Subpopulation"
    for query, message in (("huor > 18", "hour"), ("@x > 3", "syntax"), ("hour >", "syntax")):
        with refused(ConfigError, option="queries", value=query) as caught:
            debias(pool, Subpopulation({"night": query, "any": "all"}))
        caught.match(message)
    with refused(DataError, source="night", value=[600]):
        debias(pool, Subpopulation({"night": "hour", "any": "all"}))
    with pytest.raises(OverlapError, match="not linked"):
        debias(
            Pool.from_arrays(["a", "b"], x=[0, 1]), Subpopulation({"a": "x == 0", "b": "x == 1"})
        )


def test_a_query_that_meets_missing_values_is_an_error_unless_it_says_what_they_are():
    # NaN > 18 is False: the image would be said to be out of reach of the night camera, which
    # nobody knows.
    hour = np.array([20.0, 22.0, 23.0, 12.0, 21.0, 19.0, np.nan, 3.0])
    source = np.repeat(["night", "any"], [3, 5])
    for column in (hour, pd.array(np.where(np.isnan(hour), None, hour), dtype="Int64")):
        pool = Pool.from_arrays(source, hour=column)
        with refused(DataError, column="hour", count=1, row=6) as caught:
            debias(pool, Subpopulation({"night": "hour > 18", "any": "all"}))
        caught.match(r"`night`.*hour.notna\(\) and")
        fitted = Subpopulation({"night": "hour.notna() and (hour > 18)", "any": "all"}).fit(pool)
        assert fitted.omega(pool)[:, 0].tolist() == [1, 1, 1, 0, 1, 1, 0, 0]
