"""Identical rows become counts, in every form of ω; rows that are not identical never do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import unskew
from problems import Blocks, random_problem
from unskew.engine.row_blocks import open_reader
from unskew.solve.collapse import collapse_rows
from unskew.solve.omega_rows import Rows

FORMS = {
    "dense": np.asarray,
    "float32": lambda omega: omega.astype(np.float32),
    "csr": sp.csr_array,
    "streamed": lambda omega: Blocks(omega, 333),
    "streamed csr": lambda omega: Blocks(sp.csr_array(omega), 333),
}


def strata(
    n: int = 5000, n_sources: int = 4, levels: int = 6, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """ω that depends on one of a few levels only, with zeros."""
    rng = np.random.default_rng(seed)
    table = np.round(rng.uniform(0.5, 4, size=(levels, n_sources)), 1) * (
        rng.uniform(size=(levels, n_sources)) > 0.3
    )
    table[0] = 1.0
    level = rng.integers(0, levels, n)
    source = np.array(
        [rng.choice(np.flatnonzero(table[y] > 0)) if table[y].any() else -1 for y in level]
    )
    keep = source >= 0
    return table[level[keep]], source[keep].astype(np.int32)


@pytest.mark.parametrize("form", FORMS)
def test_distinct_pairs_equal_numpy_unique(form: str) -> None:
    omega, source = strata()
    rows = Rows(reader=open_reader(FORMS[form](omega)), source_n=source, n_sources=4)
    collapsed, first_row = collapse_rows(rows)
    assert first_row is not None
    pair, first, inverse, count = np.unique(
        np.column_stack([omega, source]),
        axis=0,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    assert collapsed.n_stored == len(pair)
    assert collapsed.n_rows == source.size
    np.testing.assert_array_equal(np.sort(first_row), np.sort(first))
    np.testing.assert_array_equal(np.sort(collapsed.count_n), np.sort(count))
    np.testing.assert_array_equal(first_row[collapsed.inverse_n], first[inverse.ravel()])
    np.testing.assert_array_equal(collapsed.size_k, rows.size_k)


@pytest.mark.parametrize("form", FORMS)
def test_collapsed_weights_equal_those_of_every_row(form: str) -> None:
    omega, source = strata()
    weights = unskew.debias_weights(FORMS[form](omega), source)
    assert weights.rows.inverse_n is not None
    share = np.bincount(source) / source.size
    np.testing.assert_allclose(
        weights.weight @ omega / weights.normalizer, 1, atol=1e-6 if form == "float32" else 1e-10
    )
    values = omega[:, 0] + np.arange(source.size) % 3
    jittered = omega * (
        1 + 1e-13 * np.random.default_rng(0).uniform(size=(source.size, 1))
    )  # all rows distinct now
    plain = unskew.debias_weights(jittered, source)
    assert plain.rows.inverse_n is None
    np.testing.assert_allclose(
        weights.weight, plain.weight, rtol=1e-6 if form == "float32" else 1e-10
    )
    if form != "float32":
        assert weights.mean(values).stderr == pytest.approx(plain.mean(values).stderr, rel=1e-8)
        np.testing.assert_allclose(weights.covariance(), plain.covariance(), rtol=1e-6, atol=1e-12)
    assert weights.source.size == source.size
    np.testing.assert_allclose(np.bincount(weights.source) / source.size, share)


def test_distinct_rows_are_left_alone() -> None:
    problem = random_problem(0, 2000, 3, zeros=0.1)
    rows = Rows(
        reader=open_reader(problem.omega), source_n=problem.source.astype(np.int32), n_sources=3
    )
    collapsed, first_row = collapse_rows(rows)
    assert collapsed is rows
    assert first_row is None


def test_a_trial_that_promised_too_much_is_given_up() -> None:
    """The rows that the trial looks at repeat, all others differ: the numbering stops at its limit
    and nothing is collapsed.
    """
    problem = random_problem(0, 100_000, 2, zeros=0.0)
    omega = problem.omega.copy()
    omega[np.linspace(0, 99_999, 512).astype(int)] = 1.0
    collapsed, first_row = collapse_rows(
        Rows(reader=open_reader(omega), source_n=problem.source.astype(np.int32), n_sources=2)
    )
    assert first_row is None
    assert collapsed.n_stored == 100_000
