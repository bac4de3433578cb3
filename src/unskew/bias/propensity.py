"""Biasing functions from a classifier of the source, cross-fitted, relative to a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.feature_flags import learn_flagged_features
from unskew.bias.features import FeatureMap, read_feature_columns
from unskew.bias.fit_rows import agree_on_copies, name_ranks, split_folds
from unskew.bias.likelihood import LogLinearProblem, fit_log_linear, own_means
from unskew.bias.tilt import SMALLEST_RIDGE, FittedTilt, find_reference_source
from unskew.engine.arguments import Folds, LevelName, PositiveBelowHalf, checked
from unskew.engine.threads import one_openmp_thread
from unskew.errors import ConfigError, wrong_option
from unskew.records import Floats, Ints
from unskew.records.levels import level_text
from unskew.solve.profile_likelihood import LinearDerivative

if TYPE_CHECKING:
    import pandas as pd

# The penalty λ/2 ‖θ‖² of scikit-learn's LogisticRegression at its default C = 1.
_RIDGE = 1.0
_NAMED = ("logistic", "boosting")
_WORTH_THREADS = 50_000


@checked
@dataclass(frozen=True)
class Propensity(Bias):
    """ω_k(z) = (q̂_k(z)/n_k)/(q̂_r(z)/n_r), q̂ the chance of a source by a classifier.

    q̂_k is the chance that an image with these features comes from source k, and r is the
    reference.

    Cross-fitted: the images of each fold get ω from the classifier that was trained on the other
    folds, which keep groups on one side; images of one source that are alike in all that the model
    reads share the geometric mean of theirs, and new images get that over all classifiers. Folds
    follow from what the model reads of the images, not from the order of the rows.

    Parameters
    ----------
    features : columns of the table, or beginnings of columns; numeric ones are standardised,
        categorical ones become indicators.
    classifier : "logistic" (regularised logistic regression), "boosting" (gradient-boosted trees),
        any scikit-learn classifier with ``predict_proba``, or ``module:function`` of a function
        that makes one.
    reference : name of the source that selects without bias as far as these features go; default:
        the target's sample or source.
    folds : number of folds.
    floor : smallest chance that a classifier may give.

    Notes
    -----
    c(z) comes from the reference. If that has no labels, p(label | features) is assumed to be the
    same in target and sources. Errors of "logistic" come from influence functions; other
    classifiers have no derivatives, and errors come from a bootstrap that refits: a hundred fits
    for the first mean (minutes with "boosting"), shared by all further ones.
    """

    family: ClassVar[str] = "propensity"
    by_likelihood: ClassVar[bool] = True
    features: Sequence[str]
    classifier: Any = "logistic"
    reference: LevelName | None = None
    folds: Folds = 5
    floor: PositiveBelowHalf = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))
        if self.reference is not None:
            object.__setattr__(self, "reference", level_text(self.reference))
        self._check_classifier()

    def _check_classifier(self) -> None:
        if (
            isinstance(self.classifier, str)
            and ":" not in self.classifier
            and self.classifier not in _NAMED
        ):
            raise wrong_option(
                f"classifier is one of {', '.join(_NAMED)}, a scikit-learn classifier, or "
                "module:function",
                classifier=self.classifier,
                allowed=list(_NAMED),
            )
        if isinstance(self.classifier, type):
            raise ConfigError(
                "classifier is a scikit-learn classifier, not its class: write "
                f"classifier={self.classifier.__name__}(…), or "
                f"'{self.classifier.__module__}:{self.classifier.__qualname__}'.",
                option="classifier",
                value=self.classifier.__name__,
            )
        if not isinstance(self.classifier, str) and not hasattr(self.classifier, "fit"):
            raise ConfigError(
                f"classifier is one of {', '.join(_NAMED)}, a scikit-learn classifier, or "
                f"module:function; got {self.classifier!r}, which has no fit method.",
                option="classifier",
                value=repr(self.classifier),
            )

    @property
    def has_offset(self) -> bool:
        """Whether it can be fitted given other estimated factors: only the logistic regression can.

        Its likelihood takes an offset.
        """
        return isinstance(self.classifier, str) and self.classifier == "logistic"

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        reference = find_reference_source(self, data)
        warm = start if isinstance(start, FittedPropensity) and not data.learn_anew else None
        if warm is None:
            feature_map, notes = learn_flagged_features(data, self.features)
        else:
            feature_map, notes = warm.feature_map, warm.notes
        phi_rd = feature_map.read(data.frame)
        models, log_rk = [], np.zeros((phi_rd.shape[0], data.n_sources))
        if not self.has_offset:
            self._make_classifier(data.seed)  # the limit of threads binds libraries that are loaded
        with one_openmp_thread(phi_rd.shape[0] < _WORTH_THREADS):
            for at, (train, test) in enumerate(split_folds(data, self.folds)):
                before = warm.models[at] if warm is not None and at < len(warm.models) else None
                model = self._train(data, phi_rd, log_offset_rk, train, reference, before)
                log_rk[test] = model.log_ratio(phi_rd[test], data.cell[test])
                models.append(model)
        log_rk = agree_on_copies(data, log_rk)
        # A classifier reads the strata as features, too; θ of a logistic regression does not depend
        # on them.
        find_cell = None if self.has_offset else data.find_cell
        return FittedPropensity(
            data.names,
            reference,
            feature_map,
            tuple(models),
            log_rk,
            self._shown,
            self.has_offset,
            notes,
            find_cell,
        )

    @property
    def _shown(self) -> str:
        return (
            self.classifier if isinstance(self.classifier, str) else type(self.classifier).__name__
        )

    def _train(
        self,
        data: BiasData,
        phi_rd: Floats,
        log_offset_rk: Floats,
        train: Ints,
        reference: int,
        before: Any,
    ) -> Any:
        if self.has_offset:
            return _train_logistic(data, phi_rd, log_offset_rk, train, reference, _RIDGE, before)
        if data.n_sources == 1:
            # One source, the reference itself: nothing to tell apart, and classifiers refuse a
            # single class.
            return _Logistic(np.zeros((1, phi_rd.shape[1])))
        x = _with_cells(phi_rd[train], data.cell[train], data.n_cells)
        source_r = data.source[train]
        # Weighted by 1/(other factors), source k's images look as if drawn with this factor alone.
        # A constant of a source is left out: it would make classifiers blind to the source, and the
        # totals below undo it.
        one_cell_r = np.zeros(train.size, dtype=np.int64)
        mean_k = own_means(log_offset_rk[train], source_r, one_cell_r, 1)[0]
        own_r = log_offset_rk[train, source_r] - mean_k[source_r]
        weight_r = np.exp(-(own_r - own_r.min()))
        if data.design is not None:
            weight_r = weight_r * data.design[train]
        total_k = np.bincount(source_r, weights=weight_r, minlength=data.n_sources)
        code_of_class = np.argsort(data.names)
        model = _fit_classifier(
            self._make_classifier(data.seed),
            x,
            name_ranks(data)[source_r],
            weight_r if log_offset_rk.any() or data.design is not None else None,
        )
        return _Classifier(
            model, np.log(total_k), reference, data.n_cells, self.floor, code_of_class
        )

    def _make_classifier(self, seed: int) -> Any:
        from sklearn.base import clone

        if self.classifier == "boosting":
            from sklearn.ensemble import HistGradientBoostingClassifier

            return HistGradientBoostingClassifier(
                max_iter=100,
                max_leaf_nodes=15,
                learning_rate=0.1,
                l2_regularization=1.0,
                random_state=seed,
            )
        if isinstance(self.classifier, str):
            from unskew.files.user_code import import_reference

            return import_reference(self.classifier)()
        return clone(self.classifier)


def _train_logistic(
    data: BiasData,
    phi_rd: Floats,
    log_offset_rk: Floats,
    train: Ints,
    reference: int,
    ridge: float,
    before: _Logistic | None,
) -> _Logistic:
    problem = LogLinearProblem.of(data, phi_rd, log_offset_rk, reference, ridge, train)
    begin = None if before is None else before.theta_kd
    return _Logistic(fit_log_linear(problem, begin, data.seed).theta)


def _with_cells(phi_bd: Floats, cell_b: Ints, n_cells: int) -> Floats:
    return (
        phi_bd if n_cells == 1 else np.column_stack([phi_bd, cell_b[:, None] == np.arange(n_cells)])
    )


def _fit_classifier(model: Any, x: Floats, source: Ints, weight: Floats | None) -> Any:
    if not hasattr(model, "predict_proba") and not hasattr(type(model), "predict_proba"):
        raise ConfigError(
            f"the classifier of Propensity must have predict_proba; {type(model).__name__} has "
            "not. Wrap it in CalibratedClassifierCV.",
            option="classifier",
            value=type(model).__name__,
        )
    if weight is None:
        return model.fit(x, source)
    try:
        return model.fit(x, source, sample_weight=weight)
    except TypeError as error:
        raise ConfigError(
            "in a product, and with design weights, the classifier of Propensity must take "
            f"sample_weight; {type(model).__name__} does not ({error}).",
            option="classifier",
            value=type(model).__name__,
        ) from error


@dataclass(frozen=True, eq=False)
class _Logistic:
    theta_kd: Floats

    def log_ratio(self, phi_bd: Floats, cell_b: Ints) -> Floats:
        return np.asarray(phi_bd @ self.theta_kd.T)


@dataclass(frozen=True, eq=False)
class _Classifier:
    model: Any
    log_total_k: Floats
    reference: int
    n_cells: int
    floor: float
    code_of_class: Ints

    def log_ratio(self, phi_bd: Floats, cell_b: Ints) -> Floats:
        x = _with_cells(phi_bd, cell_b, self.n_cells)
        chance_bk = np.full((phi_bd.shape[0], self.log_total_k.size), self.floor)
        if len(x):  # classifiers refuse an empty table
            seen = self.code_of_class[np.asarray(self.model.classes_, dtype=np.int64)]
            chance_bk[:, seen] = np.maximum(self.model.predict_proba(x), self.floor)
        log_bk = np.log(chance_bk) - self.log_total_k
        return np.asarray(log_bk - log_bk[:, [self.reference]])


@dataclass(frozen=True, eq=False)
class FittedPropensity(Factor):
    """The classifiers of the folds.

    Errors of "logistic" are those of a tilt at the mean of the folds' coefficients.
    """

    names: tuple[str, ...]
    reference: int
    feature_map: FeatureMap
    models: tuple[Any, ...] = field(repr=False)
    log_rk: Floats = field(repr=False)
    shown: str = "logistic"
    is_logistic: bool = True
    notes: tuple[str, ...] = ()
    find_cell: Callable[[pd.DataFrame], Ints] | None = field(repr=False, default=None)
    ridge: float = _RIDGE

    @property
    def is_smooth(self) -> bool:
        return self.is_logistic

    @property
    def tilt(self) -> FittedTilt:
        """The tilt at the mean of the folds' coefficients, if the classifier is logistic."""
        theta_kd = np.mean([model.theta_kd for model in self.models], axis=0)
        return FittedTilt(self.names, self.reference, self.feature_map, theta_kd, self.ridge)

    @property
    def n_parameters(self) -> int:
        return self.tilt.n_parameters if self.is_logistic else 0

    @property
    def penalty(self) -> Floats:
        return self.tilt.penalty if self.is_logistic else np.zeros((0, 0))

    @property
    def is_penalised(self) -> bool:
        return self.is_logistic and self.ridge > SMALLEST_RIDGE

    def unpenalised(self, data: BiasData, log_offset_rk: Floats) -> FittedPropensity:
        phi_rd = self.feature_map.read(data.frame)
        models, log_rk = [], np.zeros((phi_rd.shape[0], data.n_sources))
        folds = split_folds(data, len(self.models))
        for (train, test), before in zip(folds, self.models, strict=True):
            model = _train_logistic(
                data, phi_rd, log_offset_rk, train, self.reference, SMALLEST_RIDGE, before
            )
            log_rk[test] = model.log_ratio(phi_rd[test], data.cell[test])
            models.append(model)
        return replace(
            self, models=tuple(models), log_rk=agree_on_copies(data, log_rk), ridge=SMALLEST_RIDGE
        )

    def jacobian(self, frame: pd.DataFrame) -> Floats:
        return self.tilt.jacobian(frame)

    def linear_derivative(self, frame: pd.DataFrame) -> LinearDerivative | None:
        return self.tilt.linear_derivative(frame) if self.is_logistic else None

    def fitted_log_omega(self) -> Floats | None:
        return self.log_rk

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        phi_nd = self.feature_map.read(frame)
        cell_n = (
            np.zeros(len(frame), dtype=np.int64)
            if self.find_cell is None
            else self.find_cell(frame)
        )
        return np.asarray(
            np.mean([model.log_ratio(phi_nd, cell_n) for model in self.models], axis=0)
        )

    def describe(self) -> Description:
        names = ", ".join(column.name for column in self.feature_map.columns)
        return Description(
            "Propensity",
            (f"how likely a source selects an image depends on it through {names} alone",),
            (
                "the chance of each source given the features, by a cross-fitted classifier "
                f"({self.shown}, {len(self.models)} folds)",
            ),
            f"{self.names[self.reference]}, taken as a sample in which no image is preferred as "
            f"far as {names} go",
            parameters={"classifier": self.shown, "folds": len(self.models)},
            notes=self.notes,
        )
