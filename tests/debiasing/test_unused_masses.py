"""Bias models that cannot use the masses of a target are fitted once for all targets."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew import Pool, Target
from unskew.bias import SoftBox

CITY = Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
FARM = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})


@pytest.fixture(scope="module")
def pool() -> Pool:
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b"], 400)
    cat = rng.random(800) < np.where(source == "a", 0.3, 0.7)
    z = rng.normal(cat - 0.3 * (source == "a"), 1.0)
    return Pool.from_arrays(source, label=np.where(cat, "cat", "dog"), z=z)


def test_a_model_that_does_not_depend_on_the_target_is_fitted_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unskew.bias import fitting

    fits = []
    fit_parts = fitting.fit_parts
    monkeypatch.setattr(
        fitting, "fit_parts", lambda *args, **rest: fits.append(1) or fit_parts(*args, **rest)
    )
    with pytest.warns(unskew.UnskewWarning, match="cannot use"):
        both = unskew.debias_targets(pool, SoftBox(["z"]), {"city": CITY, "farm": FARM})
    assert len(fits) == 1
    assert both.distance("city", "farm") == 0.0
    assert both.mean(pool.frame["z"]).difference.value == 0.0
    for name, target in {"city": CITY, "farm": FARM}.items():
        assert both.weights[name].estimation.fitted.target is target
