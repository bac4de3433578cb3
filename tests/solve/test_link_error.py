"""How much of the target hangs on the normalizers: closed forms, an independent covariance, and
what must not change it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import unskew
from problems import random_problem
from unskew.solve import link_error as link_error_module
from unskew.solve.link_error import LINK_ERROR_LIMIT, link_error_bound
from unskew.solve.overlap import spectral_gap

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")


def two_blocks(n: int, linked: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sources of n images each; ``linked`` of either could have come from both."""
    omega = np.repeat(np.eye(2), n, axis=0)
    omega[:linked] = omega[n : n + linked] = 1.0
    return omega, np.repeat([0, 1], n)


def test_equal_omega_leaves_nothing_to_know() -> None:
    for sizes in ([1000, 1000, 8], [40, 1, 1], [1, 1]):
        overlap = unskew.check_overlap(
            np.full((sum(sizes), len(sizes)), 3.0), np.repeat(range(len(sizes)), sizes)
        )
        assert overlap.verdict == "ok"
        assert overlap.link_error == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize(("linked", "verdict"), [(1, "weak"), (3, "weak"), (30, "ok")])
def test_two_blocks_have_a_closed_form(linked: int, verdict: str) -> None:
    """q is (1, 0), (½, ½) or (0, 1), so that log Ω̂₁ − log Ω̂₂ has variance 2/m − 2/n, m linked
    images of each, and mass (n − m)/n of the target moves by half of it.
    """
    n = 300
    overlap = unskew.check_overlap(*two_blocks(n, linked))
    outside = (n - linked) / (2 * n - linked)  # a linked image weighs half as much as another
    error = np.sqrt(2 / linked - 2 / n)
    assert overlap.link_error == pytest.approx(outside * error / np.sqrt(2 * np.pi), rel=1e-6)
    assert overlap.verdict == verdict


def test_the_error_is_that_of_the_covariance_of_the_normalizers() -> None:
    """By the covariance of Kong et al., which `weights.covariance` computes in another way."""
    problem = random_problem(5, 300, 4, zeros=0.2)
    weights = unskew.debias_weights(problem.omega, problem.source)
    q = problem.omega * (problem.share / weights.normalizer) * (300 * weights.weight)[:, None]
    change = q - weights.weight @ q
    spread = np.sqrt(np.einsum("ik,kl,il->i", change, weights.covariance(), change))
    expected = weights.weight @ spread / np.sqrt(2 * np.pi)
    assert weights.overlap.link_error == pytest.approx(expected, rel=1e-6)
    gap = spectral_gap(weights.solution.hessian, weights.solution.share)
    assert expected <= link_error_bound(gap, 300 * problem.share)


def test_draws_agree_with_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of sources are judged by 16 draws of the error; with four sources that is a rough
    estimate, within a factor of two.
    """
    problem = random_problem(7, 2000, 4, zeros=0.3)
    exact = unskew.check_overlap(problem.omega, problem.source).link_error
    monkeypatch.setattr(link_error_module, "_MOST_EXACT", 1)
    drawn = unskew.check_overlap(problem.omega, problem.source).link_error
    assert 0.5 < drawn / exact < 2.0


@pytest.mark.parametrize("linked", [2, 40])
def test_verdicts_do_not_depend_on_scale_order_splits_or_copies_of_a_source(linked: int) -> None:
    omega, source = two_blocks(200, linked)
    overlap = unskew.check_overlap(omega, source)
    rng = np.random.default_rng(0)
    order = rng.permutation(source.size)
    # Split source 1 into sources 1 and 2 with the same ω; one of them may be tiny.
    split = np.column_stack([omega, omega[:, 1]])
    parts = {
        share: np.where((source == 1) & (rng.random(400) < share), 2, source)
        for share in (0.5, 0.03)
    }
    others = [
        unskew.check_overlap(omega * [1e-3, 7.0], source),
        unskew.check_overlap(omega[order], source[order]),
        unskew.check_overlap(omega[:, ::-1], 1 - source),
        unskew.check_overlap(sp.csr_array(omega), source),
        *(unskew.check_overlap(split, part) for part in parts.values()),
        unskew.debias_weights(omega, source).overlap,
        unskew.debias_weights(split, parts[0.03]).overlap,
    ]
    for other in others:
        assert other.link_error == pytest.approx(overlap.link_error, rel=1e-6)
        assert other.verdict == overlap.verdict == ("weak" if linked == 2 else "ok")


def test_a_subsample_of_large_omega_gives_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(3, 6000, 3, zeros=0.0)
    exact = unskew.check_overlap(problem.omega, problem.source)
    monkeypatch.setattr("unskew.solve.normalizers._MOST_ENTRIES", 6000)
    few = unskew.check_overlap(problem.omega, problem.source)
    # 2,000 of 6,000 rows: the error of a standard deviation estimated from them.
    assert few.link_error == pytest.approx(exact.link_error, rel=0.2)
    assert few.verdict == exact.verdict == "ok"


def test_groups_count_as_one_image_each() -> None:
    """Twelve linked images of each source link it well, but not if they are one group."""
    omega, source = two_blocks(120, 12)
    group = np.arange(240) // 12
    assert unskew.debias_weights(omega, source).overlap.link_error < LINK_ERROR_LIMIT
    assert unskew.debias_weights(omega, source, group=group).overlap.verdict == "weak"


def test_the_solver_warns_of_the_same_links() -> None:
    for linked, is_weak in ((2, True), (40, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            unskew.solve_normalizers(*two_blocks(200, linked))
        assert (len(caught) == 1) == is_weak
