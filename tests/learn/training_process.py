"""Run by test_train_processes.py in a process of its own: python training_process.py FOLDER [torn];
the network kills it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from unskew.learn import TrainingData, settings_of, train_model


def make_data(n: int = 32) -> TrainingData:
    rng = np.random.default_rng(0)
    label = np.arange(n) % 2
    images = (rng.integers(60, 256, (n, 6, 6, 3)) // (1 + label[:, None, None, None])).astype(
        np.uint8
    )
    validation = TrainingData(
        images[::3],
        label[::3],
        ("a", "b"),
        np.ones(len(label[::3])),
        np.arange(len(label[::3])).astype(str),
    )
    return TrainingData(
        images,
        label,
        ("a", "b"),
        rng.integers(1, 4, n).astype(float),
        np.arange(n).astype(str),
        validation,
    )


def make_settings(**overrides):
    usual = {
        "model": "training_networks:Killing",
        "epochs": 3,
        "batch": 8,
        "cutout": 2,
        "device": "cpu",
    }
    return settings_of("fast", **{**usual, **overrides})


def tear_the_second_checkpoint() -> None:
    """Half a file, and the process is gone."""
    save, calls = torch.save, []

    def torn(state, file) -> None:
        calls.append(file)
        save(state, file)
        if len(calls) == 2:
            file.flush()
            os.truncate(file.name, Path(file.name).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    torch.save = torn


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "torn" in sys.argv:
        tear_the_second_checkpoint()
    train_model(make_data(), make_settings(), sys.argv[1], resume=True)
