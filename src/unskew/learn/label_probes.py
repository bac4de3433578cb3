"""Linear probes of images with any number of labels: one for each label, on the same features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.special

from unskew.engine.arguments import Positive, Seed, Share, checked
from unskew.errors import DataError, first_few
from unskew.learn.dial import check_positive_weights
from unskew.learn.presets import TAUS
from unskew.learn.probe import Probe
from unskew.learn.probe_grid import RIDGES, tune_probe
from unskew.learn.ways import WayChoice, join_choices
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

    @property
    def probe(self) -> Probe:
        """All labels as one probe; its logits are those of the labels."""
        return Probe(self.coefficient, self.intercept)

    @property
    def choice(self) -> WayChoice:
        """The choices of the labels that can be learned, as one."""
        pairs = zip(self.labels, self.choices, strict=True)
        return join_choices({name: choice for name, choice in pairs if choice is not None})

    @checked
    def scores(self, X_nd: npt.NDArray[Any]) -> Floats:
        """Compute the (n, M) probability of each label, each by itself."""
        return np.asarray(scipy.special.expit(X_nd @ self.coefficient + self.intercept))

    @checked
    def predict_table(self, ids: Iterable[Any], X_nd: npt.NDArray[Any]) -> pd.DataFrame:
        """Return id and score_<label>, as `unskew.evaluate_predictions` reads them."""
        import pandas as pd

        rows = list(ids)
        if len(rows) != len(X_nd):
            raise DataError(
                f"one id for each row of X_nd: there are {len(rows)} ids and {len(X_nd)} rows.",
                **{"option": "ids", "count": len(rows), "limit": len(X_nd)},
            )
        names = [f"score_{label}" for label in self.labels]
        scores = pd.DataFrame(self.scores(X_nd), columns=names)
        return pd.concat([pd.DataFrame({"id": rows}), scores], axis=1)


@checked
def tune_label_probes(
    X_nd: npt.NDArray[Any],
    present_nm: npt.NDArray[Any],
    weight_n: Floats,
    labels: Sequence[str],
    *,
    taus: Sequence[Share] = tuple(TAUS.values()),
    ridges: Sequence[Positive] = RIDGES,
    unit_n: Ints | None = None,
    judge_weight_n: Floats | None = None,
    calibrate: bool = True,
    seed: Seed = 0,
    advance: Callable[[int], None] = lambda count: None,
) -> LabelProbes:
    """Fit one weighted logistic regression for each label, with `tune_probe`.

    Every label chooses its own dial and ridge from the same grid on held-out images weighted to
    the target, and is calibrated on them. With one label it is `tune_probe` of two classes, absent
    and present: the logit is the difference of their logits. An image of which a label is unknown
    takes no part in the fit of that label: the fit is that without the image.

    Parameters
    ----------
    X_nd : (n, d) features, float32 or float64, scaled (`scale_features`).
    present_nm : (n, M) booleans, or 0 and 1: the labels that an image has, for instance the columns
        of `unskew.label_indicators`; NaN: unknown.
    weight_n : (n,) not negative, some of them positive.
    labels : their M names.
    taus, ridges, unit_n, judge_weight_n, calibrate, seed : of `tune_probe`.
    """
    label_nm, names = check_label_sets(np.asarray(present_nm), weight_n, labels)
    choices: list[WayChoice | None] = [None] * len(names)

    def fit(m: int, rows: Ints, present_r: Ints) -> Probe:
        tuned = tune_probe(
            X_nd[rows],
            present_r,
            weight_n[rows],
            2,
            taus=taus,
            ridges=ridges,
            unit_n=None if unit_n is None else unit_n[rows],
            judge_weight_n=None if judge_weight_n is None else judge_weight_n[rows],
            calibrate=calibrate,
            seed=seed,
            advance=advance,
        )
        choices[m] = tuned.choice
        return tuned.probe

    probe = fit_each_label(label_nm, weight_n, X_nd.shape[1], fit)
    return LabelProbes(names, probe.coefficient, probe.intercept, tuple(choices))


def fit_each_label(
    label_nm: Floats, weight_n: Floats, n_features: int, fit: Callable[[int, Ints, Ints], Probe]
) -> Probe:
    """Fit a probe of two classes for each label, and return their differences as one probe.

    ``fit`` gets the label, the rows that it is known of, and (r,) 1 where it is present there. A
    label that all of them have, or none, is not fitted: its intercept is ∞ or −∞.
    """
    coefficient = np.zeros((n_features, label_nm.shape[1]))
    intercept = np.full(label_nm.shape[1], -np.inf)
    for m, label_n in enumerate(label_nm.T):
        rows = np.flatnonzero(~np.isnan(label_n))
        present_r = label_n[rows].astype(np.int64)
        seen = np.unique(present_r[weight_n[rows] > 0])
        if seen.size == 2:
            probe = fit(m, rows, present_r)
            coefficient[:, m] = probe.coefficient[:, 1] - probe.coefficient[:, 0]
            intercept[m] = probe.intercept[1] - probe.intercept[0]
        elif seen.tolist() == [1]:
            intercept[m] = np.inf
    return Probe(coefficient, intercept)


def check_label_sets(
    present_nm: npt.NDArray[Any], weight_n: Floats, labels: Sequence[str]
) -> tuple[Floats, tuple[str, ...]]:
    """Return (n, M) 0, 1 and NaN, and the labels as text."""
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
    label_nm = present_nm.astype(np.float64)
    if not (np.isin(label_nm, (0, 1)) | np.isnan(label_nm)).all():
        raise DataError(
            "an image has a label (1) or lacks it (0), or that is unknown (NaN); present_nm "
            "contains other values.",
            option="present_nm",
        )
    check_positive_weights(weight_n)
    return label_nm, names
