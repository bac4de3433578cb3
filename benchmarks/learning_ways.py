"""Every way to learn from a draw of a setting, and every simple recipe, each tuned on the same grid
and tested on images of the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from learning_results import Record

import unskew
from paper.features import Features
from paper.settings import Draw, Population, Setting
from unskew.learn.baselines import BASELINES, make_baseline
from unskew.learn.dial import Dialled, turn_dial
from unskew.learn.presets import TAUS
from unskew.learn.probe import Probe
from unskew.learn.probe_grid import RIDGES, TunedProbe, cross_fit_logits, dialled_probe, tune_probe
from unskew.learn.sklearn_fit import offset_of
from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size
from unskew.splits.folds import deal_folds

# Columns that say how usual the background is, for the density ratio of the settings where a
# target sample makes it sensible.
DENSITY_COLUMNS = ("usual", "unusual")
FOLDS = 5
BINS = 15


@dataclass(frozen=True, eq=False)
class Images:
    """The distinct images of a draw; weights of copies add up, which is the same problem."""

    X: npt.NDArray[np.float32] = field(repr=False)
    label: Ints = field(repr=False)
    row: Ints = field(repr=False)
    fold: Ints = field(repr=False)
    n_classes: int

    def merge(self, weight_n: Floats) -> Floats:
        return np.bincount(self.row, weights=weight_n, minlength=self.label.size)


def distinct_images(draw: Draw, features: Features, seed: int) -> Images:
    image_m, row_n = np.unique(draw.index, return_inverse=True)
    label_n = features.train_label[draw.index]
    stratum_n = draw.pool.source.astype(np.int64) * features.n_classes + label_n
    fold_m = np.empty(image_m.size, dtype=np.int64)
    fold_m[row_n] = deal_folds(row_n, stratum_n, FOLDS, seed)
    return Images(
        features.train[image_m], features.train_label[image_m], row_n, fold_m, features.n_classes
    )


def measure_ways(draw: Draw, features: Features, setting: Setting, seed: int) -> Iterator[Record]:
    """Yield a record for `auto`, each way, `auto` with the true ω, and each recipe."""
    images = distinct_images(draw, features, seed)
    test = TestImages(features, setting)
    bias, target = draw.families["debiased"]
    weight_m = images.merge(unskew.debias(draw.pool, bias, target, rng=seed).weight)
    yield from _our_ways(images, weight_m, test, seed)
    if set(DENSITY_COLUMNS) <= set(draw.pool.frame.columns):
        # Elsewhere Strata of the label are the true ω.
        true_m = images.merge(unskew.debias_weights(draw.omega, draw.pool.source).weight)
        oracle = tune_probe(images.X, images.label, true_m, images.n_classes, seed=seed)
        yield test.record("true omega", oracle, oracle.choice.ridge)
    cache: dict[bytes, npt.NDArray[np.float32]] = {}
    for name, dialled in _recipes(draw, images, target, seed):
        ridge = _best_ridge(dialled, images, weight_m, cache)
        probe = dialled_probe(images.X, images.label, dialled, ridge=ridge, tol=1e-4)
        yield test.record(name, probe, ridge)


def _our_ways(images: Images, weight_m: Floats, test: TestImages, seed: int) -> Iterator[Record]:
    tuned = tune_probe(images.X, images.label, weight_m, images.n_classes, seed=seed)
    choice = tuned.choice
    facts = {
        "way": choice.way,
        "score": choice.score,
        "reason": choice.reason,
        "within": choice.within,
        "ess": effective_size(weight_m),
    }
    yield test.record("auto", tuned, choice.ridge) | facts
    # Those of tempered weights are not those of the ways, which take the weights as they are.
    ridges = {row.way: row.ridge for row in choice.scores} if choice.within == 1.0 else {}
    for way, tau in TAUS.items():
        dialled = turn_dial(weight_m, images.label, images.n_classes, tau)
        ridge = ridges.get(way) or 1e-2
        probe = dialled_probe(images.X, images.label, dialled, ridge=ridge, tol=1e-4)
        yield test.record(way, probe, ridge)


def _recipes(
    draw: Draw, images: Images, target: unskew.Target | None, seed: int
) -> Iterator[tuple[str, Dialled]]:
    """Yield those that the setting's target allows."""
    options: dict[str, dict[str, object]] = {"subsample": {"seed": seed}}
    if set(DENSITY_COLUMNS) <= set(draw.pool.frame.columns):
        options["density_ratio"] = {"features": DENSITY_COLUMNS}
    classes = [str(m) for m in range(images.n_classes)]
    for name in BASELINES:
        try:
            made = make_baseline(name, draw.pool, target, **options.get(name, {}))
        except unskew.UnskewError:
            continue
        if made.form in ("deferred", "retrained") or made.logit_factor is not None:
            continue  # of networks; a probe whose layer is retrained is class_balanced
        shift_m = np.zeros(images.n_classes)
        if made.logit_offset is not None and made.classes is not None:
            shift_m = offset_of(classes, made.classes, made.logit_offset)
        yield name, Dialled(0.0, images.merge(made.sample_weight), shift_m)


def _best_ridge(
    dialled: Dialled,
    images: Images,
    judge_m: Floats,
    cache: dict[bytes, npt.NDArray[np.float32]],
) -> float:
    """Return the ridge with the highest cross-fitted accuracy under the weights ``judge_m``.

    Recipes with the same weights share their fits: logit adjustment is naive and a shift.
    """
    key = dialled.weight.tobytes()
    if key not in cache:
        unshifted = replace(dialled, logit_shift=np.zeros_like(dialled.logit_shift))
        cache[key] = cross_fit_logits(images.X, images.label, unshifted, images.fold, RIDGES)
    logit_rmm = cache[key] - dialled.logit_shift.astype(np.float32)
    score_r = (logit_rmm.argmax(axis=2) == images.label) @ (judge_m / judge_m.sum())
    return RIDGES[int(score_r.argmax())]


@dataclass(frozen=True, eq=False)
class TestImages:
    """The test images, which are a sample of the target."""

    features: Features
    setting: Setting

    def record(self, arm: str, probe: Probe | TunedProbe, ridge: float | None) -> Record:
        """Accuracy, accuracy by group and expected calibration error, in points."""
        features = self.features
        logit_nm = probe.logits(features.test)
        hit_n = logit_nm.argmax(axis=1) == features.test_label
        group_n, names = self.setting.group(Population(features.test_label, features.test_border))
        return {
            "arm": arm,
            "accuracy": 100.0 * float(hit_n.mean()),
            "by_group": [100.0 * float(hit_n[group_n == g].mean()) for g in range(len(names))],
            "calibration_error": 100.0 * calibration_error(logit_nm, hit_n),
            "ridge": ridge,
        }


def calibration_error(logit_nm: Floats, hit_n: npt.NDArray[np.bool_]) -> float:
    """Σ_b |Σ_{i in b} (hit_i − confidence_i)|/n over equal bins of the confidence."""
    proba_nm = np.exp(logit_nm - logit_nm.max(axis=1, keepdims=True))
    confidence_n = proba_nm.max(axis=1) / proba_nm.sum(axis=1)
    bin_n = np.minimum((confidence_n * BINS).astype(np.int64), BINS - 1)
    gap_b = np.bincount(bin_n, weights=hit_n - confidence_n, minlength=BINS)
    return float(np.abs(gap_b).sum() / hit_n.size)
