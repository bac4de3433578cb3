"""Sources that are exponential tilts of a Gaussian target: everything is known in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unskew.engine.arguments import Count, Numbers, Share, checked
from unskew.errors import ConfigError
from unskew.records import Floats, Ints
from unskew.records.arrays import Randomness, seed_of
from unskew.scenarios.scenario import Scenario, repeat_codes, split_sizes


@checked
def tilts(
    n: Count | Sequence[Count] | Ints,
    *,
    n_sources: Count = 3,
    dim: Count = 1,
    theta: Numbers | None = None,
    spread: float = 1.0,
    group_size: Count | None = None,
    group_sd: Share = 0.7,
    rng: Randomness | np.random.Generator,
) -> Scenario:
    """Draw sources tilted from a standard Gaussian.

    Target N(0, I), ω_k(z) = exp(θ_k·z), hence source k is N(θ_k, I) and Ω_k = exp(|θ_k|²/2).

    With ``group_size`` the images of a source come in groups that share a random effect, z = θ_k +
    τ b_g + √(1−τ²) e with b_g and e standard Gaussian and τ = ``group_sd``: each image is still
    exactly N(θ_k, I), and two images of one group have correlation τ² in every coordinate.

    Parameters
    ----------
    n : total number of images, or one number for each source.
    n_sources : K, unless ``theta`` is given.
    dim : d, unless ``theta`` is given.
    theta : (K, d) the tilts; by default evenly spaced on a circle of radius ``spread`` (on
        [−spread, spread] when ``dim`` is 1).
    spread : how far the sources are from the target.
    group_size : images in a group (the last group of a source may be smaller); None for independent
        images.
    group_sd : τ in [0, 1].
    rng : an int or a NumPy Generator, of the draw.

    Examples
    --------
    >>> scenario = tilts(600, theta=[[0.0, 0.0], [1.0, -1.0]], rng=0)
    >>> scenario.log_normalizer.tolist(), scenario.features.shape
    ([0.0, 1.0], (600, 2))
    """
    seed = seed_of(rng)
    theta_kd = (
        _even_tilts(n_sources, dim, spread)
        if theta is None
        else np.asarray(theta, dtype=np.float64)
    )
    if theta_kd.ndim != 2 or not theta_kd.size or not np.all(np.isfinite(theta_kd)):
        raise ConfigError(
            "theta needs one finite row for each source and one column for each feature; got "
            f"shape {theta_kd.shape}.",
            option="theta",
            value=list(theta_kd.shape),
        )
    size_k = split_sizes(n, theta_kd.shape[0])
    source_n = repeat_codes(size_k)
    rng = np.random.default_rng(seed)
    noise_nd = rng.standard_normal((source_n.size, theta_kd.shape[1]))
    group_n = None
    if group_size is not None:
        group_n = _group_codes(size_k, group_size)
        effect_gd = rng.standard_normal((int(group_n[-1]) + 1, theta_kd.shape[1]))
        noise_nd = group_sd * effect_gd[group_n] + np.sqrt(1.0 - group_sd**2) * noise_nd
    z_nd = theta_kd[source_n] + noise_nd
    return Scenario(
        description=f"{theta_kd.shape[0]} Gaussian sources in {theta_kd.shape[1]} dimensions, "
        "tilted from the standard Gaussian",
        log_omega=z_nd @ theta_kd.T,
        source=source_n,
        log_normalizer=np.sum(theta_kd**2, axis=1) / 2.0,
        target_mean={
            "features": np.zeros(theta_kd.shape[1]),
            "features_squared": np.ones(theta_kd.shape[1]),
        },
        features=z_nd,
        group=group_n,
    )


def _even_tilts(n_sources: int, dim: int, spread: float) -> Floats:
    theta_kd = np.zeros((n_sources, dim))
    if dim == 1:
        theta_kd[:, 0] = np.linspace(-spread, spread, n_sources) if n_sources > 1 else spread
    else:
        angle_k = 2.0 * np.pi * np.arange(n_sources) / n_sources
        theta_kd[:, 0], theta_kd[:, 1] = spread * np.cos(angle_k), spread * np.sin(angle_k)
    return theta_kd


def _group_codes(size_k: Ints, group_size: int) -> Ints:
    """(n,) group codes 0, 1, … in row order; a group never crosses from one source to the next."""
    groups_k = -(-size_k // group_size)
    first_k = np.cumsum(groups_k) - groups_k
    return np.concatenate(
        [first + np.arange(size) // group_size for first, size in zip(first_k, size_k, strict=True)]
    )
