"""Residuals of many strata, drawn together, against those of few, drawn one by one."""

import numpy as np
import pytest

import unskew
from unskew.bias.redrawn_sources import sum_residuals


def functions_of(*columns):
    value_rt = np.column_stack(columns).astype(np.float32)
    return lambda at: value_rt[at]


@pytest.mark.parametrize("kind", ["images", "some sources", "design weights", "groups"])
def test_many_strata_are_drawn_as_few_are(monkeypatch, kind):
    """The closed form of the step in each stratum against the Newton step by its information."""
    rng = np.random.default_rng(2)
    n, label = 1200, rng.integers(40, size=1200)
    source = np.where(rng.random(n) < label / 40, "a", np.where(rng.random(n) < 0.6, "b", "c"))
    columns = {"design_weight": rng.uniform(0.5, 2.0, n)} if kind == "design weights" else {}
    pool = unskew.Pool.from_arrays(source, label=label.astype(str), **columns)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    profile, f = weights.estimation.rows.profile, rng.normal(size=n) + label / 20
    group = rng.integers(400, size=n) if kind == "groups" else None
    compared = np.array([True, True, kind != "some sources"])
    settings = {"replicates": 3000, "seed": 0, "refit": True}
    few = sum_residuals(profile, group, compared, functions_of(f, f > 1), **settings)
    monkeypatch.setattr("unskew.bias.redrawn_sources._MANY_STRATA", 0)
    many = sum_residuals(profile, group, compared, functions_of(f, f > 1), **settings)
    np.testing.assert_allclose(many.observed, few.observed, rtol=1e-6, atol=1e-5)
    # 3,000 replicates know a standard deviation to 1.3%, two of them four times that.
    np.testing.assert_allclose(many.null.std(axis=0), few.null.std(axis=0), rtol=0.075, atol=1e-4)
    if kind == "images":
        # Enough strata, drawn whole, tell the spread of all.
        monkeypatch.setattr("unskew.bias.redrawn_sources._ENOUGH_UNITS", 700)
        monkeypatch.setattr("unskew.bias.redrawn_sources._FEWEST_UNITS", 1)
        part = sum_residuals(profile, group, compared, functions_of(f, f > 1), **settings)
        assert 700 <= part.n_redrawn < 800 < many.n_redrawn
        np.testing.assert_allclose(part.null.std(axis=0), few.null.std(axis=0), rtol=0.25)
