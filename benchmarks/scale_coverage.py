"""How often 95% intervals hold beyond the subsample, against all images in memory.

    python benchmarks/scale_coverage.py [--worlds 200] [--images 4000] [--subsample 1000]
        [--page docs/scale.md]

Each world is drawn again, weighed in memory, and over Parquet parts with a subsample of a quarter;
the target mean of a column is compared with the truth, which is a mean of a million draws. The
page of a run shows the mean and the interval of the subsample.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import unskew
from unskew import Pool, Target, bias

BEGIN, END = "<!-- benchmarks/scale_coverage.py -->", "<!-- end of coverage -->"
MASSES = {"label": {"x": 0.7, "y": 0.3}}
TRUTH_IMAGES = 1_000_000


def selected_by_features(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Three sources that select by z_0 and z_1, a log-linear model of them."""
    z = rng.normal(size=(n, 2))
    pull = np.column_stack([np.zeros(n), 0.8 * z[:, 0], 0.5 * z[:, 0] - 0.8 * z[:, 1]])
    source = np.array(["a", "b", "c"])[(rng.gumbel(size=(n, 3)) + pull).argmax(axis=1)]
    label = np.where(z[:, 0] + rng.normal(size=n) > 0, "x", "y")
    y = z[:, 0] + 0.5 * z[:, 0] ** 2 + rng.normal(size=n)
    return table(source, label, label, z, y)


def selected_by_levels(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Three sources that select by label and side, whose odds ratio is everywhere that of all."""
    at = rng.choice(4, size=n, p=[0.35, 0.15, 0.15, 0.35])
    label, side = np.array(["x", "x", "y", "y"])[at], np.array(["l", "r", "l", "r"])[at]
    chance = np.column_stack([np.ones(n), 1 + (label == "x"), 1 + 2.0 * (side == "l")])
    # Every source draws from the population by itself, which keeps odds ratios.
    which = rng.integers(3, size=n)
    kept = rng.random(n) < chance[np.arange(n), which] / chance.max(axis=0)[which]
    z = rng.normal(size=(n, 2))
    y = (label == "x") + 0.7 * (side == "l") + rng.normal(size=n)
    return table(np.array(["a", "b", "c"])[which], label, side, z, y)[kept]


def table(source: Any, label: Any, side: Any, z: Any, y: Any) -> pd.DataFrame:
    columns = {"source": source, "label": label, "side": side, "z_0": z[:, 0], "z_1": z[:, 1]}
    return pd.DataFrame(columns | {"y": y})


def of_source_a(frame: pd.DataFrame) -> float:
    return float(frame.loc[frame["source"] == "a", "y"].mean())


def of_labels_of_a(frame: pd.DataFrame) -> float:
    means = frame[frame["source"] == "a"].groupby("label")["y"].mean()
    return float(sum(share * means[level] for level, share in MASSES["label"].items()))


def of_population(frame: pd.DataFrame) -> float:
    """The mean of y where label and side have the shares that the population has."""
    return 0.5 + 0.7 * 0.5


World = Callable[[int, np.random.Generator], pd.DataFrame]
HALVES = {"label": {"x": 0.5, "y": 0.5}, "side": {"l": 0.5, "r": 0.5}}
CASES: dict[str, tuple[World, Any, Any, Callable[[pd.DataFrame], float]]] = {
    "Tilt (all rows)": (
        selected_by_features,
        bias.Tilt(["z_0", "z_1"]),
        Target.source("a"),
        of_source_a,
    ),
    "Strata × Tilt (all rows)": (
        selected_by_features,
        bias.Product(bias.Strata("label"), bias.Tilt(["z_0", "z_1"], reference="a")),
        Target.margins(MASSES),
        of_labels_of_a,
    ),
    "Propensity, a classifier (subsample)": (
        selected_by_features,
        bias.Propensity(["z_0", "z_1"], classifier=LogisticRegression(), folds=2),
        Target.source("a"),
        of_source_a,
    ),
    "Strata, two margins (counts)": (
        selected_by_levels,
        bias.Strata(["label", "side"]),
        Target.margins(HALVES),
        of_population,
    ),
}


def weigh_both(frame: pd.DataFrame, model: Any, target: Any, subsample: int) -> list[Any]:
    """Estimate the mean of y in memory, over parts, and in the subsample, as the page shows it."""
    frame = frame.reset_index(drop=True).assign(id=np.arange(len(frame)))
    options = {} if target.kind == "margins" else {"check_sample": False}
    with tempfile.TemporaryDirectory(prefix="unskew-coverage-") as name:
        for at, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[part].to_parquet(f"{name}/part-{at}.parquet", index=False)
        parts = Pool.from_parquet(name)
        streamed = unskew.debias(parts, model, target, subsample=subsample, **options)
        drawn = streamed.fit.draw(["y"]).frame["y"].to_numpy()
        over_parts = [streamed.mean("y"), streamed.sampled.mean(drawn)]
        streamed.close()
    weights = unskew.debias(Pool.from_frame(frame, id="id"), model, target, **options)
    return [weights.mean(frame["y"].to_numpy()), *over_parts]


def row_of(name: str, worlds: int, images: int, subsample: int) -> str:
    draw, model, target, truth_of = CASES[name]
    truth = truth_of(draw(TRUTH_IMAGES, np.random.default_rng(10**6)))
    held, errors, lengths = np.zeros((3, worlds, 3))
    for world in range(worlds):
        frame = draw(images, np.random.default_rng(world))
        for at, estimate in enumerate(weigh_both(frame, model, target, subsample)):
            low, high = estimate.agreed  # parts do not compare their sources
            held[world, at] = low <= truth <= high
            errors[world, at], lengths[world, at] = estimate.value - truth, high - low
    rms = np.sqrt((errors**2).mean(axis=0))
    shown = [f"{share:.1%}" for share in held.mean(axis=0)]
    length = lengths.mean(axis=0)
    shown += [f"{rms[1] / rms[0]:.2f}", f"{length[1] / length[0]:.2f}"]
    shown += [f"{length[2] / length[0]:.2f}"]
    return f"| {name} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--subsample", type=int, default=1000)
    parser.add_argument("--page", type=Path, help="the page whose table is replaced")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [
        f"{options.worlds} worlds of about {options.images:,} images, a subsample of "
        f"{options.subsample:,}.",
        "",
        "| model (fitted to) | coverage in memory | over parts | of the subsample, on the page | "
        "error, over parts / in memory | length of the interval, over parts / in memory | of the "
        "subsample / in memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        lines.append(row_of(name, options.worlds, options.images, options.subsample))
        print(lines[-1], flush=True)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        body = "\n".join(lines)
        options.page.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
