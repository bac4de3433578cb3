"""The door of the stage: weights at any scale, verdict on the weights themselves, groups, ids and
files.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import unskew
from problems import Blocks, random_problem
from raising import refused
from unskew.errors import WeakOverlapWarning
from unskew.scenarios import tilts

DRAW = tilts([300, 200, 100], theta=[[0.2], [0.6], [-0.5]], rng=1)


@pytest.mark.parametrize("offset", [-5000.0, -800.0, -300.0, 300.0, 720.0, 5000.0])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Blocks])
def test_a_common_factor_changes_no_weight_and_no_error(form, offset: float) -> None:
    plain = unskew.debias_weights(DRAW.log_omega, DRAW.source, log=True)
    shifted = unskew.debias_weights(form(DRAW.log_omega + offset), DRAW.source, log=True)
    values = DRAW.features[:, 0]
    np.testing.assert_allclose(shifted.weight, plain.weight, rtol=1e-9)
    np.testing.assert_allclose(
        shifted.solution.log_normalizer - offset, plain.solution.log_normalizer, atol=1e-9
    )
    assert shifted.mean(values).stderr == pytest.approx(plain.mean(values).stderr, rel=1e-8)
    np.testing.assert_allclose(shifted.covariance(), plain.covariance(), rtol=1e-6, atol=1e-12)
    replicates = shifted.bootstrap(3, rng=0, values=values)
    np.testing.assert_allclose(
        replicates.mean, plain.bootstrap(3, rng=0, values=values).mean, rtol=1e-8
    )


def test_denormal_omega_has_weights() -> None:
    problem = random_problem(0, 200, 2, zeros=0.0)
    plain = unskew.debias_weights(problem.omega, problem.source)
    tiny = unskew.debias_weights(problem.omega * 1e-300 * 1e-5, problem.source)
    np.testing.assert_allclose(tiny.weight, plain.weight, rtol=1e-9)


def test_weights_that_rest_on_two_images_are_called_weak() -> None:
    far = tilts(3000, theta=[[6.0], [6.2]], rng=0)
    with pytest.warns(WeakOverlapWarning, match="effective sample size"):
        weights = unskew.debias_weights(far.omega, far.source)
    assert weights.overlap.verdict == "weak"
    assert weights.overlap.heaviest > weights.overlap.thresholds["heaviest"]


def test_a_far_start_is_not_blamed_on_the_data() -> None:
    problem = random_problem(1, 300, 3, zeros=0.1)
    exact = unskew.solve_normalizers(problem.omega, problem.source)
    far = unskew.solve_normalizers(problem.omega, problem.source, start=[400.0, 0.0, -400.0])
    np.testing.assert_allclose(far.log_normalizer, exact.log_normalizer, atol=1e-10)
    lost = unskew.debias_weights(
        problem.omega, problem.source, method="fixed_point", start=[800.0, 0.0, -800.0], throw=False
    )
    assert isinstance(lost.solution.status, unskew.Status)


@pytest.mark.parametrize(
    "options",
    [
        {"start": [np.nan] * 3},
        {"start": [np.inf, 0, 0]},
        {"rng": -1},
        {"rng": "7"},
    ],
)
def test_impossible_starts_and_seeds(options) -> None:
    problem = random_problem(1, 100, 3, zeros=0.0)
    with refused(unskew.ConfigError, option=next(iter(options))):
        unskew.debias_weights(problem.omega, problem.source, throw=False, **options)


def test_a_tolerance_below_rounding_still_converges() -> None:
    problem = random_problem(1, 300, 3, zeros=0.1)
    assert unskew.solve_normalizers(problem.omega, problem.source, tol=1e-16).converged


def test_empty_blocks_and_named_blocks() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    plain = unskew.debias_weights(problem.omega, problem.source)
    omega = problem.omega
    streamed = unskew.debias_weights(
        [omega[:0], omega[:50], omega[:0], omega[50:], omega[:0]], problem.source
    )
    np.testing.assert_allclose(streamed.weight, plain.weight, rtol=1e-10)
    frame = pd.DataFrame(omega, columns=["night", "day"])
    names = np.array(["night", "day"])[problem.source]
    named = unskew.debias_weights([frame[:60], frame[60:][["day", "night"]]], names)
    assert named.names == ("night", "day")
    np.testing.assert_allclose(named.weight, plain.weight, rtol=1e-10)
    with refused(unskew.DataError, value=1, columns=["night", "dusk"]):
        unskew.debias_weights([frame[:60], frame[60:].rename(columns={"day": "dusk"})], names)


@pytest.mark.parametrize(
    ("omega", "value"),
    [
        (np.ma.masked_greater(np.ones((4, 2)) * [[1, 9]], 5), "masked"),
        (np.ones((4, 2)) * 1j, "complex"),
        ([[1.0, 2.0], [1.0], [1.0, 2.0], [2.0, 1.0]], "rows of different lengths"),
    ],
)
def test_matrices_that_are_none(omega, value: str) -> None:
    with refused(unskew.DataError, option="omega", value=value):
        unskew.debias_weights(omega, [0, 1, 0, 1])


def test_matrix_and_unmasked_arrays_work() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    plain = unskew.debias_weights(problem.omega, problem.source).weight
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(problem.omega)
    np.testing.assert_allclose(unskew.debias_weights(matrix, problem.source).weight, plain)
    np.testing.assert_allclose(
        unskew.debias_weights(np.ma.masked_array(problem.omega), problem.source).weight, plain
    )


def test_missing_names_are_an_error_of_ours() -> None:
    with refused(unskew.DataError, option="source", count=1):
        unskew.debias_weights(np.ones((3, 2)), pd.Series(["a", "b", pd.NA], dtype="string"))
    with refused(unskew.DataError, option="group"):
        unskew.debias_weights(
            np.ones((30, 1)),
            np.zeros(30, dtype=int),
            group=pd.Series(["p", pd.NA] * 15, dtype="string"),
        )


def test_a_negative_zero_does_not_stop_collapsing() -> None:
    omega = np.tile([[1.0, 0.0], [0.5, 2.0]], (300, 1))
    omega[4, 1] = -0.0
    weights = unskew.debias_weights(omega, np.tile([0, 1], 300), throw=False)
    assert weights.rows.n_stored < 10


def test_weights_do_not_change_with_the_callers_arrays() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    source, ids = problem.source.astype(np.int32), np.arange(120)
    weights = unskew.debias_weights(problem.omega, source, id=ids)
    source[:] = 0
    ids[:] = 7
    assert set(weights.source.tolist()) == {0, 1}
    assert weights.id[3] == 3


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_files_hold_ids_sources_and_groups_as_given(tmp_path: Path) -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    ids = np.array([f"img{i}" for i in range(120)])
    group = np.array([f"p{i // 3}" for i in range(120)])
    weights = unskew.debias_weights(
        problem.omega, problem.source, id=ids, group=group, names=["day", "night"]
    )
    path = tmp_path / "weights.parquet"
    weights.to_parquet(path)
    weights.to_parquet(path)  # over an existing file
    frame = pd.read_parquet(path)
    assert list(frame["id"]) == list(ids)
    assert list(frame["group"]) == list(group)
    assert set(frame["source"]) == {"day", "night"}
    assert frame["weight"].sum() == pytest.approx(1)
    assert frame["sample_weight"].mean() == pytest.approx(1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.parquet"]
    with pytest.raises(unskew.DataError, match="there is no folder"):
        weights.to_parquet(tmp_path / "nowhere" / "weights.parquet")
    mixed = unskew.debias_weights(
        problem.omega, problem.source, id=np.array([1, "a"] * 60, dtype=object)
    )
    mixed.to_parquet(path)


def test_weights_are_joined_by_id() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    weights = unskew.debias_weights(
        problem.omega, problem.source, id=[f"img{i}" for i in range(120)]
    )
    np.testing.assert_array_equal(weights.align(["img7", "img3"]), weights.weight[[7, 3]])
    with refused(unskew.DataError, ids=["imgX"], count=1):
        weights.align(["img7", "imgX"])
    twice = unskew.debias_weights(problem.omega, problem.source, id=["same"] * 120)
    with refused(unskew.DataError, ids=["same"], count=1):
        twice.align(["same"])


def test_records_can_be_copied_pickled_and_compared() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    weights = unskew.debias_weights(problem.omega, problem.source)
    for again in (copy.deepcopy(weights), pickle.loads(pickle.dumps(weights))):
        np.testing.assert_array_equal(again.weight, weights.weight)
        assert again.mean(problem.omega[:, 0]) == weights.mean(problem.omega[:, 0])
    assert weights.solution == weights.solution
    assert weights.solution != copy.deepcopy(weights.solution)
    assert isinstance(pickle.loads(pickle.dumps(unskew.OverlapError("apart"))), unskew.OverlapError)


def test_a_plain_list_of_numbers_and_texts_is_joined_as_it_is() -> None:
    ids = np.array([1, "a", 2, "b"], dtype=object)
    weights = unskew.debias_weights(np.ones((4, 1)), ["s"] * 4, id=ids)
    assert weights.align([2, "a"]).tolist() == [0.25, 0.25]
