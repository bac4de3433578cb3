"""Move the weights as little as possible so that known facts about the target hold exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Numbers, checked
from unskew.errors import ConfigError, ConvergenceError, DataError
from unskew.records import Bools, Floats, Ints, Weights
from unskew.records.arrays import refuse_entries
from unskew.records.clustered_mean import effective_size
from unskew.target.raking import (
    MarginOfCells,
    MeanOfCells,
    find_possible,
    margin_masses,
    tilt_to_facts,
)
from unskew.weigh.known_margins import read_margins, read_means

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Calibration:
    """Weights for which the given margins and means hold, and what it took.

    Attributes
    ----------
    weight : (n,) p_i, sums to 1; 0 where the weight was 0 before, or where the margins leave no
        room.
    kl : Σ_i p_i log(p_i/π_i), how far the weights moved; 0 iff they did not.
    ess_before, ess_after : Kish's effective number of images.
    margins : achieved mass of every level, by attribute.
    means : achieved means, by name.
    largest_ratio : max_i p_i/π_i, the image that gained most.
    n_dropped : images whose weight became exactly 0 (levels of target mass 0).
    n_steps : Newton steps.
    """

    weight: Floats = field(repr=False)
    kl: float
    ess_before: float
    ess_after: float
    margins: Mapping[str, Mapping[Any, float]]
    means: Mapping[str, float]
    largest_ratio: float
    n_dropped: int
    n_steps: int

    @property
    def sample_weight(self) -> Floats:
        """(n,) n p_i: mean 1, as scikit-learn's ``sample_weight`` expects."""
        return self.weight * self.weight.size


@checked
def calibrate_weights(
    weights: Weights | Numbers,
    *,
    by: Mapping[str, npt.ArrayLike] | pd.DataFrame | None = None,
    margins: Mapping[str, Any] | None = None,
    means: Mapping[str, Any] | None = None,
) -> Calibration:
    """Change the weights as little as possible so that known margins and means hold.

    The result p minimises Σ_i p_i log(p_i/π_i) among the weights for which they hold. The solution
    is p_i ∝ π_i exp(ν·x_i), x_i the indicators of the image's levels and its values: for one
    attribute post-stratification, for several the limit of iterative proportional fitting. Margins
    that hold already change nothing. The margins then hold to 1e-12.

    Parameters
    ----------
    weights : the weights, or (n,) numbers proportional to them.
    by : for each attribute, (n,) the level of every image; or a DataFrame with a column for each
        attribute, in the order of the images.
    margins : for each attribute of ``by``, the target mass of every level that occurs (a dict, or a
        Series by level); masses sum to 1. A level of mass 0 loses its images.
    means : for each name, (n,) finite values and their known target mean.

    Raises
    ------
    DataError : a margin that is no distribution, a level without a mass, a missing level, values of
        the wrong length.
    CoverageError : a level with positive mass and no images, or margins that no weights on these
        images can reach together.

    Examples
    --------
    >>> light = ["day", "day", "day", "night"]
    >>> half = {"light": {"day": 0.5, "night": 0.5}}
    >>> result = calibrate_weights([1, 1, 1, 1], by={"light": light}, margins=half)
    >>> result.weight.round(6).tolist(), round(result.ess_after, 6)
    ([0.166667, 0.166667, 0.166667, 0.5], 3.0)
    """
    weight_n = read_weight(weights)
    margin_list = read_margins(
        {} if by is None else by, {} if margins is None else margins, weight_n
    )
    mean_list = read_means(means or {}, weight_n.size)
    if not margin_list and not mean_list:
        raise ConfigError(
            "there is nothing to calibrate to: pass margins (with by) or means.", option="margins"
        )
    keep_n = find_possible(weight_n, margin_list)
    cell_weight_c, cell_of_kept, first_kept = _collapse(weight_n, keep_n, margin_list, mean_list)
    row_c = np.flatnonzero(keep_n)[first_kept]
    tilt = tilt_to_facts(
        cell_weight_c,
        [replace(margin, code_c=margin.code_c[row_c]) for margin in margin_list],
        [replace(mean, value_c=mean.value_c[row_c]) for mean in mean_list],
        [f"the margin of {margin.name}" for margin in margin_list]
        + [f"the mean of {mean.name}" for mean in mean_list],
    )
    after_n = np.zeros(weight_n.size)
    after_n[keep_n] = weight_n[keep_n] * (tilt.probability / cell_weight_c)[cell_of_kept]
    return _summarize(weight_n, after_n / after_n.sum(), margin_list, mean_list, tilt.n_steps)


def _summarize(
    weight_n: Floats,
    after_n: Floats,
    margins: Sequence[MarginOfCells],
    means: Sequence[MeanOfCells],
    n_steps: int,
) -> Calibration:
    moved_n = after_n > 0
    ratio = after_n[moved_n] / weight_n[moved_n]
    return Calibration(
        weight=after_n,
        # The divergence is never negative; rounding is.
        kl=max(0.0, float(after_n[moved_n] @ np.log(ratio))),
        ess_before=effective_size(weight_n),
        ess_after=effective_size(after_n),
        margins={
            margin.name: dict(
                zip(margin.levels, margin_masses(margin, after_n).tolist(), strict=True)
            )
            for margin in margins
        },
        means={mean.name: float(after_n @ mean.value_c) for mean in means},
        largest_ratio=float(ratio.max()),
        n_dropped=int(np.count_nonzero((weight_n > 0) & ~moved_n)),
        n_steps=n_steps,
    )


def read_weight(weights: Weights | npt.ArrayLike, name: str = "weights") -> Floats:
    """Return (n,) the weights, finite, not negative, divided by their sum; ``name``: the option."""
    if isinstance(weights, Weights):
        if not np.isfinite(weights.weight).all():
            raise ConvergenceError(
                "there are no weights to adjust, because there is no solution: "
                f"{weights.solution.status.value}.",
                weights.solution,
                option="weights",
                value=weights.solution.status.name,
            )
        return weights.weight
    weight_n = np.asarray(weights, dtype=np.float64)
    if weight_n.ndim != 1 or weight_n.size == 0:
        raise DataError(
            f"{name} must be one number per image, in one dimension; got shape {weight_n.shape}.",
            option=name,
            value=list(weight_n.shape),
        )
    bad_n = ~np.isfinite(weight_n) | (weight_n < 0)
    refuse_entries(bad_n, weight_n, name, "finite and not negative")
    largest = weight_n.max()
    if largest == 0:
        raise DataError("all weights are zero: there is not a single image left.", option=name)
    # Relative to the largest, up to a power of two so that no digit changes: the sum of huge
    # weights does not overflow.
    scaled_n = np.ldexp(weight_n, -math.frexp(largest)[1])
    share_n: Floats = scaled_n / scaled_n.sum()
    return share_n


def _collapse(
    weight_n: Floats, keep_n: Bools, margins: Sequence[MarginOfCells], means: Sequence[MeanOfCells]
) -> tuple[Floats, Ints, Ints]:
    """Merge kept images that agree in all levels and values."""
    cell = np.zeros(int(keep_n.sum()), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for column_n in [margin.code_c for margin in margins] + [mean.value_c for mean in means]:
        distinct, code = np.unique(column_n[keep_n], return_inverse=True)
        # Numbered again after every column, so that the product never overflows.
        _, first, cell = np.unique(
            cell * distinct.size + code, return_index=True, return_inverse=True
        )
    cell_weight_c = np.bincount(cell, weights=weight_n[keep_n])
    return cell_weight_c / cell_weight_c.sum(), cell, first
