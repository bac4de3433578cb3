"""Stage 6, weighted training: sampler and loss for torch, the trainer, and baselines to compare
with.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.learn.baseline_record import Baseline, Baselines
    from unskew.learn.baselines import BASELINES, make_baseline, make_baselines
    from unskew.learn.batch_norm import update_batch_norm
    from unskew.learn.loss import WeightedLoss
    from unskew.learn.presets import PRESETS, TrainSettings, settings_of
    from unskew.learn.probe import Probe, fit_probe, scale_features
    from unskew.learn.sampler import WeightedSampler
    from unskew.learn.sklearn_fit import AdjustedClassifier
    from unskew.learn.train import train_model
    from unskew.learn.trained_model import TrainedModel, load_trained
    from unskew.learn.training_data import TrainingData

__all__ = [
    "BASELINES",
    "PRESETS",
    "AdjustedClassifier",
    "Baseline",
    "Baselines",
    "Probe",
    "TrainSettings",
    "TrainedModel",
    "TrainingData",
    "WeightedLoss",
    "WeightedSampler",
    "fit_probe",
    "load_trained",
    "make_baseline",
    "make_baselines",
    "scale_features",
    "settings_of",
    "train_model",
    "update_batch_norm",
]

# Each name is fetched from its home when it is first asked for: torch, the base of the sampler and
# the loss, takes longer to load than all the rest and may not be installed.
_HOME = {
    "AdjustedClassifier": "sklearn_fit",
    "BASELINES": "baselines",
    "Baseline": "baseline_record",
    "Baselines": "baseline_record",
    "PRESETS": "presets",
    "Probe": "probe",
    "TrainSettings": "presets",
    "TrainedModel": "trained_model",
    "TrainingData": "training_data",
    "WeightedLoss": "loss",
    "WeightedSampler": "sampler",
    "fit_probe": "probe",
    "load_trained": "trained_model",
    "make_baseline": "baselines",
    "make_baselines": "baselines",
    "scale_features": "probe",
    "settings_of": "presets",
    "train_model": "train",
    "update_batch_norm": "batch_norm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unskew.learn' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"unskew.learn.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        from unskew.errors import missing_extra

        raise missing_extra("torch", f"unskew.learn.{name}", error) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
