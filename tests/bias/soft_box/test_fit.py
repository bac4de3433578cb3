"""Soft boxes: derivatives, invariances, recovery of the truth, and not fitting noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import kstest, wasserstein_distance

import unskew
from raising import refused
from unskew.bias.soft_box.fit import SoftBoxFit, fit_soft_boxes, log_soft_boxes, soft_box_jacobian
from unskew.bias.soft_box.likelihood import (
    Boxes,
    edge_slots,
    evaluate_boxes,
    inform_boxes,
    pose_problem,
)
from unskew.bias.soft_box.permutation import (
    PLACES,
    _tail_statistic,
    permutation_bound,
    permutation_p_value,
)
from unskew.bias.soft_box.search import _Edge, _Held, _subsample, constant_membership, make_room
from unskew.errors import DataError
from unskew.records import Floats, Ints


@dataclass(frozen=True)
class Truth:
    population: Floats
    feature: Floats
    source: Ints
    lower: Floats
    upper: Floats
    width: float

    @property
    def log_omega(self) -> Floats:
        return log_soft_boxes(self.feature, self.lower, self.upper, self.width)


def random_boxes(n_features: int, n_sources: int, seed: int, n: int) -> Truth:
    """Random, unequal, overlapping boxes over a Gaussian population; a third of the edges
    infinite.
    """
    rng = np.random.default_rng(seed)
    population = 0.5 * rng.normal(size=(20_000, n_features))
    middle, half = (
        rng.uniform(-0.5, 0.5, (n_sources, n_features)),
        rng.uniform(0.3, 1.0, (n_sources, n_features)),
    )
    lower = np.where(rng.uniform(size=middle.shape) < 0.3, -np.inf, middle - half)
    upper = np.where(rng.uniform(size=middle.shape) < 0.3, np.inf, middle + half)
    width = 0.3 * n_features**0.5 * rng.uniform(1.0, 3.0)
    omega = np.exp(log_soft_boxes(population, lower, upper, width))
    sizes = 50 + (n * rng.dirichlet(np.full(n_sources, 5.0))).astype(int)
    index = np.concatenate(
        [rng.choice(20_000, size=m, p=omega[:, k] / omega[:, k].sum()) for k, m in enumerate(sizes)]
    )
    return Truth(
        population, population[index], np.repeat(np.arange(n_sources), sizes), lower, upper, width
    )


def membership(log_omega: Floats, source: Ints) -> Floats:
    share = log_omega + unskew.solve_normalizers(log_omega, source, log=True).u
    q = np.exp(share - share.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def distance(feature: Floats, source: Ints, population: Floats, log_omega: Floats | None) -> float:
    """Σ_d of the 1-D Wasserstein distances of the debiased (or pooled) features to the
    population's.
    """
    weight = (
        None if log_omega is None else unskew.debias_weights(log_omega, source, log=True).weight
    )
    return sum(
        float(wasserstein_distance(feature[:, d], population[:, d], weight))
        for d in range(feature.shape[1])
    )


def fitted_log_omega(feature: Floats, fit: SoftBoxFit) -> Floats:
    return log_soft_boxes(feature, fit.lower, fit.upper, fit.width)


def example_boxes(rng: np.random.Generator, n_cells: int = 1) -> Boxes:
    """Three sources, two features, one edge infinite; wide enough that every image is inside."""
    lower = np.array([[-0.3, -np.inf], [0.1, -0.5], [-1.0, -0.2]])
    upper = np.array([[0.4, 0.2], [np.inf, 0.6], [0.0, 0.3]])
    return Boxes(lower, upper, 8.0, rng.normal(size=(n_cells, 3)))


def plain_log_likelihood(
    feature: Floats, source: Ints, cell: Ints, offset: Floats, boxes: Boxes
) -> tuple[float, Floats]:
    """Σ_i log q_{i,s_i} and the masses, written as the formula stands."""
    log_omega = log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width)
    share = np.exp(boxes.u[cell] + offset + log_omega)
    own = np.arange(source.size)
    return float(np.log(share[own, source] / share.sum(axis=1)).sum()), np.exp(log_omega).mean(
        axis=0
    )


def test_the_compiled_sum_is_the_formula_and_its_gradient_the_finite_difference() -> None:
    rng = np.random.default_rng(0)
    feature, source, cell = (
        rng.normal(size=(200, 2)),
        rng.integers(3, size=200),
        rng.integers(2, size=200),
    )
    offset = rng.normal(size=(200, 3))
    problem = pose_problem(feature, source, 3, offset, cell, None)
    boxes = example_boxes(rng, 2)
    now = evaluate_boxes(problem, boxes)
    plain, mass = plain_log_likelihood(feature, source, cell, offset, boxes)
    assert now.log_likelihood == pytest.approx(plain, rel=1e-12)
    own = np.exp(log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))[
        np.arange(200), source
    ]
    assert now.value == pytest.approx(
        plain + 0.25 * 200**0.5 * (np.log(mass).sum() - (1 / own).mean()), rel=1e-12
    )

    slot, _ = edge_slots(boxes.lower, boxes.upper)

    def value(change: Floats) -> float:
        edges = np.concatenate([change[:-1], [0.0]])
        moved = boxes._replace(
            lower=boxes.lower + edges[slot[..., 0]],
            upper=boxes.upper + edges[slot[..., 1]],
            width=boxes.width * np.exp(change[-1]),
        )
        return evaluate_boxes(problem, moved).value

    step = 1e-6  # no image lies within a step of an edge
    numeric = [(value(step * e) - value(-step * e)) / (2 * step) for e in np.eye(now.gradient.size)]
    np.testing.assert_allclose(now.gradient, numeric, rtol=1e-5, atol=1e-5)
    for c, k in np.ndindex(2, 3):
        up, down = (
            evaluate_boxes(
                problem,
                boxes._replace(u=boxes.u + sign * step * (np.arange(6) == 3 * c + k).reshape(2, 3)),
            )
            for sign in (1, -1)
        )
        assert now.gradient_u[c, k] == pytest.approx((up.value - down.value) / (2 * step), abs=1e-5)


def test_the_information_is_the_expected_outer_product_of_the_scores() -> None:
    rng = np.random.default_rng(1)
    feature, source = rng.normal(size=(100, 2)), rng.integers(3, size=100)
    boxes = example_boxes(rng)
    information = inform_boxes(
        pose_problem(feature, source, 3, None, None, None).informing(100), boxes
    )
    jacobian = soft_box_jacobian(feature, boxes.lower, boxes.upper, boxes.width)
    q = np.exp(boxes.u + log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))
    q /= q.sum(axis=1, keepdims=True)
    score = np.concatenate([jacobian, np.broadcast_to(np.eye(3), (100, 3, 3))], axis=2)
    mean = np.einsum("nk,nkp->np", q, score)
    expected = np.einsum("nk,nkp,nkr->pr", q, score, score) - mean.T @ mean
    p = len(information.theta)
    np.testing.assert_allclose(information.theta, expected[:p, :p], atol=1e-10)
    np.testing.assert_allclose(information.cross[0], expected[:p, p:], atol=1e-10)
    np.testing.assert_allclose(information.u[0], expected[p:, p:], atol=1e-10)


def test_jacobian_is_the_finite_difference() -> None:
    rng = np.random.default_rng(2)
    feature = rng.normal(size=(50, 2))
    boxes = example_boxes(rng)._replace(width=1.5)  # some images outside
    jacobian = soft_box_jacobian(feature, boxes.lower, boxes.upper, boxes.width)
    finite = [
        (side, k, d)
        for side in (0, 1)
        for k in range(3)
        for d in range(2)
        if np.isfinite((boxes.lower, boxes.upper)[side][k, d])
    ]
    assert jacobian.shape == (50, 3, len(finite) + 1)
    inside = np.isfinite(log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))
    assert 0 < inside.sum() < inside.size
    assert np.all(jacobian[~inside] == 0)
    step = 1e-7
    for p, (side, k, d) in enumerate(finite):
        moved = [np.array([boxes.lower, boxes.upper]) for _ in range(2)]
        moved[0][side, k, d] += step
        moved[1][side, k, d] -= step
        plus, minus = (log_soft_boxes(feature, low, high, boxes.width) for low, high in moved)
        numeric = np.where(inside, plus - np.where(inside, minus, 0.0), 0.0) / (2 * step)
        np.testing.assert_allclose(jacobian[:, :, p][inside], numeric[inside], rtol=1e-4, atol=1e-5)
    plus, minus = (
        log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width * np.exp(sign * step))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(
        jacobian[:, :, -1][inside],
        (plus[inside] - minus[inside]) / (2 * step),
        rtol=1e-4,
        atol=1e-5,
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


def test_at_the_innermost_place_of_an_edge_all_images_of_its_source_are_inside() -> None:
    from unskew.bias.soft_box.kernels_boxes import innermost_places

    rng = np.random.default_rng(3)
    feature, source = rng.normal(size=(400, 2)), rng.integers(3, size=400)
    problem = pose_problem(feature, source, 3, None, None, None)
    held = _Held(problem, make_room(problem, example_boxes(rng)._replace(width=3.0)), 1)
    boxes = held.boxes
    innermost = innermost_places(feature, source, boxes.lower, boxes.upper, boxes.width)
    for k, d, side in np.ndindex(3, 2, 2):
        edge, place = (
            _Edge(k, d, side, float((boxes.lower, boxes.upper)[side][k, d])),
            float(innermost[side][k, d]),
        )
        outwards = 1e-9 * edge.sign
        assert held.gain(edge, place + outwards) > -np.inf
        assert held.gain(edge, place - outwards) == -np.inf
        chosen = held.best_place(
            edge._replace(at=edge.away), np.linspace(-2, 2, 20), place + outwards
        )
        assert chosen is None or held.gain(edge, chosen) > -np.inf


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


@pytest.mark.parametrize(
    ("n_features", "n_sources", "seed"), [(2, 4, 2), (2, 4, 3), (5, 5, 3), (5, 5, 5)]
)
def test_random_boxes_are_recovered(n_features: int, n_sources: int, seed: int) -> None:
    truth = random_boxes(n_features, n_sources, seed, 5000)
    fit = fit_soft_boxes(truth.feature, truth.source, n_sources)
    assert not fit.is_constant
    assert fit.p_value == 1 / 200
    q_true, q_fit = (
        membership(log_omega, truth.source)
        for log_omega in (truth.log_omega, fitted_log_omega(truth.feature, fit))
    )
    own = np.arange(truth.source.size)
    # As likely as the truth, but for the pull of the prior.
    assert (
        fit.log_likelihood
        > np.log(q_true[own, truth.source]).sum() - 2 * 2 * n_sources * n_features
    )
    constant = np.bincount(truth.source) / truth.source.size
    assert np.sqrt(np.mean((q_fit - q_true) ** 2)) < 0.5 * np.sqrt(
        np.mean((constant - q_true) ** 2)
    )
    d_true, d_naive, d_fit = (
        distance(truth.feature, truth.source, truth.population, log_omega)
        for log_omega in (truth.log_omega, None, fitted_log_omega(truth.feature, fit))
    )
    assert d_fit < max(2 * d_true, 0.5 * d_naive)
    assert d_fit < d_naive


@pytest.mark.parametrize("seed", [127, 139])
@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_no_image_on_the_rim_of_its_support_gets_most_of_the_weight(seed: int) -> None:
    """That no other source has it says nothing of how small ω is there; by likelihood alone its
    weight was 0.98 and more.
    """
    truth = random_boxes(2, 4, seed, 1000)
    fit = fit_soft_boxes(truth.feature, truth.source, 4)
    weights = unskew.debias_weights(fitted_log_omega(truth.feature, fit), truth.source, log=True)
    assert weights.weight.max() < 0.15
    assert weights.ess > 100


def test_edges_of_the_articles_mechanism_are_found_and_the_others_infinite() -> None:
    population = np.random.default_rng(0).uniform(size=(20_000, 2))
    scenario = unskew.scenarios.acquisition(population, decay=0.2, sizes=[1500] * 4, rng=0)
    assert scenario.features is not None
    fit = fit_soft_boxes(scenario.features, scenario.source, 4)
    middle = np.median(population, axis=0)
    for k in range(4):
        for d in range(2):
            is_upper_half = (k >> (1 - d)) & 1
            edge, other = (fit.lower, fit.upper) if is_upper_half else (fit.upper, fit.lower)
            assert edge[k, d] == pytest.approx(middle[d], abs=0.03)
            assert np.isinf(other[k, d])
    assert fit.width == pytest.approx(0.2, rel=0.1)


def test_order_of_rows_and_sources_and_scale_of_features_change_nothing_but_the_labels() -> None:
    truth = random_boxes(2, 3, 7, 2000)
    fit = fit_soft_boxes(truth.feature, truth.source, 3, test=False)
    order = np.random.default_rng(0).permutation(truth.source.size)
    relabel = np.array([2, 0, 1])
    again = fit_soft_boxes(truth.feature[order], relabel[truth.source[order]], 3, test=False)
    np.testing.assert_allclose(again.lower[relabel], fit.lower, atol=1e-3)
    np.testing.assert_allclose(again.upper[relabel], fit.upper, atol=1e-3)
    assert again.width == pytest.approx(fit.width, rel=1e-3)
    scaled = fit_soft_boxes(-10.0 * truth.feature + 3.0, truth.source, 3, test=False)
    np.testing.assert_allclose(scaled.upper, -10.0 * fit.lower + 3.0, atol=1e-2)
    np.testing.assert_allclose(scaled.lower, -10.0 * fit.upper + 3.0, atol=1e-2)
    assert scaled.log_likelihood == pytest.approx(
        fit.log_likelihood, abs=0.05
    )  # the tolerance of the ascent


def test_of_many_images_some_are_enough_to_reject_and_all_are_asked_before_it_is_not_rejected() -> (
    None
):
    rng = np.random.default_rng(0)
    source = rng.integers(2, size=80_000)
    for shift, is_seen in ((1.0, True), (0.0, False)):
        feature = rng.normal(size=(source.size, 1)) + shift * source[:, None]
        problem = pose_problem(feature, source, 2, None, None, None)
        p_value, made = permutation_p_value(problem, constant_membership(problem)[0], None, rng)
        assert (p_value < 1e-4 and made == 0) == is_seen


def test_permuted_labels_give_a_uniform_p_value() -> None:
    """Level of the test: of 100 permuted data sets about 5% have p ≤ 0.05 (binomial: at most 12
    with probability 0.998).
    """
    rng = np.random.default_rng(3)
    feature = rng.gamma(2.0, size=(300, 2))
    source = np.repeat([0, 1, 2], [200, 80, 20])
    p_values = []
    for _ in range(100):
        problem = pose_problem(feature, rng.permutation(source), 3, None, None, None)
        p_values.append(permutation_p_value(problem, constant_membership(problem)[0], None, rng)[0])
    assert np.sum(np.array(p_values) <= 0.05) <= 12
    assert np.sum(np.array(p_values) <= 0.2) >= 9  # probability 0.999
    assert 0.4 < np.mean(p_values) < 0.6


def test_the_bound_is_one_on_all_permutations() -> None:
    """No t is exceeded by a larger share of 2,000 permutations than Hoeffding's inequality allows
    (binomial error aside).
    """
    rng = np.random.default_rng(8)
    feature = np.column_stack([rng.gamma(2.0, size=120), rng.integers(0, 3, 120)])  # ties, too
    source = np.repeat([0, 1, 2], [70, 40, 10])
    problem = pose_problem(feature, source, 3, None, None, None)
    bin_nd = np.stack(
        [np.searchsorted(np.quantile(column, PLACES), column) for column in feature.T], axis=1
    )
    statistic = _tail_statistic(problem, bin_nd, None)
    value_m = np.sort([statistic(rng.permutation(source)) for _ in range(2000)])
    bounds = [permutation_bound(problem, bin_nd, float(value)) for value in value_m]
    assert np.all(np.diff(bounds) <= 0)
    assert np.all(np.array(bounds) >= 1.0 - np.arange(2000) / 2000 - 0.02)
    assert permutation_bound(problem, bin_nd, 1e6) < 1e-100


def test_no_permutation_is_made_where_the_bound_says_enough() -> None:
    rng = np.random.default_rng(9)
    feature = np.concatenate(
        [rng.uniform(0.0, 0.6, size=(500, 1)), rng.uniform(0.4, 1.0, size=(500, 1))]
    )
    problem = pose_problem(feature, np.repeat([0, 1], 500), 2, None, None, None)
    p_value, made = permutation_p_value(problem, constant_membership(problem)[0], None, rng)
    assert made == 0
    assert p_value < 1e-4
    # Images of one group are not independent: the bound says nothing of them.
    grouped, made = permutation_p_value(
        problem, constant_membership(problem)[0], np.arange(1000) // 2, rng
    )
    assert (grouped, made) == (1 / 200, 199)


def test_groups_are_permuted_whole() -> None:
    """Sixty bursts of twenty near-identical images, sources alike: image by image the test is
    fooled, by group it keeps its level.
    """
    rng = np.random.default_rng(4)
    rejected = {"images": 0, "groups": 0}
    for _ in range(10):
        group = np.repeat(np.arange(60), 20)
        feature = rng.normal(size=(60, 2))[group] + 0.01 * rng.normal(size=(1200, 2))
        source = group % 3
        problem = pose_problem(feature, source, 3, None, None, None)
        constant = constant_membership(problem)[0]
        rejected["images"] += permutation_p_value(problem, constant, None, rng)[0] <= 0.05
        rejected["groups"] += permutation_p_value(problem, constant, group, rng)[0] <= 0.05
    assert rejected["images"] == 10
    assert rejected["groups"] <= 3  # binomial(10, 0.05): more than 3 with probability 0.001


def test_the_test_keeps_its_level_with_offset_and_cells() -> None:
    rng = np.random.default_rng(5)
    rejections = 0
    for _ in range(40):
        feature = rng.normal(size=(400, 1))
        cell = (feature[:, 0] + rng.normal(size=400) > 0).astype(np.int64)
        offset = np.stack([np.zeros(400), 1.5 * feature[:, 0]], axis=1)
        chance = 1 / (1 + np.exp(-(offset[:, 1] + np.where(cell == 1, 0.5, -0.5))))
        source = (rng.uniform(size=400) < chance).astype(np.int64)
        problem = pose_problem(feature, source, 2, offset, cell, None)
        rejections += (
            permutation_p_value(problem, constant_membership(problem)[0], None, rng)[0] <= 0.05
        )
    assert rejections <= 7  # binomial(40, 0.05): more than 7 with probability 0.001


def test_sources_that_do_not_differ_get_the_constant() -> None:
    rng = np.random.default_rng(6)
    for _ in range(10):
        fit = fit_soft_boxes(rng.normal(size=(500, 3)), rng.integers(4, size=500), 4)
        assert (
            fit.is_constant
        )  # also in the 5% that the test rejects: the gain is not worth the parameters
        assert np.isinf(fit.width)
        assert np.all(np.isinf(fit.lower))
        assert np.all(np.isinf(fit.upper))
        assert fit.log_likelihood == fit.log_likelihood_constant


def test_a_mechanism_too_wide_to_be_estimated_is_left_alone() -> None:
    """Width 10 on features of range 1: even when the test sees it, boxes would be noise."""
    population = np.random.default_rng(0).uniform(size=(20_000, 3))
    for seed in range(2):
        scenario = unskew.scenarios.acquisition(population, decay=10.0, sizes=[1000] * 8, rng=seed)
        assert scenario.features is not None
        assert fit_soft_boxes(scenario.features, scenario.source, 8, seed=seed).is_constant
        assert fit_soft_boxes(
            scenario.features, scenario.source, 8, seed=seed, test=False
        ).is_constant


def test_a_known_factor_and_cells_are_taken_into_account() -> None:
    """Source 0 is cut at 0.5 by a known factor and decays beyond 0.2 in the other feature: only the
    second is to be found.
    """
    rng = np.random.default_rng(8)
    population = rng.uniform(size=(40_000, 2))
    omega = np.clip(1 - np.maximum(0, population[:, 1] - 0.2) / 0.5, 0, 1) * np.where(
        population[:, 0] < 0.5, 1.0, 0.2
    )
    cell = rng.integers(2, size=40_000)
    chosen = rng.choice(40_000, size=2000, p=omega * (1 + cell) / (omega * (1 + cell)).sum())
    index = np.concatenate([chosen, rng.choice(40_000, size=2000)])
    feature, source = population[index], np.repeat([0, 1], 2000)
    offset = np.stack([np.where(feature[:, 0] < 0.5, 0.0, np.log(0.2)), np.zeros(4000)], axis=1)
    fit = fit_soft_boxes(feature, source, 2, log_offset_nk=offset, cell_n=cell[index], reference=1)
    assert np.all(np.isinf(fit.lower[:, 0]))
    assert np.isinf(fit.upper[0, 0])
    assert fit.upper[0, 1] == pytest.approx(0.2, abs=0.05)
    assert fit.width == pytest.approx(0.5, rel=0.1)
    assert np.all(np.isinf(fit.lower[1]))
    assert np.all(np.isinf(fit.upper[1]))


def test_a_warm_start_ends_where_the_search_ended() -> None:
    truth = random_boxes(2, 3, 7, 2000)
    fit = fit_soft_boxes(truth.feature, truth.source, 3)
    again = fit_soft_boxes(truth.feature, truth.source, 3, start=fit)
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.1)
    assert again.width == pytest.approx(fit.width, rel=0.02)
    other = random_boxes(2, 3, 7, 2000)
    row = np.random.default_rng(1).integers(other.source.size, size=other.source.size)
    refit = fit_soft_boxes(
        other.feature[row], other.source[row], 3, start=replace(fit, width=0.5 * fit.width)
    )  # infeasible
    assert np.isfinite(refit.log_likelihood)
    assert refit.p_value is None
    assert fit_soft_boxes(
        truth.feature, truth.source, 3, start=replace(fit, is_constant=True)
    ).is_constant


def test_odd_data() -> None:
    truth = random_boxes(2, 3, 7, 1000)
    one = fit_soft_boxes(truth.feature, np.zeros(truth.source.size, dtype=np.int64), 1)
    assert one.is_constant
    assert one.p_value is None
    flat = np.column_stack([truth.feature, np.full(truth.source.size, 3.0)])
    fit, with_flat = (
        fit_soft_boxes(truth.feature, truth.source, 3),
        fit_soft_boxes(flat, truth.source, 3),
    )
    np.testing.assert_allclose(with_flat.upper[:, :2], fit.upper, atol=1e-6)
    assert np.all(np.isinf(with_flat.lower[:, 2]))
    assert np.all(np.isinf(with_flat.upper[:, 2]))
    rounded = fit_soft_boxes(
        truth.feature.round(1), truth.source, 3
    )  # many duplicates, images on the edges
    exact, coarse = (
        membership(fitted_log_omega(truth.feature, f), truth.source)
        for f in (fit, replace(rounded, width=rounded.width + 0.1))
    )
    assert np.sqrt(np.mean((exact - coarse) ** 2)) < 0.1
    unused = fit_soft_boxes(truth.feature, truth.source, 4)  # a source without images
    assert np.all(np.isinf(unused.upper[3]))
    assert unused.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.1)


def test_a_source_of_ten_images() -> None:
    truth = random_boxes(2, 3, 7, 2000)
    few = np.concatenate(
        [np.flatnonzero(truth.source != 1), np.flatnonzero(truth.source == 1)[:10]]
    )
    fit = fit_soft_boxes(truth.feature[few], truth.source[few], 3)
    log_omega = fitted_log_omega(truth.feature[few], fit)
    assert np.all(np.isfinite(log_omega[np.arange(few.size), truth.source[few]]))


def test_bad_input_is_named() -> None:
    with refused(DataError, row=1, column=0):
        fit_soft_boxes(np.array([[0.0], [np.nan]]), np.array([0, 1]), 2)
    with refused(DataError, option="features", value=[3, 1]):
        fit_soft_boxes(np.zeros((3, 1)), np.array([0, 1]), 2)
    with refused(DataError, option="source", limit=1):
        fit_soft_boxes(np.zeros((2, 1)), np.array([0, 2]), 2)


def base_population(kind: str, n: int) -> Floats:
    rng = np.random.default_rng(0)
    if kind == "uniform":
        return rng.uniform(size=(n, 3))
    if kind == "gaussian":
        return 0.5 + 0.17 * rng.normal(size=(n, 3))
    mixed = rng.normal(size=(n, 3)) @ np.array(
        [[1.0, 0.6, -0.5], [0.0, 0.8, 0.0], [0.0, 0.0, 0.85]]
    )
    skewed = np.exp(0.7 * mixed)
    return (skewed / (1.0 + skewed)) ** 1.5


@pytest.mark.parametrize("decay", [0.1, 1.0])
def test_the_articles_mechanism_in_small(decay: float) -> None:
    population = base_population("uniform", 20_000)
    scenario = unskew.scenarios.acquisition(population, decay=decay, sizes=[800] * 8, rng=0)
    assert scenario.features is not None
    fit = fit_soft_boxes(scenario.features, scenario.source, 8)
    assert fit.width == pytest.approx(decay, rel=0.2)
    true, naive, ours = (
        distance(scenario.features, scenario.source, population, log_omega)
        for log_omega in (scenario.log_omega, None, fitted_log_omega(scenario.features, fit))
    )
    assert ours < 3 * true
    assert ours < naive


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "gaussian", "skewed"])
@pytest.mark.parametrize(("decay", "factor"), [(0.1, 1.5), (1.0, 3.0), (10.0, np.inf)])
def test_the_articles_mechanism_in_full(kind: str, decay: float, factor: float) -> None:
    """8 × 6,250 images: mean width within 10%, mean distance within the factor of the true ω's,
    never 2 sd above naive pooling.
    """
    population = base_population(kind, 50_000)
    widths, distances = [], []
    for seed in range(4):
        scenario = unskew.scenarios.acquisition(population, decay=decay, sizes=[6250] * 8, rng=seed)
        assert scenario.features is not None
        fit = fit_soft_boxes(scenario.features, scenario.source, 8, seed=seed)
        widths.append(fit.width)
        models = (scenario.log_omega, None, fitted_log_omega(scenario.features, fit))
        distances.append(
            [
                distance(scenario.features, scenario.source, population, log_omega)
                for log_omega in models
            ]
        )
    true, naive, ours = np.mean(distances, axis=0)
    if decay < 10:
        assert np.mean(widths) == pytest.approx(decay, rel=0.1)
    assert ours <= factor * true
    assert ours <= naive + 2 * np.std([row[1] for row in distances])
