"""The solved equations, what links the sources, and how both print."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from all_and_half import OMEGA, SOURCE
from problems import random_problem
from unskew.records import Status
from unskew.records.solution import count_of


def test_solution_and_overlap_print_a_few_of_many_sources() -> None:
    weights = unskew.debias_weights(np.ones((2000, 100)), np.arange(2000) % 100)
    for record in (weights, weights.solution, weights.overlap):
        assert len(repr(record).splitlines()) <= 4
    assert "and 95 more" in repr(weights)
    assert repr(weights.solution).endswith("and 95 more")
    two = unskew.solve_normalizers(OMEGA, SOURCE)
    assert repr(two).startswith("Solution for 2 sources: newton converged after 4 steps (error")
    assert "half: -0.6931" in repr(two)
    overlap = unskew.check_overlap(OMEGA, SOURCE)
    assert repr(overlap).splitlines()[0] == (
        "Overlap of 2 sources: ok; weakest link half → all (20 images)"
    )


def test_relative_normalizer_and_shapes() -> None:
    problem = random_problem(3, 100, 3, zeros=0.0)
    solution = unskew.solve_normalizers(problem.omega, problem.source)
    np.testing.assert_allclose(
        solution.relative_normalizer, solution.normalizer / solution.normalizer[-1]
    )
    np.testing.assert_allclose(solution.u, np.log(solution.share / solution.normalizer), atol=1e-14)
    assert solution.hessian.shape == (3, 3)
    assert solution.hessian_exact
    assert solution.trace[-1].step_norm < 1e-4


def test_sources_without_a_link_print_their_components() -> None:
    overlap = unskew.check_overlap(np.eye(2)[[0, 0, 1]], ["x", "x", "y"])
    assert not overlap.connected
    assert overlap.components == (("x",), ("y",))
    assert repr(overlap).splitlines()[0] == "Overlap of 2 sources: disconnected"


def test_one_is_counted_without_a_plural() -> None:
    assert [count_of(n, "image") for n in (0, 1, 2)] == ["0 images", "1 image", "2 images"]


@pytest.mark.parametrize("status", Status)
def test_only_a_met_tolerance_is_called_converged(status: Status) -> None:
    solution = replace(unskew.solve_normalizers(OMEGA, SOURCE), status=status)
    assert solution.converged == (status is Status.CONVERGED)
    assert ("not converged" in solution.outcome) == (status is not Status.CONVERGED)


def test_known_normalizers_were_not_solved_for() -> None:
    solution = replace(unskew.solve_normalizers(OMEGA, SOURCE), method="known")
    assert solution.outcome == "normalizers known, nothing to solve"


def test_normalizers_beyond_double_precision_overflow_without_a_word() -> None:
    solution = unskew.solve_normalizers(OMEGA, SOURCE)
    shifted = replace(solution, log_normalizer=solution.log_normalizer + 1000.0)
    assert np.isinf(shifted.normalizer).all()
    np.testing.assert_allclose(
        shifted.relative_normalizer, solution.relative_normalizer, rtol=1e-12
    )


def test_names_in_a_repr_are_short_and_visible() -> None:
    names = ["a\n\x1b[31mred", "b" * 500]
    omega, source = np.ones((40, 2)), np.repeat([0, 1], 20)
    weights = unskew.debias_weights(omega, source, names=names)
    for record in (weights, weights.solution, weights.overlap):
        shown = repr(record)
        assert "\x1b" not in shown
        assert len(shown) < 800
        assert len(shown.splitlines()) <= 6
