"""Biasing functions of sources that draw fairly, each from a part of the population only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.known import entry_text, name_sources, order_by_source, read_function
from unskew.bias.queries import TableQuery, parse_query
from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, short_name
from unskew.files.user_code import names_function
from unskew.records import Floats
from unskew.records.target import THE_TARGET

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Subpopulation(Bias):
    """ω_k = 1 on the images that a query selects, 0 elsewhere.

    Source k draws fairly, but from a part of the population only.

    Parameters
    ----------
    queries : ``{source: query}``, a query as in ``pandas.DataFrame.query`` ("hour < 6 or hour >
        20"), a function of the table that returns True or False for each row, or "all". A query
        has columns (those with odd names in backticks), numbers, texts, comparisons, ``in`` a list,
        ``and``, ``or``, ``not``, arithmetic, and the methods isin, between, isna, notna, abs,
        str.contains, str.startswith, str.endswith, str.lower, str.upper, str.strip and str.len.
        Where a column that a query names is missing, the query must say what that means
        ("hour.notna() and hour > 20"): a comparison would silently be False.

    Examples
    --------
    >>> import pandas as pd, unskew
    >>> frame = pd.DataFrame({"source": ["night", "any", "any"], "hour": [23, 22, 12]})
    >>> model = unskew.bias.Subpopulation({"night": "hour > 20", "any": "all"})
    >>> model.fit(unskew.Pool.from_frame(frame)).omega(frame).tolist()
    [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]
    """

    family: ClassVar[str] = "subpopulation"
    queries: Mapping[Any, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", name_sources(self.queries, "queries"))
        for name, query in self.queries.items():
            if isinstance(query, str) and query != "all" and not names_function(query):
                _parsed(query, name)

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        return _Queries(
            data.names,
            order_by_source(self.queries, data, "queries", None if data.sample is None else "all"),
        )


@dataclass(frozen=True, eq=False)
class _Queries(Factor):
    names: tuple[str, ...]
    queries: tuple[Any, ...]

    def log_omega(self, frame: pd.DataFrame) -> Floats:
        inside = [
            self._one(frame, name, query)
            for name, query in zip(self.names, self.queries, strict=True)
        ]
        with np.errstate(divide="ignore"):
            return np.log(np.column_stack(inside).astype(np.float64))

    def _one(self, frame: pd.DataFrame, name: str, query: Any) -> Any:
        if isinstance(query, str) and query == "all":
            return np.ones(len(frame), dtype=np.bool_)
        what = f"the query of source `{name}`"
        if isinstance(query, str) and not names_function(query):
            parsed = _parsed(query, name)
            _check_queried(frame, parsed, what)
            selected = _evaluated(frame, parsed, name)
        else:
            selected = read_function(query)(frame)
        mask_n = np.asarray(selected)
        if mask_n.shape != (len(frame),) or mask_n.dtype.kind != "b":
            raise DataError(
                f"{what} must give True or False for each of {len(frame)} rows; got {mask_n.dtype} "
                f"of shape {mask_n.shape}.",
                source=name,
                value=list(mask_n.shape),
            )
        return mask_n

    def describe(self) -> Description:
        shown = {
            name: entry_text(query) for name, query in zip(self.names, self.queries, strict=True)
        }
        assumed = "each source draws fairly within its own part of the population, and nowhere else"
        anchor = "given: within its part every source selects all images alike"
        # A source that draws from all of it leaves nothing out.
        is_whole = any(isinstance(query, str) and query == "all" for query in self.queries)
        population = THE_TARGET if is_whole else "the parts of the population together"
        return Description("Subpopulation", (assumed,), (), anchor, population, shown)


def _parsed(query: str, source: str) -> TableQuery:
    try:
        return parse_query(query)
    except ConfigError as error:
        raise _wrong_query(query, source, error) from None


def _wrong_query(query: str, source: str, error: Exception) -> ConfigError:
    kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
    return ConfigError(
        f"the query of source `{source}` cannot be used, {short_name(query, 200)!r}: {kind}{error}",
        option="queries",
        source=source,
        value=query,
    )


def _check_queried(frame: pd.DataFrame, query: TableQuery, what: str) -> None:
    """Refuse a query over missing values that does not say what they are.

    A comparison with one is False, as if the source could not select the image: nobody knows that.
    """
    if query.asks_for_missing:
        return
    for name in frame.columns:
        missing = np.flatnonzero(frame[name].isna()) if name in query.columns else np.empty(0)
        if missing.size:
            raise DataError(
                f"{name} is missing for {missing.size} of {len(frame)} images, the first in row "
                f"{missing[0]}, and {what}, {query.text!r}, does not say whether it selects them. "
                "Leave those images out, fill the values in, or write "
                f"'{name}.notna() and ({query.text})'.",
                column=name,
                count=int(missing.size),
                row=int(missing[0]),
            )


def _evaluated(frame: pd.DataFrame, query: TableQuery, source: str) -> Any:
    try:
        return query.select(frame)
    except Exception as error:  # pandas raises whatever a comparison raises
        raise _wrong_query(query.text, source, error) from error
