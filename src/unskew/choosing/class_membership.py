"""Held-out memberships where images of the target have no labels and the model reads them.

Given the features x, the data are the source of an image and, unless it is the target's, its label:
p(source k, y | x) = p(pool | x) p(y | x, pool) p(k | x, y, pool). Whatever the model, the second
factor is the same, so that models are compared by p(target | x) of the target's images and by
p(pool | x) p(k | x, y, pool) of the others. For a model that reads features only this is q itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logsumexp

from unskew.bias.class_scores import LABEL, SCORE_COLUMN, ClassScores, learn_class_scores
from unskew.bias.class_shift import ClassShift, has_labels
from unskew.bias.class_tilt import ClassTilt, FittedClassTilt, class_codes
from unskew.errors import ConfigError
from unskew.records import Floats, Ints, Pool, Target

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias


def with_class_scores(
    pool: Pool, target: Target | None, models: Sequence[Bias], seed: int
) -> tuple[Pool, Target | None]:
    """Add columns with cross-fitted scores of the classes, if a candidate needs them.

    They are learned once, from labels and features of the pool: nothing in them says which images
    are the target's, so that folds may share them.
    """
    parts = [part for model in models for part in model.parts]
    named = [part.features for part in parts if isinstance(part, ClassShift | ClassTilt)]
    if target is None or target.kind != "sample" or not named:
        return pool, target
    sample = target.compare(pool).sample
    assert sample is not None
    if has_labels(sample.frame) or not has_labels(pool.frame):
        return pool, target
    if any(features != named[0] for features in named):
        raise ConfigError(
            "candidates that shift classes read the label through the same features, so that they "
            f"can be compared; got {named[0]!r} and others.",
            option="candidates",
        )
    scores = learn_class_scores(pool.frame, named[0], seed=seed)
    return (
        _with_columns(pool, scores.classes, scores.fold_log_p),
        replace(
            target, reference=_with_columns(sample, scores.classes, scores.log_p(sample.frame))
        ),
    )


def _with_columns(pool: Pool, classes: Sequence[str], log_p_nc: Floats) -> Pool:
    import pandas as pd

    columns = pd.DataFrame(
        {SCORE_COLUMN + name: log_p_nc[:, c] for c, name in enumerate(classes)},
        index=pool.frame.index,
    )
    return Pool(pd.concat([pool.frame, columns], axis=1))


def hides_labels(fitted: FittedBias) -> bool:
    """Tell whether the fitted model reads labels that images of the target lack."""
    if fitted.target is None:
        return False
    if fitted.target.kind == "predictions":
        return fitted.strata is not None and fitted.strata.target.by == (LABEL,)
    is_tilt = any(isinstance(factor, FittedClassTilt) for factor in fitted.factors)
    return (
        is_tilt
        and fitted.data.sample is not None
        and not has_labels(fitted.data.frame.iloc[fitted.data.n_pool :])
    )


def membership_of_unlabelled(fitted: FittedBias, frame: pd.DataFrame, source_n: Ints) -> Floats:
    """(n,) p(target | x) of the target's images, p(pool | x) p(k | x, y, pool) of the others."""
    n_sources = len(fitted.names)
    is_target_n = source_n == n_sources
    log_odds_n = _log_odds(fitted, frame)
    own_n = expit(np.where(is_target_n, log_odds_n, -log_odds_n))
    of_pool = np.flatnonzero(~is_target_n)
    if of_pool.size:
        logit_mk = _pool_logits(fitted, frame.iloc[of_pool])
        own_m = logit_mk[np.arange(of_pool.size), source_n[of_pool]]
        with np.errstate(invalid="ignore"):
            log_m = own_m - logsumexp(logit_mk, axis=1)
        own_n[of_pool] *= np.where(np.isnan(log_m), 0.0, np.exp(log_m))
    return np.asarray(own_n)


def _pool_logits(fitted: FittedBias, frame: pd.DataFrame) -> Floats:
    """(n, K) log e^{u_k} ω_k(x, y) of the pool's sources; −inf for a label never seen."""
    n_sources = len(fitted.names)
    log_nk = fitted.log_factors(frame)
    if fitted.strata is not None:
        code_n = class_codes(frame, _strata_classes(fitted))
        factor_ck = np.vstack([fitted.strata.log_factor, np.full((1, log_nk.shape[1]), -np.inf)])
        log_nk = log_nk + factor_ck[code_n]  # −1: the last row
    return np.asarray(log_nk + fitted.u_k)[:, :n_sources]


def _strata_classes(fitted: FittedBias) -> tuple[str, ...]:
    assert fitted.strata is not None
    return tuple(cell[0] for cell in fitted.strata.target.strata)


def _log_odds(fitted: FittedBias, frame: pd.DataFrame) -> Floats:
    """(n,) log p(target | x)/p(pool | x)."""
    n_sources = len(fitted.names)
    if fitted.strata is None:
        log_nk = sum(
            (
                factor.unlabelled(frame)
                if isinstance(factor, FittedClassTilt)
                else factor.log_omega(frame)
                for factor in fitted.factors
            ),
            np.zeros((len(frame), fitted.data.n_sources)),
        )
        logit_nk = log_nk + fitted.u_k
        return np.asarray(logit_nk[:, n_sources] - logsumexp(logit_nk[:, :n_sources], axis=1))
    # r(x) = Σ_y p(y | x) r(x, y), with r = 1/Σ_k (n_k/n) ω_k, because Ω_k = 1.
    assert fitted.target is not None
    assert fitted.target.label_shift is not None
    classes, size_k = _strata_classes(fitted), fitted.data.size_k
    log_p_nc = ClassScores(classes).log_p(frame)
    other_nk = fitted.log_factors(frame)
    log_share_k = np.log(size_k / size_k.sum())
    log_r_nc = -logsumexp(other_nk[:, None, :] + fitted.strata.log_factor + log_share_k, axis=2)
    log_r_n = logsumexp(log_p_nc + log_r_nc, axis=1)
    return np.asarray(log_r_n + np.log(fitted.target.label_shift.n_target / size_k.sum()))
