"""Biasing functions that are known: given as columns, functions or a matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew.bias.base import Bias, BiasData, Description, Factor, source_names
from unskew.bias.features import check_columns, is_numeric, read_numbers
from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.user_code import import_reference, names_function
from unskew.records import Floats
from unskew.records.levels import find_positions
from unskew.splits.folds import COPY_OF

if TYPE_CHECKING:
    import pandas as pd

# A column's name, a function of the table, or one number for all images.
OmegaEntry = str | Real | Callable[["pd.DataFrame"], Any]


@checked
@dataclass(frozen=True)
class Known(Bias):
    """ω_k(z) as given; c(z) is thereby given, too.

    Parameters
    ----------
    omega : ``{source: column | function | number}``, a function being called with the table and
        returning one number for each row; or one function that returns (n, K) for all sources at
        once; or the matrix itself, (n, K) for exactly the images of the pool (a DataFrame with the
        ids as index, or as the column id, and the sources as columns is joined by id). A text with
        a colon names a function, ``module:function``.
    log : the numbers are log ω.

    Examples
    --------
    >>> import pandas as pd, unskew
    >>> frame = pd.DataFrame({"source": ["day"] * 2 + ["all"] * 2, "chance": [0.9, 0.5, 0.9, 0.1]})
    >>> fitted = unskew.bias.Known({"day": "chance", "all": 1.0}).fit(unskew.Pool.from_frame(frame))
    >>> fitted.omega(frame).round(12).tolist()
    [[0.9, 1.0], [0.5, 1.0], [0.9, 1.0], [0.1, 1.0]]
    """

    family: ClassVar[str] = "known"
    omega: Mapping[Any, Any] | Callable[..., Any] | str | npt.ArrayLike
    log: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.omega, Mapping):
            object.__setattr__(self, "omega", name_sources(self.omega, "omega"))

    @property
    def columns(self) -> tuple[str, ...]:
        values = self.omega.values() if isinstance(self.omega, Mapping) else ()
        return tuple(
            value for value in values if isinstance(value, str) and not names_function(value)
        )

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        if isinstance(self.omega, Mapping):
            return _KnownColumns(
                data.names,
                order_by_source(self.omega, data, "omega", None if data.sample is None else 1.0),
                self.log,
            )
        if callable(self.omega) or isinstance(self.omega, str):
            return _KnownFunction(data.names, data.sample, read_function(self.omega), self.log)
        if isinstance(start, _KnownMatrix) and COPY_OF in data.frame.columns:
            return start
        return _KnownMatrix(data.names, *_matrix_by_id(self.omega, data), self.log)


def name_sources(entries: Mapping[Any, Any], what: str) -> dict[str, Any]:
    """Write the sources of ``entries`` as text."""
    return dict(zip(source_names(entries, what), entries.values(), strict=True))


def order_by_source(
    entries: Mapping[str, Any], data: BiasData, what: str, of_sample: Any
) -> tuple[Any, ...]:
    """List one entry for each source, in the order of the names; the target's sample has ω ≡ 1."""
    own = data.names if data.sample is None else data.names[:-1]
    unknown = [name for name in entries if name not in own]
    lacking = [name for name in own if name not in entries]
    if unknown or lacking:
        problem = (
            f"names {first_few(unknown)}, which is no source"
            if unknown
            else f"has no entry for {first_few(lacking)}"
        )
        hint = " Give 1.0 (or 'all') for a source that selects without bias."
        if unknown:
            hint = did_you_mean(unknown[0], own)
        raise ConfigError(
            f"{what} {problem}; the sources are {first_few(own, 12)}.{hint}",
            option=what,
            sources=unknown or lacking,
        )
    return (*(entries[name] for name in own), *(() if data.sample is None else (of_sample,)))


def read_function(function: Any) -> Callable[..., Any]:
    """Return a function, or import the one that ``module:function`` names."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    return import_reference(function)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class _KnownColumns(Factor):
    names: tuple[str, ...]
    entries: tuple[OmegaEntry, ...]
    log: bool

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        return np.column_stack(
            [
                self._one(frame, name, entry)
                for name, entry in zip(self.names, self.entries, strict=True)
            ]
        )

    def _one(self, frame: pd.DataFrame, name: str, entry: OmegaEntry) -> Floats:
        if isinstance(entry, str) and (entry in frame.columns or not names_function(entry)):
            value_n = _column(frame, entry, name)
        elif isinstance(entry, Real):
            value_n = np.full(len(frame), float(entry))
        else:
            value_n = _called(
                _function(entry, name), frame, (len(frame),), f"the omega of source `{name}`"
            )
        return _logarithm(value_n, self.log, f"the omega of source `{name}`")

    def describe(self) -> Description:
        return _describe_known(
            {name: entry_text(entry) for name, entry in zip(self.names, self.entries, strict=True)}
        )


@dataclass(frozen=True, eq=False)
class _KnownFunction(Factor):
    names: tuple[str, ...]
    sample: int | None
    function: Callable[..., Any]
    log: bool

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        n_sources = len(self.names) - (self.sample is not None)
        value_nk = _called(self.function, frame, (len(frame), n_sources), "omega")
        log_nk = _logarithm(value_nk, self.log, "omega")
        return log_nk if self.sample is None else np.column_stack([log_nk, np.zeros(len(frame))])

    def describe(self) -> Description:
        return _describe_known({"all sources": entry_text(self.function)})


@dataclass(frozen=True, eq=False)
class _KnownMatrix(Factor):
    names: tuple[str, ...]
    ids: pd.Index = field(repr=False)
    matrix: Floats = field(repr=False)
    log: bool

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        check_columns(frame, ["id"])
        import pandas as pd

        wanted = pd.Index(frame[COPY_OF if COPY_OF in frame.columns else "id"])
        row = self.ids.get_indexer(wanted)
        unknown = wanted[row < 0].tolist()
        if unknown or self.matrix.shape[1] < len(self.names):
            others = first_few(unknown) if unknown else "those of the sample"
            raise DataError(
                "omega was given as a matrix for the images of the pool, so it says nothing about "
                f"other images, such as {others}. To evaluate others give omega as functions or "
                "columns.",
                ids=unknown,
            )
        return _logarithm(self.matrix[row], self.log, "omega")

    def describe(self) -> Description:
        return _describe_known({"all sources": "a matrix"})


def _column(frame: pd.DataFrame, column: str, source: str) -> Floats:
    """Read the column that holds the omega of a source; refuse a formula or a column of texts."""
    if column not in frame.columns and not column.isidentifier():
        raise ConfigError(
            f"the omega of source `{source}` is {column!r}, which is no column: a text names a "
            "column or a function (module:function). Give a formula as a function of the table, "
            f"such as lambda table: {_formula(frame, column)}, or compute the column first; the "
            f"columns are {first_few(list(frame.columns), 12)}.",
            option="omega",
            source=source,
            column=column,
        )
    check_columns(frame, [column])
    if not (is_numeric(frame[column]) or frame[column].dtype == np.bool_):
        raise DataError(
            f"the omega of source `{source}` is the column {column!r}, whose values are no numbers "
            f"({first_few(frame[column].unique().tolist())}). It holds how likely the source is to "
            "select each image, up to a constant.",
            source=source,
            column=column,
        )
    return read_numbers(frame[column], column)


def _formula(frame: pd.DataFrame, text: str) -> str:
    """Write the formula with its columns taken from the table."""
    return re.sub(
        r"\w+", lambda word: f"table.{word[0]}" if word[0] in frame.columns else word[0], text
    )


def _function(entry: Any, source: str) -> Callable[..., Any]:
    if callable(entry) or isinstance(entry, str):
        return read_function(entry)
    raise ConfigError(
        f"the omega of source `{source}` is the name of a column, a function of the table, or one "
        f"number; got {type(entry).__name__}. Numbers for each image go into a column of the pool, "
        "or all sources' into a matrix: Known(matrix).",
        option="omega",
        source=source,
        value=type(entry).__name__,
    )


def _called(
    function: Callable[..., Any], frame: pd.DataFrame, shape: tuple[int, ...], what: str
) -> Floats:
    value = np.asarray(function(frame), dtype=np.float64)
    if value.shape != shape:
        raise DataError(
            f"{what} was given as the function {entry_text(function)}, which must return shape "
            f"{shape}; it returned {value.shape}.",
            option="omega",
            value=list(value.shape),
            allowed=list(shape),
        )
    return value


def _logarithm(value: Floats, is_log: bool, what: str) -> Floats:
    bad = np.isnan(value) | np.isposinf(value) | ((value < 0) & (not is_log))
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        rule = "a number or -inf" if is_log else "finite and not negative"
        raise DataError(
            f"{what} must be {rule}; row {row} has {float(value[bad][0])!r}. Were logarithms "
            "passed without log=True?",
            row=row,
            value=float(value[bad][0]),
        )
    with np.errstate(divide="ignore"):
        return value if is_log else np.log(value)


def _matrix_by_id(omega: Any, data: BiasData) -> tuple[pd.Index, Floats]:
    """(ids of the rows, (n, K)).

    A DataFrame is read by its index and columns, an array in the order of the pool.
    """
    import pandas as pd

    own = data.names if data.sample is None else data.names[:-1]
    ids = pd.Index(data.image_id)
    if hasattr(omega, "columns") and hasattr(omega, "index"):
        return _frame_by_id(omega, ids, own)
    matrix = np.asarray(omega.toarray() if hasattr(omega, "toarray") else omega, dtype=np.float64)
    if matrix.shape != (len(ids), len(own)):
        raise DataError(
            f"the matrix omega needs a row for each of {len(ids)} images and a column for each of "
            f"{len(own)} sources; got shape {matrix.shape}.",
            option="omega",
            value=list(matrix.shape),
            allowed=[len(ids), len(own)],
        )
    return ids, matrix


def _frame_by_id(
    omega: pd.DataFrame, ids: pd.Index, names: Sequence[str]
) -> tuple[pd.Index, Floats]:
    """(ids of the rows, (n, K)) of a DataFrame that has the ids as index and sources as columns."""
    if "id" in omega.columns and "id" not in names:
        omega = omega.set_index("id")
    omega = omega.set_axis(source_names(omega.columns, "the matrix omega"), axis="columns")
    lacking = [name for name in names if name not in omega.columns]
    if lacking:
        raise ConfigError(
            f"the matrix omega has no column for {first_few(lacking)}; its columns are "
            f"{first_few(list(omega.columns), 12)}.",
            option="omega",
            sources=lacking,
        )
    find_positions(ids.tolist(), omega.index.tolist(), of="the pool", among="the matrix omega")
    return omega.index, omega[list(names)].to_numpy(dtype=np.float64)


def entry_text(entry: Any) -> str:
    """Name a function, or write any other entry as text."""
    return getattr(entry, "__qualname__", None) or str(entry)


def _describe_known(parameters: Mapping[str, str]) -> Description:
    assumed = "the biasing functions are known, up to one factor for each source"
    return Description(
        "Known", (assumed,), (), "given with the biasing functions", parameters=parameters
    )
