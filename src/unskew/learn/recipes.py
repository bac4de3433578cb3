"""What a baseline does besides its weights, as the trainer needs it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError
from unskew.learn.logit_calibration import LogitCalibration
from unskew.records import Floats, Ints

Form = Literal["weights", "posthoc", "loss", "deferred", "retrained"]
# Of the epochs, those before the classes are weighted (Cao et al. 2019: 160 of 200).
DEFERRED_SHARE = 0.8


@checked
@dataclass(frozen=True, eq=False)
class Recipe:
    """A baseline as the trainer follows it: the dial at 0, nothing calibrated.

    Attributes
    ----------
    form : "weights": the images are weighted, and nothing else. "posthoc": ``logit_offset`` is
        subtracted from the logits after training. "loss": it is added to them in the loss, after
        their multiplication by ``logit_factor``. "deferred": in the last fifth of the epochs images
        of class y are also weighted by e^{−offset_y}, in the loss. "retrained": so they are when
        the last layer is fitted again, after training.
    logit_offset : (M,) log(share of a class among the training images/share in the target); ∞: the
        class is never predicted.
    logit_factor : (M,) of the form "loss"; None: 1.
    """

    form: Form = "weights"
    logit_offset: Floats | None = field(repr=False, default=None)
    logit_factor: Floats | None = field(repr=False, default=None)

    def class_weight(self, label_n: Ints) -> Floats:
        """Return (n,) e^{−offset} of every image's class: the classes get their target shares."""
        if self.logit_offset is None:
            return np.ones(label_n.size)
        return np.asarray(np.exp(-self.logit_offset)[label_n])

    @property
    def training_shift(self) -> Floats | None:
        """(M,) what is added to the logits in the loss; None: nothing."""
        if self.form != "loss" or self.logit_offset is None:
            return None
        return np.where(np.isfinite(self.logit_offset), self.logit_offset, 0.0)

    @property
    def offset_after(self) -> Floats | None:
        """(M,) what is subtracted from the logits after training; None: nothing."""
        if self.form != "posthoc" or self.logit_offset is None:
            return None
        return np.where(np.isfinite(self.logit_offset), self.logit_offset, 0.0)

    def fingerprint(self) -> str:
        """Compute the SHA-256 of it."""
        numbers = [
            b"" if values is None else values.astype("<f8").tobytes()
            for values in (self.logit_offset, self.logit_factor)
        ]
        return hashlib.sha256(b"|".join([self.form.encode(), *numbers])).hexdigest()


def check_probe_recipe(recipe: Recipe | None) -> None:
    """Refuse a recipe that a probe cannot follow."""
    if recipe is not None and (recipe.form == "deferred" or recipe.logit_factor is not None):
        why = "has no epochs" if recipe.form == "deferred" else "has no factors of its logits"
        raise ConfigError(
            f"a probe is fitted exactly and {why}: this baseline is for networks.",
            option="recipe",
            value=recipe.form,
        )


def check_label_recipe(recipe: Recipe | None) -> None:
    """Refuse a recipe that moves classes where images have any number of labels."""
    if recipe is not None and recipe.form != "weights":
        raise ConfigError(
            "this baseline moves the shares of classes, of which an image has one; these images "
            "have any number of labels. Leave it out.",
            option="recipe",
            value=recipe.form,
        )


def after_training(recipe: Recipe | None) -> dict[str, Any] | None:
    """Return what a recipe does to the logits of a trained network, as plain values."""
    if recipe is None or recipe.logit_offset is None:
        return None
    never_m = np.isposinf(recipe.logit_offset)
    if recipe.form == "posthoc":
        return LogitCalibration(1.0, -recipe.logit_offset).to_dict()
    return (
        LogitCalibration(1.0, np.where(never_m, -np.inf, 0.0)).to_dict() if never_m.any() else None
    )
