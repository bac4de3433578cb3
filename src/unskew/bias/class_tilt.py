"""Biasing functions of the label and of features, where the target's images have no labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import logsumexp

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.class_scores import LABEL, ClassScores, learn_class_scores
from unskew.bias.components import ComponentMap, learn_components
from unskew.bias.features import read_feature_columns
from unskew.bias.likelihood import LogLinearProblem, coefficient_variances, fit_log_linear
from unskew.bias.tilt import find_reference_source
from unskew.engine.arguments import CountOrZero, LevelName, NotNegative, checked
from unskew.records import Floats, Ints
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

# Rounds of expectation and maximisation end when no image's chance of a class moves by more, and
# the penalties leave as many numbers free as in the round before, up to this.
_MOST_ROUNDS, _SMALL_MOVE, _SAME_FREE = 8, 0.02, 0.5
# Penalties that are chosen start here and stay within bounds; shares of classes are free to begin
# with.
_FIRST_RIDGE, _FREE_RIDGE, _STRONGEST_RIDGE = 30.0, 1e-2, 1e6
# More images of the sources say hardly more about how these differ from a few hundred of the
# target. A source keeps so many at least.
_MOST_ROWS, _LEAST_ROWS = 16_000, 1_000
# Chances of a class that are left out of a fit; each class keeps its likeliest image.
_SMALL_CHANCE = 1e-3
# Images of the target for each component, and the most components.
_IMAGES_PER_COMPONENT, _MOST_COMPONENTS = 15, 30


@checked
@dataclass(frozen=True)
class ClassTilt(Bias):
    """ω_k(x, y) = exp(a_k(y) + (θ_k + Σ_j δ_kj g_j(y))·φ(x)), the target's images without labels.

    Sources differ from the target in the shares of the classes and, within a class, in what its
    images look like, log-linearly in the leading principal components φ(x) of the features. With
    ``directions`` the tilt depends on the class: g_1(y) is the direction in which the classes
    differ most, as a probe sees them (animals against vehicles, say), so that a source may prefer
    bright vehicles and dark animals.

    By expectation and maximisation: every image of the target counts as one of class y by its
    chance p(y | x) r(x, y)/Σ_y' p(y' | x) r(x, y'), with p(y | x) of the pool by a cross-fitted
    probe of the label, and r the fitted ratio of target to pool; a_k, θ_k and δ_k maximise the
    likelihood of the sources given these. A label that the target's images have is used.

    Some hundred images of the target say little about many numbers, and what they do not say is
    noise in the weights: shares of ten classes from 500 images are off by a seventh each. So all
    numbers have a penalty, λ/2 of their squares, and the images choose it: for each source one λ
    for its shares a_k, one for θ_k and one for every δ_kj, by marginal likelihood (MacKay 1992),
    λ = γ/‖θ‖² with γ = Σ (1 − λ variance), the numbers that the images determine. Where classes
    do not shift, or do not differ in their tilt, λ grows until that part is gone.

    Parameters
    ----------
    features : columns of the table, or beginnings of columns: numbers, such as an embedding.
    components : number of principal components; 0: one for every 15 images of the target, at most
        30.
    directions : number of directions g_j in which the classes are told apart; 0: one tilt for all.
    ridge : λ of the penalty λ/2 Σ_k (‖θ_k‖² + Σ_j ‖δ_kj‖²), with a_k free; 0: chosen.
    reference : name of the source that selects without bias; default: the target's sample or
        source.

    Notes
    -----
    c(z) comes from the reference. Where it has no labels, the pool's p(y | x) and the log-linear
    form are what tells a shift of classes from a change of their images. Errors come from a
    bootstrap that refits.
    """

    family: ClassVar[str] = "class_tilt"
    by_likelihood: ClassVar[bool] = True
    shifts_classes: ClassVar[bool] = True
    features: Sequence[str]
    components: CountOrZero = 0
    directions: CountOrZero = 1
    ridge: NotNegative = 0.0
    reference: LevelName | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))
        if self.reference is not None:
            object.__setattr__(self, "reference", level_text(self.reference))

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        reference = find_reference_source(self, data)
        warm = start if isinstance(start, FittedClassTilt) and not data.learn_anew else None
        rows = _rows_by_source(data)
        design = _Design.learn(self, data, reference, rows) if warm is None else warm.design
        begin = None if warm is None or warm.names != data.names else warm
        return _fit(self, data, log_offset_rk, reference, rows, design, begin)


@dataclass(frozen=True, eq=False)
class _Design:
    """What is learned from the pool alone: scores of classes, components, directions."""

    scores: ClassScores
    components: ComponentMap
    class_cj: Floats

    @classmethod
    def learn(cls, model: ClassTilt, data: BiasData, reference: int, rows: Ints) -> _Design:
        pool = data.frame.iloc[: data.n_pool]
        scores = learn_class_scores(pool, model.features, seed=data.seed)
        n_target = int(np.count_nonzero(data.source == reference))
        wanted = min(max(n_target // _IMAGES_PER_COMPONENT, 1), _MOST_COMPONENTS)
        components = learn_components(pool, model.features, model.components or wanted, data.seed)
        label_n = class_codes(pool, scores.classes)
        return cls(scores, components, _directions(scores.fold_log_p, label_n, model.directions))

    @property
    def block(self) -> Ints:
        """(C + d (1 + J),) 0 for shares, 1 for the common tilt, 2 … for those by class."""
        n_components, n_directions = self.components.rotation.shape[1], self.class_cj.shape[1]
        sizes = [len(self.scores.classes), *[n_components] * (1 + n_directions)]
        return np.repeat(np.arange(len(sizes)), sizes)

    def phi(self, x_nd: Floats, label_n: Ints) -> Floats:
        """(n, C + d (1 + J)) 1{y = c}, φ(x), and φ(x) g_j(y)."""
        g_nj, is_class_nc = self.class_cj[label_n], np.eye(len(self.scores.classes))[label_n]
        by_class = [x_nd * g_nj[:, [j]] for j in range(g_nj.shape[1])]
        return np.concatenate([is_class_nc, x_nd, *by_class], axis=1)


def _directions(log_p_nc: Floats, label_n: Ints, n_directions: int) -> Floats:
    """(C, J) g_j(y): leading principal components of the classes' mean scores, variance 1 at most.

    Fewer than asked for where there are fewer classes.
    """
    n_classes = log_p_nc.shape[1]
    centred_nc = log_p_nc - log_p_nc.mean(axis=1, keepdims=True)
    mean_cc = np.stack([centred_nc[label_n == c].mean(axis=0) for c in range(n_classes)])
    left, size, _ = np.linalg.svd(mean_cc - mean_cc.mean(axis=0))
    kept = min(n_directions, n_classes - 1)
    return np.asarray(left[:, :kept] * size[:kept] / size[0] * np.sqrt(n_classes))


def class_codes(frame: pd.DataFrame, classes: Sequence[str]) -> Ints:
    """(n,) the class of each image; −1 without a label, or with one that the pool lacks."""
    if LABEL not in frame.columns:
        return np.full(len(frame), -1, dtype=np.int64)
    code = {name: at for at, name in enumerate(classes)}
    label = frame[LABEL]
    known = {level: code.get(level_text(level), -1) for level in label.dropna().unique()}
    return np.array([known.get(level, -1) for level in label.astype(object)], dtype=np.int64)


def _rows_by_source(data: BiasData) -> Ints:
    """Return all rows, or of large sources some, about `_MOST_ROWS` altogether."""
    rng = np.random.default_rng(data.seed)
    most, kept = max(_MOST_ROWS // data.n_sources, _LEAST_ROWS), []
    for k in range(data.n_sources):
        own = np.flatnonzero(data.source == k)
        kept.append(own if own.size <= most else rng.choice(own, most, replace=False))
    return np.sort(np.concatenate(kept))


def _fit(
    model: ClassTilt,
    data: BiasData,
    log_offset_rk: Floats,
    reference: int,
    rows: Ints,
    design: _Design,
    begin: FittedClassTilt | None,
) -> FittedClassTilt:
    """Alternate between the chances of the classes and the likelihood of the sources."""
    frame = data.frame.iloc[rows]
    label_m = class_codes(frame, design.scores.classes)
    # Pool's images all have labels (`learn_class_scores`); those of the target may.
    hidden = np.flatnonzero(label_m < 0)
    x_md = design.components.read(frame)
    log_p_hc = design.scores.log_p(frame.iloc[hidden]) if hidden.size else np.zeros((0, 0))
    log_size_k = np.log(data.size_k) - np.log(
        np.bincount(data.source[rows], minlength=data.n_sources)
    )
    chance_hc, block_d = np.exp(log_p_hc), design.block
    theta_kd = None if begin is None else begin.theta
    ridge_kd = np.tile(
        np.where(block_d == 0, _FREE_RIDGE, model.ridge or _FIRST_RIDGE), (data.n_sources, 1)
    )
    if begin is not None and not model.ridge:
        ridge_kd = begin.ridge
    free = np.inf
    for _ in range(_MOST_ROUNDS):
        problem = _problem(
            data, log_offset_rk, rows, label_m, chance_hc, x_md, design, reference, ridge_kd
        )
        fit = fit_log_linear(problem, theta_kd, data.seed)
        theta_kd = fit.theta
        constant_k = fit.u[0] - fit.u[0, reference] + log_size_k
        constant_k[reference] = 0.0
        free_kd = 1.0 - ridge_kd * coefficient_variances(problem, fit)
        before, free = free, float(free_kd.sum())
        fitted = FittedClassTilt(
            data.names, reference, design, constant_k, theta_kd, ridge_kd, free, not model.ridge
        )
        moved = 0.0
        if hidden.size:
            before_hc, chance_hc = chance_hc, fitted.chances(x_md[hidden], log_p_hc)
            moved = float(np.abs(chance_hc - before_hc).max())
        if moved < _SMALL_MOVE and (model.ridge or abs(free - before) < _SAME_FREE):
            break
        if not model.ridge:
            ridge_kd = _choose_ridge(theta_kd, free_kd, block_d)
    return fitted


def _choose_ridge(theta_kd: Floats, free_kd: Floats, block_d: Ints) -> Floats:
    """(K, D) λ = γ/‖θ‖² of every source and block, within bounds."""
    member_db = np.eye(int(block_d.max()) + 1)[block_d]
    size_kb = np.maximum(np.square(theta_kd) @ member_db, 1.0 / _STRONGEST_RIDGE)
    ridge_kb = np.clip(free_kd @ member_db / size_kb, _FREE_RIDGE, _STRONGEST_RIDGE)
    return np.asarray(ridge_kb[:, block_d])


def _problem(
    data: BiasData,
    log_offset_rk: Floats,
    rows: Ints,
    label_m: Ints,
    chance_hc: Floats,
    x_md: Floats,
    design: _Design,
    reference: int,
    ridge_kd: Floats,
) -> LogLinearProblem:
    """Pose the likelihood of the sources, unlabelled images counted once for each class."""
    known, hidden = np.flatnonzero(label_m >= 0), np.flatnonzero(label_m < 0)
    likely_hc = chance_hc > _SMALL_CHANCE
    if hidden.size:
        likely_hc[chance_hc.argmax(axis=0), np.arange(chance_hc.shape[1])] = True
    row_a, class_a = np.nonzero(likely_hc)
    at = np.concatenate([known, hidden[row_a]]).astype(np.int64)
    label_a = np.concatenate([label_m[known], class_a]).astype(np.int64)
    count_a = np.ones(at.size) if data.design is None else data.design[rows[at]].copy()
    count_a[known.size :] *= np.maximum(chance_hc[row_a, class_a], _SMALL_CHANCE)
    offset = log_offset_rk[rows[at]]
    return LogLinearProblem(
        design.phi(x_md[at], label_a),
        data.source[rows[at]],
        np.zeros_like(label_a),
        data.n_sources,
        1,
        reference,
        offset if offset.any() else None,
        ridge_kd,
        count_a,
    )


@dataclass(frozen=True, eq=False)
class FittedClassTilt(Factor):
    """The fitted factor.

    Of an image without a label it is the mean of ω over the target's p(y | x): that is what makes
    Σ_i ω_k(x_i)/n an estimate of Ω_k.

    constant : (K,) of log ω_k, such that Σ_k ω_k over the pool's sources is the ratio of pool to
        target up to a constant.
    theta : (K, C + d (1 + J)) a_k, θ_k, then δ_kj.
    ridge : (K, C + d (1 + J)) λ of each.
    free : how many of these numbers the images determine.
    ridge_chosen : whether λ was chosen.
    """

    names: tuple[str, ...]
    reference: int
    design: _Design = field(repr=False)
    constant: Floats = field(repr=False)
    theta: Floats = field(repr=False)
    ridge: Floats = field(repr=False)
    free: float
    ridge_chosen: bool

    @property
    def is_smooth(self) -> bool:
        return False

    @property
    def n_fitted(self) -> float:
        """Number of fitted numbers, less what the penalties take."""
        return self.free

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        label_n = class_codes(frame, self.design.scores.classes)
        x_nd = self.design.components.read(frame)
        log_nk = self._of_class(x_nd, np.maximum(label_n, 0))
        hidden = np.flatnonzero(label_n < 0)
        if hidden.size:
            log_nk[hidden] = self.unlabelled(frame.iloc[hidden])
        return log_nk

    def unlabelled(self, frame: pd.DataFrame) -> Floats:
        """(n, K) log Σ_y p(y | x) ω_k(x, y), p(y | x) the target's; labels are not read."""
        x_nd, log_p_nc = self.design.components.read(frame), self.design.scores.log_p(frame)
        log_chance_nc = np.log(np.maximum(self.chances(x_nd, log_p_nc), 1e-300))
        log_nck = self._of_classes(x_nd)
        return np.asarray(logsumexp(log_nck + log_chance_nc[:, :, None], axis=1))

    def chances(self, x_nd: Floats, log_p_nc: Floats) -> Floats:
        """(n, C) p(y | x) in the target: that of the pool times r(x, y), normalised."""
        pool = [k for k in range(len(self.names)) if k != self.reference]
        if not pool:
            return np.asarray(np.exp(log_p_nc))
        log_nc = log_p_nc - logsumexp(self._of_classes(x_nd)[:, :, pool], axis=2)
        return np.asarray(np.exp(log_nc - logsumexp(log_nc, axis=1, keepdims=True)))

    def _of_classes(self, x_nd: Floats) -> Floats:
        """(n, C, K) log ω_k(x_i, y) for every class."""
        n_classes = len(self.design.scores.classes)
        of_class = [self._of_class(x_nd, np.full(len(x_nd), c)) for c in range(n_classes)]
        return np.stack(of_class, axis=1)

    def _of_class(self, x_nd: Floats, label_n: Ints) -> Floats:
        return np.asarray(self.design.phi(x_nd, label_n) @ self.theta.T + self.constant)

    def describe(self) -> Description:
        n_components, directions = self.design.components.rotation.shape[1], self.design.class_cj
        by_class = f", differently by class ({directions.shape[1]} directions)"
        return Description(
            "ClassTilt",
            (
                "how likely a source selects an image depends on its label and, log-linearly, on "
                f"{n_components} principal components of the features"
                f"{by_class if directions.shape[1] else ''}",
                "where images of the target have no label, the pool's p(label | features) and this "
                "form tell a shift of classes from a change of their images",
            ),
            (
                f"{self.n_fitted:.0f} numbers, by expectation and maximisation with "
                f"{'penalties that the images choose' if self.ridge_chosen else 'a ridge'}",
            ),
            f"{self.names[self.reference]}, taken as a sample in which no image is preferred",
            parameters={
                "components": n_components,
                **({} if self.ridge_chosen else {"ridge": float(self.ridge.max())}),
            },
        )
