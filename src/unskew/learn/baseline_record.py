"""One baseline as weights for a pool (`Baseline`), and several side by side (`Baselines`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.errors import ConfigError
from unskew.learn.sklearn_fit import AdjustedClassifier, fit_positive_rows
from unskew.records import Floats, Ints
from unskew.records.levels import find_positions, list_ids

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Baseline:
    """One baseline for one pool: image weights, and class offsets for logit adjustment.

    Attributes
    ----------
    name : one of `BASELINES`.
    weight : (n,) in the order of the pool, not negative, sums to 1; 0 for images that are left out.
    id : (n,) ids of the images.
    sentences : what it computes and assumes.
    classes : the M classes as text, where the baseline depends on classes.
    logit_offset : (M,) τ log(π_y/p_target(y)) of logit adjustment, and of baselines for networks;
        else None.
    form : what is done with the offset, as `Recipe` has it: "posthoc" (train as usual, predict with
        logits − offset), "loss" (train with factor × logits + offset, predict with the logits),
        "deferred" or "retrained".
    logit_factor : (M,) of the VS-loss, else None.
    """

    name: str
    weight: Floats = field(repr=False)
    id: npt.NDArray[Any] = field(repr=False)
    sentences: tuple[str, ...] = field(repr=False)
    classes: tuple[str, ...] | None = field(repr=False, default=None)
    logit_offset: Floats | None = field(repr=False, default=None)
    form: str | None = None
    logit_factor: Floats | None = field(repr=False, default=None)

    @property
    def sample_weight(self) -> Floats:
        """(n,) n × weight: mean 1, as scikit-learn's ``sample_weight`` expects."""
        return self.weight * self.weight.size

    @property
    def rows(self) -> Ints:
        """Rows of the pool that take part, those of positive weight."""
        return np.flatnonzero(self.weight > 0)

    @property
    def ess(self) -> float:
        """Kish's effective number of images, 1/Σ weight²."""
        return 1.0 / float(self.weight @ self.weight)

    def describe(self) -> tuple[str, ...]:
        """Say what it computes and assumes, and how many images it uses."""
        return (
            *self.sentences,
            f"It uses {self.rows.size} of {self.weight.size} images, worth {self.ess:.4g} equally "
            "weighted ones.",
        )

    @checked
    def align(self, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
        """Return the (len(ids),) weights of the images ``ids``; an unknown id is an error."""
        wanted, owned = list_ids(ids), list_ids(self.id)
        return self.weight[find_positions(wanted, owned, of="the call", among="the baseline")]

    @checked
    def fit(self, estimator: Any, X: Any, y: npt.ArrayLike) -> Any:
        """Fit a copy of a scikit-learn ``estimator`` with these weights.

        ``X`` and ``y`` have a row for each image of the pool, in its order. Images of weight 0 are
        left out, and equal weights are not passed, so that an estimator without ``sample_weight``
        can learn from all or a subsample; where weights differ it is refused. After logit
        adjustment the result adjusts its ``predict_proba``.
        """
        if self.form not in (None, "posthoc"):
            raise ConfigError(
                f"the baseline {self.name!r} in the form {self.form!r} is for networks, and "
                "scikit-learn's estimators cannot take it; use logit_adjustment with "
                "form='posthoc', or train a network.",
                option="form",
                value=self.form,
            )
        fitted = fit_positive_rows(estimator, X, y, self.weight)
        if self.logit_offset is None or self.classes is None:
            return fitted
        return AdjustedClassifier(fitted, self.classes, self.logit_offset)


@dataclass(frozen=True)
class Baselines:
    """The baselines that could be made, by name, and why the others could not."""

    made: Mapping[str, Baseline]
    unavailable: Mapping[str, str]

    def table(self) -> pd.DataFrame:
        """List the baselines: images used, effective images, description or what is missing."""
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {
                "baseline": name,
                "images": baseline.rows.size,
                "ess": baseline.ess,
                "description": " ".join(baseline.sentences),
            }
            for name, baseline in self.made.items()
        ]
        rows += [
            {"baseline": name, "images": 0, "ess": math.nan, "description": why}
            for name, why in self.unavailable.items()
        ]
        return pd.DataFrame(rows, columns=["baseline", "images", "ess", "description"])
