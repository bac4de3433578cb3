"""The rows that are compared: cells where there are any, errors that count the estimation of ω."""

import numpy as np
import pytest

import unskew
from simulations import make_pool, make_sample
from unskew.bias import Known, Tilt
from unskew.weigh import compared_rows
from unskew.weigh.compared_rows import find_contrasts


def _tilted(rng: np.random.Generator, n: int) -> tuple[unskew.Pool, np.ndarray, np.ndarray]:
    source = np.repeat([0, 1, 2], n)
    x = rng.normal(np.array([-0.5, 0.0, 0.7])[source], 1.0)
    return make_pool(source, x=x), x, x + rng.normal(size=x.size)


def test_omega_of_few_values_is_compared_by_cells() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat([0, 1], 200)
    level = np.where(source == 0, rng.random(400) < 0.5, rng.random(400) < 0.8)
    omega = np.where(level[:, None], [1.0, 1.6], [1.0, 0.4])
    weights = unskew.debias_weights(omega, source)
    value = level + rng.normal(size=400)
    contrasts = find_contrasts(weights, value)
    mass = [weights.weight[level == which].sum() for which in (False, True)]
    own = [
        sum(mass[at] * value[(level == at) & (source == k)].mean() for at in (0, 1)) for k in (0, 1)
    ]
    assert contrasts.y == pytest.approx(own, rel=1e-9)


def test_known_omega_in_numbers_and_by_a_model_agree() -> None:
    pool, x, value = _tilted(np.random.default_rng(1), 150)
    omega = np.exp(x[:, None] * np.array([-0.5, 0.0, 0.7]))
    one = find_contrasts(unskew.debias_weights(omega, pool.source), value)
    other = find_contrasts(unskew.debias(pool, Known(omega)), value)
    assert one.y == pytest.approx(other.y, rel=1e-9)
    assert one.covariance == pytest.approx(other.covariance, rel=1e-7)


def test_the_target_sample_is_no_source() -> None:
    pool, _, value = _tilted(np.random.default_rng(2), 150)
    sample = make_sample(300, x=np.random.default_rng(3).normal(size=300))
    weights = unskew.debias(pool, Tilt(["x"]), sample, check_sample=False)
    assert find_contrasts(weights, value).compared.tolist() == [0, 1, 2]
    assert set(weights.mean(value).by_source) == set(weights.names)


def test_some_images_tell_the_covariance_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, x, value = _tilted(np.random.default_rng(4), 4000)
    sample = make_sample(3000, x=np.random.default_rng(5).normal(size=3000))
    omega = np.exp(x[:, None] * np.array([-0.5, 0.0, 0.7]))
    for weights in (
        unskew.debias_weights(omega, pool.source),
        unskew.debias(pool, Tilt(["x"]), sample, check_sample=False),
    ):
        every = find_contrasts(weights, value)
        with monkeypatch.context() as patch:
            patch.setattr(compared_rows, "_ENOUGH", 6000)
            some = find_contrasts(weights, value)
        assert some.y == pytest.approx(every.y, rel=1e-12)
        # A variance from 1,500 images of a source has an error of 4 %.
        assert np.diagonal(some.covariance) == pytest.approx(
            np.diagonal(every.covariance), rel=0.12
        )


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [False, True])
def test_errors_are_those_that_simulations_show(fitted: bool) -> None:
    rng = np.random.default_rng(6)
    y, variance = [], []
    for _ in range(400):
        pool, x, value = _tilted(rng, 250)
        if fitted:
            sample = make_sample(500, x=rng.normal(size=500))
            weights = unskew.debias(pool, Tilt(["x"]), sample, check_sample=False)
        else:
            weights = unskew.debias_weights(
                np.exp(x[:, None] * np.array([-0.5, 0.0, 0.7])), pool.source
            )
        contrasts = find_contrasts(weights, value)
        difference = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]])
        y.append(difference @ contrasts.y)
        variance.append(np.diagonal(difference @ contrasts.covariance @ difference.T))
    # A standard deviation over 400 data sets has an error of 3.5 %; three of them.
    ratio = np.sqrt(np.mean(variance, axis=0)) / np.std(y, axis=0)
    assert ratio == pytest.approx([1.0, 1.0], abs=0.11)
    assert np.mean(y, axis=0) == pytest.approx([0.0, 0.0], abs=4 * np.std(y) / 20)
