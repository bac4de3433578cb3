"""Facts of tilts: marginals, normalizers, target means, groups."""

import numpy as np
import pytest
from scipy import stats

from raising import refused
from unskew.errors import ConfigError
from unskew.scenarios import Scenario, tilts

_THETA = np.array([[0.0, 0.0], [0.8, -0.3], [-0.5, 1.0]])


@pytest.mark.parametrize("group_size", [None, 4])
def test_every_source_is_gaussian_around_its_tilt(group_size: int | None) -> None:
    """One image of each group (they are independent) against N(θ_k, I): Kolmogorov-Smirnov at 1e-4,
    twelve fixed draws.
    """
    scenario = tilts(24_000, theta=_THETA, group_size=group_size, rng=0)
    first = (
        np.arange(24_000)
        if scenario.group is None
        else np.unique(scenario.group, return_index=True)[1]
    )
    for k in range(3):
        mine = scenario.features[first[scenario.source[first] == k]]
        for d in range(2):
            assert stats.kstest(mine[:, d], "norm", args=(_THETA[k, d], 1.0)).pvalue > 1e-4
        assert abs(np.corrcoef(mine.T)[0, 1]) < 4.0 / np.sqrt(len(mine))


def test_last_member_of_a_group_has_the_same_marginal_as_the_first() -> None:
    scenario = tilts(24_000, theta=_THETA, group_size=4, rng=1)
    for member in range(4):
        residual = scenario.features[member::4] - _THETA[scenario.source[member::4]]
        assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("group_sd", [0.0, 0.5, 0.9])
def test_members_of_a_group_share_the_stated_correlation(group_sd: float) -> None:
    """Correlation τ² within a group, 0 between groups; tolerance 4 standard errors of a correlation
    (at most 1/√m).
    """
    scenario = tilts(40_000, theta=[[0.3], [-0.3]], group_size=2, group_sd=group_sd, rng=2)
    residual = (scenario.features - np.array([[0.3], [-0.3]])[scenario.source])[:, 0]
    pairs = residual.size // 2
    assert np.corrcoef(residual[0::2], residual[1::2])[0, 1] == pytest.approx(
        group_sd**2, abs=4 / np.sqrt(pairs)
    )
    assert np.corrcoef(residual[1:-1:2], residual[2::2])[0, 1] == pytest.approx(
        0.0, abs=4 / np.sqrt(pairs)
    )


def test_log_omega_is_linear_in_the_features() -> None:
    scenario = tilts([5, 6, 7], theta=_THETA, rng=3)
    for i in range(18):
        for k in range(3):
            assert scenario.log_omega[i, k] == pytest.approx(
                float(np.dot(_THETA[k], scenario.features[i])), abs=1e-13
            )
    np.testing.assert_allclose(scenario.omega, np.exp(scenario.log_omega), rtol=1e-15)


def test_normalizers_by_monte_carlo() -> None:
    """Ω_k = E[exp(θ_k·z)] over a million draws of N(0, I); tolerance 5 standard errors, known: Var
    = e^{2|θ|²} − e^{|θ|²}.
    """
    scenario = tilts(300, theta=_THETA, rng=4)
    z = np.random.default_rng(5).standard_normal((1_000_000, 2))
    for k in range(3):
        square = float(_THETA[k] @ _THETA[k])
        stderr = np.sqrt((np.exp(2 * square) - np.exp(square)) / len(z))
        assert abs(np.mean(np.exp(z @ _THETA[k])) - scenario.normalizer[k]) <= 5 * stderr


def _oracle_mean(scenario: Scenario, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Target mean with the true normalizers, (1/n) Σ_i h_i / Σ_k λ_k ω_ik/Ω_k, unbiased; and its
    standard error.
    """
    density_n = np.exp(scenario.log_omega - scenario.log_normalizer) @ (
        scenario.sizes / scenario.source.size
    )
    terms = values / density_n[:, None]
    return terms.mean(axis=0), terms.std(axis=0) / np.sqrt(len(values))


def test_target_means_hold_for_weights_with_the_true_normalizers() -> None:
    scenario = tilts(200_000, theta=_THETA, rng=6)
    for name, values in {
        "features": scenario.features,
        "features_squared": scenario.features**2,
    }.items():
        value, stderr = _oracle_mean(scenario, values)
        assert np.all(np.abs(value - scenario.target_mean[name]) <= 5 * stderr)


def test_extreme_tilts_do_not_overflow_in_logs() -> None:
    scenario = tilts(20, theta=[[0.0], [60.0]], rng=7)
    assert np.all(np.isfinite(scenario.log_omega))
    assert scenario.log_normalizer[1] == 1800.0
    assert scenario.normalizer[1] == np.inf


def test_groups_stay_within_a_source_and_have_the_size_asked_for() -> None:
    scenario = tilts([10, 7], n_sources=2, group_size=4, rng=8)
    assert scenario.group.tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 4 + [4] * 3
    assert scenario.source.tolist() == [0] * 10 + [1] * 7
    assert tilts(10, n_sources=2, rng=8).group is None


def test_default_tilts_are_evenly_spaced() -> None:
    np.testing.assert_allclose(
        tilts(30, n_sources=3, spread=2.0, rng=0).log_normalizer, [2.0, 0.0, 2.0], atol=1e-15
    )
    np.testing.assert_allclose(
        tilts(30, n_sources=7, dim=4, spread=2.0, rng=0).log_normalizer, 2.0, rtol=1e-14
    )
    assert tilts(30, n_sources=7, dim=4, rng=0).features.shape == (30, 4)
    assert tilts(30, n_sources=1, rng=0).log_normalizer.tolist() == [0.5]


def test_the_same_seed_draws_the_same_images_and_another_seed_others() -> None:
    once, again, other = (tilts(50, rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once.features, again.features)
    assert np.all(once.features != other.features)


@pytest.mark.parametrize(
    ("settings", "option", "value"),
    [
        ({"theta": [1.0, 2.0]}, "theta", [2]),
        ({"theta": [[np.nan]]}, "theta", [1, 1]),
        ({"group_sd": 1.5}, "group_sd", 1.5),
        ({"group_size": 0}, "group_size", 0),
        ({"n_sources": 0}, "n_sources", 0),
        ({"dim": 0}, "dim", 0),
    ],
)
def test_impossible_settings_are_refused(
    settings: dict[str, object], option: str, value: object
) -> None:
    with refused(ConfigError, option=option, value=value):
        tilts(100, **settings, rng=0)


def test_a_scenario_without_labels_has_no_estimated_omega() -> None:
    with refused(ConfigError, column="label"):
        _ = tilts(100, rng=0).omega_estimated
