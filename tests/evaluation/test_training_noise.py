"""Several trainings of one model: means, and intervals that count training noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from evaluation.judging import make_case
from raising import refused
from unskew.errors import ConfigError
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.predictions import Evaluation, evaluate_predictions
from unskew.evaluation.training_noise import TrainingNoise, measure_noise

CLASSES = ("a", "b", "c")


def _trainings(count: int) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """One truth, and the predictions of models that differ in chance alone."""
    table, first = make_case(n=150, classes=CLASSES, groups=40)
    rng, columns = np.random.default_rng(1), [f"score_{name}" for name in CLASSES]
    frames = [first]
    for _ in range(count - 1):
        score = first[columns].to_numpy() * rng.uniform(0.5, 1.5, (150, 3))
        frames.append(
            first.assign(**dict(zip(columns, (score.T / score.sum(axis=1)), strict=True)))
        )
    return table, frames


def _values(evaluation: Evaluation) -> dict[str, Any]:
    return {name: figure.value for name, figure in evaluation.overall.figures.items()}


def test_every_figure_is_the_mean_over_trainings_and_has_their_values() -> None:
    table, frames = _trainings(3)
    together = evaluate_predictions(table, frames, replicates=60)
    single = [evaluate_predictions(table, frame, replicates=0) for frame in frames]
    assert together.trainings == 3
    for name, figure in together.overall.figures.items():
        if name != "worst_class":
            values = [_values(evaluation)[name] for evaluation in single]
            assert figure.by_seed == pytest.approx(values)
            assert figure.value == pytest.approx(np.mean(values))
            assert figure.spread == pytest.approx(np.std(values, ddof=1))
    # The worst class is the one whose mean recall is smallest, and has one number and interval.
    worst, by_class = together.overall.figures["worst_class"], together.breakdown("label")
    recall = {cell.name: cell.figures["accuracy"] for cell in by_class.cells}
    assert worst.value == pytest.approx(min(figure.value for figure in recall.values()))
    assert worst.interval == pytest.approx(recall[worst.where].interval)
    assert worst.by_seed == pytest.approx(recall[worst.where].by_seed)


def test_a_regression_is_averaged_as_well() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(60), "source": "s", "sample_weight": 1.0})
    y = rng.normal(size=60)
    frames = [
        pd.DataFrame({"id": range(60), "y": y, "prediction": y + rng.normal(size=60)})
        for _ in range(2)
    ]
    together = _values(evaluate_predictions(table, frames, replicates=0))
    single = [_values(evaluate_predictions(table, frame, replicates=0)) for frame in frames]
    assert together == pytest.approx(
        {name: np.mean([values[name] for values in single]) for name in ("mae", "rmse", "r2")}
    )


def test_trainings_that_do_not_differ_are_one_training() -> None:
    table, (frame,) = _trainings(1)
    one, four = (
        evaluate_predictions(table, frames, replicates=40) for frames in (frame, [frame] * 4)
    )
    for name, figure in one.overall.figures.items():
        same = four.overall.figures[name]
        assert same.spread == pytest.approx(0, abs=1e-12)
        assert same.interval == pytest.approx(figure.interval)
        assert same.stderr == pytest.approx(figure.stderr)


def test_a_model_differs_from_itself_by_nothing_whatever_its_training_noise() -> None:
    table, frames = _trainings(3)
    pair = evaluate_predictions(table, frames, second=frames, replicates=40, names=["x", "y"])
    assert pair.models == ("x", "y")
    for gap in (pair.overall.difference or {}).values():
        assert (gap.value, gap.interval, gap.spread) == (0.0, (0.0, 0.0), 0.0)
    with refused(ConfigError, option="second", value=[3, 2]):
        evaluate_predictions(table, frames, second=frames[:2])
    with refused(ConfigError, option="target_predictions"):
        evaluate_predictions(table, frames, target_predictions=frames[0])


def test_where_training_noise_is_all_there_is_the_interval_is_students() -> None:
    values = np.array([0.5, 0.52, 0.57, 0.49])
    noise = measure_noise(values, np.repeat(values[:, None], 30, axis=1))
    assert noise is not None
    exact = MetricValue(float(values.mean()), (float(values.mean()),) * 2, 0.0)
    wide = noise.widen(exact, 0.9, 0.0, 1.0)
    scale = values.std(ddof=1) / 2
    assert wide.interval == pytest.approx(scipy.stats.t.interval(0.9, 3, values.mean(), scale))
    assert wide.stderr == pytest.approx(scale)
    # What the sampling of images explains is not counted a second time.
    sampled = replace(exact, interval=(0.4, 0.7), stderr=0.08)
    explained = TrainingNoise(noise.values, noise.between, 100 * noise.between)
    assert explained.widen(sampled, 0.9, 0.0, 1.0).interval == (0.4, 0.7)
    low, high = noise.widen(sampled, 0.9, 0.0, 0.701).interval or (0, 0)
    assert 0.52 - low == pytest.approx(np.hypot(0.12, 0.52 - wide.interval[0]))
    assert high == 0.701
    assert measure_noise(values[:1], None) is None
    assert measure_noise(np.array([0.1, np.nan]), None) is None


def _coverage(trials: int, seeds: int, seed_sd: float, rng: np.random.Generator) -> list[float]:
    """How often intervals contain the expected accuracy, and the difference of two arms, 0."""
    n, hits = 150, np.zeros(2)
    table = pd.DataFrame({"id": range(n), "source": "s", "label": "yes", "sample_weight": 1.0})
    for _ in range(trials):
        difficulty = rng.normal(0, 1, n)
        arms = []
        for _ in range(2):
            # A training is right where z + its own level exceeds the difficulty of the image.
            level = 0.5 + seed_sd * rng.normal(size=(seeds, 1))
            right = level + rng.normal(0, 1, (seeds, n)) > difficulty
            arms.append(
                [
                    pd.DataFrame({"id": range(n), "prediction": np.where(one, "yes", "no")})
                    for one in right
                ]
            )
        found = evaluate_predictions(table, arms[0], second=arms[1], replicates=200, truth="label")
        truth = scipy.stats.norm.cdf(0.5 / np.sqrt(2 + seed_sd**2))
        low, high = found.overall.figures["accuracy"].interval or (0, 0)
        gap = (found.overall.difference or {})["accuracy"].interval or (0, 0)
        hits += [low <= truth <= high, gap[0] <= 0 <= gap[1]]
    return (hits / trials).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_sd", [0.0, 0.1, 0.4])
def test_intervals_cover_the_expected_accuracy_and_the_difference(
    seeds: int, seed_sd: float
) -> None:
    """95 % intervals; 200 trials know a coverage of 95 % to ±1.5 points, three of which are allowed
    below; by design they reach too far rather than too near.
    """
    accuracy, gap = _coverage(
        300, seeds, seed_sd, np.random.default_rng([seeds, int(10 * seed_sd)])
    )
    assert accuracy >= 0.90
    assert gap >= 0.90
