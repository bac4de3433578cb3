"""The rule that an annotation states: what a value must be, and how to say it."""

from __future__ import annotations

import builtins
import collections.abc
import math
import os
import sys
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin

import numpy as np

from unskew.engine.frames import is_foreign, read_foreign, read_frame


@dataclass(frozen=True)
class Limits:
    """Between which numbers an argument lies."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False  # infinity is allowed, too

    def hold(self, value: Any) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def broken(self, value: Any) -> float | None:
        """Return the limit that a number breaks; None: it holds them, or is no number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        lows = [low for low in (self.at_least, self.above) if low is not None and value <= low]
        highs = [high for high in (self.at_most, self.below) if high is not None and value >= high]
        return next(iter(lows + highs), None)

    def __str__(self) -> str:
        bounds = {"of at least": self.at_least, "above": self.above}
        bounds |= {"at most": self.at_most, "below": self.below}
        return " and ".join(
            f"{word} {bound:,}" if bound < 10**12 else f"{word} {bound:.3g}"
            for word, bound in bounds.items()
            if bound is not None
        )


@dataclass(frozen=True)
class Rule:
    """What a value must be, how to say it, and how another package's table is read for it."""

    accepts: Callable[[Any], bool]
    words: str
    allowed: tuple[Any, ...] = ()
    is_data: bool = False
    limits: Limits | None = None
    read: Callable[[Any], Any] | None = None


ANYTHING = Rule(lambda value: True, "anything")
# ``X: Annotated[Any, WITH_TABLES]``: anything; tables of other packages arrive as DataFrames.
WITH_TABLES = Rule(lambda value: True, "anything", read=read_foreign)
# The same, and a dict of columns is a table.
ANY_TABLE = Rule(lambda value: True, "anything", read=read_frame)


class _Unloaded(type):
    """Stands for a class that is imported for types only, by its name: ``pd.DataFrame``."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unloaded(name, (), {"__class_getitem__": classmethod(lambda kind, item: kind)})


class Names(dict[str, Any]):
    """What the names of an annotation mean: those of its module, else classes not loaded here."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        super().__init__(module)
        self["npt"] = _Unloaded("npt", (), {})

    def __getitem__(self, name: str) -> Any:
        return read_annotation(super().__getitem__(name), self)  # an alias may be a text, too

    def __missing__(self, name: str) -> Any:
        builtin = getattr(builtins, name, None)
        return getattr(self["npt"], name) if builtin is None else builtin


def read_annotation(annotation: Any, names: Names) -> Any:
    if isinstance(annotation, ForwardRef):  # an option of a TypedDict, at home in its module
        home = sys.modules.get(str(annotation.__forward_module__))
        names = Names(vars(home)) if home else names
        annotation = annotation.__forward_arg__
    return eval(annotation, {}, names) if isinstance(annotation, str) else annotation


def rule_of(annotation: Any, names: Names) -> Rule:
    """Turn an annotation into the rule that it states; what states none allows anything."""
    kind = read_annotation(annotation, names)
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if origin is Annotated and isinstance(args[1], Limits):
        return _limited(rule_of(args[0], names), args[1])
    if origin is Annotated:
        return args[1] if isinstance(args[1], Rule) else rule_of(args[0], names)
    if origin in (Union, types.UnionType):
        is_path = any(_name(part) == "PathLike" for part in args)
        parts = [part for part in args if not (is_path and part is str)]
        return _either([rule_of(part, names) for part in parts])
    if origin is Literal:
        return Rule(
            lambda value: (
                isinstance(value, Hashable)
                and any(
                    value == arg and isinstance(value, bool) == isinstance(arg, bool)
                    for arg in args
                )
            ),
            f"one of {', '.join(map(repr, args))}",
            allowed=args,
        )
    if origin is collections.abc.Callable:
        return Rule(callable, "a function")
    home = origin or kind
    if not isinstance(home, type) or home is object or home is Hashable:
        return ANYTHING
    if _name(home) == "PathLike":
        return Rule(_is_path, "a path")
    if _name(home) == "ArrayLike":
        return array_like("biufOUSTmM")
    if _name(home) in _KINDS:
        kinds = _KINDS[_name(home)] if not args else _kinds_of(args[-1])
        return Rule(
            lambda value: _is_array(value, kinds),
            _ARRAY_WORDS[kinds],
            is_data=True,
            read=read_foreign,
        )
    if home is Sized:
        return Rule(_is_sized, "a sequence", read=read_foreign)
    if issubclass(home, Mapping):
        return _mapping(*(rule_of(part, names) for part in args or (Any, Any)))
    if issubclass(home, Iterable) and home.__module__ in ("builtins", "collections.abc"):
        parts = [rule_of(part, names) for part in args if part is not ...] or [ANYTHING]
        fixed = home is tuple and ... not in args and len(args) > 0
        return _several(parts, fixed, one_shot=home is Iterable, sets=home not in _ORDERED)
    return _instance(home)


def _limited(rule: Rule, limits: Limits) -> Rule:
    return replace(
        rule,
        accepts=lambda value: (
            (rule.accepts(value) or (limits.infinite and _is_infinite(value)))
            and limits.hold(value)
        ),
        words=f"{rule.words} {limits}",
        limits=limits,
    )


def _either(rules: Sequence[Rule]) -> Rule:
    if ANYTHING in rules:
        return ANYTHING
    readers = [rule.read for rule in rules if rule.read is not None]

    def accepts(value: Any) -> bool:
        return any(rule.accepts(value) for rule in rules)

    def read(value: Any) -> Any:
        if isinstance(value, Mapping) and accepts(value):
            return value
        results = (one(value) for one in readers)
        return next((result for result in results if result is not value), value)

    return Rule(
        accepts,
        ", or ".join(dict.fromkeys(rule.words for rule in rules)),
        allowed=tuple(text for rule in rules for text in rule.allowed),
        is_data=all(rule.is_data for rule in rules if rule is not _SIMPLE[None]),
        read=read if readers else None,
    )


def _mapping(key: Rule, entry: Rule) -> Rule:
    def accepts(value: Any) -> bool:
        return isinstance(value, Mapping) and (
            key is entry is ANYTHING
            or all(key.accepts(name) and entry.accepts(one) for name, one in value.items())
        )

    if key is entry is ANYTHING:
        return Rule(accepts, "a mapping")
    return Rule(accepts, f"a mapping of {key.words} to {entry.words}")


def _several(parts: Sequence[Rule], fixed: bool, one_shot: bool, sets: bool) -> Rule:
    def accepts(value: Any) -> bool:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            return False
        if isinstance(value, Set) and not sets:
            return False
        if getattr(value, "ndim", 1) != 1:
            return False
        if not isinstance(value, Collection):
            return one_shot
        if fixed:
            return len(value) == len(parts) and all(
                part.accepts(one) for part, one in zip(parts, value, strict=True)
            )
        return parts[0] is ANYTHING or all(map(parts[0].accepts, value))

    words = f"a list of {len(parts)} entries" if fixed else "a list"
    if parts[0] is not ANYTHING:
        words += f", each entry {', or '.join(dict.fromkeys(part.words for part in parts))}"
    one = parts[0].read

    def read(value: Any) -> Any:
        if one is None or fixed or type(value) not in (list, tuple):
            return read_foreign(value)
        return [one(entry) for entry in value]

    return Rule(accepts, words, read=read)


def _instance(wanted: type) -> Rule:
    """Allow a class, what derives from it, and stand-ins: objects of the caller's own classes.

    Classes are compared by name, because most are not loaded where they are only a type.
    """
    name = wanted.__name__
    known: dict[type, bool] = {}

    def accepts(value: Any) -> bool:
        kind = type(value)
        if kind not in known:
            is_one = any(base.__name__ == name for base in kind.__mro__)
            root = kind.__module__.partition(".")[0]
            is_other = (root in _KNOWN and root not in _STAND_INS) or is_foreign(value)
            known[kind] = is_one or not (is_other or issubclass(kind, type | os.PathLike))
        return known[kind]

    words = f"{'an' if name[0] in 'AEIO' else 'a'} {name}"
    read = read_frame if name == "DataFrame" else None
    return Rule(accepts, words, is_data=name in _DATA, read=read)


def _is_whole(value: Any) -> bool:
    return _is_number(value, most=2**128) and isinstance(value, Integral)


def _is_number(value: Any, most: int = 2**63) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, _BOOLEAN) or not isinstance(value, Real):
        return False
    # Larger whole numbers are no numbers to NumPy.
    return abs(int(value)) < most if isinstance(value, Integral) else math.isfinite(value)


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float | np.floating) and math.isinf(value)


def _is_path(value: Any) -> bool:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    return isinstance(text, str) and bool(text) and "\0" not in text


def _is_sized(value: Any) -> bool:
    return isinstance(value, Sized) and not isinstance(value, str | bytes | Mapping)


def _is_array(value: Any, kinds: str) -> bool:
    """Tell whether this is an array, or like one: of NumPy, torch, pandas."""
    kind = getattr(getattr(value, "dtype", ...), "kind", "b" if hasattr(value, "dtype") else "no")
    return kind in kinds and bool(getattr(value, "shape", ()))


def array_like(kinds: str) -> Rule:
    return Rule(
        lambda value: _is_array_like(value, kinds),
        _ARRAY_WORDS[kinds],
        is_data=True,
        read=read_foreign,
    )


def _is_array_like(value: Any, kinds: str) -> bool:
    """Tell whether this can be read as an array of these kinds of entries."""
    if isinstance(value, str | bytes | Mapping | set | frozenset):
        return False
    try:
        value = np.asarray(value) if isinstance(value, list | tuple) else value
        if getattr(getattr(value, "dtype", None), "kind", "") == "O" and "O" not in kinds:
            value = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return False
    if getattr(value, "ndim", 1) == 0:
        return False
    dtypes = value.dtypes if hasattr(value, "columns") else [getattr(value, "dtype", None)]
    is_kind = all(getattr(dtype, "kind", kinds[0]) in kinds for dtype in dtypes)
    return (is_kind or getattr(value, "size", 1) == 0) and (
        hasattr(value, "__array__") or hasattr(value, "shape") or isinstance(value, Collection)
    )


def _kinds_of(dtype: Any) -> str:
    """Return the kinds of numbers of ``np.dtype[np.float64]``: those that may stand for it."""
    (scalar,) = get_args(dtype) or (Any,)
    kind = np.dtype(scalar).kind if isinstance(scalar, type) and scalar is not np.generic else ""
    return {"f": "biuf", "i": "biu", "b": "b"}.get(kind, "biufOUSTmM")


def _name(kind: Any) -> str:
    return getattr(get_origin(kind) or kind, "__name__", "")


_BOOLEAN = (bool, np.bool_)
_ORDERED = (Sequence, list, tuple)
_SIMPLE: Mapping[Any, Rule] = {
    Any: ANYTHING,
    None: Rule(lambda value: value is None, "None"),
    bool: Rule(lambda value: isinstance(value, _BOOLEAN), "True or False"),
    int: Rule(_is_whole, "a whole number"),
    float: Rule(_is_number, "a finite number"),
    str: Rule(lambda value: isinstance(value, str), "a text"),
    bytes: Rule(lambda value: isinstance(value, bytes), "bytes"),
}
_SIMPLE = {**_SIMPLE, types.NoneType: _SIMPLE[None]}
# Arrays by the names of their types, and the kinds of numbers that they hold.
_KINDS = {
    **dict.fromkeys(("NDArray", "ndarray"), "biufOUSTmM"),
    **{"Floats": "biuf", "Bools": "b", "Ints": "biu", "Codes": "biu", "Pixels": "biufOUSTmM"},
}
_ARRAY_WORDS = {
    **{"biufOUSTmM": "an array of real numbers or of names", "biuf": "an array of real numbers"},
    **{"biu": "an array of whole numbers", "b": "an array of True and False"},
}
# Objects of these are what they are; of other packages they may be made to act as a record.
_KNOWN = {*sys.stdlib_module_names, "numpy", "pandas", "polars", "scipy", "torch", "sklearn"}
_KNOWN.add("unskew")
_STAND_INS = ("__main__", "types", "unittest")
_DATA = ("DataFrame", "OutcomePredictions", "Pool", "TrainingData", "Weights")
