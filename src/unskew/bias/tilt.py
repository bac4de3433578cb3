"""Biasing functions that are log-linear in features, relative to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.components import ComponentMap, learn_components
from unskew.bias.feature_flags import learn_flagged_features
from unskew.bias.features import FeatureMap, flagged, read_feature_columns
from unskew.bias.likelihood import LogLinearProblem, fit_log_linear
from unskew.engine.arguments import CountOrZero, LevelName, NotNegative, checked
from unskew.errors import ConfigError, wrong_option
from unskew.records import Floats
from unskew.records.levels import level_text
from unskew.solve.profile_likelihood import LinearDerivative

if TYPE_CHECKING:
    import pandas as pd

# Keeps θ finite where features separate the sources; on standardised features it moves θ by far
# less than its standard error.
SMALLEST_RIDGE = 1e-6
# An odds ratio of e^30 within the data: the sources do not overlap there.
_SEPARATED = 30.0


@checked
@dataclass(frozen=True)
class Tilt(Bias):
    """ω_k(z) = exp(θ_k·φ(z)), with ω ≡ 1 for the reference; θ by maximum likelihood.

    q_{k|z} is then a multinomial logistic regression, and the joint maximum over (u, θ) is that of
    Qin (1998) and Anderson's (1972) density-ratio model: −Σ_i log q_{i,s_i}(u, θ) is convex. φ
    holds the features, numeric ones standardised and categorical ones as indicators, and with
    ``degree=2`` the squares and products of the numeric ones (tilts between Gaussians of different
    covariance).

    Parameters
    ----------
    features : columns of the table, or beginnings of columns (``border_hsv`` means border_hsv_h,
        border_hsv_s and border_hsv_v).
    reference : name of the source that selects without bias as far as these features go; default:
        the target's sample or source.
    degree : 1, or 2.
    components : of numeric features the number of leading principal components to use instead of
        them; 0: the features themselves. Columns numbered alike (an embedding) are scaled together,
        and the first component has standard deviation 1.
    ridge : λ of the penalty λ/2 Σ_k ‖θ_k‖² on standardised features. It draws the weights towards
        those of no selection, which is a bias: intervals of means reach to that of the fit without
        the penalty, too.

    Notes
    -----
    c(z) comes from the reference. If the reference has no labels, p(label | features) is assumed to
    be the same in target and sources.
    """

    family: ClassVar[str] = "tilt"
    by_likelihood: ClassVar[bool] = True
    features: Sequence[str]
    reference: LevelName | None = None
    degree: Literal[1, 2] = 1
    ridge: NotNegative = 0.0
    components: CountOrZero = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))
        if self.reference is not None:
            object.__setattr__(self, "reference", level_text(self.reference))
        if self.components and self.degree != 1:
            raise wrong_option(
                "principal components are used as they are: degree is 1 with components",
                degree=self.degree,
                allowed=[1],
            )

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        reference = find_reference_source(self, data)
        begin = start if isinstance(start, FittedTilt) else None
        warm = None if data.learn_anew else begin
        feature_map: FeatureMap | ComponentMap
        notes: tuple[str, ...] = ()
        if warm is None and self.components:
            pool = data.frame.iloc[: data.n_pool]
            feature_map = learn_components(pool, self.features, self.components, data.seed)
        elif warm is None:
            feature_map, notes = learn_flagged_features(data, self.features, self.degree)
        else:
            feature_map, notes = warm.feature_map, warm.notes
        phi_rd, ridge = feature_map.read(data.frame), max(self.ridge, SMALLEST_RIDGE)
        problem = LogLinearProblem.of(data, phi_rd, log_offset_rk, reference, ridge)
        # The fit is convex: where it begins costs time, not accuracy.
        alike = (
            begin is not None
            and begin.feature_map.labels == feature_map.labels
            and begin.names == data.names
        )
        fit = fit_log_linear(
            problem, begin.theta if begin is not None and alike else None, data.seed
        )
        if warm is None:
            notes += _warn_if_separated(fit.theta @ problem.phi.T, data.names)
        return FittedTilt(data.names, reference, feature_map, fit.theta, ridge, notes)


def find_reference_source(model: Bias, data: BiasData) -> int:
    """Return the index of the source with ω ≡ 1: the one the model names, else the target's."""
    if model.reference_source is not None:
        return data.find_source(model.reference_source, "the reference of the bias model")
    if data.reference is None:
        family = type(model).__name__
        raise ConfigError(
            f"{family} compares every source with a reference in which no image is preferred, and "
            "there is none. Give a sample of the target (Target.sample), name the source that is "
            f"unbiased (Target.source), or name a reference: {family}(…, reference=…). In a "
            'configuration: sample or source under [target], or reference = "…" under [bias]. '
            "Masses of strata do not say how images are distributed within them.",
            option="reference",
            value=None,
        )
    return data.reference


def _warn_if_separated(tilt_kr: Floats, names: Sequence[str]) -> tuple[str, ...]:
    range_k = np.ptp(tilt_kr, axis=1)
    worst = int(np.argmax(range_k))
    if range_k[worst] < _SEPARATED:
        return ()
    return flagged(
        f"the features separate source `{names[worst]}` from the reference: the fitted odds vary "
        f"by a factor of e^{range_k[worst]:.0f} over the images, so hardly any image of one "
        "resembles the other",
        " Leave out features that only identify the source, or set ridge=1.",
    )


@dataclass(frozen=True, eq=False)
class FittedTilt(Factor):
    """The fitted log-linear factor; θ of the reference is 0."""

    names: tuple[str, ...]
    reference: int
    feature_map: FeatureMap | ComponentMap
    theta: Floats
    ridge: float
    notes: tuple[str, ...] = ()

    @property
    def _free(self) -> Any:
        return np.flatnonzero(np.arange(len(self.names)) != self.reference)

    @property
    def n_parameters(self) -> int:
        return int(self._free.size * self.theta.shape[1])

    @property
    def penalty(self) -> Floats:
        return self.ridge * np.eye(self.n_parameters)

    @property
    def is_penalised(self) -> bool:
        return self.ridge > SMALLEST_RIDGE

    def unpenalised(self, data: BiasData, log_offset_rk: Floats) -> FittedTilt:
        phi_rd = self.feature_map.read(data.frame)
        problem = LogLinearProblem.of(data, phi_rd, log_offset_rk, self.reference, SMALLEST_RIDGE)
        fit = fit_log_linear(problem, self.theta, data.seed)
        return replace(self, theta=fit.theta, ridge=SMALLEST_RIDGE)

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        return np.asarray(self.feature_map.read(frame) @ self.theta.T)

    def jacobian(self, frame: pd.DataFrame) -> Floats:
        return self.linear_derivative(frame).block(np.arange(len(frame)))

    def linear_derivative(self, frame: pd.DataFrame) -> LinearDerivative:
        return LinearDerivative(self.feature_map.read(frame), self._free, len(self.names))

    def describe(self) -> Description:
        names = self.feature_map.names_text
        return Description(
            "Tilt",
            (
                f"how likely a source selects an image depends on it through {names} alone, "
                "log-linearly",
            ),
            (f"{self.n_parameters} coefficients, by maximum likelihood of the source labels",),
            f"{self.names[self.reference]}, taken as a sample in which no image is preferred as "
            f"far as {names} go",
            parameters={
                name: dict(zip(self.feature_map.labels, row.tolist(), strict=True))
                for name, row in zip(self.names, self.theta, strict=True)
            },
            notes=self.notes,
        )
