"""How likely each class is, given the features: cross-fitted, calibrated, for any table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.components import block_sizes, read_matrix
from unskew.bias.features import check_present, expand_features
from unskew.errors import DataError, first_few
from unskew.records import Floats, Ints
from unskew.records.levels import text_levels
from unskew.splits.folds import deal_folds, join_units, tell_copies, unit_codes

if TYPE_CHECKING:
    import pandas as pd

    from unskew.learn.probe import Probe

LABEL = "label"
# Columns with scores that were computed before begin like this; the rest of the name is the class.
SCORE_COLUMN = "class score of "
_RIDGE, _TOL = 1e-2, 3e-4


@dataclass(frozen=True, eq=False)
class ClassScores:
    """log p(y | x) of the pool, by a linear probe of the features.

    classes : the C classes, as text.
    names : columns that the probes read; empty where the scores are columns themselves.
    centre, factor : (D,) x is read as (x − centre) · factor.
    probes : one for each fold, fitted without it.
    scale, bias : calibration on held-out images: scale · logit + bias.
    fold_log_p : (n, C) of the images it was learned from, each by the probe of the other folds.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...] = field(repr=False, default=())
    centre: Floats = field(repr=False, default_factory=lambda: np.zeros(0))
    factor: Floats = field(repr=False, default_factory=lambda: np.zeros(0))
    probes: tuple[Any, ...] = field(repr=False, default=())
    scale: float = 1.0
    bias: Floats | float = 0.0
    fold_log_p: Floats = field(repr=False, default_factory=lambda: np.zeros((0, 0)))

    def log_p(self, frame: pd.DataFrame) -> Floats:
        """(n, C) log p(y | x) of any table: the mean logits of all probes, calibrated."""
        columns = [SCORE_COLUMN + name for name in self.classes]
        if set(columns) <= set(frame.columns):
            return _normalised(frame[columns].to_numpy(dtype=np.float64))
        x_nd = (read_matrix(frame, self.names) - self.centre) * self.factor
        logit_nc = np.mean([probe.logits(x_nd) for probe in self.probes], axis=0)
        return _normalised(self.scale * logit_nc + self.bias)


def _normalised(logit_nc: Floats) -> Floats:
    from scipy.special import logsumexp

    return np.asarray(logit_nc - logsumexp(logit_nc, axis=1, keepdims=True))


def read_label_classes(frame: pd.DataFrame) -> tuple[tuple[str, ...], Ints]:
    """Return the classes of labelled images in order, and (n,) the class of each."""
    if LABEL not in frame.columns or bool(frame[LABEL].isna().all()):
        raise DataError(
            "the pool has no labels, and a shift of classes is about labels. Use Tilt or "
            "Propensity on features.",
            column=LABEL,
        )
    levels, code_n = text_levels(frame[LABEL], LABEL)
    check_present(levels, code_n, LABEL)
    if len(levels) < 2:
        raise DataError(
            f"all images of the pool have the label {levels[0]}: there are no classes whose shares "
            "could differ.",
            column=LABEL,
            levels=list(levels),
        )
    order = np.argsort(np.array(levels, dtype=object), kind="stable")
    rank = np.argsort(order)
    return tuple(levels[at] for at in order), np.asarray(rank[code_n], dtype=np.int64)


def learn_class_scores(
    frame: pd.DataFrame, features: Sequence[str], *, folds: int = 5, seed: int = 0
) -> ClassScores:
    """Fit a probe of the label on all folds but one, in turn, and calibrate on the folds left out.

    Groups, and copies of an image, are in one fold. Columns of scores that the table has already
    are taken as they are.
    """
    classes, label_n = read_label_classes(frame)
    columns = [SCORE_COLUMN + name for name in classes]
    if set(columns) <= set(frame.columns):
        return ClassScores(
            classes, fold_log_p=_normalised(frame[columns].to_numpy(dtype=np.float64))
        )
    from unskew.learn.logit_calibration import fit_logit_calibration
    from unskew.learn.probe import fit_probe

    names = tuple(expand_features(frame, features))
    x_nd, centre_d, factor_d = _scaled(frame, names)
    unit_n = join_units(len(frame), unit_codes(frame), tell_copies(frame))
    fold_n = deal_folds(unit_n, label_n, min(folds, int(unit_n.max()) + 1), seed)
    logit_nc, even_n = np.zeros((len(frame), len(classes))), np.ones(len(frame))
    probes: list[Probe] = []
    for fold in range(int(fold_n.max()) + 1):
        train, test = np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)
        lacking = np.setdiff1d(np.arange(len(classes)), label_n[train])
        if lacking.size:
            raise DataError(
                "every class needs images in at least two independent groups; there are too few of "
                f"{first_few([classes[c] for c in lacking])}. Merge classes, or leave them out.",
                column=LABEL,
                levels=[classes[c] for c in lacking],
            )
        start = probes[-1] if probes else None
        probe = fit_probe(
            x_nd[train],
            label_n[train],
            even_n[train],
            len(classes),
            ridge=_RIDGE,
            tol=_TOL,
            start=start,
        )
        logit_nc[test] = probe.logits(x_nd[test])
        probes.append(probe)
    calibration = fit_logit_calibration(logit_nc, label_n, even_n, unit_n)
    return ClassScores(
        classes,
        names,
        centre_d,
        factor_d,
        tuple(probes),
        float(calibration.scale),
        calibration.bias,
        _normalised(calibration.apply(logit_nc)),
    )


def _scaled(frame: pd.DataFrame, names: Sequence[str]) -> tuple[Any, Floats, Floats]:
    """Return the features as a probe likes them, (x − centre) · factor."""
    x_nd = read_matrix(frame, names)
    centre_d, deviation_d = x_nd.mean(axis=0), x_nd.std(axis=0)
    divisor_d = np.sqrt(block_sizes(names, deviation_d, np.mean) * deviation_d)
    factor_d = np.divide(1.0, divisor_d, out=np.zeros_like(divisor_d), where=divisor_d > 0)
    return ((x_nd - centre_d) * factor_d).astype(np.float32), centre_d, factor_d
