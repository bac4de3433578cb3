"""Biasing functions that are 1 in a box of features and fall off linearly around it.

Boxes and width are estimated by maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor, no_design_weights
from unskew.bias.feature_flags import flag_identifiers
from unskew.bias.features import (
    check_columns,
    combined_columns,
    expand_features,
    is_numeric,
    read_numbers,
)
from unskew.bias.soft_box.fit import (
    SoftBoxFit,
    fit_soft_boxes,
    log_soft_boxes,
    soft_box_jacobian,
    widen_soft_boxes,
)
from unskew.engine.arguments import checked
from unskew.errors import ConfigError, first_few, warn_caller
from unskew.records import Floats
from unskew.records.target import THE_TARGET

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class SoftBox(Bias):
    """ω_k(z) = max(0, 1 − ‖x − projection of x on box k‖₁/γ), x the features of z.

    That is 1 in a box and falls linearly to 0 over the width γ.

    The boxes (any edges, also infinite, one for each source) and the width, common to all, maximise
    the likelihood of the source labels,

        Σ_i log q_{i,s_i}(u, boxes, γ) + ¼√n (Σ_k log Ω_k − (1/n) Σ_i 1/ω_{i,s_i}),   Ω_k the pool's
        mean of ω_k.

    The second part, small next to the first, decides where ratios of ω cannot: of boxes that
    explain the labels alike the least selective are taken, and no image is left on the rim of its
    own source's support. The reference of the target, if there is one, has ω ≡ 1.

    If the data cannot tell such a mechanism from none (the likelihood gains no more than it does
    when source labels are permuted), the result is ω ≡ 1, and `describe` says so.

    Parameters
    ----------
    features : numeric columns of the table, or beginnings of columns.
    standardise : measure distances in standard deviations of the pooled features, not in their own
        units. The width is one number for all features: use True where their units differ.

    Notes
    -----
    c(z) comes from the family: a source selects all images in its box alike. The likelihood is not
    regular (it has kinks where images enter a box or leave the support), and which edges are finite
    is a choice: what an upper edge of one source explains, lower edges of the others often explain
    as well. Errors count that choice by a second fit that has those edges, too
    (`open_opposite_edges`): its variance, and how far apart both means are. The measured coverage
    is on the documentation's page on errors.
    """

    family: ClassVar[str] = "soft_box"
    by_likelihood: ClassVar[bool] = True
    features: Sequence[str]
    standardise: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.features, str):
            object.__setattr__(self, "features", tuple(self.features))

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        if data.design is not None:
            raise no_design_weights("SoftBox", "Tilt, Propensity or Box")
        warm = start if isinstance(start, FittedSoftBox) and not data.learn_anew else None
        names = expand_features(data.frame, self.features)
        other = [name for name in names if not is_numeric(data.frame[name])]
        if other:
            raise ConfigError(
                f"SoftBox measures distances, so its features are numbers; {first_few(other)} is "
                f"not. Use Product(SoftBox(…), Box({other})) to keep each source to its own "
                "levels, or Tilt.",
                option="features",
                columns=other,
            )
        columns = [read_numbers(data.frame[name], name) for name in names]
        if warm is not None:
            centre_d, scale_d, notes = warm.centre, warm.scale, warm.notes
            feature_rd = _measured(columns, centre_d, scale_d)
        else:
            centre_d, spread_d = (
                np.array([of(column_r) for column_r in columns]) for of in (np.mean, np.std)
            )
            scale_d = (
                np.where(spread_d > 0, spread_d, 1.0) if self.standardise else np.ones(len(names))
            )
            feature_rd = _measured(columns, centre_d, scale_d)
            notes = flag_identifiers(
                data.frame, names, data.source, data.names
            ) + self._unequal_units(spread_d, names)
            largest_d = np.array([max(-column_r.min(), column_r.max()) for column_r in columns])
            notes += _useless_features(feature_rd, largest_d / scale_d, names)
        # A fit that is only continued (next round of a product, bootstrap) is not tested again.
        if warm is not None and warm.fit.is_constant:
            return warm
        fit = fit_soft_boxes(
            feature_rd,
            data.source,
            data.n_sources,
            log_offset_nk=log_offset_rk if log_offset_rk.any() else None,
            cell_n=data.cell if data.n_cells > 1 else None,
            reference=data.reference,
            group_n=data.fold_group,
            start=None if warm is None else warm.fit,
            test=warm is None,
            seed=data.seed,
        )
        return FittedSoftBox(data.names, tuple(names), centre_d, scale_d, fit, notes)

    def _unequal_units(self, spread_d: Floats, names: Sequence[str]) -> tuple[str, ...]:
        spread_d = np.where(spread_d > 0, spread_d, np.nan)
        if (
            self.standardise
            or np.isnan(spread_d).all()
            or not np.nanmax(spread_d) > 10 * np.nanmin(spread_d)
        ):
            return ()
        large, small = names[int(np.nanargmax(spread_d))], names[int(np.nanargmin(spread_d))]
        return (
            f"{large} varies more than ten times as much as {small}, but one width holds for both: "
            "set standardise=True if units differ",
        )


def _measured(columns: Sequence[Floats], centre_d: Floats, scale_d: Floats) -> Floats:
    """(n, D) the columns less their centres, divided by their scales."""
    feature_nd = np.empty((columns[0].size, len(columns)))
    for column_n, centre, scale, out_n in zip(
        columns, centre_d, scale_d, feature_nd.T, strict=True
    ):
        np.subtract(column_n, centre, out=out_n)
        if scale != 1.0:
            out_n /= scale
    return feature_nd


def _useless_features(
    centred_rd: Floats, largest_d: Floats, names: Sequence[str]
) -> tuple[str, ...]:
    """Warn of features that are constant, or copies or combinations of those before them."""
    notes = []
    combined = combined_columns(centred_rd)
    product_dd = centred_rd.T @ centred_rd
    size_d = np.sqrt(np.diagonal(product_dd))
    # Rounding is no variation.
    varies_d = size_d > 1e-12 * largest_d * np.sqrt(len(centred_rd))
    for d, name in enumerate(names):
        copied = [
            names[e]
            for e in range(d)
            if varies_d[e] and abs(product_dd[e, d]) > (1 - 1e-12) * size_d[e] * size_d[d]
        ]
        if not varies_d[d]:
            notes.append(
                f"{name} is constant and says nothing about the sources: leave it out of the bias "
                "model"
            )
        elif copied:
            notes.append(
                f"{name} repeats {copied[0]}, which counts twice in every distance: leave one of "
                "them out of the bias model"
            )
        elif d in combined:
            notes.append(
                f"{name} is a combination of other features, which count twice in every distance: "
                "leave one out of the bias model"
            )
        else:
            continue
        warn_caller(f"{notes[-1]}.")
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class FittedSoftBox(Factor):
    """Fitted boxes and width, in units of the features less ``centre`` divided by ``scale``."""

    names: tuple[str, ...]
    numeric: tuple[str, ...]
    centre: Floats = field(repr=False)
    scale: Floats = field(repr=False)
    fit: SoftBoxFit
    notes: tuple[str, ...] = ()

    def _read(self, frame: pd.DataFrame) -> Floats:
        check_columns(frame, self.numeric)
        return _measured(
            [read_numbers(frame[name], name) for name in self.numeric], self.centre, self.scale
        )

    @property
    def n_parameters(self) -> int:
        if self.fit.is_constant:
            return 0
        return int(np.isfinite(self.fit.lower).sum() + np.isfinite(self.fit.upper).sum()) + 1

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        feature_nd = self._read(frame)
        if self.fit.is_constant:
            return np.zeros((len(frame), len(self.names)))
        return log_soft_boxes(feature_nd, self.fit.lower, self.fit.upper, self.fit.width)

    def jacobian(self, frame: pd.DataFrame) -> Floats:
        return soft_box_jacobian(self._read(frame), self.fit.lower, self.fit.upper, self.fit.width)

    @property
    def in_doubt(self) -> bool:
        return not self.fit.is_constant or self.fit.rejected is not None

    def rival(self, data: BiasData, log_offset_rk: Floats) -> FittedSoftBox | None:
        wide = widen_soft_boxes(
            self._read(data.frame),
            data.source,
            data.n_sources,
            self.fit,
            log_offset_nk=log_offset_rk if log_offset_rk.any() else None,
            cell_n=data.cell if data.n_cells > 1 else None,
            reference=data.reference,
            group_n=data.fold_group,
        )
        return None if wide is None else replace(self, fit=wide)

    def describe(self) -> Description:
        names = ", ".join(self.numeric)
        fit = self.fit
        test = ""
        if fit.p_value is not None and fit.n_permutations:
            test = (
                f" (p = {fit.p_value:.2g} against none, {fit.n_permutations} permutations of "
                "the labels)"
            )
        elif fit.p_value is not None:
            test = (
                f" (p < {max(fit.p_value, 1e-99):.0e} against none, by a bound on all "
                "permutations of the labels)"
            )
        if fit.is_constant and fit.rejected is not None:
            estimated = (
                f"nothing: the sources do differ{test}, but boxes would add more noise "
                "than they remove bias, so all images count alike"
            )
        elif fit.is_constant:
            estimated = (
                f"nothing: the data cannot tell such a mechanism from none{test}, so all "
                "images count alike"
            )
        else:
            estimated = (
                f"boxes and a width of {fit.width:.4g}, by maximum likelihood of the "
                f"source labels{test}"
            )
        lower, upper = (
            (edge_kd * self.scale + self.centre).tolist() for edge_kd in (fit.lower, fit.upper)
        )
        boxes = {
            name: {feature: [lower[k][d], upper[k][d]] for d, feature in enumerate(self.numeric)}
            for k, name in enumerate(self.names)
        }
        return Description(
            "SoftBox",
            (
                f"a source selects all images alike within its box of {names}, and the fewer the "
                "further they are outside it",
            ),
            (estimated,),
            "the family: 1 within a source's box",
            THE_TARGET if fit.is_constant else "the part of the population within reach of a box",
            {"width": float(fit.width), "boxes": boxes},
            self.notes,
        )
