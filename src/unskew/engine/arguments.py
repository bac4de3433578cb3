"""Arguments of public functions, checked against their annotations: `checked`.

An annotation is the rule: ``level: OpenShare`` is a number above 0 and below 1, ``throw: bool`` is
True or False, ``way: Literal["auto", "half"]`` one of these texts, ``features: Sequence[str]``
several texts. What breaks its rule is a `ConfigError` (a `DataError` for arrays and tables) that
names the function, the argument, the value and what is allowed. Frames, pools and other records are
refused where they are plainly something else; what is in them is checked by who reads them. Tables
of other packages arrive as DataFrames (`unskew.engine.frames`).
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Unpack, get_args, get_origin

import numpy.typing as npt

from unskew.engine.annotation_rules import (
    ANY_TABLE,
    ANYTHING,
    WITH_TABLES,
    Limits,
    Names,
    Rule,
    array_like,
    read_annotation,
    rule_of,
)
from unskew.engine.frames import is_foreign
from unskew.errors import ConfigError, DataError, UnskewError, refused_option

_MAKE_A_POOL = " Make one with Pool.from_frame(table)."
T = TypeVar("T", bound=Callable[..., Any])

# ``label_n: Annotated[Ints, ANY_RANK]``: the index letters do not bind this array.
ANY_RANK = object()
# Shares and other numbers.
Share = Annotated[float, Limits(at_least=0, at_most=1)]
OpenShare = Annotated[float, Limits(above=0, below=1)]
ShareAboveZero = Annotated[float, Limits(above=0, at_most=1)]
ShareBelowOne = Annotated[float, Limits(at_least=0, below=1)]
Positive = Annotated[float, Limits(above=0)]
NotNegative = Annotated[float, Limits(at_least=0)]
OneOrMore = Annotated[float, Limits(at_least=1, infinite=True)]
ShareBelowHalf = Annotated[float, Limits(at_least=0, below=0.5)]
PositiveBelowHalf = Annotated[float, Limits(above=0, below=0.5)]
# The name of a source, or a level of an attribute: sources may be numbered.
LevelName = str | bool | int | float
# Whole numbers. The upper limits are far above what makes sense and below what never ends.
Count = Annotated[int, Limits(at_least=1, at_most=10**9)]
CountOrZero = Annotated[int, Limits(at_least=0, at_most=10**8)]
Folds = Annotated[int, Limits(at_least=2, at_most=10**4)]
Jobs = Annotated[int, Limits(at_least=1, at_most=4096)]
Replicates = Annotated[int, Limits(at_least=1, at_most=10**6)]
ReplicatesOrZero = Annotated[int, Limits(at_least=0, at_most=10**6)]
TestReplicates = Annotated[int, Limits(at_least=19, at_most=10**6)]
Steps = Annotated[int, Limits(at_least=1, at_most=10**7)]
Side = Annotated[int, Limits(at_least=1, at_most=2**16)]
ReducedSide = Annotated[int, Limits(at_least=2, at_most=2**16)]
Amount = Annotated[int, Limits(at_least=1, at_most=2**63 - 1)]
Seed = Annotated[int, Limits(at_least=0, at_most=2**63 - 1)]
# Where numeric attributes are cut; `unskew.target.facts.check_edges` reads the edges.
_EDGES = "a mapping of attributes to edges, such as {'age': [0, 40]}"
IS_BINS = Rule(lambda value: isinstance(value, Mapping), _EDGES)
Bins = Annotated[Mapping[str, Sequence[float]], IS_BINS]
# Arrays, and what can be read as one, of numbers.
Numbers = Annotated[npt.ArrayLike, array_like("biuf")]
# Anything; what is a table or a column of another package arrives as one of pandas or NumPy.
AnyValues = Annotated[Any, WITH_TABLES]
# The same, and a dict of columns arrives as a DataFrame.
AnyTable = Annotated[Any, ANY_TABLE]
WholeNumbers = Annotated[npt.ArrayLike, array_like("biu")]


def checked(thing: T) -> T:
    """Check what callers pass to a function, or to the constructor and public methods of a class.

    Signature, docstring and pickling stay as they are. The annotations are read at the first call;
    a call costs microseconds more.
    """
    if not isinstance(thing, type):
        function: T = _checked_function(thing)
        return function
    for name, member in list(vars(thing).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(thing, name, type(member)(_checked_function(member.__func__)))
        elif isinstance(member, types.FunctionType):
            setattr(thing, name, _checked_function(member))
    return thing


def check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], name: str) -> None:
    """Check arguments of ``name`` as `checked` does; for estimators, which check when they fit."""
    rules = _Rules(function)
    rules.function = name
    rules.check((), arguments)


def _checked_function(function: Any) -> Any:
    rules: _Rules | None = None

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        nonlocal rules
        if rules is None:
            rules = _Rules(function)
        if rules.reads_tables:
            args, keywords = rules.read(args, keywords)
        rules.check(args, keywords)
        return function(*args, **keywords)

    return call


class _Rules:
    """The rules of a function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function.__qualname__.removesuffix(".__init__")
        self.by_place: list[tuple[str, Rule]] = []
        self.by_name: dict[str, Rule] = {}
        self.others: tuple[str, Rule] | None = None
        self.other_names = ANYTHING
        self.letters: dict[str, str] = {}
        function = inspect.unwrap(function)
        names = Names(function.__globals__)
        code = function.__code__
        n_places = code.co_argcount
        for at, name in enumerate(code.co_varnames[: n_places + code.co_kwonlyargcount]):
            annotation = read_annotation(function.__annotations__.get(name, Any), names)
            rule = self.by_name[name] = rule_of(annotation, names)
            if at < n_places:
                self.by_place.append((name, rule))
            letters = re.fullmatch(r"[A-Za-z].*_([a-z]{1,2})", name)
            if rule.is_data and letters and get_origin(annotation) is not Annotated:
                self.letters[name] = letters[1]
        self.reads_tables = any(rule.read is not None for rule in self.by_name.values())
        self.places = [name for name, _ in self.by_place]
        rest = list(code.co_varnames[n_places + code.co_kwonlyargcount :])
        if code.co_flags & inspect.CO_VARARGS:
            name = rest.pop(0)
            self.others = (name, rule_of(function.__annotations__.get(name, Any), names))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            kind = read_annotation(function.__annotations__.get(rest[0], Any), names)
            if get_origin(kind) is Unpack:
                for option, annotation in get_args(kind)[0].__annotations__.items():
                    self.by_name[option] = rule_of(annotation, names)
            else:
                self.other_names = rule_of(kind, names)

    def read(
        self, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Read tables and columns of other packages where pandas or NumPy is what is used."""
        own = [
            value if rule.read is None else rule.read(value)
            for (_, rule), value in zip(self.by_place, args, strict=False)
        ]
        readers = {name: self.by_name.get(name, self.other_names).read for name in keywords}
        return (*own, *args[len(self.by_place) :]), {
            name: value if (read := readers[name]) is None else read(value)
            for name, value in keywords.items()
        }

    def check(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        for (name, rule), value in zip(self.by_place, args, strict=False):
            if not rule.accepts(value):
                raise self.refusal(name, rule, value)
        if self.others:
            for value in args[len(self.by_place) :]:
                if not self.others[1].accepts(value):
                    raise self.refusal(*self.others, value)
        for name, value in keywords.items():
            rule = self.by_name.get(name, self.other_names)
            if not rule.accepts(value):
                raise self.refusal(name, rule, value)
        if self.letters:
            self.check_shapes({**dict(zip(self.places, args, strict=False)), **keywords})

    def check_shapes(self, arguments: Mapping[str, Any]) -> None:
        """Check what the index letters state: X_nd is n × d, and n is the length of label_n."""
        size: dict[str, tuple[str, int]] = {}
        for name, letters in self.letters.items():
            value: Any = arguments.get(name)
            if not hasattr(value, "shape"):
                continue
            if len(value.shape) != len(letters):
                raise DataError(
                    f"{self.function}: {name} has {len(letters)} dimensions; got an array of shape "
                    f"{tuple(value.shape)}.",
                    **{"option": name, "value": list(value.shape), "limit": len(letters)},
                )
            for letter, count in zip(letters, value.shape, strict=True):
                first, other = size.setdefault(letter, (name, count))
                if count != other:
                    raise DataError(
                        f"{self.function}: {name} and {first} have one entry for each of the same "
                        f"things; got {count} and {other}.",
                        **{"option": name, "count": count, "limit": other},
                    )

    def refusal(self, name: str, rule: Rule, value: Any) -> UnskewError:
        return refused_option(
            f"{self.function}: {name} is {rule.words}",
            name,
            value,
            kind=DataError if rule.is_data else ConfigError,
            limit=None if rule.limits is None else rule.limits.broken(value),
            allowed=list(rule.allowed) or None,
            hint=_hint(rule, value),
        )


def _hint(rule: Rule, value: Any) -> str:
    if "a Pool" in rule.words and (hasattr(value, "columns") or is_foreign(value)):
        return _MAKE_A_POOL
    is_lazy = "a DataFrame" in rule.words and hasattr(value, "collect")
    return " Pass value.collect(): its rows are not computed yet." if is_lazy else ""
