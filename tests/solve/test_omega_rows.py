"""The rows of ω as the solver reads them: scales, counts, sums and memberships against NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import unskew
from problems import FORMS, Blocks, random_problem, rows_of
from raising import refused
from solver_rows import rows_in
from unskew.engine.row_blocks import open_reader
from unskew.scenarios import tilts
from unskew.solve.omega_rows import Rows, scaled_block

GOOD = random_problem(0, 90, 3, zeros=0.2)


def test_blocks_that_change_length_are_detected() -> None:
    class Shrinking:
        passes = 0

        def __iter__(self) -> Iterator[np.ndarray]:
            type(self).passes += 1
            yield GOOD.omega[:50]
            yield GOOD.omega[50 : 90 if type(self).passes < 5 else 80]

    with refused(unskew.DataError, count=80, limit=90):
        unskew.solve_normalizers(Shrinking(), GOOD.source)


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
@pytest.mark.parametrize("by", ["rows", "columns", "both"])
@pytest.mark.parametrize("streamed", [False, True])
def test_extreme_scales_change_nothing(by: str, streamed: bool) -> None:
    scenario = tilts(300, n_sources=3, dim=2, rng=0)
    rng = np.random.default_rng(0)
    n = scenario.source.size
    row = rng.uniform(-300, 300, n) * np.log(10) if by != "columns" else np.zeros(n)
    column = np.array([-300, 0, 300]) * np.log(10) if by != "rows" else np.zeros(3)
    log_omega = scenario.log_omega + row[:, None] + column
    plain = unskew.debias_weights(scenario.log_omega - 0 * row[:, None], scenario.source, log=True)
    omega = log_omega if not streamed else Blocks(log_omega, 50)
    scaled = unskew.debias_weights(omega, scenario.source, log=True)
    log_ratio = np.log(plain.weight) - row
    visible = (scaled.weight > 1e-250) & (log_ratio > log_ratio.max() - 500)
    difference = np.log(scaled.weight[visible]) - log_ratio[visible]
    assert np.ptp(difference) < 1e-9
    expected = plain.solution.log_normalizer
    if by == "columns":
        np.testing.assert_allclose(scaled.solution.log_normalizer - column, expected, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("constant", [0.0, 1000.0, -1000.0])
def test_row_sums_and_memberships_are_those_of_numpy(form: str, constant: float) -> None:
    u = np.array([0.3, -1.0, 2.0]) + constant
    with np.errstate(divide="ignore"):
        logit = np.log(GOOD.omega) + u
    total = logsumexp(logit, axis=1)
    rows = rows_in(form, GOOD.omega, GOOD.source, None, jobs=2)
    sum_n, scale_n = rows.row_sums(u)
    np.testing.assert_allclose(
        np.log(sum_n) + (0.0 if scale_n is None else scale_n), total, atol=1e-12
    )
    q = np.empty((90, 3))
    for at, block in rows.memberships(u):
        q[at] = block.toarray() if sp.issparse(block) else block
    np.testing.assert_allclose(q, np.exp(logit - total[:, None]), atol=1e-13)


def test_memberships_of_collapsed_rows_are_given_for_every_image() -> None:
    inverse = np.array([0, 1, 1, 2, 0], dtype=np.int32)
    rows = Rows(
        reader=open_reader(GOOD.omega[:3]),
        source_n=GOOD.source[:3].astype(np.int32),
        n_sources=3,
        inverse_n=inverse,
    ).with_counts(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (rows.n_stored, rows.n_rows) == (3, 5)
    np.testing.assert_array_equal(rows.count_n, [6.0, 5.0, 4.0])
    q = GOOD.omega[:3] / GOOD.omega[:3].sum(axis=1, keepdims=True)
    found = np.concatenate([block for _, block in rows.memberships(np.zeros(3))])
    np.testing.assert_allclose(found, q[inverse], rtol=1e-14)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("log", [False, True])
def test_a_scaled_block_has_row_maxima_of_one_and_gives_omega_back(form, log: bool) -> None:
    reference = np.array([500.0, -500.0, 0.0])
    given = form(GOOD.omega)
    if log and sp.issparse(given):
        given.data = np.log(given.data)
    elif log:
        with np.errstate(divide="ignore"):
            given = np.log(given)
    scaled, scale_n = scaled_block(given, reference, log=log)
    scaled = scaled.toarray() if sp.issparse(scaled) else scaled
    np.testing.assert_array_equal(scaled.max(axis=1), 1.0)
    with np.errstate(divide="ignore"):
        expected = np.log(GOOD.omega) + reference - scale_n[:, None]
        np.testing.assert_allclose(np.log(scaled)[scaled > 0], expected[scaled > 0], atol=1e-9)
    assert np.all(expected[(scaled == 0) & (GOOD.omega > 0)] < -700)  # below double precision


def test_rescaling_is_undone_wherever_it_matters() -> None:
    rows, u = rows_of(GOOD), np.array([0.3, -1.0, 2.0])
    scaled = rows.rescaled(np.array([40.0, -40.0, 3.0]))
    again = scaled.rescaled(np.array([-7.0, 2.0, 0.0]))  # from the origin, not on top
    plain, _ = rows.row_sums(u)
    for other in (scaled, again):
        sum_n, scale_n = other.row_sums(u)
        np.testing.assert_allclose(np.log(sum_n) + scale_n, np.log(plain), atol=1e-12)
        assert other.unscaled is rows
        a_k, top = other.scaled_coefficients(u)
        assert a_k.max() == 1.0
        np.testing.assert_allclose(np.log(a_k) + top, np.log(other.coefficients(u)), atol=1e-12)
        assert other.coefficients(other.centred(u)).max() == pytest.approx(1.0)
        assert np.ptp(other.centred(u) - u) == pytest.approx(0.0, abs=1e-12)


def test_counts_reach_the_rows_behind_the_scaling() -> None:
    count = np.arange(90.0)
    rows = rows_of(GOOD).rescaled(np.zeros(3)).with_counts(count)
    np.testing.assert_array_equal(rows.unscaled.count_n, count)
    np.testing.assert_array_equal(rows.size_k, np.bincount(GOOD.source, weights=count))


@pytest.mark.parametrize("width", [2, 30])
def test_the_band_is_the_widest_row_where_it_is_narrow(width: int) -> None:
    omega = np.zeros((40, 40))
    for i in range(40):
        omega[i, max(0, i - 1) : i + 2] = 1.0
    omega[0, width] = 1.0
    rows = rows_in("csr", omega, np.arange(40), None, jobs=1)
    assert rows.band == (2 if width == 2 else 40)
    assert rows.n_pairs == np.sum(np.count_nonzero(omega, axis=1) ** 2)
    size, stride, shift = rows.band_storage
    at = {k * stride + shift + j for k in range(40) for j in range(40) if abs(k - j) <= rows.band}
    inside = sum(abs(k - j) <= rows.band for k in range(40) for j in range(40))
    assert len(at) == inside  # no two pairs share a place
    assert min(at) >= 0
    assert max(at) < size
    assert rows_in("dense", omega, np.arange(40), None, jobs=1).band == 40
