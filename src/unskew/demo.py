"""The demo: handwritten digits from three biased sources, learned naively, debiased, and with the truth known. Run with ``make demo``.

What one should see: a verdict that the sources can be debiased (and a second one, for sources without a link, that they cannot);
weights that bring the mean of a quantity back to the truth, with an error bar; and a table in which the debiased model is
several points better than the naive one and as good as one that knows the true biasing functions. The mix of sources was picked,
among a dozen tried, because bias hurts most there: an illustration, not a benchmark.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import unskew
from unskew.records import Floats, Ints
from unskew.scenarios import Scenario, class_mixtures

NAMES = ("archive", "counter", "survey")
SIZES = (1000, 50, 30)
# How often each source shows the digits 0 … 9, up to a factor: the big one never shows 1, 8 and 9 and hardly ever 3; the small ones do.
CLASS_ODDS = (
    (20, 0, 20, 1, 20, 20, 20, 20, 0, 0),
    (1, 6, 1, 6, 1, 1, 1, 1, 1, 1),
    (1, 6, 1, 1, 1, 1, 1, 1, 6, 6),
)
N_TEST = 600
SEEDS = range(20)


@dataclass(frozen=True)
class Images:
    """Pixels (n, 64) between 0 and 1, and the digits (n,) they show."""

    pixels: Floats
    digit: Ints


@dataclass(frozen=True)
class Trial:
    """One random cut of the digits, and what was drawn from it.

    Attributes
    ----------
    scenario : sources and biasing functions of the biased images.
    biased : the images of the three sources, pooled.
    unbiased : as many images drawn from the population without bias, which nobody would have in practice.
    population : what both were drawn from; its distribution is the target.
    test : images kept apart, to score on.
    """

    scenario: Scenario
    biased: Images
    unbiased: Images
    population: Images
    test: Images


@dataclass(frozen=True)
class Score:
    """Shares of test images that were recognised: all of them, and those of the digit recognised worst."""

    accuracy: float
    worst_digit: float


def make_trial(seed: int) -> Trial:
    """Hold out a test set, then draw the biased sources from the rest; the rest's distribution is the target."""
    from sklearn.datasets import load_digits

    image, digit = load_digits(return_X_y=True)
    image = image / 16.0
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:N_TEST], order[N_TEST:]
    odds_km = np.array(CLASS_ODDS, dtype=np.float64)
    scenario = class_mixtures(odds_km / odds_km.sum(axis=1, keepdims=True), digit[rest], sizes=SIZES, seed=rng)
    drawn = rest[scenario.index]
    unbiased = rest[rng.integers(0, rest.size, size=drawn.size)]
    return Trial(
        scenario,
        biased=Images(image[drawn], digit[drawn]),
        unbiased=Images(image[unbiased], digit[unbiased]),
        population=Images(image[rest], digit[rest]),
        test=Images(image[test], digit[test]),
    )


def train_and_score(training: Images, test: Images, sample_weight: Floats | None = None) -> Score:
    """Logistic regression with scikit-learn's default settings, scored on the unbiased test set."""
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(max_iter=2000).fit(training.pixels, training.digit, sample_weight=sample_weight)
    right = model.predict(test.pixels) == test.digit
    return Score(float(right.mean()), min(float(right[test.digit == digit].mean()) for digit in range(10)))


def compare_learners(seed: int) -> dict[str, Score]:
    """The four ways to learn, on one trial."""
    from threadpoolctl import threadpool_limits

    trial = make_trial(seed)
    scenario = trial.scenario
    # What a user knows: the digit and the source of every image, and how often each digit occurs where the model will be used.
    pool = unskew.Pool.from_arrays(np.array(NAMES)[scenario.source], label=trial.biased.digit)
    target = unskew.Target.margins({"label": dict(enumerate(np.bincount(trial.population.digit)))})
    estimated = unskew.debias(pool, unskew.bias.Strata("label"), target)
    oracle = unskew.debias_weights(scenario.omega, scenario.source, names=NAMES)
    with threadpool_limits(1):  # the matrices are so small that threads mostly wait for one another
        return {
            "naive": train_and_score(trial.biased, trial.test),
            "debiased": train_and_score(trial.biased, trial.test, estimated.sample_weight),
            "oracle": train_and_score(trial.biased, trial.test, oracle.sample_weight),
            "unbiased": train_and_score(trial.unbiased, trial.test),
        }


def mean_and_stderr(values: Sequence[float]) -> str:
    """``86.8 ± 0.9``, in percent."""
    percent = 100.0 * np.asarray(values)
    return f"{percent.mean():5.1f} ± {percent.std(ddof=1) / np.sqrt(percent.size):.1f}"


def describe_sources(trial: Trial) -> list[str]:
    """Sizes and digits of the three sources."""
    lines = [f"{'source':<10}{'images':>8}   images of each digit 0 … 9"]
    for k, name in enumerate(NAMES):
        count_m = np.bincount(trial.biased.digit[trial.scenario.source == k], minlength=10)
        lines.append(f"{name:<10}{count_m.sum():>8}   {' '.join(f'{count:>4}' for count in count_m)}")
    return lines


def describe_verdict(trial: Trial) -> list[str]:
    """The verdict on these sources, and on two that have no digit in common."""
    scenario = trial.scenario
    verdict = unskew.check_overlap(scenario.omega_estimated, scenario.source, names=NAMES)
    apart = class_mixtures(np.kron(np.eye(2), np.full(5, 0.2)), sizes=200, seed=0)
    refused = unskew.check_overlap(apart.omega_estimated, apart.source, names=("low digits", "high digits"))
    text = (
        f"Verdict before any solve: {verdict.verdict}. {verdict.message}",
        f"For comparison, a source of 0 … 4 and one of 5 … 9: {refused.verdict}. {refused.message}",
    )
    return [line for sentence in text for line in textwrap.wrap(sentence, width=100)]


def describe_weights(trial: Trial) -> list[str]:
    """How many images the weights are worth, and a target mean with its error bar beside the truth."""
    scenario = trial.scenario
    weights = unskew.debias_weights(scenario.omega, scenario.source, names=NAMES)
    never_shown = np.isin(trial.biased.digit, (1, 8, 9))
    estimate = weights.mean(never_shown)
    return [
        f"The weights make the {never_shown.size} images worth {weights.ess:.0f} (effective sample size).",
        f"Share of the digits 1, 8 and 9, in %: naive {100 * never_shown.mean():.1f}, weighted {100 * estimate.value:.1f} "
        f"± {100 * estimate.stderr:.1f}, truth {100 * np.isin(trial.population.digit, (1, 8, 9)).mean():.1f}.",
    ]


def describe_scores(seeds: Sequence[int]) -> list[str]:
    """The table of accuracies: mean ± standard error over the seeds."""
    scores = [compare_learners(seed) for seed in seeds]
    words = {
        "naive": "naive (all images alike)",
        "debiased": "debiased (omega estimated)",
        "oracle": "oracle (true omega)",
        "unbiased": "unbiased sample, same size",
    }
    lines = [f"{'accuracy in %, ' + str(len(scores)) + ' seeds':<30}{'all digits':>14}{'worst digit':>14}"]
    for name, text in words.items():
        accuracy = mean_and_stderr([score[name].accuracy for score in scores])
        worst = mean_and_stderr([score[name].worst_digit for score in scores])
        lines.append(f"{text:<30}{accuracy:>14}{worst:>14}")
    gain = mean_and_stderr([score["debiased"].accuracy - score["naive"].accuracy for score in scores])
    worst_gain = mean_and_stderr([score["debiased"].worst_digit - score["naive"].worst_digit for score in scores])
    return [*lines, f"{'gain: debiased - naive':<30}{gain:>14}{worst_gain:>14}"]


def tell(seeds: Sequence[int] = SEEDS) -> Iterator[str]:
    """The paragraphs of the demo, each as soon as it is known."""
    trial = make_trial(0)
    for describe in (describe_sources, describe_verdict, describe_weights):
        yield "\n".join(describe(trial))
    yield "\n".join(describe_scores(seeds))


if __name__ == "__main__":
    for paragraph in tell():
        print(paragraph, end="\n\n", flush=True)
