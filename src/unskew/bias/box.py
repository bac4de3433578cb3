"""Biasing functions that are 1 in a box around a source's own images and 0 outside.

They are those of the article's section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor, no_design_weights
from unskew.bias.feature_flags import flag_class_codes, flag_identifiers
from unskew.bias.features import (
    check_columns,
    check_present,
    combined_columns,
    constant_features,
    expand_features,
    flagged,
    is_numeric,
    learn_column,
    read_feature_columns,
    read_numbers,
)
from unskew.engine.arguments import ShareBelowHalf, checked
from unskew.errors import did_you_mean, first_few, warn_caller
from unskew.records import Floats, Ints
from unskew.records.levels import text_levels

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Box(Bias):
    """ω_k(z) = 1 where every feature is within the range of source k's own images, 0 elsewhere.

    The range of a numeric feature is min–max, as in the article, or between the quantiles
    ``quantile`` and 1 − ``quantile`` of the source's images; of a categorical one, the levels that
    the source has. The reference of the target, if there is one, has ω ≡ 1.

    Parameters
    ----------
    features : columns of the table, or beginnings of columns.
    quantile : share of a source's images cut off at each end of each feature, below 0.5. Images
        outside their own source's box get weight 0, leave before the shares are computed, and are
        counted.

    Notes
    -----
    c(z) is assumed: within the union of the boxes a source selects all its images alike. Standard
    errors take min–max boxes as known, since extremes converge faster than means; quantiles do not,
    and there errors come from a bootstrap that refits.
    """

    family: ClassVar[str] = "box"
    may_exclude: ClassVar[bool] = True
    features: Sequence[str]
    quantile: ShareBelowHalf = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_feature_columns(self.features))

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        names = expand_features(data.frame, self.features)
        numeric = [name for name in names if is_numeric(data.frame[name])]
        notes: tuple[str, ...] = ()
        if start is None or data.learn_anew:
            notes = (
                *flag_identifiers(data.frame, names, data.source, data.names),
                *_flag_constant(data.frame, names),
                *flag_class_codes(data.frame, names),
                *_flag_combined(data.frame, numeric),
            )
        if data.design is not None and self.quantile > 0:
            raise no_design_weights("Box with a quantile", "Box(…, quantile=0), its min–max rule")
        lower_kd, upper_kd = np.full(
            (2, data.n_sources, len(numeric)), np.array([[[-np.inf]], [[np.inf]]])
        )
        for d, name in enumerate(numeric):
            value_r = read_numbers(data.frame[name], name)
            for k in range(data.n_sources):
                if k != data.reference:
                    lower_kd[k, d], upper_kd[k, d] = np.quantile(
                        value_r[data.source == k], [self.quantile, 1.0 - self.quantile]
                    )
        levels = {name: _levels_by_source(data, name) for name in names if name not in numeric}
        seen = {name: frozenset(text_levels(data.frame[name], name)[0]) for name in levels}
        return FittedBox(
            data.names, tuple(numeric), lower_kd, upper_kd, levels, self.quantile, notes, seen
        )


def _flag_constant(frame: pd.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    constant = constant_features(frame, names)
    if not constant:
        return ()
    return flagged(
        f"{first_few(constant)}: constant over all images; it says nothing about how the sources "
        "select, and other values are in no box"
    )


def _flag_combined(frame: pd.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    if len(names) < 2:
        return ()
    value_rd = np.column_stack([read_numbers(frame[name], name) for name in names])
    combined = combined_columns(value_rd)
    if not combined:
        return ()
    return flagged(
        f"{first_few([names[d] for d in combined])}: a combination of other features; its "
        "limits follow from theirs, or cut across them",
        " Leave one of them out of the bias model.",
    )


def _levels_by_source(data: BiasData, name: str) -> tuple[frozenset[str] | None, ...]:
    """Find the levels that each source has; None (any) for the reference."""
    learn_column(data.frame, name)  # missing values are an error
    levels, code_r = text_levels(data.frame[name], name)
    return tuple(
        None
        if k == data.reference
        else frozenset(levels[at] for at in np.unique(code_r[data.source == k]))
        for k in range(data.n_sources)
    )


@dataclass(frozen=True, eq=False)
class FittedBox(Factor):
    """The box [lower, upper] of every source in numeric features, and its levels of the others."""

    names: tuple[str, ...]
    numeric: tuple[str, ...]
    lower: Floats
    upper: Floats
    levels: dict[str, tuple[frozenset[str] | None, ...]] = field(repr=False)
    quantile: float = 0.0
    notes: tuple[str, ...] = ()
    seen: dict[str, frozenset[str]] = field(repr=False, default_factory=dict)

    @property
    def is_smooth(self) -> bool:
        return self.quantile == 0.0

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        check_columns(frame, [*self.numeric, *self.levels])
        inside_nk = np.ones((len(frame), len(self.names)), dtype=np.bool_)
        for d, name in enumerate(self.numeric):
            value_n = read_numbers(frame[name], name)[:, None]
            inside_nk &= (value_n >= self.lower[:, d]) & (value_n <= self.upper[:, d])
        for name, own_k in self.levels.items():
            levels, code_n = text_levels(frame[name], name)
            check_present(levels, code_n, name)
            self._warn_if_unseen(name, levels)
            has_lk = np.array(
                [[own is None or level in own for own in own_k] for level in levels], dtype=np.bool_
            )
            inside_nk &= has_lk.reshape(-1, len(self.names))[code_n]
        return np.where(inside_nk, 0.0, -np.inf)

    def widened(self, frame: pd.DataFrame, source_n: Ints) -> FittedBox:
        """Return the smallest boxes that also hold these images of the K sources: min–max."""
        check_columns(frame, [*self.numeric, *self.levels])
        lower_kd, upper_kd = self.lower.copy(), self.upper.copy()
        for d, name in enumerate(self.numeric):
            value_n = read_numbers(frame[name], name)
            np.minimum.at(lower_kd[:, d], source_n, value_n)
            np.maximum.at(upper_kd[:, d], source_n, value_n)
        own, seen = dict(self.levels), dict(self.seen)
        for name, own_k in self.levels.items():
            levels, code_n = text_levels(frame[name], name)
            check_present(levels, code_n, name)
            seen[name] |= set(levels)
            own_new = [
                frozenset(levels[at] for at in np.unique(code_n[source_n == k]))
                for k in range(len(own_k))
            ]
            own[name] = tuple(
                None if old is None else old | new for old, new in zip(own_k, own_new, strict=True)
            )
        return replace(self, lower=lower_kd, upper=upper_kd, levels=own, seen=seen)

    def joined(self, other: FittedBox) -> FittedBox:
        """Return the smallest boxes that hold those of both."""
        return replace(
            self,
            lower=np.minimum(self.lower, other.lower),
            upper=np.maximum(self.upper, other.upper),
            levels={
                name: tuple(
                    None if one is None or two is None else one | two
                    for one, two in zip(own_k, other.levels[name], strict=True)
                )
                for name, own_k in self.levels.items()
            },
            seen={name: own | other.seen[name] for name, own in self.seen.items()},
        )

    def _warn_if_unseen(self, name: str, levels: Sequence[str]) -> None:
        seen = sorted(self.seen[name])
        unseen = [level for level in levels if level not in seen]
        if unseen:
            warn_caller(
                f"{name} has levels that no image had in the fit: {first_few(unseen)}. They are in "
                f"no box, so omega is 0; the boxes know {first_few(seen, 12)}."
                f"{did_you_mean(unseen[0], seen)}"
            )

    def describe(self) -> Description:
        rule = "min–max"
        if self.quantile != 0:
            rule = f"{self.quantile:g} to {1 - self.quantile:g} quantile"
        names = ", ".join([*self.numeric, *self.levels])
        boxes = {
            name: {
                feature: [float(self.lower[k, d]), float(self.upper[k, d])]
                for d, feature in enumerate(self.numeric)
            }
            for k, name in enumerate(self.names)
        }
        return Description(
            "Box",
            (f"a source selects all images alike within its box of {names}, and none outside",),
            (f"the boxes, by the {rule} rule on each source's own images",),
            "assumed: 1 within the union of the boxes",
            "the part of the population within the union of the boxes",
            boxes,
            self.notes,
        )
