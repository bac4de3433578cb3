"""The demo's cameras are as biased as it says, and debiasing wins there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

import unskew
from unskew.forecasting.gain import forecast_gain
from unskew.simulation import digits as demo


@pytest.fixture(scope="module")
def trial() -> demo.Trial:
    return demo.make_trial(3)


def test_no_handwriting_is_in_training_and_in_the_test(trial: demo.Trial) -> None:
    assert trial.test.digit.size == demo.N_TEST
    assert not np.isin(trial.photos.writing, trial.test.writing).any()
    assert not np.isin(trial.unbiased.writing, trial.test.writing).any()


def test_the_cameras_see_what_their_odds_say(trial: demo.Trial) -> None:
    assert np.bincount(trial.source).tolist() == list(demo.SIZES)
    archive = trial.source == 0
    assert not np.isin(trial.photos.digit[archive], (1, 8, 9)).any()
    assert (
        np.mean(trial.photos.light[archive] == 2)
        > 0.7
        > 0.3
        > np.mean(trial.photos.light[~archive] == 2)
    )


def test_the_true_omega_is_a_product_of_digit_and_light(trial: demo.Trial) -> None:
    """ω_k(y, l) ∝ odds of the digit × odds of the light over their shares in the target: rank one
    within every camera.
    """
    photos = trial.photos
    for k in range(3):
        table = np.full((10, 3), np.nan)
        table[photos.digit, photos.light] = trial.omega[:, k]
        seen = table[~np.isnan(table).any(axis=1)]
        np.testing.assert_allclose(
            seen, np.outer(seen[:, 0], seen[0] / seen[0, 0]), rtol=1e-12, atol=1e-15
        )


def test_the_target_table_is_that_of_the_population(trial: demo.Trial) -> None:
    share = trial.count / trial.count.sum()
    np.testing.assert_allclose(share.sum(axis=0), demo.LIGHT_SHARE, atol=1e-3)


def test_debiasing_beats_naive_pooling_on_the_average() -> None:
    """Four trials; the gain of a trial is about 3 points with a standard deviation of 2 (``unskew
    demo``).
    """
    scores = [list(demo.compare_learners(seed).values()) for seed in range(4)]
    assert np.mean([debiased.accuracy - naive.accuracy for naive, debiased, *_ in scores]) > 0.01
    assert (
        np.mean([debiased.worst_digit - naive.worst_digit for naive, debiased, *_ in scores]) > 0.05
    )


def test_the_files_hold_the_trial(trial: demo.Trial, tmp_path: Path) -> None:
    from PIL import Image

    configuration = demo.write_cameras(trial, tmp_path)
    assert configuration.read_text().startswith("# Three cameras")
    for k, camera in enumerate(demo.CAMERAS):
        metadata = pd.read_csv(tmp_path / camera / "metadata.csv")
        assert len(metadata) == demo.SIZES[k] == len(list((tmp_path / camera).rglob("*.png")))
        with Image.open(tmp_path / camera / metadata["file_name"][0]) as image:
            assert image.size == (32, 32)
    target = unskew.Target.from_dict({"table": "population.csv"}, tmp_path)
    assert sum(target.facts[0].mass) == pytest.approx(1.0)


def test_the_table_of_scores_says_what_was_gained() -> None:
    low, high = demo.Score(0.8, 0.4, 0.6), demo.Score(0.9, 0.6, 0.7)
    lines = demo.describe_scores([{"naive": low, "debiased": high}] * 2, [(0.09, 0.19)] * 2)
    assert lines[-1].split() == [
        "the",
        "same",
        "gain,",
        "as",
        "forecast",
        "9.0",
        "±",
        "0.0",
        "19.0",
        "±",
        "0.0",
    ]
    assert lines[-2].split() == [
        "gain:",
        "debiased",
        "-",
        "naive",
        "10.0",
        "±",
        "0.0",
        "20.0",
        "±",
        "0.0",
        "10.0",
        "±",
        "0.0",
    ]


def test_the_forecast_of_a_trial_is_that_of_logistic_regression(trial: demo.Trial) -> None:
    """The probe with the penalty 1/n is scikit-learn's LogisticRegression(C=1), up to C being the
    same in folds of fewer images.
    """
    from sklearn.linear_model import LogisticRegression

    pool, target = demo.pool_trial(trial)
    options = {
        "learner": LogisticRegression(max_iter=2000),
        "folds": 3,
        "check": False,
        "rng": 3,
        "progress": False,
    }
    with threadpool_limits(1):
        forecast = forecast_gain(
            pool,
            unskew.bias.Strata(["label", "light"]),
            target,
            features=trial.photos.pixels,
            **options,
        )
        gain, worst = demo.forecast_trial(3)
    assert abs(forecast.gain.value - gain) < 2 * forecast.gain.stderr
    assert -1.0 <= worst <= 1.0


def test_the_forecast_beside_what_is_measured() -> None:
    scores = {"naive": demo.Score(0.8, 0.4, 0.6), "debiased": demo.Score(0.775, 0.6, 0.7)}
    sentence = demo.measured_beside(unskew.Estimate(0.066, 0.032, (0.0, 0.1), 0.95), scores)
    assert sentence == "Gain on the pictures above: forecast +6.6 ± 3.2, measured −2.5 points."


def test_the_files_give_back_the_pixels(trial: demo.Trial, tmp_path: Path) -> None:
    from PIL import Image

    demo.write_cameras(trial, tmp_path)
    path = next(path for path in tmp_path.rglob("*.png") if path.stem.endswith("_0007"))
    with Image.open(path) as image:
        grey = demo.grey_values(np.asarray(image.convert("RGB"))[None])
    np.testing.assert_allclose(grey[0], trial.photos.pixels[7], atol=0.5 / 255)
