"""What a scenario returns: drawn images, their sources, and the truth that no user knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Count, Positive, checked
from unskew.errors import ConfigError, DataError, wrong_option
from unskew.records import Floats, Ints


@checked
@dataclass(frozen=True, eq=False)
class Scenario:
    """Images drawn from K sources whose biasing functions are known.

    Source k draws from the density ω_k p/Ω_k, where p is the target and Ω_k = E_p[ω_k].

    Attributes
    ----------
    description : one line on what was drawn.
    log_omega : (n, K) log ω_k(z_i), true; −inf where source k cannot select the image.
    source : (n,) code 0 … K−1 of each image's source.
    log_normalizer : (K,) log Ω_k under the target, true (not estimated from the draw).
    target_mean : true means under the target by name: ``"label_share"`` (M,) the probability of
        each label, ``"features"`` (p,) and ``"features_squared"`` (p,) the first two moments of the
        features. Only names that the scenario knows are there.
    label : (n,) class or stratum of each image, or None.
    features : (n, p), or None.
    group : (n,) code of each image's group (images of one group are dependent, and of one source),
        or None.
    index : (n,) which image of the population was drawn, or None when there is no finite
        population.
    """

    description: str
    log_omega: Floats = field(repr=False)
    source: Ints = field(repr=False)
    log_normalizer: Floats
    target_mean: Mapping[str, Floats] = field(repr=False)
    label: Ints | None = field(repr=False, default=None)
    features: Floats | None = field(repr=False, default=None)
    group: Ints | None = field(repr=False, default=None)
    index: Ints | None = field(repr=False, default=None)

    @property
    def omega(self) -> Floats:
        """(n, K) ω_k(z_i). May overflow for extreme tilts; ``log_omega`` never does."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.log_omega)

    @property
    def normalizer(self) -> Floats:
        """(K,) Ω_k. May overflow for extreme tilts; ``log_normalizer`` never does."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.log_normalizer)

    @property
    def sizes(self) -> Ints:
        """(K,) number of images n_k of each source."""
        return np.bincount(self.source, minlength=self.log_normalizer.size).astype(np.int64)

    @property
    def omega_estimated(self) -> Floats:
        """(n, K) what a user would estimate from the draw and the target's margin.

        ω̂_k(y) = n_k^(y)/(M p(y)), M the number of labels.

        With a uniform target this is the article's ω̂_k(y) = n_k^(y), the number of images of
        source k with label y. Its exact weights are π_i ∝ p(y_i)/N_{y_i}, N_y the pooled count: the
        weighted label shares equal the target's restricted to the labels drawn.
        """
        if self.label is None:
            raise ConfigError(
                "omega_estimated counts labels per source, and this scenario has no labels.",
                column="label",
            )
        share_m = self.target_mean["label_share"]
        count_mk = np.zeros((share_m.size, self.log_normalizer.size))
        np.add.at(count_mk, (self.label, self.source), 1.0)
        estimate: Floats = (count_mk / (share_m.size * share_m[:, None]))[self.label]
        return estimate


def split_sizes(n: int | Sequence[int] | Ints, n_sources: int) -> Ints:
    """(K,) sizes of the sources: a total ``n`` is shared evenly, the first sources taking the rest.

    K sizes are returned unchanged.
    """
    if np.ndim(n) == 0:
        total = int(np.asarray(n))
        _check_total(total, n_sources)
        return np.full(n_sources, total // n_sources, dtype=np.int64) + (
            np.arange(n_sources) < total % n_sources
        )
    size_k = np.asarray(n, dtype=np.int64)
    if size_k.shape != (n_sources,) or size_k.min() < 1:
        raise ConfigError(
            f"sizes needs {n_sources} positive whole numbers, one for each source; got "
            f"{list(np.asarray(n).tolist())}.",
            option="sizes",
            value=np.asarray(n).tolist(),
        )
    return size_k


def _check_total(n: int, n_sources: int) -> None:
    if n < n_sources:
        raise wrong_option(
            f"n is at least one image for each of {n_sources} sources", n=n, limit=n_sources
        )


def read_label(label: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return (n,) labels that can be sorted: none is missing."""
    label_n = np.asarray(label)
    if label_n.dtype.kind in "fO" and any(
        value is None or value != value for value in label_n.flat
    ):
        raise DataError("every image of a population has a label.", option="label")
    return label_n


def repeat_codes(size_k: Ints) -> Ints:
    """(n,) 0 … 0 1 … 1 …: code k repeated n_k times."""
    return np.repeat(np.arange(size_k.size, dtype=np.int64), size_k)


@checked
def geometric_sizes(n: Count, n_sources: Count, ratio: Positive) -> Ints:
    """(K,) n_k ∝ ratio^k with Σ n_k = ``n`` exactly, each at least 1.

    The largest remainders are rounded up.

    >>> geometric_sizes(50_000, 8, 0.75).tolist()
    [13891, 10418, 7814, 5860, 4395, 3296, 2472, 1854]
    """
    _check_total(n, n_sources)
    # In logarithms, so that no power of the ratio overflows.
    log_k = np.arange(n_sources) * np.log(ratio)
    share_k = np.exp(log_k - log_k.max())
    ideal_k = n * share_k / share_k.sum()
    size_k: Ints = np.floor(ideal_k).astype(np.int64)
    size_k[np.argsort(size_k - ideal_k, kind="stable")[: int(n - size_k.sum())]] += 1
    while size_k.min() < 1:
        size_k[np.argmin(size_k)] += 1
        size_k[np.argmax(size_k)] -= 1
    return size_k
