"""Covariance of the masses against closed forms and numerical derivatives."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_pools import ANIMALS, LIGHT, WITH_OKAPI, animal_pool, mass_of, with_empty
from unskew import Target
from unskew.target.facts import Distribution
from unskew.target.mass_covariance import (
    balanced_covariance,
    grouped_covariance,
    grouped_error,
    mass_error,
    multinomial_covariance,
    redrawn_fact,
    smoothed,
    survey_covariance,
)


def covariance_of(strata, levels):
    order = [
        strata.strata.index(level if isinstance(level, tuple) else (level,)) for level in levels
    ]
    return strata.covariance[np.ix_(order, order)]


def test_a_sample_size_gives_the_multinomial_covariance():
    strata = Target.margins({"label": {"mass": ANIMALS, "n": 400}}).stratify(animal_pool())
    p = np.array(list(ANIMALS.values()))
    # Of s²/n with n − 1 in the denominator, at shares with half an image more in every level.
    p_half = (400 * p + 0.5) / 401.5
    np.testing.assert_allclose(
        covariance_of(strata, ANIMALS),
        (np.diag(p_half) - np.outer(p_half, p_half)) / 399,
        rtol=1e-13,
    )
    (error,) = strata.errors
    assert error.freedom == 399
    assert any(
        "from a sample of 400, whose multinomial error enters every interval" in sentence
        for sentence in strata.describe()
    )
    table = pd.DataFrame({"label": list(ANIMALS), "share": p})
    np.testing.assert_allclose(
        Target.table(table, n=400).stratify(animal_pool()).covariance, strata.covariance
    )


def test_restriction_conditions_the_multinomial():
    """Of n drawn, nP are covered: multinomial(nP, q)."""
    strata = Target.margins(
        {"label": {"mass": WITH_OKAPI, "n": 400}}, uncovered="restrict"
    ).stratify(animal_pool())
    q = np.array([4, 3, 2]) / 9
    np.testing.assert_allclose(
        covariance_of(strata, ANIMALS), survey_covariance(q, 400 * 0.9), rtol=1e-12
    )


def test_what_is_kept_at_its_pool_share_scales_the_covariance():
    margins = {"label": {"mass": ANIMALS, "n": 400}}
    strata = Target.margins(margins, outside={"label": {"empty": "keep"}}).stratify(with_empty())
    inner = survey_covariance(np.array(list(ANIMALS.values())), 400)
    np.testing.assert_allclose(covariance_of(strata, ANIMALS), 0.64 * inner)
    assert not covariance_of(strata, ["empty"]).any()


def test_raked_covariance_of_independent_attributes_has_a_closed_form():
    """p_ab = p_a p_b, so Σ = V_a ⊗ p_b p_bᵀ + p_a p_aᵀ ⊗ V_b."""
    table = pd.DataFrame(
        [(a, b, 1) for a, b in itertools.product(ANIMALS, LIGHT)],
        columns=["label", "light", "count"],
    )
    margins = {
        "label": {"mass": ANIMALS, "n": 400},
        "light": {"mass": LIGHT, "stderr": {"day": 0.03, "night": 0.03}},
    }
    strata = Target.margins(margins, interactions=table).stratify(animal_pool())
    a, b = np.array(list(ANIMALS.values())), np.array(list(LIGHT.values()))
    v_b = 0.03**2 * np.array([[1, -1], [-1, 1]])
    # Errors are those of the smoothed margin, at its raked table.
    a_half = (400 * a + 0.5) / 401.5
    expected = np.kron(survey_covariance(a, 400), np.outer(b, b)) + np.kron(
        np.outer(a_half, a_half), v_b
    )
    np.testing.assert_allclose(
        covariance_of(strata, list(itertools.product(ANIMALS, LIGHT))), expected, atol=1e-15
    )


def test_raked_covariance_agrees_with_numerical_derivatives():
    data = animal_pool()
    levels = list(itertools.product(ANIMALS, LIGHT))

    def masses(label):
        mass = mass_of(Target.margins({"label": label, "light": LIGHT}).stratify(data))
        return np.array([mass[cell] for cell in levels])

    step, p = 1e-5, (400 * np.array(list(ANIMALS.values())) + 0.5) / 401.5
    # Errors that move mass from one level to another, as rows: the multinomial covariance is a sum
    # of them.
    moves = [(i, j) for i, j in itertools.combinations(range(3), 2)]
    expected = np.zeros((6, 6))
    for i, j in moves:
        up, down = p.copy(), p.copy()
        up[[i, j]] += [step, -step]
        down[[i, j]] -= [step, -step]
        slope = (
            masses(dict(zip(ANIMALS, up, strict=True)))
            - masses(dict(zip(ANIMALS, down, strict=True)))
        ) / (2 * step)
        expected += p[i] * p[j] * np.outer(slope, slope) / 399
    strata = Target.margins({"label": {"mass": ANIMALS, "n": 400}, "light": LIGHT}).stratify(data)
    np.testing.assert_allclose(covariance_of(strata, levels), expected, rtol=1e-6, atol=1e-12)


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=8))
def test_standard_errors_become_a_covariance_that_has_them_and_sums_to_zero(numbers):
    stderr = np.array(numbers)
    top = stderr.argmax()
    stderr[top] = min(stderr[top], stderr.sum() - stderr[top])
    if len(stderr) == 2:
        stderr[:] = stderr.min()
    covariance = balanced_covariance(stderr)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), stderr, rtol=1e-6)
    np.testing.assert_allclose(covariance.sum(axis=0), 0, atol=1e-7 * stderr.max() ** 2)
    assert np.linalg.eigvalsh(covariance).min() > -1e-7 * stderr.max() ** 2


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8))
def test_standard_errors_of_a_multinomial_give_its_covariance(numbers):
    p = np.array(numbers) / np.sum(numbers)
    expected = multinomial_covariance(p, 400)
    np.testing.assert_allclose(
        balanced_covariance(np.sqrt(np.diag(expected))), expected, atol=1e-6 * expected.max()
    )


def test_errors_of_zero_are_no_errors():
    assert not balanced_covariance(np.zeros(3)).any()


def test_groups_of_a_sample_count_by_how_alike_they_are():
    rng = np.random.default_rng(3)
    cell_n, unit_n = rng.integers(0, 3, 40), np.arange(40)
    p = np.bincount(cell_n) / 40
    single_cc = grouped_covariance(cell_n, unit_n, 3)
    np.testing.assert_allclose(single_cc, multinomial_covariance(p, 39), atol=1e-15)
    # Copies of every image add nothing, and rows of the covariance sum to 0 as masses sum to 1.
    copied_cc = grouped_covariance(np.repeat(cell_n, 3), np.repeat(unit_n, 3), 3)
    np.testing.assert_allclose(copied_cc, single_cc, atol=1e-15)
    uneven_cc = grouped_covariance(cell_n, rng.integers(0, 9, 40), 3)
    np.testing.assert_allclose(uneven_cc.sum(axis=0), 0.0, atol=1e-15)
    # Every group is a small copy of the sample: the shares do not vary.
    even_cc = grouped_covariance(np.tile([0, 1, 2], 10), np.repeat(np.arange(10), 3), 3)
    np.testing.assert_allclose(even_cc, 0.0, atol=1e-15)
    # One group shows nothing; it counts as one image.
    lone_cc = grouped_covariance(cell_n, np.zeros(40, dtype=int), 3)
    np.testing.assert_allclose(lone_cc, multinomial_covariance(p, 1))


def test_a_level_with_half_of_the_mass_has_its_standard_error():
    for p in ([0.5, 0.3, 0.2], [0.5, 0.25, 0.25], [0.5, 0.5], [0.5, 0.4, 0.05, 0.05]):
        expected = multinomial_covariance(np.array(p), 20)
        np.testing.assert_allclose(
            balanced_covariance(np.sqrt(np.diag(expected))), expected, atol=1e-7
        )


def test_a_level_that_a_survey_missed_is_uncertain_and_large_surveys_are_multinomial():
    p = np.array([0.7, 0.3, 0.0])
    missed = survey_covariance(p, 20)
    np.testing.assert_allclose(missed.sum(axis=0), 0, atol=1e-17)
    # Half an image of 21.5: the standard error of a share of 2.3%, not 0.
    share = 0.5 / 21.5
    assert missed[2, 2] == pytest.approx(share * (1 - share) / 19)
    np.testing.assert_allclose(
        survey_covariance(p, 1e9), multinomial_covariance(p, 1e9), atol=1e-16
    )
    # Never more than two images in all, however many levels.
    many = smoothed(np.full(100, 0.01), 20)
    np.testing.assert_allclose(many, 0.01)
    assert smoothed(np.eye(100)[0], 20)[1:].sum() == pytest.approx(1.98 / 22)


def test_standard_errors_have_the_degrees_of_freedom_of_a_sample_with_such_errors():
    p = np.array([0.5, 0.3, 0.2])
    fact = Distribution(
        ("label",), (("a",), ("b",), ("c",)), tuple(p), None, tuple(np.sqrt(p * (1 - p) / 25))
    )
    assert mass_error(fact).freedom == pytest.approx(24)
    assert mass_error(replace(fact, stderr=(0.0, 0.0, 0.0))).freedom == np.inf
    assert mass_error(replace(fact, stderr=None)) is None


def test_a_redrawn_survey_has_its_error():
    rng = np.random.default_rng(0)
    p = np.array([0.5, 0.3, 0.2])
    cells = (("a",), ("b",), ("c",))
    for fact in (
        Distribution(("label",), cells, tuple(p), 60),
        Distribution(("label",), cells, tuple(p), None, tuple(np.sqrt(p * (1 - p) / 59))),
    ):
        drawn = np.array([redrawn_fact(fact, rng).mass for _ in range(4000)])
        np.testing.assert_allclose(drawn.sum(axis=1), 1)
        # 4,000 draws: standard deviations to 1.1%; 5% is more than four of those.
        np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(p * (1 - p) / 59), rtol=0.05)
    exact = Distribution(("label",), cells, tuple(p))
    assert redrawn_fact(exact, rng) is exact
    missed = Distribution(("label",), cells, (0.6, 0.4, 0.0), 20)
    assert all(redrawn_fact(missed, rng).mass[2] == 0 for _ in range(50))


def test_a_level_that_no_group_has_is_uncertain_as_in_a_survey_of_that_many():
    cell_n = np.repeat([0, 1], [14, 6])
    alone = grouped_error(cell_n, np.arange(20), 3)
    assert alone.freedom == 19
    share = 0.5 / 21.5
    assert alone.covariance_cc[2, 2] == pytest.approx(share * (1 - share) / 19)
    np.testing.assert_allclose(alone.covariance_cc.sum(axis=0), 0, atol=1e-16)
    copied = grouped_error(np.repeat(cell_n, 3), np.repeat(np.arange(20), 3), 3)
    np.testing.assert_allclose(copied.covariance_cc, alone.covariance_cc, atol=1e-16)
    seen = grouped_error(cell_n, np.arange(20), 2).covariance_cc
    np.testing.assert_allclose(seen, multinomial_covariance(np.array([0.7, 0.3]), 19), atol=1e-16)
