"""Columns of a table -> numbers: numeric features standardised, categorical ones as indicators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import (
    ConfigError,
    DataError,
    complex_columns,
    did_you_mean,
    first_few,
    warn_caller,
    wrong_option,
)
from unskew.records import Floats, Ints
from unskew.records.levels import MISSING, level_text, text_levels

if TYPE_CHECKING:
    import pandas as pd


# A categorical feature with no more levels than this is not questioned.
FEW_LEVELS = 20
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Of a column scaled to standard deviation 1, what the columns before it leave unexplained: rounding
# is no information.
_REPEATED = 1e-8
_COMBINED = 1e-11
_ENOUGH_TO_ACQUIT = 1000


@dataclass(frozen=True)
class FeatureColumn:
    """One column as the model reads it: (x − centre)/scale, or indicators of all levels but one."""

    name: str
    centre: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] = ()

    @property
    def is_numeric(self) -> bool:
        return not self.levels

    def read(self, frame: pd.DataFrame) -> Floats:
        """(n, number of columns it becomes)."""
        check_columns(frame, [self.name])
        column = frame[self.name]
        if self.is_numeric:
            return (read_numbers(column, self.name)[:, None] - self.centre) / self.scale
        code_n = read_levels(column, self.name, self.levels)
        return np.asarray(code_n[:, None] == np.arange(1, len(self.levels)), dtype=np.float64)

    @property
    def labels(self) -> list[str]:
        if self.is_numeric:
            return [self.name]
        return [f"{self.name} = {level}" for level in self.levels[1:]]


@dataclass(frozen=True)
class FeatureMap:
    """φ(z): the columns and, with ``degree`` 2, squares and products of the numeric ones."""

    columns: tuple[FeatureColumn, ...]
    degree: int = 1
    kept: tuple[int, ...] | None = field(default=None, repr=False)

    def read(self, frame: pd.DataFrame) -> Floats:
        """(n, D) φ(z_i)."""
        every_nd = self._read_all(frame)
        return every_nd if self.kept is None else np.ascontiguousarray(every_nd[:, list(self.kept)])

    def _read_all(self, frame: pd.DataFrame) -> Floats:
        blocks = [column.read(frame) for column in self.columns]
        if self.degree == 2 and any(column.is_numeric for column in self.columns):
            number_nd = np.column_stack(
                [
                    block[:, 0]
                    for block, column in zip(blocks, self.columns, strict=True)
                    if column.is_numeric
                ]
            )
            first, second = np.triu_indices(number_nd.shape[1])
            blocks.append(number_nd[:, first] * number_nd[:, second])
        return np.column_stack(blocks)

    @property
    def names_text(self) -> str:
        """What is read, for a sentence."""
        return ", ".join(column.name for column in self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each of the D numbers is."""
        every = [label for column in self.columns for label in column.labels]
        if self.degree == 2:
            number = [column.name for column in self.columns if column.is_numeric]
            every += [
                f"{number[a]} × {number[b]}"
                for a, b in zip(*np.triu_indices(len(number)), strict=True)
            ]
        return tuple(every) if self.kept is None else tuple(every[at] for at in self.kept)


def read_feature_columns(features: Any) -> Any:
    """Read the names of features as a tuple; a single text is left for `expand_features`."""
    if isinstance(features, str):
        return features
    names = tuple(features) if isinstance(features, Iterable) else (features,)
    if not all(isinstance(name, str) for name in names):
        raise wrong_option(
            "features is a list of column names, such as ['brightness']", features=features
        )
    return names


def flagged(note: str, way_out: str = "") -> tuple[str, ...]:
    """Warn of something, and return it as a note."""
    warn_caller(f"{note}.{way_out}")
    return (note,)


def check_columns(
    frame: pd.DataFrame, names: Sequence[str], reader: str = "the bias model"
) -> None:
    """Refuse a table that lacks columns; ``reader`` is who reads them."""
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise DataError(
            f"the table lacks {first_few(lacking)}, which {reader} reads; its columns are "
            f"{first_few(list(frame.columns), 12)}.{did_you_mean(lacking[0], frame.columns)}",
            columns=lacking,
        )


def expand_features(
    frame: pd.DataFrame, features: Sequence[str], reader: str = "the bias model"
) -> list[str]:
    """Return column names, a beginning replaced by its columns (border_hsv → border_hsv_h …)."""
    if isinstance(features, str):
        raise ConfigError(
            f"features is a list of column names; got the text {features!r}. Write [{features!r}].",
            option="features",
            value=features,
        )
    if not len(features):
        raise ConfigError(
            "features is empty: name at least one column that the selection may depend on.",
            option="features",
            value=[],
        )
    names: list[str] = []
    for feature in features:
        columns = (
            [feature]
            if feature in frame.columns
            else [str(name) for name in frame.columns if str(name).startswith(f"{feature}_")]
        )
        if not columns:
            check_columns(frame, [feature], reader)
        names += columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"features names {first_few(twice)} more than once.", option="features", columns=twice
        )
    return names


def read_numbers(column: pd.Series[Any], name: str) -> Floats:
    """(n,) finite floats; an error counts those that are not."""
    if column.dtype.kind == "c":
        raise complex_columns([name])
    value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.flatnonzero(np.isnan(value_n))
    if missing.size:
        raise DataError(
            f"{name} is missing for {missing.size} of {value_n.size} images, the first in row "
            f"{missing[0]}. Leave those images out, fill "
            "the values in, or turn the feature into a category with a level of its own for them.",
            column=name,
            count=int(missing.size),
            row=int(missing[0]),
        )
    n_infinite = int((~np.isfinite(value_n)).sum())
    if n_infinite:
        raise DataError(
            f"{name} is infinite for {n_infinite} of {value_n.size} images; numbers must be "
            "finite.",
            column=name,
            count=n_infinite,
        )
    return value_n


@checked
def read_feature_column(frame: pd.DataFrame, name: str) -> Floats:
    """(n,) finite floats of a column that must exist; for bias models of your own."""
    check_columns(frame, [name])
    return read_numbers(frame[name], name)


def check_present(levels: Sequence[str], code_n: Ints, name: str) -> None:
    """Refuse a missing value among the levels of a column."""
    if MISSING in levels:
        missing = np.flatnonzero(code_n == levels.index(MISSING))
        raise DataError(
            f"{name} is missing for {missing.size} of {code_n.size} images, the first in row "
            f"{missing[0]}. Leave those images out, or fill in a level of its own "
            f"(frame[{name!r}].fillna('unknown')).",
            column=name,
            count=int(missing.size),
            row=int(missing[0]),
        )


def read_levels(column: pd.Series[Any], name: str, levels: Sequence[str]) -> Ints:
    """(n,) index of every row's level among ``levels``, those that the model was fitted on."""
    present, code_n = text_levels(column, name)
    check_present(present, code_n, name)
    unseen = [level for level in present if level not in levels]
    if unseen:
        count = np.bincount(code_n, minlength=len(present))
        shown = [f"{level} ({count[present.index(level)]} images)" for level in unseen]
        raise DataError(
            f"{name} has levels that the bias model was not fitted on: {first_few(shown)}; it "
            f"knows {first_few(list(levels), 12)}.{did_you_mean(unseen[0], levels)} Leave those "
            "images out, or fit on a pool that has them.",
            column=name,
            levels=unseen,
        )
    index = np.array([levels.index(level) for level in present], dtype=np.int64)
    return np.asarray(index[code_n], dtype=np.int64)


def is_numeric(column: pd.Series[Any]) -> bool:
    """Tell whether a column holds numbers: Python objects may, truth values are levels."""
    import pandas as pd

    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in (
            "floating",
            "integer",
            "mixed-integer-float",
            "decimal",
        )
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def learn_column(frame: pd.DataFrame, name: str) -> FeatureColumn:
    """Learn centre and scale of a numeric column, or the levels of a categorical one."""
    column = frame[name]
    if is_numeric(column):
        value_n = read_numbers(column, name)
        scale = float(value_n.std())
        return FeatureColumn(name, float(value_n.mean()), scale if scale > 0 else 1.0)
    levels, code_n = text_levels(column, name)
    check_present(levels, code_n, name)
    _check_levels(levels, len(column), name)
    return FeatureColumn(name, levels=tuple(sorted(levels, key=level_text)))


def _check_levels(levels: Sequence[str], n: int, name: str) -> None:
    """Refuse many levels: they are numbers as text, dates, or names of the images themselves."""
    if len(levels) <= FEW_LEVELS:
        return
    if all(_NUMBER.fullmatch(level.strip()) for level in levels):
        raise DataError(
            f"{name} holds numbers as text ({first_few(levels)}), each of which would be a level "
            f"of its own. Convert it: frame[{name!r}] = pandas.to_numeric(frame[{name!r}]).",
            column=name,
            count=len(levels),
            limit=FEW_LEVELS,
        )
    if len(levels) > n / 4:
        raise DataError(
            f"{name} has {len(levels)} levels for {n} images ({first_few(levels)}), so it names "
            "images rather than describes them. Leave it out, merge levels, or turn it into a "
            "number (a date into days).",
            column=name,
            count=len(levels),
        )


def constant_features(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Find the columns with one value for all images, up to rounding."""
    constant = []
    for name in names:
        if is_numeric(frame[name]):
            value_n = read_numbers(frame[name], name)
            is_constant = np.ptp(value_n) <= _REPEATED * np.abs(value_n).max()
        else:
            is_constant = len(text_levels(frame[name], name)[0]) == 1
        if is_constant:
            constant.append(name)
    return constant


def learn_features(
    frame: pd.DataFrame, features: Sequence[str], degree: int = 1
) -> tuple[FeatureMap, tuple[str, ...]]:
    """Learn φ without columns that repeat the others, and say what was left out.

    A column that is constant, or a linear combination of those before it and a constant, adds
    nothing to them: it is left out with a warning, found by a QR decomposition.
    """
    names = expand_features(frame, features)
    if degree not in (1, 2):
        raise wrong_option(
            "degree is 1 (the features) or 2 (their squares and products, too)",
            degree=degree,
            allowed=[1, 2],
        )
    columns = tuple(learn_column(frame, name) for name in names)
    # Categories have no squares.
    every = FeatureMap(columns, degree if any(column.is_numeric for column in columns) else 1)
    # A category with one level becomes no column at all.
    constant = [column.name for column in columns if not column.labels]
    kept, useless = _independent_columns(every.read(frame))
    if not useless and not constant:
        return every, ()
    note = (
        f"{first_few(constant + [every.labels[at] for at in useless])}: constant, or a combination "
        "of the other features; left out of the bias model"
    )
    if not kept:
        raise DataError(
            f"every feature of the bias model is constant: {first_few(names)}. It cannot tell the "
            "sources apart; name others.",
            columns=names,
        )
    return FeatureMap(every.columns, every.degree, tuple(kept)), flagged(note)


def combined_columns(feature_nd: Floats) -> list[int]:
    """Find columns that vary, but are linear combinations of those before them and a constant."""
    # Some of the images may suffice to rule combinations out; all are read only where they do not.
    stride = len(feature_nd) // _ENOUGH_TO_ACQUIT
    if stride > 1 and not combined_columns(feature_nd[::stride]):
        return []
    centred_nd = feature_nd - feature_nd.mean(axis=0)
    product_dd = centred_nd.T @ centred_nd
    size_d = np.sqrt(np.diagonal(product_dd))
    largest_d = np.abs(feature_nd).max(axis=0, initial=0.0) * np.sqrt(max(len(feature_nd), 1))
    kept: list[int] = []
    combined: list[int] = []
    for d in np.flatnonzero(size_d > _REPEATED * largest_d).tolist():
        correlation_ee = product_dd[np.ix_(kept, kept)] / np.outer(size_d[kept], size_d[kept])
        correlation_e = product_dd[kept, d] / (size_d[kept] * size_d[d])
        # Squares of rounding: what is left of variance 1.
        left = 1.0
        if kept:
            left = 1.0 - float(correlation_e @ np.linalg.solve(correlation_ee, correlation_e))
        (kept if left > _COMBINED else combined).append(d)
    return combined


def _independent_columns(phi_nd: Floats) -> tuple[list[int], list[int]]:
    """(columns that are independent of those before them and of a constant, the others)."""
    phi_dn = np.ascontiguousarray(phi_nd.T)
    centred_dn = phi_dn - phi_dn.mean(axis=1, keepdims=True)
    size_d = np.sqrt(np.mean(np.square(centred_dn), axis=1))
    centred_dn /= np.where(size_d > 0, size_d, 1.0)[:, None]
    r_dd = np.linalg.qr(centred_dn.T, mode="r") / np.sqrt(max(len(phi_nd), 1))
    left_d = np.abs(np.diagonal(r_dd))
    left_d = np.pad(left_d, (0, size_d.size - left_d.size))
    scale_d = np.maximum(np.abs(phi_dn).max(axis=1, initial=0.0), 1e-300)
    is_useful_d = (left_d > _REPEATED) & (size_d > _REPEATED * scale_d)
    return np.flatnonzero(is_useful_d).tolist(), np.flatnonzero(~is_useful_d).tolist()
