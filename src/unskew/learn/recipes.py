"""What a baseline does besides its weights, as the trainer needs it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from unskew.learn.calibration import Calibration
from unskew.records import Floats

Form = Literal["weights", "posthoc"]


@dataclass(frozen=True, eq=False)
class Recipe:
    """A baseline as the trainer follows it: the dial at 0, nothing calibrated.

    Attributes
    ----------
    form : "weights": the images are weighted, and nothing else; "posthoc": ``logit_offset`` is
        subtracted from the logits after training.
    logit_offset : (M,) log(share of a class among the training images/share in the target); ∞: the
        class is never predicted.
    """

    form: Form = "weights"
    logit_offset: Floats | None = field(repr=False, default=None)

    def fingerprint(self) -> str:
        """Compute the SHA-256 of it."""
        offset_m = np.zeros(0) if self.logit_offset is None else self.logit_offset
        return hashlib.sha256(self.form.encode() + offset_m.astype("<f8").tobytes()).hexdigest()


def after_training(recipe: Recipe | None) -> dict[str, Any] | None:
    """Return what a recipe does to the logits of a trained network, as plain values."""
    if recipe is None or recipe.form != "posthoc" or recipe.logit_offset is None:
        return None
    return Calibration(1.0, -recipe.logit_offset).to_dict()
