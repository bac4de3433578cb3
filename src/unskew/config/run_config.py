"""The settings of a run <-> TOML: read, checked, filled in, written again.

Paths are relative to the folder of the file, or to the ``folder`` that the file names. A run writes
its settings beside its results with such a ``folder``, relative to the file itself: the paths stay
as the user wrote them, results and data may be moved together, and whoever has the data elsewhere
changes one line.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unskew.bias.base import Bias
from unskew.config.families import feature_problems, read_bias_settings
from unskew.config.learn_keys import learn_problems
from unskew.config.paths import named_inputs, names_network, path_problems
from unskew.config.problems import (
    Problem,
    config_error,
    problem_of_message,
    problems_of,
    received,
    syntax_error,
    unknown_key,
    wrong_value,
)
from unskew.config.sections import (
    SECTIONS,
    SOURCE_KINDS,
    TARGET_KINDS,
    WITH_FILE_NAMES,
    EngineSection,
    LearnSection,
    ReportSection,
    RepresentSection,
    Section,
    SolveSection,
    SourcesSection,
    TargetSection,
    kind_of,
)
from unskew.config.toml_lines import KeyPath, TomlPosition, locate_keys
from unskew.config.toml_writer import toml_document
from unskew.errors import ConfigError, DataError, InvalidConfigError, did_you_mean, first_few
from unskew.files.atomic import write_text
from unskew.records import Target

# In the order in which data flows, and a file is written.
_ORDER = ("sources", "represent", "target", "bias", "solve", "learn", "report", "engine")


class RunConfig(Section):
    """The settings of a run, checked, with defaults filled in.

    Attributes
    ----------
    folder : where relative paths start, absolute.
    sources, represent, target, bias, solve, learn, report, engine : the sections; ``target`` is
        None where none is given, ``bias`` the settings of its family.
    """

    folder: Path
    sources: SourcesSection
    represent: RepresentSection = RepresentSection()
    target: TargetSection | None = None
    bias: dict[str, Any]
    solve: SolveSection = SolveSection()
    learn: LearnSection = LearnSection()
    report: ReportSection = ReportSection()
    engine: EngineSection = EngineSection()

    def place(self, path: str) -> Path:
        """Where a path of the configuration lies."""
        return self.folder / path

    @property
    def cache(self) -> Path | None:
        """Where computed features are kept; None: nowhere."""
        return self.place(self.represent.cache) if self.represent.cache else None

    def features(self) -> list[Any]:
        """What to compute from each image; the file of a network is named by where it lies."""
        return [
            each | {"model": str(self.place(each["model"]))}
            if isinstance(each, dict) and names_network(each)
            else each
            for each in self.represent.features
        ]

    @property
    def inputs(self) -> dict[str, Path]:
        """The files and folders that the configuration names, by key: ``{"sources.manifest": …,
        "target.table": …}``.
        """
        return {key: self.place(given) for key, given in named_inputs(resolved(self))}

    def read_target(self) -> Target | None:
        """The target, with the tables it names read; a sample is left as the place where it
        lies.
        """
        return (
            None if self.target is None else Target.from_dict(self.target.settings(), self.folder)
        )

    def read_bias(self) -> Bias:
        """The bias model, not fitted."""
        return Bias.from_dict(self.bias)


def read_config(
    path: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    check_paths: bool = True,
) -> RunConfig:
    """Read a configuration; everything wrong with it is one `ConfigError` that gives each problem's
    line.

    Parameters
    ----------
    path : the TOML file.
    folder : where relative paths start; default: where the file says, else the file's own folder.
    check_paths : are the folders and files it names there?
    """
    file, text = os.fspath(path), _read_text(Path(path))
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise syntax_error(file, text, error) from None
    except RecursionError:
        raise ConfigError(
            f"{file} has lists or tables too deep within one another to be read."
        ) from None
    places = locate_keys(text)
    # The folder of a link is where the link lies; beyond it ".." must mean what it means to the
    # system.
    base = Path(os.path.realpath(Path(path).parent))
    config, problems = _checked(settings, base, folder, places, check_paths)
    if config is None:
        raise config_error(file, text, problems, places)
    return config


def make_config(
    settings: Mapping[str, Any], folder: str | os.PathLike[str] = ".", *, check_paths: bool = True
) -> RunConfig:
    """The same from settings that are not in a file."""
    config, problems = _checked(
        dict(settings), Path(os.path.realpath(folder)), None, {}, check_paths
    )
    if config is None:
        raise config_error(None, "", problems, {})
    return config


def with_settings(
    config: RunConfig, name: str, given: Mapping[str, Any], without: Iterable[str] = ()
) -> RunConfig:
    """The configuration with some keys of one section replaced or left out, as the command line
    does; they are checked as in a file.
    """
    if not given:
        return config
    kept = {
        key: value
        for key, value in getattr(config, name).settings().items()
        if key not in set(without)
    }
    section, problems = _read_section(name, SECTIONS[name], kept | dict(given))
    if problems:
        raise config_error(None, "", problems, {})
    return config.model_copy(update={name: section})


def resolved(config: RunConfig) -> dict[str, Any]:
    """All settings as plain values, defaults filled in; paths as they were written, relative to
    ``config.folder``.
    """
    sections = {name: getattr(config, name) for name in _ORDER}
    # Training that nobody asked for is no setting of a run: without it the weights are the same.
    if config.learn == LearnSection():
        del sections["learn"]
    plain = {
        name: each.settings() if isinstance(each, Section) else each
        for name, each in sections.items()
        if each is not None
    }
    return {name: each for name, each in plain.items() if each}


def write_config(
    config: RunConfig, path: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None
) -> None:
    """Write the settings as resolved, whole or not at all; the same settings in the same place give
    the same bytes.

    ``folder`` is written relative to the file (or to ``home``, if it will be moved there), so that
    `read_config` gives the same settings again.
    """
    start = os.path.realpath(Path(path).parent if home is None else home)
    try:
        folder = Path(os.path.relpath(config.folder, start)).as_posix()
    except ValueError:  # another drive of Windows
        folder = config.folder.as_posix()
    write_text(path, toml_document({"folder": folder, **resolved(config)}))


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        beside = [each.name for each in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        near = did_you_mean(path.name, beside) or (
            f" In that folder there is {first_few(sorted(beside))}." if beside else ""
        )
        raise ConfigError(
            f"there is no configuration {str(path)!r}.{near} `unskew init` writes one to start "
            "from."
        ) from None
    except IsADirectoryError:
        raise ConfigError(
            f"{str(path)!r} is a folder, not a configuration. `unskew init` writes one from "
            "folders of images."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"the configuration {str(path)!r} cannot be read ({error.strerror or error})."
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"{path}:{line}: a configuration is UTF-8 text, and byte {error.start} is not. Save "
            "the file as UTF-8."
        )
        raise InvalidConfigError(
            message, [{"file": str(path), "line": line, "key": "", "message": "not UTF-8"}]
        ) from None


def _checked(
    settings: dict[str, Any],
    base: Path,
    folder: str | os.PathLike[str] | None,
    places: Mapping[KeyPath, TomlPosition],
    check_paths: bool,
) -> tuple[RunConfig | None, list[Problem]]:
    """(the configuration or None, everything that is wrong with it)."""
    problems = _unknown_sections(settings)
    start, found = _starting_folder(settings, base, folder)
    problems += found
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        if name in settings:
            sections[name], found = _read_section(name, section, settings[name])
            problems += found
    problems += _lacking_sections(settings)
    if "bias" in settings:
        sections["bias"], found = read_bias_settings(settings["bias"], ("bias",), places)
        problems += found
    if isinstance(settings.get("represent"), dict):
        problems += feature_problems(settings["represent"].get("features"), places)
    if check_paths:
        problems += path_problems(settings, start)
    if sections.get("target") is not None:
        problems += _target_problems(sections["target"], start, places, problems, check_paths)
    if problems:
        return None, problems
    return RunConfig(folder=start, **sections), []


def _unknown_sections(settings: Mapping[str, Any]) -> list[Problem]:
    keys = {name: list(section.model_fields) for name, section in SECTIONS.items()}
    problems = []
    for key, value in settings.items():
        if key in _ORDER or key == "folder":
            continue
        if isinstance(value, Mapping | list):
            problems.append(
                Problem(
                    (key,),
                    "there is no such section; there are "
                    f"{', '.join(_ORDER)}.{did_you_mean(key, _ORDER)}",
                )
            )
        else:
            problems.append(
                unknown_key((key,), ["folder", *(f"[{name}]" for name in _ORDER)], keys)
            )
    return problems


def _lacking_sections(settings: Mapping[str, Any]) -> list[Problem]:
    what = {
        "sources": "is missing: the section that says where the images lie, with one of "
        + ", ".join(SOURCE_KINDS)
        + ".",
        "bias": "is missing: the section that says how the sources select, with family and its "
        "settings.",
    }
    return [Problem((name,), text) for name, text in what.items() if name not in settings]


def _starting_folder(
    settings: Mapping[str, Any], base: Path, folder: str | os.PathLike[str] | None
) -> tuple[Path, list[Problem]]:
    if folder is not None:
        return Path(os.path.realpath(folder)), []
    given = settings.get("folder", "")
    if not isinstance(given, str):
        return base, [
            Problem(
                ("folder",),
                f"expected the folder where relative paths start; got {received(given)}.",
            )
        ]
    start = Path(os.path.realpath(base / given))
    if given and not start.is_dir():
        return base, [
            Problem(
                ("folder",),
                "expected the folder where relative paths start; there is no folder "
                f"{str(start)!r}.",
            )
        ]
    return start, []


def _read_section(
    name: str, section: type[Section], settings: Any
) -> tuple[Section | None, list[Problem]]:
    elsewhere = {each: list(model.model_fields) for each, model in SECTIONS.items()}
    try:
        read, problems = section.model_validate(settings), []
    except ValidationError as error:
        read, problems = None, problems_of(error.errors(), section, settings, (name,), elsewhere)
    kinds = {"sources": SOURCE_KINDS, "target": TARGET_KINDS}.get(name, {})
    if kinds and isinstance(settings, dict):
        problems += _one_kind(name, kinds, settings) or _unsuited(name, kinds, settings)
    if isinstance(read, LearnSection):
        problems += learn_problems(read)
    return (None if problems else read), problems


def _one_kind(name: str, kinds: Iterable[str], settings: Mapping[str, Any]) -> list[Problem]:
    given = [key for key in settings if key in kinds]
    if len(given) == 1:
        return []
    rule = f"expected exactly one of {', '.join(kinds)}"
    if given:
        return [Problem((name, given[1]), f"{rule}; got {' and '.join(given)}.")]
    return [
        Problem(
            (name,),
            f"{rule}; got none of them among {first_few(list(settings)) or 'no keys at all'}.",
        )
    ]


def _unsuited(
    name: str, kinds: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]
) -> list[Problem]:
    """Keys that go with another kind, and values that do."""
    kind = kind_of(settings, kinds)
    assert kind is not None
    known = SECTIONS[name].model_fields
    problems = [
        Problem((name, key), f"does not go with {kind}, with which go {', '.join(kinds[kind])}.")
        for key in settings
        if key in known and key != kind and key not in kinds[kind]
    ]
    if name == "sources" and kind not in WITH_FILE_NAMES:
        problems += [
            wrong_value(
                (name, key),
                "the name of a column",
                settings[key],
                f"there are no file names in {kind}",
            )
            for key in ("label", "group", "split")
            if isinstance(settings.get(key), dict) and "regex" in settings[key]
        ]
    if name == "sources" and kind != "folders":
        problems += [
            wrong_value(
                (name, key),
                "the name of a column",
                False,
                "only of folders, which else are classes or splits",
            )
            for key in ("label", "split")
            if settings.get(key) is False
        ]
    return problems


def _target_problems(
    section: TargetSection,
    folder: Path,
    places: Mapping[KeyPath, TomlPosition],
    before: Iterable[Problem],
    check_paths: bool,
) -> list[Problem]:
    """What `Target` itself finds. What is wrong inside a file it reads is the data's fault, and is
    said when that is read.
    """
    settings = section.settings()
    reads_files = section.sample is None and bool(named_inputs({"target": settings}))
    if reads_files and (not check_paths or any(each.path[0] == "target" for each in before)):
        return []
    try:
        Target.from_dict(settings, folder)
    except DataError as error:
        return [] if reads_files else [problem_of_message(("target",), str(error), places)]
    except (ValueError, TypeError, AttributeError) as error:
        return [problem_of_message(("target",), str(error), places)]
    return []
