"""Stage 6, weighted training: sampler and loss for torch, the forecast of what reweighting brings,
and baselines to compare with.
"""

from typing import TYPE_CHECKING, Any

from unskew.learn.baselines import BASELINES, Baseline, Baselines, make_baseline, make_baselines
from unskew.learn.batch_norm import update_batch_norm

if TYPE_CHECKING:
    from unskew.learn.loss import WeightedLoss
    from unskew.learn.presets import TrainSettings, settings_of
    from unskew.learn.sampler import WeightedSampler
    from unskew.learn.train import train_model
    from unskew.learn.trained_model import TrainedModel, load_trained
    from unskew.learn.training_data import TrainingData

__all__ = [
    "BASELINES",
    "Baseline",
    "Baselines",
    "TrainSettings",
    "TrainedModel",
    "TrainingData",
    "WeightedLoss",
    "WeightedSampler",
    "forecast_gain",
    "load_trained",
    "make_baseline",
    "make_baselines",
    "settings_of",
    "train_model",
    "update_batch_norm",
]

# Loaded when asked for: base classes of the first two are torch's, which takes longer than all the
# rest and may not be installed.
_LATER = {
    **{"WeightedSampler": "sampler", "WeightedLoss": "loss"},
    **{"TrainSettings": "presets", "settings_of": "presets", "TrainingData": "training_data"},
    **{"train_model": "train", "TrainedModel": "trained_model", "load_trained": "trained_model"},
}


def __getattr__(name: str) -> Any:
    # The forecast goes through all stages from the bias model on, so its file stands beside them;
    # its name belongs here.
    if name == "forecast_gain":
        from unskew.forecasting.gain import forecast_gain

        return forecast_gain
    if name not in _LATER:
        raise AttributeError(f"module 'unskew.learn' has no attribute {name!r}")
    import importlib

    try:
        module = importlib.import_module(f"unskew.learn.{_LATER[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        from unskew.errors import missing_extra

        raise missing_extra("torch", f"unskew.learn.{name}", error) from None
    return getattr(module, name)
