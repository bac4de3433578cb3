"""The range of a target mean against brute force and a linear program; the turning factor; sampling
error of the ends.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize

import unskew
from bounded_means import weights_and_values
from raising import refused
from simulations import strata_survey, strata_survey_tilt
from unskew.scenarios import tilts
from unskew.weigh.sensitivity import bound_mean, bound_weights_mean
from worlds_targets import kept_survey, margins_two


def test_the_weights_at_the_ends_give_the_ends_and_differ_by_the_factor_at_most() -> None:
    weight_n, value_n = weights_and_values(3, 200)
    cell_n = np.arange(200) % 3
    for cell in (None, cell_n):
        found = bound_mean(weight_n, value_n, 2.5, cell=cell)
        for end, changed_n in ((found.low, found.weight_low), (found.high, found.weight_high)):
            assert changed_n.sum() == pytest.approx(1.0)
            assert changed_n @ value_n == pytest.approx(end, abs=1e-13)
            for each in range(3) if cell is not None else [0]:
                at = cell_n == each if cell is not None else np.full(200, True)
                ratio_m = changed_n[at] / weight_n[at]
                assert ratio_m.max() / ratio_m.min() == pytest.approx(2.5)


def test_factor_1_gives_the_value_and_no_limit_the_smallest_and_largest_on_the_support() -> None:
    weight_n, value_n = weights_and_values(4, 50)
    weight_n[np.argmax(value_n)] = 0.0
    one, free = bound_mean(weight_n, value_n, 1.0), bound_mean(weight_n, value_n, math.inf)
    mean = np.average(value_n, weights=weight_n)
    assert (one.low, one.value, one.high) == pytest.approx((mean, mean, mean), abs=1e-14)
    support_m = value_n[weight_n > 0]
    assert (free.low, free.high) == pytest.approx((support_m.min(), support_m.max()), abs=1e-12)
    huge = bound_mean(weight_n, value_n, 1e12)
    assert (huge.low, huge.high) == pytest.approx((support_m.min(), support_m.max()), abs=1e-8)


def test_the_range_grows_with_the_factor_and_knows_no_scale() -> None:
    weight_n, value_n = weights_and_values(5, 300)
    ranges = [bound_mean(weight_n, value_n, factor) for factor in (1.0, 1.1, 2.0, 3.0, 10.0)]
    assert all(np.diff([each.low for each in ranges]) < 0)
    assert all(np.diff([each.high for each in ranges]) > 0)
    scaled = bound_mean(1e-200 * weight_n, value_n, 2.0)
    assert (scaled.low, scaled.high) == pytest.approx((ranges[2].low, ranges[2].high), rel=1e-13)
    moved = bound_mean(weight_n, 1e6 - 3 * value_n, 2.0)
    assert (1e6 - moved.high) / 3 == pytest.approx(ranges[2].low, abs=1e-9)
    assert (1e6 - moved.low) / 3 == pytest.approx(ranges[2].high, abs=1e-9)


def test_a_share_has_odds_that_move_by_the_factor() -> None:
    """For values 0 and 1 the odds of the mean lie between odds/Γ and odds·Γ."""
    weight_n, value_n = weights_and_values(6, 400)
    found = bound_mean(weight_n, value_n > 0, 1.7)
    odds = found.value / (1 - found.value)
    assert found.low / (1 - found.low) == pytest.approx(odds / 1.7)
    assert found.high / (1 - found.high) == pytest.approx(odds * 1.7)


def test_plain_weights_have_the_textbook_error_and_groups_count_once() -> None:
    _, value_n = weights_and_values(10, 400)
    found = bound_mean(np.ones(400), value_n, 1.0)
    half = 1.959963984540054 * value_n.std() / 20
    assert found.interval == pytest.approx((found.value - half, found.value + half))
    twice = bound_mean(np.ones(800), np.repeat(value_n, 2), 1.5, group=np.repeat(np.arange(400), 2))
    assert twice.interval == pytest.approx(bound_mean(np.ones(400), value_n, 1.5).interval)


@pytest.mark.parametrize("cells", [1, 3])
def test_the_error_of_an_end_is_that_of_a_mean_with_the_changed_weights(cells: int) -> None:
    """z √(Σ p² (h − end)²), with the end of its own stratum for each image."""
    weight_n, value_n = weights_and_values(12, 120)
    cell_n = np.arange(120) % cells
    found = bound_mean(weight_n, value_n, 4.0, cell=cell_n)
    for changed_n, half in (
        (found.weight_low, found.low - found.interval[0]),
        (found.weight_high, found.interval[1] - found.high),
    ):
        end_c = np.bincount(cell_n, weights=changed_n * value_n) / np.bincount(
            cell_n, weights=changed_n
        )
        assert half == pytest.approx(
            1.959963984540054 * np.linalg.norm(changed_n * (value_n - end_c[cell_n]))
        )


def test_with_factor_1_the_interval_is_that_of_the_weights() -> None:
    drawn = tilts(1500, n_sources=3, group_size=5, rng=1)
    weights = unskew.debias_weights(drawn.omega, drawn.source, group=drawn.group)
    value_n = drawn.features[:, 0]
    estimate = weights.mean(value_n, level=0.9)
    for cell in (None, value_n > 0):
        found = bound_weights_mean(weights, value_n, 1.0, level=0.9, cell=cell)
        assert found.value == pytest.approx(estimate.value)
        assert found.interval == pytest.approx(estimate.interval, rel=1e-9)


def test_the_error_of_an_end_is_the_jackknife_of_the_bound_itself() -> None:
    """Delete one image, solve again, bound again: the linearisation that fixes c misses nothing of
    first order.
    """
    drawn = tilts(150, theta=[[0.0], [0.8]], rng=3)
    value_n = drawn.features[:, 0] ** 2
    weights = unskew.debias_weights(drawn.omega, drawn.source)
    found = bound_weights_mean(weights, value_n, 2.0)
    ends = []
    for row in range(150):
        kept = np.delete(np.arange(150), row)
        again = unskew.debias_weights(drawn.omega[kept], drawn.source[kept])
        ends.append(bound_weights_mean(again, value_n[kept], 2.0).high)
    spread = 0.0
    for k in (0, 1):
        of_source = np.array(ends)[drawn.source == k]
        spread += (
            (of_source.size - 1) / of_source.size * np.square(of_source - of_source.mean()).sum()
        )
    # Two first-order errors from 150 images of a skew value: they agree to a tenth.
    assert found.interval[1] - found.high == pytest.approx(1.96 * math.sqrt(spread), rel=0.1)


def test_the_interval_holds_the_range_of_the_population() -> None:
    """Over 300 draws of 200 exponential values. Their skewness costs two points of the 95% (2,000
    draws: 93.0%); standard error 1.5.
    """
    rng = np.random.default_rng(0)
    population = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000)
    truth = bound_mean(np.ones(population.size), population, 2.0)
    held = 0
    for _ in range(300):
        found = bound_mean(np.ones(200), rng.exponential(size=200), 2.0)
        held += found.interval[0] <= truth.low and truth.high <= found.interval[1]
    assert 0.885 <= held / 300 <= 0.975


def test_the_safe_factor_is_where_the_interval_reaches_the_threshold() -> None:
    drawn = tilts(2000, n_sources=3, rng=2)
    weights = unskew.debias_weights(drawn.omega, drawn.source)
    value_n = drawn.features[:, 0]
    found = bound_weights_mean(weights, value_n, 1.5, threshold=-0.5)
    assert 1.0 < found.safe_factor < found.turning_factor
    assert bound_weights_mean(weights, value_n, found.safe_factor).interval[0] == pytest.approx(
        -0.5, abs=1e-3
    )
    near = bound_weights_mean(weights, value_n, threshold=found.value + 1e-6)
    assert near.safe_factor == 1.0
    assert "Sampling error alone" in near.describe()[1]
    beyond = bound_weights_mean(weights, value_n, threshold=float(value_n.max()) + 10)
    assert (beyond.turning_factor, beyond.safe_factor) == (math.inf, math.inf)
    assert beyond.describe()[1].startswith("No such factor")


def test_it_says_what_it_found() -> None:
    found = bound_mean(np.ones(1000), np.arange(1000) < 400, 2.0, threshold=0.5)
    first, second = found.describe()
    assert first.startswith(
        "The target mean is 0.4. If selection differs from the model by an unknown factor of up to "
        "2 between images, it is"
    )
    assert "between 0.25 and 0.5714;" in first
    assert "stays away from 0.5" in second
    assert "a factor of 1.5 would be enough" in second
    assert len(bound_mean([1.0, 1.0], [0.0, 1.0]).describe()) == 1
    assert (
        "of one stratum of different levels"
        in bound_mean([1.0, 1.0], [0.0, 1.0], cell=[0, 0], by=[0, 1]).describe()[0]
    )


def test_it_says_which_population_the_mean_is_of() -> None:
    pool = unskew.Pool.from_arrays(np.repeat(["a", "b"], 50), label=np.tile(["cat", "dog"], 50))
    for mass, said in (
        ({"cat": 0.5, "dog": 0.5}, ()),
        ({"cat": 0.5, "dog": 0.3, "owl": 0.2}, ("owl (0.2)", "no images in any source")),
    ):
        target = unskew.Target.margins({"label": mass}, uncovered="restrict")
        found = (
            unskew.debias(pool, unskew.bias.Strata("label"), target)
            .sensitivity(np.arange(100.0))
            .describe()
        )
        assert len(found) == 1 + bool(said)
        assert all(word in found[-1] for word in said)


def test_images_without_weight_change_nothing() -> None:
    weight_n, value_n = weights_and_values(11, 100)
    cell_n = np.arange(100) % 4
    found = bound_mean(weight_n, value_n, 2.0, cell=cell_n, threshold=1.0)
    more = bound_mean(
        [*weight_n, 0.0, 0.0], [*value_n, 99.0, -99.0], 2.0, cell=[*cell_n, 0, 5], threshold=1.0
    )
    assert (more.low, more.high, *more.interval) == pytest.approx(
        (found.low, found.high, *found.interval)
    )
    assert (more.turning_factor, more.safe_factor) == pytest.approx(
        (found.turning_factor, found.safe_factor)
    )
    assert more.weight_high[100:].tolist() == [0.0, 0.0]


def test_a_single_image_has_no_range() -> None:
    found = bound_mean([2.0], [3.0], 5.0, threshold=4.0)
    assert (found.low, found.high, found.turning_factor) == (3.0, 3.0, math.inf)


@pytest.mark.parametrize(
    ("change", "error", "facts"),
    [
        ({"factor": 0.5}, unskew.ConfigError, {"option": "factor", "value": 0.5}),
        ({"factor": math.nan}, unskew.ConfigError, {"option": "factor"}),
        ({"factor": "2"}, unskew.ConfigError, {"option": "factor", "value": "2"}),
        ({"threshold": math.inf}, unskew.ConfigError, {"option": "threshold"}),
        ({"level": 95}, unskew.ConfigError, {"option": "level", "value": 95}),
        ({"weight": [1.0, -1.0, 1.0]}, unskew.DataError, {"row": 1, "value": -1.0}),
        ({"weight": [1.0, math.nan, 1.0]}, unskew.DataError, {"row": 1, "count": 1}),
        ({"weight": [0.0, 0.0, 0.0]}, unskew.DataError, {"option": "weight"}),
        ({"weight": [[1.0, 1.0, 1.0]]}, unskew.DataError, {"option": "weight", "value": [1, 3]}),
        ({"values": [1.0, 2.0]}, unskew.DataError, {"count": 3, "value": [2]}),
        ({"values": [1.0, 2.0, math.inf]}, unskew.DataError, {"row": 2, "value": math.inf}),
        ({"cell": [0, 1]}, unskew.DataError, {"option": "cell", "count": 3, "value": [2]}),
        ({"by": ["a", None, "b"]}, unskew.DataError, {"option": "by", "row": 1, "count": 1}),
    ],
)
def test_bad_input(change, error, facts) -> None:
    call = {"weight": [1.0, 1.0, 2.0], "values": [0.0, 1.0, 2.0]} | change
    with refused(error, **facts):
        bound_mean(**call)


def test_values_in_another_order_than_the_weights_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    drawn = tilts(100, n_sources=2, rng=0)
    weights = unskew.debias_weights(drawn.omega, drawn.source, id=np.arange(100) + 7)
    values = pd.Series(drawn.features[:, 0], index=weights.id)
    assert bound_weights_mean(weights, values).value == pytest.approx(weights.mean(values).value)
    with refused(unskew.DataError, option="values"):
        bound_weights_mean(weights, values[::-1])


# ---- strata


def linear_programme(weight_n, value_n, cell_n, factor):
    """(low, high) of Σ p h over p with the masses of the cells, and p/π within a factor in each."""
    used = np.flatnonzero(weight_n > 0)
    weight_n, value_n, cell_n = weight_n[used], value_n[used], cell_n[used]
    cells, code_n = np.unique(cell_n, return_inverse=True)
    n, n_cells = used.size, cells.size
    member_cn = (code_n == np.arange(n_cells)[:, None]).astype(float)
    # Variables: p, and the smallest ratio t_c of every cell: t_c π ≤ p ≤ Γ t_c π.
    scale_nc = weight_n[:, None] * member_cn.T
    upper = np.block([[np.eye(n), -factor * scale_nc], [-np.eye(n), scale_nc]])
    ends = [
        scipy.optimize.linprog(
            np.concatenate([sign * value_n, np.zeros(n_cells)]),
            A_ub=upper,
            b_ub=np.zeros(2 * n),
            A_eq=np.hstack([member_cn, np.zeros((n_cells, n_cells))]),
            b_eq=member_cn @ weight_n,
        ).fun
        * sign
        for sign in (1, -1)
    ]
    return ends[0], ends[1]


@pytest.mark.parametrize(
    "recipe",
    [strata_survey, margins_two, kept_survey, strata_survey_tilt],
    ids=lambda recipe: recipe.__name__,
)
def test_strata_keep_their_masses(recipe):
    data = recipe(np.random.default_rng(8))
    weights = data.debias()
    bound = weights.sensitivity(data.value, 1.7)
    strata = weights.estimation.fitted.strata.target
    for changed_n in (bound.weight_low, bound.weight_high):
        np.testing.assert_allclose(
            np.bincount(strata.code, changed_n), np.bincount(strata.code, weights.weight)
        )
    low, high = linear_programme(weights.weight, data.value, strata.code, 1.7)
    assert (bound.low, bound.high) == pytest.approx((low, high), rel=1e-7)
    assert "one stratum" in bound.describe()[0]
    # A value that is known by its stratum cannot move.
    known = weights.sensitivity(strata.code.astype(float), 5.0)
    assert (known.low, known.high) == pytest.approx((known.value, known.value))
    # As if masses could move.
    free = weights.sensitivity(data.value, 1.7, cell=np.zeros(data.value.size))
    assert free.low < bound.low
    assert bound.high < free.high
