"""Stage 6, weighted training: baselines, probes, and the forecast of what reweighting brings."""

from typing import Any

from unskew.learn.baselines import BASELINES, Baseline, Baselines, make_baseline, make_baselines

__all__ = ["BASELINES", "Baseline", "Baselines", "forecast_gain", "make_baseline", "make_baselines"]


def __getattr__(name: str) -> Any:
    # The forecast goes through all stages from the bias model on, so its file stands beside them; its name belongs here.
    if name == "forecast_gain":
        from unskew.forecasting import forecast_gain

        return forecast_gain
    raise AttributeError(f"module 'unskew.learn' has no attribute {name!r}")
