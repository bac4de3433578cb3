"""What was claimed beside what was found: plain values and tables compared, every difference
named.
"""

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
    found : what was found when it was recomputed, in words.
    ok : does it hold?
    worst : the largest relative difference between numbers, those within the tolerance included;
        None where there are no numbers.
    differences : every difference, as "where: said …, found …".
    """

    claim: str
    found: str
    ok: bool
    worst: float | None = None
    differences: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Values that JSON holds; an infinite difference (a number where none was) is None."""
        plain = asdict(self) | {"differences": list(self.differences)}
        return plain | {
            "worst": self.worst if self.worst is None or np.isfinite(self.worst) else None
        }


def compare_values(
    claim: str, said: Any, found: Any, *, relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> Check:
    """Plain values (mappings, lists, numbers, texts) compared through and through."""
    comparison = _Comparison(relative, absolute)
    comparison.compare("", said, found)
    return comparison.check(claim)


def compare_tables(
    claim: str,
    said: pd.DataFrame,
    found: pd.DataFrame,
    *,
    key: str = "id",
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> Check:
    """Two tables compared row by row, joined by ``key``; the order of rows does not matter, that of
    columns neither.
    """
    comparison = _Comparison(relative, absolute)
    comparison.compare_rows(said, found, key)
    return comparison.check(claim)


class _Comparison:
    """Goes through two values side by side; collects what differs, and the largest relative
    difference of numbers.
    """

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

    def compare(self, place: str, said: Any, found: Any) -> None:
        if isinstance(said, Mapping) and isinstance(found, Mapping):
            for name in dict.fromkeys([*said, *found]):
                self._compare_entry(f"{place}.{name}" if place else str(name), said, found, name)
        elif isinstance(said, list | tuple) and isinstance(found, list | tuple):
            if len(said) != len(found):
                self._differ(place, f"{len(said)} entries", f"{len(found)} entries")
            for at, (one, other) in enumerate(zip(said, found, strict=False)):
                self.compare(f"{place}[{at}]", one, other)
        else:
            self._compare_leaf(place, said, found)

    def _compare_entry(
        self, place: str, said: Mapping[Any, Any], found: Mapping[Any, Any], name: Any
    ) -> None:
        if name not in said or name not in found:
            self._differ(
                place,
                *("nothing" if name not in each else _shown(each[name]) for each in (said, found)),
            )
        else:
            self.compare(place, said[name], found[name])

    def _compare_leaf(self, place: str, said: Any, found: Any) -> None:
        self.count += 1
        numbers = [
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in (said, found)
        ]
        if not all(numbers):
            if type(said) is not type(found) or said != found:
                self._differ(place, _shown(said), _shown(found))
            return
        gap = abs(said - found)
        largest = max(abs(said), abs(found))
        within = (
            said == found
            if isinstance(said, int) and isinstance(found, int)
            else gap <= max(self.relative * largest, self.absolute)
        )
        if gap > self.absolute or not within:
            self._note_worst(gap / largest)
        if not within:
            self._differ(place, repr(said), repr(found))

    def compare_rows(self, said: pd.DataFrame, found: pd.DataFrame, key: str) -> None:
        for name in dict.fromkeys([*said.columns, *found.columns]):
            if name not in said.columns or name not in found.columns:
                self._differ(
                    f"column {name}",
                    *("there" if name in each.columns else "not there" for each in (said, found)),
                )
        place = {value: at for at, value in enumerate(found[key].tolist())}
        own = said[key].tolist()
        lacking = [value for value in own if value not in place]
        extra = set(place) - set(own)
        if lacking:
            self._differ(f"{len(lacking)} images", "there", f"not there ({first_few(lacking)})")
        if extra:
            self._differ(
                f"{len(extra)} images", "not there", f"there ({first_few(sorted(map(str, extra)))})"
            )
        both = np.array([at for at, value in enumerate(own) if value in place], dtype=np.int64)
        other = np.array([place[own[at]] for at in both], dtype=np.int64)
        for name in said.columns:
            if name in found.columns and name != key and both.size:
                self._compare_column(
                    name, [own[at] for at in both], said[name].iloc[both], found[name].iloc[other]
                )

    def _compare_column(
        self, name: str, ids: Sequence[Any], said: pd.Series[Any], found: pd.Series[Any]
    ) -> None:
        import pandas as pd

        self.count += len(ids)
        if all(
            pd.api.types.is_numeric_dtype(each) and not pd.api.types.is_bool_dtype(each)
            for each in (said, found)
        ):
            wrong = self._numbers_that_differ(
                *(each.to_numpy(dtype=np.float64, na_value=np.nan) for each in (said, found))
            )
        else:
            wrong = np.array(
                [
                    at
                    for at, (one, other) in enumerate(zip(said, found, strict=True))
                    if _text(one) != _text(other)
                ],
                dtype=np.int64,
            )
        for at in wrong[:1000]:
            self._differ(f"{name} of {ids[at]}", _shown(said.iloc[at]), _shown(found.iloc[at]))

    def _numbers_that_differ(self, said: Any, found: Any) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.abs(said - found)
            largest = np.maximum(np.abs(said), np.abs(found))
            within = (
                (gap <= np.maximum(self.relative * largest, self.absolute))
                | (said == found)
                | (np.isnan(said) & np.isnan(found))
            )
            ratio = gap / largest
        counted = ratio[np.isfinite(ratio) & ((gap > self.absolute) | ~within)]
        if counted.size:
            self._note_worst(float(counted.max()))
        return np.flatnonzero(~within)

    def _note_worst(self, gap: float) -> None:
        self.worst = gap if self.worst is None else max(self.worst, gap)

    def _differ(self, place: str, said: str, found: str) -> None:
        self.differences.append(f"{place or 'value'}: said {said}, found {found}")


def _text(value: Any) -> Any:
    return [level_text(each) for each in value] if is_list(value) else level_text(value)


def _shown(value: Any) -> str:
    """A value in short: the beginning of a long text is enough to find it."""
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def changed_images(said: pd.DataFrame, found: pd.DataFrame) -> Iterator[str]:
    """Which images are not what they were, by the hash of their content: changed, gone, and new
    ones.
    """
    before, now = (
        dict(zip(frame["id"].tolist(), frame["content"].tolist(), strict=True))
        for frame in (said, found)
    )
    yield from (f"{id} has changed" for id in before if id in now and before[id] != now[id])
    yield from (f"{id} is gone" for id in before if id not in now)
    yield from (f"{id} is new" for id in now if id not in before)
