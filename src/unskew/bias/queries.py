"""Queries of a table: a small language, parsed to a tree and computed here, never run as code.

Columns, numbers, texts, comparisons (also ``in`` and ``not in`` a list), ``and``, ``or``, ``not``,
arithmetic, and the functions and methods named below. A stranger's query can do nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.patterns import compile_pattern, search_texts
from unskew.errors import ConfigError, did_you_mean, first_few, short_name

if TYPE_CHECKING:
    import pandas as pd

_LONGEST, _DEEPEST = 100_000, 100
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS = {name: getattr(np, name) for name in ("abs", "sqrt", "exp", "log", "floor", "ceil")}
_MISSING = ("isna", "isnull", "notna", "notnull")
# Methods of a column, of its texts (`.str`) and times (`.dt`), with the keywords that they take.
_METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*_MISSING, "abs"), ()),
    "isin": (),
    "between": ("inclusive",),
    "str.contains": ("case", "regex"),
    **dict.fromkeys(("str.startswith", "str.endswith"), ()),
    **dict.fromkeys(("str.lower", "str.upper", "str.strip", "str.len"), ()),
}
_TIMES = ("year", "month", "day", "hour", "minute", "second", "dayofweek", "dayofyear", "quarter")
_ALLOWED = (
    "A query has columns, numbers, texts, comparisons, 'in' a list, and, or, not, arithmetic, "
    f"{', '.join(_FUNCTIONS)}, column.dt.{', '.join(_TIMES)}, and the methods {', '.join(_METHODS)}"
)
# Texts are left alone; `names` in backticks, and the operators & and |, are not Python's.
_WORDS = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`(?P<name>[^`]*)`|(?P<sign>&&?|\|\|?)|\s+"""
)


@dataclass(frozen=True)
class TableQuery:
    """A query that was parsed and checked; nothing of it is run as code.

    text : as written.
    tree : the expression.
    columns : names that the query reads.
    """

    text: str
    tree: ast.expr
    columns: frozenset[str]

    @property
    def asks_for_missing(self) -> bool:
        """Whether the query says what missing values mean."""
        return any(
            isinstance(node, ast.Attribute) and node.attr in _MISSING
            for node in ast.walk(self.tree)
        )

    def select(self, frame: pd.DataFrame) -> Any:
        """Compute the query for each row of a table."""
        unknown = sorted(self.columns - set(map(str, frame.columns)))
        if unknown:
            near = did_you_mean(unknown[0], frame.columns)
            raise ConfigError(
                f"{short_name(unknown[0])!r} is no column; the columns are "
                f"{first_few(list(frame.columns), 12)}.{near}"
            )
        with np.errstate(all="ignore"):
            return _computed(self.tree, frame)


@lru_cache(maxsize=256)
def parse_query(text: str) -> TableQuery:
    """Parse a query, or raise a `ConfigError` that names what a query cannot have."""
    if len(text) > _LONGEST:
        raise ConfigError(f"a query has {_LONGEST:,} characters at most; got {len(text):,}.")
    names: dict[str, str] = {}

    def python_word(match: re.Match[str]) -> str:
        if match["sign"]:
            return " and " if match["sign"][0] == "&" else " or "
        if match["name"] is None:
            return match["text"] or " "  # a query may have several lines
        return names.setdefault(match["name"], f"_column_{len(names)}_in_backticks")

    try:
        with warnings.catch_warnings(action="ignore"):  # "\\d" in a text is no escape
            tree = ast.parse(_WORDS.sub(python_word, text).strip(), mode="eval").body
        _check_depth(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deep"
        raise ConfigError(f"it is no expression ({why}). {_ALLOWED}.") from None
    columns = {alias: name for name, alias in names.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = columns.get(node.id, node.id)
    _check(tree)
    return TableQuery(text, tree, frozenset(_column_names(tree)))


def _check_depth(tree: ast.AST) -> None:
    level = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise RecursionError(f"nested deeper than {_DEEPEST} levels")


def _check(node: ast.AST) -> None:
    """Refuse every part that is not listed."""
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, bool | int | float | str):
            raise _refused(node)
    elif isinstance(node, ast.Call):
        _check_call(node)
    elif isinstance(node, ast.Attribute):
        if node.attr not in _TIMES or _accessor(node.value) != "dt":
            raise _refused(node, f".{node.attr}")
        _check(node.value.value)  # type: ignore[attr-defined]
    elif isinstance(node, ast.Compare):
        _check_comparison(node)
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp):
        if type(node.op) not in (*_ARITHMETIC, ast.And, ast.Or, *_UNARY):
            raise _refused(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                _check(child)
    elif not isinstance(node, ast.Name):
        raise _refused(node)


def _check_call(node: ast.Call) -> None:
    if isinstance(node.func, ast.Name):
        if node.func.id not in _FUNCTIONS or len(node.args) != 1 or node.keywords:
            raise _refused(node, f"{node.func.id}()")
        _check(node.args[0])
        return
    owner, method = _method(node)
    keywords = [keyword.arg for keyword in node.keywords]
    if method not in _METHODS or any(name not in _METHODS[method] for name in keywords):
        raise _refused(node, f".{method}()" if method not in _METHODS else f".{method}(…)")
    _check(owner)
    for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
        _check_list(value) if isinstance(value, ast.List | ast.Tuple | ast.Set) else _check(value)


def _check_comparison(node: ast.Compare) -> None:
    _check(node.left)
    for sign, value in zip(node.ops, node.comparators, strict=True):
        is_list = isinstance(value, ast.List | ast.Tuple | ast.Set)
        if isinstance(sign, ast.In | ast.NotIn) and not is_list:
            raise _refused(node, f"in {ast.unparse(value)}")
        if type(sign) not in (*_COMPARISONS, ast.In, ast.NotIn):
            raise _refused(node)
        _check_list(value) if is_list else _check(value)


def _check_list(node: Any) -> None:
    for entry in node.elts:
        if not isinstance(entry, ast.Constant | ast.UnaryOp):
            raise _refused(entry)
        _check(entry)


def _refused(node: ast.AST, shown: str | None = None) -> ConfigError:
    what = short_name(ast.unparse(node) if shown is None else shown, 60)
    return ConfigError(f"a query cannot have {what!r}. {_ALLOWED}.")


def _accessor(node: ast.AST) -> str | None:
    """Return ``str`` or ``dt`` for ``column.str`` and ``column.dt``."""
    is_accessor = isinstance(node, ast.Attribute) and node.attr in ("str", "dt")
    return node.attr if is_accessor else None  # type: ignore[attr-defined]


def _method(node: ast.Call) -> tuple[ast.expr, str]:
    """Return (what the method is called on, its name): (x, ``str.contains``)."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        raise _refused(node)
    if _accessor(function.value) == "str":
        return function.value.value, f"str.{function.attr}"  # type: ignore[attr-defined]
    return function.value, function.attr


def _column_names(node: ast.AST) -> Iterator[str]:
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if child is not called or not isinstance(child, ast.Name):
            yield from _column_names(child)


def _computed(node: Any, frame: pd.DataFrame) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame[node.id]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_computed(entry, frame) for entry in node.elts]
    if isinstance(node, ast.Attribute):
        column = _computed(node.value.value, frame)  # type: ignore[attr-defined]
        return getattr(column.dt, node.attr)
    if isinstance(node, ast.BoolOp):
        parts = [_truth(_computed(value, frame), value) for value in node.values]
        return reduce(operator.and_ if isinstance(node.op, ast.And) else operator.or_, parts)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_computed(node.operand, frame), node.operand)
    if isinstance(node, ast.BinOp):
        sides = [_numbers(_computed(side, frame), side) for side in (node.left, node.right)]
        return _ARITHMETIC[type(node.op)](*sides)
    if isinstance(node, ast.Compare):
        return _compared(node, frame)
    return _called(node, frame)


def _compared(node: ast.Compare, frame: pd.DataFrame) -> Any:
    left, parts = _computed(node.left, frame), []
    for sign, comparator in zip(node.ops, node.comparators, strict=True):
        right = _computed(comparator, frame)
        if isinstance(right, list):
            if not hasattr(left, "isin") or isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                raise _refused(node)
            inside = left.isin(right)
            parts.append(inside if isinstance(sign, ast.In | ast.Eq) else ~inside)
        else:
            parts.append(_COMPARISONS[type(sign)](left, right))
        left = right
    return reduce(operator.and_, parts)


def _called(node: ast.Call, frame: pd.DataFrame) -> Any:
    if isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](_numbers(_computed(node.args[0], frame), node.args[0]))
    owner, method = _method(node)
    column = _computed(owner, frame)
    if not hasattr(column, "isin"):
        raise ConfigError(f"{short_name(ast.unparse(owner))!r} is no column, and has no {method}.")
    values = [_computed(value, frame) for value in node.args]
    options = {str(keyword.arg): _computed(keyword.value, frame) for keyword in node.keywords}
    if method == "str.contains":
        return _contains(column, *values, **options)
    if method.startswith("str."):
        # A missing text does not begin with anything, as no comparison with it is true.
        na: Mapping[str, Any] = {"na": False} if method.endswith("with") else {}
        return getattr(column.str, method.removeprefix("str."))(*values, **na)
    return getattr(column, method)(*values, **options)


def _contains(column: Any, part: Any, case: bool = True, regex: bool = True) -> Any:
    pattern = compile_pattern(part if regex else re.escape(part), "queries")
    if not case:
        pattern = re.compile(pattern.pattern, re.IGNORECASE)
    texts = [text for text in column.unique().tolist() if isinstance(text, str)]
    matches = search_texts(pattern, texts, "queries")
    return column.isin([text for text, match in zip(texts, matches, strict=True) if match])


def _numbers(value: Any, node: ast.AST) -> Any:
    """Return numbers as floats, so that a power can become infinite, and not endless."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    is_number = isinstance(value, bool | int | float | np.number) or (kind and kind in "biuf")
    if not is_number:
        raise ConfigError(
            f"arithmetic needs numbers, and {short_name(ast.unparse(node))!r} is none."
        )
    if not hasattr(value, "isna"):
        try:
            return np.float64(value)
        except OverflowError:
            return np.float64("inf")
    return value.astype("Float64" if value.isna().any() and kind != "f" else np.float64)


def _truth(value: Any, node: ast.AST) -> Any:
    if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) in ("bool", "boolean"):
        return value
    raise ConfigError(
        f"'and', 'or' and 'not' need True or False, and {short_name(ast.unparse(node))!r} is "
        "neither."
    )


def _negated(value: Any, node: ast.AST) -> Any:
    truth = _truth(value, node)
    return not truth if isinstance(truth, bool | np.bool_) else ~truth


_UNARY: dict[type[ast.unaryop], Callable[[Any, ast.AST], Any]] = {
    ast.Not: _negated,
    ast.Invert: _negated,
    ast.USub: lambda value, node: -value if isinstance(value, int) else -_numbers(value, node),
    ast.UAdd: lambda value, node: value if isinstance(value, int) else _numbers(value, node),
}
