"""Which code a configuration names: functions of modules, files of networks; what may run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unskew.config.problems import Problem, config_error, names_network
from unskew.config.toml_text import KeyPath
from unskew.errors import ConfigError
from unskew.files.user_code import names_function, not_allowed, permit_code

# The sections whose texts may name code, or that of another machine.
CODE_SECTIONS = ("represent", "bias", "learn", "engine")


def code_problems(
    settings: Mapping[str, Any],
    allow_code: Collection[str],
    folders: Iterable[Path],
    sections: Collection[str] = CODE_SECTIONS,
) -> list[Problem]:
    """List code that a file names and the user did not allow.

    That is: modules that `permit_code` refuses; files of networks, which are programs, too;
    functions and loggers that are called with settings of the file, because they may write wherever
    their arguments say; and the scheduler of a cluster, whose answers are objects that run code.
    """
    places, problems = list(folders), []
    for name in sections:
        for path, value in _texts(settings.get(name), (name,)):
            try:
                permit_code(value, allow_code, places)
            except ConfigError as error:
                problems.append(Problem(path, str(error)))
    if "represent" in sections:
        problems += _feature_problems(settings.get("represent"), allow_code, problems)
    engine = settings.get("engine") if "engine" in sections else None
    address = engine.get("address") if isinstance(engine, Mapping) else None
    if isinstance(address, str) and address not in allow_code:
        problems.append(Problem(("engine", "address"), str(not_allowed(address, address))))
    learn = settings.get("learn") if "learn" in sections else None
    if isinstance(learn, Mapping) and learn.get("logger_options"):
        problems += _logger_problems(str(learn.get("logger") or "tensorboard"), allow_code)
    return problems


def _logger_problems(logger: str, allow_code: Collection[str]) -> Iterator[Problem]:
    module = logger.partition(":")[0] if names_function(logger) else "lightning"
    if not {top := module.partition(".")[0], module, logger} & set(allow_code):
        error = not_allowed(f"logger = {logger}", top)
        yield Problem(("learn", "logger_options"), f"a logger is called with settings: {error}")


def refuse_code(
    settings: Mapping[str, Any],
    allow_code: Collection[str],
    folders: Iterable[Path],
    sections: Collection[str] = CODE_SECTIONS,
) -> None:
    """Raise a `ConfigError` with all of `code_problems`, if there are any."""
    problems = code_problems(settings, allow_code, folders, sections)
    if problems:
        raise config_error(None, "", problems, {})


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """List every text of the form ``module:function`` with its key."""
    if names_function(value):
        yield path, value
    pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else ()
    pairs = enumerate(value) if isinstance(value, list | tuple) else pairs
    for key, entry in pairs:
        yield from _texts(entry, (*path, key))


def _feature_problems(
    represent: Any, allow_code: Collection[str], known: Collection[Problem]
) -> Iterator[Problem]:
    features = represent.get("features") if isinstance(represent, Mapping) else None
    named = {problem.path for problem in known}
    for number, feature in enumerate(features if isinstance(features, list | tuple) else ()):
        if not isinstance(feature, Mapping):
            continue
        path: KeyPath = ("represent", "features", number)
        name, model = feature.get("name"), feature.get("model")
        if names_network(feature) and not {model, Path(str(model)).name} & set(allow_code):
            yield Problem((*path, "model"), str(not_allowed(str(model), str(model))))
        if not names_function(name) or not set(feature) - {"name", "reduced"}:
            continue
        module = str(name).partition(":")[0]
        top = module.partition(".")[0]
        if (*path, "name") not in named and not {top, module, name} & set(allow_code):
            yield Problem(
                (*path, "name"), f"is called with settings: {not_allowed(str(name), top)}"
            )
