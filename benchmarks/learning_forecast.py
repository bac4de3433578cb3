"""Forecasts and their outcomes: `forecast_gain` on the drawn images alone, against the
accuracy on the test images.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from learning_results import Record, Results
from solver_table import commit_facts

from paper.features import Features
from paper.settings import Population, Setting
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.record import Forecast
from unskew.records import Estimate


def measure_forecasts(
    features: Features, settings: Sequence[Setting], seeds: Sequence[int], results: Results
) -> None:
    """One forecast for every setting and seed; the truth is what the part probe measured for the
    same draw.
    """
    population = Population(features.train_label, features.border)
    for seed in seeds:
        for setting in settings:
            if (setting.key, seed) in results.read():
                continue
            begin, cpu = time.perf_counter(), time.process_time()
            draw = setting.draw(population, seed)
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
            record = {"setting": setting.key, "seed": seed, **as_points(forecast)}
            record |= {
                "seconds": time.perf_counter() - begin,
                "cpu": time.process_time() - cpu,
                "commit": commit_facts(),
            }
            results.add(record)
            print(
                f"{setting.key} seed {seed} {forecast.recommendation} ({record['cpu']:.0f} s)",
                file=sys.stderr,
                flush=True,
            )


def as_points(forecast: Forecast) -> Record:
    """The figures of a forecast that can come true or not."""
    naive, debiased = forecast.arm("naive"), forecast.arm("debiased")
    return {
        "naive": _points(naive.accuracy),
        "debiased": _points(debiased.accuracy),
        "gain": _points(forecast.gain),
        "held_out": [100 * naive.held_out, 100 * debiased.held_out],
        "worst": [[100 * arm.worst.value, arm.worst_class] for arm in (naive, debiased)],
        "verdict": forecast.verdict,
        "words": forecast.recommendation,
        "fit_p_value": forecast.fit_p_value,
        "ess_units": forecast.ess_units,
    }


def _points(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "value": 100 * estimate.value,
        "stderr": 100 * estimate.stderr,
        "low": 100 * low,
        "high": 100 * high,
    }
