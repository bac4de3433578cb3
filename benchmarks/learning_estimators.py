"""`DebiasedClassifier` by default, its ways and simple recipes, on digits and tables.

python benchmarks/learning_estimators.py            eight seeds, about twelve minutes on one core
python benchmarks/learning_estimators.py --seeds 2  quicker, and rougher

Accuracy in points on an unbiased test sample, mean over the seeds; in brackets what the column is
ahead of `auto` by, with its paired standard error.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import unskew
from unskew import DebiasedClassifier, Pool, Target
from unskew.bias import Strata, Tilt
from unskew.learn import make_baseline
from unskew.records import Floats, Ints

WAYS = ("auto", "weights", "half", "logit")
RECIPES = ("naive", "class_balanced", "logit_adjustment")
NOISE = 0.25
DIM = 0.35


@dataclass(frozen=True, eq=False)
class Problem:
    """Training images of biased sources, what is known about them, and an unbiased test sample."""

    X: Floats
    y: Ints
    source: Ints
    bias: Any
    target: Target
    X_test: Floats
    y_test: Ints
    attributes: dict[str, Any] | None = None
    # The shares of the classes on the target, which recipes are told; None: not known.
    shares: Target | None = None


def _digits(rng: np.random.Generator) -> tuple[Floats, Ints, Ints, Ints]:
    """Pixels, labels, and which digits are for training and, four times over, for the test."""
    digits = load_digits()
    order_n = rng.permutation(digits.target.size)
    return digits.data / 16.0, digits.target, order_n[:1000], np.tile(order_n[1000:], 4)


def _photograph(pixels: Floats, is_dim: Any, rng: np.random.Generator) -> Floats:
    return pixels * np.where(is_dim, DIM, 1.0)[:, None] + NOISE * rng.standard_normal(pixels.shape)


def digits_by_class(seed: int) -> Problem:
    """Digits; the large source has few of 5 … 9, the small one few of 0 … 4."""
    rng = np.random.default_rng([seed, 1])
    pixels, label, train, test = _digits(rng)
    shares = [[0.19] * 5 + [0.01] * 5, [0.02] * 5 + [0.18] * 5]
    drawn = unskew.scenarios.class_mixtures(shares, label[train], sizes=[2700, 300], rng=seed)
    rows = train[drawn.index]
    uniform = Target.uniform("label")
    return Problem(
        _photograph(pixels[rows], np.zeros(rows.size, bool), rng),
        label[rows],
        drawn.source,
        Strata("label"),
        uniform,
        _photograph(pixels[test], np.zeros(test.size, bool), rng),
        label[test],
        shares=uniform,
    )


def digits_by_light(seed: int) -> Problem:
    """Digits; the large source has 0 … 4 in bright light and 5 … 9 in dim, the small one both."""
    rng = np.random.default_rng([seed, 2])
    pixels, label, train, test = _digits(rng)
    rows = rng.choice(train, 3000)
    source = np.repeat([0, 1], [2500, 500])
    chance_dim = np.where(source == 1, 0.5, np.where(label[rows] < 5, 0.05, 0.95))
    is_dim, test_dim = rng.random(3000) < chance_dim, rng.random(test.size) < 0.5
    half = {"dim": 0.5, "bright": 0.5}
    tenth = dict.fromkeys(range(10), 0.1)
    return Problem(
        _photograph(pixels[rows], is_dim, rng),
        label[rows],
        source,
        Strata(["label", "light"]),
        Target.uniform(["label", "light"]),
        _photograph(pixels[test], test_dim, rng),
        label[test],
        attributes={"light": np.where(is_dim, *half)},
        shares=Target.margins({"label": tenth}),
    )


def table_by_features(seed: int) -> Problem:
    """Six Gaussian features; sources tilted along three, the target known by a sample of 500."""
    rng = np.random.default_rng([seed, 3])
    tilts = [[1.0, 0.6, 0.0, 0.0, 0.0, 0.0], [-0.6, 0.5, 0.7, 0.0, 0.0, 0.0]]
    drawn = unskew.scenarios.tilts([3400, 600], theta=tilts, rng=seed)
    names = [f"x_{d}" for d in range(6)]
    sample = rng.standard_normal((500, 6))
    X_test = rng.standard_normal((10_000, 6))
    assert drawn.features is not None
    return Problem(
        drawn.features,
        _answer(drawn.features, rng),
        drawn.source,
        Tilt(names),
        Target.sample(
            Pool.from_arrays(["target"] * 500, **dict(zip(names, sample.T, strict=True)))
        ),
        X_test,
        _answer(X_test, rng),
    )


def _answer(X: Floats, rng: np.random.Generator) -> Ints:
    """Not linear: 1 with log odds 2 (1.2 x₀ + sin 2x₁ + x₂x₃ − 1)."""
    score = 1.2 * X[:, 0] + np.sin(2.0 * X[:, 1]) + X[:, 2] * X[:, 3] - 1.0
    return (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-2.0 * score))).astype(np.int64)


def table_by_class(seed: int) -> Problem:
    """Four classes of two Gaussian clumps each; the large source has 2% of the last one."""
    rng = np.random.default_rng([seed, 4])
    shares = [[0.6, 0.3, 0.08, 0.02], [0.1, 0.2, 0.3, 0.4]]
    drawn = unskew.scenarios.class_mixtures(shares, sizes=[5500, 500], rng=seed)
    centre = np.random.default_rng(0).normal(0.0, 1.3, (4, 2, 6))
    label, test = np.asarray(drawn.label), rng.integers(0, 4, 10_000)
    X, X_test = (
        centre[y, rng.integers(0, 2, y.size)] + rng.standard_normal((y.size, 6))
        for y in (label, test)
    )
    uniform = Target.uniform("label")
    return Problem(X, label, drawn.source, Strata("label"), uniform, X_test, test, shares=uniform)


SETTINGS: dict[str, Callable[[int], Problem]] = {
    "digits, shares of the classes": digits_by_class,
    "digits, light by class": digits_by_light,
    "table, features": table_by_features,
    "table, shares of the classes": table_by_class,
}


def learners(seed: int) -> dict[str, BaseEstimator]:
    """Learners as they come, but for fewer and smaller trees, which saves time."""
    return {
        "logistic regression": LogisticRegression(max_iter=500),
        "gradient boosting": HistGradientBoostingClassifier(
            max_iter=20, max_leaf_nodes=15, random_state=seed
        ),
        "forest": RandomForestClassifier(50, random_state=seed),
    }


def accuracies(problem: Problem, learner: BaseEstimator, seed: int) -> tuple[list[float], str]:
    """Return the accuracy of every way and every recipe, in points, and the way of auto."""
    hits, chosen = [], ""
    for way in WAYS:
        model = DebiasedClassifier(learner, problem.bias, problem.target, way, random_state=seed)
        model.fit(problem.X, problem.y, source=problem.source, attributes=problem.attributes)
        chosen = chosen or f"{model.way_.way}{'' if model.way_.scores else ' (start)'}"
        hits.append(model.score(problem.X_test, problem.y_test))
    pool = Pool.from_arrays(problem.source.astype(str), label=problem.y)
    for name in RECIPES:
        # Without known shares, logit adjustment assumes equal ones, as is usual.
        target = problem.shares if name == "logit_adjustment" else None
        recipe = make_baseline(name, pool, target).fit(learner, problem.X, problem.y)
        hits.append(recipe.score(problem.X_test, problem.y_test))
    return [100.0 * hit for hit in hits], chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = [*WAYS, *RECIPES]
    print(f"| setting | learner | {' | '.join(columns)} | auto chose | within |")
    print("|---" * (len(columns) + 4) + "|", flush=True)
    for setting, draw in SETTINGS.items():
        problems = [draw(seed) for seed in range(options.seeds)]
        for name in learners(0):
            results = [
                accuracies(problem, learners(seed)[name], seed)
                for seed, problem in enumerate(problems)
            ]
            score_sc = np.array([scores for scores, _ in results])
            print(
                f"| {setting} | {name} | {row(score_sc, [way for _, way in results])} |", flush=True
            )


def row(score_sc: Floats, chosen: list[str]) -> str:
    """Format one row; `within` says whether auto is within one standard error of the best."""
    ahead_sc = score_sc - score_sc[:, :1]
    mean_c, ahead_c = score_sc.mean(axis=0), ahead_sc.mean(axis=0)
    stderr_c = ahead_sc.std(axis=0, ddof=1) / np.sqrt(len(score_sc))
    cells = [f"{mean_c[0]:.1f}"] + [
        f"{mean:.1f} ({ahead:+.2f} ± {stderr:.2f})"
        for mean, ahead, stderr in zip(mean_c[1:], ahead_c[1:], stderr_c[1:], strict=True)
    ]
    ways = ", ".join(f"{way} {chosen.count(way)}×" for way in sorted(set(chosen)))
    best = int(mean_c.argmax())
    return " | ".join([*cells, ways, "yes" if ahead_c[best] <= stderr_c[best] else "no"])


if __name__ == "__main__":
    main()
