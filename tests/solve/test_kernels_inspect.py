"""The looks at ω before it is solved, compiled and plain, on part of the rows, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from problems import random_problem
from unskew.solve import kernels_inspect, plain_inspect

TWINS = pytest.mark.parametrize("loops", [kernels_inspect, plain_inspect])


@TWINS
@pytest.mark.parametrize("n_sources", [1, 4, 7])
@pytest.mark.parametrize("above", [-np.inf, 0.0])
def test_extremes_of_columns_are_those_of_numpy(loops, n_sources: int, above: float) -> None:
    omega = random_problem(n_sources, 700, n_sources, zeros=0.3).omega
    low, high = np.full(n_sources, np.inf), np.full(n_sources, -np.inf)
    total = loops.column_extremes(omega, above, low, high, 20, 690)
    part = omega[20:690]
    np.testing.assert_array_equal(low, np.where(part > above, part, np.inf).min(axis=0))
    np.testing.assert_array_equal(high, part.max(axis=0))
    assert total == pytest.approx(part.sum(), rel=1e-12)


@TWINS
@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("column", range(5))
def test_one_entry_that_is_not_finite_shows_in_the_sum(loops, odd: float, column: int) -> None:
    omega = np.ones((300, 5))
    omega[277, column] = odd
    low, high = np.full(5, np.inf), np.full(5, -np.inf)
    assert not np.isfinite(loops.column_extremes(omega, 0.0, low, high, 0, 300))


@TWINS
@pytest.mark.parametrize("n_sources", [3, 12])  # by patterns, and row by row
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("zero", [0.0, -np.inf])
def test_links_and_common_mass_are_those_of_numpy(loops, n_sources, counted, pairs, zero) -> None:
    problem = random_problem(n_sources, 200, n_sources, zeros=0.5)
    with np.errstate(divide="ignore"):
        omega = problem.omega if zero == 0.0 else np.log(problem.omega)
    count = np.random.default_rng(0).integers(1, 5, 200).astype(float)
    link = np.zeros((n_sources, n_sources))
    common = np.zeros((n_sources, n_sources) if pairs else (0, 0))
    source = problem.source.astype(np.int32)
    given = count if counted else np.empty(0)
    found = loops.inspect_zeros(omega, zero, source, given, link, common, 10, 190)
    assert found == (-1, 0)
    positive = (problem.omega > 0)[10:190].astype(float)
    weighted = positive * (count[10:190, None] if counted else 1.0)
    np.testing.assert_array_equal(link, weighted.T @ np.eye(n_sources)[source[10:190]])
    if pairs:
        np.testing.assert_array_equal(common, np.tril(weighted.T @ positive))


@TWINS
@pytest.mark.parametrize("n_sources", [3, 12])
@pytest.mark.parametrize(("row", "code"), [([0.0, 0.0, 0.0], 1), ([0.0, 1.0, 1.0], 2)])
def test_a_row_that_its_source_cannot_have_produced_is_found(loops, n_sources, row, code) -> None:
    omega = np.ones((20, n_sources))
    omega[13] = 0.0
    omega[13, :3] = row
    source, no_counts = np.zeros(20, dtype=np.int32), np.empty(0)
    square = (n_sources, n_sources)
    assert loops.inspect_zeros(
        omega, 0.0, source, no_counts, np.zeros(square), np.zeros(square), 0, 20
    ) == (13, code)
    csr = sp.csr_array(omega)
    assert inspect_csr(csr, source, no_counts)[0] == (13, code)


def inspect_csr(csr: sp.csr_array, source: np.ndarray, count: np.ndarray):
    n_sources = csr.shape[1]
    low, high = np.full(n_sources, np.inf), np.zeros(n_sources)
    link, common = np.zeros(n_sources**2), np.zeros(n_sources**2)
    found = kernels_inspect.inspect_sparse(
        csr.data,
        csr.indices,
        csr.indptr,
        source,
        count,
        low,
        high,
        link,
        common,
        n_sources,
        0,
        0,
        csr.shape[0],
    )
    return found, low, high, link.reshape(n_sources, -1), common.reshape(n_sources, -1)


@pytest.mark.parametrize("counted", [False, True])
def test_sparse_rows_are_inspected_as_dense_ones_are(counted: bool) -> None:
    problem = random_problem(2, 200, 9, zeros=0.6)
    csr = sp.csr_array(problem.omega)
    csr.data[csr.data > 4] = 0.0  # zeros that are stored
    keep = csr.toarray()[np.arange(200), problem.source] > 0
    csr, source = csr[keep], problem.source[keep].astype(np.int32)
    count = np.random.default_rng(0).integers(1, 5, source.size).astype(float)
    given = count if counted else np.empty(0)
    found, low, high, link, common = inspect_csr(csr, source, given)
    assert found == (-1, 0)
    omega = csr.toarray()
    positive = (omega > 0).astype(float)
    weighted = positive * (count[:, None] if counted else 1.0)
    np.testing.assert_array_equal(low, np.where(omega > 0, omega, np.inf).min(axis=0))
    np.testing.assert_array_equal(high, omega.max(axis=0))
    np.testing.assert_array_equal(link, weighted.T @ np.eye(9)[source])
    np.testing.assert_array_equal(np.tril(common), np.tril(weighted.T @ positive))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1.0])
def test_a_stored_entry_that_is_no_probability_is_found(odd: float) -> None:
    csr = sp.csr_array(np.ones((20, 3)))
    csr.data[3 * 11 + 2] = odd
    assert inspect_csr(csr, np.zeros(20, dtype=np.int32), np.empty(0))[0] == (11, 3)


@TWINS
@pytest.mark.parametrize("sparse", [False, True])
def test_distinct_pairs_are_numbered_by_first_appearance(loops, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    omega = rng.integers(1, 3, (600, 5)).astype(float)
    source = rng.integers(0, 2, 600).astype(np.int32)
    pair = np.column_stack([omega, source])
    _, first, inverse, count = np.unique(
        pair, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)

    def number(limit: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        csr = sp.csr_array(omega)
        rows = (csr.data, csr.indices, csr.indptr) if sparse else (omega,)
        kernel = loops.collapse_sparse if sparse else loops.collapse_dense
        first_row, count_d = np.zeros(limit, dtype=np.int64), np.zeros(limit)
        key_d, inverse_n = np.zeros(limit, dtype=np.uint64), np.zeros(600, dtype=np.int32)
        table = np.full(256, -1, dtype=np.int64)
        factor_k = np.random.default_rng(1).uniform(1, 2, 5)
        n_pairs = kernel(
            *rows, source, factor_k, table, first_row, key_d, count_d, inverse_n, limit
        )
        return n_pairs, first_row, count_d, inverse_n

    n_pairs, first_row, count_d, inverse_n = number(first.size)
    assert n_pairs == first.size
    np.testing.assert_array_equal(first_row, first[order])
    np.testing.assert_array_equal(count_d, count[order])
    np.testing.assert_array_equal(inverse_n, np.argsort(order)[inverse.ravel()])
    assert number(first.size - 1)[0] == -1  # one too many


@TWINS
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_share_a_key_are_never_taken_for_one_another(loops, sparse: bool) -> None:
    """With equal factors (1, 2) and (2, 1) have the same key."""
    omega = np.array([[1.0, 2.0], [2.0, 1.0]])
    csr = sp.csr_array(omega)
    rows = (csr.data, csr.indices, csr.indptr) if sparse else (omega,)
    kernel = loops.collapse_sparse if sparse else loops.collapse_dense
    assert (
        kernel(
            *rows,
            np.zeros(2, dtype=np.int32),
            np.ones(2),
            np.full(8, -1, dtype=np.int64),
            np.zeros(2, dtype=np.int64),
            np.zeros(2, dtype=np.uint64),
            np.zeros(2),
            np.zeros(2, dtype=np.int32),
            2,
        )
        == -1
    )


@TWINS
def test_a_systematic_sample_takes_every_so_manieth_of_each_source(loops) -> None:
    source = np.array([0, 1, 0, 1, 0, 1, 0, 0, 0], dtype=np.int32)
    chosen = np.full(9, -1)
    taken = loops.choose_stratified(source, np.array([2.0, 3.0]), np.array([1.0, 0.0]), chosen)
    # Of source 0 (rows 0 2 4 6 7 8) the second, fourth and sixth; of source 1 (1 3 5) the first.
    assert chosen[:taken].tolist() == [1, 2, 6, 8]
    few = np.full(2, -1)
    assert loops.choose_stratified(source, np.ones(2), np.zeros(2), few) == 2
