"""The article's procedure as its text says, and as published: what they share with the exact
solution, and where they leave it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import unskew
from paper.article_procedure import article_weights, bin_index, boxes, class_counts, size_factors
from paper.as_published import last_source_weights, published_weights
from paper.class_experiments import exact_weights
from raising import refused
from unskew.records import Floats
from unskew.scenarios import acquisition, geometric_sizes, overlapping_classes

LABEL = np.tile(np.arange(10), 500)


def _class_error(weight: Floats | None, label: Floats | None) -> float:
    assert weight is not None
    assert label is not None
    return float(np.abs(np.bincount(label, weights=weight, minlength=10) - 0.1).max())


def _population(n: int = 4000) -> Floats:
    rng = np.random.default_rng(1)
    return np.asarray(rng.beta([2.0, 1.5, 3.0], [3.0, 2.0, 2.0], size=(n, 3)))


@pytest.mark.parametrize("overlap", [0.01, 0.1, 0.2, 0.5, 0.8])
def test_exact_weights_with_class_counts_give_the_target_wherever_the_draw_is_connected(
    overlap: float,
) -> None:
    connected = 0
    for seed in range(4):
        scenario = overlapping_classes(LABEL, overlap=overlap, rng=seed)
        weight = exact_weights(class_counts(scenario.label, scenario.source), scenario.source)
        if weight is not None:
            connected += 1
            # The solver stops at 1e-10 in log normalizers; class masses are a tenth of that.
            assert _class_error(weight, scenario.label) < 1e-10
    assert connected == 4


def test_a_draw_without_links_has_no_exact_weights_but_the_article_s_descent_runs() -> None:
    scenario = overlapping_classes(LABEL, overlap=1e-6, rng=0)
    omega = class_counts(scenario.label, scenario.source)
    assert exact_weights(omega, scenario.source) is None
    assert article_weights(omega, scenario.source, seed=0, steps=50).sum() == pytest.approx(1.0)


def test_with_the_true_omega_the_error_falls_like_one_over_the_root_of_the_overlap() -> None:
    overlaps = [0.01, 0.04, 0.16]
    errors = []
    for overlap in overlaps:
        draws = [overlapping_classes(LABEL, overlap=overlap, rng=seed) for seed in range(40)]
        errors.append(np.mean([np.sum((_masses(draw) - 0.1) ** 2) for draw in draws]) ** 0.5)
    slope = np.polyfit(np.log(overlaps), np.log(errors), 1)[0]
    # -0.5 in theory, for overlaps that are small; 40 draws tell the root-mean-square error to a
    # tenth or so.
    assert -0.65 < slope < -0.35


def _masses(scenario: unskew.scenarios.Scenario) -> Floats:
    weight = exact_weights(scenario.omega, scenario.source)
    assert weight is not None
    return np.bincount(scenario.label, weights=weight, minlength=10)


def test_the_article_s_descent_is_noise_at_small_overlap_and_fine_at_large() -> None:
    errors = {}
    for overlap in (0.005, 0.3):
        draws = [overlapping_classes(LABEL, overlap=overlap, rng=seed) for seed in range(4)]
        omegas = [class_counts(draw.label, draw.source) for draw in draws]
        weights = [
            article_weights(omega, draw.source, seed=seed)
            for seed, (omega, draw) in enumerate(zip(omegas, draws, strict=True))
        ]
        errors[overlap] = np.mean(
            [_class_error(weight, draw.label) for weight, draw in zip(weights, draws, strict=True)]
        )
    # The slowest mode shrinks by exp(-4000 · 0.1 · 0.276 γ): to 0.58 and to 4e-15.
    assert errors[0.005] > 0.02
    assert errors[0.3] < 0.01


def test_on_a_connected_draw_it_is_the_library_s_sgd() -> None:
    scenario = overlapping_classes(LABEL, overlap=0.2, rng=3)
    omega = class_counts(scenario.label, scenario.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = unskew.debias_weights(
            omega, scenario.source, method="sgd", rng=5, max_steps=200
        ).weight
    np.testing.assert_allclose(
        article_weights(omega, scenario.source, seed=5, steps=200), expected, rtol=1e-9
    )


def test_class_counts_are_what_a_scenario_calls_estimated() -> None:
    scenario = overlapping_classes(LABEL, overlap=0.2, sizes=[900, 500, 300, 200, 100], rng=0)
    np.testing.assert_allclose(
        class_counts(scenario.label, scenario.source), scenario.omega_estimated, rtol=1e-12
    )


def test_boxes_are_those_of_the_bias_model() -> None:
    scenario = acquisition(_population(800), decay=0.2, rng=0)
    assert scenario.features is not None
    pool = unskew.Pool.from_arrays(scenario.source.astype(str), f=scenario.features)
    fitted = unskew.bias.Box(["f_0", "f_1", "f_2"]).fit(pool)
    np.testing.assert_array_equal(boxes(scenario.features, scenario.source), fitted.omega(pool))


def test_the_extra_factor_of_the_imbalanced_case_changes_no_exact_weight() -> None:
    population = _population()
    scenario = acquisition(population, decay=0.5, sizes=geometric_sizes(4000, 8, 0.75), rng=0)
    assert scenario.features is not None
    omega = boxes(scenario.features, scenario.source)
    factor = size_factors(scenario.features, scenario.source, population)
    assert np.ptp(factor) > 0.1
    with_factor, without = (
        exact_weights(omega * factor, scenario.source),
        exact_weights(omega, scenario.source),
    )
    assert with_factor is not None
    assert without is not None
    np.testing.assert_allclose(with_factor, without, rtol=1e-8)


def test_as_published_the_descent_comes_to_the_solution_given_time_and_overlap() -> None:
    scenario = overlapping_classes(LABEL, overlap=0.5, rng=0)
    omega = class_counts(scenario.label, scenario.source)
    # The slowest mode shrinks by 1 - 0.1 · 0.069 a step.
    assert (
        _class_error(published_weights(omega, scenario.source, seed=0, steps=5000), scenario.label)
        < 1e-10
    )
    assert _class_error(published_weights(omega, scenario.source, seed=0), scenario.label) > 1e-4


def test_as_published_acquisition_weighs_the_first_images_of_the_first_source_only() -> None:
    sizes = geometric_sizes(4000, 8, 0.75)
    scenario = acquisition(_population(), decay=0.5, sizes=sizes, rng=0)
    assert scenario.features is not None
    weight = last_source_weights(boxes(scenario.features, scenario.source), scenario.source, seed=0)
    assert weight.sum() == pytest.approx(1.0)
    assert np.flatnonzero(weight).tolist() == list(range(sizes[-1]))
    # 0.75^7/Σ 0.75^k: "3.5%" of distinct images in the imbalanced case.
    assert sizes[-1] / sizes.sum() == pytest.approx(0.0371, abs=5e-4)


def test_as_published_needs_sources_in_order() -> None:
    with refused(unskew.DataError):
        last_source_weights(np.ones((2, 2)), [1, 0], seed=0)


def test_bins_count_as_the_article_does() -> None:
    median = [0.5, 0.5, 0.5]
    assert bin_index([[0.9, 0.1, 0.9], [0.1, 0.9, 0.1], [0.5, 0.5, 0.5]], median).tolist() == [
        5,
        2,
        0,
    ]


@pytest.mark.parametrize(
    ("decay", "factor"),
    [
        (0.1, 1.5),
        pytest.param(1.0, 3.0, marks=pytest.mark.slow),
        pytest.param(10.0, None, marks=pytest.mark.slow),
    ],
)
def test_the_soft_box_comes_close_to_the_true_omega(decay: float, factor: float | None) -> None:
    """The bars of the full data on a small population; the figures show them on CIFAR."""
    from paper.acquisition_experiments import channel_distance, soft_box_weights

    population = _population(5000)
    scenario = acquisition(population, decay=decay, rng=0)
    assert scenario.features is not None
    weights = {
        "naive": np.full(5000, 1 / 5000),
        "soft": soft_box_weights(scenario, 0),
        "true": exact_weights(scenario.omega, scenario.source),
    }
    distance = {}
    for name, weight in weights.items():
        assert weight is not None
        distance[name] = channel_distance(scenario.features, population, weight)
    if factor is None:
        assert distance["soft"] <= distance["naive"] * (1 + 1e-9)
    else:
        assert distance["soft"] <= factor * distance["true"]
