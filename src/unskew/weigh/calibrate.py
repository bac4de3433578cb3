"""Move the weights as little as possible so that known facts about the target hold exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError, first_few
from unskew.records import Bools, Floats, Ints, Weights
from unskew.records.arrays import refuse_entries
from unskew.records.clustered_mean import effective_size
from unskew.target.raking import sweep_margins
from unskew.target.tilting import Gap, TiltSolution, smallest_conflict, tilt_to_zero
from unskew.weigh.known_margins import (
    KnownMargin,
    KnownMean,
    check_coverage,
    margin_masses,
    read_margins,
    read_means,
)

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


def calibrate_weights(
    weights: Weights | npt.ArrayLike,
    *,
    by: Mapping[str, npt.ArrayLike] | pd.DataFrame | None = None,
    margins: Mapping[str, Mapping[Any, float] | pd.Series[float]] | None = None,
    means: Mapping[str, tuple[npt.ArrayLike, float]] | None = None,
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
    keep_n = _keep(weight_n, margin_list)
    cell_weight_c, cell_of_kept, first_kept = _collapse(weight_n, keep_n, margin_list, mean_list)
    row_c = np.flatnonzero(keep_n)[first_kept]
    raked_c = sweep_margins(
        cell_weight_c,
        [margin.code[row_c] for margin in margin_list],
        [margin.mass_l for margin in margin_list],
    )
    tilt = tilt_to_zero(raked_c, _deviations(row_c, margin_list, mean_list))
    if not isinstance(tilt, TiltSolution):
        raise _unreachable(tilt, row_c, margin_list, mean_list)
    after_n = np.zeros(weight_n.size)
    after_n[keep_n] = weight_n[keep_n] * (tilt.probability / cell_weight_c)[cell_of_kept]
    return _summarize(weight_n, after_n / after_n.sum(), margin_list, mean_list, tilt.n_steps)


def _summarize(
    weight_n: Floats,
    after_n: Floats,
    margins: Sequence[KnownMargin],
    means: Sequence[KnownMean],
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
        means={mean.name: float(after_n @ mean.value) for mean in means},
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


def _keep(weight_n: Floats, margins: Sequence[KnownMargin]) -> Bools:
    """Find (n,) images that may have a positive weight.

    It was positive, and no level of theirs has mass 0.
    """
    keep_n: Bools = weight_n > 0
    for margin in margins:
        keep_n = keep_n & (margin.mass_l[margin.code] > 0)
    for margin in margins:
        check_coverage(
            margin, weight_n * keep_n, "all its images have another attribute at a level of mass 0"
        )
    return keep_n


def _collapse(
    weight_n: Floats,
    keep_n: Bools,
    margins: Sequence[KnownMargin],
    means: Sequence[KnownMean],
) -> tuple[Floats, Ints, Ints]:
    """Merge kept images that agree in all levels and values.

    Returns cell weights (sum 1), the cell of each kept image, and one image per cell.
    """
    cell = np.zeros(int(keep_n.sum()), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for column_n in [margin.code for margin in margins] + [mean.value for mean in means]:
        distinct, code = np.unique(column_n[keep_n], return_inverse=True)
        # Numbered again after every column, so that the product never overflows.
        _, first, cell = np.unique(
            cell * distinct.size + code, return_index=True, return_inverse=True
        )
    cell_weight_c = np.bincount(cell, weights=weight_n[keep_n])
    return cell_weight_c / cell_weight_c.sum(), cell, first


def _deviations(row_c: Ints, margins: Sequence[KnownMargin], means: Sequence[KnownMean]) -> Floats:
    """Return (C, J) columns with target mean 0, one for every level with mass and every mean."""
    columns = [
        (margin.code[row_c] == at) - margin.mass_l[at]
        for margin in margins
        for at in _levels_with_mass(margin)
    ]
    columns += [(mean.value[row_c] - mean.target) / _scale(mean, row_c) for mean in means]
    return np.column_stack(columns)


def _levels_with_mass(margin: KnownMargin) -> list[int]:
    return [int(at) for at in np.flatnonzero(margin.mass_l > 0)]


def _scale(mean: KnownMean, row_c: Ints) -> float:
    return float(np.abs(mean.value[row_c] - mean.target).max()) or 1.0


def _unreachable(
    gap: Gap | None, row_c: Ints, margins: Sequence[KnownMargin], means: Sequence[KnownMean]
) -> CoverageError | ConvergenceError:
    if gap is None:
        return ConvergenceError(
            "these margins are so close to the limit of what weights on these images can reach "
            "that double precision cannot tell whether "
            "they can be reached. Merge rare levels, or leave one margin out."
        )
    labels = [
        (f"{margin.name} = {margin.levels[at]}", margin.mass_l[at], 1.0)
        for margin in margins
        for at in _levels_with_mass(margin)
    ]
    labels += [(f"mean of {mean.name}", mean.target, _scale(mean, row_c)) for mean in means]
    nearest = [
        f"{name}: {target + scale * offset:.6g} instead of {target:.6g}"
        for (name, target, scale), offset in zip(labels, gap.nearest, strict=True)
        if abs(offset) > 1e-9
    ]
    blocks = [f"the margin of {margin.name}" for margin in margins] + [
        f"the mean of {mean.name}" for mean in means
    ]
    sizes = [len(_levels_with_mass(margin)) for margin in margins] + [1] * len(means)
    conflict = smallest_conflict(
        _deviations(row_c, margins, means), np.repeat(np.arange(len(blocks)), sizes)
    )
    return CoverageError(
        "no weights on these images can reach all margins together; in conflict: "
        f"{first_few([blocks[at] for at in conflict], 12)}. The nearest that can be reached: "
        f"{first_few(nearest, 12)}. Add images that combine these levels, or leave one margin out.",
        columns=[blocks[at] for at in conflict],
    )
