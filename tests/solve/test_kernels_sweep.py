"""The sweeps over the rows of ω, compiled and plain, on part of the rows, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from problems import random_problem
from unskew.solve import kernels_sweep, plain_sweep

TWINS = pytest.mark.parametrize("loops", [kernels_sweep, plain_sweep])

START, STOP = 30, 690  # two full tiles and a part


class Sums:
    """What a sweep is to add, as its conventions say."""

    def __init__(self, n_sources: int, counted: bool, scale: float = 1.0) -> None:
        problem = random_problem(n_sources, 700, n_sources)
        rng = np.random.default_rng(0)
        self.omega, self.source = problem.omega * scale, problem.source.astype(np.int32)
        self.count = rng.integers(1, 5, 700).astype(float) if counted else np.empty(0)
        self.a = np.exp(rng.normal(size=n_sources))
        part = slice(START, STOP)
        omega, count = self.omega[part], self.count[part] if counted else np.ones(STOP - START)
        self.row = omega @ self.a
        self.q = omega / self.row[:, None]  # divided by a_k
        self.value = count @ np.log(self.row)
        own = np.eye(n_sources)[self.source[part]]
        self.flow = (own * count[:, None]).T @ self.q
        self.cross = (self.q * count[:, None]).T @ self.q
        self.root = np.sqrt(count)[:, None] * self.q

    def check(self, found: tuple[float, float, float]) -> None:
        assert found == pytest.approx((self.value, self.row.min(), self.row.max()), rel=1e-11)


@TWINS
@pytest.mark.parametrize("n_sources", [1, 4, 6])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("by_source", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_few_sources(loops, n_sources: int, counted: bool, by_source: bool, scale: float) -> None:
    sums = Sums(n_sources, counted, scale)
    square = (n_sources, n_sources)
    flow, cross = np.ones(square), np.ones(square)
    inverse = np.ones(0 if counted else n_sources + 1)
    sums.check(
        loops.sweep_few(
            sums.omega,
            sums.source,
            sums.count,
            sums.a,
            flow,
            cross,
            inverse,
            True,
            by_source,
            START,
            STOP,
        )
    )
    if by_source:
        np.testing.assert_allclose(flow - 1, sums.flow, rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_allclose(flow[0] - 1, sums.flow.sum(axis=0), rtol=1e-9)
        np.testing.assert_array_equal(flow[1:], 1.0)
    np.testing.assert_allclose(
        np.tril(cross - 1, -1), np.tril(sums.cross, -1), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(np.triu(cross), np.triu(np.ones(square)))
    if not counted:
        expected = 1 + np.append((sums.q / sums.row[:, None]).sum(axis=0), (1 / sums.row).sum())
        np.testing.assert_allclose(inverse, expected, rtol=1e-9)


@TWINS
def test_a_tile_of_one_source_is_added_at_once(loops) -> None:
    sums = Sums(3, counted=False)
    source = np.full(700, 2, dtype=np.int32)
    flow, none = np.zeros((3, 3)), np.empty((0, 0))
    loops.sweep_few(
        sums.omega, source, sums.count, sums.a, flow, none, np.empty(0), False, True, START, STOP
    )
    np.testing.assert_allclose(flow[2], sums.q.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(flow[:2], 0.0)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("flush", [False, True])
def test_many_sources(counted: bool, flush: bool) -> None:
    sums = Sums(9, counted)
    # Beyond 2048 rows partial sums are added up: the same rows, four times.
    times = 4 if flush else 1
    part = slice(START, STOP)
    omega, source = np.tile(sums.omega[part], (times, 1)), np.tile(sums.source[part], times)
    count = np.tile(sums.count[part], times)
    flow, scaled = np.zeros((9, 9)), np.empty(omega.shape)
    value, low, high = kernels_sweep.sweep_many(
        omega, source, count, sums.a, flow, scaled, 0, len(omega)
    )
    sums.check((value / times, low, high))
    np.testing.assert_allclose(flow, times * sums.flow, rtol=1e-12)
    np.testing.assert_allclose(scaled, np.tile(sums.root, (times, 1)), rtol=1e-12)
    again = np.zeros((9, 9))
    kernels_sweep.sweep_many(omega, source, count, sums.a, again, np.empty((0, 0)), 0, len(omega))
    np.testing.assert_array_equal(again, flow)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("with_cross", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e100])
def test_sparse_rows(counted: bool, with_cross: bool, scale: float) -> None:
    sums = Sums(6, counted, scale)
    csr = sp.csr_array(sums.omega)
    flow, cross = np.zeros(36), np.zeros(36)
    sums.check(
        kernels_sweep.sweep_sparse(
            csr.data,
            csr.indices,
            csr.indptr,
            sums.source,
            sums.count,
            sums.a,
            flow,
            cross,
            6,
            0,
            with_cross,
            START,
            STOP,
        )
    )
    np.testing.assert_allclose(flow.reshape(6, 6), sums.flow, rtol=1e-11)
    expected = np.tril(sums.cross, -1) if with_cross else np.zeros((6, 6))
    np.testing.assert_allclose(cross.reshape(6, 6), expected, rtol=1e-11)
