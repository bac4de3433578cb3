"""Biasing functions of sources that draw fairly, each from a part of the population only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.known import entry_text, name_sources, order_by_source, read_function
from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.files.user_code import names_function
from unskew.records import Floats
from unskew.records.target import THE_TARGET

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Subpopulation(Bias):
    """ω_k = 1 on the images that a query selects, 0 elsewhere.

    Source k draws fairly, but from a part of the population only.

    Parameters
    ----------
    queries : ``{source: query}``, a query in the language of ``pandas.DataFrame.query`` ("hour < 6
        or hour > 20"), a function of the table that returns True or False for each row, or "all".
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
    queries: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.queries, Mapping):
            raise ConfigError(
                "queries is a table {source: query}, such as {'night': 'hour > 20', 'any': 'all'}; "
                f"got {self.queries!r}.",
                option="queries",
                value=repr(self.queries),
            )
        object.__setattr__(self, "queries", name_sources(self.queries, "queries"))

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
            _check_queried(frame, query, what)
            selected = _evaluated(frame, query, what)
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


def _check_queried(frame: pd.DataFrame, query: str, what: str) -> None:
    """Refuse a query over missing values that does not say what they are.

    A comparison with one is False, as if the source could not select the image: nobody knows that.
    """
    words = set(re.findall(r"`([^`]+)`", query)) | set(re.findall(r"\w+", query))
    if words & {"isna", "isnull", "notna", "notnull"}:
        return
    for name in frame.columns:
        missing = np.flatnonzero(frame[name].isna()) if name in words else np.empty(0)
        if missing.size:
            raise DataError(
                f"{name} is missing for {missing.size} of {len(frame)} images, the first in row "
                f"{missing[0]}, and {what}, {query!r}, does not say whether it selects them. Leave "
                f"those images out, fill the values in, or write '{name}.notna() and ({query})'.",
                column=name,
                count=int(missing.size),
                row=int(missing[0]),
            )


def _evaluated(frame: pd.DataFrame, query: str, what: str) -> Any:
    if "@" in query or "__" in query:
        raise wrong_option(
            f"{what} may use columns, numbers, texts and comparisons only, not '@' or '__'",
            queries=query,
        )
    try:
        return frame.eval(query, engine="python")
    except Exception as error:  # pandas raises whatever the expression raises
        raise ConfigError(
            f"{what} cannot be evaluated: {query!r} ({type(error).__name__}: {error}). "
            f"The columns are {first_few(list(frame.columns), 12)}.",
            option="queries",
            value=query,
        ) from error
