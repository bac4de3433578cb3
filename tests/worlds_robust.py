"""Worlds with an outcome model beside the weights: both right, one of them wrong, or neither.

Used by the tests of `weights.mean(values, predicted, target_predicted)` and by
``benchmarks/honest_errors.py --part robust``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

import unskew
from simulation_measures import binomial_error
from simulations import make_pool, make_sample
from unskew import Target
from unskew.bias import Known, Strata, Tilt
from unskew.errors import UnskewWarning
from unskew.records import RobustEstimate, Weights

Rng = np.random.Generator
SEED = 18


@dataclass(frozen=True, eq=False)
class RobustSet:
    """Weights, values, predictions for the pool and for the target, and the target's mean."""

    weights: Weights
    value: np.ndarray
    predicted: object
    target_predicted: object
    truth: float

    def estimate(self) -> RobustEstimate:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            result = self.weights.mean(self.value, self.predicted, self.target_predicted)
        assert isinstance(result, RobustEstimate)
        return result


@dataclass(frozen=True, eq=False)
class JudgedSet:
    """Predictions of a classifier, judged with weights and with its answers on the target."""

    table: pd.DataFrame
    predictions: pd.DataFrame
    target: pd.DataFrame
    truth: float

    def estimate(self) -> RobustEstimate:
        evaluation = unskew.evaluate_predictions(
            self.table, self.predictions, target_predictions=self.target, replicates=0
        )
        return evaluation.augmented["accuracy"]


World = Callable[[Rng], RobustSet | JudgedSet]


def _tilted(
    rng: Rng, hidden: float, n: int = 600, m: int = 400, explained: float = 0.5, seen=False
):
    """Sources tilted in x; if ``hidden`` is not 0 both also prefer large w, which no model of ω
    reads. y = x + x²/2 + w + noise; the mean of x + x²/2 + w is 1/2 on the target.
    """
    source = np.repeat([0, 1], n // 2)
    x = rng.normal(np.array([0.7, -0.4])[source])
    w = rng.normal(hidden, size=n)
    target_x, target_w = rng.normal(size=(2, m))
    noise = math.sqrt(2.5 * (1 / explained - 1))
    value = x + x**2 / 2 + w + noise * rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        # The bias model reads x alone; an outcome model may read w.
        pool_w, sample_w = ({"w": w}, {"w": target_w}) if seen else ({}, {})
        weights = unskew.debias(
            make_pool(source, x=x, **pool_w),
            Tilt(["x"]),
            make_sample(m, x=target_x, **sample_w),
            check_sample=False,
        )
    return weights, value, (x, w), (target_x, target_w)


def _right(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x + x**2 / 2 + w


def _wrong(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.abs(x) - w + 3


def both_right(rng: Rng) -> RobustSet:
    """Weights and model right; 600 images, a sample of 400 that also fits the tilt."""
    weights, value, own, target = _tilted(rng, 0.0)
    return RobustSet(weights, value, _right(*own), _right(*target), 0.5)


def few_of_target(rng: Rng) -> RobustSet:
    """The same with 60 images of the target."""
    weights, value, own, target = _tilted(rng, 0.0, m=60)
    return RobustSet(weights, value, _right(*own), _right(*target), 0.5)


def model_wrong(rng: Rng) -> RobustSet:
    """Weights right, model wrong in shape, sign and level."""
    weights, value, own, target = _tilted(rng, 0.0)
    return RobustSet(weights, value, _wrong(*own), _wrong(*target), 0.5)


def model_noise(rng: Rng) -> RobustSet:
    """Weights right, predictions are noise of ten times the spread; 100 images of the target."""
    weights, value, _, target = _tilted(rng, 0.0, m=100)
    noise = 10 * rng.normal(size=value.size)
    return RobustSet(weights, value, noise, 10 * rng.normal(size=target[0].size), 0.5)


def weights_wrong(rng: Rng) -> RobustSet:
    """Weights wrong (a hidden preference of 0.8 sd), model right."""
    weights, value, own, target = _tilted(rng, 0.8)
    return RobustSet(weights, value, _right(*own), _right(*target), 0.5)


def weights_somewhat_wrong(rng: Rng) -> RobustSet:
    """Weights wrong by 0.3 sd, model right: the doubtful zone, where D is 2 to 4 errors."""
    weights, value, own, target = _tilted(rng, 0.3)
    return RobustSet(weights, value, _right(*own), _right(*target), 0.5)


def weights_wrong_shares(rng: Rng) -> RobustSet:
    """Shares of the strata wrong, binary outcome, probabilities right; 3,000 of the target."""
    n, m = 900, 3000
    stratum, x = rng.integers(3, size=n), rng.normal(size=n)
    source = rng.integers(2, size=n)
    shares = {"a": 0.1, "b": 0.2, "c": 0.7}  # the truth is a third each
    pool = make_pool(source, kind=np.array(list("abc"))[stratum])
    weights = unskew.debias(pool, Strata("kind"), Target.margins({"kind": shares}))
    chance = 1 / (1 + np.exp(-(x + stratum - 1)))
    target = 1 / (1 + np.exp(-(rng.normal(size=m) + rng.integers(3, size=m) - 1)))
    return RobustSet(weights, (rng.random(n) < chance) * 1.0, chance, target, 0.5)


def both_wrong(rng: Rng) -> RobustSet:
    """Both wrong: nothing is promised."""
    weights, value, own, target = _tilted(rng, 0.8)
    return RobustSet(weights, value, _wrong(*own), _wrong(*target), 0.5)


def cross_fitted(rng: Rng) -> RobustSet:
    """Weights wrong by 0.8 sd; the model is learned from x and w, cross-fitted."""
    weights, value, _, _ = _tilted(rng, 0.8, seen=True)
    outcome = unskew.predict_outcome(weights, value, features=["x", "w"])
    return RobustSet(weights, value, outcome, None, 0.5)


def cross_fitted_noise(rng: Rng) -> RobustSet:
    """Weights right, an outcome that no feature predicts, cross-fitted; 400 of the target."""
    weights, value, _, _ = _tilted(rng, 0.0, seen=True)
    noise = rng.normal(size=value.size)
    outcome = unskew.predict_outcome(weights, noise, features=["x", "w"])
    return RobustSet(weights, noise, outcome, None, 0.0)


def margins_wrong(rng: Rng) -> RobustSet:
    """Weights wrong (two margins ignored), regression on those margins, one of them a survey's."""
    n = 500
    kind, light = rng.integers(3, size=n), (rng.random(n) < 0.3).astype(int)
    pool = make_pool(
        np.repeat([0, 1], n // 2),
        kind=np.array(list("abc"), dtype=object)[kind],
        light=np.array(["day", "night"], dtype=object)[light],
    )
    weights = unskew.debias(pool, Known(np.ones((n, 2))))
    survey = rng.multinomial(400, [0.2, 0.2, 0.6]) / 400
    kinds = {"mass": dict(zip("abc", survey.tolist(), strict=True)), "n": 400}
    target = Target.margins({"kind": kinds, "light": {"day": 0.4, "night": 0.6}})
    value = kind + 1.5 * light + rng.normal(size=n)
    return RobustSet(weights, value, None, target, 0.2 + 2 * 0.6 + 1.5 * 0.6)


# Mean of max(p, 1 − p) for p = σ(3z), z standard normal, by quadrature.
_NODE, _NODE_WEIGHT = np.polynomial.hermite_e.hermegauss(180)
SKILL = float(_NODE_WEIGHT @ (1 / (1 + np.exp(-3 * np.abs(_NODE)))) / math.sqrt(2 * math.pi))


def _judged(rng: Rng, spread: float, power: float) -> JudgedSet:
    """400 images in groups of two, p(yes) = σ(spread z); the model says p^power."""
    n, m = 400, 2000
    chance = np.repeat(1 / (1 + np.exp(-spread * rng.normal(size=n // 2))), 2)
    target = 1 / (1 + np.exp(-3.0 * rng.normal(size=m)))
    label = np.where(rng.random(n) < chance, "yes", "no")
    group = np.repeat(np.arange(n // 2), 2)
    table = pd.DataFrame({"id": np.arange(n), "source": "a", "label": label, "group": group})
    table["sample_weight"] = np.repeat(np.exp(0.4 * rng.normal(size=n // 2)), 2)
    return JudgedSet(table, _answers(chance, power, 0), _answers(target, power, n), SKILL)


def _answers(chance: np.ndarray, power: float, first: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(first, first + chance.size),
            "score": chance**power,
            "prediction": np.where(chance >= 0.5, "yes", "no"),
        }
    )


def evaluate_right(rng: Rng) -> JudgedSet:
    """`evaluate`: weights right, confidence overstated; 400 images, 2,000 of the target."""
    return _judged(rng, 3.0, 2.0)


def evaluate_wrong(rng: Rng) -> JudgedSet:
    """`evaluate`: weights wrong (easier images than the target's), confidence calibrated."""
    return _judged(rng, 6.0, 1.0)


def evaluate_far(rng: Rng) -> JudgedSet:
    """The same with hardly an image that the model is as unsure of as on the target."""
    return _judged(rng, 9.0, 1.0)


def explains_30(rng: Rng) -> RobustSet:
    """Predictions explain 30%; known ω, 500 images in groups of two, 5,000 other of the target."""
    group = np.repeat(np.arange(250), 2)
    source = np.repeat([0, 1], 250)
    z = np.repeat(rng.normal(np.repeat([0.4, -0.4], 125)), 2)
    omega = np.exp(np.outer(z, [0.4, -0.4]))
    weights = unskew.debias(make_pool(source, group=group), Known(omega))
    model = rng.normal(size=250)[group] + rng.normal(size=500)
    shared = np.sqrt(14 / 3 / 2) * rng.normal(size=250)[group]
    value = model + shared + np.sqrt(14 / 3 / 2) * rng.normal(size=500)
    return RobustSet(weights, value, model, math.sqrt(2) * rng.normal(size=5000), 0.0)


def explains_30_known(rng: Rng) -> RobustSet:
    """Predictions explain 30% of a skew outcome, their mean on the target is known; 150 images."""
    model = rng.exponential(size=150)
    value = model + math.sqrt(7 / 3) * (rng.exponential(size=150) - 1)
    weights = unskew.debias(make_pool(np.repeat([0, 1], 75)), Known(np.ones((150, 2))))
    return RobustSet(weights, value, model, 1.0, 1.0)


def tiny(rng: Rng) -> RobustSet:
    """Useless predictions, 40 images in two tilted sources, 15 of the target."""
    source = np.repeat([0, 1], 20)
    x = rng.normal(np.array([0.5, -0.5])[source])
    weights = unskew.debias(make_pool(source), Known(np.exp(np.outer(x, [0.5, -0.5]))))
    value = x + rng.normal(size=40)
    return RobustSet(weights, value, rng.normal(size=40), rng.normal(size=15), 0.0)


# Where something is promised: coverage of 95%, and how large the RMSE may be beside that without
# predictions (None: without them the mean is biased).
PROMISED: tuple[tuple[World, float | None], ...] = (
    (both_right, 1.02),
    (few_of_target, 1.02),
    (model_wrong, 1.02),
    (model_noise, 1.02),
    (explains_30, 0.9),
    (explains_30_known, 0.9),
    (tiny, 1.02),
    (cross_fitted_noise, 1.02),
    (cross_fitted, None),
    (evaluate_right, 1.02),
    (evaluate_wrong, None),
    (margins_wrong, None),
    (weights_wrong, None),
    (weights_wrong_shares, None),
)
SHOWN: tuple[tuple[World, float | None], ...] = (
    (weights_somewhat_wrong, None),
    (evaluate_far, None),
    (both_wrong, None),
)


@dataclass(frozen=True)
class Robustness:
    """Coverage with and without predictions, and what they do to the error."""

    n_sets: int
    share: float
    plain_share: float
    ratio: float
    ratio_error: float
    bias: float
    plain_bias: float


def measure_robustness(world: World, n_sets: int, seed: int = SEED) -> Robustness:
    """Estimate in many data sets; biases are in units of the spread without predictions."""
    held, off = np.zeros((n_sets, 2)), np.zeros((n_sets, 2))
    for at in range(n_sets):
        data = world(np.random.default_rng([seed, at]))
        result = data.estimate()
        assert result.weighted is not None
        for column, estimate in enumerate((result, result.weighted)):
            low, high = estimate.interval
            held[at, column] = low <= data.truth <= high
            off[at, column] = estimate.value - data.truth
    square = off**2
    ratio = math.sqrt(square[:, 0].mean() / square[:, 1].mean())
    # Delta method for the logarithm of a ratio of means.
    gap = square[:, 0] / square[:, 0].mean() - square[:, 1] / square[:, 1].mean()
    spread = off[:, 1].std()
    return Robustness(
        n_sets,
        float(held[:, 0].mean()),
        float(held[:, 1].mean()),
        ratio,
        ratio * float(gap.std()) / 2 / math.sqrt(n_sets),
        float(off[:, 0].mean() / spread),
        float(off[:, 1].mean() / spread),
    )


def robust_rows(options: argparse.Namespace) -> Iterator[str]:
    """The rows of the benchmark's table; at most 1,000 data sets."""
    yield (
        "| world | data | sets | coverage | without predictions | RMSE ratio | bar | bias | bias "
        "without |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for world, bar in (*PROMISED, *SHOWN):
        if options.only and world.__name__ not in options.only:
            continue
        found = measure_robustness(world, min(options.sets, 1000))
        text = " ".join((world.__doc__ or "").split()).rstrip(".")
        error = binomial_error(found.share, found.n_sets)
        yield (
            f"| `{world.__name__}` | {text} | {found.n_sets:,} | {found.share:.1%} ± {error:.1%} | "
            f"{found.plain_share:.1%} | {found.ratio:.3f} ± {found.ratio_error:.3f} | "
            f"{'' if bar is None else f'{bar:g}'} | {found.bias:+.2f} | {found.plain_bias:+.2f} |"
        )
