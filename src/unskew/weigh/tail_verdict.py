"""Whether the draw has shown enough of the target: a verdict on the weights themselves.

A source that hardly ever selects some images gives those it did select large weights, and says
nothing of those it did not. With weights of infinite variance the target mass that the draw has
not shown is of the size of the largest weight, and so is the standard error: intervals are too
short and in the wrong place. No function of the drawn weights can prove that nothing is missing;
what is judged here was chosen because it hardly selects the lucky draws (docs/honest-errors.md,
"Verdicts").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unskew.errors import short_name
from unskew.records import Floats, Ints, Overlap
from unskew.records.clustered_mean import effective_size
from unskew.solve.overlap import weaken
from unskew.weigh.effective_size import add_by_code, add_by_unit

# What one unit may add to the variance, besides twice what the largest would add if all images had
# equal weights (1/m of m equal units, and no more than a tenth of units that differ). A sample of
# the target shows what the pool lacks: there only a unit that outweighs all others is judged.
_HEAVIEST = 0.07
_HEAVIEST_BESIDE_SAMPLE = 0.5
_LARGEST_UNIT = 0.1
# What strata whose spread nobody has seen may add to the variance. If units differ three times as
# much there as elsewhere, standard errors are then half of what they should be.
_LONE = 1 / 3
# Of the target's images, heavier than all but a few of the pool: less so many standard errors.
_UNSEEN = 0.1
_HEAVY_RANK = 5
_ERRORS = 1.28


def judge_tail(
    overlap: Overlap, weight_n: Floats, unit_n: Ints | None = None, *, beside_sample: bool = False
) -> Overlap:
    """Turn the verdict to "weak" where one unit (image or group) carries much of the variance.

    The value judged is max_j w_j²/Σ_j w_j², Lindeberg's condition for Σ_j w_j h_j: it vanishes with
    growing n iff the weights have a finite variance. The limit is 0.07 + 2/m for m units of equal
    size. A unit of more images is heavier without being rare: where they differ, n_j²/Σ n_j² of the
    largest takes the place of 1/m, up to 0.1. Beside a sample of the target, for which
    `judge_sample` is the sharper judge, 0.5 takes the place of 0.07.
    """
    weight_m = weight_n if unit_n is None else add_by_unit(unit_n, weight_n)
    largest = float(weight_m.max(initial=0.0))
    if not np.isfinite(weight_m).all() or largest == 0.0:
        return overlap
    heaviest = float(1.0 / np.square(weight_m / largest).sum())
    base = _HEAVIEST_BESIDE_SAMPLE if beside_sample else _HEAVIEST
    equal = 1.0 / int(np.count_nonzero(weight_m))
    if unit_n is not None:
        size_m = add_by_unit(unit_n, (weight_n > 0).astype(np.float64))
        largest_unit = float(size_m.max() ** 2 / np.square(size_m).sum())
        equal = max(equal, min(largest_unit, _LARGEST_UNIT))
    limit = min(base + 2.0 * equal, 1.0)
    unit = "image" if unit_n is None else "group"
    return _judge(
        overlap,
        "heaviest",
        heaviest,
        limit,
        f"One of {np.count_nonzero(weight_m):,} {unit}s has {largest / weight_m.sum():.2%} of the "
        f"weight and {heaviest:.0%} of the variance (limit {limit:.0%}; effective sample size "
        f"{effective_size(weight_m):,.3g}). The sources hardly ever select {unit}s like it: about "
        "as much of the target, or more, may not have been drawn at all, and errors may be much "
        f"larger than they look. Collect {unit}s like the heaviest ones, or make the target "
        "smaller.",
    )


def judge_sample(
    overlap: Overlap,
    heaviness_n: Floats,
    heaviness_t: Floats,
    unit_n: Ints | None = None,
    unit_t: Ints | None = None,
    design_t: Floats | None = None,
) -> Overlap:
    """Turn the verdict to "weak" where much of a sample of the target is heavier than the pool.

    ``heaviness`` is log 1/Σ_k e^{u_k} ω_k(z), of the pool's images and of the target's. The fifth
    heaviest unit of the pool (of fewer than 100, the one at 5%) is the limit of what the pool
    shows. ``design_t``: how often each of the target's images counts.
    """
    top_m = heaviness_n if unit_n is None else _largest_of_unit(heaviness_n, unit_n)
    rank = min(_HEAVY_RANK, max(top_m.size // 20, 1))
    limit = np.partition(top_m, top_m.size - rank)[top_m.size - rank]
    # Rounding makes no image heavier than its like.
    is_heavier_t = heaviness_t > limit + 1e-9 * max(1.0, abs(limit))
    share = float(np.average(is_heavier_t, weights=design_t))
    n_units = heaviness_t.size if unit_t is None else np.unique(unit_t).size
    unseen = max(share - _ERRORS * math.sqrt(share * (1.0 - share) / n_units), 0.0)
    return _judge(
        overlap,
        "unseen",
        unseen,
        _UNSEEN,
        f"{share:.0%} of the target's images (at least {unseen:.0%}, limit {_UNSEEN:.0%}) would be "
        f"heavier than all but the heaviest of the pool: it has hardly any images like them, and "
        "weights there are extrapolated. Collect such images, or make the target smaller.",
    )


def judge_lone_strata(
    overlap: Overlap,
    weight_n: Floats,
    cell_n: npt.NDArray[np.integer],
    unit_n: npt.NDArray[np.integer] | None,
    names: Sequence[str],
) -> Overlap:
    """Turn the verdict to "weak" where strata with a single unit carry much of the variance.

    A stratum of mass p of which one unit holds more than half shows no spread of its own, so that
    its error is borrowed from the others. The value judged is Σ p²/Σ_j w_j² over such strata, w_j
    the weight of a unit in a stratum. ``names`` are those of the strata; without ``unit_n`` every
    image is a unit.
    """
    cell_p, weight_p = cell_n, weight_n
    if unit_n is not None:
        # One number for both codes: numbers are sorted in a tenth of the time of pairs.
        n_units = int(unit_n.max()) + 1
        pair_p, place_n = np.unique(
            cell_n.astype(np.int64) * n_units + unit_n.astype(np.int64), return_inverse=True
        )
        cell_p = pair_p // n_units
        weight_p = add_by_code(place_n, weight_n, pair_p.size)
    mass_c = add_by_code(cell_n, weight_n, len(names))
    is_lone_p = weight_p > (0.5 + 1e-9) * mass_c[cell_p]
    lone = float(np.square(weight_p[is_lone_p]).sum() / np.square(weight_p).sum())
    lone_p = np.where(is_lone_p, weight_p, -1.0)
    cell = int(cell_p[lone_p == lone_p.max()].min())
    count = int(np.count_nonzero(cell_p == cell))
    return judge_lone_stratum(overlap, lone, names[cell], float(mass_c[cell]), count)


def judge_lone_stratum(
    overlap: Overlap, lone: float, name: str, mass: float, count: int
) -> Overlap:
    """Turn the verdict to "weak" where ``lone`` of `judge_lone_strata` is large."""
    held = "has a single one" if count == 1 else f"has {count}, one of which outweighs the others"
    return _judge(
        overlap,
        "lone",
        lone,
        _LONE,
        f"The stratum {short_name(name, 80)} is {mass:.2g} of the target and {held} "
        f"(image, or group): how much they differ there is not known, and such strata carry "
        f"{lone:.0%} of the variance (limit {_LONE:.0%}). Errors may be larger than they look. "
        "Collect more images of it, or use coarser strata.",
    )


def _judge(overlap: Overlap, name: str, value: float, limit: float, message: str) -> Overlap:
    """Note a measure and its limit; beyond it the verdict is "weak", for the reason given."""
    thresholds = {**overlap.thresholds, name: limit}
    overlap = replace(overlap, **{name: value, "thresholds": thresholds})  # type: ignore[arg-type]
    return overlap if value <= limit else weaken(overlap, message)


def _largest_of_unit(value_n: Floats, unit_n: Ints) -> Floats:
    unit_u, code_n = np.unique(unit_n, return_inverse=True)
    largest_u = np.full(unit_u.size, -np.inf)
    np.maximum.at(largest_u, code_n, value_n)
    return largest_u
