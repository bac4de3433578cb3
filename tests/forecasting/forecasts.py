"""Forecasts of worlds whose truth is known, for the tests of this folder."""

from __future__ import annotations

from forecast_worlds import World
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.record import Forecast

MIX = [[0.7, 0.15, 0.1, 0.05], [0.1, 0.3, 0.3, 0.3], [0.25, 0.05, 0.1, 0.6]]


def forecast_world(world: World, **options: object) -> Forecast:
    # Scaled the same way as the probes of the truth: not at all (the features have unit size).
    return forecast_gain(
        world.pool, world.bias, world.target, features=["x"], scaling="none", **options
    )  # type: ignore[arg-type]
