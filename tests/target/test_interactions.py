"""Interactions that sources share: closed forms, an independent fit, and how far sources agree."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from target_pools import mass_of
from unskew import Pool, Target
from unskew.target.interactions import (
    agreement_sentences,
    fit_common_interactions,
    source_disagreement,
)

SQUARE = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
CUBE = list(np.unravel_index(np.arange(12), (3, 2, 2)))


def selected(joint, codes, n_sources, seed, strength=1.0):
    """Sources with ω_k = a_k(A) b_k(B) …"""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(n_sources):
        table = joint.copy()
        for code in codes:
            table = table * np.exp(strength * rng.normal(size=code.max() + 1))[code]
        tables.append(table / table.sum())
    return np.array(tables)


def without_main_effects(log_c, codes):
    z = np.hstack([np.eye(code.max() + 1)[code] for code in codes])
    return log_c - z @ np.linalg.lstsq(z, log_c, rcond=None)[0]


def test_sources_that_select_by_one_attribute_at_a_time_have_the_targets_interactions():
    joint = np.exp(np.random.default_rng(1).normal(size=12))
    # The correction for bias adds a few images in all.
    counts = 1e9 * selected(joint, CUBE, 3, 2)
    fitted = fit_common_interactions(counts, CUBE)
    np.testing.assert_allclose(
        without_main_effects(np.log(fitted.table_c), CUBE),
        without_main_effects(np.log(joint), CUBE),
        atol=1e-7,
    )
    pooled = without_main_effects(np.log(counts.sum(axis=0)), CUBE)
    assert np.abs(pooled - without_main_effects(np.log(joint), CUBE)).max() > 0.1
    assert (fitted.n_lacking, fitted.is_smoothed) == (0, False)


def test_the_fit_keeps_the_margins_of_every_source_and_the_pooled_table():
    rng = np.random.default_rng(3)
    counts = rng.poisson(8, size=(4, 12)).astype(float)
    counts[2] *= CUBE[0] != 1  # a source without a level
    for scale in (1.0, 1e8):
        fitted = fit_common_interactions(scale * counts, CUBE)
        # Leverages add up to the number of parameters. Beyond θ the sources have 5, 5, 4 and 5 main
        # effects, of which one set is θ's own; half of that is added.
        excess = fitted.fitted_kc.sum() - scale * counts.sum()
        assert excess == pytest.approx((5 + 5 + 4 + 5 - 5) / 2, rel=1e-6, abs=1e-7 * scale)
        np.testing.assert_array_equal(fitted.n_effects(4), [5, 5, 4, 5])
    np.testing.assert_allclose(fitted.fitted_kc.sum(axis=0), scale * counts.sum(axis=0), rtol=1e-6)
    for code in CUBE:
        z = np.eye(code.max() + 1)[code]
        np.testing.assert_allclose(fitted.fitted_kc @ z, scale * counts @ z, rtol=1e-6)


def test_many_small_sources_do_not_bias_the_interactions():
    # Without the correction the logarithm of the odds ratio would be a third too large.
    joint = np.array([0.4, 0.1, 0.15, 0.35])
    truth = np.log(0.4 * 0.35 / (0.1 * 0.15))
    tables = selected(joint, SQUARE, 200, 8, 0.7)
    rng = np.random.default_rng(9)
    found = []
    for _ in range(20):
        counts = np.array([rng.multinomial(6, table) for table in tables], dtype=float)
        w = fit_common_interactions(counts, SQUARE).table_c
        found.append(np.log(w[0] * w[3] / (w[1] * w[2])))
    # A standard deviation of 0.2 over 20 data sets: 0.045.
    assert np.mean(found) == pytest.approx(truth, abs=0.2)


def test_an_independent_maximum_of_the_likelihood_is_the_same():
    counts = np.array([[30.0, 5, 9, 12], [4, 11, 3, 40], [2, 6, 5, 3]])

    def loss(parameters):
        odds, main = parameters[0], parameters[1:].reshape(3, 3)
        log = main[:, [0]] + main[:, [1]] * SQUARE[0] + main[:, [2]] * SQUARE[1]
        log = log + odds * (SQUARE[0] * SQUARE[1])
        return float((np.exp(log) - counts * log).sum())

    found = minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-9})
    w = fit_common_interactions(1e7 * counts, SQUARE).table_c
    # BFGS with differences stops at about 1e-6.
    assert np.log(w[0] * w[3] / (w[1] * w[2])) == pytest.approx(found.x[0], abs=1e-4)


def test_one_source_has_its_own_table():
    counts = np.array([[3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
    np.testing.assert_allclose(fit_common_interactions(counts, CUBE).table_c, counts[0], rtol=1e-10)


def test_what_no_source_shows_is_taken_from_the_pool():
    apart = fit_common_interactions(np.array([[5.0, 6, 0, 0], [0, 0, 7, 3]]), SQUARE)
    np.testing.assert_allclose(apart.table_c, [5, 6, 7, 3], rtol=1e-10)
    assert apart.n_lacking == 1
    # Of three levels two are seen side by side: their odds ratio is that source's.
    codes = [np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)]
    counts = np.array([[5.0, 6, 4, 9, 0, 0], [0, 0, 0, 0, 4, 9], [8, 0, 9, 0, 0, 0]])
    partly = fit_common_interactions(1e8 * counts, codes)
    w = partly.table_c
    assert partly.n_lacking == 1
    assert w[0] * w[3] / (w[1] * w[2]) == pytest.approx(5 * 9 / (6 * 4), rel=1e-6)
    assert any("1 interaction " in each for each in agreement_sentences(partly, None, "abc"))


def test_levels_that_sources_share_in_a_chain_link_them():
    codes = [np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)]
    counts = np.array([[5.0, 6, 4, 9, 0, 0], [0, 0, 7, 3, 4, 9]])
    fitted = fit_common_interactions(1e8 * counts, codes)
    w = fitted.table_c
    assert fitted.n_lacking == 0
    assert w[0] * w[3] / (w[1] * w[2]) == pytest.approx(5 * 9 / (6 * 4), rel=1e-6)
    assert w[2] * w[5] / (w[3] * w[4]) == pytest.approx(7 * 9 / (3 * 4), rel=1e-6)


def test_odds_ratios_of_zero_are_smoothed_and_that_is_said():
    # Positive margins everywhere, and no maximum: both sources have an odds ratio of 0.
    w = fit_common_interactions(np.array([[0.0, 6, 5, 4], [3, 4, 7, 0]]), SQUARE).table_c
    assert 0 < w[0] * w[3] / (w[1] * w[2]) < 0.2
    # So few images that the correction for bias does not help either.
    codes = [np.array([0, 1, 1, 2, 2, 3, 3, 3]), np.array([0, 0, 2, 1, 2, 0, 1, 2])]
    counts = np.array([[2.0, 1, 0, 1, 1, 0, 0, 0], [9, 0, 1, 0, 0, 3, 3, 1]])
    fitted = fit_common_interactions(counts, codes)
    assert fitted.is_smoothed
    assert np.isfinite(np.log(fitted.table_c)).all()
    assert any("spread over the cells" in each for each in agreement_sentences(fitted, None, "ab"))


@pytest.mark.parametrize("lacking", [False, True])
def test_the_jacobian_agrees_with_differences(lacking):
    rng = np.random.default_rng(4)
    counts = 1e5 * (rng.poisson(20, size=(3, 12)) + 1.0)
    if lacking:
        counts[:2] *= CUBE[0] != 2
        counts[2] *= (CUBE[0] == 2) & (CUBE[1] == 0)
        counts = np.vstack([counts, 7e5 * ((CUBE[0] == 2) & (CUBE[1] == 1))])
    fitted = fit_common_interactions(counts, CUBE)
    assert (fitted.n_lacking > 0) == lacking
    for k, c in [(0, 0), (1, 5), (2, 9)]:
        if counts[k, c] == 0:
            continue
        step = np.zeros_like(counts)
        step[k, c] = 10.0
        ends = [
            np.log(fit_common_interactions(counts + sign * step, CUBE).table_c) for sign in (1, -1)
        ]
        slope_c = without_main_effects((ends[0] - ends[1]) / (2 * step[k, c]), CUBE)
        # How the correction for bias changes is left out.
        np.testing.assert_allclose(
            without_main_effects(fitted.log_jacobian(k)[:, c], CUBE),
            slope_c,
            atol=1e-4 * np.abs(slope_c).max(),
        )


def shift_of(tables, sizes, seed=0):
    rng = np.random.default_rng(seed)
    counts = np.array(
        [rng.multinomial(n, p) for n, p in zip(sizes, tables, strict=True)], dtype=float
    )
    common = fit_common_interactions(counts, SQUARE)
    return source_disagreement(common, np.full(4, 0.25), SQUARE, np.ones(len(sizes)))


def test_disagreement_is_measured_in_shares_not_in_p_values():
    agree = selected(np.array([0.4, 0.1, 0.2, 0.3]), SQUARE, 3, 5)
    # All but 5% of such data sets, by construction; 100 of them: at most 12.
    assert sum(shift_of(agree, (300, 200, 30), seed).shift > 0 for seed in range(100)) <= 12
    own = np.array([0.26, 0.24, 0.24, 0.26])
    nearly = shift_of([np.full(4, 0.25), own], (200_000, 200_000))
    # They are 0.02 apart, so both are 0.01 from the common table; measured to 0.001.
    assert nearly.shift == pytest.approx(0.01, abs=0.003)
    assert not nearly.is_large
    far = shift_of([np.full(4, 0.25), np.array([0.4, 0.1, 0.1, 0.4])], (2000, 2000))
    # The common table is about half way between 0 and 0.3.
    assert far.is_large
    assert 0.1 < far.shift < 0.2


def test_margins_are_raked_from_within_sources_by_default_and_say_so():
    rng = np.random.default_rng(6)
    tables = selected(np.array([0.4, 0.1, 0.2, 0.3]), SQUARE, 2, 7, 1.5)
    cell = np.concatenate([rng.choice(4, 400, p=table) for table in tables])
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 400), A=cell // 2, B=np.array(["x", "y"])[cell % 2]
    )
    margins = {"A": {0: 0.5, 1: 0.5}, "B": {"x": 0.6, "y": 0.4}}
    strata = Target.margins(margins).stratify(pool)
    mass = mass_of(strata)
    counts = np.array([np.bincount(cell[:400]), np.bincount(cell[400:])], dtype=float)
    w = fit_common_interactions(counts, SQUARE).table_c
    found = [mass[str(a), b] for a, b in itertools.product((0, 1), "xy")]
    assert found[0] * found[3] / (found[1] * found[2]) == pytest.approx(
        w[0] * w[3] / (w[1] * w[2]), rel=1e-9
    )
    assert found[0] + found[1] == pytest.approx(0.5)
    text = " ".join(strata.describe())
    assert "those that the sources share" in text
    assert "agree on these interactions" in text
    # The order of sources and of rows changes nothing.
    order = rng.permutation(800)
    again = mass_of(Target.margins(margins).stratify(Pool.from_frame(pool.frame.iloc[order])))
    assert again == pytest.approx(mass, abs=1e-12)
