"""Weighted training: samplers, losses, networks, probes and baselines.

- ``architectures``: networks that come with unskew.
- ``augment``: random crops, flips, colours and Cutout of a whole batch at once, on its device.
- ``baseline_methods``: the six baselines: how each turns a pool, and mostly a target, into
  weights.
- ``baseline_record``: one baseline as weights for a pool (`Baseline`), and several side by side
  (`Baselines`).
- ``baselines``: what one would do without the biased-sampling equations: `make_baseline`,
  `make_baselines`.
- ``batch_norm``: batch normalisation after weighted training: statistics of the target, not of
  the pool.
- ``density_ratio``: the density ratio of target and pool from a classifier that tells their
  images apart.
- ``dial``: `turn_dial`: how much of a class's weight moves into its logit.
- ``huggingface``: `WeightedTrainerMixin`: Hugging Face's Trainer with weights, by its sampler or in
  its loss.
- ``label_probes``: `tune_label_probes`: images with any number of labels, a probe for each label.
- ``last_layer``: the last linear layer of a network: found, and refitted on what the rest makes
  of images.
- ``logit_calibration``: logits made to hold on the target: one temperature, a bias for every
  class, and a slope.
- ``loss``: `WeightedLoss`: a per-image loss of torch, weighted, and unbiased under minibatches.
- ``model_zoo``: which network a setting names, with the scaling of its inputs inside.
- ``network_ways``: how good a network is, and what happens to it after its epochs: its last layer
  refitted, or its logits calibrated.
- ``optimization``: the optimiser of a training, and its learning rate at each step.
- ``presets``: how a model is trained: the settings, their presets, and what is wrong with a
  value.
- ``probe``: a linear probe: weighted multinomial logistic regression, fast enough for dozens of
  fits.
- ``probe_grid``: `tune_probe`: probes on one grid of dials and ridges, cross-fitted, calibrated,
  chosen from.
- ``processes``: where a training runs: one process, several that it starts, or several that
  torchrun started.
- ``recipes``: `Recipe`: what a baseline does besides its weights, as the trainer needs it.
- ``sampling``: which images an epoch shows: drawn in proportion to their weights.
- ``sklearn_fit``: a scikit-learn estimator with weights; and its probabilities moved to other
  class shares.
- ``sklearn_routing``: how weights reach the step of a scikit-learn estimator that learns from
  them, or an error when they would be dropped on the way.
- ``train``: weighted training of an image classifier: data in, a model out. Read it top to
  bottom.
- ``trained_model``: `TrainedModel`: scores of other images; the files of a training, written
  atomically, read without running code.
- ``training_data``: `TrainingData`: images or features, labels and weights, checked; batches of
  them on the device.
- ``training_logs``: the measures of each epoch: to a logger of Lightning by name, and as one plain
  line.
- ``training_loop``: the training of a network: one epoch after the other, each judged, saved and
  logged.
- ``ways``: which way to learn from the weights: candidates judged on held-out images, and the
  choice.
- ``weights_by_id``: the weights of the images of a dataset, in its order: joined by id, and
  checked.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.learn.baseline_record import Baseline, Baselines
    from unskew.learn.baselines import BASELINES, make_baseline, make_baselines
    from unskew.learn.batch_norm import update_batch_norm
    from unskew.learn.dial import turn_dial
    from unskew.learn.label_probes import LabelProbes, tune_label_probes
    from unskew.learn.loss import WeightedLoss
    from unskew.learn.presets import PRESETS, WAYS, TrainSettings, settings_of
    from unskew.learn.probe import Probe, fit_probe, scale_features
    from unskew.learn.probe_grid import tune_probe
    from unskew.learn.recipes import Recipe
    from unskew.learn.sampling.sampler import WeightedSampler
    from unskew.learn.sampling.weighted_dataset import WeightedDataset
    from unskew.learn.sklearn_fit import AdjustedClassifier
    from unskew.learn.train import train_model
    from unskew.learn.trained_model import TrainedModel, load_trained
    from unskew.learn.training_data import TrainingData
    from unskew.learn.ways import WayChoice

__all__ = [
    "BASELINES",
    "PRESETS",
    "WAYS",
    "AdjustedClassifier",
    "Baseline",
    "Baselines",
    "LabelProbes",
    "Probe",
    "Recipe",
    "TrainSettings",
    "TrainedModel",
    "TrainingData",
    "WayChoice",
    "WeightedDataset",
    "WeightedLoss",
    "WeightedSampler",
    "fit_probe",
    "load_trained",
    "make_baseline",
    "make_baselines",
    "scale_features",
    "settings_of",
    "train_model",
    "tune_label_probes",
    "tune_probe",
    "turn_dial",
    "update_batch_norm",
]

# Each name is fetched from its home when it is first asked for: torch, the base of the sampler and
# the loss, takes longer to load than all the rest and may not be installed.
_HOME = {
    "AdjustedClassifier": "sklearn_fit",
    "BASELINES": "baselines",
    "Baseline": "baseline_record",
    "Baselines": "baseline_record",
    "LabelProbes": "label_probes",
    "PRESETS": "presets",
    "Probe": "probe",
    "Recipe": "recipes",
    "TrainSettings": "presets",
    "TrainedModel": "trained_model",
    "TrainingData": "training_data",
    "WAYS": "presets",
    "WayChoice": "ways",
    "WeightedDataset": "sampling.weighted_dataset",
    "WeightedLoss": "loss",
    "WeightedSampler": "sampling.sampler",
    "fit_probe": "probe",
    "load_trained": "trained_model",
    "make_baseline": "baselines",
    "make_baselines": "baselines",
    "scale_features": "probe",
    "settings_of": "presets",
    "train_model": "train",
    "tune_label_probes": "label_probes",
    "tune_probe": "probe_grid",
    "turn_dial": "dial",
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
