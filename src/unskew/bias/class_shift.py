"""Biasing functions of the label where the target's images have none: label shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Factor
from unskew.bias.class_scores import LABEL, learn_class_scores, read_label_classes
from unskew.bias.features import read_feature_columns
from unskew.bias.product import Product
from unskew.bias.strata import Strata
from unskew.engine.arguments import checked
from unskew.errors import ConfigError
from unskew.records import Floats, Pool, Target
from unskew.splits.folds import join_units, tell_copies, unit_codes

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class ClassShift(Bias):
    """ω_k(y) = p_k(y)/p(y): only the shares of the classes differ, and the target has no labels.

    Within each class the target's images look like those of the pool (label shift). A linear probe
    of the label on ``features``, cross-fitted, scores the images; the shares p(y) maximise the
    likelihood of the target's scores (`Target.from_predictions`), and the rest is `Strata` of the
    label with these shares: their error is part of every interval, and the check of
    `Target.from_predictions` warns where the assumption looks wrong.

    Parameters
    ----------
    features : columns of the table, or beginnings of columns, that tell the classes apart.

    Notes
    -----
    c(z) comes from the target's sample, through the assumption. A sample that has labels is
    counted, and shares that the target gives are taken: the features are then not read.
    """

    family: ClassVar[str] = "class_shift"
    shifts_classes: ClassVar[bool] = True
    features: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))

    @property
    def columns(self) -> tuple[str, ...]:
        # Selection depends on the label alone.
        return (LABEL,)

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        raise ConfigError("the shares of classes are estimated by the fit method.", option="bias")


def has_labels(frame: pd.DataFrame) -> bool:
    """Tell whether every image has a label."""
    return LABEL in frame.columns and not bool(frame[LABEL].isna().any())


def resolve_class_shift(
    model: Bias, pool: Pool, target: Target | None, seed: int = 0
) -> tuple[Bias, Target | None]:
    """Replace `ClassShift` by `Strata` of the label, and an unlabelled sample by its shares."""
    shift = next((part for part in model.parts if isinstance(part, ClassShift)), None)
    if shift is None:
        return model, target
    others = [part for part in model.parts if part is not shift]
    strata = Strata(LABEL)
    resolved = Product(strata, *others) if others else strata
    if target is None or target.kind != "sample":
        return resolved, target
    sample = target.compare(pool).sample
    assert sample is not None
    if has_labels(sample.frame):
        return resolved, target
    alone = [part for part in others if part.by_likelihood and part.reference_source is None]
    if alone:
        family = type(alone[0]).__name__
        raise ConfigError(
            f"ClassShift assumes that the target's images of a class look like the pool's, and "
            f"{family} that they differ. Use ClassTilt, which is both, or name a source as the "
            f"reference of {family}.",
            option="bias",
            value=family,
        )
    return resolved, estimate_class_shares(shift, pool, sample, seed)


def estimate_class_shares(shift: ClassShift, pool: Pool, sample: Pool, seed: int = 0) -> Target:
    """Estimate the target's shares of the classes from its unlabelled images."""
    scores = learn_class_scores(pool.frame, shift.features, seed=seed)
    classes, label_n = read_label_classes(pool.frame)
    return Target.from_predictions(
        np.exp(scores.log_p(sample.frame)),
        np.exp(scores.fold_log_p),
        np.array(classes, dtype=object)[label_n],
        classes=classes,
        group=unit_codes(sample.frame),
        validation_group=join_units(len(pool), unit_codes(pool.frame), tell_copies(pool.frame)),
        validation_weights=pool.design_weight,
        by=LABEL,
    )
