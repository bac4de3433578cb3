"""Where the solver starts: subsamples keep the shares, balanced flows balance, bad starts do not
mislead.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import unskew
from problems import is_connected, random_problem, rows_of
from solver_rows import rows_in
from unskew.solve.starting_point import balance_flows, balanced_start, subsample


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_subsample_start_and_direct_start_agree_on_a_large_problem() -> None:
    problem = random_problem(0, 80_000, 4, zeros=0.2)
    assert is_connected(problem)
    plain = unskew.solve_normalizers(problem.omega, problem.source)
    direct = unskew.solve_normalizers(problem.omega, problem.source, start=np.zeros(4), jobs=1)
    np.testing.assert_allclose(plain.log_normalizer, direct.log_normalizer, atol=1e-11)
    assert plain.n_passes <= 7  # inspection, three to four sweeps, row sums, Hessian


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_a_subsample_that_misses_the_link_does_not_mislead() -> None:
    """Two groups of 40,000 images linked by six: a subsample sees none of them, and is not
    trusted.
    """
    rng = np.random.default_rng(0)
    omega = np.exp(0.3 * rng.normal(size=(80_000, 2)))
    source = np.repeat([0, 1], 40_000)
    omega[:40_000, 1] = omega[40_000:, 0] = 0
    linked = [17, 4_321, 31_999, 44_444, 66_666, 79_000]
    omega[linked] = np.exp(0.3 * rng.normal(size=(6, 2)))
    weights = unskew.debias_weights(omega, source)
    assert weights.solution.converged
    np.testing.assert_allclose(weights.weight @ omega / weights.normalizer, 1, atol=1e-9)


@pytest.mark.parametrize("faint", [30.0, 300.0, 700.0, 3000.0, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_one_image_that_its_own_source_hardly_selects_does_not_lead_astray(faint, noise):
    """It belongs to the last source as good as surely. Of images that are all alike but for it Σ_i
    q_ik = n_k gives the rest exactly.

    Sums of ω_ik/ω_il over images of l, from which a start is balanced, are nothing but that image.
    """
    source = np.concatenate([np.arange(300) % 2, np.full(200, 2)])
    log_omega = noise * np.random.default_rng(0).normal(size=(500, 3))
    log_omega[0, :2] -= faint
    solution = unskew.solve_normalizers(log_omega, source, log=True)
    if noise == 0.0:
        np.testing.assert_allclose(solution.u[:2] - solution.u[2], np.log(150 / 199), rtol=1e-10)
    else:
        q = np.exp(log_omega + solution.u)
        np.testing.assert_allclose(
            (q / q.sum(axis=1, keepdims=True)).sum(axis=0), [150, 150, 200], rtol=1e-9
        )
    assert solution.n_steps < 20
    shift = np.array(
        [200.0, -100.0, 0.0]
    )  # a constant factor of a source changes nothing but its u
    moved = unskew.solve_normalizers(log_omega + shift, source, log=True)
    np.testing.assert_allclose(moved.u + shift - moved.u[2], solution.u - solution.u[2], atol=1e-9)


@pytest.mark.parametrize("form", ["dense", "csr", "streamed"])
@pytest.mark.parametrize("counted", [False, True])
def test_a_subsample_holds_rows_of_every_source_and_keeps_the_shares(form, counted) -> None:
    rng = np.random.default_rng(0)
    source = np.concatenate([np.full(5000, 0), np.full(900, 1), np.full(7, 2)])
    omega = rng.uniform(1.0, 2.0, (source.size, 3))
    count = rng.integers(1, 5, source.size).astype(float) if counted else None
    rows = rows_in(form, omega, source, count, jobs=1)
    few = subsample(rows, 600)
    np.testing.assert_allclose(few.size_k, rows.size_k, rtol=1e-12)
    stored_k = np.bincount(few.source_n)
    assert stored_k[2] == 7  # all of a small source
    # About 600, and at least 16 of each.
    np.testing.assert_allclose(stored_k[:2], [600 * 5000 / 5907, 600 * 900 / 5907], atol=1.5)
    blocks = [block.omega for block in few.blocks()]
    taken = sp.vstack(blocks).toarray() if form == "csr" else np.concatenate(blocks)
    images = {tuple(row): k for row, k in zip(omega.tolist(), source.tolist(), strict=True)}
    assert [images[tuple(row)] for row in taken.tolist()] == few.source_n.tolist()
    assert len({tuple(row) for row in taken.tolist()}) == len(taken)


def excess(log_flow_kl: np.ndarray, shift_k: np.ndarray) -> np.ndarray:
    """log of what flows into every source, less log of what flows out of it."""
    flow_kl = np.exp(log_flow_kl + shift_k[:, None] - shift_k)
    np.fill_diagonal(flow_kl, 0.0)
    return np.log(flow_kl.sum(axis=1)) - np.log(flow_kl.sum(axis=0))


@pytest.mark.parametrize("n_sources", [2, 5, 70])
def test_flows_balance_whatever_the_scale_of_the_sources(n_sources: int) -> None:
    rng = np.random.default_rng(n_sources)
    log_flow_kl = rng.normal(size=(n_sources, n_sources))
    scale_k = rng.normal(scale=100.0, size=n_sources)
    shift_k = balance_flows(log_flow_kl + scale_k[:, None] - scale_k)
    assert shift_k.mean() == pytest.approx(0.0, abs=1e-10)
    # Shifts are found to 0.2; what flows in and out then differs by a factor of e^0.4 at most.
    assert np.abs(excess(log_flow_kl, shift_k + scale_k)).max() < 0.4


def test_two_sources_balance_in_closed_form() -> None:
    """F₀₁ e^{δ₀ − δ₁} = F₁₀ e^{δ₁ − δ₀}."""
    shift_k = balance_flows(np.array([[0.0, 3.0], [-5.0, 0.0]]))
    np.testing.assert_allclose(shift_k, [-2.0, 2.0], atol=1e-12)


def test_groups_that_are_hardly_linked_move_together() -> None:
    log_flow_kl = np.full((6, 6), -40.0)
    log_flow_kl[:3, :3] = log_flow_kl[3:, 3:] = 0.0
    log_flow_kl[0, 3], log_flow_kl[3, 0] = -20.0, -28.0
    shift_k = balance_flows(log_flow_kl)
    assert np.ptp(shift_k[:3]) < 0.2
    assert np.ptp(shift_k[3:]) < 0.2
    assert shift_k[3] - shift_k[0] == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize("typical", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr", "streamed", "logarithms"])
def test_the_start_follows_factors_of_columns_and_knows_none_of_rows(form, typical) -> None:
    problem = random_problem(2, 300, 4, zeros=0.2)
    rng = np.random.default_rng(0)
    column, row = np.exp(rng.normal(size=4)), np.exp(rng.normal(scale=20, size=(300, 1)))
    plain = balanced_start(rows_of(problem), typical=typical)
    scaled = rows_in(form, problem.omega * column * row, problem.source, None, jobs=1)
    found = balanced_start(scaled, typical=typical) + np.log(column)
    np.testing.assert_allclose(found - found.mean(), plain - plain.mean(), atol=0.3)


def test_a_typical_start_is_that_of_the_medians() -> None:
    """Three images of each source; the sums are led astray by one, the medians are not."""
    log_omega = np.array([[0, 1], [0, 2], [0, 50], [-1, 0], [-2, 0], [-3, 0]], dtype=float)
    rows = rows_in("dense", np.exp(log_omega), np.repeat([0, 1], 3), None, jobs=1)
    typical = balanced_start(rows, typical=True)
    # Three images of log ratio 2 from 0 to 1, three of −2 from 1 to 0: δ₁ − δ₀ = (−2 − 2)/2.
    assert typical[1] - typical[0] == pytest.approx(-2.0, abs=1e-9)
    plain = balanced_start(rows)
    assert plain[1] - plain[0] < -20
