"""Problems whose target expectations are known: what the methods may see, and the truth that they
are held against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from unskew.scenarios import acquisition, censored, class_mixtures, overlapping_classes, tilts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SAMPLE_PART = 5  # the target sample has a fifth of the pool's size
POPULATION = 200_000  # images of a finite population; its means are the truth


@dataclass
class Draw:
    """One pool with its target sample, and the expectations to be estimated from the weighted pool.

    ``sample_label`` is None where the target sample is unlabelled; ``margin`` (M,) is given where
    the target's label shares are known.
    """

    features: Floats
    source: Ints
    label: Ints
    log_omega: Floats
    sample: Floats
    sample_label: Ints | None
    margin: Floats | None
    truth: dict[
        str, tuple[Floats, Floats]
    ]  # of means, second moments and label shares: expectation and standard deviation

    def save(self, path: Path) -> None:
        """What the methods may see, for a process of another environment."""
        optional = {"sample_label": self.sample_label, "margin": self.margin}
        np.savez(
            path,
            features=self.features,
            source=self.source,
            label=self.label,
            log_omega=self.log_omega,
            sample=self.sample,
            **{name: value for name, value in optional.items() if value is not None},
        )

    def errors(self, weight: Floats) -> dict[str, float]:
        """Mean square error of the weighted means, in units of the target's variance, for each kind
        of expectation and over all.
        """
        weight = weight / weight.sum()
        estimate = {"means": weight @ self.features, "second moments": weight @ self.features**2}
        if "label shares" in self.truth:
            estimate["label shares"] = np.bincount(
                self.label, weights=weight, minlength=self.truth["label shares"][0].size
            )
        square = {
            kind: ((estimate[kind] - mean_j) / sd_j) ** 2
            for kind, (mean_j, sd_j) in self.truth.items()
        }
        return {kind: float(value.mean()) for kind, value in square.items()} | {
            "all": float(np.concatenate(list(square.values())).mean())
        }


@dataclass(frozen=True)
class Problem:
    """A way to draw, what it shows, and which of our methods have assumptions that hold in it."""

    title: str
    draw: Callable[[int, np.random.Generator], Draw]
    ours: tuple[str, ...]
    given: str


def _shares(probability_m: Floats) -> tuple[Floats, Floats]:
    return probability_m, np.sqrt(probability_m * (1.0 - probability_m))


def _tilted(
    theta_kd: Floats, share_k: Floats | None = None
) -> Callable[[int, np.random.Generator], Draw]:
    """Target N(0, I), source k is N(θ_k, I); the label is 1 where a noisy sum of two features
    exceeds 1/2 (a probit model).
    """

    def label_of(z_nd: Floats, rng: np.random.Generator) -> Ints:
        return (z_nd[:, 0] + z_nd[:, 1] + rng.standard_normal(z_nd.shape[0]) > 0.5).astype(np.int64)

    def draw(n: int, rng: np.random.Generator) -> Draw:
        size_k = n if share_k is None else (n * share_k).round().astype(np.int64)
        scenario = tilts(size_k, theta=theta_kd, rng=rng)
        assert scenario.features is not None
        dim = theta_kd.shape[1]
        above = 1.0 - NormalDist(0.0, 3.0**0.5).cdf(0.5)
        return Draw(
            features=scenario.features,
            source=scenario.source,
            label=label_of(scenario.features, rng),
            log_omega=scenario.log_omega,
            sample=rng.standard_normal((n // SAMPLE_PART, dim)),
            sample_label=None,
            margin=None,
            truth={
                "means": (np.zeros(dim), np.ones(dim)),
                "second moments": (np.ones(dim), np.full(dim, 2.0**0.5)),
                "label shares": _shares(np.array([1.0 - above, above])),
            },
        )

    return draw


def _around(label_n: Ints, dim: int, n_classes: int, rng: np.random.Generator) -> Floats:
    """Features N(c_y, I): the centres c_y lie on a circle of radius 2 in the first two
    dimensions.
    """
    return _centres(dim, n_classes)[label_n] + rng.standard_normal((label_n.size, dim))


def _centres(dim: int, n_classes: int) -> Floats:
    centre_md = np.zeros((n_classes, dim))
    angle_m = 2.0 * np.pi * np.arange(n_classes) / n_classes
    centre_md[:, 0], centre_md[:, 1] = 2.0 * np.cos(angle_m), 2.0 * np.sin(angle_m)
    return centre_md


def _class_truth(share_m: Floats, dim: int) -> dict[str, tuple[Floats, Floats]]:
    """Moments of the mixture Σ_y p(y) N(c_y, I)."""
    centre_md = _centres(dim, share_m.size)
    mean_d, second_d = share_m @ centre_md, share_m @ (centre_md**2 + 1.0)
    fourth_d = share_m @ (centre_md**4 + 6.0 * centre_md**2 + 3.0)
    return {
        "means": (mean_d, np.sqrt(second_d - mean_d**2)),
        "second moments": (second_d, np.sqrt(fourth_d - second_d**2)),
        "label shares": _shares(share_m),
    }


def _classes(
    overlap: float | None, dim: int, uneven: bool = False
) -> Callable[[int, np.random.Generator], Draw]:
    """Class shift with a known margin: four sources with every class (``overlap`` None), or five
    that miss most classes.
    """
    share_k = np.array([0.4, 0.25, 0.15, 0.1, 0.1])
    mixed_km = np.random.default_rng(7).dirichlet(np.full(6, 1.0), size=4) * 0.9 + 0.1 / 6

    def draw(n: int, rng: np.random.Generator) -> Draw:
        if overlap is None:
            scenario = class_mixtures(mixed_km, sizes=n, rng=rng)
        else:
            scenario = overlapping_classes(
                overlap=overlap,
                n_sources=5,
                n_classes=10,
                sizes=(n * share_k).astype(int) if uneven else n,
                rng=rng,
            )
        assert scenario.label is not None
        share_m = scenario.target_mean["label_share"]
        sample_label = rng.integers(0, share_m.size, n // SAMPLE_PART)
        return Draw(
            features=_around(scenario.label, dim, share_m.size, rng),
            source=scenario.source,
            label=scenario.label,
            log_omega=scenario.log_omega,
            sample=_around(sample_label, dim, share_m.size, rng),
            sample_label=sample_label,
            margin=share_m,
            truth=_class_truth(share_m, dim),
        )

    return draw


def _population_truth(features: Floats, label: Ints) -> dict[str, tuple[Floats, Floats]]:
    square = features**2
    return {
        "means": (features.mean(axis=0), features.std(axis=0)),
        "second moments": (square.mean(axis=0), square.std(axis=0)),
        "label shares": _shares(np.bincount(label) / label.size),
    }


def _acquired(decay: float, uneven: bool = False) -> Callable[[int, np.random.Generator], Draw]:
    """Four sources, each with its quarter of a square and a soft edge; the label depends on both
    features.
    """
    share_k = np.array([0.5, 0.25, 0.15, 0.1])

    def draw(n: int, rng: np.random.Generator) -> Draw:
        population = np.random.default_rng(11)
        z_nd = population.uniform(size=(POPULATION, 2))
        label_n = (z_nd.sum(axis=1) + 0.3 * population.standard_normal(POPULATION) > 1.2).astype(
            np.int64
        )
        scenario = acquisition(
            z_nd, label_n, decay=decay, sizes=(n * share_k).astype(int) if uneven else n, rng=rng
        )
        assert scenario.features is not None
        assert scenario.label is not None
        return Draw(
            features=scenario.features,
            source=scenario.source,
            label=scenario.label,
            log_omega=scenario.log_omega,
            sample=z_nd[rng.integers(0, POPULATION, n // SAMPLE_PART)],
            sample_label=None,
            margin=None,
            truth=_population_truth(z_nd, label_n),
        )

    return draw


def _hiding(n: int, rng: np.random.Generator) -> Draw:
    """Nine tenths of the pool never show two of four labels; the rest is unbiased, and is the
    target sample that all others get.
    """
    population = np.random.default_rng(13)
    label_n = population.integers(0, 4, POPULATION)
    feature_nd = _around(label_n, 2, 4, population)
    scenario = censored(label_n, feature_nd, hidden=[2, 3], sizes=[n - n // 10, n // 10], rng=rng)
    assert scenario.features is not None
    assert scenario.label is not None
    unbiased = scenario.source == 1
    return Draw(
        features=scenario.features,
        source=scenario.source,
        label=scenario.label,
        log_omega=scenario.log_omega,
        sample=scenario.features[unbiased],
        sample_label=scenario.label[unbiased],
        margin=None,
        truth=_population_truth(feature_nd, label_n),
    )


def _circle(n_sources: int, radius: float) -> Floats:
    angle_k = 2.0 * np.pi * np.arange(n_sources) / n_sources
    return radius * np.column_stack([np.cos(angle_k), np.sin(angle_k)])


def _sphere(n_sources: int, dim: int, radius: float) -> Floats:
    theta_kd = np.random.default_rng(3).standard_normal((n_sources, dim))
    return radius * theta_kd / np.linalg.norm(theta_kd, axis=1, keepdims=True)


UNLABELLED = "an unlabelled target sample of n/5"
LABELLED = "a labelled target sample of n/5 (label one-hot, with the features)"

TILTS = ("known", "known_shrunk", "tilt", "tilt_shrunk", "tilt_judged", "propensity")
BOXES = (
    "known",
    "known_shrunk",
    "soft_box",
    "soft_box_shrunk",
    "soft_box_sample",
    "soft_box_sample_shrunk",
)
CLASSES = ("known", "known_shrunk", "strata", "strata_sample", "strata_sample_shrunk")

PROBLEMS: dict[str, Problem] = {
    "tilts, 2-D": Problem(
        "3 sources N(θ_k, I) of one size with θ_k on a circle of radius 1, target N(0, I): by "
        "symmetry the pool's means are already right",
        _tilted(_circle(3, 1.0)),
        TILTS,
        UNLABELLED,
    ),
    "tilts, 10-D": Problem(
        "5 sources N(θ_k, I), |θ_k| = 0.8, target N(0, I)",
        _tilted(_sphere(5, 10, 0.8)),
        TILTS,
        UNLABELLED,
    ),
    "class shift, 2-D": Problem(
        "4 sources that mix 6 classes differently, target uniform; features N(c_y, I)",
        _classes(None, 2),
        CLASSES,
        LABELLED,
    ),
    "missing classes, 10-D": Problem(
        "5 sources with 4 of 10 classes each (the article's 4.2, overlap 0.2), features N(c_y, I), "
        "target uniform; "
        "the sources have one size, so that the pool already looks like the target",
        _classes(0.2, 10),
        CLASSES,
        LABELLED,
    ),
    "acquisition, 2-D": Problem(
        "4 sources of one size, each with its quarter of a square and a soft edge of 0.3 (the "
        "article's 4.3), target uniform; "
        "by symmetry the pool is nearly right already",
        _acquired(0.3),
        BOXES,
        UNLABELLED,
    ),
    "censored, 2-D": Problem(
        "a source of 0.9 n that never shows 2 of 4 classes, and an unbiased one of n/10",
        _hiding,
        ("known", "known_shrunk", "strata_source"),
        "the unbiased source as labelled target sample (ours has it as a source)",
    ),
    "uneven tilts, 2-D": Problem(
        "the same 3 sources with 0.6, 0.3 and 0.1 of the pool",
        _tilted(_circle(3, 1.0), np.array([0.6, 0.3, 0.1])),
        TILTS,
        UNLABELLED,
    ),
    "uneven missing classes, 10-D": Problem(
        "the same 5 sources with 0.4, 0.25, 0.15, 0.1 and 0.1 of the pool",
        _classes(0.2, 10, uneven=True),
        CLASSES,
        LABELLED,
    ),
    "uneven acquisition, 2-D": Problem(
        "the same 4 sources with 0.5, 0.25, 0.15 and 0.1 of the pool",
        _acquired(0.3, uneven=True),
        BOXES,
        UNLABELLED,
    ),
}


def analytic_ratio(n: int, seed: int) -> tuple[Draw, Floats]:
    """Pool N(0, I), target N(θ, I) in two dimensions: log p_target(z)/p_pool(z) = θ·z − |θ|²/2. For
    the check of directions.
    """
    rng = np.random.default_rng(seed)
    theta_d = np.array([0.8, -0.4])
    z_nd = rng.standard_normal((n, 2))
    draw = Draw(
        features=z_nd,
        source=np.zeros(n, dtype=np.int64),
        label=np.zeros(n, dtype=np.int64),
        log_omega=-(z_nd @ theta_d)[:, None],
        sample=theta_d + rng.standard_normal((n // 2, 2)),
        sample_label=None,
        margin=None,
        truth={"means": (theta_d, np.ones(2))},
    )
    return draw, z_nd @ theta_d - theta_d @ theta_d / 2.0
