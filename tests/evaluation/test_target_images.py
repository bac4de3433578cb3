"""Figures augmented by unlabelled images of the target: identities, precision, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import judge, make_case
from raising import refused
from unskew.errors import ConfigError, DataError


def world(seed: int, n: int = 400, m: int = 4000, shift: float = 0.0, sharp: float = 1.0) -> Any:
    """A calibrated model of two classes; ``shift``: the weighted images are easier than the
    target's. Its accuracy on the target is the mean of max(p, 1 − p).
    """
    rng = np.random.default_rng(seed)

    def draw(size: int, spread: float) -> Any:
        p = 1 / (1 + np.exp(-spread * rng.normal(size=size)))
        return p, np.where(rng.random(size) < p, "yes", "no")

    p, label = draw(n, 3.0 + shift)
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "source": ["a", "b"] * (n // 2),
            "label": label,
            "sample_weight": np.exp(0.3 * rng.normal(size=n)),
        }
    )
    predictions = pd.DataFrame({"id": np.arange(n), "score": p**sharp})
    predictions["prediction"] = np.where(p >= 0.5, "yes", "no")
    target_p, _ = draw(m, 3.0)
    target = pd.DataFrame({"id": [f"t{at}" for at in range(m)], "score": target_p**sharp})
    target["prediction"] = np.where(target_p >= 0.5, "yes", "no")
    return table, predictions, target


TRUTH = float(
    np.maximum(
        q := 1 / (1 + np.exp(-3 * np.random.default_rng(0).normal(size=10**6))), 1 - q
    ).mean()
)


def test_the_weighted_figures_stay_and_are_repeated() -> None:
    table, predictions, target = world(1)
    plain = judge(table, predictions)
    both = judge(table, predictions, target_predictions=target)
    assert plain.augmented == {}
    for name in ("accuracy", "log_loss"):
        assert both.overall.figures[name] == plain.overall.figures[name]
        weighted = both.augmented[name].weighted
        assert weighted.value == pytest.approx(plain.overall.figures[name].value, rel=1e-12)
        assert both.augmented[name].stderr < weighted.stderr
    assert "with images of the target: accuracy" in repr(both)
    assert set(both.to_dict()["augmented"]["accuracy"]) >= {"value", "interval", "weighted"}


def test_the_error_without_target_images_is_that_of_the_bootstrap() -> None:
    table, predictions, target = world(2)
    both = judge(table, predictions, target_predictions=target, replicates=2000)
    bootstrap = both.overall.figures["accuracy"].stderr
    # 2,000 replicates: 1.6% of noise.
    assert both.augmented["accuracy"].weighted.stderr == pytest.approx(bootstrap, rel=0.06)


def test_wrong_weights_are_mended_by_honest_confidence() -> None:
    table, predictions, target = world(3, n=2000, shift=6.0)
    both = judge(table, predictions, target_predictions=target)
    low, high = both.augmented["accuracy"].interval
    assert both.augmented["accuracy"].weighted.interval[0] > TRUTH
    assert low < TRUTH < high


def test_constant_confidence_changes_nothing() -> None:
    table, predictions, target = world(4)
    sure = predictions.assign(score=np.where(predictions["prediction"] == "yes", 0.9, 0.1))
    far = target.assign(score=np.where(target["prediction"] == "yes", 0.9, 0.1))
    figure = judge(table, sure, target_predictions=far).augmented["accuracy"]
    assert figure.value == figure.weighted.value
    assert figure.stderr == figure.weighted.stderr


def test_several_classes_and_groups_of_the_target() -> None:
    table, predictions = make_case(classes=("a", "b", "c"))
    target = predictions.assign(id=[f"t{at}" for at in range(300)])
    once = judge(table, predictions, target_predictions=target).augmented["accuracy"]
    copied = pd.concat([target, target.assign(id=target["id"] + "x")])
    twice = copied.assign(group=np.tile(np.arange(300), 2))
    grouped = judge(table, predictions, target_predictions=twice).augmented["accuracy"]
    assert grouped.value == pytest.approx(once.value, rel=1e-9)
    assert grouped.stderr == pytest.approx(once.stderr, rel=1e-9)


@pytest.mark.slow
def test_coverage_and_precision() -> None:
    held, off = [], []
    for seed in range(400):
        table, predictions, target = world(1000 + seed, n=300, sharp=1.5)
        figure = judge(table, predictions, target_predictions=target).augmented["accuracy"]
        held.append(figure.interval[0] <= TRUTH <= figure.interval[1])
        off.append((figure.value - TRUTH, figure.weighted.value - TRUTH))
    # Three binomial standard errors beyond 93 to 97%.
    assert 0.90 < np.mean(held) < 0.995
    rmse = np.sqrt(np.square(off).mean(axis=0))
    assert rmse[0] < 0.97 * rmse[1]


def test_what_cannot_be_used_is_refused() -> None:
    table, predictions, target = world(5)
    with refused(DataError, option="target_predictions", count=400):
        judge(table, predictions, target_predictions=predictions)
    with refused(DataError, option="target_predictions"):
        judge(table, predictions, target_predictions=target[["id", "prediction"]])
    with refused(ConfigError, option="target_predictions"):
        judge(table, predictions[["id", "prediction"]], target_predictions=target)
    with refused(DataError, option="target_predictions", count=1):
        holes = target.assign(score=target["score"].where(target.index != 7))
        judge(table, predictions, target_predictions=holes)
    with refused(DataError, option="target_predictions", count=1):
        judge(table, predictions, target_predictions=target[:1])
    numbers = predictions[["id"]].assign(
        prediction=np.linspace(0, 3, 400), y=np.linspace(0, 4, 400)
    )
    with refused(ConfigError, option="target_predictions"):
        judge(table.drop(columns="label"), numbers, target_predictions=target)
