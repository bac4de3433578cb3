"""What each source alone says: closed forms, chains of sources, islands, copies in groups."""

import numpy as np
import pytest

from unskew.records import Floats, Ints
from unskew.weigh.cell_contrasts import contrast_cells
from unskew.weigh.source_contrasts import SourceRows, contrast_memberships


def _nothing(pull_nj: Floats, own_n: Floats, contrast_n: Ints) -> Floats:
    return np.zeros_like(pull_nj)


def _rows(count_ck: Floats, mass_c: Floats, mean_ck: Floats, rng: np.random.Generator):
    """Images with noise that sums to 0 in every cell and source, so that means are exact."""
    cell, source, value = [], [], []
    for (c, k), count in np.ndenumerate(count_ck.astype(int)):
        noise = rng.normal(size=count)
        cell += [c] * count
        source += [k] * count
        value += (mean_ck[c, k] + noise - noise.mean() if count else noise).tolist()
    cell_n = np.array(cell)
    weight_n = (mass_c / count_ck.sum(axis=1))[cell_n]
    rows = SourceRows(
        count_ck.shape[1], np.array(source, dtype=np.int32), weight_n, np.array(value), None
    )
    return rows, cell_n


def test_sources_that_see_everything_have_their_own_post_stratified_mean() -> None:
    rng = np.random.default_rng(0)
    count = np.array([[30, 10, 25], [20, 40, 15]])
    mass, mean = np.array([0.3, 0.7]), rng.normal(size=(2, 3))
    rows, cell = _rows(count, mass, mean, rng)
    contrasts = contrast_cells(rows, cell)
    assert contrasts.y == pytest.approx(mass @ mean, rel=1e-12)
    variance = [
        sum(
            mass[c] ** 2 * rows.value[(cell == c) & (rows.source == k)].var(ddof=1) / count[c, k]
            for c in range(2)
        )
        for k in range(3)
    ]
    assert np.diagonal(contrasts.covariance) == pytest.approx(variance, rel=1e-12)
    # Different sources have no image in common.
    assert contrasts.covariance - np.diag(variance) == pytest.approx(np.zeros((3, 3)), abs=1e-15)
    assert contrasts.share == pytest.approx(np.ones(3))
    assert contrasts.all_shared == pytest.approx(1.0)


def test_sources_that_meet_in_a_chain_are_compared_through_it() -> None:
    rng = np.random.default_rng(1)
    count = np.array([[30, 20, 0], [0, 25, 15], [0, 40, 0]])
    level, delta = np.array([1.0, 3.0, -2.0]), np.array([0.0, 0.5, -0.25])
    mass = np.array([0.4, 0.4, 0.2])
    rows, cell = _rows(count, mass, level[:, None] + delta, rng)
    contrasts = contrast_cells(rows, cell)
    assert contrasts.y - contrasts.y[0] == pytest.approx(delta, abs=1e-10)
    # What differs by source adds up to the mean of all.
    share = np.array([rows.weight[rows.source == k].sum() for k in range(3)])
    assert share @ contrasts.y == pytest.approx(rows.weight @ rows.value, abs=1e-10)
    assert contrasts.all_shared == pytest.approx(0.8)
    assert contrasts.shared == pytest.approx([0.4, 0.8, 0.4])


def test_strata_of_one_source_each_leave_nothing_to_compare() -> None:
    rows, cell = _rows(
        np.array([[30, 0], [0, 25]]),
        np.array([0.5, 0.5]),
        np.ones((2, 2)),
        np.random.default_rng(0),
    )
    contrasts = contrast_cells(rows, cell)
    assert contrasts.compared.size == 0
    assert contrasts.all_shared == 0.0
    smooth = contrast_memberships(
        rows, np.eye(2)[rows.source], _nothing, np.zeros(cell.size, dtype=np.int64)
    )
    assert smooth.compared.size == 0


def test_an_island_is_left_out() -> None:
    count = np.array([[30, 20, 0], [0, 0, 15]])
    rows, cell = _rows(count, np.array([0.6, 0.4]), np.zeros((2, 3)), np.random.default_rng(2))
    assert contrast_cells(rows, cell).compared.tolist() == [0, 1]


def test_equal_memberships_give_what_cells_give() -> None:
    """With one q for all images the cells are one, and u has nothing to estimate."""
    rng = np.random.default_rng(4)
    rows, cell = _rows(np.array([[40, 60, 80]]), np.ones(1), np.array([[0.1, 0.4, 0.2]]), rng)
    q = np.tile([40 / 180, 60 / 180, 80 / 180], (180, 1))
    smooth = contrast_memberships(rows, q, _nothing, cell)
    exact = contrast_cells(rows, cell)
    assert smooth.y == pytest.approx(exact.y, rel=1e-12)
    assert smooth.covariance == pytest.approx(exact.covariance, rel=1e-9, abs=1e-15)


def test_copies_within_a_group_change_no_error() -> None:
    rng = np.random.default_rng(5)
    rows, cell = _rows(np.array([[20, 30], [25, 15]]), np.array([0.5, 0.5]), np.zeros((2, 2)), rng)
    alone = contrast_cells(rows, cell)
    twice = SourceRows(
        2,
        np.repeat(rows.source, 2),
        np.repeat(rows.weight, 2) / 2,
        np.repeat(rows.value, 2),
        np.repeat(np.arange(cell.size), 2),
    )
    grouped = contrast_cells(twice, np.repeat(cell, 2))
    assert grouped.y == pytest.approx(alone.y, rel=1e-12)
    assert grouped.covariance == pytest.approx(alone.covariance, rel=1e-9)
    assert grouped.freedom == pytest.approx(alone.freedom, rel=1e-9)


def test_a_single_image_of_a_source_in_a_cell_is_not_compared_there() -> None:
    rng = np.random.default_rng(6)
    count = np.array([[20, 30], [25, 1]])
    rows, cell = _rows(count, np.array([0.5, 0.5]), np.zeros((2, 2)), rng)
    contrasts = contrast_cells(rows, cell)
    assert contrasts.share[1] == pytest.approx(0.5)
    assert (np.diagonal(contrasts.covariance) > 0).all()


def test_a_source_of_two_images_takes_the_spread_of_all() -> None:
    rng = np.random.default_rng(6)
    value = np.append(rng.normal(size=200), [0.5, 0.501])
    source = np.repeat([0, 1], [200, 2]).astype(np.int32)
    weight = np.full(202, 1 / 202)
    chance = np.full(202, 0.01) + 0.001 * rng.random(202)
    contrasts = contrast_memberships(
        SourceRows(2, source, weight, value, None),
        np.column_stack([1 - chance, chance]),
        _nothing,
        np.zeros(202, dtype=np.int64),
    )
    # Two independent images of standard deviation 1: a variance of 1/2. Four of five degrees of
    # freedom are those of all.
    assert contrasts.covariance[1, 1] == pytest.approx(0.8 * value.var() / 2, rel=0.1)
    assert contrasts.freedom[1] == pytest.approx(5.0, rel=0.1)
