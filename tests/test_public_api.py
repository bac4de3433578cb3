"""The public names and their signatures: a change is deliberate, and shows in `public_api.txt`.

``python tests/test_public_api.py`` writes the list again.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unskew

LIST = Path(__file__).with_name("public_api.txt")
MODULES = ("unskew", "unskew.bias", "unskew.learn", "unskew.represent", "unskew.scenarios")


def _signature(thing: Any) -> str:
    """Write a signature without annotations; defaults that have no stable text as ``…``."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    shown = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if default is not inspect.Parameter.empty and " at 0x" in repr(default):
            default = "…"
        shown.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))


def _members(kind: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that we define, inherited ones, too."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("unskew.")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    for name in sorted(names):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            yield f"    .{name}"
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            yield f"    .{name}{_signature(getattr(kind, name))}"


def _lines() -> Iterator[str]:
    for dotted in MODULES:
        module = importlib.import_module(dotted)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if inspect.isclass(thing):
                is_error = issubclass(thing, BaseException)
                yield f"{dotted}.{name}{'' if is_error else _signature(thing)}"
                yield from _members(thing)
            elif callable(thing):
                yield f"{dotted}.{name}{_signature(thing)}"
            else:
                yield f"{dotted}.{name}"


def test_the_public_names_and_signatures_are_those_of_the_list() -> None:
    assert list(_lines()) == LIST.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("dotted", MODULES)
def test_every_public_name_is_shown_by_dir_and_has_a_docstring(dotted: str) -> None:
    module = importlib.import_module(dotted)
    for name in module.__all__:
        assert name in dir(module)
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), f"{dotted}.{name} has no docstring"


def test_every_error_and_warning_is_public() -> None:
    from unskew import errors

    kinds = {
        name
        for name, thing in vars(errors).items()
        if inspect.isclass(thing) and issubclass(thing, BaseException)
    }
    assert kinds <= set(unskew.__all__)


def test_the_version_is_in_one_place() -> None:
    from importlib.metadata import version

    assert unskew.__version__ == version("unskew")


if __name__ == "__main__":
    LIST.write_text("\n".join(_lines()) + "\n", encoding="utf-8")
