"""Which images an epoch shows, and how often: systematic, multinomial, or without replacement.

NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.records import Floats, Ints

Scheme = Literal["systematic", "multinomial"]

# m·π_i is computed with a relative error of at most log₂(n) roundings of the sum, under 1e-14 for n
# = 10⁸; what comes this close to a whole number was meant to be one, and then the image appears
# exactly so often.
_SAME = 1e-13


@dataclass(frozen=True, eq=False)
class SystematicPlan:
    """How often every image appears: e_i = ``whole`` + ``fraction``, Σ_i e_i = ``size``.

    Image i appears ⌊e_i⌋ times, and once more with the probability of its fraction: the fractions
    are laid end to end in a random order on a line, and where a whole number plus one common random
    start falls into a piece, that image is taken.

    Attributes
    ----------
    whole : the rows that appear for certain, each ⌊e_i⌋ times.
    row : (f,) the rows whose e_i is not a whole number.
    fraction : (f,) e_i − ⌊e_i⌋ of these in units of 2⁻⁶⁴: sums wrap at 1 and are exact, whatever
        the number of images.
    size : how many images are drawn.
    """

    whole: Ints = field(repr=False)
    row: Ints = field(repr=False)
    fraction: npt.NDArray[np.uint64] = field(repr=False)
    size: int

    def draw(self, rng: np.random.Generator) -> Ints:
        """Draw (size,) rows in random order."""
        order = rng.permutation(self.row.size)
        width = self.fraction[order]
        end = np.cumsum(width, dtype=np.uint64)
        end += rng.integers(2**64, dtype=np.uint64)
        # Unsigned numbers wrap at 2⁶⁴: an end below its beginning has passed a whole number.
        taken = end < end - width
        drawn = np.concatenate([self.whole, self.row[self._exactly(order, taken, rng)]])
        rng.shuffle(drawn)
        return drawn

    def _exactly(self, order: Ints, taken: npt.NDArray[np.bool_], rng: np.random.Generator) -> Ints:
        """Return the fractions to take, one more or less if rounding asks for it.

        Rounding leaves Σ_i e_i off by some 1e-15 × size, and with that probability the draw by one
        image.
        """
        drawn = order[taken]
        surplus = self.whole.size + drawn.size - self.size
        if surplus > 0:
            return np.delete(drawn, rng.choice(drawn.size, surplus, replace=False))
        if surplus < 0:
            return np.append(drawn, rng.choice(order[~taken], -surplus, replace=False))
        return drawn


@dataclass(frozen=True, eq=False)
class MultinomialPlan:
    """``size`` independent draws, image i with probability π_i: the article's sampling.

    ``cumulative`` (n,) are the partial sums of the weights, up to a common factor.
    """

    cumulative: Floats = field(repr=False)
    size: int

    def draw(self, rng: np.random.Generator) -> Ints:
        """Draw (size,) rows in random order.

        Sorted uniform points are the partial sums of exponential gaps (Devroye 1986, V.3.1);
        sorted, they walk through memory once.
        """
        gap = rng.standard_exponential(self.size + 1)
        point = np.cumsum(gap, out=gap)
        point *= self.cumulative[-1] / point[-1]
        # The first partial sum above the point: never that of a weight of zero, which adds nothing.
        drawn = np.searchsorted(self.cumulative, point[:-1], side="right")
        # A point that was rounded up to the total belongs to the last image with a weight.
        np.minimum(drawn, np.searchsorted(self.cumulative, self.cumulative[-1]), out=drawn)
        rng.shuffle(drawn)
        return drawn


def plan_draws(
    weight_n: Floats, size: int, scheme: Scheme = "systematic", *, replacement: bool = True
) -> SystematicPlan | MultinomialPlan:
    """Prepare the draws of epochs of ``size`` images; ``plan.draw(rng)`` draws one epoch.

    Parameters
    ----------
    weight_n : (n,) weights, not negative, not all zero; their sum does not matter.
    size : m, how many images are drawn.
    scheme : "systematic" (image i appears ⌊mπ_i⌋ or ⌈mπ_i⌉ times) or "multinomial" (m independent
        draws).
    replacement : False: no image appears twice; i is included with probability min(1, c·π_i), c
        such that these sum to m.
    """
    if scheme not in get_args(Scheme):
        raise ConfigError(
            "scheme is 'systematic' or 'multinomial'; got "
            f"{scheme!r}.{did_you_mean(scheme, get_args(Scheme))}",
            option="scheme",
            value=scheme,
            allowed=list(get_args(Scheme)),
        )
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ConfigError(
            f"size is how many images an epoch draws, a whole number of at least 1; got {size!r}.",
            option="size",
            value=size,
        )
    scaled_n = weight_n / weight_n.max()
    if not replacement:
        if scheme == "multinomial":
            raise ConfigError(
                "multinomial draws are independent, so images repeat: without replacement use "
                "scheme='systematic'.",
                option="scheme",
                value=scheme,
            )
        return _systematic(inclusion_probabilities(scaled_n, size), size)
    if scheme == "multinomial":
        return MultinomialPlan(np.cumsum(scaled_n), int(size))
    scaled_n *= size / scaled_n.sum()
    return _systematic(scaled_n, size)


def inclusion_probabilities(weight_n: Floats, size: int) -> Floats:
    """Compute (n,) min(1, c·w_i), with c such that they sum to ``size``.

    With weights in descending order the first k are certain, k the smallest number with (size −
    k)·w_{k+1} < Σ_{j>k} w_j, and c = (size − k)/Σ_{j>k} w_j.
    """
    n_positive = int(np.count_nonzero(weight_n))
    if size > n_positive:
        raise DataError(
            f"without replacement no image appears twice, so {size} images cannot be drawn from "
            f"{n_positive} with a weight above zero. Draw fewer (size), or with replacement.",
            option="size",
            value=int(size),
            limit=n_positive,
        )
    if size == n_positive:
        return (weight_n > 0).astype(np.float64)
    ascending = np.sort(weight_n)
    # Summed from the smallest, so that none is lost in the large ones.
    rest = np.cumsum(ascending)[::-1]
    certain = int(
        np.argmax((size - np.arange(size + 1)) * ascending[::-1][: size + 1] < rest[: size + 1])
    )
    probability: Floats = np.minimum(weight_n * ((size - certain) / rest[certain]), 1.0)
    if certain:
        probability[weight_n >= ascending[-certain]] = 1.0
    return probability


def _systematic(expected_n: Floats, size: int) -> SystematicPlan:
    """Split expected counts into whole parts and fractions, overwriting ``expected_n``.

    For 10⁸ images every further array would be 0.8 GB.
    """
    floor = np.rint(expected_n)
    np.copyto(expected_n, floor, where=np.abs(expected_n - floor) <= _SAME * floor)
    np.floor(expected_n, out=floor)
    expected_n -= floor
    expected_n *= 2.0**64
    fraction = expected_n.astype(np.uint64)
    row = np.flatnonzero(fraction)
    # Most images appear never or once for certain: repeating only the others is several times
    # faster than repeating all.
    once = np.flatnonzero(floor)
    often = once[floor[once] > 1]
    whole = np.concatenate([once, np.repeat(often, floor[often].astype(np.int64) - 1)])
    return SystematicPlan(whole=whole, row=row, fraction=fraction[row], size=int(size))
