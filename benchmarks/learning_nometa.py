"""Nothing but images: an embedding, and 500 unlabelled images of the target.

What unskew wins by default (`choose_bias` proposes and chooses the bias model), compared with what
the true ω wins. Arms: naive (its ridge tuned), default, true omega, label shift alone, a tilt of
the components alone. Ways: half (τ = ½, ridge 0.01) and, with ``auto``, the tuned probe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from learning_results import Record, Results
from learning_ways import Images, TestImages, _best_ridge, distinct_images
from solver_table import commit_facts

import unskew
from paper.features import Features
from paper.settings import BEYOND, Draw, Population, Setting, unseen_chance
from unskew.bias import ClassShift, Tilt
from unskew.choosing.choice import BiasChoice
from unskew.learn.dial import Dialled, turn_dial
from unskew.learn.probe_grid import dialled_probe, tune_probe
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.clustered_mean import effective_size

# Bright vehicles and dark animals; shares of classes; both.
SETTINGS: Sequence[Setting] = (BEYOND[4], BEYOND[1], BEYOND[5])
N_TARGET = 500
PREFIX = "component"
ARMS = ("naive", "default", "true omega", "label shift", "tilt")


def measure_nometa(
    features: Features,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    results: Results,
    *,
    auto: bool = False,
) -> None:
    """Every arm on every setting and seed; with ``auto`` the tuned probe, too."""
    for seed in seeds:
        for setting in settings:
            way = "auto" if auto else "half"
            if (setting.key, seed, "true omega", way) in results.read():
                continue
            begin, commit = time.process_time(), commit_facts()
            records = list(_measure(features, setting, seed, auto=auto))
            for record in records:
                results.add({"setting": setting.key, "seed": seed, **record, "commit": commit})
            shown = ", ".join(f"{record['arm']} {record['accuracy']:.2f}" for record in records)
            cpu = time.process_time() - begin
            print(f"{setting.key} seed {seed} ({cpu:.0f} s): {shown}", file=sys.stderr, flush=True)


def draw_target(
    setting: Setting, population: Population, draw: Draw, seed: int, n_target: int = N_TARGET
) -> Ints:
    """Draw images of the population that no source has, as from the population itself."""
    chance_n = unseen_chance(setting.population_omega(population), draw.pool.sizes)
    unseen = np.setdiff1d(np.arange(population.label.size), draw.index)
    weight_u = 1.0 / chance_n[unseen]
    rng = np.random.default_rng(1000 + seed)
    return rng.choice(unseen, n_target, replace=False, p=weight_u / weight_u.sum())


def embedded_pool(features: Features, draw: Draw) -> Pool:
    """Return the pool as a user without metadata has it: source, label, content, embedding."""
    given = draw.pool.frame[["id", "source", "label", "content"]]
    return Pool(pd.concat([given, _components(features, draw.index)], axis=1))


def embedded_sample(features: Features, index: Ints) -> Pool:
    columns = _components(features, index)
    return Pool(columns.assign(source="target", id=[f"target {at}" for at in index]))


def _components(features: Features, index: Ints) -> pd.DataFrame:
    x_nd = features.train[index].astype(np.float64)
    return pd.DataFrame(x_nd, columns=[f"{PREFIX}_{at}" for at in range(x_nd.shape[1])])


def choose_by_default(pool: Pool, target: Target, seed: int) -> BiasChoice:
    return unskew.choose_bias(pool, None, target, check=False, rng=seed)


def _measure(features: Features, setting: Setting, seed: int, *, auto: bool) -> Iterator[Record]:
    population = Population(features.train_label, features.border)
    draw = setting.draw(population, seed)
    images, test = distinct_images(draw, features, seed), TestImages(features, setting)
    even_m = images.merge(np.ones(draw.index.size))
    naive = Dialled(0.0, even_m, np.zeros(images.n_classes))
    ridge = _best_ridge(naive, images, even_m, {})
    probe = dialled_probe(images.X, images.label, naive, ridge=ridge, tol=1e-4)
    yield test.record("naive", probe, ridge) | {"way": "auto" if auto else "half"}
    pool = embedded_pool(features, draw)
    index = draw_target(setting, population, draw, seed)
    target = Target.sample(embedded_sample(features, index))
    choice = choose_by_default(pool, target, seed)
    print(choice, file=sys.stderr, flush=True)
    default = None if choice.weights is None else choice.weights.weight
    facts = {"chosen": choice.name, "reason": choice.reason}
    if choice.best is None:
        default = np.ones(len(pool))
    assert default is not None
    weights: dict[str, Floats] = {"default": default}
    if not auto:
        weights |= _alone(pool, target, seed)
    weights["true omega"] = unskew.debias_weights(draw.omega, draw.pool.source).weight
    yield from _learn(images, weights, test, facts, seed, auto=auto)


def _alone(pool: Pool, target: Target, seed: int) -> dict[str, Floats]:
    """Weigh by one assumption alone: a shift of the classes, or a tilt of the components."""
    models = {
        "label shift": ClassShift([PREFIX]),
        "tilt": Tilt([PREFIX], components=30, ridge=30.0),
    }
    weigh = {"check_sample": False, "rng": seed}
    return {
        name: unskew.debias(pool, model, target, **weigh).weight for name, model in models.items()
    }


def _learn(
    images: Images,
    weights: Mapping[str, Floats],
    test: TestImages,
    facts: Record,
    seed: int,
    *,
    auto: bool,
) -> Iterator[Record]:
    for arm, weight_n in weights.items():
        weight_m = images.merge(weight_n)
        if auto:
            tuned = tune_probe(images.X, images.label, weight_m, images.n_classes, seed=seed)
            record = test.record(arm, tuned.probe, tuned.choice.ridge)
        else:
            dialled = turn_dial(weight_m, images.label, images.n_classes, 0.5)
            probe = dialled_probe(images.X, images.label, dialled, ridge=1e-2, tol=1e-4)
            record = test.record(arm, probe, 1e-2)
        yield record | {
            "way": "auto" if auto else "half",
            "ess": effective_size(weight_m),
            **(facts if arm == "default" else {}),
        }


def shares_won(results: Results, way: str = "half") -> list[Record]:
    """Summarise: by setting, the mean accuracy of every arm, and the share of the true ω's gain."""
    rows = []
    read = results.read()
    for setting in SETTINGS:
        own = {key: record for key, record in read.items() if key[0] == setting.key}
        seeds = sorted({key[1] for key in own if key[3] == way})
        complete = [s for s in seeds if (setting.key, s, "true omega", way) in own]
        if not complete:
            continue
        mean = {
            arm: float(np.mean([own[setting.key, s, arm, way]["accuracy"] for s in complete]))
            for arm in ARMS
            if all((setting.key, s, arm, way) in own for s in complete)
        }
        gain = mean["true omega"] - mean["naive"]
        chosen = [own[setting.key, s, "default", way]["chosen"] for s in complete]
        rows.append(
            {
                "setting": setting.key,
                "seeds": len(complete),
                **mean,
                "share": (mean["default"] - mean["naive"]) / gain,
                "chosen": chosen,
            }
        )
    return rows
