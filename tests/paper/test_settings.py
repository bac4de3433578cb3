"""Settings on CIFAR: what is drawn is what the setting says, and the truth beside it is true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unskew
from paper.settings import (
    ANIMALS,
    ARTICLE,
    BEYOND,
    Acquisition,
    Background,
    ClassOverlap,
    MissingClasses,
    Population,
    Setting,
    falling_sizes,
    unseen_chance,
)


@pytest.fixture(scope="module")
def population() -> Population:
    """Ten classes of 300 images whose borders do not depend on the class."""
    rng = np.random.default_rng(0)
    return Population(np.repeat(np.arange(10), 300), rng.uniform(size=(3000, 3)))


SMALL: tuple[Setting, ...] = (
    ClassOverlap(0.1, 0.5, total=4000),
    MissingClasses((3000, 400)),
    Background((3000, 400)),
    Acquisition(0.1, 0.75, total=2000),
)


@given(ratio=st.floats(0.2, 1.0), n_sources=st.integers(1, 9), total=st.integers(1000, 60_000))
def test_sizes_fall_by_the_ratio_and_sum_to_the_total(
    ratio: float, n_sources: int, total: int
) -> None:
    size_k = falling_sizes(ratio, n_sources, total)
    wanted_k = total * ratio ** np.arange(n_sources) / (ratio ** np.arange(n_sources)).sum()
    assert size_k.sum() == total
    assert np.abs(size_k - wanted_k).max() < 1.0


def test_the_keys_and_titles_are_different() -> None:
    settings = (*BEYOND, *ARTICLE)
    assert (
        len({setting.key for setting in settings})
        == len({setting.title for setting in settings})
        == len(settings)
        == 16
    )
    assert (
        falling_sizes(0.3, 5).tolist()
        == BEYOND[1]
        .draw(Population(np.arange(50_000) % 10, np.zeros((50_000, 3))), 0)
        .pool.sizes.tolist()
    )


@pytest.mark.parametrize("setting", SMALL, ids=lambda case: case.key)
def test_a_draw_says_which_images_it_holds(setting: Setting, population: Population) -> None:
    draw = setting.draw(population, 3)
    frame = draw.pool.frame
    np.testing.assert_array_equal(
        frame["label"].to_numpy(dtype=np.int64), population.label[draw.index]
    )
    np.testing.assert_array_equal(frame["border_v"], population.border[draw.index, 2])
    assert frame["content"].tolist() == [f"image {at}" for at in draw.index]
    # Drawn with replacement: some images are there more than once.
    assert frame["content"].nunique() < len(frame)
    # A source draws only what its ω lets it.
    assert (draw.omega[np.arange(len(frame)), draw.pool.source] > 0).all()
    same, other = setting.draw(population, 3), setting.draw(population, 4)
    np.testing.assert_array_equal(same.index, draw.index)
    assert (other.index != draw.index).any()


@pytest.mark.parametrize("setting", SMALL, ids=lambda case: case.key)
def test_the_true_weights_and_the_first_family_bring_the_population_back(
    setting: Setting, population: Population
) -> None:
    """Means of the border and shares of the classes: within four standard errors of the
    population's, naive means are not.
    """
    draw = setting.draw(population, 0)
    bias, target = draw.families["debiased"]
    label_n = population.label[draw.index]
    measures = {
        "classes": [label_n == y for y in range(10)],
        "border": [
            population.border[draw.index, 2] * np.isin(label_n, ANIMALS),
            population.border[draw.index, 0],
        ],
    }
    truth = {
        "classes": [population.label == y for y in range(10)],
        "border": [
            population.border[:, 2] * np.isin(population.label, ANIMALS),
            population.border[:, 0],
        ],
    }
    oracle = unskew.debias_weights(draw.omega, draw.pool.source)
    fitted = unskew.debias(draw.pool, bias, target)
    worst_naive = 0.0
    for name, values in measures.items():
        for value_n, true_n in zip(values, truth[name], strict=True):
            true = float(np.mean(true_n))
            for weights in (oracle, fitted):
                estimate = weights.mean(np.asarray(value_n, dtype=np.float64))
                # Boxes are fitted to few images here: a hundredth on top of the errors.
                assert abs(estimate.value - true) <= 4 * estimate.stderr + 0.01, (
                    name,
                    true,
                    estimate,
                )
            worst_naive = max(worst_naive, abs(float(np.mean(value_n)) - true))
    assert worst_naive > 0.04


@pytest.mark.parametrize("setting", SMALL, ids=lambda case: case.key)
def test_omega_of_the_population_is_that_of_the_draw_and_says_who_is_left_out(
    setting: Setting, population: Population
) -> None:
    """Up to a constant for each source; and images that are drawn by nobody, weighted by 1/chance,
    are the population.
    """
    draw, omega_nk = setting.draw(population, 0), setting.population_omega(population)
    np.testing.assert_array_equal(draw.omega > 0, omega_nk[draw.index] > 0)
    for drawn_n, known_n in zip(draw.omega.T, omega_nk[draw.index].T, strict=True):
        ratio_m = drawn_n[known_n > 0] / known_n[known_n > 0]
        np.testing.assert_allclose(ratio_m, ratio_m[0], rtol=1e-9)
    chance_n = unseen_chance(omega_nk, draw.pool.sizes)
    unseen_n = ~np.isin(np.arange(population.label.size), draw.index)
    for value_n in (
        np.ones(unseen_n.size),
        population.border[:, 2],
        (population.label == 3).astype(float),
    ):
        # Draws are negatively correlated between images: the variance is at most that of
        # independent ones.
        error = np.sqrt(np.sum(value_n**2 * (1 - chance_n) / chance_n))
        assert abs((value_n * unseen_n / chance_n).sum() - value_n.sum()) < 5 * error


def test_missing_classes_are_seen_by_the_unbiased_source_alone(population: Population) -> None:
    frame = MissingClasses((3000, 400)).draw(population, 0).pool.frame
    assert set(frame.loc[frame["label"].isin([3, 5]), "source"]) == {"unbiased"}


def test_backgrounds_are_usual_or_unusual_and_groups_are_four(population: Population) -> None:
    """z = ±(V − median of the unbiased), + for vehicles; most of the biased source is usual."""
    setting = Background((3000, 400))
    frame = setting.draw(population, 0).pool.frame
    median = frame.loc[frame["source"] == "unbiased", "border_v"].median()
    sign_n = np.where(frame["label"].isin(ANIMALS), -1, 1)
    np.testing.assert_allclose(
        frame["usual"] - frame["unusual"], sign_n * (frame["border_v"] - median), atol=1e-15
    )
    assert (np.minimum(frame["usual"], frame["unusual"]) == 0).all()
    assert (frame.loc[frame["source"] != "unbiased", "usual"] > 0).mean() > 0.8
    group_n, names = setting.group(population)
    assert len(names) == 4
    bright_animal = names.index("bright animal")
    np.testing.assert_array_equal(
        group_n == bright_animal,
        np.isin(population.label, ANIMALS)
        & (population.border[:, 2] > np.median(population.border[:, 2])),
    )
