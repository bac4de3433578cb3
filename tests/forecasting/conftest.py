"""One forecast and one rehearsal for the tests that change neither."""

from __future__ import annotations

import pytest

from forecast_worlds import World, class_world
from forecasting.forecasts import MIX, forecast_world
from unskew import Pool, rehearse
from unskew.bias import Strata
from unskew.forecasting.record import Forecast
from unskew.forecasting.rehearsal_record import Rehearsal


@pytest.fixture(scope="package")
def classes() -> tuple[World, Forecast]:
    world = class_world([1500, 300], seed=0)
    return world, forecast_world(world, arms="all")


@pytest.fixture(scope="package")
def rehearsed() -> tuple[Pool, Rehearsal]:
    pool = class_world([900, 700, 500], seed=0, mix=MIX).pool
    return pool, rehearse(pool, Strata("label"), features=["x"], scaling="none", folds=3)
