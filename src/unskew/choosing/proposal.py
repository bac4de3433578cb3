"""Candidates where none is named: what images of the target and numbers about all allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.bias.class_scores import LABEL, SCORE_COLUMN
from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Pool, Target
from unskew.target.strata import target_images

if TYPE_CHECKING:
    from unskew.bias.base import Bias

# Images of the target for each component of a tilt that has hardly any penalty.
_IMAGES_PER_COMPONENT = 50
# Components of a tilt with one, and its penalty.
_MANY, _RIDGE = 30, 30.0
# With fewer images for each level on average a label is a number, not a class.
_IMAGES_PER_CLASS = 10


def propose_candidates(pool: Pool, target: Target | None) -> dict[str, Bias]:
    """Propose bias models on all numeric columns that pool and target share.

    Tilts of their leading principal components, as many as the target's images can bear; where the
    pool has labels, a shift of the classes alone, and a shift of the classes with a tilt within
    them, whose penalties drop what the images do not show.
    """
    from unskew.bias.class_shift import ClassShift
    from unskew.bias.class_tilt import ClassTilt
    from unskew.bias.tilt import Tilt

    names, n_target = _shared_numbers(pool, target)
    few = min(max(n_target // _IMAGES_PER_COMPONENT, 1), 10)
    models: dict[str, Bias] = {}
    if len(names) <= few:
        models["tilt"] = Tilt(names)
    else:
        models[f"tilt of {few} components"] = Tilt(names, components=few, ridge=1.0)
        many = min(_MANY, len(names))
        models[f"tilt of {many} components"] = Tilt(names, components=many, ridge=_RIDGE)
    if _has_classes(pool):
        models["label shift"] = ClassShift(names)
        models["label shift × tilt by class"] = ClassTilt(names)
    return models


def _has_classes(pool: Pool) -> bool:
    if LABEL not in pool.frame.columns or bool(pool.frame[LABEL].isna().any()):
        return False
    n_levels = int(pool.frame[LABEL].nunique())
    return 2 <= n_levels <= len(pool) / _IMAGES_PER_CLASS


def _shared_numbers(pool: Pool, target: Target | None) -> tuple[list[str], int]:
    """Return the numeric columns that every image has, and the number of the target's images."""
    from unskew.bias.features import is_numeric

    if target is None or target.kind not in ("sample", "source"):
        known = "nothing is known about the target" if target is None else f"it is {target!r}"
        raise ConfigError(
            "candidates are proposed where images of the target say what it looks like "
            f"(Target.sample, Target.source); here {known}. Name the bias models to compare.",
            option="candidates",
            value=None,
        )
    own, other = pool.frame, target_images(target, pool)
    names = [
        name
        for name in pool.attributes
        if name in other.columns
        and not name.startswith(SCORE_COLUMN)
        and all(is_numeric(table[name]) for table in (own, other))
        and all(bool(np.isfinite(table[name].astype(float)).all()) for table in (own, other))
    ]
    if not names:
        raise DataError(
            "no column of numbers is there for every image of the pool and of the target, so that "
            "nothing can be compared. Compute an embedding or other measurements of both "
            "(unskew.represent_images), or name the bias models. The pool's columns are "
            f"{first_few(pool.attributes, 12)}.",
            columns=list(pool.attributes),
        )
    return names, len(other)
