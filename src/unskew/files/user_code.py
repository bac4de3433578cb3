"""Code that a file names: where its module is, whether it may run, and how it is imported.

A configuration or a folder of results may come from a stranger. A module that is found only next to
it, or in the working directory, is imported only if the user allows it by name. The same holds for
installed packages, estimators of scikit-learn excepted: among their thousands of functions are some
that run what they are given (a pickle in the pixels of an image), or do harm without arguments.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Sequence
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
# Of unskew itself, what files may name: the features of the demo.
_OWN = ("unskew.simulation.digits:grey_values",)


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
    *,
    typed: bool = False,
    **facts: Any,
) -> None:
    """Refuse ``module:function`` of ``folders``, the working directory, or an installed package.

    Whoever trusts it names the module in ``allow_code``; it is then found there. Nothing is
    imported here but scikit-learn, whose estimators may be used. Modules that are on PYTHONPATH
    outside of these folders, or that the user imported, may be used, too; what is found nowhere is
    left to `import_reference`. ``typed``: the user wrote it, not a file; installed packages may be
    used.
    """
    module = reference.partition(":")[0]
    top = module.partition(".")[0]
    if not names_function(reference) or top in {*_ALLOWED.folder_of, *sys.stdlib_module_names}:
        return
    places = [os.path.abspath(folder) for folder in (*folders, os.getcwd())]
    on_path = _locations(_find_spec(top, None)) or _script(top)
    if on_path and all(map(_is_installed, on_path)):
        if typed or {top, module, reference} & {*allow_code, *_OWN} or _is_estimator(reference):
            return
        raise not_allowed(reference, top, on_path[0], **facts)
    is_elsewhere = bool(on_path) and not any(_is_inside(file, places) for file in on_path)
    files = on_path or _locations(_find_spec(top, places))
    if is_elsewhere or top in sys.modules or not files:
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
        f"{where}. Code that a configuration or results name runs only if you say so. If you trust "
        f"it, add --allow-code {name} (in Python allow_code=[{name!r}]).",
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


def _is_estimator(reference: str) -> bool:
    """Tell whether this is a class of scikit-learn with ``fit``; a function may download."""
    if reference.partition(".")[0] != "sklearn":
        return False
    from sklearn.base import BaseEstimator

    kind = import_reference(reference)
    return inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")


def _locations(spec: ModuleSpec | None) -> list[str]:
    if spec is None:
        return []
    if spec.has_location and spec.origin:
        return [spec.origin]
    # A namespace package, or else a module that is built in or frozen.
    return list(spec.submodule_search_locations or ()) or [sysconfig.get_path("stdlib")]


def _script(top: str) -> list[str]:
    """Name the file of the script that runs: ``__main__`` has no other place."""
    file = getattr(sys.modules.get(top), "__file__", None)
    return [] if file is None else [file]


def _is_inside(file: str, folders: Iterable[str]) -> bool:
    paths = {Path(os.path.abspath(file)), Path(os.path.realpath(file))}
    roots = {Path(place) for folder in folders for place in (folder, os.path.realpath(folder))}
    return any(path.is_relative_to(root) for root in roots for path in paths)


def _is_installed(file: str) -> bool:
    """Tell whether a file is part of this Python installation, or of unskew.

    A virtual environment may be in a project, and other folders of packages on PYTHONPATH.
    """
    if {"site-packages", "dist-packages"} & set(Path(file).parts[:-1]):
        return True
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    homes = [sysconfig.get_path(name) for name in names] + [str(Path(__file__).parents[1])]
    return _is_inside(file, homes)


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
    if (top := module.partition(".")[0]) in sys.stdlib_module_names:
        raise _of_python(reference, top, facts)
    target: Any = _import_module(reference, module, facts)
    for part in name.split("."):
        if not hasattr(target, part):
            near = did_you_mean(part, dir(target))
            raise ConfigError(
                f"{reference!r}: the module {module!r} exists, but has no {name!r}.{near}", **facts
            )
        target = getattr(target, part)
        if inspect.ismodule(target):
            raise ConfigError(
                f"{reference!r}: {part!r} is a module; its functions are named "
                f"{target.__name__}:function.",
                **facts,
            )
    if not callable(target):
        raise ConfigError(f"{reference!r} is not a function but {type(target).__name__}.", **facts)
    home = str(getattr(target, "__module__", None) or "builtins").partition(".")[0]
    if (inspect.isroutine(target) or inspect.isclass(target)) and home in sys.stdlib_module_names:
        raise _of_python(reference, home, facts)
    return target


def _of_python(reference: str, home: str, facts: dict[str, Any]) -> ConfigError:
    return ConfigError(
        f"{reference!r} belongs to Python's own library ({home}), which is not called on behalf of "
        "a file. Write a function of your own that does what you need.",
        **facts,
    )


def import_elsewhere(name: str) -> ModuleType:
    """Import a package that reads settings in the working directory, from another one.

    Lightning imports matplotlib, which reads ``matplotlibrc`` there, be it a pipe.
    """
    if (known := sys.modules.get(name)) is not None:
        return known
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        return importlib.import_module(name)
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        return importlib.import_module(name)
    finally:
        os.chdir(here)


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
