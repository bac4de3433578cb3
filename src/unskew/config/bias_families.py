"""The ``[bias]`` section: its keys are those of the family that it names, so that a new family
needs no entry here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from unskew.bias.base import Bias
from unskew.bias.schema import families
from unskew.config.families import section_of
from unskew.config.problems import Problem, problem_of_message, problems_of, received
from unskew.config.toml_lines import KeyPath
from unskew.errors import UnskewError, did_you_mean, first_few


def read_bias_settings(
    settings: Any, path: KeyPath, places: Iterable[KeyPath]
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """(the settings with their defaults filled in, what is wrong with them)."""
    known = families()
    if not isinstance(settings, dict):
        return None, [
            Problem(
                path, f"expected a table with family and its settings; got {received(settings)}."
            )
        ]
    name = settings.get("family")
    if not isinstance(name, str) or name not in known:
        return None, [_unknown_family(settings, path, known)]
    if name == "product":
        return _read_product(settings, path, places)
    section = section_of(known[name], "family")
    try:
        filled = section.model_validate(settings).model_dump(exclude_none=True)
    except ValidationError as error:
        return None, problems_of(error.errors(), section, settings, path, {})
    try:
        Bias.from_dict(filled)
    except (UnskewError, ValueError, TypeError) as error:
        return None, [problem_of_message(path, str(error), places)]
    return filled, []


def _unknown_family(
    settings: Mapping[str, Any], path: KeyPath, known: Mapping[str, Any]
) -> Problem:
    one_of = f"expected one of {first_few([repr(each) for each in known], 20)}"
    if "family" not in settings:
        near = difflib.get_close_matches("family", [str(key) for key in settings], n=1, cutoff=0.7)
        if near:
            return Problem(
                (*path, near[0]),
                f"there is no such key; {one_of}, by the key family. Did you mean 'family'?",
            )
        return Problem((*path, "family"), f"is missing; {one_of}.")
    return Problem(
        (*path, "family"),
        f"{one_of}; got {received(settings['family'])}.{did_you_mean(settings['family'], known)}",
    )


def _read_product(
    settings: dict[str, Any], path: KeyPath, places: Iterable[KeyPath]
) -> tuple[dict[str, Any] | None, list[Problem]]:
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
            "expected a list of bias models, each a section [[bias.factors]] with a family "
            "of its own"
        )
        got = (
            f"is missing; {expected}" if factors is None else f"{expected}; got {received(factors)}"
        )
        return None, [*problems, Problem((*path, "factors"), f"{got}.")]
    read = [
        read_bias_settings(each, (*path, "factors", number), places)
        for number, each in enumerate(factors)
    ]
    problems += [problem for _, found in read for problem in found]
    if problems:
        return None, problems
    return {"family": "product", "factors": [filled for filled, _ in read]}, []
