"""Does the weighted pool look like the target? A classifier tries to tell them apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.components import learn_components
from unskew.bias.features import expand_features, is_numeric
from unskew.bias.separation import ScoredImages, judge_separation
from unskew.errors import DataError, warn_caller
from unskew.records import Floats, Ints
from unskew.records.design_weights import raw_design
from unskew.records.levels import level_text
from unskew.splits.folds import deal_folds, join_units, tell_copies, unit_codes

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias

# An image is unlike the pool where the classifier takes it for the target's at odds of more than
# ten to one.
_UNLIKE_ODDS = 10.0
_MOST_ROWS = 5_000
_FEWEST_IMAGES = 40
_FOLDS = 3
# Of more columns than this their principal components are compared.
_MANY_COLUMNS, _COMPONENTS = 40, 20


@dataclass(frozen=True)
class Resemblance:
    """How well a classifier tells images of the target from the weighted pool, out of fold.

    auc : area under its ROC curve, the pool's images counted with their weights: 0.5 =
        indistinguishable.
    auc_stderr : its standard error if the model is right, the estimation of the weights included.
    p_value : the chance of such an AUC if the model is right; NaN where it cannot be told.
    auc_before : the same with all images of the pool counted alike.
    unlike : share of the target's images that no source resembles: taken for the target's at odds
        of more than ten to one.
    n_target : images of the target that judged.
    held_out : whether none of those took part in the fit.
    message : this as a sentence.
    """

    auc: float
    auc_before: float
    unlike: float
    n_target: int
    held_out: bool
    message: str
    auc_stderr: float = math.nan
    p_value: float = math.nan


def compare_with_target(fitted: FittedBias, weight_r: Floats) -> Resemblance | None:
    """Compare by cross-validated gradient boosting on the columns that the model reads.

    None without enough images of the target.

    Too few that were held out are joined by those that fitted; too few altogether are a warning.
    """
    import pandas as pd

    data = fitted.data
    target, held = _images_of_target(fitted)
    names = [] if target is None else _readable(fitted, target)
    if target is None or not names:
        return None
    if len(target) < _FEWEST_IMAGES:
        warn_caller(
            f"whether the sources resemble the target was not judged: there are {len(target)} "
            f"images of it to look at, and a classifier needs {_FEWEST_IMAGES}. A part of the "
            "target that no source covers would not be noticed."
        )
        return None
    rng = np.random.default_rng(data.seed)
    pool_at = _thin(data.n_pool, weight_r, rng)
    target_at = rng.permutation(len(target))[:_MOST_ROWS]
    design_m = raw_design(target)[target_at]
    both = pd.concat([data.frame.iloc[pool_at], target.iloc[target_at]], ignore_index=True)
    is_target = np.repeat([False, True], [pool_at.size, target_at.size])
    unit = unit_codes(both)
    # A classifier that has seen a copy of an image knows which side the image is on.
    fold = _folds(join_units(len(both), unit, tell_copies(both)), is_target, data.seed)
    if fold is None:
        return None
    x = _matrix(both[names])
    if x.shape[1] > _MANY_COLUMNS and all(is_numeric(both[name]) for name in names):
        x = learn_components(both, names, _COMPONENTS, data.seed).read(both)
    weight = np.concatenate(
        [weight_r[pool_at] / weight_r[pool_at].sum(), design_m / design_m.sum()]
    )
    even = np.concatenate([np.full(pool_at.size, 1.0 / pool_at.size), weight[is_target]])
    odds = _held_out_odds(x, is_target, weight, fold, data.seed)
    auc = _weighted_auc(odds, is_target, weight)
    unlike = float(np.average(odds[is_target] > _UNLIKE_ODDS, weights=design_m))
    auc_before = _weighted_auc(_held_out_odds(x, is_target, even, fold, data.seed), is_target, even)
    design_n = None
    if data.design is not None:
        design_n = np.concatenate([data.design[pool_at], design_m / design_m.mean()])
    separation = judge_separation(
        fitted, ScoredImages(both, pool_at, odds, weight, fold, unit, design_n), data.seed
    )
    chance = (
        "" if separation is None else f" ± {separation.stderr:.2f}, p = {separation.p_value:.2g}"
    )
    message = (
        f"A classifier tells {target_at.size:,} images of the target from the weighted pool with "
        f"AUC {auc:.2f}{chance} (0.5 = not at all; {auc_before:.2f} before weighting), and "
        f"{unlike:.0%} of them resemble no source."
    )
    return Resemblance(
        auc,
        auc_before,
        unlike,
        int(target_at.size),
        held,
        message if held else f"{message} They also fitted the weights, so this is optimistic.",
        *(() if separation is None else (separation.stderr, separation.p_value)),
    )


def _images_of_target(fitted: FittedBias) -> tuple[pd.DataFrame | None, bool]:
    """Find the images of the target that can judge, and whether none of them took part in the fit.

    A source that is itself the target resembles itself.
    """
    import pandas as pd

    judge, sample = fitted.judge, fitted.data.sample
    if sample is None or (judge is not None and len(judge) >= _FEWEST_IMAGES):
        return judge, True
    if fitted.target is None or fitted.target.kind != "sample":
        return judge, judge is not None
    fitting = fitted.data.frame[fitted.data.source == sample]
    return (fitting if judge is None else pd.concat([judge, fitting], ignore_index=True)), False


def _readable(fitted: FittedBias, target: pd.DataFrame) -> list[str]:
    columns = [name for part in fitted.model.parts for name in part.columns]
    try:
        names = expand_features(fitted.data.frame, list(dict.fromkeys(columns))) if columns else []
    except DataError:
        return []
    return [
        name for name in names if name in target.columns and not bool(target[name].isna().any())
    ]


def _thin(n: int, weight_r: Floats, rng: np.random.Generator) -> Ints:
    """Choose rows of the pool with weight, `_MOST_ROWS` at most."""
    positive = np.flatnonzero(weight_r > 0)
    if positive.size <= _MOST_ROWS:
        return positive
    return np.sort(rng.choice(positive, size=_MOST_ROWS, replace=False))


def _folds(unit: Ints, is_target: npt.NDArray[np.bool_], seed: int) -> Ints | None:
    """Deal out folds that keep units whole."""
    if np.unique(unit).size < _FOLDS:
        return None
    fold = deal_folds(unit, is_target.astype(np.int64), _FOLDS, seed)
    seen = [np.unique(is_target[fold != at]).size == 2 for at in range(_FOLDS)]
    return fold if all(seen) else None


def _matrix(both: pd.DataFrame) -> Floats:
    """(n, m) numbers, and indicators of levels."""
    columns = []
    for name in both.columns:
        if is_numeric(both[name]):
            columns.append(both[name].to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            text = both[name].map(level_text)
            columns += [
                (text == level).to_numpy(dtype=np.float64) for level in sorted(set(text))[:50]
            ]
    return np.column_stack(columns)


def _held_out_odds(x: Floats, is_target: Any, weight: Floats, fold: Ints, seed: int) -> Floats:
    """Find the odds target : weighted pool of every image, from the model of the other folds."""
    from sklearn.ensemble import GradientBoostingClassifier

    odds = np.ones(is_target.size)
    for at in range(_FOLDS):
        train, test = np.flatnonzero(fold != at), np.flatnonzero(fold == at)
        # Plain trees: the histogram-based ones bin weighted data so slowly that they lose below ten
        # thousand images.
        model = GradientBoostingClassifier(
            n_estimators=40,
            max_depth=3,
            learning_rate=0.15,
            subsample=0.7,
            min_samples_leaf=20,
            random_state=seed,
        )
        side = np.where(
            is_target[train],
            weight[train][is_target[train]].sum(),
            weight[train][~is_target[train]].sum(),
        )
        model.fit(x[train], is_target[train], sample_weight=weight[train] / side * train.size / 2)
        chance = np.clip(model.predict_proba(x[test])[:, 1], 1e-9, 1 - 1e-9)
        odds[test] = chance / (1 - chance)
    return odds


def _weighted_auc(score: Floats, is_target: Any, weight: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(is_target, score, sample_weight=weight))
