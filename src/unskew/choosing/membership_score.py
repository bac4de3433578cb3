"""The score that compares families: how well a bias model tells, on images it was not fitted on,
which source each comes from.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.choosing.class_membership import hides_labels, membership_of_unlabelled
from unskew.records import Bools, Floats, Ints, Pool, Target
from unskew.records.arrays import log_sums
from unskew.records.design_weights import DESIGN_WEIGHT, scale_design_weights
from unskew.splits.folds import deal_source_folds, join_units, tell_copies, unit_codes

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias

# δ of the score: the chance that an image comes from its source for reasons that no model knows.
DELTA = 1e-3


@dataclass(frozen=True, eq=False)
class Folds:
    """Rows that are scored, each in one fold.

    pool : the images.
    target : as given to the fits.
    frame : the rows of the pool, then those of the target's sample, if there is one.
    source : (R,) code of each row's source; the sample is the source after the last of the pool.
    unit : (R,) rows that stay on one side: groups, and copies of an image.
    fold : (R,) fold of every row.
    n_folds : F.
    scored : (R,) False for images outside the target's scope, which say nothing of it.
    design : (R,) design weights, mean 1 in each source; None without any.
    """

    pool: Pool
    target: Target | None = field(repr=False)
    frame: pd.DataFrame = field(repr=False)
    source: Ints = field(repr=False)
    unit: Ints = field(repr=False)
    fold: Ints = field(repr=False)
    n_folds: int
    scored: Bools = field(repr=False)
    design: Floats | None = field(repr=False, default=None)

    def split(self) -> Iterator[tuple[Pool, Target | None, Ints]]:
        """Yield, for every fold, pool and target without it, and the rows of the fold."""
        n = len(self.pool)
        for fold in range(self.n_folds):
            train_n = self.fold[:n] != fold
            pool = Pool(
                self.frame.iloc[:n][train_n].assign(source=self.pool.frame["source"][train_n])
            )
            yield pool, self._target_without(fold), np.flatnonzero(self.fold == fold)

    def _target_without(self, fold: int) -> Target | None:
        target = self.target
        if target is None:
            return None
        if target.kind == "sample":
            assert isinstance(target.reference, Pool)
            train = self.fold[len(self.pool) :] != fold
            return replace(target, reference=Pool(target.reference.frame[train]), holdout=0.0)
        # A stratum may have all of its images in one fold: the fit without them must not fail for
        # that.
        if target.kind == "source":
            return replace(target, holdout=0.0)
        return replace(target, uncovered="restrict")


@dataclass(frozen=True, eq=False)
class MembershipScore:
    """The cross-validated score of one model.

    value : (R,) log((1 − δ) q_{i,s_i} + δ λ_{s_i}) of every row, from the fit without its fold; NaN
        for rows that are not scored.
    outside : share of the scored rows that are outside their own source's fitted support.
    fold_mean : (F,) mean of ``value`` in each fold.
    design : (R,) the design weights that means are weighted by; None without any.
    """

    value: Floats = field(repr=False)
    outside: float
    fold_mean: Floats
    design: Floats | None = field(repr=False, default=None)

    @property
    def mean(self) -> float:
        return _mean(self.value, self.design)

    @property
    def stderr(self) -> float:
        """Standard error over folds, sd of the fold means/√F."""
        return float(self.fold_mean.std(ddof=1) / np.sqrt(self.fold_mean.size))


def _mean(value_r: Floats, design_r: Floats | None) -> float:
    """Average the scored rows, each counted by its design weight."""
    scored = ~np.isnan(value_r)
    return float(
        np.average(value_r[scored], weights=None if design_r is None else design_r[scored])
    )


def make_folds(pool: Pool, target: Target | None, n_folds: int, seed: int) -> Folds:
    """Split pool and sample into folds, every source evenly among them."""
    import pandas as pd

    frame, source_r, names = pool.frame, pool.source.astype(np.int64), [*pool.names]
    if target is not None and target.kind == "sample":
        sample = target.compare(pool).sample
        assert sample is not None
        frame = pd.concat(
            [frame.astype({"source": object}), sample.frame.astype({"source": object})],
            ignore_index=True,
        )
        source_r = np.concatenate([source_r, np.full(len(sample), len(names))])
        names.append("the target's sample")
    design_r = None
    if DESIGN_WEIGHT in frame.columns:
        # Where the pool or the sample has none, all of its images have the same.
        frame = frame.fillna({DESIGN_WEIGHT: 1.0})
        design_r = scale_design_weights(frame[DESIGN_WEIGHT].to_numpy(), source_r, tuple(names))
    unit_r = find_fold_units(frame)
    fold_r, n_folds = deal_source_folds(unit_r, source_r, names, n_folds, seed)
    return Folds(
        pool,
        target,
        frame,
        source_r,
        unit_r,
        fold_r,
        n_folds,
        _in_scope(pool, target, source_r.size) & (True if design_r is None else design_r > 0),
        design_r,
    )


def find_fold_units(frame: pd.DataFrame) -> Ints:
    """Return (R,) codes of what must stay together."""
    return join_units(len(frame), unit_codes(frame), tell_copies(frame))


def _in_scope(pool: Pool, target: Target | None, n_rows: int) -> Bools:
    """Return (R,) whether the target gives mass to the image's stratum; True without masses."""
    scored = np.ones(n_rows, dtype=np.bool_)
    if target is not None and target.kind not in ("sample", "source"):
        strata = replace(target, uncovered="restrict").stratify(pool)
        scored[: len(pool)] = (strata.code >= 0) & (strata.mass[strata.code] > 0)
    return scored


def score_memberships(model: Bias, folds: Folds, *, seed: int = 0) -> MembershipScore:
    """Fit without each fold in turn, and on its images compute log((1 − δ) q_{i,s_i} + δ λ_{s_i}).

    q_ik = e^{u_k} ω_k(z_i)/Σ_l e^{u_l} ω_l(z_i) with u and ω from the fit. The score is bounded,
    between log(δ λ) and 0, because an image may be where its own source's fitted ω is 0. It
    depends on ω through ratios only: a factor c(z) common to all sources changes nothing, except
    that a sample of the target counts as one more source, whose ω is 1.
    """
    share_k = np.bincount(folds.source) / folds.source.size
    own_r = np.zeros(folds.source.size)
    with warnings.catch_warnings():
        # Warnings about the model come once, from the fit to all images.
        warnings.simplefilter("ignore")
        for pool, target, rows in folds.split():
            fitted = model.fit(pool, target, rng=seed)
            own_r[rows] = own_membership(fitted, folds.frame.iloc[rows], folds.source[rows])
    value_r = np.where(
        folds.scored, np.log((1.0 - DELTA) * own_r + DELTA * share_k[folds.source]), np.nan
    )
    design_r = folds.design
    in_fold = [folds.fold == fold for fold in range(folds.n_folds)]
    fold_mean = np.array(
        [_mean(value_r[at], None if design_r is None else design_r[at]) for at in in_fold]
    )
    outside = float(
        np.average(
            own_r[folds.scored] == 0.0, weights=None if design_r is None else design_r[folds.scored]
        )
    )
    return MembershipScore(value_r, outside, fold_mean, design_r)


def paired_difference(
    better: MembershipScore, other: MembershipScore, unit_r: Ints
) -> tuple[float, float]:
    """Return the mean of d_i, the difference of the scores of image i, and its standard error.

    Both models are scored on the same images after fits to the same images, so most of what moves
    one score moves the other too: the standard error of the difference is what counts, and is far
    smaller than that of either score. It is the larger of two: over folds (what the fits without a
    fold have in common), and over independent units (five folds may agree by chance).
    """
    difference_r = better.value - other.value
    scored = ~np.isnan(difference_r)
    count_m = np.ones(int(scored.sum())) if better.design is None else better.design[scored]
    mean = float(np.average(difference_r[scored], weights=count_m))
    fold_difference = better.fold_mean - other.fold_mean
    over_folds = float(fold_difference.std(ddof=1) / np.sqrt(fold_difference.size))
    _, unit = np.unique(unit_r[scored], return_inverse=True)
    total_u = np.bincount(unit, weights=count_m * (difference_r[scored] - mean))
    over_units = float(np.sqrt(np.sum(np.square(total_u))) / count_m.sum())
    return mean, max(over_folds, over_units)


def own_membership(fitted: FittedBias, frame: pd.DataFrame, source: Ints) -> Floats:
    """Compute (n,) q_{i,s_i} of images that need not have been in the fit.

    It is 0 outside the own source's support and for levels never seen. A model that reads labels
    which images of the target lack: see `unskew.choosing.class_membership`.
    """
    if hides_labels(fitted):
        return membership_of_unlabelled(fitted, frame, source)
    own_n = np.zeros(len(frame))
    seen = np.flatnonzero(_rows_with_seen_levels(fitted, frame))
    if not seen.size:
        return own_n
    logit_nk = fitted.log_omega_with_sample(frame.iloc[seen]) + fitted.u_k
    own = logit_nk[np.arange(seen.size), source[seen]]
    possible = ~np.isneginf(own)
    own_n[seen[possible]] = np.exp(own[possible] - log_sums(logit_nk[possible]))
    return own_n


def _rows_with_seen_levels(fitted: FittedBias, frame: pd.DataFrame) -> Bools:
    """Return (n,) False where a categorical column or the stratum is unknown to the fit."""
    from unskew.bias.features import expand_features, is_numeric

    seen_n = np.ones(len(frame), dtype=np.bool_)
    trained = fitted.data.frame
    strata_by = () if fitted.strata is None else fitted.strata.target.by
    columns = [
        name for part in fitted.model.parts for name in part.columns if name not in strata_by
    ]
    for name in expand_features(trained, list(dict.fromkeys(columns))) if columns else ():
        if not is_numeric(trained[name]):
            seen_n &= _isin(frame[name], trained[name])
    if fitted.strata is not None:
        seen_n &= fitted.strata.knows(frame)
    return seen_n


def _isin(column: pd.Series[Any], trained: pd.Series[Any]) -> Bools:
    from unskew.records.levels import text_levels

    known = set(text_levels(trained, str(trained.name))[0])
    levels, code_n = text_levels(column, str(column.name))
    return np.array([level in known for level in levels])[code_n]
