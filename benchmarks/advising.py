"""Does collecting what `unskew.advise_collection` advises bring the promised standard error?

python benchmarks/advising.py                 the tables of docs/advise.md, some minutes on one core
python benchmarks/advising.py --redraws 50    quicker, and rougher
python benchmarks/advising.py --only Strata   worlds whose name begins so
python benchmarks/advising.py --goal ess      effective sizes (or overlap) wanted, and brought

Every re-draw draws a pilot, asks for advice, collects what is advised (drawn by the world, not from
the pilot), weighs everything again, and notes the error of the mean. The spread of these errors is
the realised standard error; the predicted one is the root mean square of what the advice promised.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from advising_worlds import WORLDS, World, as_pool

import unskew

SEED = 2031
# The naive rule: n (now/wanted)² images, more of every source in proportion.
NAIVE = "naive rule"


@dataclass
class Tally:
    """What one way to collect promised, and what it brought."""

    images: list[float] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--redraws", type=int, default=200, help="for each world")
    parser.add_argument("--only", default="", help="beginning of the names of worlds")
    parser.add_argument("--goal", choices=("stderr", "ess", "overlap"), default="stderr")
    options = parser.parse_args()
    if options.goal != "stderr":
        print(
            "| world | images (median) | figure / wanted | standard deviation |\n|---|---|---|---|"
        )
        for number, world in enumerate(WORLDS):
            if world.name.startswith(options.only):
                rng = np.random.default_rng([SEED, number, 1])
                print_figures(world, rng, options.redraws, options.goal)
        return
    print(
        "| world | wanted | collected | images (median) | predicted | realised | predicted / "
        "realised | needed |\n|---|---|---|---|---|---|---|---|"
    )
    begun, ratios = time.perf_counter(), []
    for number, world in enumerate(WORLDS):
        if world.name.startswith(options.only):
            ratios += measure(world, np.random.default_rng([SEED, number]), options.redraws)
    off = max(abs(math.log(ratio)) for ratio in ratios)
    print(
        f"\n{len(ratios)} ways to collect, {options.redraws} re-draws each, off by "
        f"{math.exp(off) - 1:.0%} at most; {time.perf_counter() - begun:.0f} s"
    )


def measure(world: World, rng: np.random.Generator, redraws: int) -> list[float]:
    """Print one row for each way to collect; return predicted/realised of each."""
    wanted = world.factor * typical_error(world, rng)
    tallies: dict[str, Tally] = {"best source": Tally(), "best mix": Tally(), NAIVE: Tally()}
    for _ in range(redraws):
        redraw(world, rng, wanted, tallies)
    ratios = []
    for way, tally in tallies.items():
        if len(tally.error) < 0.9 * redraws:
            continue
        predicted = math.sqrt(np.mean(np.square(tally.predicted)))
        realised = float(np.sqrt(np.mean(np.square(tally.error))))
        ratios += [] if way == NAIVE else [predicted / realised]
        needed = float(np.mean(np.array(tally.images) > 0))
        print(
            f"| {world.name} | {wanted:.3f} | {way} | {np.median(tally.images):,.0f} | "
            f"{predicted:.4f} | {realised:.4f} | {predicted / realised:.2f} | {needed:.0%} |",
            flush=True,
        )
    return ratios


def print_figures(world: World, rng: np.random.Generator, redraws: int, goal: str) -> None:
    """Print what the best source brings: of the effective size wanted, or of the link error."""
    images, ratios = [], []
    for _ in range(redraws):
        pilot, target = world.collect(rng, world.sizes), world.target(rng, world.sample)
        ess = 1.5 * weigh(world, as_pool(pilot), rng, world.sample).ess
        wanted = {"ess": ess} if goal == "ess" else {"overlap": True}
        advice = advise(world, pilot, target, wanted)
        sources = [option for option in advice.possible if option.kind == "source"]
        if sources:
            plan = {sources[0].name: sources[0].images or 0}
            grown = pd.concat([pilot, world.collect(rng, plan)], ignore_index=True)
            goals = advise(world, grown, target, wanted).goals
            images.append(sum(plan.values()))
            ratios.append(max(one.now / one.wanted for one in goals))
    if ratios:
        mean, spread = np.mean(ratios), np.std(ratios)
        print(
            f"| {world.name} | {np.median(images):,.0f} | {mean:.3f} | {spread:.3f} |", flush=True
        )


def advise(
    world: World, frame: pd.DataFrame, target: unskew.Target | None, wanted: Mapping[str, Any]
) -> unskew.Advice:
    """Ask for advice."""
    pool = as_pool(frame)
    return unskew.advise_collection(pool, world.model(pool.names), target, **wanted)


def typical_error(world: World, rng: np.random.Generator) -> float:
    """Return the median standard error of 20 pilots."""
    errors = []
    for _ in range(20):
        pool = as_pool(world.collect(rng, world.sizes))
        weights = weigh(world, pool, rng, world.sample)
        errors.append(weights.mean(pool.frame["value"].to_numpy()).stderr)
    return float(np.median(errors))


def weigh(world: World, pool: unskew.Pool, rng: np.random.Generator, sample: int) -> unskew.Weights:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unskew.UnskewWarning)
        return unskew.debias(
            pool, world.model(pool.names), world.target(rng, sample), check_sample=False
        )


def redraw(
    world: World, rng: np.random.Generator, wanted: float, tallies: Mapping[str, Tally]
) -> None:
    pilot = world.collect(rng, world.sizes)
    pool = as_pool(pilot)
    target = world.target(rng, world.sample)
    # Only what the world's own sources and the target's sample can supply.
    advice = unskew.advise_collection(
        pool, world.model(pool.names), target, stderr=wanted, outcomes=["value"]
    )
    (goal,) = advice.goals
    sources = [option for option in advice.possible if option.kind in ("source", "sample")]
    plans: dict[str, Mapping[str, int]] = {NAIVE: naive_plan(world, goal.now, wanted)}
    if advice.reached:
        plans |= {"best source": {}, "best mix": {}}
    elif sources:
        plans["best source"] = {sources[0].name: sources[0].images or 0}
        plans["best mix"] = advice.mix or {sources[0].name: sources[0].images or 0}
    elif advice.mix:
        plans["best mix"] = advice.mix
    error_of: dict[tuple[tuple[str, int], ...], float] = {}
    for way, plan in plans.items():
        key = tuple(plan.items())
        if key not in error_of:
            error_of[key] = error_after(world, rng, pilot, plan)
        tallies[way].images.append(sum(plan.values()))
        tallies[way].predicted.append(goal.now if advice.reached else wanted)
        tallies[way].error.append(error_of[key])


def naive_plan(world: World, now: float, wanted: float) -> dict[str, int]:
    times = max((now / wanted) ** 2 - 1.0, 0.0)
    plan = {name: math.ceil(times * size) for name, size in world.sizes.items()}
    return plan | ({"target sample": math.ceil(times * world.sample)} if world.sample else {})


def error_after(world: World, rng: np.random.Generator, pilot, plan: Mapping[str, int]) -> float:
    """Return the error of the mean once the plan is collected in addition to the pilot."""
    extra = {name: n for name, n in plan.items() if n and name != "target sample"}
    frame = pd.concat([pilot, world.collect(rng, extra)], ignore_index=True) if extra else pilot
    pool = as_pool(frame)
    weights = weigh(world, pool, rng, world.sample + plan.get("target sample", 0))
    return float(weights.weight @ pool.frame["value"].to_numpy()) - world.truth


if __name__ == "__main__":
    main()
