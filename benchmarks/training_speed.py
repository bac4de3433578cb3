"""What an epoch on 50,000 small images costs: python benchmarks/training_speed.py.

Processor seconds of one epoch on 50,000 images of 32 × 32 pixels and of judging a tenth as many, on
one thread, in a new process each time. The squares are held in memory ("memory"), or in a file of
which each batch is read ("file"); with ``--against BEFORE/src``, of another checkout, held there as
well ("before"). The ways alternate, in an order that changes from repeat to repeat, so that what
else the machine does falls on all of them; ratios are of runs next to each other.

"nothing" is a network that averages colours: what is left is reading, augmenting and bookkeeping.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
N, N_CLASSES = 50_000, 10
MODELS = {"fast": "fast", "nothing": "training_speed:make_nothing"}


def make_nothing(n_classes: int) -> Any:
    """Make a network of one layer on the mean colour."""
    import torch

    return torch.nn.Sequential(
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, n_classes)
    )


def make_data(n: int, place: str, rng: np.random.Generator, validation: Any = None) -> Any:
    """Draw images, classes and weights; 2 % of the weights are 0, as in runs."""
    from unskew.learn.train import TrainingData

    images: Any = rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    if place == "file":
        from unskew.files.row_file import RowFile

        held, images = images, RowFile(images.shape, np.uint8)
        images[:] = held
    weight = rng.exponential(1.0, n) * (rng.random(n) > 0.02)
    classes = tuple(map(str, range(N_CLASSES)))
    label = rng.integers(0, N_CLASSES, n)
    return TrainingData(images, label, classes, weight, np.arange(n), validation=validation)


def train_once(place: str, model: str, n: int) -> None:
    """Print the processor seconds of one epoch, its preparation and its files included."""
    import torch

    from unskew.learn.train import TrainSettings, settings_of, train_model

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    data = make_data(n, place, rng, make_data(n // 10, place, rng))
    # What 2ea7bb1 did has the name "weights" since.
    way = {"way": "weights"} if hasattr(TrainSettings, "way") else {}
    settings = settings_of("fast", model=MODELS[model], epochs=1, device="cpu", **way)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        train_model(data, settings, Path(folder) / "model", progress=False, logs=False)
        print(json.dumps(time.process_time() - began))


def measure(place: str, model: str, n: int, before: Path | None) -> float:
    """Run `train_once` in a process of its own."""
    source = before if place == "before" else ROOT / "src"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(map(str, (source, ROOT / "benchmarks")))
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--once", place, model, str(n)],
        env={**os.environ, **threads, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(shown.stdout.splitlines()[-1]))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--images", type=int, default=N)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.once:
        train_once(*options.once[:2], int(options.once[2]))
        return
    places = ["memory", "file"] + (["before"] if options.against else [])
    base = "before" if options.against else "memory"
    print(f"| network | squares | processor seconds, median | ratio to {base}, each repeat |")
    print("|---|---|---|---|")
    for model in options.models:
        spent: dict[str, list[float]] = {place: [] for place in places}
        for repeat in range(options.repeats):
            turn = repeat % len(places)
            for place in places[turn:] + places[:turn]:
                spent[place].append(measure(place, model, options.images, options.against))
        for place, seconds in spent.items():
            ratio = np.array(seconds) / np.array(spent[base])
            shown = ", ".join(f"{value:.2f}" for value in ratio)
            print(f"| {model} | {place} | {np.median(seconds):.1f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
