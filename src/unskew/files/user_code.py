"""Code that a file names: where its module is, whether it may run, and how it is imported.

A configuration or a folder of results may come from a stranger. A module that is found only next to
it, or in the working directory, is imported only if the user allows it by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from unskew.errors import ConfigError, did_you_mean


class _AllowedModules(MetaPathFinder):
    """Finds modules that the user allowed, and nothing else in their folders."""

    def __init__(self) -> None:
        self.folder_of: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = self.folder_of.get(fullname) if path is None else None
        return None if folder is None else PathFinder.find_spec(fullname, [folder])


_ALLOWED = _AllowedModules()


def names_function(text: Any) -> bool:
    """Tell whether a text has the form ``module:function``.

    A column or a query may hold a colon, too.
    """
    if not isinstance(text, str):
        return False
    module, colon, name = text.partition(":")
    return bool(colon) and all(
        part.isidentifier() for part in (*module.split("."), *name.split("."))
    )


def permit_code(
    reference: str,
    allow_code: Collection[str],
    folders: Iterable[str | os.PathLike[str]],
    **facts: Any,
) -> None:
    """Refuse ``module:function`` if the module is in one of ``folders`` or the working directory.

    Whoever trusts it names the module in ``allow_code``; it is then found there. Nothing is
    imported here. What is installed, on PYTHONPATH outside of these folders, or imported already
    may be used; what is found nowhere is left to `import_reference`.
    """
    module = reference.partition(":")[0]
    top = module.partition(".")[0]
    if not names_function(reference) or top in sys.modules or top in _ALLOWED.folder_of:
        return
    places = [os.path.abspath(folder) for folder in (*folders, os.getcwd())]
    on_path = _locations(_find_spec(top, None))
    if on_path and not any(_is_inside(file, places) for file in on_path):
        return
    files = on_path or _locations(_find_spec(top, places))
    if not files:
        return
    if not {top, module, reference} & set(allow_code):
        raise not_allowed(reference, top, files[0], **facts)
    _find_allowed(allow_code, places)


def _find_allowed(allow_code: Collection[str], places: list[str]) -> None:
    """Let the modules be imported that were allowed; what they import may be among them."""
    for name in {entry.partition(":")[0].partition(".")[0] for entry in allow_code}:
        if _find_spec(name, None) is None:
            folders = [folder for folder in places if _find_spec(name, [folder]) is not None]
            _ALLOWED.folder_of |= dict.fromkeys([name][: len(folders)], "".join(folders[:1]))
    if _ALLOWED not in sys.meta_path:
        sys.meta_path.append(_ALLOWED)


def not_allowed(what: str, name: str, file: str | None = None, **facts: Any) -> ConfigError:
    """Say that code must be allowed by name, and how."""
    where = f"{what!r} runs code" + (f" of {file}" if file else "")
    return ConfigError(
        f"{where}. Code that comes with a configuration or with results, or is in the working "
        f"directory, runs only if you say so. If you trust it, add --allow-code {name} (in Python "
        f"allow_code=[{name!r}]).",
        **{"option": "--allow-code", "value": name, "path": file} | facts,
    )


def _find_spec(top: str, folders: list[str] | None) -> ModuleSpec | None:
    """Find a module without running it; ``top`` has no dot, so it has no parent to import."""
    try:
        if folders is None:
            return importlib.util.find_spec(top)
        return PathFinder.find_spec(top, folders)
    except (ImportError, ValueError, OSError):
        return None


def _locations(spec: ModuleSpec | None) -> list[str]:
    if spec is None:
        return []
    if spec.has_location and spec.origin:
        return [spec.origin]
    # A namespace package, or else a module that is built in or frozen.
    return list(spec.submodule_search_locations or ()) or [sysconfig.get_path("stdlib")]


def _is_inside(file: str, folders: Iterable[str]) -> bool:
    """Tell whether a file is in one of the folders, and no part of this Python installation."""
    paths = {Path(os.path.abspath(file)), Path(os.path.realpath(file))}
    if any(path.is_relative_to(home) for home in _installed() for path in paths):
        return False
    roots = {Path(place) for folder in folders for place in (folder, os.path.realpath(folder))}
    return any(path.is_relative_to(root) for root in roots for path in paths)


def _installed() -> Iterator[str]:
    """Name where this Python keeps its modules; a virtual environment may be in a project."""
    yield from (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from site.getsitepackages()
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()


def import_reference(reference: Any, **facts: Any) -> Any:
    """Import what ``module:function`` names: a function or a class, not of Python's own library.

    Python's library has functions that take anything and run it (``subprocess``), and none that is
    of use here.
    """
    facts = {"value": reference} | facts
    if not names_function(reference):
        raise ConfigError(
            f"a function is named module:function, such as my_module:edges; got {reference!r}.",
            **facts,
        )
    module, _, name = reference.partition(":")
    target: Any = _import_module(reference, module, facts)
    for part in name.split("."):
        if not hasattr(target, part):
            near = did_you_mean(part, dir(target))
            raise ConfigError(
                f"{reference!r}: the module {module!r} exists, but has no {name!r}.{near}", **facts
            )
        target = getattr(target, part)
    if not callable(target):
        raise ConfigError(f"{reference!r} is not a function but {type(target).__name__}.", **facts)
    if inspect.isroutine(target) or inspect.isclass(target):
        home = str(getattr(target, "__module__", None) or "builtins").partition(".")[0]
        if home in sys.stdlib_module_names:
            raise ConfigError(
                f"{reference!r} belongs to Python's own library ({home}), which is not called on "
                "behalf of a file. Write a function of your own that does what you need.",
                **facts,
            )
    return target


def _import_module(reference: str, module: str, facts: dict[str, Any]) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        lacking = str(error.name or module).partition(".")[0]
        hint = (
            "Is it installed, or in a folder of PYTHONPATH? Is the name spelled right?"
            if lacking == module.partition(".")[0]
            else f"It imports {lacking!r}: install it, or, if it is a file next to {module!r}, "
            f"add --allow-code {lacking}, too."
        )
        raise ConfigError(
            f"{reference!r}: the module {module!r} cannot be imported ({error}). {hint}", **facts
        ) from error
    # Whatever a module of the user raises is the user's to read.
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{reference!r}: the module {module!r} fails when it is imported: "
            f"{type(error).__name__}: {error}",
            **facts,
        ) from error
