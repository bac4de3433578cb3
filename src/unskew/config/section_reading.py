"""The tables of a file, checked one by one: sections, targets by name, and what goes with what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from unskew.config.key_rules import Section, learn_problems
from unskew.config.learn_section import LearnSection
from unskew.config.problems import (
    Problem,
    named_inputs,
    problem_of_error,
    problems_of,
    received,
    wrong_value,
)
from unskew.config.sections import (
    ENGINE_OF_PARTS,
    KINDS_OF_TARGET,
    PARTS,
    SECTIONS,
    SOURCE_KINDS,
    WITH_FILE_NAMES,
    SourcesSection,
    TargetSection,
    kind_of,
)
from unskew.config.toml_text import KeyPath, TomlPosition
from unskew.errors import ConfigError, UnskewError, first_few
from unskew.records import Target

SectionKind = TypeVar("SectionKind", bound=Section)
_KINDS: dict[type[Section], dict[str, tuple[str, ...]]] = {
    SourcesSection: SOURCE_KINDS,
    TargetSection: KINDS_OF_TARGET,
}
# The name of a target is part of the names of its files.
_TARGET_NAME = re.compile(r"\w[\w-]{0,59}")


def read_section(
    path: KeyPath, section: type[SectionKind], settings: Any
) -> tuple[SectionKind | None, list[Problem]]:
    """Check one table, at ``path`` of the file: (the section, or None; its problems)."""
    elsewhere = {other: list(model.model_fields) for other, model in SECTIONS.items()}
    try:
        read, problems = section.model_validate(settings), []
    except ValidationError as error:
        read, problems = None, problems_of(error.errors(), section, settings, path, elsewhere)
    kinds = _KINDS.get(section, {})
    if kinds and isinstance(settings, dict):
        problems += _one_kind(path, kinds, settings) or _unsuited(path, section, settings)
    if isinstance(read, LearnSection):
        problems += learn_problems(read)
    return (None if problems else read), problems


def _one_kind(path: KeyPath, kinds: Iterable[str], settings: Mapping[str, Any]) -> list[Problem]:
    named = [key for key in settings if key in kinds]
    if len(named) == 1:
        return []
    rule = f"expected exactly one of {', '.join(kinds)}"
    if named:
        return [Problem((*path, named[1]), f"{rule}; got {' and '.join(named)}.")]
    keys = first_few(list(settings)) or "no keys at all"
    return [Problem(path, f"{rule}; got none of them among {keys}.")]


def _unsuited(path: KeyPath, section: type[Section], settings: Mapping[str, Any]) -> list[Problem]:
    """List keys, and values, that do not go with the kind of the section."""
    kinds = _KINDS[section]
    kind = kind_of(settings, kinds)
    assert kind is not None
    known = section.model_fields
    problems = [
        Problem((*path, key), f"does not go with {kind}; its keys are {', '.join(kinds[kind])}.")
        for key in settings
        if key in known and key != kind and key not in kinds[kind]
    ]
    if section is not SourcesSection:
        return problems
    column = "the name of a column"
    if kind not in WITH_FILE_NAMES:
        problems += [
            wrong_value((*path, key), column, settings[key], f"there are no file names in {kind}")
            for key in ("label", "group", "split")
            if isinstance(settings.get(key), dict) and "regex" in settings[key]
        ]
    if kind == PARTS and settings.get("images") is True:
        why = "images behind parts are opened only where [represent] features are computed"
        problems.append(wrong_value((*path, "images"), "false", True, why))
    if kind != "folders":
        why = "false is for folders, whose subfolders are otherwise classes or splits"
        problems += [
            wrong_value((*path, key), column, False, why)
            for key in ("label", "split")
            if settings.get(key) is False
        ]
    return problems


def engine_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """List keys of [engine] that only parts have a use for, where there are none."""
    engine, sources = settings.get("engine"), settings.get("sources")
    if not isinstance(engine, Mapping) or (isinstance(sources, Mapping) and PARTS in sources):
        return []
    return [
        Problem(("engine", key), f"goes with sources.{PARTS}; other sources are read into memory.")
        for key in engine
        if key in ENGINE_OF_PARTS
    ]


def make_target(
    path: KeyPath,
    section: TargetSection,
    folder: Path,
    positions: Mapping[KeyPath, TomlPosition],
    before: Iterable[Problem],
    check_paths: bool,
) -> tuple[Target | None, list[Problem]]:
    """Make the target, and list what it refuses; None: it is made when a run reads its files.

    Errors inside a file that it reads are errors of the data, and raised when that is read.
    """
    settings = section.known_facts()
    reads_files = section.sample is None and bool(named_inputs({"target": settings}))
    if reads_files and (
        not check_paths or any(problem.path[: len(path)] == path for problem in before)
    ):
        return None, []
    try:
        return Target.from_dict(settings, folder), []
    except (ValueError, TypeError, AttributeError) as error:
        of_data = isinstance(error, UnskewError) and not isinstance(error, ConfigError)
        problems = [problem_of_error(path, error, positions)]
        return None, [] if reads_files and of_data else problems


def read_target_tables(
    settings: Mapping[str, Any],
) -> tuple[dict[str, TargetSection], list[Problem]]:
    """Check the tables [targets.NAME]: (the targets by name, in their order; all problems)."""
    tables = settings["targets"]
    if "target" in settings:
        rule = "a run has either [target] alone, or several as [targets.NAME]; got both."
        return {}, [Problem(("targets",), rule)]
    if not isinstance(tables, Mapping) or not tables:
        rule = f"expected a table [targets.NAME] for each target; got {received(tables)}."
        return {}, [Problem(("targets",), rule)]
    read: dict[str, TargetSection] = {}
    problems = _target_names(tables)
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            problems.append(_no_table(name, table))
            continue
        section, wrong = read_section(("targets", name), TargetSection, table)
        problems += wrong
        if section is not None:
            read[name] = section
    return read, problems


def _no_table(name: str, value: Any) -> Problem:
    hint = " A single target is the section [target]." if name in TargetSection.model_fields else ""
    rule = (
        f"expected a table of a target's settings, [targets.{name}]; got {received(value)}.{hint}"
    )
    return Problem(("targets", name), rule)


def _target_names(names: Iterable[str]) -> list[Problem]:
    """List names that cannot be part of a file's name, or differ from another by case alone."""
    problems, seen = [], dict[str, str]()
    for name in names:
        if not _TARGET_NAME.fullmatch(name):
            rule = (
                "the name of a target has letters, digits, - and _, at most 60, because files are "
                "named after it."
            )
            problems.append(Problem(("targets", name), rule))
        elif name.casefold() in seen:
            rule = f"the name differs from {seen[name.casefold()]!r} by case alone."
            problems.append(Problem(("targets", name), rule))
        seen.setdefault(name.casefold(), name)
    return problems
