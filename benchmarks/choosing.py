"""What choosing costs: errors of debiased expectations after `unskew.choose_bias`, and
with the true family.

    python benchmarks/choosing.py --seeds 50            # prints a line for each scenario
    python benchmarks/choosing.py --only tilts --seeds 5

Every scenario draws a few thousand images from sources whose true selection is known, and offers
the true family among wrong ones. The error is the root mean square, over seeds and expectations, of
(weighted mean − truth)/sd, sd that of the quantity in the target.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

import unskew
from unskew.bias import Bias, Box, Product, Propensity, SoftBox, Strata, Tilt
from unskew.scenarios.image_acquisition import draw_from_population

BAR = 1.25


@dataclass(frozen=True)
class Case:
    """One draw: what choose_bias is given, which candidate is true, and expectations as {name:
    (value per image, truth, sd)}.
    """

    pool: unskew.Pool
    target: unskew.Target | None
    candidates: Mapping[str, Bias]
    true: str
    expectations: Mapping[str, tuple[np.ndarray, float, float]] = field(repr=False)


def _population(seed: int, n: int = 20_000, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Labels, equally frequent, and two features whose distribution depends on the label."""
    rng = np.random.default_rng([seed, 1])
    label = np.arange(n) % n_classes
    centre = 1.5 * np.column_stack(
        [
            np.cos(2 * np.pi * np.arange(n_classes) / n_classes),
            np.sin(2 * np.pi * np.arange(n_classes) / n_classes),
        ]
    )
    return label, centre[label] + rng.normal(size=(n, 2))


def _moments(x: np.ndarray, population: np.ndarray) -> dict[str, tuple[np.ndarray, float, float]]:
    """First and second moments of every feature, and the products of neighbours."""
    truths = {}
    for j in range(x.shape[1]):
        for name, drawn, whole in (
            (f"x{j}", x[:, j], population[:, j]),
            (f"x{j}²", x[:, j] ** 2, population[:, j] ** 2),
            (f"x{j} x{j - 1}", x[:, j] * x[:, j - 1], population[:, j] * population[:, j - 1]),
        ):
            truths[name] = (drawn, float(whole.mean()), float(whole.std()))
    return truths


def classes(seed: int) -> Case:
    """Sources that differ in their mix of classes; the classes' shares in the target are known."""
    label, x = _population(seed)
    drawn = unskew.scenarios.overlapping_classes(
        label, overlap=0.2, sizes=[1200, 600, 500, 400, 300], rng=seed
    )
    pool = unskew.Pool.from_arrays(
        drawn.source.astype(str), label=[f"class {y}" for y in drawn.label], x=x[drawn.index]
    )
    candidates = {
        "Strata(label)": Strata("label"),
        "Tilt(x)": Tilt(["x"], reference="0"),
        "Strata(label) × Tilt(x)": Product(Strata("label"), Tilt(["x"], reference="0")),
        "Box(x)": Box(["x"]),
        "SoftBox(x)": SoftBox(["x"]),
    }
    return Case(
        pool,
        unskew.Target.uniform("label"),
        candidates,
        "Strata(label)",
        _moments(x[drawn.index], x),
    )


def _acquisition(seed: int, decay: float, claims: Mapping[str, Bias]) -> Case:
    """Sources with a bin each of three features; no source is unbiased, but the target's shares of
    four classes are known.
    """
    rng = np.random.default_rng([seed, 2])
    hsv = rng.beta([1.2, 2.0, 2.0], [1.2, 2.0, 1.5], size=(40_000, 3))
    score = 3.0 * hsv @ np.array([1.0, -0.5, 1.0]) + rng.normal(size=40_000)
    label = np.searchsorted(np.quantile(score, [0.25, 0.5, 0.75]), score)
    drawn = unskew.scenarios.acquisition(
        hsv, label, decay=decay, sizes=[1000, 800, 600, 500, 400, 300, 200, 200], rng=seed
    )
    pool = unskew.Pool.from_arrays(
        drawn.source.astype(str), label=[f"class {y}" for y in drawn.label], x=drawn.features
    )
    candidates = {
        "SoftBox(x)": SoftBox(["x"]),
        "Box(x)": Box(["x"]),
        "Box(x, quantile=0.01)": Box(["x"], quantile=0.01),
        "SoftBox(x_0, x_1)": SoftBox(["x_0", "x_1"]),
        "Strata(label)": Strata("label"),
        **claims,
    }
    return Case(
        pool,
        unskew.Target.uniform("label"),
        candidates,
        "SoftBox(x)",
        _moments(drawn.features, hsv),
    )


def acquisition_narrow(seed: int) -> Case:
    """The article's 4.3 with a decay of 0.1."""
    return _acquisition(seed, 0.1, {})


def acquisition_wide(seed: int) -> Case:
    """The article's 4.3 with a decay of 1."""
    return _acquisition(seed, 1.0, {})


def false_claim(seed: int) -> Case:
    """The same with a candidate that takes source 0 for unbiased, which it is not: it describes the
    sources as well, with a wrong c(z).

    Not one of the scenarios of the bar: only the shares of four classes can tell, and they do not
    always.
    """
    return _acquisition(seed, 1.0, {"Tilt(x)": Tilt(["x"], reference="0")})


def censored(seed: int) -> Case:
    """A large source that never shows three of ten classes, and a small one known to be
    unbiased.
    """
    label, x = _population(seed)
    drawn = unskew.scenarios.censored(label, x, hidden=[0, 1, 2], sizes=[2400, 600], rng=seed)
    pool = unskew.Pool.from_arrays(
        drawn.source.astype(str), label=[f"class {y}" for y in drawn.label], x=drawn.features
    )
    candidates = {
        "Box(label)": Box(["label"]),
        "Strata(label)": Strata("label"),
        "Tilt(x)": Tilt(["x"]),
        "Tilt(x, degree=2)": Tilt(["x"], degree=2),
        "Box(x)": Box(["x"]),
    }
    return Case(
        pool, unskew.Target.source("1"), candidates, "Box(label)", _moments(drawn.features, x)
    )


def tilts(seed: int) -> Case:
    """Gaussians, log-linearly tilted; one source is known to be unbiased."""
    theta = [[0.0, 0.0], [1.0, 0.0], [-0.5, 1.0], [0.0, -1.0]]
    drawn = unskew.scenarios.tilts([600, 900, 900, 600], theta=theta, rng=seed)
    pool = unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features)
    candidates = {
        "Tilt(x)": Tilt(["x"]),
        "Tilt(x, degree=2)": Tilt(["x"], degree=2),
        "Tilt(x_0)": Tilt(["x_0"]),
        "Propensity(x)": Propensity(["x"]),
        "Box(x)": Box(["x"]),
        "SoftBox(x)": SoftBox(["x"]),
    }
    normal = np.random.default_rng(0).normal(
        size=(10, 2)
    )  # only its shape is used: the moments of the target are known exactly
    expectations = _moments(drawn.features, normal)
    exact = {
        "x0": (0.0, 1.0),
        "x1": (0.0, 1.0),
        "x0²": (1.0, 2**0.5),
        "x1²": (1.0, 2**0.5),
        "x1 x0": (0.0, 1.0),
        "x0 x-1": (0.0, 1.0),
    }
    known = {name: (value, *exact[name]) for name, (value, _, _) in expectations.items()}
    return Case(pool, unskew.Target.source("0"), candidates, "Tilt(x)", known)


def product(seed: int) -> Case:
    """Class bias × log-linear bias in the features; class shares of the target are known, and
    source 0 is biased by class only.
    """
    label, x = _population(seed, n_classes=4)
    rng = np.random.default_rng(7)
    factor = np.exp(rng.normal(0.0, 0.8, size=(4, 4)))
    theta = np.array([[0.0, 0.0], [0.8, 0.0], [0.0, 0.8], [-0.6, -0.6]])
    omega = factor[:, label].T * np.exp(x @ theta.T)
    drawn = draw_from_population(
        omega, x, label, sizes=[900, 800, 700, 600], rng=seed, description="class bias × tilts"
    )
    pool = unskew.Pool.from_arrays(
        drawn.source.astype(str), label=[f"class {y}" for y in drawn.label], x=drawn.features
    )
    candidates = {
        "Strata(label) × Tilt(x)": Product(Strata("label"), Tilt(["x"], reference="0")),
        "Tilt(x, label)": Tilt(["x", "label"], reference="0"),
        "Strata(label)": Strata("label"),
        "Tilt(x)": Tilt(["x"], reference="0"),
        "Box(x)": Box(["x"]),
    }
    return Case(
        pool,
        unskew.Target.uniform("label"),
        candidates,
        "Strata(label) × Tilt(x)",
        _moments(drawn.features, x),
    )


CASES: dict[str, Callable[[int], Case]] = {
    "classes": classes,
    "acquisition 0.1": acquisition_narrow,
    "acquisition 1": acquisition_wide,
    "censored": censored,
    "tilts": tilts,
    "product": product,
    "acquisition 1, false claim": false_claim,
}


def squared_error(weights: unskew.Weights, case: Case) -> float:
    """Mean over the expectations of ((weighted mean − truth)/sd)²."""
    return float(
        np.mean(
            [
                ((weights.weight @ value - truth) / sd) ** 2
                for value, truth, sd in case.expectations.values()
            ]
        )
    )


@dataclass(frozen=True)
class Outcome:
    """Over the seeds: error after choosing, of the true family and of naive pooling; how often each
    candidate was chosen.
    """

    chosen: float
    true: float
    naive: float
    picks: Counter[str]

    @property
    def ratio(self) -> float:
        return self.chosen / self.true


def run_case(
    make: Callable[[int], Case], seeds: range, progress: Callable[[str], None] = lambda _: None
) -> Outcome:
    errors: list[tuple[float, float, float]] = []
    picks: Counter[str] = Counter()
    for seed in seeds:
        case = make(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = unskew.choose_bias(
                case.pool, case.candidates, case.target, check=False, rng=seed
            )
            true = unskew.debias(
                case.pool, case.candidates[case.true], case.target, check_sample=False, rng=seed
            )
        naive = float(
            np.mean(
                [
                    ((value.mean() - truth) / sd) ** 2
                    for value, truth, sd in case.expectations.values()
                ]
            )
        )
        picks[choice.name or "none"] += 1
        own = naive if choice.weights is None else squared_error(choice.weights, case)
        errors.append((own, squared_error(true, case), naive))
        progress(
            f"seed {seed}: {choice.name}, error {own**0.5:.4f}, true family "
            f"{errors[-1][1] ** 0.5:.4f}, naive {naive**0.5:.4f}"
        )
    chosen, true_error, naive_error = np.sqrt(np.mean(errors, axis=0)).tolist()
    return Outcome(chosen, true_error, naive_error, picks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=50, help="how many draws")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print("| scenario | chosen | true family | ratio | naive pooling | picks | seconds |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in options.only:
        start = time.perf_counter()
        outcome = run_case(
            CASES[name],
            range(options.first, options.first + options.seeds),
            (lambda line: print(line, flush=True)) if options.verbose else lambda _: None,
        )
        picks = ", ".join(f"{pick} {count}" for pick, count in outcome.picks.most_common())
        beyond = "" if outcome.ratio <= BAR else " (above the bar)"
        print(
            f"| {name} | {outcome.chosen:.4f} | {outcome.true:.4f} | {outcome.ratio:.3f}{beyond} | "
            f"{outcome.naive:.4f} "
            f"| {picks} | {time.perf_counter() - start:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
