"""Linear probes of images with any number of labels: one for each label, on the same features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.special

from unskew.errors import DataError, first_few
from unskew.learn.presets import TAUS
from unskew.learn.probe_grid import RIDGES, tune_probe
from unskew.learn.ways import WayChoice
from unskew.records import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LabelProbes:
    """Fitted probes: P(label m | x) = 1/(1 + exp(−x·W_m − b_m)).

    Attributes
    ----------
    labels : the M labels as text.
    coefficient : (d, M) W; 0 for a label that all training images have, or none.
    intercept : (M,) b; ∞ or −∞ for such a label, which is then always predicted, or never.
    choices : of every label, the way that it was learned in, and why; None for such a label.
    """

    labels: tuple[str, ...]
    coefficient: Floats = field(repr=False)
    intercept: Floats = field(repr=False)
    choices: tuple[WayChoice | None, ...] = field(repr=False)

    def scores(self, X_nd: npt.NDArray[Any]) -> Floats:
        """Compute the (n, M) probability of each label, each by itself."""
        return np.asarray(scipy.special.expit(X_nd @ self.coefficient + self.intercept))

    def predict_table(self, ids: Iterable[Any], X_nd: npt.NDArray[Any]) -> pd.DataFrame:
        """Return id and score_<label>, as `unskew.evaluate_predictions` reads them."""
        import pandas as pd

        names = [f"score_{label}" for label in self.labels]
        scores = pd.DataFrame(self.scores(X_nd), columns=names)
        return pd.concat([pd.DataFrame({"id": list(ids)}), scores], axis=1)


def tune_label_probes(
    X_nd: npt.NDArray[Any],
    present_nm: npt.NDArray[Any],
    weight_n: Floats,
    labels: Sequence[str],
    *,
    taus: Sequence[float] = tuple(TAUS.values()),
    ridges: Sequence[float] = RIDGES,
    unit_n: Ints | None = None,
    calibrate: bool = True,
    seed: int = 0,
) -> LabelProbes:
    """Fit one weighted logistic regression for each label, with `tune_probe`.

    Every label chooses its own dial and ridge from the same grid on held-out images weighted to
    the target, and is calibrated on them. With one label it is `tune_probe` of two classes, absent
    and present: the logit is the difference of their logits.

    Parameters
    ----------
    X_nd : (n, d) features, float32 or float64, scaled (`scale_features`).
    present_nm : (n, M) booleans, or 0 and 1: the labels that an image has, for instance the columns
        of `unskew.label_indicators`.
    weight_n : (n,) not negative, some of them positive.
    labels : their M names.
    taus, ridges, unit_n, calibrate, seed : of `tune_probe`.
    """
    label_nm, names = _check_labels(np.asarray(present_nm), weight_n, labels)
    coefficient = np.zeros((X_nd.shape[1], len(names)))
    intercept, choices = np.empty(len(names)), list[WayChoice | None]()
    for m, label_n in enumerate(label_nm.T):
        counted_n = label_n[weight_n > 0]
        if counted_n.min() == counted_n.max():
            intercept[m] = np.inf if counted_n[0] else -np.inf
            choices.append(None)
            continue
        tuned = tune_probe(
            X_nd,
            label_n,
            weight_n,
            2,
            taus=taus,
            ridges=ridges,
            unit_n=unit_n,
            calibrate=calibrate,
            seed=seed,
        )
        coefficient[:, m] = tuned.probe.coefficient[:, 1] - tuned.probe.coefficient[:, 0]
        intercept[m] = tuned.probe.intercept[1] - tuned.probe.intercept[0]
        choices.append(tuned.choice)
    return LabelProbes(names, coefficient, intercept, tuple(choices))


def _check_labels(
    present_nm: npt.NDArray[Any], weight_n: Floats, labels: Sequence[str]
) -> tuple[Ints, tuple[str, ...]]:
    """Return (n, M) 0 and 1, and the labels as text."""
    names = tuple(str(label) for label in labels)
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"labels are different names, one or more; got {first_few(names)}.", levels=list(names)
        )
    if present_nm.shape != (weight_n.size, len(names)):
        raise DataError(
            f"present_nm has a row for each of the {weight_n.size} weights and a column for each "
            f"of the {len(names)} labels; got the shape {present_nm.shape}.",
            option="present_nm",
            value=list(present_nm.shape),
        )
    if not np.isin(present_nm, (0, 1)).all():
        raise DataError(
            "an image has a label (1) or lacks it (0); present_nm contains other values. Leave "
            "images of unknown labels out.",
            option="present_nm",
        )
    if not (weight_n > 0).any():
        raise DataError("weights are finite, not negative, and not all zero.", option="weight_n")
    return present_nm.astype(np.int64), names
