"""Right bias models that `check_fit` and pages must not object to, and wrong ones that no column
shows by itself.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import unskew
from simulation_measures import binomial_error, draw_sets
from simulations import DataSet, Recipe, Rng, make_pool, make_sample, text
from unskew.bias import Box, Known, Product, Propensity, SoftBox, Strata, Tilt
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import UnskewWarning
from unskew.records import Target
from unskew.report.summary.summarize import summarize_run

SEED = 1818


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))


def _label(rng: Rng, logit: np.ndarray) -> np.ndarray:
    return text((rng.uniform(size=logit.size) < _sigmoid(logit)).astype(np.int64))


def _selected(rng: Rng, n: int, d: int, logit: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """n of the standard normal in d dimensions, selected with chance σ(logit)."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < n:
        z = rng.normal(size=(2 * n, d))
        parts.append(z[rng.uniform(size=2 * n) < _sigmoid(logit(z))])
    return np.concatenate(parts)[:n]


def _data(source: np.ndarray, bias: Any, target: Any = None, **columns: Any) -> DataSet:
    names = tuple(f"s{k}" for k in range(int(source.max()) + 1))
    pool = make_pool(source, names, **columns)
    return DataSet(pool, bias, target, np.zeros(source.size), 0.0)


def _numbers(z: np.ndarray) -> dict[str, np.ndarray]:
    return {f"e_{j}": z[:, j] for j in range(z.shape[1])}


# ---- right models


def right_known(rng: Rng) -> DataSet:
    """ω known, two sources of 70; a number, a category and a label."""
    source = np.repeat([0, 1], 70)
    x = rng.normal(np.array([0.6, -0.4])[source], 1.0)
    omega = np.exp(x[:, None] * np.array([0.6, -0.4]))
    return _data(source, Known(omega), x=x, kind=text(rng.choice(3, 140)), label=_label(rng, x))


def right_tilt_tiny(rng: Rng) -> DataSet:
    """Tilt relative to a source; 60 and 50 images, two numbers and a label."""
    source = np.repeat([0, 1], [60, 50])
    z = rng.normal(size=(110, 2)) + np.where(source == 0, 0.5, -0.3)[:, None]
    return _data(
        source, Tilt(["x", "z"], reference="s0"), x=z[:, 0], z=z[:, 1], label=_label(rng, z[:, 0])
    )


def right_tilt_unlabelled(rng: Rng) -> DataSet:
    """Tilt, an unlabelled sample of 100; two labelled sources of 150."""
    source = np.repeat([0, 1], 150)
    z = rng.normal(size=(300, 2)) + np.where(source == 0, 0.5, -0.3)[:, None]
    target = make_sample(100, x=rng.normal(size=100), z=rng.normal(size=100))
    return _data(
        source, Tilt(["x", "z"]), target, x=z[:, 0], z=z[:, 1], label=_label(rng, z.sum(axis=1))
    )


def right_tilt_numeric_label(rng: Rng) -> DataSet:
    """The same with a label that is a number, and sources of 400."""
    source = np.repeat([0, 1], 400)
    x = rng.normal(np.where(source == 0, 0.5, -0.3), 1.0)
    target = make_sample(200, x=rng.normal(size=200))
    return _data(source, Tilt(["x"]), target, x=x, label=x**2 + rng.normal(size=800))


def right_tilt_curved(rng: Rng) -> DataSet:
    """Tilt of degree 2: sources of other widths; a labelled sample of 150."""
    source = np.repeat([0, 1], 150)
    z = rng.normal(size=(300, 2)) * np.where(source == 0, 0.8, 1.0)[:, None] + 0.3
    sample = rng.normal(size=(150, 2))
    return _data(
        source,
        Tilt(["x", "z"], degree=2),
        make_sample(150, x=sample[:, 0], z=sample[:, 1], label=_label(rng, sample[:, 0])),
        x=z[:, 0],
        z=z[:, 1],
        label=_label(rng, z[:, 0]),
    )


def right_tilt_ten(rng: Rng) -> DataSet:
    """Tilt in ten numbers, three sources of 200, a label."""
    z = rng.normal(size=(600, 10))
    z[:200, 0] += 0.5
    z[200:400, 1] -= 0.5
    bias = Tilt([f"e_{j}" for j in range(10)], reference="s2")
    return _data(np.repeat([0, 1, 2], 200), bias, label=_label(rng, z[:, 0]), **_numbers(z))


def right_tilt_forty(rng: Rng) -> DataSet:
    """Tilt in forty numbers, two sources of 400, a label."""
    z = rng.normal(size=(800, 40))
    z[:400, :4] += 0.3
    bias = Tilt([f"e_{j}" for j in range(40)], reference="s1")
    return _data(np.repeat([0, 1], 400), bias, label=_label(rng, z[:, 0]), **_numbers(z))


def right_tilt_groups(rng: Rng) -> DataSet:
    """Tilt in groups of four images that are alike; 80 groups in each of two sources."""
    source, group = np.repeat([0, 1], 320), np.repeat(np.arange(160), 4)
    mean = rng.normal(size=(160, 2)) + np.repeat([0.5, -0.3], 80)[:, None]
    z = mean[group] + 0.3 * rng.normal(size=(640, 2))
    label = _label(rng, mean[:, 0])[group]
    return _data(
        source,
        Tilt(["x", "z", "label"], reference="s0"),
        x=z[:, 0],
        z=z[:, 1],
        label=label,
        group=group,
    )


def right_tilt_eight(rng: Rng) -> DataSet:
    """Tilt, eight sources of 60 and a sample of 100."""
    source = np.repeat(np.arange(8), 60)
    z = rng.normal(size=(480, 2)) + np.linspace(-0.5, 0.5, 8)[source][:, None]
    target = make_sample(100, x=rng.normal(size=100), z=rng.normal(size=100))
    return _data(source, Tilt(["x", "z"]), target, x=z[:, 0], z=z[:, 1], label=_label(rng, z[:, 0]))


def right_strata(rng: Rng) -> DataSet:
    """Strata of a category; three sources of 100, a label and a number that depend on it."""
    share = np.array([[0.4, 0.3, 0.3], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    kind = np.concatenate([rng.choice(3, 100, p=row) for row in share])
    return _data(
        np.repeat([0, 1, 2], 100),
        Strata("kind"),
        Target.margins({"kind": dict.fromkeys("abc", 1 / 3)}),
        kind=text(kind),
        x=kind + rng.normal(size=300),
        label=_label(rng, kind - 1.0),
    )


def right_product(rng: Rng) -> DataSet:
    """Strata of the label × tilt of two numbers; two sources of 200."""
    source = np.repeat([0, 1], 200)
    label = (rng.uniform(size=400) < np.array([0.7, 0.4])[source]).astype(np.int64)
    z = rng.normal(size=(400, 2)) + label[:, None] + np.where(source == 0, 0.0, 0.5)[:, None]
    bias = Product(Strata("label"), Tilt(["x", "z"], reference="s0"))
    target = Target.margins({"label": {"a": 0.5, "b": 0.5}})
    return _data(source, bias, target, x=z[:, 0], z=z[:, 1], label=text(label))


def right_propensity(rng: Rng) -> DataSet:
    """Cross-fitted logistic regression on two numbers, an unlabelled sample of 100."""
    data = right_tilt_unlabelled(rng)
    return DataSet(data.pool, Propensity(["x", "z"]), data.target, data.value, data.truth)


def right_box(rng: Rng) -> DataSet:
    """Boxes in the unit square, two sources of 150, and a label."""
    z = rng.uniform(size=(300, 2))
    z[:150, 0] *= 0.7
    z[150:, 0] = 0.3 + 0.7 * z[150:, 0]
    return _data(
        np.repeat([0, 1], 150),
        Box(["x", "z"]),
        x=z[:, 0],
        z=z[:, 1],
        label=_label(rng, 3 * z[:, 1] - 1.5),
    )


def right_soft_box(rng: Rng) -> DataSet:
    """Two sources of 300 that fall off linearly along one number; another one, and a label."""

    def falling(n: int) -> np.ndarray:
        x = rng.uniform(0.0, 0.9, size=20 * n)
        return x[rng.uniform(size=x.size) < 1.0 - np.maximum(x - 0.3, 0.0) / 0.6][:n]

    z = np.column_stack([np.append(falling(300), 1 - falling(300)), rng.uniform(size=600)])
    return _data(
        np.repeat([0, 1], 300),
        SoftBox(["x"]),
        x=z[:, 0],
        z=z[:, 1],
        label=_label(rng, 3 * z[:, 1] - 1.5),
    )


RIGHT: tuple[Recipe, ...] = (
    right_known,
    right_tilt_tiny,
    right_tilt_unlabelled,
    right_tilt_numeric_label,
    right_tilt_curved,
    right_tilt_ten,
    right_tilt_forty,
    right_tilt_groups,
    right_tilt_eight,
    right_strata,
    right_product,
    right_propensity,
    right_box,
    right_soft_box,
)

# ---- wrong models


def _second_selects(
    rng: Rng, n: int, d: int, logit: Callable[[np.ndarray], np.ndarray], n_sources: int = 2
) -> DataSet:
    """A linear tilt where the last source selects by σ(logit), and the others at random."""
    z = np.concatenate([rng.normal(size=((n_sources - 1) * n, d)), _selected(rng, n, d, logit)])
    bias = Tilt([f"e_{j}" for j in range(d)], reference="s0")
    return _data(np.repeat(np.arange(n_sources), n), bias, **_numbers(z))


def wrong_xor(rng: Rng) -> DataSet:
    """One source selects x₁x₂ > 0 with odds e^{±2}; a linear tilt, 2 × 1,500."""
    return _second_selects(rng, 1500, 2, lambda z: 2 * np.sign(z[:, 0] * z[:, 1]))


def wrong_reversed(rng: Rng) -> DataSet:
    """p(y|x) = σ(2x) in one source, σ(−2x) in the other, 2 × 1,000."""
    source, x = np.repeat([0, 1], 1000), rng.normal(size=2000)
    label = _label(rng, np.where(source == 0, 2.0, -2.0) * x)
    return _data(source, Tilt(["x"], reference="s0"), x=x, label=label)


def wrong_xor_of_thirty(rng: Rng) -> DataSet:
    """x₁x₂ > 0 with odds e^{±1}, thirty numbers, 2 × 1,000."""
    return _second_selects(rng, 1000, 30, lambda z: np.sign(z[:, 0] * z[:, 1]))


def wrong_three_way(rng: Rng) -> DataSet:
    """x₁x₂x₃ > 0 with odds e^{±1.5}, 2 × 1,500."""
    return _second_selects(rng, 1500, 3, lambda z: 1.5 * np.sign(z.prod(axis=1)))


def wrong_stripes(rng: Rng) -> DataSet:
    """One source selects stripes, log-odds 2 cos(2x₁ + 2x₂), 2 × 500."""
    return _second_selects(rng, 500, 2, lambda z: 2 * np.cos(2 * z[:, 0] + 2 * z[:, 1]))


def wrong_one_of_eight(rng: Rng) -> DataSet:
    """One of eight sources of 300 selects x₁x₂ > 0 with odds e^{±2}."""
    return _second_selects(rng, 300, 3, lambda z: 2 * np.sign(z[:, 0] * z[:, 1]), 8)


def wrong_categories(rng: Rng) -> DataSet:
    """Two categories that agree in half of one source and in 62% of the other, 2 × 400."""
    source, first = np.repeat([0, 1], 400), rng.choice(2, 800)
    alike = rng.uniform(size=800) < np.where(source == 0, 0.5, 0.62)
    second = np.where(alike, first, 1 - first)
    return _data(source, Tilt(["p", "q"], reference="s0"), p=text(first), q=text(second))


def wrong_concept_unlabelled(rng: Rng) -> DataSet:
    """p(y|x) differs between the labelled sources in ten numbers; the target has no labels."""
    source, z = np.repeat([0, 1], 800), rng.normal(size=(1600, 10))
    slope = np.where(source == 0, 1.0, 0.0)
    target = make_sample(300, **_numbers(rng.normal(size=(300, 10))))
    label = _label(rng, slope * z.sum(axis=1) / np.sqrt(10))
    return _data(source, Tilt([f"e_{j}" for j in range(10)]), target, label=label, **_numbers(z))


WRONG: tuple[Recipe, ...] = (
    wrong_xor,
    wrong_reversed,
    wrong_xor_of_thirty,
    wrong_three_way,
    wrong_stripes,
    wrong_one_of_eight,
    wrong_categories,
    wrong_concept_unlabelled,
)


# ---- what is measured


def check(data: DataSet, replicates: int = 199) -> unskew.FitCheck:
    return unskew.check_fit(data.pool, data.bias, weights=data.debias(), replicates=replicates)


def rejected(recipe: Recipe, n_sets: int, seed: int = SEED) -> np.ndarray:
    """Shares of the data sets where p ≤ 5%: of all tests, of the columns, of all together."""
    p = []
    for data in draw_sets(recipe, n_sets, seed):
        outcome = check(data)
        alone = min(
            (feature.p_value for feature in outcome.features if feature.p_value < 1), default=1.0
        )
        p.append((outcome.p_value, alone, outcome.joint.p_value if outcome.joint else np.nan))
    return np.mean(np.array(p) <= 0.05, axis=0)


def objections(data: DataSet) -> tuple[bool, bool, bool]:
    """Whether a page objects to the model: at all, by `check_fit`, by the classifier.

    At all: the verdict is "weak" though the sources overlap, or a message says so.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        weights = unskew.debias(data.pool, data.bias, data.target)
        diagnostics = diagnose(data.pool, weights, replicates=0)
        summary = summarize_run(data.pool, weights, diagnostics)
    verdict, words = summary.verdict, "does not describe"
    fit = words in summary.bias.fit_message or any(words in text for text in verdict.sentences)
    classifier = any("Add features that separate" in step for step in verdict.next_steps)
    is_weak = verdict.level != "ok" and weights.overlap.verdict == "ok"
    return is_weak or fit or classifier, fit, classifier


def _described(recipe: Recipe) -> str:
    return " ".join((recipe.__doc__ or "").split()).rstrip(".")


def _percent(share: float, n_sets: int) -> str:
    return f"{share:.1%} ± {binomial_error(share, n_sets):.1%}"


def joint_rows(options: argparse.Namespace) -> Iterator[str]:
    """Level and power of `check_fit`, all tests and the joint one."""
    yield "| recipe | data | sets | all tests | all columns together | time |"
    yield "|---|---|---|---|---|---|"
    for recipe in (*RIGHT, *WRONG):
        if options.only and recipe.__name__ not in options.only:
            continue
        n_sets = min(options.sets, 1000 if recipe in RIGHT else 300)
        start = time.process_time()
        every, _, joint = rejected(recipe, n_sets)
        seconds = (time.process_time() - start) / n_sets
        yield (
            f"| `{recipe.__name__}` | {_described(recipe)} | {n_sets:,} | "
            f"{_percent(every, n_sets)} | {_percent(joint, n_sets)} | {1000 * seconds:.0f} ms |"
        )


def page_rows(options: argparse.Namespace) -> Iterator[str]:
    """How often a page objects to a right model, over every test that its verdict reads."""
    yield "| recipe | data | sets | objected to | `check_fit` | classifier | time |"
    yield "|---|---|---|---|---|---|---|"
    for recipe in RIGHT:
        if options.only and recipe.__name__ not in options.only:
            continue
        n_sets = min(options.sets, 1000)
        start = time.process_time()
        share = np.mean([objections(data) for data in draw_sets(recipe, n_sets, SEED)], axis=0)
        seconds = (time.process_time() - start) / n_sets
        shown = " | ".join(_percent(float(one), n_sets) for one in share)
        yield (
            f"| `{recipe.__name__}` | {_described(recipe)} | {n_sets:,} | {shown} | "
            f"{1000 * seconds:.0f} ms |"
        )
