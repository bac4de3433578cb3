"""Known margins and means of the target, read from what a user passes and checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Floats, Ints
from unskew.target.raking import MarginOfCells, MeanOfCells, check_coverage
from unskew.weigh.sampling_units import check_values

if TYPE_CHECKING:
    import pandas as pd

# Probabilities typed in with ten digits pass; thirds typed in as 0.333 do not.
_MASS_TOLERANCE = 1e-9


def read_margins(
    by: Mapping[str, npt.ArrayLike] | pd.DataFrame,
    margins: Mapping[str, Mapping[Any, float] | pd.Series[float]],
    weight_n: Floats,
) -> list[MarginOfCells]:
    """Read the margins; each is a distribution over levels that occur among the images."""
    if set(by) != set(margins):
        odd = sorted(set(by) ^ set(margins), key=str)
        raise ConfigError(
            "by (the level of every image) and margins (the mass of every level) must name the "
            f"same attributes; only one of the two has {first_few(odd)}.",
            columns=odd,
        )
    return [
        _read_margin(name, by[name], _unique_levels(name, margins[name]), weight_n)
        for name in margins
    ]


def _unique_levels(name: str, masses: Mapping[Any, float] | pd.Series[float]) -> dict[Any, float]:
    levels = list(masses.keys())
    if len(set(levels)) < len(levels):
        repeated = [level for level, count in Counter(levels).items() if count > 1]
        raise DataError(
            f"the margin of {name!r} gives more than one mass to {first_few(repeated)}.",
            column=name,
            levels=repeated,
        )
    return {level: masses[level] for level in levels}


def _read_margin(
    name: str, labels: npt.ArrayLike, masses: Mapping[Any, float], weight_n: Floats
) -> MarginOfCells:
    label_n = np.asarray(labels)
    if label_n.shape != weight_n.shape:
        raise DataError(
            f"by[{name!r}] must give one level per image, {weight_n.size} in all; got shape "
            f"{label_n.shape}.",
            column=name,
            count=weight_n.size,
        )
    mass_l = _read_masses(name, masses)
    code_n, unknown = _encode(name, label_n, list(masses))
    if unknown:
        raise DataError(
            f"the margin of {name!r} gives no mass to {first_few(unknown)}, which occurs among the "
            "images. Give every level that occurs a mass; a mass of 0 takes its images out.",
            column=name,
            levels=unknown,
        )
    margin = MarginOfCells(name, tuple(masses), mass_l, code_n)
    check_coverage(margin, weight_n, "no image with that level has a positive weight")
    return margin


def _read_masses(name: str, masses: Mapping[Any, float]) -> Floats:
    mass_l = np.array([float(mass) for mass in masses.values()])
    for level, mass in zip(masses, mass_l, strict=True):
        if not (math.isfinite(mass) and mass >= 0):
            raise DataError(
                f"the mass of a level is a share of the target, between 0 and 1; got {mass} for "
                f"{name} = {level}.",
                column=name,
                level=level,
                value=float(mass),
            )
    total = math.fsum(mass_l)
    if abs(total - 1.0) > _MASS_TOLERANCE:
        raise DataError(
            f"the masses of {name!r} must sum to 1, but they sum to {total:.12g} "
            f"({total - 1.0:+.3g}). Divide them by their sum if they are counts or rounded shares; "
            "add the missing level if one was forgotten.",
            column=name,
            value=total,
        )
    return mass_l / total


def _encode(
    name: str, label_n: npt.NDArray[Any], levels: Sequence[Hashable]
) -> tuple[Ints, list[Hashable]]:
    """Return (n,) position of each image's level in ``levels``, and the labels not among them."""
    import pandas as pd

    code_n, seen = pd.factorize(label_n)
    if (code_n < 0).any():
        row = int(np.flatnonzero(code_n < 0)[0])
        raise DataError(
            f"image {row} has no level of {name!r} (it is missing, as for "
            f"{int((code_n < 0).sum())} images in all). Make missing a level of its own with a "
            "mass of its own, or leave these images out before the weights are computed.",
            column=name,
            row=row,
            count=int((code_n < 0).sum()),
        )
    position = {level: at for at, level in enumerate(levels)}
    seen_levels = list(seen.tolist())
    unknown = [level for level in seen_levels if level not in position]
    return np.array([position.get(level, -1) for level in seen_levels], dtype=np.int64)[
        code_n
    ], unknown


def read_means(means: Mapping[str, Any], n: int) -> list[MeanOfCells]:
    """Read the known means, with finite values of all images."""
    read = []
    for name, mean in means.items():
        if not isinstance(mean, tuple | list) or len(mean) != 2:
            raise ConfigError(
                f"a known mean is a pair, (values of all images, mean); {name!r} has {mean!r}.",
                option="means",
                column=name,
            )
        values, target = mean
        if not isinstance(target, Real) or not math.isfinite(target):
            raise DataError(
                f"the known mean of {name!r} must be finite; got {target}.",
                column=name,
                value=target,
            )
        read.append(MeanOfCells(name, check_values(values, n), float(target)))
    return read
