"""The settings of a run as TOML: read, checked, filled in, written; which of them can change a
result.

Paths are relative to the folder of the file, or to the ``folder`` that the file names. A run writes
its settings next to its results with such a ``folder``, relative to the file itself: the paths stay
as the user wrote them, results and data may be moved together, and who has the data elsewhere
changes one line.
"""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from unskew.bias.base import Bias
from unskew.config.code_references import code_problems
from unskew.config.families import auto_problems, feature_problems, read_bias_settings
from unskew.config.key_rules import Section
from unskew.config.learn_section import LearnSection
from unskew.config.problems import (
    MOST_PROBLEMS,
    Problem,
    config_error,
    named_inputs,
    names_network,
    path_problems,
    received,
    syntax_error,
    unknown_key,
)
from unskew.config.section_reading import (
    engine_problems,
    make_target,
    read_section,
    read_target_tables,
)
from unskew.config.sections import (
    ENGINE_OF_PARTS,
    SECTIONS,
    SOURCE_KINDS,
    EngineSection,
    ReportSection,
    RepresentSection,
    SolveSection,
    SourcesSection,
    TargetSection,
)
from unskew.config.toml_text import (
    KeyPath,
    TomlPosition,
    locate_keys,
    parse_toml,
    read_toml_text,
    toml_document,
)
from unskew.engine.arguments import checked
from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.files.atomic import write_text
from unskew.records import Target

# They say where computed numbers are kept, how fast and on what device a run goes, what is logged,
# how many images may be unreadable, by which columns models are judged, and that a target was
# guessed: they change no result.
_WITHOUT_EFFECT = {
    ("represent", "cache"),
    ("target", "guessed"),
    *(("engine", key) for key in ("jobs", *ENGINE_OF_PARTS) if key != "subsample"),
    ("sources", "tolerance"),
    *(("learn", key) for key in ("device", "by", "memory", "logger", "logger_options")),
}
# The sections that a forecast depends on, and those that a trained model depends on: [report] says
# what is shown of them.
FORECAST_SECTIONS = ("sources", "represent", "target", "targets", "bias", "solve", "engine")
MODEL_SECTIONS = (*FORECAST_SECTIONS, "learn")


def effective_settings(
    settings: Mapping[str, Any], sections: Collection[str] | None = None
) -> dict[str, Any]:
    """Keep the settings that can change a result, in their order; empty sections are dropped.

    settings : {section: {key: value}}, as `unskew.config.run_config.resolved` returns them.
    sections : those that the result in question depends on; default: all.
    """
    effective = {
        name: _effective_keys(name, section) if isinstance(section, Mapping) else section
        for name, section in settings.items()
        if name != "folder" and (sections is None or name in sections)
    }
    return {name: section for name, section in effective.items() if section}


def _effective_keys(name: str, section: Mapping[str, Any]) -> dict[str, Any]:
    if name == "targets":
        return {
            target: _effective_keys("target", keys) if isinstance(keys, Mapping) else keys
            for target, keys in section.items()
        }
    return {key: value for key, value in section.items() if (name, key) not in _WITHOUT_EFFECT}


# In the order in which data flows, and a file is written.
_ORDER = ("sources", "represent", "target", "targets", "bias", "solve", "learn", "report", "engine")


@dataclass(frozen=True)
class _Home:
    """The folder of the file that settings were read from, if any; the same settings are equal."""

    folder: Path | None = field(default=None, compare=False)


class RunConfig(Section):
    """The settings of a run, checked, with defaults filled in.

    Attributes
    ----------
    folder : where relative paths start, absolute.
    sources, represent, target, bias, solve, learn, report, engine : the sections; ``target`` is
        None where none is given, ``bias`` the settings of its family.
    targets : several targets by name, in place of ``target``; the first is the main one.
    """

    folder: Path
    sources: SourcesSection
    represent: RepresentSection = RepresentSection()
    target: TargetSection | None = None
    targets: dict[str, TargetSection] = Field(default_factory=dict)
    bias: dict[str, Any]
    solve: SolveSection = SolveSection()
    learn: LearnSection = LearnSection()
    report: ReportSection = ReportSection()
    engine: EngineSection = EngineSection()
    # Checking the settings makes target and bias model; a run uses them.
    _target: tuple[Any, Target | None] = PrivateAttr(default=(None, None))
    _bias: tuple[Any, Bias | None] = PrivateAttr(default=(None, None))
    _home: _Home = PrivateAttr(default_factory=lambda: _Home())

    @checked
    def place(self, path: str) -> Path:
        """Resolve a path of the configuration."""
        return self.folder / path

    @property
    def cache(self) -> Path | None:
        """Where computed features are kept; None: nowhere."""
        return self.place(self.represent.cache) if self.represent.cache else None

    @property
    def may_keep(self) -> bool:
        """Whether the cache may be written: a file does not choose any folder for it.

        It is inside of the folder of the configuration file, or was a cache before, or the user
        created it, empty.
        """
        return self._may_keep_in(self.cache, "*/settings.json")

    @property
    def block_cache(self) -> Path | None:
        """Where workers keep decoded columns of parts; None: in a temporary folder.

        A folder that the file must not choose, by the rule of ``may_keep``, is none.
        """
        folder = self.place(self.engine.cache) if self.engine.cache else None
        return folder if self._may_keep_in(folder, "??/*.arrow") else None

    def _may_keep_in(self, folder: Path | None, mark: str) -> bool:
        """Tell whether files may be kept there; ``mark`` is what a cache has in it."""
        home = self._home.folder
        if folder is None or home is None:
            return folder is not None
        if Path(os.path.realpath(folder)).is_relative_to(home):
            return True
        is_empty = folder.is_dir() and not any(folder.iterdir())
        return is_empty or any(folder.glob(mark))

    def features(self) -> list[Any]:
        """List what to compute from each image; paths of networks are resolved."""
        return [
            feature | {"model": str(self.place(feature["model"]))}
            if isinstance(feature, dict) and names_network(feature)
            else feature
            for feature in self.represent.computed
        ]

    @property
    def inputs(self) -> dict[str, Path]:
        """The files and folders that the configuration names: ``{"sources.manifest": …}``."""
        return {key: self.place(path) for key, path in named_inputs(resolved(self))}

    def read_target(self) -> Target | None:
        """Make the target, and read the tables that it names; a sample stays a path."""
        if self.target is None:
            return None
        known, target = self._target
        if known == self._target_state():
            return target
        return Target.from_dict(self.target.known_facts(), self.folder)

    @checked
    def for_target(self, name: str | None = None) -> RunConfig:
        """Return the settings with one of several targets alone; None: with the main one.

        Settings with a single [target] stay as they are, and have no names to choose from.
        """
        names = list(self.targets)
        if name is None and not names:
            return self
        if name is not None and name not in self.targets:
            known = first_few(names) if names else "a single [target], which has no name"
            raise ConfigError(
                f"there is no target {name!r}; the configuration has {known}."
                f"{did_you_mean(name, names)}",
                option="--target",
                value=name,
                allowed=names,
            )
        section = self.targets[names[0] if name is None else name]
        return self.model_copy(update={"target": section, "targets": {}})

    def _target_state(self) -> tuple[Any, ...]:
        """Return what a target is made from: its settings, and the files as they are now."""
        assert self.target is not None
        settings = copy.deepcopy(self.target.known_facts())
        files = [self.place(path) for _, path in named_inputs({"target": settings})]
        stamps = [(file, file.stat().st_mtime_ns) for file in files if file.is_file()]
        return settings, stamps

    def read_bias(self) -> Bias:
        """Make the bias model, not fitted."""
        known, model = self._bias
        return model if model is not None and known == self.bias else Bias.from_dict(self.bias)


@checked
def read_config(
    path: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    check_paths: bool = True,
    allow_code: Collection[str] | None = (),
) -> RunConfig:
    """Read and check a configuration; one `ConfigError` lists all problems with their lines.

    Parameters
    ----------
    path : the TOML file.
    folder : where relative paths start; default: what the file says, else the file's own folder.
    check_paths : also check that the folders and files it names exist.
    allow_code : modules and files of networks next to the file, or in the working directory, that
        may run; others are refused. None: nothing is checked, for callers that run nothing.
    """
    file, text = os.fspath(path), read_toml_text(Path(path))
    try:
        settings = parse_toml(text, file)
    except tomllib.TOMLDecodeError as error:
        raise syntax_error(file, text, error) from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{file} cannot be read ({error}).", path=file) from None
    except RecursionError:
        raise ConfigError(
            f"{file} has lists or tables nested too deep to be read.", path=file
        ) from None
    positions = locate_keys(text)
    # A link to the file counts as the file; links in its folder are resolved, so that ".." means
    # what it means to the system.
    base = Path(os.path.realpath(Path(path).parent))
    config, problems = _checked(settings, base, folder, positions, check_paths)
    if config is not None:
        problems = _download_problems(config, base)
    if config is not None and allow_code is not None:
        problems += code_problems(settings, allow_code, [config.folder, base])
    if config is None or problems:
        raise config_error(file, text, problems, positions)
    config._home = _Home(base)
    return config


def _download_problems(config: RunConfig, base: Path) -> list[Problem]:
    """List archives that a file would have fetched into a folder other than its own."""
    cifar = config.sources.cifar
    if not config.sources.download or not cifar:
        return []
    places = list(cifar.values()) if isinstance(cifar, dict) else [cifar]
    return [
        Problem(
            ("sources", "download"),
            f"{place!r} is outside of the folder of the configuration, where nothing is written "
            f"for a file. Fetch it yourself: `unskew describe {config.place(place)} --download`.",
        )
        for place in places
        if not Path(os.path.realpath(config.place(place))).is_relative_to(base)
        and not config.place(place).exists()
    ]


def make_config(
    settings: Mapping[str, Any], folder: str | os.PathLike[str] = ".", *, check_paths: bool = True
) -> RunConfig:
    """Check settings that are not in a file, as `read_config` does."""
    base = Path(os.path.realpath(folder))
    config, problems = _checked(dict(settings), base, None, {}, check_paths)
    if config is None:
        raise config_error(None, "", problems, {})
    return config


def with_settings(
    config: RunConfig, name: str, changes: Mapping[str, Any], without: Iterable[str] = ()
) -> RunConfig:
    """Replace some keys of one section, and drop others, as the command line does.

    The values are checked as in a file.
    """
    if not changes:
        return config
    kept = {
        key: value
        for key, value in getattr(config, name).settings().items()
        if key not in set(without)
    }
    section, problems = read_section((name,), SECTIONS[name], kept | dict(changes))
    if problems:
        raise config_error(None, "", problems, {})
    return config.model_copy(update={name: section})


def resolved(config: RunConfig) -> dict[str, Any]:
    """Convert to plain values: all settings, with defaults, paths as they were written."""
    sections = {name: getattr(config, name) for name in _ORDER}
    # Training that was not asked for is no setting of a run: the weights do not depend on it.
    if config.learn == LearnSection():
        del sections["learn"]
    plain = {
        name: section.settings() if isinstance(section, Section) else section
        for name, section in sections.items()
    }
    plain["targets"] = {name: section.settings() for name, section in config.targets.items()}
    return {name: section for name, section in plain.items() if section}


def write_config(
    config: RunConfig, path: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None
) -> None:
    """Write the resolved settings, atomically; the same settings give the same bytes.

    ``folder`` is written relative to the file (or to ``home``, if it will be moved there), so that
    `read_config` returns the same settings again.
    """
    start = os.path.realpath(Path(path).parent if home is None else home)
    try:
        folder = Path(os.path.relpath(config.folder, start)).as_posix()
    except ValueError:  # another drive of Windows
        folder = config.folder.as_posix()
    write_text(path, toml_document({"folder": folder, **resolved(config)}))


def _checked(
    settings: dict[str, Any],
    base: Path,
    folder: str | os.PathLike[str] | None,
    positions: Mapping[KeyPath, TomlPosition],
    check_paths: bool,
) -> tuple[RunConfig | None, list[Problem]]:
    """Check all sections: (the configuration, or None; its problems)."""
    problems = _unknown_sections(settings)
    start, wrong = _starting_folder(settings, base, folder)
    problems += wrong
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        if name in settings:
            sections[name], wrong = read_section((name,), section, settings[name])
            problems += wrong
    if "targets" in settings:
        sections["targets"], wrong = read_target_tables(settings)
        problems += wrong
    problems += _lacking_sections(settings) + engine_problems(settings)
    model, target = None, None
    if "bias" in settings:
        sections["bias"], model, wrong = read_bias_settings(settings["bias"], ("bias",), positions)
        problems += wrong + auto_problems(settings)
    if isinstance(settings.get("represent"), dict):
        problems += feature_problems(settings["represent"].get("features"), positions)
    if check_paths:
        problems += path_problems(settings, start)
    tables: dict[KeyPath, TargetSection] = {
        ("targets", name): table for name, table in sections.get("targets", {}).items()
    }
    if sections.get("target") is not None:
        tables |= {("target",): sections["target"]}
    for path, table in tables.items():
        target, wrong = make_target(path, table, start, positions, problems, check_paths)
        problems += wrong
    if problems:
        return None, problems
    config = RunConfig(folder=start, **sections)
    config._bias = (copy.deepcopy(config.bias), model)
    if target is not None and config.target is not None:
        config._target = (config._target_state(), target)
    return config, []


def _unknown_sections(settings: Mapping[str, Any]) -> list[Problem]:
    keys = {name: list(section.model_fields) for name, section in SECTIONS.items()}
    known = ["folder", *(f"[{name}]" for name in _ORDER)]
    unknown = {key: value for key, value in settings.items() if key not in (*_ORDER, "folder")}
    return [
        Problem(
            (key,),
            f"there is no such section; there are {', '.join(_ORDER)}.{did_you_mean(key, _ORDER)}",
        )
        if isinstance(value, Mapping | list)
        else unknown_key((key,), known, keys)
        for key, value in islice(unknown.items(), MOST_PROBLEMS)
    ]


def _lacking_sections(settings: Mapping[str, Any]) -> list[Problem]:
    messages = {
        "sources": "is missing: the section that says where the images are, with one of "
        f"{', '.join(SOURCE_KINDS)}.",
        "bias": "is missing: the section that says how the sources select, with family and its "
        'settings; with target.sample family = "auto" chooses.',
    }
    return [Problem((name,), text) for name, text in messages.items() if name not in settings]


def _starting_folder(
    settings: Mapping[str, Any], base: Path, folder: str | os.PathLike[str] | None
) -> tuple[Path, list[Problem]]:
    if folder is not None:
        return Path(os.path.realpath(folder)), []
    written = settings.get("folder", "")
    expected = "expected the folder where relative paths start"
    if not isinstance(written, str):
        return base, [Problem(("folder",), f"{expected}; got {received(written)}.")]
    start = Path(os.path.realpath(base / written))
    if written and not start.is_dir():
        return base, [Problem(("folder",), f"{expected}; there is no folder {str(start)!r}.")]
    return start, []
