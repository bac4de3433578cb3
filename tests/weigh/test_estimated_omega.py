"""Standard errors when ω was estimated: closed forms, derivatives taken numerically by an
independent fit, and invariances.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from simulations import (
    DataSet,
    make_pool,
    make_sample,
    strata,
    strata_groups,
    strata_raked,
    strata_source,
    strata_survey,
    strata_thin,
    strata_tilt,
    tilt_groups,
    tilt_small,
    tilt_source,
)
from unskew.bias import Known, Product, Strata, Tilt
from unskew.records import Pool, Target
from unskew.weigh.estimated_omega import (
    estimated_covariance,
    influence_of_estimate,
    mass_variances,
)


def draw(recipe, seed: int = 0) -> DataSet:
    return recipe(np.random.default_rng(seed))


# ---- post-stratification: closed forms


def post_stratified(
    value: np.ndarray, label: np.ndarray, mass: dict[str, float]
) -> tuple[float, float]:
    """(mean, variance) Σ_c p_c m_c and Σ_c p_c² s_c²/N_c, by pandas."""
    groups = pd.Series(value).groupby(label)
    p = pd.Series(mass)
    return float((p * groups.mean()).sum()), float((p**2 * groups.var() / groups.size()).sum())


def test_strata_have_the_post_stratified_variance():
    data = draw(strata)
    mean, variance = post_stratified(
        data.value, data.pool.frame["label"].to_numpy(), {"a": 0.5, "b": 0.3, "c": 0.2}
    )
    found = data.debias().mean(data.value)
    assert found.value == pytest.approx(mean, rel=1e-12)
    assert found.stderr == pytest.approx(math.sqrt(variance), rel=1e-12)


def test_the_error_of_the_margin_is_added():
    # Var = Σ p² s²/N + mᵀ Cov(p̂) m, and for a survey mᵀ Cov m = (Σ p m² − (Σ p m)²)/(n − 1) at
    # shares with half an image more in every level.
    data = draw(strata_survey)
    label = data.pool.frame["label"].to_numpy()
    mass = dict(zip(data.target.facts[0].cells, data.target.facts[0].mass, strict=True))
    p = {level: mass[(level,)] for level in "abc"}
    _, within = post_stratified(data.value, label, p)
    m = pd.Series(data.value).groupby(label).mean()
    half = (150 * pd.Series(p) + 0.5) / 151.5
    between = float((half * m**2).sum() - (half * m).sum() ** 2) / 149
    assert data.debias().mean(data.value).stderr == pytest.approx(
        math.sqrt(within + between), rel=1e-10
    )


def test_masses_raked_from_the_pool_carry_its_sampling_error():
    # Deville & Särndal 1992: a raked mean varies by the residuals of a regression on the margins,
    # each image by its weight.
    data = draw(strata_raked)
    weights = data.debias()
    label, light = (data.pool.frame[name].to_numpy() == "a" for name in ("label", "light"))
    margin = np.column_stack([np.ones(200), label, light])
    root = np.sqrt(weights.weight)[:, None]
    fitted = margin @ np.linalg.lstsq(root * margin, root[:, 0] * data.value, rcond=None)[0]
    influence = weights.weight * (data.value - fitted)
    centred = influence - np.repeat([influence[:100].mean(), influence[100:].mean()], 100)
    # Strata divide by N − 1 within each of four strata, sources by n − 1: 3% at the least of them,
    # 40 images.
    assert weights.mean(data.value).stderr == pytest.approx(np.sqrt(centred @ centred), rel=0.02)


def test_duplicates_within_groups_change_no_error_of_raked_masses():
    data = draw(strata_raked)
    frame = data.pool.frame.assign(group=np.arange(200))
    twice = pd.concat([frame, frame.assign(id=frame["id"] + 200)], ignore_index=True)
    once = DataSet(Pool(frame), data.bias, data.target, data.value, data.truth)
    both = DataSet(Pool(twice), data.bias, data.target, np.tile(data.value, 2), data.truth)
    stderr = once.debias().mean(once.value).stderr
    assert stderr == pytest.approx(data.debias().mean(data.value).stderr, rel=1e-12)
    assert both.debias().mean(both.value).stderr == pytest.approx(stderr, rel=1e-9)


def test_a_table_of_interactions_that_is_given_has_no_error():
    data = draw(strata_raked)
    table = data.pool.frame.groupby(["label", "light"]).size().rename("count").reset_index()
    margins = {
        fact.name: {cell[0]: mass for cell, mass in zip(fact.cells, fact.mass, strict=True)}
        for fact in data.target.facts
    }
    given, pooled = (
        Target.margins(margins, interactions=interactions) for interactions in (table, "pool")
    )
    exact = DataSet(data.pool, data.bias, given, data.value, data.truth).debias()
    from_pool = DataSet(data.pool, data.bias, pooled, data.value, data.truth).debias()
    np.testing.assert_allclose(exact.weight, from_pool.weight, rtol=1e-9)
    assert exact.mean(data.value).stderr < 0.5 * from_pool.mean(data.value).stderr


def test_one_source_and_one_stratum_is_the_textbook():
    rng = np.random.default_rng(1)
    value = rng.exponential(size=25)
    pool = make_pool(np.zeros(25, dtype=np.int64), label=np.full(25, "a", dtype=object))
    found = (
        DataSet(pool, Strata("label"), Target.margins({"label": {"a": 1.0}}), value, 1.0)
        .debias()
        .mean(value)
    )
    low, high = scipy.stats.t.interval(0.95, 24, value.mean(), value.std(ddof=1) / 5)
    assert found.stderr == pytest.approx(value.std(ddof=1) / 5, rel=1e-12)
    assert found.interval == pytest.approx((low, high), rel=1e-9)


def test_groups_of_one_image_change_nothing():
    data = draw(strata_thin)
    frame = data.pool.frame.assign(group=np.arange(len(data.pool)))
    grouped = DataSet(Pool(frame), data.bias, data.target, data.value, data.truth)
    assert grouped.debias().mean(data.value).stderr == pytest.approx(
        data.debias().mean(data.value).stderr, rel=1e-12
    )


def test_the_variance_of_strata_with_groups_is_right_on_average():
    # Given sizes and labels, Var μ̂ = Σ_g (Σ_{i in g} π_i)² + 0.49 Σ_i π_i²: deviations of variance
    # 1 by group, 0.49 by image.
    ratio = []
    for seed in range(60):
        data = draw(strata_groups, seed)
        weights = data.debias()
        exact = (
            np.square(np.bincount(data.pool.frame["group"], weights.weight)).sum()
            + 0.49 * np.square(weights.weight).sum()
        )
        ratio.append(weights.mean(data.value).stderr ** 2 / exact)
    # 250 data sets gave 1.01 ± 0.013; one variance spreads by 20%.
    assert np.mean(ratio) == pytest.approx(1.0, abs=4 * 0.2 / math.sqrt(60))


def test_known_factors_of_one_leave_strata_as_they_are():
    data = draw(strata)
    product = DataSet(
        data.pool,
        Product(Strata("label"), Known({"a": 1.0, "b": 1.0})),
        data.target,
        data.value,
        data.truth,
    )
    assert product.debias().mean(data.value).interval == pytest.approx(
        data.debias().mean(data.value).interval, rel=1e-10
    )


# ---- influence functions: derivatives with respect to how often an image counts, of a fit by
# somebody else's optimiser


def fit_counted(phi, source, cell, n_sources, reference, count, ridge):
    """(θ, u) that minimise −Σ_i count_i log q_{i,s_i} + ridge/2 ‖θ‖², by a general-purpose
    optimiser.
    """
    n_cells, n_features = cell.max() + 1, phi.shape[1]
    free = [k for k in range(n_sources) if k != reference]

    def split(x):
        theta = np.zeros((n_sources, n_features))
        theta[free] = x[: len(free) * n_features].reshape(len(free), n_features)
        u = np.zeros((n_cells, n_sources))
        u[:, 1:] = x[len(free) * n_features :].reshape(n_cells, n_sources - 1)
        return theta, u

    def value(x):
        theta, u = split(x)
        logit = phi @ theta.T + u[cell]
        total = scipy.special.logsumexp(logit, axis=1)
        residual = count[:, None] * (
            np.exp(logit - total[:, None]) - (source[:, None] == np.arange(n_sources))
        )
        g_theta = (residual.T @ phi + ridge * theta)[free].ravel()
        g_u = np.array([residual[cell == c].sum(axis=0)[1:] for c in range(n_cells)]).ravel()
        own = logit[np.arange(source.size), source]
        return count @ (total - own) + ridge / 2 * np.square(theta).sum(), np.concatenate(
            [g_theta, g_u]
        )

    start = np.zeros(len(free) * n_features + n_cells * (n_sources - 1))
    found = scipy.optimize.minimize(
        value, start, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 2000}
    )
    # Newton's steps with a numerical Hessian of the exact gradient, to the last digits.
    x = found.x
    for _ in range(4):
        gradient = value(x)[1]
        hessian = np.array(
            [(value(x + 1e-5 * e)[1] - value(x - 1e-5 * e)[1]) / 2e-5 for e in np.eye(x.size)]
        )
        x = x - np.linalg.solve(hessian, gradient)
    return split(x)


def counted_mean(data: DataSet, weights, count: np.ndarray, value_r: np.ndarray) -> float:
    """μ̂ when image i counts ``count_i`` times: the fit and the weights written out anew."""
    fitted = weights.estimation.fitted
    rows, tilt = fitted.data, fitted.factors[0]
    phi = tilt.feature_map.read(rows.frame)
    theta, u = fit_counted(
        phi, rows.source, rows.cell, rows.n_sources, tilt.reference, count, tilt.ridge
    )
    kept = np.arange(rows.n_sources) != rows.sample
    logit = (phi @ theta.T + u[rows.cell])[:, kept]
    v = (
        count
        * np.exp(-scipy.special.logsumexp(logit, axis=1))
        * (np.arange(rows.source.size) < rows.n_pool)
    )
    if fitted.strata is None:
        return float(v @ value_r / v.sum())
    means = [
        v[rows.cell == c] @ value_r[rows.cell == c] / v[rows.cell == c].sum()
        for c in range(rows.n_cells)
    ]
    return float(fitted.strata.target.mass @ means)


@pytest.mark.parametrize("recipe", [tilt_small, tilt_source, strata_tilt])
def test_influence_is_the_derivative_of_the_whole_estimation(recipe):
    data = draw(recipe, 5)
    weights = data.debias()
    rows = weights.estimation.rows
    value_r = np.zeros(rows.weight.size)
    value_r[: data.value.size] = data.value
    count = np.ones(value_r.size)
    assert counted_mean(data, weights, count, value_r) == pytest.approx(
        weights.mean(data.value).value, abs=1e-7
    )
    cell = rows.profile.cell
    mean_c = np.array(
        [
            rows.weight[cell == c] @ value_r[cell == c] / rows.weight[cell == c].sum()
            for c in range(cell.max() + 1)
        ]
    )
    influence, _ = influence_of_estimate(
        rows, rows.weight * (value_r - mean_c[cell]) * (rows.weight > 0)
    )
    # A few images of every source, those of the target's sample among them.
    step = 1e-3
    for row in [0, 77, 200, value_r.size - 20, value_r.size - 1]:
        up, down = count.copy(), count.copy()
        up[row] += step
        down[row] -= step
        slope = (
            counted_mean(data, weights, up, value_r) - counted_mean(data, weights, down, value_r)
        ) / (2 * step)
        # Central differences: step²/6 times the third derivative, far below 1e-4 of the largest
        # influence.
        assert influence[row] == pytest.approx(slope, abs=1e-4 * np.abs(influence).max())


def test_the_influences_of_an_estimate_sum_to_zero_in_every_direction_that_was_fitted():
    # Σ_i score_i = 0 at the maximum (up to the ridge of 1e-6) and Σ_i π_i (h_i − m) = 0.
    data = draw(tilt_small)
    rows = data.debias().estimation.rows
    value = np.concatenate([data.value, np.zeros(rows.weight.size - data.value.size)])
    pull = rows.weight * (value - rows.weight @ value) * (rows.weight > 0)
    influence, _ = influence_of_estimate(rows, pull)
    assert abs(influence.sum()) <= 1e-6 * np.abs(influence).sum()


def test_the_error_is_the_spread_of_unit_sums_for_a_source_as_reference():
    """Without leverage: Σ_k Σ_{i in k} (ψ_i − ψ̄_k)², at most a few percent below what is
    reported.
    """
    data = draw(tilt_source)
    weights = data.debias()
    rows = weights.estimation.rows
    influence, curved = influence_of_estimate(
        rows, rows.weight * (data.value - weights.mean(data.value).value)
    )
    centred = (
        influence - (np.bincount(rows.source, influence) / np.bincount(rows.source))[rows.source]
    )
    model = (
        float(np.square(rows.weight * (data.value - weights.mean(data.value).value)).sum()) + curved
    )
    larger = max(float(centred @ centred), model)
    assert 0 <= weights.mean(data.value).stderr / math.sqrt(larger) - 1 + 1e-12 <= 0.05


# ---- log Ω̂


def test_covariance_of_the_normalizers_against_their_spread_over_data_sets():
    # ω of a tilt is 1 at the mean of its features, which differs from data set to data set; the
    # covariance is that of log Ω̂ when the place where ω is 1 stays: at the expectation of that
    # mean, (150 × 0.7 − 150 × 0.5)/360.
    middle = pd.DataFrame({"x": [30 / 360]})
    found, variance = [], []
    for seed in range(60):
        weights = draw(tilt_source, seed).debias()
        found.append(
            (weights.solution.log_normalizer - weights.estimation.fitted.log_omega(middle)[0])[:2]
        )
        variance.append(np.diag(estimated_covariance(weights.estimation.rows))[:2])
    # 60 data sets tell a standard deviation to 9% (one sd), four of which are allowed.
    assert np.sqrt(np.mean(variance, axis=0)) == pytest.approx(np.std(found, axis=0), rel=0.36)
    assert weights.covariance() == pytest.approx(estimated_covariance(weights.estimation.rows))


def test_with_strata_the_normalizers_are_one_without_error():
    weights = draw(strata_tilt).debias()
    assert (weights.covariance() == 0).all()
    assert weights.normalizer == pytest.approx(1.0)


# ---- invariances


@pytest.mark.parametrize(
    "recipe",
    [
        strata,
        strata_survey,
        strata_source,
        strata_groups,
        tilt_small,
        tilt_source,
        tilt_groups,
        strata_tilt,
    ],
)
def test_shift_and_scale_of_the_values(recipe):
    data = draw(recipe, 3)
    weights = data.debias()
    plain, moved = weights.mean(data.value), weights.mean(7.0 - 3.0 * data.value)
    assert moved.value == pytest.approx(7.0 - 3.0 * plain.value, rel=1e-9)
    assert moved.stderr == pytest.approx(3.0 * plain.stderr, rel=1e-6)


@pytest.mark.parametrize("recipe", [strata, strata_groups, tilt_small, tilt_source, strata_tilt])
def test_the_order_of_the_images_does_not_matter(recipe):
    data = draw(recipe, 3)
    order = np.random.default_rng(0).permutation(len(data.pool))
    shuffled = DataSet(
        Pool(data.pool.frame.iloc[order]), data.bias, data.target, data.value[order], data.truth
    )
    assert shuffled.debias().mean(shuffled.value).interval == pytest.approx(
        data.debias().mean(data.value).interval, rel=1e-6, abs=1e-7
    )


@pytest.mark.parametrize("recipe", [strata, strata_groups, tilt_source, tilt_groups])
def test_copies_of_every_image_within_its_group_change_no_error(recipe):
    data = draw(recipe, 3)
    frame, n = data.pool.frame, len(data.pool)
    if "group" not in frame:
        frame = frame.assign(group=np.arange(n))
    twice = pd.concat([frame, frame.assign(id=np.arange(n, 2 * n))], ignore_index=True)
    target = data.target
    if target.kind == "sample":
        own = target.reference.frame
        target = Target.sample(
            Pool(pd.concat([own, own.assign(id=own["id"] + len(own))], ignore_index=True))
        )
    single = (
        DataSet(Pool(frame), data.bias, data.target, data.value, data.truth)
        .debias()
        .mean(data.value)
    )
    double = (
        DataSet(Pool(twice), data.bias, target, np.tile(data.value, 2), data.truth)
        .debias()
        .mean(np.tile(data.value, 2))
    )
    # The ridge of 1e-6 does not double with the images.
    assert double.interval == pytest.approx(single.interval, rel=1e-5, abs=1e-6)


def test_a_larger_sample_of_the_target_means_a_smaller_error():
    rng = np.random.default_rng(4)
    source = np.repeat([0, 1], 200)
    x = rng.normal(np.array([0.7, -0.5])[source], 1.0)
    value = x + rng.normal(size=400)
    errors = [
        DataSet(
            make_pool(source, x=x), Tilt(["x"]), make_sample(m, x=rng.normal(size=m)), value, 0.0
        )
        .debias()
        .mean(value)
        .stderr
        for m in (30, 300, 3000)
    ]
    assert errors[0] > errors[1] > errors[2]


# ---- what has no error


def test_constant_values_have_no_error():
    data = draw(tilt_small)
    found = data.debias().mean(np.full(len(data.pool), 2.5))
    assert found.value == pytest.approx(2.5)
    assert found.stderr == 0.0


def test_values_that_are_constant_within_strata_have_the_margins_error_alone():
    data = draw(strata_survey)
    label = (data.pool.frame["label"].to_numpy()[:, None] == np.array(["a", "b", "c"])).argmax(
        axis=1
    )
    p = (150 * np.array(data.target.facts[0].mass) + 0.5) / 151.5
    m = np.arange(3.0)
    expected = math.sqrt((p @ m**2 - (p @ m) ** 2) / 149)
    assert data.debias().mean(label).stderr == pytest.approx(expected, rel=1e-9)


def test_one_group_for_each_source_has_no_finite_error():
    data = draw(strata)
    grouped = DataSet(
        Pool(data.pool.frame.assign(group=data.pool.source)),
        data.bias,
        data.target,
        data.value,
        data.truth,
    )
    assert grouped.debias().mean(data.value).stderr == math.inf


# ---- small surveys


def test_a_level_that_the_survey_missed_widens_the_interval_by_what_it_could_change():
    label = np.array(list("aaaabbbbcccc") * 5, dtype=object)
    pool = make_pool(np.repeat([0, 1], 30), label=label)
    value = {"a": 1.0, "b": 2.0, "c": 9.0}
    value_n = np.array([value[level] for level in label])
    survey = {"mass": {"a": 12, "b": 8, "c": 0}, "n": 20}
    data = DataSet(pool, Strata("label"), Target.margins({"label": survey}), value_n, 0.0)
    found = data.debias().mean(value_n)
    p = (20 * np.array([0.6, 0.4, 0.0]) + 0.5) / 21.5
    m = np.array([1.0, 2.0, 9.0])
    stderr = math.sqrt((p @ m**2 - (p @ m) ** 2) / 19)
    assert found.value == pytest.approx(1.4)
    assert found.stderr == pytest.approx(stderr, rel=1e-12)
    # All of the error is the survey's: 19 degrees of freedom.
    reach = scipy.stats.t.ppf(0.975, 19) * stderr
    assert found.interval == pytest.approx((1.4 - reach, 1.4 + reach), rel=1e-9)
    # A constant is known, whatever the survey missed, and an offset changes no error.
    assert data.debias().mean(np.full(60, 3.0)).stderr == pytest.approx(0.0, abs=1e-9)
    assert data.debias().mean(value_n + 100).stderr == pytest.approx(stderr, rel=1e-9)


def test_degrees_of_freedom_are_those_of_survey_and_images_together():
    data = draw(strata_survey)
    weights = data.debias()
    found = weights.mean(data.value)
    rows = weights.estimation.rows
    (error,) = rows.mass_errors
    margin = float(mass_variances(rows, data.value)[0])
    images = found.stderr**2 - margin
    exact = DataSet(
        data.pool,
        data.bias,
        Target.margins({"label": dict(zip("abc", data.target.facts[0].mass, strict=True))}),
        data.value,
        data.truth,
    )
    alone = exact.debias().mean(data.value)
    assert alone.stderr**2 == pytest.approx(images)
    quantile = (alone.interval[1] - alone.value) / alone.stderr
    freedom = scipy.optimize.brentq(lambda nu: scipy.stats.t.ppf(0.975, nu) - quantile, 2, 1e4)
    joint = (images + margin) ** 2 / (images**2 / freedom + margin**2 / error.freedom)
    reach = scipy.stats.t.ppf(0.975, joint) * found.stderr
    assert found.interval[1] == pytest.approx(found.value + reach, rel=1e-6)
