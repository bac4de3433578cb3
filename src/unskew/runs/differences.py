"""Claimed and recomputed values and tables, compared; every difference is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import first_few
from unskew.records.levels import level_text
from unskew.weigh.weights_table import is_list

if TYPE_CHECKING:
    import pandas as pd

# Weights are recomputed to this relative difference.
WEIGHT_TOLERANCE = 1e-9
# Numbers of a report: relative, and for what is 0 but for rounding (a gradient, say) absolute.
# Threads may sum in another order.
RELATIVE, ABSOLUTE = 1e-8, 1e-12
# Differences named in a sentence, and characters of a text shown.
_SHOWN = 5
_LONGEST = 60


@dataclass(frozen=True)
class Check:
    """One claim, checked.

    Attributes
    ----------
    claim : what is claimed.
    found : what recomputing it gave, as a sentence.
    ok : whether it holds.
    worst : the largest relative difference between numbers, those within the tolerance included;
        None where there are no numbers.
    differences : every difference, as "where: claimed …, found …".
    """

    claim: str
    found: str
    ok: bool
    worst: float | None = None
    differences: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; an infinite difference (a number where none was) is None."""
        plain = asdict(self) | {"differences": list(self.differences)}
        return plain | {
            "worst": self.worst if self.worst is None or np.isfinite(self.worst) else None
        }


def compare_values(
    claim: str,
    claimed: Any,
    computed: Any,
    *,
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> Check:
    """Compare plain values: mappings, lists, numbers and texts, nested as they are."""
    comparison = _Comparison(relative, absolute)
    comparison.compare("", claimed, computed)
    return comparison.check(claim)


def compare_tables(
    claim: str,
    claimed: pd.DataFrame,
    computed: pd.DataFrame,
    *,
    key: str = "id",
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> Check:
    """Compare two tables row by row, joined by ``key``, in whatever order rows and columns are."""
    comparison = _Comparison(relative, absolute)
    comparison.compare_rows(claimed, computed, key)
    return comparison.check(claim)


class _Comparison:
    """Two values walked through side by side: what differs, and by how much numbers do."""

    def __init__(self, relative: float, absolute: float) -> None:
        self.relative, self.absolute = relative, absolute
        self.differences: list[str] = []
        self.worst: float | None = None
        self.count = 0

    def check(self, claim: str) -> Check:
        if self.differences:
            number = f"{len(self.differences)} differ" if len(self.differences) > 1 else "differs"
            return Check(
                claim,
                f"{number}: {first_few(self.differences, _SHOWN)}",
                False,
                self.worst,
                tuple(self.differences),
            )
        worst = "" if not self.worst else f", numbers to {self.worst:.1e}"
        return Check(claim, f"{self.count:,} values agree{worst}", True, self.worst)

    def compare(self, where: str, claimed: Any, computed: Any) -> None:
        if isinstance(claimed, Mapping) and isinstance(computed, Mapping):
            for name in dict.fromkeys([*claimed, *computed]):
                self._compare_entry(
                    f"{where}.{name}" if where else str(name), claimed, computed, name
                )
        elif isinstance(claimed, list | tuple) and isinstance(computed, list | tuple):
            if len(claimed) != len(computed):
                self._differ(where, f"{len(claimed)} entries", f"{len(computed)} entries")
            for at, (one, other) in enumerate(zip(claimed, computed, strict=False)):
                self.compare(f"{where}[{at}]", one, other)
        else:
            self._compare_leaf(where, claimed, computed)

    def _compare_entry(
        self, where: str, claimed: Mapping[Any, Any], computed: Mapping[Any, Any], name: Any
    ) -> None:
        if name not in claimed or name not in computed:
            self._differ(
                where,
                *(
                    _shown(values[name]) if name in values else "nothing"
                    for values in (claimed, computed)
                ),
            )
        else:
            self.compare(where, claimed[name], computed[name])

    def _compare_leaf(self, where: str, claimed: Any, computed: Any) -> None:
        self.count += 1
        numbers = [
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in (claimed, computed)
        ]
        if not all(numbers):
            if type(claimed) is not type(computed) or claimed != computed:
                self._differ(where, _shown(claimed), _shown(computed))
            return
        gap = abs(claimed - computed)
        largest = max(abs(claimed), abs(computed))
        within = (
            claimed == computed
            if isinstance(claimed, int) and isinstance(computed, int)
            else gap <= max(self.relative * largest, self.absolute)
        )
        if gap > self.absolute or not within:
            self._note_worst(gap / largest)
        if not within:
            self._differ(where, repr(claimed), repr(computed))

    def compare_rows(self, claimed: pd.DataFrame, computed: pd.DataFrame, key: str) -> None:
        for name in dict.fromkeys([*claimed.columns, *computed.columns]):
            if name not in claimed.columns or name not in computed.columns:
                self._differ(
                    f"column {name}",
                    *(
                        "there" if name in table.columns else "not there"
                        for table in (claimed, computed)
                    ),
                )
        position = {value: at for at, value in enumerate(computed[key].tolist())}
        own = claimed[key].tolist()
        lacking = [value for value in own if value not in position]
        extra = set(position) - set(own)
        if lacking:
            self._differ(f"{len(lacking)} images", "there", f"not there ({first_few(lacking)})")
        if extra:
            self._differ(
                f"{len(extra)} images", "not there", f"there ({first_few(sorted(map(str, extra)))})"
            )
        both = np.array([at for at, value in enumerate(own) if value in position], dtype=np.int64)
        other = np.array([position[own[at]] for at in both], dtype=np.int64)
        for name in claimed.columns:
            if name in computed.columns and name != key and both.size:
                self._compare_column(
                    name,
                    [own[at] for at in both],
                    claimed[name].iloc[both],
                    computed[name].iloc[other],
                )

    def _compare_column(
        self, name: str, ids: Sequence[Any], claimed: pd.Series[Any], computed: pd.Series[Any]
    ) -> None:
        import pandas as pd

        self.count += len(ids)
        if all(
            pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
            for column in (claimed, computed)
        ):
            wrong = self._numbers_that_differ(
                *(
                    column.to_numpy(dtype=np.float64, na_value=np.nan)
                    for column in (claimed, computed)
                )
            )
        else:
            wrong = np.array(
                [
                    at
                    for at, (one, other) in enumerate(zip(claimed, computed, strict=True))
                    if _text(one) != _text(other)
                ],
                dtype=np.int64,
            )
        for at in wrong[:1000]:
            self._differ(
                f"{name} of {ids[at]}", _shown(claimed.iloc[at]), _shown(computed.iloc[at])
            )

    def _numbers_that_differ(self, claimed: Any, computed: Any) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.abs(claimed - computed)
            largest = np.maximum(np.abs(claimed), np.abs(computed))
            within = (
                (gap <= np.maximum(self.relative * largest, self.absolute))
                | (claimed == computed)
                | (np.isnan(claimed) & np.isnan(computed))
            )
            ratio = gap / largest
        counted = ratio[np.isfinite(ratio) & ((gap > self.absolute) | ~within)]
        if counted.size:
            self._note_worst(float(counted.max()))
        return np.flatnonzero(~within)

    def _note_worst(self, gap: float) -> None:
        self.worst = gap if self.worst is None else max(self.worst, gap)

    def _differ(self, where: str, claimed: str, computed: str) -> None:
        self.differences.append(f"{where or 'value'}: claimed {claimed}, found {computed}")


def _text(value: Any) -> Any:
    return [level_text(entry) for entry in value] if is_list(value) else level_text(value)


def _shown(value: Any) -> str:
    """Return a value as text; of a long one the beginning, enough to find it."""
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def changed_images(claimed: pd.DataFrame, computed: pd.DataFrame) -> Iterator[str]:
    """Name the images that changed, are gone, or are new, by the hash of their content."""
    before, now = (
        dict(zip(frame["id"].tolist(), frame["content"].tolist(), strict=True))
        for frame in (claimed, computed)
    )
    yield from (f"{id} has changed" for id in before if id in now and before[id] != now[id])
    yield from (f"{id} is gone" for id in before if id not in now)
    yield from (f"{id} is new" for id in now if id not in before)
