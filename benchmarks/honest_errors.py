"""How often 95% intervals of a target mean hold the truth, and how often `check_fit` rejects: the
tables of docs/honest-errors.md.

python benchmarks/honest_errors.py                     everything, about an hour on one core
python benchmarks/honest_errors.py --sets 200          quicker, and rougher
python benchmarks/honest_errors.py --only tilt_small   one recipe of tests/simulations.py
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

import simulations as recipes
import worlds_design
import worlds_forecast
import worlds_joint
import worlds_label_shift
import worlds_targets
import worlds_variance
import worlds_verdicts
from simulation_measures import (
    Coverage,
    binomial_error,
    bootstrap_of,
    fit_p_values,
    mean_as_if_known,
    mean_of,
    mean_of_chosen_edges,
    measure_coverage,
)
from simulations import Recipe
from unskew.records import Estimate
from worlds_agreement import agreement_rows
from worlds_robust import robust_rows

# Other data sets than those that the tests draw.
SEED = 2026
LEVELS = (
    (recipes.known, ["x"]),
    (recipes.known_groups, ["x"]),
    (recipes.known_categorical, None),
    (recipes.strata_feature, ["x"]),
    (recipes.strata_groups_feature, ["x"]),
    (recipes.tilt_small, ["x"]),
    (recipes.tilt_groups, ["x"]),
    (recipes.tilt_categorical, None),
    (recipes.propensity, ["x"]),
    (recipes.strata_tilt, None),
    (recipes.box, None),
)
WRONG = (
    (recipes.wrong_known, ["x"]),
    (recipes.wrong_strata, ["light", "x"]),
    (recipes.wrong_linear, ["x"]),
    (recipes.wrong_box, ["x"]),
    (recipes.wrong_product, ["x", "cross"]),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", type=int, default=2000, help="simulated data sets for each recipe"
    )
    parser.add_argument(
        "--bootstrap-sets", type=int, default=200, help="data sets of the bootstrap that refits"
    )
    parser.add_argument("--replicates", type=int, default=200, help="how often")
    parser.add_argument(
        "--part",
        choices=list(PARTS),
        action="append",
        help="default: all",
    )
    parser.add_argument("--only", action="append", help="names of recipes")
    options = parser.parse_args()
    for part in options.part or PARTS:
        for row in PARTS[part](options):
            print(row, flush=True)
        print(flush=True)


def _chosen(recipe: Recipe, options: argparse.Namespace) -> bool:
    return not options.only or recipe.__name__ in options.only


def _data(recipe: Recipe) -> str:
    return " ".join((recipe.__doc__ or "").split()).rstrip(".")


def _row(recipe: Recipe, coverage: Coverage, seconds: float) -> str:
    return (
        f"| `{recipe.__name__}` | {_data(recipe)} | {coverage.n_sets:,} | {coverage.share:.1%} ± "
        f"{coverage.error:.1%} | "
        f"{coverage.bias / coverage.spread:+.2f} | {coverage.stderr / coverage.spread:.2f} | "
        f"{1000 * seconds / coverage.n_sets:.0f} ms |"
    )


def _coverage_rows(
    chosen: list[tuple[Recipe, Callable[[recipes.DataSet], Estimate]]], n_sets: int
) -> Iterator[str]:
    yield "| recipe | data | sets | coverage | bias / spread | stderr / spread | time |"
    yield "|---|---|---|---|---|---|---|"
    for recipe, estimate in chosen:
        start = time.process_time()
        coverage = measure_coverage(recipe, n_sets, SEED, estimate)
        yield _row(recipe, coverage, time.process_time() - start)


def mean_rows(options: argparse.Namespace) -> Iterator[str]:
    every = [*recipes.PRINCIPAL, *recipes.VARIANTS, *recipes.BOXES, *recipes.SOFT_BOXES]
    yield from _coverage_rows(
        [(recipe, mean_of) for recipe in every if _chosen(recipe, options)], options.sets
    )


def bootstrap_rows(options: argparse.Namespace) -> Iterator[str]:
    every = [recipes.strata, recipes.strata_survey, recipes.tilt_tiny, *recipes.BOXES]
    yield from _coverage_rows(
        [
            (recipe, partial(bootstrap_of, n=options.replicates))
            for recipe in every
            if _chosen(recipe, options)
        ],
        options.bootstrap_sets,
    )
    if _chosen(recipes.propensity_boosting, options):
        few = max(options.bootstrap_sets // 4, 1)
        yield from list(
            _coverage_rows(
                [(recipes.propensity_boosting, partial(bootstrap_of, n=options.replicates // 4))],
                few,
            )
        )[2:]


def target_rows(options: argparse.Namespace) -> Iterator[str]:
    yield from _coverage_rows(
        [(recipe, mean_of) for recipe in worlds_targets.TARGETS if _chosen(recipe, options)],
        options.sets,
    )
    trap = worlds_targets.margins_two_pooled
    if _chosen(trap, options):
        yield from list(_coverage_rows([(trap, mean_of)], min(options.sets, 500)))[2:]


def variance_rows(options: argparse.Namespace) -> Iterator[str]:
    worlds = (worlds_variance.GROUPS, worlds_variance.THIN, worlds_variance.RARE)
    every = [recipe for group in (*worlds, worlds_variance.RIDGES) for recipe in group]
    yield from _coverage_rows(
        [(recipe, mean_of) for recipe in every if _chosen(recipe, options)], options.sets
    )


def trap_rows(options: argparse.Namespace) -> Iterator[str]:
    every = [
        (recipes.tilt, mean_as_if_known),
        (recipes.tilt_small, mean_as_if_known),
        (recipes.strata_survey_exact, mean_of),
        (recipes.soft_box_blurred, mean_of_chosen_edges),
    ]
    yield from _coverage_rows(
        [(recipe, estimate) for recipe, estimate in every if _chosen(recipe, options)], options.sets
    )


def level_rows(options: argparse.Namespace) -> Iterator[str]:
    yield from _rejections(LEVELS, options, options.sets)


def power_rows(options: argparse.Namespace) -> Iterator[str]:
    yield from _rejections(WRONG, options, min(options.sets, 500))


def _rejections(
    cases: tuple[tuple[Callable[..., object], list[str] | None], ...],
    options: argparse.Namespace,
    n_sets: int,
) -> Iterator[str]:
    yield "| recipe | data | sets | rejected at 5% |"
    yield "|---|---|---|---|"
    for recipe, features in cases:
        if _chosen(recipe, options):
            share = float(np.mean(fit_p_values(recipe, n_sets, SEED, features) <= 0.05))
            error = binomial_error(share, n_sets)
            yield (
                f"| `{recipe.__name__}` | {_data(recipe)} | {n_sets:,} | {share:.1%} ± "
                f"{error:.1%} |"
            )


def forecast_rows(options: argparse.Namespace) -> Iterator[str]:
    yield from worlds_forecast.rows(min(options.sets, 300), SEED)


PARTS = {
    "mean": mean_rows,
    "bootstrap": bootstrap_rows,
    "trap": trap_rows,
    "level": level_rows,
    "power": power_rows,
    "forecast": forecast_rows,
    "robust": robust_rows,
    "design": worlds_design.rows,
    "label_shift": worlds_label_shift.rows,
    "targets": target_rows,
    "variance": variance_rows,
    "agreement": agreement_rows,
    "verdict": lambda options: worlds_verdicts.rows(options, SEED),
    "joint": worlds_joint.joint_rows,
    "pages": worlds_joint.page_rows,
}


if __name__ == "__main__":
    main()
