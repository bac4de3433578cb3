"""Small trainings: two dozen images of two classes, and runs that are stopped."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from unskew.learn import TrainingData, settings_of, train_model  # noqa: E402
from unskew.learn.training_loop import TrainingLoop  # noqa: E402

_rng = np.random.default_rng(0)
N = 24
LABEL = np.arange(N) % 2
# Class b is darker, so that there is something to learn; some noise, so that not everything can be.
IMAGES = (_rng.integers(60, 256, (N, 6, 6, 3)) // (1 + LABEL[:, None, None, None])).astype(np.uint8)
WEIGHT = _rng.integers(1, 4, N).astype(float)


def small_data(X=IMAGES, label=LABEL, weight=WEIGHT, *, validation: bool = False) -> TrainingData:
    ids = np.array([f"{i}.png" for i in range(len(X))])
    held = (
        TrainingData(X[::2], label[::2], ("a", "b"), np.arange(1.0, len(X[::2]) + 1), ids[::2])
        if validation
        else None
    )
    return TrainingData(X, label, ("a", "b"), weight, ids, held)


def unequal_features(n: int, seed: int) -> TrainingData:
    """Features of three classes with unequal shares, weighted to equal ones."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    centre = np.random.default_rng(99).normal(size=(3, 6)) * 0.8
    X = (centre[label] + rng.normal(size=(n, 6))).astype(np.float32)
    weight = 1 / np.bincount(label)[label]
    return TrainingData(X, label, ("a", "b", "c"), weight, np.arange(n).astype(str))


def small_settings(**overrides):
    usual = {
        "model": "training_networks:convolutional",
        "epochs": 3,
        "batch": 8,
        "cutout": 2,
        "device": "cpu",
    }
    return settings_of("fast", **{**usual, **overrides})


# One batch, no chance, double precision: what is learned depends on Σ_i π_i ℓ_i alone.
FULL_BATCH = {
    **{
        "model": "training_networks:linear",
        "batch": 10**6,
        "augment": False,
        "schedule": "constant",
        "precision": "64-true",
    },
    **{"learning_rate": 0.05, "epochs": 4, "cutout": 0, "weighting": "loss"},
}


def tensors(model) -> dict:
    return dict(model.network.state_dict())


def same_bits(first, second) -> bool:
    one, other = tensors(first), tensors(second)
    without_time = [[{**row, "seconds": 0} for row in model.history] for model in (first, second)]
    return (
        one.keys() == other.keys()
        and all(torch.equal(one[name], other[name]) for name in one)
        and without_time[0] == without_time[1]
    )


def train_and_stop(monkeypatch: pytest.MonkeyPatch, epochs: int, *arguments, **options) -> None:
    """`train_model` with a Ctrl-C just after the checkpoint of this epoch was written."""
    save = TrainingLoop._save

    def save_and_stop(self) -> None:
        save(self)
        if len(self.history) == epochs:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "_save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train_model(*arguments, **options)
