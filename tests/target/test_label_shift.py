"""Shares of classes from scores: the maximum, its error, and the check."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from unskew.target.label_shift import (
    LabelledScores,
    check_black_box,
    hotelling_p,
    mixture_log_likelihood,
    profile_interval,
    share_errors,
    solve_shares,
)
from unskew.target.mass_covariance import multinomial_covariance
from unskew.target.score_calibration import fit_calibration
from worlds_label_shift import logits


def mixture(seed, shares, n, apart=1.5):
    rng = np.random.default_rng(seed)
    label = rng.choice(len(shares), n, p=shares)
    return logits(rng, label, len(shares), apart), label


def labelled(log_score, label):
    n = label.size
    return LabelledScores(log_score, label, np.ones(n), np.arange(n))


def estimate(target, validation):
    calibration = fit_calibration(
        validation.log_score, validation.label, validation.weight, validation.unit, "temperature"
    )
    share = solve_shares(calibration.log_ratio(target))
    unit = np.arange(target.shape[0])
    return share, share_errors(share, calibration, target, unit, validation), calibration


@pytest.mark.parametrize("shares", [[0.7, 0.2, 0.1], [0.9, 0.1, 0.0], [0.25] * 4])
def test_the_maximum_is_stationary_and_beats_every_neighbour(shares):
    ratio, _ = mixture(0, shares, 400)
    q = solve_shares(ratio)
    posterior = scipy.special.softmax(ratio + np.log(np.maximum(q, 1e-300)), axis=1)
    # a step of EM moves nothing
    np.testing.assert_allclose(posterior.mean(axis=0), q, atol=1e-10)
    h = np.exp(ratio) / (np.exp(ratio) @ q)[:, None]
    assert (h.mean(axis=0) <= 1 + 1e-10).all()
    rng = np.random.default_rng(1)
    for other in rng.dirichlet(np.ones(len(shares)), 200):
        assert (
            mixture_log_likelihood(np.exp(ratio), 0.9 * q + 0.1 * other)
            <= mixture_log_likelihood(np.exp(ratio), q) + 1e-9
        )


def test_the_maximum_agrees_with_a_general_optimiser():
    ratio, _ = mixture(3, [0.5, 0.3, 0.15, 0.05], 300)

    def loss(z):
        return -mixture_log_likelihood(np.exp(ratio), scipy.special.softmax(np.append(z, 0.0)))

    found = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    direct = scipy.special.softmax(np.append(found.x, 0.0))
    # BFGS stops at differences of 1e-8 in the likelihood, about 1e-5 in the shares
    np.testing.assert_allclose(solve_shares(ratio), direct, atol=2e-5)


def test_order_of_classes_and_copies_of_images_change_nothing():
    ratio, _ = mixture(4, [0.6, 0.3, 0.1], 200)
    q = solve_shares(ratio)
    order = [2, 0, 1]
    np.testing.assert_allclose(solve_shares(ratio[:, order]), q[order], atol=1e-9)
    np.testing.assert_allclose(solve_shares(np.vstack([ratio, ratio])), q, atol=1e-9)
    np.testing.assert_allclose(solve_shares(ratio, np.full(200, 7.0)), q, atol=1e-9)


def test_a_perfect_classifier_counts():
    """Shares are the counts, and their covariance that of a multinomial sample."""
    label = np.repeat([0, 1, 2], [50, 30, 120])
    validation = np.repeat([0, 1, 2], 40)
    share, errors, _ = estimate(
        np.log(0.98 * np.eye(3)[label] + 0.01),
        labelled(np.log(0.98 * np.eye(3) + 0.01)[validation], validation),
    )
    p = np.array([50, 30, 120]) / 200
    # the ridge of the calibration leaves log-odds of about 18
    np.testing.assert_allclose(share, p, atol=1e-6)
    # n/(n − 1), as variances are estimated
    np.testing.assert_allclose(
        errors.covariance, multinomial_covariance(p, 199), atol=1e-6 * p.max()
    )


def test_a_count_of_zero_has_the_error_of_about_two_images():
    label, validation = np.repeat([0, 1], [100, 100]), np.repeat([0, 1, 2], 40)
    scores = np.log(0.98 * np.eye(3) + 0.01)
    share, errors, calibration = estimate(scores[label], labelled(scores[validation], validation))
    assert share[2] < 1e-6
    assert np.sqrt(errors.covariance[2, 2]) == pytest.approx(np.sqrt(1.92) / 200, rel=0.05)
    low, high = profile_interval(calibration.log_ratio(scores[label]), share, 2, 0.95, 1.0)
    # (1 − q)²⁰⁰ = exp(−1.92)
    assert low == 0
    assert high == pytest.approx(1 - np.exp(-1.9207 / 200), rel=1e-3)


def test_known_densities_of_two_classes_have_fisher_s_error():
    """Independent formula: 1/(m mean ((r₁ − r₀)/(q r₁ + (1 − q) r₀))²)."""
    ratio, _ = mixture(5, [0.7, 0.3], 2000, 1.2)
    big_label = np.repeat([0, 1], 20000)
    big = logits(np.random.default_rng(6), big_label, 2, 1.2)
    share, errors, calibration = estimate(ratio, labelled(big, big_label))
    r = np.exp(calibration.log_ratio(ratio))
    q = scipy.optimize.brentq(
        lambda t: np.mean((r[:, 1] - r[:, 0]) / (t * r[:, 1] + (1 - t) * r[:, 0])), 1e-9, 1 - 1e-9
    )
    assert share[1] == pytest.approx(q, abs=1e-9)
    fisher = 1 / np.sum(((r[:, 1] - r[:, 0]) / (q * r[:, 1] + (1 - q) * r[:, 0])) ** 2)
    # sandwich and information differ by chance, here by their own error at 2,000 images
    assert errors.of_images[1, 1] == pytest.approx(fisher, rel=0.05)
    assert errors.covariance[1, 1] < 1.2 * fisher


def test_the_profile_interval_is_the_normal_one_inside():
    ratio, _ = mixture(7, [0.5, 0.3, 0.2], 4000)
    q = solve_shares(ratio)
    h = np.exp(ratio) / (np.exp(ratio) @ q)[:, None]
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:].T
    variance = basis @ np.linalg.inv(basis.T @ (h.T @ h) @ basis) @ basis.T
    low, high = profile_interval(ratio, q, 0, 0.95, 1.0)
    half = 1.96 * np.sqrt(variance[0, 0])
    np.testing.assert_allclose([low, high], [q[0] - half, q[0] + half], atol=0.03 * half)
    along = profile_interval(ratio, q, 0, 0.95, 1.0, variance[:, 0] / variance[0, 0])
    np.testing.assert_allclose(along, [low, high], atol=0.01 * half)
    wide = profile_interval(ratio, q, 0, 0.95, 4.0)
    np.testing.assert_allclose(np.diff(wide), 2 * np.diff((low, high)), rtol=0.03)


def test_the_error_of_the_calibration_counts_as_a_refit_shows():
    """The linear influence of validation images against a jackknife of the whole estimate."""
    target, _ = mixture(8, [0.6, 0.3, 0.1], 300)
    scores, label = mixture(9, [1 / 3] * 3, 90)
    _, errors, _ = estimate(target, labelled(scores, label))
    shares = []
    for left_out in range(90):
        kept = np.arange(90) != left_out
        shares.append(estimate(target, labelled(scores[kept], label[kept]))[0])
    jackknife = 89 / 90 * np.square(shares - np.mean(shares, axis=0)).sum(axis=0)
    linear = np.square(errors.validation_gc).sum(axis=0)
    # of 90 images; the jackknife also moves the shares of the labels, which change nothing
    np.testing.assert_allclose(linear, jackknife, rtol=0.15)


def test_a_group_of_copies_is_one_image():
    target, _ = mixture(10, [0.6, 0.3, 0.1], 200)
    scores, label = mixture(11, [1 / 3] * 3, 150)
    _, once, _ = estimate(target, labelled(scores, label))
    twice = LabelledScores(
        np.repeat(scores, 2, axis=0),
        np.repeat(label, 2),
        np.ones(300),
        np.repeat(np.arange(150), 2),
    )
    calibration = fit_calibration(
        twice.log_score, twice.label, twice.weight, twice.unit, "temperature"
    )
    doubled = np.repeat(target, 2, axis=0)
    share = solve_shares(calibration.log_ratio(doubled))
    errors = share_errors(share, calibration, doubled, np.repeat(np.arange(200), 2), twice)
    # n/(n − 1) within classes counts images
    np.testing.assert_allclose(errors.covariance, once.covariance, rtol=0.02, atol=1e-7)


def test_the_check_objects_to_other_looks_and_not_to_other_shares():
    scores, label = mixture(12, [1 / 3] * 3, 600, 1.8)
    for apart, objected in ((1.8, False), (1.0, True)):
        rng = np.random.default_rng(13)
        own = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
        target = 1.8 * (rng.normal(size=(600, 3)) + apart * np.eye(3)[own])
        validation = labelled(scores, label)
        share, errors, calibration = estimate(target, validation)
        check = check_black_box(share, calibration, errors, target, np.arange(600), validation)
        assert (check.p_value < 0.001) == objected
        if not objected:
            np.testing.assert_allclose(check.share, share, atol=0.06)
            assert check.p_value > 0.05


def test_hotelling_with_many_degrees_of_freedom_is_chi_squared():
    assert hotelling_p(7.0, 3, 1e9) == pytest.approx(scipy.stats.chi2.sf(7.0, 3), rel=1e-6)
    assert hotelling_p(7.0, 3, 10) > scipy.stats.chi2.sf(7.0, 3)
    assert hotelling_p(7.0, 3, 2) == 1
