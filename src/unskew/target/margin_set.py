"""A margin that is known up to a set: the smallest and largest mass of every level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unskew.errors import ConfigError, did_you_mean, first_few, wrong_option
from unskew.records import Floats, Target
from unskew.records.levels import level_text
from unskew.target.facts import Distribution

# Masses that sum to 1 up to rounding do so.
_ROUNDING = 1e-12


def only_fact(target: object) -> Distribution:
    """Return the one distribution of a target; refuse others, whose mean is not linear in it."""
    if isinstance(target, Target) and len(target.facts) == 1 and target.label_shift is None:
        return target.facts[0]
    raise ConfigError(
        "a set of margins (within) is around a target of one margin or one joint table "
        "(Target.margins, Target.table): several margins are raked, which is not linear in them, "
        f"and samples have no masses. Got {target!r:.200}.",
        option="target",
    )


def level_names(fact: Distribution) -> list[str]:
    """Return the name of every cell: "fox", or "old × f" of a joint table."""
    return [" × ".join(cell) for cell in fact.cells]


def read_margin_set(fact: Distribution, within: Any) -> tuple[Floats, Floats]:
    """Return (C,) the smallest and largest masses; refuse a set without a margin in it."""
    mass_c = np.array(fact.mass)
    names = level_names(fact)
    if not isinstance(within, Mapping):
        within = dict.fromkeys(names, within)
    low_c, high_c = mass_c.copy(), mass_c.copy()
    for level, reach in within.items():
        name = level_text(level)
        if name not in names:
            raise ConfigError(
                f"within names {name!r}, which is no level of {fact.name}; it has "
                f"{first_few(names, 12)}.{did_you_mean(name, names)}",
                option="within",
                level=name,
                allowed=names,
            )
        at = names.index(name)
        low_c[at], high_c[at] = _read_reach(name, reach, float(mass_c[at]))
    if low_c.sum() > 1.0 + _ROUNDING or high_c.sum() < 1.0 - _ROUNDING:
        raise ConfigError(
            "no margin is within these bounds: masses sum to 1, but the smallest sum to "
            f"{low_c.sum():.6g} and the largest to {high_c.sum():.6g}. Levels that within does not "
            "name keep their mass.",
            option="within",
            value=[float(low_c.sum()), float(high_c.sum())],
        )
    return low_c, high_c


def name_bounds(fact: Distribution, within: Any) -> dict[str, tuple[float, float]]:
    """Return {level: (smallest mass, largest mass)} of a set, every level named."""
    low_c, high_c = read_margin_set(fact, within)
    ends = zip(low_c.tolist(), high_c.tolist(), strict=True)
    return dict(zip(level_names(fact), ends, strict=True))


def _read_reach(name: str, reach: Any, mass: float) -> tuple[float, float]:
    try:
        low, high = (
            (float(reach[0]), float(reach[1]))
            if isinstance(reach, list | tuple) and len(reach) == 2
            else (max(mass - float(reach), 0.0), min(mass + float(reach), 1.0))
        )
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not 0.0 <= low <= high <= 1.0:
        raise wrong_option(
            f"within gives a distance of 0 or more, or the smallest and largest mass (of {name})",
            within=reach,
        )
    return low, high
