"""Shares of classes from a classifier's scores: unskew and other packages on the same draws; writes
the table of docs/label-shift.md to the terminal.

python benchmarks/label_shift.py                 200 draws of each world, about an hour on one core
python benchmarks/label_shift.py --draws 50      quicker, and rougher

Each package runs in an environment of its own (requirements-*.txt). Peers take no weights: in the
weighted world they get labelled images drawn again within classes in proportion to the weights.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from weights_environments import HERE, install

from worlds_label_shift import NAMES, Predictions, draw_labels, gaussian, subtypes

SEED = 2027
Rng = np.random.Generator


def three_small(rng: Rng) -> Predictions:
    """3 classes, 200 target and 200 labelled images, log-odds twice too large."""
    return gaussian(rng, np.array([0.6, 0.3, 0.1]), m=200, v=200)


def five_rare(rng: Rng) -> Predictions:
    """5 classes, one of 1%, 1,000 and 1,000 images, log-odds half too small."""
    truth = np.array([0.4, 0.3, 0.2, 0.09, 0.01])
    return gaussian(rng, truth, m=1000, v=1000, apart=2.0, slope=0.5)


def ten_large(rng: Rng) -> Predictions:
    """10 classes, 5,000 and 2,000 images, shares from 1% to 30%."""
    truth = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01])
    return gaussian(rng, truth, m=5000, v=2000, apart=2.0)


def weak(rng: Rng) -> Predictions:
    """4 classes that are often confused, 1,000 and 1,000 images."""
    return gaussian(rng, np.array([0.1, 0.2, 0.3, 0.4]), m=1000, v=1000, apart=0.9)


def own_slopes(rng: Rng) -> Predictions:
    """3 classes, each with a slope of its own, 1,000 and 1,000 images."""
    slope = np.array([0.5, 1.0, 2.0])
    return gaussian(rng, np.array([0.2, 0.2, 0.6]), m=1000, v=1000, slope=slope)


def trained(rng: Rng, learner: Callable[[], object]) -> Predictions:
    truth, n_classes, means = np.array([0.5, 0.25, 0.15, 0.1]), 4, rng.normal(size=(4, 10))

    def images(label: np.ndarray) -> np.ndarray:
        x = 0.7 * means[label] + rng.standard_t(5, size=(label.size, 10))
        return x * (1 + 0.3 * label[:, None] * (np.arange(10) < 3))

    equal = np.full(n_classes, 1 / n_classes)
    train, validation = draw_labels(rng, 500, equal), draw_labels(rng, 800, equal)
    target = draw_labels(rng, 1000, truth)
    model = learner().fit(images(train), train)  # type: ignore[attr-defined]
    scores = [model.predict_proba(images(label)) for label in (target, validation)]
    return Predictions(scores[0], scores[1], NAMES[validation], truth, {})


def logistic(rng: Rng) -> Predictions:
    """4 classes, a logistic regression trained on 500 heavy-tailed images, 1,000 and 800 images."""
    from sklearn.linear_model import LogisticRegression

    return trained(rng, lambda: LogisticRegression(C=100.0, max_iter=500))


def forest(rng: Rng) -> Predictions:
    """The same with a random forest of 100 trees, its scores (votes + 0.25)/101."""
    from sklearn.ensemble import RandomForestClassifier

    drawn = trained(rng, lambda: RandomForestClassifier(100, random_state=0))
    scores = [
        (100 * score + 0.25) / 101 for score in (drawn.target_scores, drawn.validation_scores)
    ]
    return replace(drawn, target_scores=scores[0], validation_scores=scores[1])


def bayes(rng: Rng) -> Predictions:
    """The same with naive Bayes, most scores near 0 or 1, none below 1e-9."""
    from sklearn.naive_bayes import GaussianNB

    drawn = trained(rng, GaussianNB)
    scores = [np.maximum(score, 1e-9) for score in (drawn.target_scores, drawn.validation_scores)]
    return replace(drawn, target_scores=scores[0], validation_scores=scores[1])


WORLDS = (
    three_small,
    five_rare,
    ten_large,
    weak,
    own_slopes,
    subtypes,
    logistic,
    forest,
    bayes,
)


def write_draws(world: Callable[[Rng], Predictions], n_draws: int, folder: Path) -> np.ndarray:
    """Write own.npz and peers.npz (weights drawn out); return the true shares."""
    own: dict[str, list[np.ndarray]] = {key: [] for key in ("target", "validation", "label")}
    peers: dict[str, list[np.ndarray]] = {key: [] for key in own}
    weights, truth = [], np.zeros(0)
    for at in range(n_draws):
        rng = np.random.default_rng([SEED, at])
        drawn = world(rng)
        truth = drawn.truth
        label = np.searchsorted(
            NAMES[: truth.size].astype(str), drawn.validation_labels.astype(str)
        )
        weight = drawn.options.get("validation_weights", np.ones(label.size))
        row = np.arange(label.size)
        if np.ptp(weight) > 0:
            for code in range(truth.size):
                members = np.flatnonzero(label == code)
                share = weight[members] / weight[members].sum()
                row[members] = rng.choice(members, members.size, p=share)
        for store, rows in ((own, np.arange(label.size)), (peers, row)):
            store["target"].append(drawn.target_scores)
            store["validation"].append(drawn.validation_scores[rows])
            store["label"].append(label[rows])
        weights.append(weight)
    np.savez(
        folder / "own.npz", **{key: np.array(part) for key, part in own.items()}, weight=weights
    )
    np.savez(
        folder / "peers.npz",
        **{key: np.array(part) for key, part in peers.items()},
        weight=np.ones_like(weights),
    )
    return truth


def estimate(package: str, python: Path, folder: Path) -> dict[str, np.ndarray]:
    source = folder / ("own.npz" if package == "unskew" else "peers.npz")
    output = folder / f"{package}.npz"
    subprocess.run([python, HERE / "label_shift_worker.py", package, source, output], check=True)
    return dict(np.load(output))


def world_rows(truth: np.ndarray, estimates: dict[str, np.ndarray]) -> list[str]:
    """RMSE of the shares of each method, and how far unskew is from it, with the paired error."""
    error = {
        name: np.sqrt(np.square(share - truth).mean(axis=1))
        for name, share in estimates.items()
        if not name.endswith(" seconds")
    }
    rows = []
    for name in sorted(error, key=lambda name: float(error[name][np.isfinite(error[name])].mean())):
        usable = np.isfinite(error[name]) & np.isfinite(error["unskew"])
        difference = (error["unskew"] - error[name])[usable]
        paired = float(difference.std(ddof=1) / np.sqrt(difference.size))
        apart = "" if name == "unskew" else f"{100 * difference.mean():+.3f} ± {100 * paired:.3f}"
        failed = int((~np.isfinite(error[name])).sum())
        shown = f"**{name}**" if name == "unskew" else name
        rows.append(
            f"| {shown} | {100 * error[name][usable].mean():.3f} | {apart} | "
            f"{1000 * float(estimates[f'{name} seconds']):.0f} ms | {failed or ''} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", action="append", help="names of worlds")
    options = parser.parse_args()
    pythons = {"unskew": Path(sys.executable)}
    for package in ("abstention", "quapy", "mlquantify"):
        python, reason = install(package)
        if python is None:
            print(f"{package} is left out: {reason}", flush=True)
        else:
            pythons[package] = python
    for world in WORLDS:
        if options.only and world.__name__ not in options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            truth = write_draws(world, options.draws, Path(folder))
            estimates: dict[str, np.ndarray] = {}
            for package, python in pythons.items():
                estimates |= estimate(package, python, Path(folder))
        about = " ".join((world.__doc__ or "").split())
        print(f"\n### `{world.__name__}`\n\n{about} {options.draws} draws.\n")
        print("| method | error of the shares × 100 | unskew − method | time | failed |")
        print("|---|---|---|---|---|")
        print("\n".join(world_rows(truth, estimates)), flush=True)


if __name__ == "__main__":
    main()
