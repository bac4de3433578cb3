"""The ``features`` of ``[represent]``: names, names with settings, and functions of the user's
own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from unskew.config.families import section_of
from unskew.config.problems import Problem, problem_of_message, problems_of, received
from unskew.config.toml_lines import KeyPath
from unskew.errors import UnskewError, did_you_mean, first_few
from unskew.represent.base import Representation
from unskew.represent.naming import REPRESENTATIONS

# A network is loaded when it is made: that is left to the run.
_LOADS_MUCH = "embedding"


def feature_problems(features: Any, places: Iterable[KeyPath]) -> list[Problem]:
    """Names that nobody knows, settings that a representation does not have, and values that they
    cannot have.
    """
    if not isinstance(features, list):
        return []
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, feature in enumerate(features):
        path: KeyPath = ("represent", "features", number)
        name = feature.get("name") if isinstance(feature, dict) else feature
        if isinstance(feature, dict) and not isinstance(name, str):
            problems.append(Problem((*path, "name"), f"is missing; expected {_names()}."))
        elif isinstance(name, str):
            problems += _problems_of_one(name, feature, path, places)
            if name in seen:
                problems.append(
                    Problem(
                        path, f"{name} is asked for twice; their columns would have the same names."
                    )
                )
            seen.add(name)
    return problems


def representation_of(name: str) -> type[Representation]:
    """The class behind a name."""
    module, _, kind = REPRESENTATIONS[name].partition(":")
    made: type[Representation] = getattr(importlib.import_module(module), kind)
    return made


def _names() -> str:
    return f"one of {first_few(list(REPRESENTATIONS), 20)}, or module:function"


def _problems_of_one(
    name: str, feature: Any, path: KeyPath, places: Iterable[KeyPath]
) -> list[Problem]:
    if ":" in name:
        return []
    if name not in REPRESENTATIONS:
        where = (*path, "name") if isinstance(feature, dict) else path
        return [
            Problem(
                where,
                f"expected {_names()}; got {received(name)}.{did_you_mean(name, REPRESENTATIONS)}",
            )
        ]
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
        return [problem_of_message(path, str(error), places)]
    return []
