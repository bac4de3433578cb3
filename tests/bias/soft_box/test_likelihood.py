"""The label problem and its ascent: rows by cell, what a parameter must earn, where it climbs."""

from __future__ import annotations

import numpy as np
import pytest

from soft_boxes import example_boxes
from unskew.bias.soft_box.fit import log_soft_boxes
from unskew.bias.soft_box.likelihood import (
    Boxes,
    LabelProblem,
    ascend,
    edge_slots,
    evaluate_boxes,
    pose_problem,
    uncrossed,
)
from unskew.records import Floats

INF = np.inf


def small_problem(seed: int = 0, **changes: object) -> LabelProblem:
    rng = np.random.default_rng(seed)
    given = {
        "feature_nd": rng.normal(size=(60, 2)),
        "source_n": rng.integers(3, size=60),
        "n_sources": 3,
        "log_offset_nk": None,
        "cell_n": None,
        "reference": None,
    }
    return pose_problem(**{**given, **changes})


def test_rows_are_sorted_by_cell_and_stay_whole() -> None:
    row = np.arange(60.0)
    cell = np.random.default_rng(1).choice(["night", "day", "dusk"], 60)
    source = np.arange(60) % 3
    offset = np.column_stack([row, -row, 2 * row])
    problem = small_problem(
        feature_nd=row[:, None], source_n=source, log_offset_nk=offset, cell_n=cell
    )
    at = problem.feature[:, 0].astype(int)
    assert sorted(at) == list(range(60))
    np.testing.assert_array_equal(problem.source, source[at])
    np.testing.assert_array_equal(problem.offset, offset[at])
    np.testing.assert_array_equal(np.array(["day", "dusk", "night"])[problem.cell], cell[at])
    for c, name in enumerate(("day", "dusk", "night")):
        np.testing.assert_array_equal(
            at[problem.bound[c] : problem.bound[c + 1]], np.flatnonzero(cell == name)
        )
        np.testing.assert_array_equal(
            problem.count[c], np.bincount(source[cell == name], minlength=3)
        )


def test_the_reference_and_sources_without_images_are_fixed() -> None:
    problem = small_problem(n_sources=4, reference=1)
    assert problem.is_fixed.tolist() == [False, True, False, True]


def test_prior_and_price_of_a_parameter_count_groups() -> None:
    alone, paired = small_problem(), small_problem(group_n=np.arange(60) // 2)
    assert (alone.unit_share, paired.unit_share) == (1.0, 0.5)
    assert alone.prior == pytest.approx(0.25 * np.sqrt(60))
    assert alone.schwarz == pytest.approx(0.5 * np.log(60))
    # In units of the images' log-likelihood, which is twice that of the 30 groups.
    assert paired.prior == pytest.approx(2 * 0.25 * np.sqrt(30))
    assert paired.schwarz == pytest.approx(2 * 0.5 * np.log(30))


def test_without_boxes_the_likelihood_is_that_of_the_shares() -> None:
    problem = small_problem(cell_n=np.arange(60) % 2)
    share = problem.count / problem.count.sum(axis=1, keepdims=True)
    now = evaluate_boxes(problem, problem.no_boxes())
    assert now.log_likelihood == pytest.approx((problem.count * np.log(share)).sum(), rel=1e-12)
    np.testing.assert_allclose(now.gradient_u, 0.0, atol=1e-10)
    assert problem.no_boxes().n_edges == 0


def test_images_that_inform_are_every_so_many_and_count_for_the_others() -> None:
    problem = small_problem(cell_n=np.arange(60) % 2)
    some = problem.informing(20, problem.no_boxes())
    np.testing.assert_array_equal(some.feature, problem.feature[::3])
    assert some.weight == 3.0
    assert some.bound.tolist() == [0, 10, 20]
    assert problem.informing(1000, problem.no_boxes()).weight == 1.0


def test_edges_are_numbered_lower_ones_first_by_source() -> None:
    slot, size = edge_slots(
        np.array([[-INF, 1.0], [2.0, -INF]]), np.array([[3.0, INF], [4.0, 5.0]])
    )
    assert slot[..., 0].tolist() == [[-1, 0], [1, -1]]
    assert slot[..., 1].tolist() == [[2, -1], [3, 4]]
    assert size == 6  # five edges and log γ


def test_edges_that_crossed_meet_half_way_and_others_stay() -> None:
    lower, upper = np.array([[1.0, 0.0, -INF]]), np.array([[0.0, 2.0, INF]])
    low, high = uncrossed(lower, upper)
    assert low.tolist() == [[0.5, 0.0, -INF]]
    assert high.tolist() == [[0.5, 2.0, INF]]
    assert lower.tolist() == [[1.0, 0.0, -INF]]


def test_an_image_outside_its_own_support_is_infeasible() -> None:
    problem = small_problem()
    boxes = example_boxes(np.random.default_rng(0))._replace(width=0.1)
    assert evaluate_boxes(problem, boxes).value == -INF


def two_halves() -> tuple[Floats, LabelProblem, Boxes]:
    """Source 0 falls off beyond 0.2 over a width of 1, source 1 selects everything."""
    rng = np.random.default_rng(4)
    z = rng.uniform(-1, 1, 6000)
    keep = rng.uniform(size=6000) < np.where(
        np.arange(6000) < 3000, np.clip(1.2 - np.maximum(z, 0.2), 0, 1), 1.0
    )
    feature, source = z[keep][:, None], (np.arange(6000) >= 3000)[keep].astype(np.int64)
    problem = pose_problem(feature, source, 2, None, None, 1)
    start = Boxes(np.full((2, 1), -INF), np.array([[-0.2], [INF]]), 2.0, problem.no_boxes().u)
    return feature, problem, start


def test_the_ascent_climbs_to_where_the_gradient_is_nothing_and_finds_the_edge() -> None:
    _, problem, start = two_halves()
    end = ascend(problem, start, tol=1e-6)
    assert end.value > evaluate_boxes(problem, start).value
    assert end.boxes.upper[0, 0] == pytest.approx(0.2, abs=0.1)
    assert end.boxes.width == pytest.approx(1.0, abs=0.15)
    assert end.value == evaluate_boxes(problem, end.boxes).value
    np.testing.assert_allclose(end.at.gradient_u, 0.0, atol=0.05)
    for change in (0.02, -0.02):
        moved = end.boxes._replace(upper=end.boxes.upper + change)
        assert evaluate_boxes(problem, moved).value < end.value


def test_an_edge_beyond_all_images_becomes_infinite_and_changes_nothing() -> None:
    feature, problem, start = two_halves()
    idle = start._replace(lower=np.array([[-5.0], [-INF]]))
    one, other = (ascend(problem, boxes, tol=1e-6) for boxes in (start, idle))
    assert other.boxes.lower[0, 0] == -INF
    np.testing.assert_allclose(
        *(
            log_soft_boxes(feature, end.boxes.lower, end.boxes.upper, end.boxes.width)
            for end in (one, other)
        )
    )
