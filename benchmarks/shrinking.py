"""What shrinking and trimming weights do to the error of a mean: the tables of docs/few-images.md.

python benchmarks/shrinking.py                    every recipe of tests/simulations.py, many
features and heavy weights of tests/worlds_variance.py; a quarter of an hour on one core
python benchmarks/shrinking.py --sets 100         quicker, and rougher
python benchmarks/shrinking.py --only tilt_small  one recipe
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

import simulations as recipes
import unskew
import worlds_variance as worlds

# Other data sets than those that the tests draw.
SEED = 2027


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=500, help="simulated data sets for each recipe")
    parser.add_argument("--only", action="append", help="names of recipes")
    options = parser.parse_args()
    every = [*recipes.PRINCIPAL, *recipes.VARIANTS, *recipes.BOXES, *recipes.SOFT_BOXES]
    print(
        "| recipe | data | images | pool | weights | shrunk | shrunk / weights | kept "
        "|\n|---|---|---|---|---|---|---|---|"
    )
    ratios = []
    for recipe in every:
        if not options.only or recipe.__name__ in options.only:
            row, ratio = measure(recipe, options.sets)
            ratios.append(ratio)
            print(row, flush=True)
    print(
        "\nShrunk in all features together; the error is that of their sum:\n\n"
        "| recipe | data | images | pool | weights | shrunk | shrunk / weights | kept "
        "|\n|---|---|---|---|---|---|---|---|"
    )
    for recipe in worlds.MANY:
        if not options.only or recipe.__name__ in options.only:
            print(measure(recipe, options.sets, features=True)[0], flush=True)
    print(
        '\nTrimmed by trim_weights(at="mse") of the value itself:\n\n'
        "| recipe | data | images | weights | trimmed | trimmed / weights | at the cap "
        "|\n|---|---|---|---|---|---|---|"
    )
    for recipe in worlds.HEAVY:
        if not options.only or recipe.__name__ in options.only:
            print(measure_trimming(recipe, options.sets), flush=True)
    if ratios:
        better = sum(ratio < 1.0 for ratio in ratios)
        print(
            f"\nShrunk one by one: lower in {better} of {len(ratios)}; ratios from "
            f"{min(ratios):.2f} to {max(ratios):.2f}, geometric mean "
            f"{np.exp(np.mean(np.log(ratios))):.2f}."
        )


def measure(recipe: recipes.Recipe, n_sets: int, features: bool = False) -> tuple[str, float]:
    """Root mean square errors of the target mean by the pool, the weights and the shrunken weights;
    mean share kept. ``features``: shrunk in the features of the model in place of the value.
    """
    error, kept, sizes = [], [], []
    for seed in range(n_sets):
        data = recipe(np.random.default_rng([SEED, seed]))
        weights = data.debias()
        shrunk = unskew.shrink_weights(weights, None if features else {"value": data.value})
        pool_n = (weights.weight > 0) / np.count_nonzero(weights.weight)
        error.append(
            [each_n @ data.value - data.truth for each_n in (pool_n, weights.weight, shrunk.weight)]
        )
        kept.append(np.mean(list(shrunk.kept.values())))
        sizes.append(data.value.size)
    pool, before, after = np.sqrt(np.mean(np.square(error), axis=0))
    row = (
        f"| {_named(recipe)} | {np.mean(sizes):.0f} | {pool:.4f} | {before:.4f} | "
        f"{after:.4f} | {after / before:.2f} | "
        f"{np.mean(kept):.0%} |"
    )
    return row, float(after / before)


def measure_trimming(recipe: recipes.Recipe, n_sets: int) -> str:
    """Root mean square errors by the weights and the trimmed ones; mean number at the cap."""
    error, trimmed, sizes = [], [], []
    for seed in range(n_sets):
        data = recipe(np.random.default_rng([SEED, seed]))
        weights = data.debias()
        cut = unskew.trim_weights(weights, at="mse", means={"value": data.value})
        error.append([each_n @ data.value - data.truth for each_n in (weights.weight, cut.weight)])
        trimmed.append(cut.n_trimmed)
        sizes.append(data.value.size)
    before, after = np.sqrt(np.mean(np.square(error), axis=0))
    return (
        f"| {_named(recipe)} | {np.mean(sizes):.0f} | {before:.4f} | {after:.4f} | "
        f"{after / before:.2f} | {np.mean(trimmed):.1f} |"
    )


def _named(recipe: recipes.Recipe) -> str:
    return f"`{recipe.__name__}` | {' '.join((recipe.__doc__ or '').split()).rstrip('.')}"


if __name__ == "__main__":
    main()
