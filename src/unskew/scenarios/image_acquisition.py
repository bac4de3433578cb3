"""Sources that differ in how their images were taken.

Soft boxes around the bins of a few features: the article's section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Count, Numbers, Positive, checked
from unskew.errors import ConfigError, wrong_option
from unskew.records import Floats, Ints
from unskew.records.arrays import Randomness, seed_of
from unskew.scenarios.scenario import Scenario, read_label, repeat_codes, split_sizes


@checked
def acquisition(
    features: Numbers,
    label: npt.ArrayLike | None = None,
    *,
    decay: Positive,
    sizes: Count | Sequence[Count] | Ints | None = None,
    rng: Randomness | np.random.Generator,
) -> Scenario:
    """Draw sources that see their own bin of the features fully, and less of what is far from it.

    This is the article's section 4.3.

    The d features are split at their medians into K = 2^d bins; image x is in bin Σ_j 2^{d−1−j}
    1{x_j > median_j} (for hue, saturation and value: 4·b_H + 2·b_S + b_V). Source k selects with
    ω_k(x) = max(0, 1 − ‖x − projection of x on bin k‖₁/γ), which is 1 in bin k, and draws with
    replacement from the population, which is the target.

    Parameters
    ----------
    features : (N, d) of the population, d ≤ 10.
    label : (N,) of the population, carried along; None if there are none.
    decay : γ > 0, the ℓ1 distance at which ω falls to zero.
    sizes : total number of images, or one number for each of the 2^d sources; by default N.
    rng : an int or a NumPy Generator, of the draw.

    Returns
    -------
    Scenario
        With the true ω and the true Ω_k = mean of ω_k over the population; ``index`` says which
        images were drawn.

    Examples
    --------
    >>> import numpy as np
    >>> population = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> scenario = acquisition(population, decay=0.1, sizes=[400, 300, 200, 100], rng=0)
    >>> scenario.omega.shape, bool(np.all(scenario.omega[np.arange(1000), scenario.source] > 0))
    ((1000, 4), True)
    """
    seed = seed_of(rng)
    feature_np = np.asarray(features, dtype=np.float64)
    if (
        feature_np.ndim != 2
        or not 1 <= feature_np.shape[1] <= 10
        or not np.all(np.isfinite(feature_np))
    ):
        raise ConfigError(
            "features needs one row of one to ten finite numbers for each image; got shape "
            f"{feature_np.shape}.",
            option="features",
            value=list(feature_np.shape),
        )
    omega_nk = soft_bins(feature_np, decay)
    return draw_from_population(
        omega_nk,
        feature_np,
        label,
        sizes=feature_np.shape[0] if sizes is None else sizes,
        rng=seed,
        description=f"{omega_nk.shape[1]} sources, each with its own bin of {feature_np.shape[1]} "
        f"features, falling off over {decay:g}",
    )


def soft_bins(feature_np: Floats, decay: float) -> Floats:
    """(N, 2^d) ω_k(x) = max(0, 1 − ℓ1 distance of x to bin k / ``decay``)."""
    n_features = feature_np.shape[1]
    median_p = np.median(feature_np, axis=0)
    above_np = np.maximum(feature_np - median_p, 0.0)  # distance to the lower half
    below_np = np.maximum(median_p - feature_np, 0.0)  # distance to the upper half
    distance_nk = np.zeros((feature_np.shape[0], 2**n_features))
    for k in range(2**n_features):
        upper = [(k >> (n_features - 1 - j)) & 1 for j in range(n_features)]
        distance_nk[:, k] = sum(
            below_np[:, j] if is_upper else above_np[:, j] for j, is_upper in enumerate(upper)
        )
    return np.maximum(0.0, 1.0 - distance_nk / decay)


def draw_from_population(
    omega_nk: Floats,
    feature_np: Floats | None,
    label: npt.ArrayLike | None,
    *,
    sizes: int | Sequence[int] | Ints,
    rng: Randomness | np.random.Generator,
    description: str,
) -> Scenario:
    """Draw n_k images for each source with probability ω_ik/Σ_j ω_jk, with replacement."""
    seed = seed_of(rng)
    n_population, n_sources = omega_nk.shape
    label_n = None if label is None else read_label(label)
    if label_n is not None and label_n.shape != (n_population,):
        raise wrong_option(
            f"label has one entry for each of the {n_population} images of the population",
            label=list(label_n.shape),
        )
    size_k = split_sizes(sizes, n_sources)
    rng = np.random.default_rng(seed)
    total_k = omega_nk.sum(axis=0)
    if not np.all(total_k > 0):
        empty = int(np.argmin(total_k))
        raise ConfigError(
            f"source {empty} could not draw a single image of this population: its omega is zero "
            "everywhere.",
            source=empty,
        )
    index_n = np.concatenate(
        [
            rng.choice(n_population, size=n, p=omega_nk[:, k] / total_k[k])
            for k, n in enumerate(size_k)
        ]
    ).astype(np.int64)
    means: dict[str, Floats] = {}
    if feature_np is not None:
        means |= {
            "features": feature_np.mean(axis=0),
            "features_squared": np.mean(feature_np**2, axis=0),
        }
    drawn_label_n = None
    if label_n is not None:
        _, code_n = np.unique(label_n, return_inverse=True)
        means["label_share"] = np.bincount(code_n) / n_population
        drawn_label_n = code_n[index_n].astype(np.int64)
    with np.errstate(divide="ignore"):
        log_omega_nk = np.log(omega_nk[index_n])
    return Scenario(
        description=description,
        log_omega=log_omega_nk,
        source=repeat_codes(size_k),
        log_normalizer=np.log(total_k / n_population),
        target_mean=means,
        label=drawn_label_n,
        features=None if feature_np is None else feature_np[index_n],
        index=index_n,
    )
