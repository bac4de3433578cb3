"""Sources compared within cells: sources may agree on average and differ in every cell."""

import numpy as np
import pytest

from unskew.weigh.cell_contrasts import contrast_cells
from unskew.weigh.source_contrasts import SourceRows


def _world(
    rng: np.random.Generator, delta_ck: np.ndarray, n: int, binary: bool
) -> tuple[SourceRows, np.ndarray]:
    """n images in every cell of every source, all cells of equal mass."""
    n_cells, n_sources = delta_ck.shape
    cell = np.tile(np.repeat(np.arange(n_cells), n), n_sources)
    source = np.repeat(np.arange(n_sources), n * n_cells).astype(np.int32)
    level = 0.3 + delta_ck[cell, source]
    value = (
        (rng.random(cell.size) < level).astype(float)
        if binary
        else level + rng.normal(size=cell.size)
    )
    weight = np.full(cell.size, 1.0 / cell.size)
    return SourceRows(n_sources, source, weight, value, None), cell


@pytest.mark.parametrize("binary", [False, True])
def test_q_within_cells_is_chi_squared_where_sources_agree(binary: bool) -> None:
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(200):
        within = contrast_cells(*_world(rng, np.zeros((6, 3)), 60, binary)).within
        assert within is not None
        seen.append(within.q)
    assert within.freedom == 12
    # The mean of 200 has an error of √(2·12/200) = 0.35; estimated variances add 1/60 of 12.
    assert np.mean(seen) == pytest.approx(12.2, abs=1.1)
    assert np.var(seen) == pytest.approx(24.0, rel=0.4)


def test_differences_that_cancel_are_seen_within_cells() -> None:
    rng = np.random.default_rng(1)
    delta = np.array([[0.1, -0.1], [-0.1, 0.1], [0.1, -0.1], [-0.1, 0.1]])
    contrasts = contrast_cells(*_world(rng, delta, 4000, True))
    assert abs(contrasts.y[0] - contrasts.y[1]) < 0.02
    assert contrasts.within is not None
    # The two sources of a cell are ±0.1/(0.3 · 0.7) apart on the logit scale: sd √2 of that.
    assert contrasts.within.sd == pytest.approx(np.sqrt(2) * 0.1 / 0.21, rel=0.1)


def test_cells_with_few_images_and_single_cells_are_not_looked_into() -> None:
    rng = np.random.default_rng(2)
    assert contrast_cells(*_world(rng, np.zeros((6, 3)), 20, False)).within is None
    assert contrast_cells(*_world(rng, np.zeros((1, 3)), 200, False)).within is None


def test_values_of_zero_and_one_have_the_variance_of_the_pooled_share() -> None:
    rows, cell = _world(np.random.default_rng(3), np.zeros((1, 2)), 500, True)
    contrasts = contrast_cells(rows, cell)
    share = rows.value.mean()
    assert contrasts.null_covariance is not None
    assert np.diagonal(contrasts.null_covariance) == pytest.approx(
        np.full(2, share * (1 - share) / 500), rel=1e-12
    )
    numbers, cell = _world(np.random.default_rng(3), np.zeros((1, 2)), 500, False)
    assert contrast_cells(numbers, cell).null_covariance is None


@pytest.mark.parametrize("in_groups", [False, True])
def test_two_images_that_are_alike_by_chance_do_not_make_a_source_certain(in_groups: bool) -> None:
    value = np.append(np.random.default_rng(4).normal(size=100), [0.5, 0.501])
    source = np.repeat([0, 1], [100, 2]).astype(np.int32)
    unit = np.arange(102) if in_groups else None
    rows = SourceRows(2, source, np.full(102, 1 / 102), value, unit)
    contrasts = contrast_cells(rows, np.zeros(102, dtype=np.int64))
    # One degree of freedom of its own, four of the images together.
    spread = (0.001**2 / 2 + 4 * np.average([value[:100].var(ddof=1), 0.0], weights=[99, 1])) / 5
    assert contrasts.covariance[1, 1] == pytest.approx(spread / 2, rel=0.01)
    assert contrasts.freedom[1] == pytest.approx(5.0, rel=0.01)
