"""Is a model as good on every source, each weighted to the target by itself?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from simulations import make_pool
from unskew.bias import Strata, Tilt
from unskew.errors import DataError
from unskew.evaluation.predictions import Evaluation

NAMES = ("north", "south", "night")


def judged(accuracy_k: list[float], *, tilt: bool = False, **options: Any) -> Evaluation:
    """Judge a model that errs more in the dark, of which the sources have different shares."""
    rng = np.random.default_rng(1)
    source = np.repeat(np.arange(len(accuracy_k)), 500)
    dark = rng.random(source.size) < np.linspace(0.2, 0.8, len(accuracy_k))[source]
    x = rng.normal(0.5 * source)
    harder = 0.05 * x if tilt else 0.3 * dark
    right = rng.random(source.size) < np.array(accuracy_k)[source] - harder
    truth = rng.integers(0, 2, source.size)
    pool = make_pool(
        source, NAMES[: len(accuracy_k)], x=x, shade=np.where(dark, "dark", "light").astype(object)
    )
    target = unskew.Target.margins({"shade": {"dark": 0.5, "light": 0.5}})
    if tilt:
        weights = unskew.weigh_splits(pool, Tilt(["x"]), unskew.Target.source("north"))
    else:
        weights = unskew.weigh_splits(pool, Strata("shade"), target)
    table = weights.frame().assign(
        source=np.array(NAMES, dtype=object)[source], label=truth.astype(str)
    )
    predictions = pd.DataFrame({"id": table["id"], "prediction": np.where(right, truth, 1 - truth)})
    options = {"memberships": weights.memberships(), "replicates": 200, **options}
    return unskew.evaluate_predictions(table, predictions.astype({"prediction": str}), **options)


@pytest.mark.parametrize("tilt", [False, True])
def test_a_model_that_is_as_good_everywhere_agrees_though_its_breakdown_differs(
    tilt: bool,
) -> None:
    evaluation = judged([0.9, 0.9, 0.9], tilt=tilt)
    (estimate,) = evaluation.compared.values()
    figure = evaluation.overall.figures["accuracy"]
    assert not estimate.sources_disagree
    assert (estimate.value, estimate.interval) == (figure.value, figure.interval)
    if not tilt:
        plain = [cell.figures["accuracy"].value for cell in evaluation.breakdown("source").cells]
        adjusted = [own.value for own in estimate.by_source.values()]
        assert np.ptp(plain) > 0.1 > np.ptp(adjusted)


@pytest.mark.parametrize("tilt", [False, True])
def test_a_source_on_which_it_is_worse_is_named(tilt: bool) -> None:
    (estimate,) = judged([0.9, 0.9, 0.6], tilt=tilt).compared.values()
    assert estimate.sources_disagree
    assert estimate.agreement is not None
    assert estimate.agreement.odd_source == "night"
    assert estimate.interval == estimate.new_source
    assert estimate.by_source["night"].value == pytest.approx(
        0.6 - (0.0 if tilt else 0.15), abs=0.08
    )


def test_the_weights_of_a_mean_say_the_same() -> None:
    """`weights.mean` of right and wrong is that of `evaluate_predictions`, errors but for ω's."""
    rng = np.random.default_rng(2)
    source = np.repeat([0, 1, 2], 300)
    shade = np.where(rng.random(900) < 0.3 + 0.2 * source, "dark", "light").astype(object)
    pool = make_pool(source, NAMES, shade=shade)
    target = unskew.Target.margins({"shade": {"dark": 0.4, "light": 0.6}})
    weights = unskew.weigh_splits(pool, Strata("shade"), target)
    right = (rng.random(900) < 0.8).astype(float)
    table = weights.frame().assign(source=np.array(NAMES)[source], label="a")
    predictions = pd.DataFrame({"id": table["id"], "prediction": np.where(right, "a", "b")})
    estimate = unskew.evaluate_predictions(
        table, predictions, memberships=weights.memberships()
    ).compared["accuracy"]
    mean = weights.weights.mean(right)
    for name in NAMES:
        assert estimate.by_source[name].value == pytest.approx(mean.by_source[name].value)
    assert estimate.agreement_p == pytest.approx(mean.agreement_p, rel=1e-3)


def test_two_sources_cannot_say_and_without_intervals_nothing_is_compared() -> None:
    (estimate,) = judged([0.9, 0.5]).compared.values()
    assert estimate.sources_disagree
    assert estimate.new_source is None
    assert judged([0.9, 0.5], replicates=0).compared == {}
    assert judged([0.9, 0.5], memberships=None).compared == {}


def test_json_has_the_words() -> None:
    record = judged([0.9, 0.9, 0.6]).to_dict()["compared"]["accuracy"]
    assert record["agreement"]["odd_source"] == "night"
    assert "disagree" in record["agreement"]["message"]
    assert set(record["agreement"]["by_source"]) == set(NAMES)


def test_a_private_evaluation_withholds_sources_with_few_errors() -> None:
    (estimate,) = judged([1.29, 0.9, 0.6], private=True).compared.values()
    assert estimate.agreement is not None
    assert "north" in estimate.agreement.withheld
    assert math.isnan(estimate.by_source["north"].value)
    assert estimate.by_source["north"].images is None
    (open_estimate,) = judged([1.29, 0.9, 0.6]).compared.values()
    assert math.isfinite(open_estimate.by_source["north"].value)


def test_memberships_of_other_images_are_refused() -> None:
    table = pd.DataFrame(
        {"id": ["a", "b"], "source": ["s", "t"], "label": ["x", "y"], "weight": 0.5}
    )
    predictions = pd.DataFrame({"id": ["a", "b"], "prediction": ["x", "y"]})
    with refused(DataError, columns=["id"]):
        unskew.evaluate_predictions(table, predictions, memberships=pd.DataFrame({"id": ["a"]}))
    one = pd.DataFrame({"id": ["a"], "membership_s": [1.0]})
    with refused(DataError, ids=["b"]):
        unskew.evaluate_predictions(table, predictions, memberships=one)
    both = pd.DataFrame({"id": ["a", "b"], "membership_s": [1.0, 1.0]})
    with refused(DataError, sources=["t"]):
        unskew.evaluate_predictions(table, predictions, memberships=both)
