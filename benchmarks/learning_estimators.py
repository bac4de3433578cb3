"""`DebiasedClassifier` by default, its ways and simple recipes, on digits and tables.

python benchmarks/learning_estimators.py            eight seeds, about fifteen minutes on one core
python benchmarks/learning_estimators.py --seeds 2  quicker, and rougher
python benchmarks/learning_estimators.py --print    the table of what was measured

A line of benchmarks/results/learning-estimators.jsonl is one setting, learner and seed, with the
commit. A run that was stopped goes on where it was. `--again` measures `auto` and `weights` again
where another commit did, and keeps the other columns with that commit (`others`).

Accuracy in points on an unbiased test sample, mean over the seeds; in brackets what the column is
ahead of `auto` by, with its paired standard error. Then the calibration error of `auto`'s
probabilities and of those in the way "weights", in points; and the processor time of `auto` in fits
in the way "weights", where such a fit takes long enough to be timed beside the weighing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from learning_results import Results, seeds_text
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from solver_table import commit_facts

import unskew
from unskew import DebiasedClassifier, Pool, Target
from unskew.bias import Strata, Tilt
from unskew.learn import make_baseline
from unskew.learn.ways import WayChoice
from unskew.records import Floats, Ints

WAYS = ("auto", "weights", "half", "logit")
RECIPES = ("naive", "class_balanced", "logit_adjustment")
RESULTS = Path(__file__).parent / "results" / "learning-estimators.jsonl"
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


def digits_by_light_alone(seed: int) -> Problem:
    """Digits; the large source has 5% of each in dim light, the small one half, as the target."""
    rng = np.random.default_rng([seed, 5])
    pixels, label, train, test = _digits(rng)
    rows = rng.choice(train, 3000)
    source = np.repeat([0, 1], [2700, 300])
    is_dim, test_dim = (
        rng.random(chance.size) < chance
        for chance in (np.where(source == 1, 0.5, 0.05), np.full(test.size, 0.5))
    )
    return Problem(
        _photograph(pixels[rows], is_dim, rng),
        label[rows],
        source,
        Strata("light"),
        Target.uniform("light"),
        _photograph(pixels[test], test_dim, rng),
        label[test],
        attributes={"light": np.where(is_dim, "dim", "bright")},
    )


def table_by_site(seed: int) -> Problem:
    """Five Gaussian features; what they say about the label depends on a site that is not seen."""
    rng = np.random.default_rng([seed, 6])
    source, share = np.repeat([0, 1], [2200, 400]), [0.2, 0.3, 0.5]
    site = np.where(
        source == 0,
        rng.choice(3, 2600, p=[0.85, 0.1, 0.05]),
        rng.choice(3, 2600, p=[0.2, 0.4, 0.4]),
    )
    slope = np.array([[1, 1, 0, 0, 0], [1, -0.5, 1, 0, 0], [1, -0.5, -0.5, 1, 0]])

    def draw(site: Ints) -> tuple[Floats, Ints]:
        X = rng.standard_normal((site.size, 5))
        score = (X * slope[site]).sum(axis=1) + np.array([0.5, -0.2, -0.6])[site]
        return X, (rng.random(site.size) < 1.0 / (1.0 + np.exp(-2.0 * score))).astype(np.int64)

    X, y = draw(site)
    target = Target.margins({"site": dict(enumerate(share))})
    return Problem(
        X,
        y,
        source,
        Strata("site"),
        target,
        *draw(rng.choice(3, 10_000, p=share)),
        attributes={"site": site},
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
    "digits, light alone": digits_by_light_alone,
    "table, features": table_by_features,
    "table, a site unseen": table_by_site,
    "table, shares of the classes": table_by_class,
}


def learners(seed: int) -> dict[str, BaseEstimator]:
    """Learners as they come, but for fewer and smaller trees and coarser bins, to save time."""
    return {
        "logistic regression": LogisticRegression(max_iter=500),
        "gradient boosting": HistGradientBoostingClassifier(
            max_iter=20, max_leaf_nodes=15, max_bins=63, random_state=seed
        ),
        "forest": RandomForestClassifier(50, random_state=seed),
    }


@dataclass(frozen=True)
class Outcome:
    """Of one seed: accuracies of ways and recipes, calibration errors, both in points; cost."""

    accuracy: list[float]
    calibration: tuple[float, float]
    fits: float | None
    chosen: str


def compare(
    problem: Problem, learner: BaseEstimator, seed: int, others: list[float] | None = None
) -> Outcome:
    """Fit every way and every recipe; those after "weights" not where ``others`` are known."""
    hits, errors, chosen = [], [], ""
    seconds = [_fit(problem, DummyClassifier(), "weights", seed)[1]]
    for way in WAYS[: None if others is None else 2]:
        model, second = _fit(problem, learner, way, seed)
        chosen = chosen or _named(model.way_)
        seconds.append(second)
        hits.append(100.0 * model.score(problem.X_test, problem.y_test))
        errors.append(calibration_error(model, problem))
    # Weighing, which is in all of them, is no part of a fit.
    of_auto, of_weights = seconds[1] - seconds[0], seconds[2] - seconds[0]
    fits = of_auto / of_weights if of_weights > max(0.02, 0.1 * seconds[0]) else None
    hits += _recipes(problem, learner) if others is None else others
    return Outcome(hits, (errors[0], errors[1]), fits, chosen)


def _recipes(problem: Problem, learner: BaseEstimator) -> list[float]:
    pool = Pool.from_arrays(problem.source.astype(str), label=problem.y)
    hits = []
    for name in RECIPES:
        # Without known shares, logit adjustment assumes equal ones, as is usual.
        target = problem.shares if name == "logit_adjustment" else None
        recipe = make_baseline(name, pool, target).fit(learner, problem.X, problem.y)
        hits.append(100.0 * recipe.score(problem.X_test, problem.y_test))
    return hits


def _fit(
    problem: Problem, learner: BaseEstimator, way: str, seed: int
) -> tuple[DebiasedClassifier, float]:
    """Return the fitted model, and the seconds that it took."""
    model = DebiasedClassifier(learner, problem.bias, problem.target, way, random_state=seed)
    begin = time.process_time()
    model.fit(problem.X, problem.y, source=problem.source, attributes=problem.attributes)
    return model, time.process_time() - begin


def _named(way: WayChoice) -> str:
    names = {1.0: way.way, 0.5: "square roots", 0.0: "equal weights"}
    return names[way.power] + ("" if way.scores else " (untried)")


def calibration_error(model: DebiasedClassifier, problem: Problem) -> float:
    """Return the mean difference between confidence and accuracy, in 15 bins of equal size."""
    proba_nm = model.predict_proba(problem.X_test)
    gap_n = proba_nm.max(axis=1) - (model.classes_[proba_nm.argmax(axis=1)] == problem.y_test)
    bins = np.array_split(gap_n[proba_nm.max(axis=1).argsort()], 15)
    return float(100.0 * sum(abs(gap_b.sum()) for gap_b in bins) / gap_n.size)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--print", action="store_true", dest="only_print")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Results(RESULTS, ("setting", "learner", "seed"))
    if not options.only_print:
        measure(results, options.seeds, again=options.again)
    print_table(results, options.seeds)


def measure(results: Results, n_seeds: int, *, again: bool) -> None:
    """Add a line for each setting, learner and seed that has none (``again``: of this commit)."""
    commit = commit_facts()
    for seed, setting in itertools.product(range(n_seeds), SETTINGS):
        problem = None
        for name, learner in learners(seed).items():
            known = results.read().get((setting, name, seed))
            if known is not None and (not again or known["commit"] == commit):
                continue
            problem = problem or SETTINGS[setting](seed)
            others = None if known is None else known["accuracy"][2:]
            facts = {"setting": setting, "learner": name, "seed": seed, "commit": commit}
            facts["others"] = commit if known is None else known.get("others", known["commit"])
            results.add(facts | asdict(compare(problem, learner, seed, others)))


def print_table(results: Results, n_seeds: int) -> None:
    """Print the lines of the commit that measured last, so that one rule is in the table."""
    lines = [json.loads(line) for line in results.path.read_text(encoding="utf-8").splitlines()]
    commit = lines[-1]["commit"]
    records = [line for line in lines if line["commit"] == commit and line["seed"] < n_seeds]
    others = ", ".join(sorted({record.get("others", commit) for record in records}))
    seeds = seeds_text(record["seed"] for record in records)
    print(f"Seeds {seeds}; `auto` and `weights` at commit {commit}, other columns {others}\n")
    columns = [*WAYS, *RECIPES, "auto chose", "within", "calibration error", "fits"]
    print(f"| setting | learner | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 2) + "|")
    behind, behind_of_oracle, over_oracle = {}, [], []
    for setting, name in itertools.product(SETTINGS, learners(0)):
        outcomes = [
            Outcome(one["accuracy"], tuple(one["calibration"]), one["fits"], one["chosen"])
            for one in records
            if (one["setting"], one["learner"]) == (setting, name)
        ]
        if len(outcomes) > 1:
            print(f"| {setting} | {name} | {row(outcomes)} |")
            score_sc = np.array([outcome.accuracy for outcome in outcomes])
            oracle_s = told_by_other_seeds(score_sc)
            behind[f"{setting}, {name}"] = behind_best(score_sc)
            behind_of_oracle.append(behind_best(np.column_stack([oracle_s, score_sc])))
            over_oracle.append(float((score_sc[:, 0] - oracle_s).mean()))
    within = sum(gap <= stderr for gap, stderr in behind.values())
    largest = sorted(behind, key=lambda key: -behind[key][0])[:4]
    print(
        f"\nWithin one standard error of the best: {within} of {len(behind)} rows. Behind it by",
        end="",
    )
    print(
        " " + "; ".join(f"{behind[key][0]:.2f} ± {behind[key][1]:.2f} ({key})" for key in largest)
    )
    print(f"Mean over the rows, of `auto` less each other column: {ahead_of_each(records)}")
    print(
        "One column, chosen for each seed on the test samples of the other seeds: within one "
        f"standard error in {sum(gap <= stderr for gap, stderr in behind_of_oracle)}; `auto` is "
        f"{np.mean(over_oracle):+.2f} ahead of it."
    )


def ahead_of_each(records: list[dict[str, Any]]) -> str:
    score_rc = np.array([record["accuracy"] for record in records])
    mean_c = (score_rc[:, :1] - score_rc).mean(axis=0)
    names = [*WAYS, *RECIPES]
    return ", ".join(f"{n} {m:+.2f}" for n, m in zip(names[1:], mean_c[1:], strict=True))


def told_by_other_seeds(score_sc: Floats) -> Floats:
    """Return (S,) the accuracy, on each seed, of the way or recipe that is best on the others.

    What choosing among them could reach if it were told what the test samples say.
    """
    others_sc = score_sc[:, 1:].sum(axis=0) - score_sc[:, 1:]
    return score_sc[np.arange(len(score_sc)), 1 + others_sc.argmax(axis=1)]


def behind_best(score_sc: Floats) -> tuple[float, float]:
    """Return how far the first column is behind the best, and the paired standard error."""
    best = int(score_sc.mean(axis=0).argmax())
    ahead_s = score_sc[:, best] - score_sc[:, 0]
    return float(ahead_s.mean()), float(ahead_s.std(ddof=1) / np.sqrt(ahead_s.size))


def row(outcomes: list[Outcome]) -> str:
    """Format one row; `within` says whether auto is within one standard error of the best."""
    score_sc = np.array([outcome.accuracy for outcome in outcomes])
    ahead_sc = score_sc - score_sc[:, :1]
    mean_c, ahead_c = score_sc.mean(axis=0), ahead_sc.mean(axis=0)
    stderr_c = ahead_sc.std(axis=0, ddof=1) / np.sqrt(len(score_sc))
    cells = [f"{mean_c[0]:.1f}"] + [
        f"{mean:.1f} ({ahead:+.2f} ± {stderr:.2f})"
        for mean, ahead, stderr in zip(mean_c[1:], ahead_c[1:], stderr_c[1:], strict=True)
    ]
    chosen = [outcome.chosen for outcome in outcomes]
    ways = ", ".join(f"{way} {chosen.count(way)}×" for way in sorted(set(chosen)))
    gap, stderr = behind_best(score_sc)
    within = "yes" if gap <= stderr else "no"
    own, other = np.mean([outcome.calibration for outcome in outcomes], axis=0)
    cost = [outcome.fits for outcome in outcomes if outcome.fits is not None]
    fits = f"{np.median(cost):.1f}" if cost else "—"
    return " | ".join([*cells, ways, within, f"{own:.1f} ({other:.1f})", fits])


if __name__ == "__main__":
    main()
