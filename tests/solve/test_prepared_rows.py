"""Bad input gets an error of ours that names the culprit; odd but good input works."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import unskew
from problems import Blocks, Problem, random_problem
from raising import refused

GOOD = random_problem(0, 90, 3, zeros=0.2)
NAMES = np.array(["attic", "barn", "cellar"])


@pytest.mark.parametrize("omega", [np.empty((0, 2)), sp.csr_array((0, 2)), []])
def test_no_rows(omega) -> None:
    with pytest.raises(unskew.DataError, match="not a single image"):
        unskew.solve_normalizers(omega, np.empty(0, dtype=int))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Blocks])
def test_source_of_the_wrong_length(form) -> None:
    with refused(unskew.DataError, count=89, limit=90):
        unskew.solve_normalizers(form(GOOD.omega), GOOD.source[:-1])


def test_one_dimensional_and_non_numeric_omega() -> None:
    with refused(unskew.DataError, option="omega", value=[4]):
        unskew.solve_normalizers(np.ones(4), [0, 0, 0, 0])
    with refused(unskew.DataError, option="omega", value="<U1"):
        unskew.solve_normalizers(np.array([["x", "y"]]), [0])
    with refused(unskew.DataError, option="omega", value="float"):
        unskew.solve_normalizers(3.0, [0])


@pytest.mark.parametrize(
    "options",
    [{"method": "magic"}, {"tol": 0}, {"tol": 2}, {"max_steps": 0}, {"jobs": 0}, {"start": [0.0]}],
    ids=lambda o: next(iter(o)),
)
def test_impossible_options(options) -> None:
    with refused(unskew.ConfigError, option=next(iter(options))):
        unskew.solve_normalizers(GOOD.omega, GOOD.source, **options)


def test_a_generator_is_refused() -> None:
    with pytest.raises(unskew.DataError, match="only once"):
        unskew.solve_normalizers((block for block in [GOOD.omega]), GOOD.source)


def test_blocks_with_different_columns_are_refused() -> None:
    with refused(unskew.DataError, value=1, count=2, limit=3):
        unskew.solve_normalizers([GOOD.omega[:50], GOOD.omega[50:, :2]], GOOD.source)


EXACT = unskew.solve_normalizers(GOOD.omega, GOOD.source)
INTEGER = Problem(np.ceil(3 * GOOD.omega).clip(0, 100), GOOD.source)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, np.longdouble, np.int8, np.uint8, np.int64]
)
def test_every_number_type_works(dtype) -> None:
    exact = unskew.solve_normalizers(INTEGER.omega, INTEGER.source)
    given = INTEGER.omega.astype(dtype)
    assert np.array_equal(given.astype(float), INTEGER.omega)
    np.testing.assert_allclose(
        unskew.solve_normalizers(given, INTEGER.source).log_normalizer,
        exact.log_normalizer,
        atol=1e-12,
    )


def test_boolean_omega_works() -> None:
    exact = unskew.solve_normalizers((GOOD.omega > 0).astype(float), GOOD.source)
    np.testing.assert_allclose(
        unskew.solve_normalizers(GOOD.omega > 0, GOOD.source).log_normalizer,
        exact.log_normalizer,
        atol=1e-12,
    )


def read_only(omega: np.ndarray) -> np.ndarray:
    omega = omega.copy()
    omega.flags.writeable = False
    return omega


def unsorted_csr(omega: np.ndarray) -> sp.csr_array:
    """Columns in reverse order within each row, with explicit zeros."""
    n, n_sources = omega.shape
    columns = np.tile(np.arange(n_sources)[::-1], n)
    return sp.csr_array(
        (omega[:, ::-1].ravel(), columns, np.arange(0, n * n_sources + 1, n_sources)),
        shape=omega.shape,
    )


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda omega: np.repeat(omega, 2, axis=0)[::2],
        lambda omega: np.hstack([omega, omega])[:, :3],
        lambda omega: omega[::-1][::-1],
        lambda omega: omega.astype(">f8"),
        read_only,
        pd.DataFrame,
        unsorted_csr,
        sp.coo_array,
        sp.csc_matrix,
        lambda omega: omega.tolist(),
        lambda omega: [omega[:40], sp.csr_array(omega[40:])],
    ],
)
def test_every_layout_works(form) -> None:
    before = GOOD.omega.copy()
    solution = unskew.solve_normalizers(form(GOOD.omega), GOOD.source)
    np.testing.assert_allclose(solution.log_normalizer, EXACT.log_normalizer, atol=1e-12)
    assert np.array_equal(before, GOOD.omega)


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_names_come_from_the_columns_of_a_frame_in_any_order() -> None:
    frame = pd.DataFrame(GOOD.omega, columns=NAMES, index=[f"img{i}" for i in range(90)])
    weights = unskew.debias_weights(
        frame[["cellar", "attic", "barn"]], pd.Series(NAMES[GOOD.source])
    )
    assert weights.names == ("cellar", "attic", "barn")
    np.testing.assert_allclose(
        weights.solution.log_normalizer[[1, 2, 0]], EXACT.log_normalizer, atol=1e-12
    )
    assert weights.id[3] == "img3"


def test_files_are_read_in_blocks(tmp_path) -> None:
    np.save(tmp_path / "omega.npy", GOOD.omega)
    frame = pd.DataFrame(GOOD.omega, columns=NAMES)
    frame.to_parquet(tmp_path / "omega.parquet", row_group_size=20)
    for path in (tmp_path / "omega.npy", str(tmp_path / "omega.parquet")):
        solution = unskew.solve_normalizers(path, GOOD.source)
        np.testing.assert_allclose(solution.log_normalizer, EXACT.log_normalizer, atol=1e-12)
    with refused(unskew.DataError, path=str(tmp_path / "nowhere.npy")):
        unskew.solve_normalizers(tmp_path / "nowhere.npy", GOOD.source)
    (tmp_path / "omega.txt").write_text("1 2")
    with refused(unskew.DataError, path=str(tmp_path / "omega.txt")):
        unskew.solve_normalizers(tmp_path / "omega.txt", GOOD.source)
