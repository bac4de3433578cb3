"""Facts of overlapping_classes and class_mixtures."""

import numpy as np
import pytest
from scipy import stats

from raising import refused
from unskew.errors import ConfigError
from unskew.scenarios import class_mixtures, overlapping_classes

_OVERLAPS = [0.0, 0.05, 0.2, 1.0]


@pytest.mark.parametrize("overlap", _OVERLAPS)
def test_class_probabilities_are_those_of_the_article(overlap: float) -> None:
    """ω_k(y) p(y) = (1−γ)K/M on C_k, γK/M on C_{k+1} cyclic, 0 elsewhere."""
    scenario = overlapping_classes(np.arange(10).repeat(50), overlap=overlap, sizes=20_000, rng=0)
    expected_km = np.zeros((5, 10))
    for k in range(5):
        expected_km[k, [2 * k, 2 * k + 1]] += (1 - overlap) / 2
        expected_km[k, [(2 * k + 2) % 10, (2 * k + 3) % 10]] += overlap / 2
    np.testing.assert_allclose(scenario.omega * 0.1, expected_km.T[scenario.label], rtol=1e-14)


@pytest.mark.parametrize("overlap", _OVERLAPS)
def test_drawn_classes_follow_the_probabilities(overlap: float) -> None:
    """Each source's class counts pass a chi-square test at 1e-4: with 4 × 5 fixed draws a right
    sampler all but surely passes.
    """
    scenario = overlapping_classes(overlap=overlap, sizes=10_000, rng=1)
    for k in range(5):
        mine = scenario.label[scenario.source == k]
        own, following = [2 * k, 2 * k + 1], [(2 * k + 2) % 10, (2 * k + 3) % 10]
        probability = np.zeros(10)
        probability[own] += (1 - overlap) / 2
        probability[following] += overlap / 2
        count = np.bincount(mine, minlength=10)
        assert np.all(count[probability == 0] == 0)
        seen = probability > 0
        assert stats.chisquare(count[seen], mine.size * probability[seen]).pvalue > 1e-4


def test_normalizers_are_one_under_the_target() -> None:
    label = np.repeat(np.arange(4), [10, 20, 30, 40])
    scenario = overlapping_classes(label, overlap=0.3, n_sources=2, sizes=5000, rng=2)
    first_m = [np.flatnonzero(scenario.label == y)[0] for y in range(4)]
    np.testing.assert_array_equal(scenario.normalizer, 1.0)
    np.testing.assert_allclose(
        scenario.target_mean["label_share"], [0.1, 0.2, 0.3, 0.4], rtol=1e-15
    )
    np.testing.assert_allclose(
        scenario.target_mean["label_share"] @ scenario.omega[first_m], 1.0, rtol=1e-14
    )


def test_index_points_to_images_of_the_drawn_class_and_reaches_all_of_them() -> None:
    label = np.random.default_rng(3).permutation(np.arange(10).repeat(7))
    scenario = overlapping_classes(label, overlap=0.2, sizes=5000, rng=3)
    np.testing.assert_array_equal(label[scenario.index], scenario.label)
    assert set(scenario.index.tolist()) == set(range(70))


def test_sizes_default_to_the_population_and_are_kept_when_given() -> None:
    label = np.arange(10).repeat(7)
    assert overlapping_classes(label, overlap=0.1, rng=0).sizes.tolist() == [14] * 5
    assert overlapping_classes(
        label, overlap=0.1, sizes=[50, 4, 3, 2, 1], rng=0
    ).sizes.tolist() == [50, 4, 3, 2, 1]
    assert overlapping_classes(overlap=0.1, sizes=12, rng=0).sizes.tolist() == [3, 3, 2, 2, 2]
    assert overlapping_classes(overlap=0.1, rng=0).sizes.tolist() == [1000] * 5


def test_estimated_omega_is_the_class_count_of_each_source() -> None:
    """With a uniform target ω̂_k(y) = n_k^(y), the article's estimate."""
    scenario = overlapping_classes(overlap=0.2, sizes=700, rng=4)
    for k in range(5):
        count = np.bincount(scenario.label[scenario.source == k], minlength=10)
        np.testing.assert_allclose(
            scenario.omega_estimated[:, k], count[scenario.label], rtol=1e-15
        )


def test_estimated_omega_divides_by_an_uneven_target_margin() -> None:
    label = np.repeat(np.arange(2), [30, 10])
    scenario = class_mixtures([[0.5, 0.5], [0.9, 0.1]], label, sizes=[40, 60], rng=5)
    row = int(np.flatnonzero(scenario.label == 1)[0])
    count_k = [np.sum((scenario.source == k) & (scenario.label == 1)) for k in range(2)]
    np.testing.assert_allclose(
        scenario.omega_estimated[row], np.array(count_k) / (2 * 0.25), rtol=1e-15
    )


def test_the_same_seed_draws_the_same_images_and_another_seed_others() -> None:
    label = np.arange(10).repeat(50)
    once, again, other = (overlapping_classes(label, overlap=0.2, rng=seed) for seed in (6, 6, 7))
    np.testing.assert_array_equal(once.index, again.index)
    assert np.any(once.index != other.index)


@pytest.mark.parametrize(
    ("settings", "option", "value"),
    [
        ({"overlap": 1.5}, "overlap", 1.5),
        ({"overlap": 0.1, "n_sources": 3}, "n_sources", [3, 10]),
        ({"overlap": 0.1, "n_sources": 0}, "n_sources", 0),
        ({"overlap": 0.1, "sizes": [1, 2]}, "sizes", [1, 2]),
        ({"overlap": 0.1, "sizes": [1, 2, 3, 4, 0]}, "sizes", [1, 2, 3, 4, 0]),
        ({"overlap": 0.1, "sizes": 3}, "n", 3),
        ({"overlap": 0.1, "label": [0, 1, 2, 4, 4], "n_sources": 1}, "label", [0, 1, 2, 4]),
    ],
)
def test_impossible_settings_are_refused(
    settings: dict[str, object], option: str, value: object
) -> None:
    with refused(ConfigError, option=option, value=value):
        overlapping_classes(**settings, rng=0)


@pytest.mark.parametrize("probability", [[0.5, 0.5], [[0.5, 0.6]], [[1.5, -0.5]]])
def test_class_probabilities_must_be_probabilities(probability: list[object]) -> None:
    with refused(ConfigError, option="probability"):
        class_mixtures(probability, sizes=10, rng=0)
