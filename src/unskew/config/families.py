"""Families of bias models and representations as sections of a configuration.

Both are frozen dataclasses of settings: their fields become keys and their docstrings explain them,
so that a new family needs no entry here.
"""

from __future__ import annotations

import difflib
import importlib
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
from unskew.bias.product import Product
from unskew.bias.schema import families
from unskew.config.key_rules import Section
from unskew.config.problems import (
    MOST_PROBLEMS,
    Problem,
    names_table,
    problem_of_error,
    problems_of,
    received,
)
from unskew.config.toml_text import KeyPath
from unskew.engine.arguments import LevelName
from unskew.errors import UnskewError, did_you_mean, first_few
from unskew.represent.base import Representation
from unskew.represent.user_functions import REPRESENTATIONS

_WORDS = {
    str: "a piece of text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Any: "a value",
}
# Not a family: a run proposes bias models and chooses one (`unskew.choose_bias`).
AUTO = "auto"
# A network is loaded when it is made: that is left to the run.
_LOADS_MUCH = "embedding"


def read_bias_settings(
    settings: Any, path: KeyPath, keys: Iterable[KeyPath]
) -> tuple[dict[str, Any] | None, Bias | None, list[Problem]]:
    """Check the section ``[bias]``: (settings with defaults, the model they make, problems).

    ``keys`` are those of the file, to find the one that an error message names. The family "auto"
    makes no model yet: the images choose it.
    """
    known = families()
    if not isinstance(settings, dict):
        message = f"expected a table with family and its settings; got {received(settings)}."
        return None, None, [Problem(path, message)]
    name = settings.get("family")
    if name == AUTO and path == ("bias",):
        message = 'family = "auto" chooses the bias model with its settings; leave this key out.'
        others = [key for key in settings if key != "family"]
        return dict(settings), None, [Problem((*path, key), message) for key in others]
    if not isinstance(name, str) or name not in known:
        return None, None, [_unknown_family(settings, path, known)]
    if name == "product":
        return _read_product(settings, path, keys)
    section = section_of(known[name], "family")
    try:
        filled = section.model_validate(settings).model_dump(exclude_none=True)
    except ValidationError as error:
        return None, None, problems_of(error.errors(), section, settings, path, {})
    try:
        return filled, Bias.from_dict(filled), []
    except (UnskewError, ValueError, TypeError) as error:
        return None, None, [problem_of_error(path, error, keys)]


def auto_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Ask for images of the target where they are to choose the bias model."""
    bias, target = (settings.get(name) for name in ("bias", "target"))
    if not isinstance(bias, Mapping) or bias.get("family") != AUTO:
        return []
    if isinstance(target, Mapping) and {"sample", "source"} & set(target):
        return []
    message = (
        'family = "auto" compares the sources with images of the target: name some by '
        "target.sample (a folder or file, labelled or not) or target.source, or name a family."
    )
    return [Problem(("bias", "family"), message)]


def _unknown_family(
    settings: Mapping[str, Any], path: KeyPath, known: Mapping[str, Any]
) -> Problem:
    names = [AUTO, *known] if path == ("bias",) else list(known)
    expected = f"expected one of {first_few([repr(name) for name in names], 20)}"
    if "family" in settings:
        family = settings["family"]
        message = f"{expected}; got {received(family)}.{did_you_mean(family, names)}"
        return Problem((*path, "family"), message)
    near = difflib.get_close_matches("family", [str(key) for key in settings], n=1, cutoff=0.7)
    if near:
        message = f"there is no such key; {expected} as the key family. Did you mean 'family'?"
        return Problem((*path, near[0]), message)
    return Problem((*path, "family"), f"is missing; {expected}.")


def _read_product(
    settings: dict[str, Any], path: KeyPath, keys: Iterable[KeyPath]
) -> tuple[dict[str, Any] | None, Bias | None, list[Problem]]:
    problems = [
        Problem(
            (*path, key),
            "there is no such key; a product has family and factors, each factor a table with a "
            "family of its own.",
        )
        for key in settings
        if key not in ("family", "factors")
    ]
    factors = settings.get("factors")
    if not isinstance(factors, list) or not factors:
        expected = (
            "expected a list of bias models, each a section [[bias.factors]] with a family of its "
            "own"
        )
        message = (
            f"is missing; {expected}" if factors is None else f"{expected}; got {received(factors)}"
        )
        return None, None, [*problems, Problem((*path, "factors"), f"{message}.")]
    filled, parts = [], []
    for number, factor in enumerate(factors):
        read, model, wrong = read_bias_settings(factor, (*path, "factors", number), keys)
        filled.append(read)
        parts += [] if model is None else [model]
        problems += wrong
    if problems:
        return None, None, problems
    return {"family": "product", "factors": filled}, Product(*parts), []


def feature_problems(features: Any, keys: Iterable[KeyPath]) -> list[Problem]:
    """Check ``features`` of ``[represent]``: unknown names, unknown settings, impossible values."""
    features = [features] if isinstance(features, Mapping) else features
    if not isinstance(features, list):
        return []
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, feature in enumerate(features):
        if len(problems) >= MOST_PROBLEMS:
            break
        path: KeyPath = ("represent", "features", number)
        name = feature.get("name") if isinstance(feature, dict) else feature
        if names_table(feature):
            problems += _problems_of_table(feature, path)
        elif isinstance(feature, dict) and not isinstance(name, str):
            problems.append(Problem((*path, "name"), f"is missing; expected {_feature_names()}."))
        elif isinstance(name, str):
            problems += _problems_of_one(name, feature, path, keys)
            if name in seen:
                message = f"{name} is listed twice; their columns would have the same names."
                problems.append(Problem(path, message))
            seen.add(name)
    return problems


def _problems_of_table(feature: Mapping[str, Any], path: KeyPath) -> list[Problem]:
    problems = [
        Problem((*path, key), f"is unknown; a table of features has file and id.{near}")
        for key in feature
        if key not in ("file", "id") and (near := did_you_mean(key, ("file", "id"))) is not None
    ]
    return problems + [
        Problem((*path, key), f"expected {what}; got {received(feature[key])}.")
        for key, what in (("file", "a folder, glob or file"), ("id", "the name of a column"))
        if key in feature and (not isinstance(feature[key], str) or not feature[key])
    ]


def _feature_names() -> str:
    return f"one of {first_few(list(REPRESENTATIONS), 20)}, or module:function"


def _problems_of_one(
    name: str, feature: Any, path: KeyPath, keys: Iterable[KeyPath]
) -> list[Problem]:
    if ":" in name:
        return []
    if name not in REPRESENTATIONS:
        where = (*path, "name") if isinstance(feature, dict) else path
        near = did_you_mean(name, REPRESENTATIONS)
        return [Problem(where, f"expected {_feature_names()}; got {received(name)}.{near}")]
    settings = feature if isinstance(feature, dict) else {"name": name}
    section = section_of(representation_of(name), "name")
    try:
        section.model_validate(settings)
    except ValidationError as error:
        return problems_of(error.errors(), section, settings, path, {})
    if name == _LOADS_MUCH:
        return []
    try:
        representation_of(name)(**{key: value for key, value in settings.items() if key != "name"})
    except (UnskewError, ValueError, TypeError) as error:
        return [problem_of_error(path, error, keys)]
    return []


def representation_of(name: str) -> type[Representation]:
    """Find the class of a representation by its name."""
    module, _, class_name = REPRESENTATIONS[name].partition(":")
    representation: type[Representation] = getattr(importlib.import_module(module), class_name)
    return representation


@cache
def section_of(model: type, key: str) -> type[BaseModel]:
    """Turn the fields of a dataclass into the keys of a section, with the types that TOML has.

    ``key`` is the one that names the class: ``family`` or ``name``.
    """
    hints, words = _hints(model), parameter_words(model)
    keys: dict[str, Any] = {key: (str, Field(title="a name"))}
    for field in fields(model):
        kind = toml_type(hints.get(field.name, Any))
        meaning = words.get(field.name, "")
        takes = type_words(kind) + (f" ({_first_clause(meaning)})" if meaning else "")
        default = ... if field.default is MISSING else field.default
        keys[field.name] = kind, Field(default, title=takes, description=meaning)
    return create_model(model.__name__, __base__=Section, **keys)


def parameter_words(documented: type) -> dict[str, str]:
    """Read a numpydoc docstring: what it says of each parameter (``name, other : meaning``)."""
    text = inspect.getdoc(documented) or ""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE
    )
    if section is None:
        return {}
    entries = re.findall(r"^(\w+(?:, \w+)*) : (.*(?:\n[ \t]+.*)*)", section[1], re.MULTILINE)
    return {
        name: " ".join(meaning.split()) for names, meaning in entries for name in names.split(", ")
    }


def _first_clause(meaning: str) -> str:
    """Cut a docstring's explanation to what fits a message of one line."""
    clause = re.split(r"[;.] ", meaning.replace("``", "").rstrip("."))[0]
    return clause if len(clause) <= 100 else clause.split(", ")[0]


def _hints(model: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(model)
    except NameError:  # a family of the user's own may name types that only a type checker imports
        return {}


def toml_type(hint: Any) -> Any:
    """Translate a type hint into the type that TOML has for such a value; Any if unclear."""
    origin = typing.get_origin(hint)
    inner = tuple(toml_type(part) for part in typing.get_args(hint) if part is not Ellipsis)
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
    """Describe a type in the words that follow "expected"."""
    origin = typing.get_origin(kind)
    inner = [part for part in typing.get_args(kind) if part is not type(None)]
    if set(inner) == set(typing.get_args(LevelName)):  # names of sources are read as text
        return _WORDS[str]
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(type_words(part) for part in inner))
    if origin is typing.Literal:
        return " or ".join(
            f'"{value}"' if isinstance(value, str) else str(value) for value in inner
        )
    if origin is list:
        elements = {str: "names", float: "numbers"}.get(inner[0]) if len(inner) == 1 else None
        return f"a list of {elements}" if elements else "a list"
    return "a table" if origin is dict else _WORDS.get(kind, "a value")
