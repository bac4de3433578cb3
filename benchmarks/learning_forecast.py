"""Forecasts: `forecast_gain` on the drawn images alone, naive and every way to learn.

What came true for the ways is what the part probe measured on the same draw. Its naive has the
ridge that is best for the target, as every recipe; that of a forecast has the ridge that its own
images choose, as that of `unskew train`, and is measured here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from learning_results import Record, Results
from learning_settings import Case
from learning_ways import Images, TestImages, distinct_images
from solver_table import commit_facts

from paper.features import Features
from paper.settings import Population
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.record import Forecast
from unskew.learn.dial import Dialled
from unskew.learn.probe_grid import dialled_probe
from unskew.learn.ways import DEFAULT_RIDGE
from unskew.records import Estimate


def measure_forecasts(
    load: Callable[[str], Features], cases: Sequence[Case], seeds: Sequence[int], results: Results
) -> None:
    """One forecast for every setting and seed, and the accuracy of its naive on the test images."""
    for seed in seeds:
        for case in cases:
            if (case.key, seed) in results.read():
                continue
            features, commit = load(case.data), commit_facts()
            begin, cpu = time.perf_counter(), time.process_time()
            draw = case.setting.draw(Population(features.train_label, features.border), seed)
            bias, target = draw.families["debiased"]
            # The features are scaled already, and the column content says which images are copies.
            forecast = forecast_gain(
                draw.pool,
                bias,
                target,
                features=features.train[draw.index],
                scaling="none",
                keep_copies_together=False,
                rng=seed,
            )
            seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
            record = {"setting": case.key, "seed": seed, **as_points(forecast)}
            record |= {
                "naive_on_test": _accuracy_of_naive(
                    distinct_images(draw, features, seed),
                    forecast.arm("naive").ridge or DEFAULT_RIDGE,
                    TestImages(features, case.setting),
                ),
                "seconds": seconds,
                "cpu": cpu,
                "commit": commit,
            }
            results.add(record)
            print(
                f"{case.key} seed {seed} {forecast.recommendation} ({cpu:.0f} s)",
                file=sys.stderr,
                flush=True,
            )


def as_points(forecast: Forecast) -> Record:
    """The figures of a forecast that can come true or not, by arm under the names of the part
    probe: the chosen way is `auto` there.
    """
    arms = {
        "auto" if arm.name == "debiased" else arm.name: {
            "accuracy": _points(arm.accuracy),
            "gain": None if arm.gain is None else _points(arm.gain),
            "worst": 100 * arm.worst.value,
            "ridge": arm.ridge,
        }
        for arm in forecast.arms
    }
    return {
        "arms": arms,
        "way": forecast.choice.way,
        "reason": forecast.choice.reason,
        "verdict": forecast.verdict,
        "words": forecast.recommendation,
        "fit_p_value": forecast.fit_p_value,
        "ess_units": forecast.ess_units,
    }


def _accuracy_of_naive(images: Images, ridge: float, test: TestImages) -> float:
    even_m = images.merge(np.ones(images.row.size))
    dialled = Dialled(0.0, even_m, np.zeros(images.n_classes))
    probe = dialled_probe(images.X, images.label, dialled, ridge=ridge, tol=1e-4)
    return float(test.record("naive", probe, ridge)["accuracy"])


def _points(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "value": 100 * estimate.value,
        "stderr": 100 * estimate.stderr,
        "low": 100 * low,
        "high": 100 * high,
    }
