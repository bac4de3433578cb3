"""Annotations are read as rules, also where their types are not loaded."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import unskew
from unskew.engine import annotation_rules, arguments
from unskew.engine.annotation_rules import Limits


def test_limits_are_said_in_words() -> None:
    assert str(Limits(above=0, below=1)) == "above 0 and below 1"
    assert str(Limits(at_least=1, at_most=10**6)) == "of at least 1 and at most 1,000,000"


def _checked_functions() -> Iterator[Any]:
    """Yield the functions under every `checked`, of all modules."""
    for module in pkgutil.walk_packages(unskew.__path__, "unskew."):
        if module.name.endswith("__main__"):
            continue
        for thing in list(vars(importlib.import_module(module.name)).values()):
            own = isinstance(thing, type) and thing.__module__ == module.name
            for member in vars(thing).values() if own else [thing]:
                function = getattr(member, "__func__", member)
                code = getattr(function, "__code__", None)
                if isinstance(function, FunctionType) and code.co_filename == arguments.__file__:
                    yield inspect.unwrap(function)


def test_names_of_types_that_are_not_loaded_are_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alias that is imported for types only would be taken for a class and refuse all values."""
    unloaded: list[str] = []
    known = annotation_rules.Names.__missing__

    def missing(self: Any, name: str) -> Any:
        if not hasattr(annotation_rules.builtins, name):
            unloaded.append(name)
        return known(self, name)

    monkeypatch.setattr(annotation_rules.Names, "__missing__", missing)
    functions = {function for function in _checked_functions() if "wrapper" not in repr(function)}
    assert len(functions) > 150
    for function in functions:
        unloaded.clear()
        arguments._Rules(function)
        for name in unloaded:
            kind = _imported(function.__module__, name)
            is_class = isinstance(kind, type | ModuleType) or name in annotation_rules._KINDS
            assert is_class, f"{function.__qualname__}: {name}"


def _imported(module: str, name: str) -> Any:
    """Return what a module imports under that name, for types or not."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if (alias.asname or alias.name.split(".")[0]) == name:
                home = node.module if isinstance(node, ast.ImportFrom) else alias.name
                found = importlib.import_module(str(home))
                return getattr(found, alias.name) if isinstance(node, ast.ImportFrom) else found
    return None
