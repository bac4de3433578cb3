"""Principal components: an independent oracle, streaming, and the facts that the docstring
states.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.represent.projection import LARGEST_DIMENSION, fit_projection


def _values(n: int = 60, d: int = 7, seed: int = 0) -> np.ndarray:
    """Correlated columns, whose mean is far from 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 100 * rng.normal(size=d)


@pytest.mark.parametrize("whiten", [False, True])
def test_the_components_are_those_of_scikit_learn_up_to_sign(whiten: bool) -> None:
    x = _values()
    ours = fit_projection([x], 3, whiten=whiten)
    oracle = PCA(3, whiten=whiten, svd_solver="full").fit(x)
    sign_c = np.sign((ours.axis_cd * oracle.components_).sum(axis=1))
    np.testing.assert_allclose(ours.axis_cd, oracle.components_ * sign_c[:, None], atol=1e-10)
    np.testing.assert_allclose(ours.variance_c, oracle.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(ours.explained_c, oracle.explained_variance_ratio_, rtol=1e-10)
    np.testing.assert_allclose(ours.project(x), oracle.transform(x) * sign_c, atol=1e-9)


def test_all_components_are_a_rotation_that_shows_all_of_the_variance() -> None:
    x = _values()
    fitted = fit_projection([x], 7)
    assert fitted.explained_c.sum() == pytest.approx(1.0)
    singular_c = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(fitted.variance_c, singular_c**2 / (len(x) - 1), rtol=1e-9)
    np.testing.assert_allclose(fitted.project(x) @ fitted.axis_cd + fitted.mean_d, x, atol=1e-9)


@given(cuts=st.lists(st.integers(0, 60), max_size=6), seed=st.integers(0, 20))
def test_blocks_of_any_size_give_what_one_block_gives(cuts: list[int], seed: int) -> None:
    x = _values(seed=seed)
    whole = fit_projection([x], 4)
    in_blocks = fit_projection(iter(np.split(x, sorted(cuts))), 4)
    assert in_blocks.n == whole.n == 60
    np.testing.assert_allclose(in_blocks.mean_d, whole.mean_d, rtol=1e-12)
    # The gaps between eigenvalues of such matrices magnify rounding by far less than 10⁴.
    np.testing.assert_allclose(in_blocks.axis_cd, whole.axis_cd, atol=1e-9)
    np.testing.assert_allclose(in_blocks.variance_c, whole.variance_c, rtol=1e-10)


@given(seed=st.integers(0, 50), c=st.integers(1, 7))
def test_axes_are_orthonormal_variances_fall_and_the_largest_loading_is_positive(
    seed: int, c: int
) -> None:
    fitted = fit_projection([_values(seed=seed)], c)
    np.testing.assert_allclose(fitted.axis_cd @ fitted.axis_cd.T, np.eye(c), atol=1e-12)
    assert (np.diff(fitted.variance_c) <= 0).all()
    assert (fitted.axis_cd[np.arange(c), np.abs(fitted.axis_cd).argmax(axis=1)] > 0).all()


def test_scores_are_uncorrelated_and_whitened_ones_have_variance_one() -> None:
    x = _values()
    np.testing.assert_allclose(
        np.cov(fit_projection([x], 4, whiten=True).project(x).T), np.eye(4), atol=1e-9
    )


def test_loadings_that_tie_up_to_rounding_do_not_let_rounding_choose_the_sign() -> None:
    t = np.linspace(-1, 1, 11)
    for e in (0.0, 1e-13, -1e-13):
        fitted = fit_projection([np.column_stack([-t, t * (1 + e)])], 1)
        np.testing.assert_allclose(fitted.axis_cd, [[np.sqrt(0.5), -np.sqrt(0.5)]], atol=1e-9)


def test_a_far_mean_does_not_drown_a_small_spread() -> None:
    """The sum of squares would lose all digits here: mean 10⁸, spread 10⁻²."""
    spread = np.random.default_rng(1).normal(size=(200, 3)) * [3e-2, 2e-2, 1e-2]
    fitted = fit_projection(np.split(1e8 + spread, 10), 3)
    np.testing.assert_allclose(fitted.variance_c, PCA(3).fit(spread).explained_variance_, rtol=1e-3)


@pytest.mark.parametrize("whiten", [False, True])
def test_images_that_are_all_alike_get_zeros(whiten: bool) -> None:
    fitted = fit_projection([np.full((5, 3), 7.25)], 2, whiten=whiten)
    np.testing.assert_array_equal(fitted.project(np.full((4, 3), 7.25)), np.zeros((4, 2)))
    np.testing.assert_array_equal(fitted.explained_c, [0, 0])


def test_whitening_leaves_directions_of_rounding_alone() -> None:
    line = np.outer(np.arange(9.0), [1.0, 2.0, 2.0])
    scores = fit_projection([line], 3, whiten=True).project(line)
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), [1, 0, 0], atol=1e-12)


def test_errors_say_what_to_do() -> None:
    with refused(DataError, option="components", value=3, count=3) as caught:
        fit_projection([_values(3)], 3)
    assert "at most 2 here" in str(caught.value)
    with refused(DataError, option="components", count=0):
        fit_projection([], 3)
    with refused(ConfigError, option="components", value=8, limit=7):
        fit_projection([_values()], 8)
    with refused(ConfigError, option="components", value=0):
        fit_projection([_values()], 0)
    with refused(DataError, count=1):
        fit_projection([_values(), np.array([[np.nan] * 7, [0.0] * 7])], 2)
    with refused(DataError, count=LARGEST_DIMENSION + 1, limit=LARGEST_DIMENSION):
        fit_projection([np.zeros((2, LARGEST_DIMENSION + 1))], 1)
