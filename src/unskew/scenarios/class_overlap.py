"""Sources that differ in how often they show each class (the article's section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Count, Numbers, Share, WholeNumbers, checked
from unskew.errors import ConfigError, DataError, wrong_option
from unskew.records import Ints
from unskew.records.arrays import Randomness, seed_of
from unskew.scenarios.scenario import Scenario, repeat_codes, split_sizes

_IMAGES_PER_SOURCE = 1000  # drawn when neither sizes nor a population says how many


@checked
def overlapping_classes(
    label: WholeNumbers | None = None,
    *,
    overlap: Share,
    n_sources: Count = 5,
    n_classes: Count | None = None,
    sizes: Count | Sequence[Count] | Ints | None = None,
    rng: Randomness | np.random.Generator,
) -> Scenario:
    """Draw sources of their own classes and, with probability ``overlap``, of the next one's.

    This is the article's section 4.2.

    The M classes are cut into K meta-classes C_1 … C_K of M/K consecutive classes. Source k draws
    class y with probability (1−γ)K/M on C_k, γK/M on C_{k+1} (cyclic) and 0 elsewhere, then an
    image of that class, with replacement.

    Parameters
    ----------
    label : classes 0 … M−1 of a population of images, whose distribution is the target; None for a
        uniform target without images.
    overlap : γ in [0, 1]. At 0 the sources have no class in common.
    n_sources : K; must divide the number of classes.
    n_classes : M; by default 10, or the largest label + 1.
    sizes : total number of images, or one number for each source; by default as many as there are
        labels (1000 K without labels).
    rng : an int or a NumPy Generator, of the draw.

    Returns
    -------
    Scenario
        With ω_k(y) = p_k(y)/p(y), hence Ω_k = 1; ``omega_estimated`` holds the article's estimate
        n_k^(y).

    Examples
    --------
    >>> scenario = overlapping_classes(overlap=0.2, sizes=[600, 300, 100, 100, 100], rng=0)
    >>> scenario.omega.shape, scenario.sizes.tolist(), scenario.normalizer.tolist()
    ((1200, 5), [600, 300, 100, 100, 100], [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    seed = seed_of(rng)
    if label is not None and not np.size(np.asarray(label)):
        raise DataError("label is empty: there is no population to draw from.", option="label")
    if n_classes is None:
        n_classes = 10 if label is None else int(np.max(np.asarray(label))) + 1
    if n_classes % n_sources:
        raise ConfigError(
            "the classes are shared evenly, so n_sources must divide n_classes; got "
            f"{n_sources} and {n_classes}.",
            option="n_sources",
            value=[n_sources, n_classes],
        )
    if sizes is None:
        sizes = _IMAGES_PER_SOURCE * n_sources if label is None else int(np.size(np.asarray(label)))
    owner_m = np.arange(n_classes) // (n_classes // n_sources)
    own_km = owner_m == np.arange(n_sources)[:, None]
    probability_km = (
        ((1.0 - overlap) * own_km + overlap * np.roll(own_km, -1, axis=0)) * n_sources / n_classes
    )
    return class_mixtures(
        probability_km,
        label,
        sizes=sizes,
        rng=seed,
        description=f"{n_sources} sources, {n_classes} classes, each source shares {overlap:g} of "
        "its images with the next one's classes",
    )


@checked
def class_mixtures(
    probability: Numbers,
    label: WholeNumbers | None = None,
    *,
    sizes: Count | Sequence[Count] | Ints,
    rng: Randomness | np.random.Generator,
    description: str | None = None,
) -> Scenario:
    """Draw class y of source k with probability p_k(y), then an image of it, with replacement.

    Parameters
    ----------
    probability : (K, M) the class probabilities p_k(y); rows sum to 1.
    label : classes 0 … M−1 of a population of images, whose distribution is the target; None for a
        uniform target without images.
    sizes : total number of images, or one number for each source.
    rng : an int or a NumPy Generator, of the draw.
    description : one line; a default is made.

    Returns
    -------
    Scenario
        With ω_k(y) = p_k(y)/p(y), hence Ω_k = Σ_y p(y) ω_k(y) = 1 exactly. Rows are ordered by
        source.
    """
    seed = seed_of(rng)
    probability_km = np.asarray(probability, dtype=np.float64)
    if (
        probability_km.ndim != 2
        or not probability_km.size
        or probability_km.min() < 0
        or not np.allclose(probability_km.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    ):
        raise ConfigError(
            "probability needs one row for each source, with class probabilities that are not "
            "negative and sum to 1.",
            option="probability",
        )
    n_sources, n_classes = probability_km.shape
    population = None if label is None else _population(label, n_classes)
    target_m = (
        np.full(n_classes, 1.0 / n_classes)
        if population is None
        else np.bincount(population) / population.size
    )
    size_k = split_sizes(sizes, n_sources)
    rng = np.random.default_rng(seed)
    drawn_n = np.concatenate(
        [rng.choice(n_classes, size=n, p=p) for n, p in zip(size_k, probability_km, strict=True)]
    ).astype(np.int64)
    with np.errstate(divide="ignore"):
        log_omega_mk = np.log(probability_km.T) - np.log(target_m)[:, None]
    return Scenario(
        description=description
        or f"{n_sources} sources that differ in the mix of {n_classes} classes",
        log_omega=log_omega_mk[drawn_n],
        source=repeat_codes(size_k),
        log_normalizer=np.zeros(n_sources),
        target_mean={"label_share": target_m},
        label=drawn_n,
        index=None if population is None else _draw_images(population, drawn_n, rng),
    )


def _population(label: npt.ArrayLike, n_classes: int) -> Ints:
    label_i = np.asarray(label).astype(np.int64)
    if label_i.ndim != 1 or set(np.unique(label_i).tolist()) != set(range(n_classes)):
        raise wrong_option(
            f"label must hold every class from 0 to {n_classes - 1} and no other",
            label=np.unique(label_i)[:20].tolist(),
        )
    return label_i


def _draw_images(population: Ints, drawn_n: Ints, rng: np.random.Generator) -> Ints:
    """(n,) for each drawn class an image of that class, equally likely, with replacement."""
    order_i = np.argsort(population, kind="stable")
    count_m = np.bincount(population)
    first_m = np.cumsum(count_m) - count_m
    picked_n: Ints = order_i[first_m[drawn_n] + rng.integers(0, count_m[drawn_n])]
    return picked_n
