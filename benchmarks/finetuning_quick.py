"""Fine-tune on a few hundred small images, against a probe of the same network: a minute or two.

    python benchmarks/finetuning_quick.py --data DATA cifar10 101 cifar100 102

Every pair of words is a data set and a seed: the seed draws 650 images of ten classes (of CIFAR-100
any ten) in unequal shares, enlarged to 40 to 240 pixels and cut to squares of 64, and 800 others,
80 of each class, to test on. The probe and the network learn from the same 85 %; the network sees
the rest as validation images. Printed are accuracies on the test images, and processor seconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from paper.cifar_data import read_split
from unskew.learn import TrainingData, settings_of, train_model, tune_probe
from unskew.learn.training_data import measure_scale
from unskew.records import Floats, Ints
from unskew.represent import efficientnet

SIDE, N, EPOCHS, CLASSES = 64, 650, 8, 10
BLOCKS = (4, 7, 10, 12, 14, 15)


@dataclass(frozen=True)
class Draw:
    """Images of a pool and of a test, with labels 0 … 9."""

    X: np.ndarray
    label: Ints
    X_test: np.ndarray
    label_test: Ints


def main() -> None:
    """Print a row for each draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("draw", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| data | seed | probe | fine-tuned | seconds | seconds |\n|---|---|---|---|---|---|")
    for name, seed in zip(options.draw[::2], options.draw[1::2], strict=True):
        drawn = draw_images(options.data, name, int(seed))
        data = split_off(drawn)
        parts = []
        for fit in (probe_scores, tuned_scores):
            began = time.process_time()
            hits = fit(data, drawn.X_test).argmax(axis=1) == drawn.label_test
            parts.append((f"{100 * hits.mean():.1f}", f"{time.process_time() - began:.0f}"))
        columns = [*(accuracy for accuracy, _ in parts), *(seconds for _, seconds in parts)]
        print(f"| {name} | {seed} | {' | '.join(columns)} |", flush=True)


def draw_images(data: Path, name: str, seed: int) -> Draw:
    """Draw three sources that show mostly classes of their own, and a uniform test."""
    rng = np.random.default_rng(seed)
    sheets = read_split(data, name, "train")
    chosen = np.arange(CLASSES)
    if sheets.label.max() >= CLASSES:
        chosen = np.sort(rng.choice(sheets.label.max() + 1, CLASSES, replace=False))
    number = np.full(sheets.label.max() + 1, -1)
    number[chosen] = np.arange(CLASSES)
    label_n = number[sheets.label]
    left, parts = rng.permutation(np.flatnonzero(label_n >= 0)), []
    for k, share in enumerate((7, 4, 2)):
        share_m = 7.0 ** -(((np.arange(CLASSES) - 3 * k) % CLASSES) / 9)
        count_m = np.maximum((N * share / 13 * share_m / share_m.sum()).round(), 1).astype(int)
        drawn = [
            rng.choice(left[label_n[left] == m], count, replace=False)
            for m, count in enumerate(count_m)
        ]
        parts.append(np.concatenate(drawn))
        left = np.setdiff1d(left, parts[-1])
    pool = rng.permutation(np.concatenate(parts))
    test = np.concatenate(
        [rng.choice(left[label_n[left] == m], 80, replace=False) for m in range(CLASSES)]
    )
    X = np.stack([enlarged(sheets.images[row], rng) for row in pool])
    X_test = np.stack([enlarged(sheets.images[row], rng) for row in test])
    return Draw(X, label_n[pool], X_test, label_n[test])


def enlarged(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Enlarge an image to any size and aspect ratio, and take the square in its middle."""
    width, ratio = int(rng.integers(40, 241)), rng.uniform(0.75, 4 / 3)
    height = round(width * ratio)
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return np.array(square.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def split_off(drawn: Draw) -> TrainingData:
    """Weight classes alike; the first 15 % are validation images."""
    weight_n = 1.0 / np.bincount(drawn.label)[drawn.label]
    names, id_n = tuple("abcdefghij"), np.arange(drawn.label.size).astype(str)
    parts = []
    first = int(0.15 * drawn.label.size)
    for rows in (slice(0, first), slice(first, None)):
        weight_r = weight_n[rows] / weight_n[rows].sum()
        held = parts[0] if parts else None
        parts.append(
            TrainingData(drawn.X[rows], drawn.label[rows], names, weight_r, id_n[rows], held)
        )
    return parts[1]


def probe_scores(data: TrainingData, X_test: np.ndarray) -> Floats:
    """Fit a probe on several blocks of the pretrained network; return its logits."""
    network = efficientnet.load_torch(SIDE, BLOCKS).eval()

    def features(X: np.ndarray) -> np.ndarray:
        pixels = (torch.as_tensor(X).float() / 255 - efficientnet.MEAN[0]) / efficientnet.STD[0]
        with torch.inference_mode():
            parts = [network(part) for part in pixels.permute(0, 3, 1, 2).split(64)]
        return torch.cat(parts).numpy()

    X = features(data.X)
    own = TrainingData(X, data.label, data.classes, data.weight, data.id)
    mean, divisor = measure_scale(own, "fourth_root")
    scaled = [((part - mean) / divisor).astype(np.float32) for part in (X, features(X_test))]
    tuned = tune_probe(scaled[0], data.label, data.weight, len(data.classes))
    return tuned.probe.logits(scaled[1])


def tuned_scores(data: TrainingData, X_test: np.ndarray) -> Floats:
    """Fine-tune as the preset does; return the scores."""
    settings = settings_of("finetune", device="cpu", epochs=EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        return train_model(data, settings, folder, logs=False).scores(X_test)


if __name__ == "__main__":
    main()
