"""One pass over ω: what it counts against plain NumPy, and what it refuses by row and source."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import unskew
from problems import FORMS, Blocks, random_problem
from raising import refused
from solver_rows import rows_in
from unskew.solve.inspection import common_positive, inspect_cells, inspect_rows, link_counts

GOOD = random_problem(0, 90, 3, zeros=0.2)
NAMES = np.array(["attic", "barn", "cellar"])


def changed(row: int, column: int, value: float) -> np.ndarray:
    omega = GOOD.omega.copy()
    omega[row, column] = value
    return omega


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Blocks])
@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf])
def test_an_impossible_entry_is_named(form, value: float) -> None:
    with refused(unskew.DataError, row=17, source="barn") as caught:
        unskew.solve_normalizers(form(changed(17, 1, value)), NAMES[GOOD.source])
    assert f"image 17 has {value!r} for source `barn`" in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_an_impossible_logarithm_is_named(form, value: float) -> None:
    with np.errstate(divide="ignore"):
        omega = form(np.log(changed(17, 1, 2.0)))
    omega[17, 1] = value
    with refused(unskew.DataError, row=17, source="barn"):
        unskew.solve_normalizers(omega, NAMES[GOOD.source], log=True)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Blocks, np.asfortranarray])
def test_a_row_of_zeros_is_named(form) -> None:
    omega = GOOD.omega.copy()
    omega[23] = 0
    with refused(unskew.DataError, row=23):
        unskew.check_overlap(form(omega), GOOD.source)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Blocks])
def test_a_row_that_is_zero_in_its_own_source_is_named(form) -> None:
    row = int(np.flatnonzero((GOOD.source == 1) & (GOOD.omega[:, 2] > 0))[0])
    with refused(unskew.DataError, row=row, source="barn"):
        unskew.solve_normalizers(form(changed(row, 1, 0.0)), NAMES[GOOD.source])


def test_rows_are_named_by_image_after_collapsing() -> None:
    omega = np.tile([[1.0, 1.0], [1.0, 0.0]], (200, 1))
    omega[101] = [0.0, 1.0]
    with refused(unskew.DataError, row=101, source="day"):
        unskew.solve_normalizers(
            omega, np.tile(["night", "day"], 200), names=["night", "day"][::-1]
        )


def test_many_sources_with_zeros_count_common_images_by_products() -> None:
    problem = random_problem(6, 300, 70, zeros=0.5)
    overlap = unskew.check_overlap(problem.omega, problem.source)
    positive = (problem.omega > 0).astype(float)
    np.testing.assert_allclose(overlap.common_mass, positive.T @ positive / 300, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_sources", [3, 12, 70])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_extremes_links_and_common_images_are_those_of_numpy(form, n_sources, zeros) -> None:
    problem = random_problem(n_sources, 200, n_sources, zeros=zeros)
    count = np.random.default_rng(0).integers(1, 4, 200).astype(float)
    positive = (problem.omega > 0).astype(float)
    own = np.eye(n_sources)[problem.source]
    rows = rows_in(form, problem.omega, problem.source, count, jobs=2).unscaled
    found = inspect_rows(rows, [str(k) for k in range(n_sources)])
    low = np.where(problem.omega > 0, problem.omega, np.inf).min(axis=0)
    high = problem.omega.max(axis=0)
    np.testing.assert_array_equal(found.size_k, count @ own)
    np.testing.assert_array_equal(found.link_kl, (positive * count[:, None]).T @ own)
    np.testing.assert_array_equal(found.common_kk, (positive * count[:, None]).T @ positive)
    np.testing.assert_allclose(found.log_low_k, np.log(low), atol=1e-14)
    np.testing.assert_allclose(found.log_high_k, np.log(high), atol=1e-14)
    assert found.epsilon == pytest.approx(np.min(low / high), rel=1e-12)
    np.testing.assert_array_equal(link_counts(rows), found.link_kl)
    weight = np.random.default_rng(1).uniform(size=200)
    np.testing.assert_allclose(
        common_positive(rows, weight), (positive * weight[:, None]).T @ positive, rtol=1e-12
    )


def test_thousands_of_sources_are_counted_sparsely() -> None:
    problem = random_problem(1, 2500, 2100, zeros=0.998)
    rows = rows_in("csr", problem.omega, problem.source, None, jobs=1)
    found = inspect_rows(rows, [str(k) for k in range(2100)])
    positive = sp.csr_array((problem.omega > 0).astype(float))
    own = sp.csr_array((np.ones(2500), problem.source, np.arange(2501)), shape=(2500, 2100))
    assert sp.issparse(found.link_kl)
    assert abs(found.link_kl - positive.T @ own).max() == 0
    assert abs(found.common_kk - positive.T @ positive).max() == 0


def test_a_sum_that_overflows_is_no_reason_to_refuse() -> None:
    omega = np.full((4, 2), 1e308)
    found = inspect_rows(rows_in("dense", omega, np.array([0, 0, 1, 1]), None, jobs=1), ["a", "b"])
    np.testing.assert_allclose(found.log_high_k, np.log(1e308))


def test_cells_tell_what_their_images_do() -> None:
    rng = np.random.default_rng(3)
    count_ck = rng.integers(0, 3, (12, 4))
    log_ck = np.where(count_ck > 0, rng.normal(size=(12, 4)), -np.inf)
    cell, source = np.nonzero(count_ck)
    times = count_ck[cell, source]
    omega = np.exp(np.repeat(log_ck[cell], times, axis=0))
    rows = rows_in("dense", omega, np.repeat(source, times), None, jobs=1)
    by_row, by_cell = inspect_rows(rows, list("abcd")), inspect_cells(log_ck, count_ck)
    for name in ("size_k", "link_kl", "common_kk"):
        np.testing.assert_array_equal(getattr(by_cell, name), getattr(by_row, name))
    np.testing.assert_allclose(by_cell.log_low_k, by_row.log_low_k, rtol=1e-12)
    np.testing.assert_allclose(by_cell.log_high_k, by_row.log_high_k, rtol=1e-12)
