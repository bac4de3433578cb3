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
from unskew.bias.features import is_number, read_feature_columns
from unskew.bias.likelihood import LogLinearProblem, fit_log_linear
from unskew.bias.tilt import SMALLEST_RIDGE, find_reference_source
from unskew.errors import wrong_option
from unskew.records import Floats, Ints
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

# Rounds of expectation and maximisation end when no image's chance of a class moves by more.
_MOST_ROUNDS, _SMALL_MOVE = 6, 0.02
# More images of the sources say hardly more about how these differ from a few hundred of the
# target. A source keeps so many at least.
_MOST_ROWS, _LEAST_ROWS = 16_000, 1_000
# Chances of a class that are left out of a fit; each class keeps its likeliest image.
_SMALL_CHANCE = 1e-3
# Images of the target for each component, and the most components.
_IMAGES_PER_COMPONENT, _MOST_COMPONENTS = 15, 30


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

    Parameters
    ----------
    features : columns of the table, or beginnings of columns: numbers, such as an embedding.
    components : number of principal components; 0: one for every 15 images of the target, at most
        30.
    directions : number of directions g_j in which the classes are told apart; 0: one tilt for all.
    ridge : λ of the penalty λ/2 Σ_k (‖θ_k‖² + Σ_j ‖δ_kj‖²); a_k is free.
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
    components: int = 0
    directions: int = 1
    ridge: float = 30.0
    reference: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))
        if self.reference is not None:
            object.__setattr__(self, "reference", level_text(self.reference))
        for name in ("components", "directions"):
            value = getattr(self, name)
            if not is_number(value) or value < 0 or value != int(value):
                raise wrong_option(f"{name} is a whole number, 0 or more", **{name: value})
        if not is_number(self.ridge) or not self.ridge > 0:
            raise wrong_option("ridge is the strength of a penalty, above 0", ridge=self.ridge)

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        reference = find_reference_source(self, data)
        warm = start if isinstance(start, FittedClassTilt) and not data.learn_anew else None
        rows = _rows_by_source(data)
        design = _Design.learn(self, data, reference, rows) if warm is None else warm.design
        theta = None if warm is None or warm.names != data.names else warm.theta
        return _fit(self, data, log_offset_rk, reference, rows, design, theta)


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

    def phi(self, x_nd: Floats, label_n: Ints) -> Floats:
        """(n, d (1 + J)) φ(x), and φ(x) g_j(y)."""
        g_nj = self.class_cj[label_n]
        return np.concatenate([x_nd, *(x_nd * g_nj[:, [j]] for j in range(g_nj.shape[1]))], axis=1)


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
    theta_kd: Floats | None,
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
    chance_hc = np.exp(log_p_hc)
    ridge = max(model.ridge, SMALLEST_RIDGE)
    for _ in range(_MOST_ROUNDS):
        problem = _problem(
            data, log_offset_rk, rows, label_m, chance_hc, x_md, design, reference, ridge
        )
        fit = fit_log_linear(problem, theta_kd, data.seed)
        theta_kd = fit.theta
        a_ck = fit.u - fit.u[:, [reference]] + log_size_k
        a_ck[:, reference] = 0.0
        free = _effective_numbers(problem)
        fitted = FittedClassTilt(data.names, reference, design, a_ck, fit.theta, ridge, free)
        if not hidden.size:
            return fitted
        before_hc, chance_hc = chance_hc, fitted.chances(x_md[hidden], log_p_hc)
        if np.abs(chance_hc - before_hc).max() < _SMALL_MOVE:
            break
    return fitted


def _problem(
    data: BiasData,
    log_offset_rk: Floats,
    rows: Ints,
    label_m: Ints,
    chance_hc: Floats,
    x_md: Floats,
    design: _Design,
    reference: int,
    ridge: float,
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
        label_a,
        data.n_sources,
        len(design.scores.classes),
        reference,
        offset if offset.any() else None,
        ridge,
        count_a,
    )


def _effective_numbers(problem: LogLinearProblem) -> float:
    """Count the coefficients of a source that the ridge leaves free, Σ_j s_j/(s_j + λ).

    s_j = n var φ_j, over the images of the target.
    """
    own = problem.source == problem.reference
    assert problem.design is not None
    count_m, phi_md = problem.design[own], problem.phi[own]
    mean_d = count_m @ phi_md / count_m.sum()
    size_d = count_m @ np.square(phi_md - mean_d)
    return float((size_d / (size_d + problem.ridge)).sum())


@dataclass(frozen=True, eq=False)
class FittedClassTilt(Factor):
    """The fitted factor.

    Of an image without a label it is the mean of ω over the target's p(y | x): that is what makes
    Σ_i ω_k(x_i)/n an estimate of Ω_k.

    Attributes
    ----------
    a : (C, K) a_k(y), such that Σ_k e^{a_k + …} over the pool's sources is the ratio of pool to
        target up to a constant.
    theta : (K, d (1 + J)) θ_k, then δ_kj.
    free : how many coefficients of a source the ridge leaves free.
    """

    names: tuple[str, ...]
    reference: int
    design: _Design = field(repr=False)
    a: Floats = field(repr=False)
    theta: Floats = field(repr=False)
    ridge: float
    free: float

    @property
    def is_smooth(self) -> bool:
        return False

    @property
    def n_fitted(self) -> float:
        """Number of fitted numbers of all sources but the reference, less what the ridge takes."""
        return float((len(self.names) - 1) * (self.free + self.a.shape[0] - 1))

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
        n_classes = self.a.shape[0]
        of_class = [self._of_class(x_nd, np.full(len(x_nd), c)) for c in range(n_classes)]
        return np.stack(of_class, axis=1)

    def _of_class(self, x_nd: Floats, label_n: Ints) -> Floats:
        return np.asarray(self.design.phi(x_nd, label_n) @ self.theta.T + self.a[label_n])

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
            (f"{self.n_fitted:.0f} numbers, by expectation and maximisation with a ridge",),
            f"{self.names[self.reference]}, taken as a sample in which no image is preferred",
            parameters={"components": n_components, "ridge": self.ridge},
        )
