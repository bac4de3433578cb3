"""Frozen dataclasses of settings (bias models, representations) as sections of a configuration, so
that a new one needs no entry here.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from pydantic import BaseModel, Field, create_model

from unskew.config.sections import Section

_WORDS = {
    str: "a piece of text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Any: "a value",
}


def parameter_words(documented: type) -> dict[str, str]:
    """What the docstring says of each parameter (numpydoc: ``name : meaning``, or ``name, other :
    meaning``).
    """
    text = inspect.getdoc(documented) or ""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = (
        re.findall(r"^(\w+(?:, \w+)*) : (.*(?:\n[ \t]+.*)*)", found[1], re.MULTILINE)
        if found
        else []
    )
    return {
        name: " ".join(meaning.split()) for names, meaning in entries for name in names.split(", ")
    }


@cache
def section_of(model: type, key: str) -> type[BaseModel]:
    """The fields of a dataclass as the keys of a section, with their types as TOML has them;
    ``key`` is the one that names the class.
    """
    hints, words = _hints(model), parameter_words(model)
    keys: dict[str, Any] = {key: (str, Field(title="a name"))}
    for each in fields(model):
        kind = toml_type(hints.get(each.name, Any))
        meaning = words.get(each.name, "")
        takes = type_words(kind) + (f" ({_first_clause(meaning)})" if meaning else "")
        keys[each.name] = (
            kind,
            Field(
                ... if each.default is MISSING else each.default, title=takes, description=meaning
            ),
        )
    return create_model(model.__name__, __base__=Section, **keys)


def _first_clause(meaning: str) -> str:
    """Enough of what a docstring says for a message of one line."""
    clause = re.split(r"[;.] ", meaning.replace("``", "").rstrip("."))[0]
    return clause if len(clause) <= 100 else clause.split(", ")[0]


def _hints(model: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(model)
    except NameError:  # a family of the user's own may name types that only a type checker imports
        return {}


def toml_type(hint: Any) -> Any:
    """The type that a value has when TOML holds it; Any where that cannot be told."""
    origin, inner = (
        typing.get_origin(hint),
        tuple(toml_type(each) for each in typing.get_args(hint) if each is not Ellipsis),
    )
    if origin in (typing.Union, types.UnionType):
        return typing.Union[inner]  # noqa: UP007  (the members are known only when this runs)
    if origin is typing.Literal:
        return hint
    if origin in (Sequence, list, tuple):
        return list[inner[0]] if len(set(inner)) == 1 else list[Any]  # type: ignore[valid-type]
    if origin in (Mapping, dict):
        return dict[inner]  # type: ignore[misc, valid-type]
    return hint if hint in (str, bool, int, float, type(None)) else Any


def type_words(kind: Any) -> str:
    """A type in words, as they follow "expected"."""
    origin, inner = (
        typing.get_origin(kind),
        [each for each in typing.get_args(kind) if each is not type(None)],
    )
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(type_words(each) for each in inner))
    if origin is typing.Literal:
        return " or ".join(f'"{each}"' for each in inner)
    if origin is list:
        return (
            "a list of names"
            if inner == [str]
            else "a list of numbers"
            if inner == [float]
            else "a list"
        )
    if origin is dict:
        return "a table"
    return _WORDS.get(kind, "a value")
