"""Forecasts for images with any number of labels: two classes where there is one, and the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unskew
from raising import refused
from unskew import DataError, Pool, Target
from unskew.bias import Strata

NAMES = ("edema", "effusion")
TARGET = Target.margins({"age": {"old": 0.7, "young": 0.3}})
FEATURES = ["x_0", "x_1"]
# Shares of the findings.
OLD, YOUNG = (0.55, 0.45), (0.08, 0.1)


def draw(rng: Any, n: int, old_share: float) -> tuple[Any, Any, Any]:
    """Findings depend on age, pictures on findings alone: (age, labels, features)."""
    old = rng.random(n) < old_share
    present = rng.random((n, 2)) < np.where(old[:, None], OLD, YOUNG)
    return np.where(old, "old", "young"), present, 1.2 * present + rng.normal(size=(n, 2))


def make_pool(known: Any = True, n: tuple[int, int] = (300, 150)) -> tuple[Pool, Any]:
    rng = np.random.default_rng(3)
    parts = [draw(rng, n[0], 0.05), draw(rng, n[1], 0.5)]
    age, present, X = (np.concatenate(part) for part in zip(*parts, strict=True))
    shown = present & known
    lists = [[name for name, has in zip(NAMES, row, strict=True) if has] for row in shown]
    gaps = np.where(known, present, np.nan)
    columns = {f"label={name}": gaps[:, m] for m, name in enumerate(NAMES)}
    columns = {} if known is True else columns
    pool = Pool.from_arrays(np.repeat(["clinic", "ward"], n), lists, age=age, x=X, **columns)
    return pool, present


def forecast(pool: Pool, **options: Any) -> Any:
    usual = {"check": False, "progress": False, "ridge": 0.01, "way": "half"}
    return unskew.forecast_gain(pool, Strata("age"), TARGET, features=FEATURES, **usual | options)


def as_classes(pool: Pool, present_n: Any) -> Pool:
    columns = {name: pool.frame[name].to_numpy() for name in ("id", "age", *FEATURES)}
    label = np.where(present_n, "yes", "no")
    return Pool.from_arrays(pool.frame["source"].astype(str), label, **columns)


def test_labels_are_the_mean_of_forecasts_of_two_classes() -> None:
    pool, present = make_pool()
    both = forecast(pool)
    assert both.labels == 2
    alone = [forecast(as_classes(pool, present[:, m])) for m in range(2)]
    debiased = both.arm("debiased")
    # Folds are dealt within sets of labels here, within classes there: other models of the same.
    gains = [own.gain.value for own in alone]
    assert both.gain.value == pytest.approx(np.mean(gains), abs=0.02)
    assert both.gain.value == pytest.approx(
        np.mean([gain.value for gain in debiased.gain_by_label.values()]), abs=1e-12
    )
    assert debiased.worst_class in NAMES


def test_one_label_is_the_forecast_of_two_classes() -> None:
    pool, present = make_pool()
    lists = [["yes"] if has else [] for has in present[:, 0]]
    columns = {name: pool.frame[name].to_numpy() for name in ("id", "age", *FEATURES)}
    one = forecast(Pool.from_arrays(pool.frame["source"].astype(str), lists, **columns))
    two = forecast(as_classes(pool, present[:, 0]))
    assert one.gain.value == pytest.approx(two.gain.value, abs=1e-12)
    assert one.gain.stderr == pytest.approx(two.gain.stderr, rel=1e-9)
    assert one.gain.interval == pytest.approx(two.gain.interval, abs=1e-9)
    assert one.class_share["yes"] == pytest.approx(two.class_share["yes"])


def test_equal_weights_gain_nothing() -> None:
    pool, _ = make_pool(n=(120, 80))
    equal = pool.with_columns({"age": np.tile(["old", "young"], 100)})
    even = Target.margins({"age": {"old": 0.5, "young": 0.5}})
    gain = unskew.forecast_gain(
        equal, Strata("age"), even, features=FEATURES, check=False, progress=False, way="weights"
    ).gain
    assert gain.value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_gain_comes_true_where_naive_thresholds_are_wrong(missing: float) -> None:
    rng = np.random.default_rng(0)
    n = (3000, 1500)
    known = rng.random((sum(n), 2)) >= missing
    known[:, 0] |= ~known.any(axis=1)
    pool, present = make_pool(known if missing else True, n)
    expected = forecast(pool)
    weight = unskew.debias(pool, Strata("age"), TARGET).weight
    X = pool.frame[FEATURES].to_numpy()
    label = np.where(known, present, np.nan)
    _, truth, X_new = draw(np.random.default_rng(9), 40_000, 0.7)
    options: dict[str, Any] = {"ridges": (0.01,)}
    scores = {
        "naive": unskew.learn.tune_label_probes(
            X, label, np.ones(len(X)), NAMES, taus=(0.0,), calibrate=False, **options
        ).scores(X_new),
        "debiased": unskew.learn.tune_label_probes(
            X, label, weight, NAMES, taus=(0.5,), **options
        ).scores(X_new),
    }
    right = {name: ((score >= 0.5) == truth).mean(axis=0) for name, score in scores.items()}
    gain = right["debiased"] - right["naive"]
    assert gain.mean() > 0.02
    # Three standard errors.
    assert expected.gain.value == pytest.approx(gain.mean(), abs=3 * expected.gain.stderr)
    for found, came in zip(expected.arm("debiased").gain_by_label.values(), gain, strict=True):
        assert found.value == pytest.approx(came, abs=3 * found.stderr)
    # Ranks hardly change; probabilities do: naive ones are far too low on average.
    share = {name: score.mean(axis=0) - truth.mean(axis=0) for name, score in scores.items()}
    assert (share["naive"] < -0.1).all()
    assert np.abs(share["debiased"]).max() < 0.04


def test_what_labels_cannot_do_is_refused() -> None:
    pool, _ = make_pool(n=(60, 40))
    with refused(DataError, column="label", value="class_balanced"):
        forecast(pool, arms=["naive", "debiased", "class_balanced"])
    with refused(DataError, column="label"):
        unskew.rehearse(pool, Strata("age"), TARGET, features=FEATURES, progress=False)
    nothing = pool.with_columns({f"label={name}": np.full(100, np.nan) for name in NAMES})
    with refused(DataError, column="label", count=100):
        forecast(nothing)
