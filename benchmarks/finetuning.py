"""Fine-tune a pretrained network on 1,300 photographs, and compare with probes of its embedding.

    python benchmarks/finetuning.py --data DATA --out OUT [--seeds 3] [ARM ...]

Writes CIFAR-10 images (`DATA`, as the article's experiments read them) as PNG and JPEG of 40 to 240
pixels in three folders that show mostly classes of their own, and 2,000 others of a uniform test
folder; runs `unskew train` and `unskew evaluate` on them, and prints a table: accuracy on the test
folder, processor minutes of the training.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from paper.cifar_copies import CifarSplit
from paper.cifar_data import read_split
from unskew.records import Ints

SIZES = {"north": 700, "south": 400, "web": 200}
N_TEST = 2000
EMBEDDING = 'features = [{ name = "embedding", components = 0, size = 128 }]'
BLOCKS = EMBEDDING.replace("0,", "0, blocks = [4, 7, 10, 12, 14, 15],")
# Name → options of `unskew train`, and the features that a probe learns from.
ARMS: dict[str, tuple[list[str], str]] = {
    "finetune": (["--preset", "finetune"], ""),
    "finetune, last layer only": (["--preset", "finetune", "--head-share", "1"], ""),
    "probe": (["--preset", "probe"], EMBEDDING),
    "probe, several blocks": (["--preset", "probe"], BLOCKS),
    "fast": (["--preset", "fast"], ""),
}


def main() -> None:
    """Measure the arms that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("arm", nargs="*", default=list(ARMS))
    options = parser.parse_args()
    for seed in range(options.seeds):
        images = options.out / f"images-{seed}"
        if not images.exists():
            write_images(options.data, images, seed)
        for arm in options.arm:
            record = options.out / f"{arm}-{seed}.json"
            if not record.exists():
                record.write_text(json.dumps(measure(images, arm)))
                print(arm, seed, record.read_text(), flush=True)
    print("| model | accuracy on the test folder | processor minutes |\n|---|---|---|")
    for arm in options.arm:
        records = [
            json.loads((options.out / f"{arm}-{seed}.json").read_text())
            for seed in range(options.seeds)
        ]
        accuracy = " ".join(f"{100 * record['accuracy']:.1f}" for record in records)
        minutes = statistics.mean(record["cpu"] for record in records) / 60
        print(f"| {arm} | {accuracy} | {minutes:.1f} |")


def measure(images: Path, arm: str) -> dict[str, float]:
    """Train one arm by the command line, and judge it on the test folder."""
    options, features = ARMS[arm]
    config = images / f"{arm}.toml"
    config.write_text(
        "[sources.folders]\n"
        + "".join(f'{name} = "{name}"\n' for name in SIZES)
        + (f"[represent]\n{features}\n" if features else "")
        + '[target]\nuniform = "label"\n[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    trained = str(images / f"trained {arm}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call("train", str(config), "-o", trained, "--resume", "--replicates", "100", *options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    judged = json.loads(
        call("evaluate", trained, str(images / "test"), "--json", "--replicates", "0")
    )
    return {
        "accuracy": judged["overall"]["figures"]["accuracy"]["value"],
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def call(*words: str) -> str:
    """Run the command, and return what it prints."""
    command = [sys.executable, "-m", "unskew", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def write_images(data: Path, folder: Path, seed: int) -> None:
    """Write three biased sources and a uniform test folder by class, images of any size."""
    rng = np.random.default_rng(seed)
    train, test = read_split(data, "cifar10", "train"), read_split(data, "cifar10", "test")
    left = rng.permutation(len(train.label))
    part = folder.with_name(folder.name + ".part")
    for k, (name, size) in enumerate(SIZES.items()):
        # Classes of a source come with shares that fall by the distance from its own, 7:1.
        share_m = 7.0 ** -(((np.arange(10) - 3 * k) % 10) / 9)
        drawn = draw_classes(train.label, left, (size * share_m / share_m.sum()).round(), rng)
        write_folder(part / name, train, drawn, rng)
        left = np.setdiff1d(left, drawn)
    drawn = draw_classes(test.label, np.arange(len(test.label)), np.full(10, N_TEST / 10), rng)
    write_folder(part / "test", test, drawn, rng)
    os.rename(part, folder)


def draw_classes(label_n: Ints, rows: Ints, count_m: np.ndarray, rng: np.random.Generator) -> Ints:
    """Draw so many rows of every class."""
    return np.concatenate(
        [
            rng.choice(rows[label_n[rows] == m], int(count), replace=False)
            for m, count in enumerate(count_m)
        ]
    )


def write_folder(folder: Path, sheets: CifarSplit, rows: Ints, rng: np.random.Generator) -> None:
    """Write images by class, enlarged to any size and cut to any aspect ratio from 3/4 to 4/3."""
    for row in rows:
        image = Image.fromarray(sheets.images[row])
        side, ratio = rng.integers(40, 241), rng.uniform(0.75, 4 / 3)
        image = image.resize((side, round(side * ratio)), Image.Resampling.BICUBIC)
        place = folder / sheets.classes[sheets.label[row]]
        place.mkdir(parents=True, exist_ok=True)
        image.save(place / f"{row}.{'png' if rng.random() < 0.5 else 'jpg'}")


if __name__ == "__main__":
    main()
