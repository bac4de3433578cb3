"""A forecast in words: points, errors, the verdict and its reason."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from forecast_worlds import World
from unskew import Pool, Target
from unskew.bias import Strata
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.record import ArmForecast, Forecast
from unskew.forecasting.sentences import compare_arms, plus_minus, points, recommend, worst_words
from unskew.records import Estimate


def test_repr_is_a_few_lines_with_the_verdict_and_the_arms(
    classes: tuple[World, Forecast],
) -> None:
    forecast = classes[1]
    lines = repr(forecast).splitlines()
    assert lines[0] == f"Forecast: {forecast.recommendation}"
    accuracy = forecast.arm("debiased").accuracy
    assert f"debiased {100 * accuracy.value:.1f} ± {100 * accuracy.stderr:.1f}" in lines[1]
    assert f"{len(forecast.arms) - 4} more" in lines[1]
    assert f"worth {forecast.ess:,.0f} " in lines[2]
    assert len(lines) == 3
    doubted = replace(forecast, objection="the sources differ", fit_p_value=0.0012)
    assert repr(doubted).splitlines()[3].endswith("(p = 0.0012)")


def test_few_images_of_nearly_equal_weight_are_not_called_heavy() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 0, 1], [12, 8, 9, 11])
    pool = Pool.from_arrays(np.repeat(["a", "b"], 20), label=y, x=2.0 * y + rng.normal(size=40))
    forecast = forecast_gain(pool, Strata("label"), Target.uniform("label"), features=["x"])
    assert "carry" not in forecast.recommendation
    assert forecast.verdict in ("don't bother", "unclear")


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (0.7349, False, "73"),
        (0.0949, False, "9.5"),
        (0.0996, False, "10"),
        (0.112, True, "+11"),
        (-0.034, True, "−3.4"),
        (-0.0004, True, "0.0"),
        (0.0004, True, "0.0"),
        (math.nan, False, "?"),
    ],
)
def test_points_have_decimals_below_ten(value: float, signed: bool, text: str) -> None:
    assert points(value, signed) == text


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (0.112, 0.013, "+11 ± 1"),
        (0.112, 0.004, "+11.2 ± 0.4"),
        (-0.112, 0.004, "−11.2 ± 0.4"),
        (0.031, 0.013, "+3.1 ± 1.3"),
        (0.031, math.inf, "+3.1 ± ?"),
    ],
)
def test_errors_have_as_many_decimals_as_their_values(
    value: float, stderr: float, text: str
) -> None:
    assert plus_minus(Estimate(value, stderr, (value, value)), signed=True) == text


def _arm(name: str, gain: tuple[float, float] | None = None, **by_class: float) -> ArmForecast:
    """Gain as the ends of its interval; accuracies of classes without error."""
    estimates = {label: Estimate(value, 0.0, (value, value)) for label, value in by_class.items()}
    return ArmForecast(
        name,
        Estimate(0.5, 0.01, (0.48, 0.52)),
        None if gain is None else Estimate(sum(gain) / 2, (gain[1] - gain[0]) / 4, gain),
        0.5,
        estimates,
        min(by_class, key=by_class.__getitem__),
        100.0,
    )


NAIVE = _arm("naive", cat=0.9, dog=0.32)


@pytest.mark.parametrize(
    ("gain", "heavy", "design_effect", "ess", "verdict"),
    [
        ((0.05, 0.09), 0.3, 2.0, 500.0, "reweight"),
        ((-0.09, -0.05), 0.3, 2.0, 500.0, "don't"),
        ((-0.01, 0.01), 0.3, 1.1, 500.0, "don't bother"),
        ((0.001, 0.005), 0.3, 3.0, 500.0, "don't bother"),
        ((-0.05, 0.07), 0.3, 2.0, 500.0, "unclear"),
        ((-0.05, 0.05), 0.01, 9.0, 500.0, "don't"),
        # A handful of images decides, unless their weights are nearly equal.
        ((-0.05, 0.05), 0.3, 2.0, 20.0, "don't"),
        ((-0.05, 0.05), 0.3, 1.1, 20.0, "unclear"),
    ],
)
def test_verdicts_by_gain_and_cost(
    gain: tuple[float, float], heavy: float, design_effect: float, ess: float, verdict: str
) -> None:
    debiased = _arm("debiased", gain, cat=0.8, dog=0.73)
    found, sentence = recommend(NAIVE, debiased, heavy, design_effect, ess, "a linear probe")
    assert found == verdict
    assert sentence.startswith(f"{verdict}: ")
    few = heavy <= 0.05 or (ess < 50 and design_effect >= 1.5)
    assert ("of the images carry 60% of the weight" in sentence) is (few and heavy <= 0.05)


def test_the_worst_class_is_named_and_both_where_it_changes() -> None:
    assert worst_words(NAIVE, _arm("debiased", cat=0.8, dog=0.73)) == "worst class 32 → 73 (dog)"
    changed = _arm("debiased", cat=0.7, dog=0.73)
    assert worst_words(NAIVE, changed) == "worst class 32 → 70 (dog → cat)"


def test_only_arms_that_are_clearly_better_are_named() -> None:
    better, vague, tiny = (
        Estimate(0.05, 0.01, (0.03, 0.07)),
        Estimate(0.05, 0.04, (-0.03, 0.13)),
        Estimate(0.003, 0.001, (0.001, 0.005)),
    )
    said = compare_arms([("own", better), ("other", vague), ("third", tiny)])
    assert len(said) == 1
    assert said[0].startswith("own ")
    assert "+5.0 ± 1.0" in said[0]


def test_the_lines_hold_every_arm_and_its_numbers(classes: tuple[World, Forecast]) -> None:
    forecast = classes[1]
    lines = forecast.lines()
    for arm, line in zip(forecast.arms, lines[3:], strict=False):
        assert line.split()[0] == arm.name
        low, high = (100 * bound for bound in arm.accuracy.interval)
        assert f"{low:.1f} – {high:5.1f}" in line
        assert line.split()[-2:] == [f"{arm.ess:,.0f}", f"{arm.ridge:g}"]
    assert lines[-len(forecast.notes) :] == [f"Note: {note}" for note in forecast.notes]
    unreliable = replace(forecast, pareto_k=0.93, ess_units=12.0)
    text = str(unreliable)
    assert "The tail index is 0.93" in text
    assert "12 independent ones" in text
