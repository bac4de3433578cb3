"""The ``[bias]`` section: its keys are those of the family that it names, so that a new family needs no entry here."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from pydantic import BaseModel, Field, ValidationError, create_model

from unskew.bias.base import Bias
from unskew.bias.schema import families
from unskew.config_problems import Problem, problem_of_message, problems_of, received
from unskew.config_sections import Section
from unskew.errors import UnskewError, did_you_mean, first_few
from unskew.toml_lines import KeyPath

_WORDS = {str: "a piece of text", bool: "true or false", int: "a whole number", float: "a number", Any: "a value"}


def parameter_words(documented: type) -> dict[str, str]:
    """What the docstring says of each parameter (numpydoc: ``name : meaning``)."""
    text = inspect.getdoc(documented) or ""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w+) : (.*(?:\n[ \t]+.*)*)", found[1], re.MULTILINE) if found else []
    return {name: " ".join(meaning.split()) for name, meaning in entries}


@cache
def bias_section(model: type[Bias]) -> type[BaseModel]:
    """The keys of a family as a section, with their types as TOML has them."""
    hints, words = _hints(model), parameter_words(model)
    keys: dict[str, Any] = {"family": (str, Field(title="a family"))}
    for each in fields(model):  # type: ignore[arg-type]
        kind = toml_type(hints.get(each.name, Any))
        meaning = words.get(each.name, "")
        takes = type_words(kind) + (f" ({meaning.rstrip('.')})" if meaning else "")
        keys[each.name] = (kind, Field(... if each.default is MISSING else each.default, title=takes, description=meaning))
    return create_model(model.__name__, __base__=Section, **keys)


def _hints(model: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(model)
    except NameError:  # a family of the user's own may name types that only a type checker imports
        return {}


def toml_type(hint: Any) -> Any:
    """The type that a value has when TOML holds it; Any where that cannot be told."""
    origin, inner = typing.get_origin(hint), tuple(toml_type(each) for each in typing.get_args(hint) if each is not Ellipsis)
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
    origin, inner = typing.get_origin(kind), [each for each in typing.get_args(kind) if each is not type(None)]
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(type_words(each) for each in inner))
    if origin is typing.Literal:
        return " or ".join(f'"{each}"' for each in inner)
    if origin is list:
        return "a list of names" if inner == [str] else "a list of numbers" if inner == [float] else "a list"
    if origin is dict:
        return "a table"
    return _WORDS.get(kind, "a value")


def read_bias_settings(settings: Any, path: KeyPath, places: Iterable[KeyPath]) -> tuple[dict[str, Any] | None, list[Problem]]:
    """(the settings with their defaults filled in, what is wrong with them)."""
    known = families()
    if not isinstance(settings, dict):
        return None, [Problem(path, f"expected a table with family and its settings; got {received(settings)}.")]
    name = settings.get("family")
    if not isinstance(name, str) or name not in known:
        return None, [_unknown_family(settings, path, known)]
    if name == "product":
        return _read_product(settings, path, places)
    section = bias_section(known[name])
    try:
        filled = section.model_validate(settings).model_dump(exclude_none=True)
    except ValidationError as error:
        return None, problems_of(error.errors(), section, settings, path, {})
    try:
        Bias.from_dict(filled)
    except (UnskewError, ValueError, TypeError) as error:
        return None, [problem_of_message(path, str(error), places)]
    return filled, []


def _unknown_family(settings: Mapping[str, Any], path: KeyPath, known: Mapping[str, Any]) -> Problem:
    one_of = f"expected one of {first_few([repr(each) for each in known], 20)}"
    if "family" not in settings:
        return Problem((*path, "family"), f"is missing; {one_of}.")
    return Problem((*path, "family"), f"{one_of}; got {received(settings['family'])}.{did_you_mean(settings['family'], known)}")


def _read_product(settings: dict[str, Any], path: KeyPath, places: Iterable[KeyPath]) -> tuple[dict[str, Any] | None, list[Problem]]:
    problems = [
        Problem((*path, key), "there is no such key; a product has family and factors, each factor a table with a family of its own.")
        for key in settings
        if key not in ("family", "factors")
    ]
    factors = settings.get("factors")
    if not isinstance(factors, list) or not factors:
        expected = "expected a list of bias models, each a section [[bias.factors]] with a family of its own"
        got = f"is missing; {expected}" if factors is None else f"{expected}; got {received(factors)}"
        return None, [*problems, Problem((*path, "factors"), f"{got}.")]
    read = [read_bias_settings(each, (*path, "factors", number), places) for number, each in enumerate(factors)]
    problems += [problem for _, found in read for problem in found]
    if problems:
        return None, problems
    return {"family": "product", "factors": [filled for filled, _ in read]}, []
