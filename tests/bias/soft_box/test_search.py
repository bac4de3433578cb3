"""Which edges the search opens and closes, what each gains, and on which images."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from soft_boxes import example_boxes, plain_log_likelihood
from unskew.bias.soft_box.fit import (
    log_soft_boxes,
)
from unskew.bias.soft_box.likelihood import (
    Boxes,
    pose_problem,
)
from unskew.bias.soft_box.search import (
    _Edge,
    _Held,
    _subsample,
    open_opposite_edges,
)


def test_what_an_edge_gains_is_the_likelihood_with_it_less_the_one_without() -> None:
    """With u held; then one Newton step of the source's u in each cell, here and there."""
    rng = np.random.default_rng(2)
    feature, source, cell = (
        rng.normal(size=(300, 2)),
        rng.integers(3, size=300),
        np.sort(rng.integers(2, size=300)),
    )
    offset = rng.normal(size=(300, 3))
    boxes = example_boxes(rng, 2)
    held = _Held(pose_problem(feature, source, 3, offset, cell, None), boxes, 1)
    for k, d, side, other in ((0, 1, 0, -0.4), (1, 0, 0, -np.inf), (2, 1, 1, 1.1), (1, 0, 1, 0.9)):
        edge = _Edge(k, d, side, float((boxes.lower, boxes.upper)[side][k, d]))
        moved = [boxes.lower.copy(), boxes.upper.copy()]
        moved[side][k, d] = other
        values = []
        for then in (boxes, boxes._replace(lower=moved[0], upper=moved[1])):
            share = np.exp(
                then.u[cell] + offset + log_soft_boxes(feature, then.lower, then.upper, then.width)
            )
            p_n = share[:, k] / share.sum(axis=1)
            steps = [
                ((source[cell == c] == k) - p_n[cell == c]).sum() ** 2
                / (2 * (p_n[cell == c] * (1 - p_n[cell == c])).sum())
                for c in (0, 1)
            ]
            values.append(plain_log_likelihood(feature, source, cell, offset, then)[0] + sum(steps))
        assert held.gain(edge, other) == pytest.approx(values[1] - values[0], rel=1e-9, abs=1e-9)


def test_a_subsample_of_very_many_images_is_drawn_evenly_from_all_of_them() -> None:
    sizes = [90_000, 60_000, 300]
    source = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], sizes))
    problem = pose_problem(
        np.arange(source.size, dtype=np.float64)[:, None], source, 3, None, None, None
    )
    few = _subsample(problem, 6000, np.random.default_rng(0))
    np.testing.assert_array_equal(few.count[0], [2000, 2000, 300])
    row = few.feature[:, 0].astype(np.int64)
    assert np.all(np.diff(row) > 0)
    np.testing.assert_array_equal(few.source, source[row])
    for k in (0, 1):  # 2,000 rows are spread over the table as draws of a uniform distribution are
        assert kstest(row[few.source == k], "uniform", (0, source.size)).pvalue > 1e-3


INF = np.inf


def opened(
    lower: list[list[float]], upper: list[list[float]], reference: int | None = None
) -> Boxes:
    """Edges opened for sources that fill the unit square (2,000 images each), with a width that
    leaves all of them inside.
    """
    n_sources = len(lower)
    feature = np.random.default_rng(0).uniform(size=(2000 * n_sources, 2))
    problem = pose_problem(
        feature, np.repeat(np.arange(n_sources), 2000), n_sources, None, None, reference
    )
    return open_opposite_edges(
        problem, Boxes(np.array(lower), np.array(upper), 5.0, problem.no_boxes().u)
    )


def test_sources_without_an_edge_get_those_opposite_to_the_others() -> None:
    # Along x the first source has an upper edge and the second a lower one; along z nobody has any.
    lower, upper = [[-INF, -INF], [0.2, -INF], [-INF, -INF]], [[0.6, INF], [INF, INF], [INF, INF]]
    boxes = opened(lower, upper)
    np.testing.assert_array_equal(boxes.lower[:2], lower[:2])
    np.testing.assert_array_equal(boxes.upper[:2], upper[:2])
    # The third could take over either; from where those are its edges would cross, so that both
    # begin half way.
    assert boxes.lower[2, 0] == boxes.upper[2, 0] == pytest.approx(0.4)
    assert np.isinf([boxes.lower[:, 1], boxes.upper[:, 1]]).all()


def test_a_reference_gets_no_edges_and_neither_does_anybody_where_all_have_one() -> None:
    lower, upper = [[-INF, -INF], [-INF, -INF]], [[0.6, INF], [INF, INF]]
    assert opened(lower, upper, reference=1).n_edges == 1
    assert opened(lower, upper).lower[1, 0] == 0.6
    assert opened([[-INF, 0.1], [0.2, -INF]], [[0.6, INF], [INF, 0.9]]).n_edges == 4
