"""The page of the command line describes every command and option, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from unskew.cli.app import app
from unskew.cli.export import Format

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(
    encoding="utf-8"
)
COMMANDS: dict[str, Any] = {}
for _name, _command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
    # A group such as `unskew simulate` has commands of its own.
    COMMANDS |= {
        f"{_name} {_below}": _subcommand
        for _below, _subcommand in getattr(_command, "commands", {}).items()
    } or {_name: _command}
# Options of every command, described once.
EVERYWHERE = {"--help", "-h"}


def _section(command: str) -> str:
    """Return the text below the command's heading."""
    return re.split(r"^## ", PAGE.partition(f"\n## {command}\n")[2], flags=re.MULTILINE)[0]


def _options(command: str) -> set[str]:
    """Return the options of a command: at least --quiet, which all have."""
    return {
        name
        for option in COMMANDS[command].params
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
    } - EVERYWHERE


def _common() -> str:
    return PAGE.partition("## What all commands have in common")[2].partition("\n## ")[0]


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    headings = set(re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)) - {
        "What all commands have in common"
    }
    assert headings == set(COMMANDS)
    assert set(re.findall(r"^\| \[`([\w -]+)`\]\(#", PAGE, flags=re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_is_named_in_the_section_of_its_command(command: str) -> None:
    section = _section(command)
    long = {name for name in _options(command) if name.startswith("--")}
    short = _options(command) - long
    assert "--quiet" in long
    assert "-q" in short
    assert not {name for name in long if name not in section}
    assert not {name for name in short if f"`{name}`" not in section + _common()}
    # An option in a code span must exist, perhaps on another command that the sentence is about.
    known = set().union(*(_options(name) for name in COMMANDS)) | EVERYWHERE
    assert {
        name
        for span in re.findall(r"`([^`\n]+)`", section)
        for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", span)
    } <= known


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_defaults_and_examples_are_those_of_the_program(command: str) -> None:
    section = _section(command)
    for option in COMMANDS[command].params:
        if (
            option.param_type_name == "option"
            and isinstance(option.default, str | Path)
            and str(option.default)
        ):
            assert f"`{option.default}`" in section
    assert re.search(rf"^unskew {command} ", section, flags=re.MULTILINE)


def test_every_format_of_export_is_named() -> None:
    assert all(f"`{format_.value}`" in _section("export") for format_ in Format)


def test_the_exit_codes_are_those_of_the_program() -> None:
    from unskew.cli import error_messages, stop_signal

    codes = {
        error_messages.DONE,
        error_messages.BUG,
        error_messages.WRONG_CALL,
        error_messages.NOT_IDENTIFIABLE,
        error_messages.UNUSABLE,
        stop_signal.STOPPED,
        *(128 + int(number) for number in stop_signal._SIGNALS),
    }
    assert {
        int(code) for code in re.findall(r"^\| (\d+) \|", _common(), flags=re.MULTILINE)
    } == codes
