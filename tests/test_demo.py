"""The demo tells what it promises, and its facts hold."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew import demo

ROOT = Path(__file__).resolve().parents[1]


def test_a_trial_keeps_the_test_set_apart_from_what_is_drawn() -> None:
    trial = demo.make_trial(3)
    assert trial.test.digit.size == demo.N_TEST
    assert trial.scenario.sizes.tolist() == list(demo.SIZES)
    np.testing.assert_array_equal(trial.scenario.label, trial.biased.digit)
    np.testing.assert_array_equal(trial.biased.pixels, trial.population.pixels[trial.scenario.index])
    assert trial.test.digit.size + trial.population.digit.size == 1797
    assert not np.any(np.isin(trial.biased.digit[trial.scenario.source == 0], (1, 8, 9)))


def test_debiased_digits_have_the_target_shares_exactly() -> None:
    """ω estimated from class counts and the target's margin has weights π ∝ p(y)/N_y, so every class gets its target mass."""
    for seed in demo.SEEDS:
        scenario = demo.make_trial(seed).scenario
        weights = unskew.debias_weights(scenario.omega_estimated, scenario.source, names=demo.NAMES)
        share = np.bincount(scenario.label, weights=weights.weight, minlength=10)
        np.testing.assert_allclose(share, scenario.target_mean["label_share"], rtol=1e-9)


def test_debiasing_beats_naive_pooling_on_most_seeds() -> None:
    """Four trials; the gain of a trial is about 5 points with a standard deviation below 2 (``make demo``)."""
    scores = [demo.compare_learners(seed) for seed in range(4)]
    gain = [score["debiased"].accuracy - score["naive"].accuracy for score in scores]
    assert np.mean(gain) > 0.02


def test_the_demo_tells_verdict_size_and_scores() -> None:
    text = "\n".join(demo.tell(seeds=range(2)))
    assert "disconnected" in text
    for words in ("effective sample size", "naive", "debiased", "oracle", "worst digit", "2 seeds", *demo.NAMES):
        assert words in text


def test_mean_and_stderr_in_percent() -> None:
    assert demo.mean_and_stderr([0.8, 0.9]).split() == ["85.0", "±", "5.0"]


@pytest.mark.slow
def test_the_demo_runs_as_a_program_and_the_readme_quotes_it() -> None:
    done = subprocess.run([sys.executable, "-m", "unskew.demo"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    quoted = re.search(r"^```\n(accuracy in %.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert quoted is not None
    assert quoted[1].rstrip() in done.stdout
