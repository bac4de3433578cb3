"""A bias model <-> the ``[bias]`` part of a configuration: plain values that TOML and JSON can
hold.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from unskew.bias.base import Bias
from unskew.errors import ConfigError, did_you_mean, first_few


def families() -> dict[str, type[Bias]]:
    """Every bias model by its family name, those of the user among them."""
    import unskew.bias  # noqa: F401  (defines the families)

    found: dict[str, type[Bias]] = {}
    waiting = list(Bias.__subclasses__())
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each.family:
            found[each.family] = each
    return dict(sorted(found.items()))


def read_bias(settings: Any) -> Bias:
    """The model that the settings describe."""
    if not isinstance(settings, Mapping) or not isinstance(settings.get("family"), str):
        raise ConfigError(
            "a bias model says which family it is: family = one of "
            f"{first_few(list(families()), 12)}; got {settings!r}."
        )
    name = settings["family"]
    known = families()
    if name not in known:
        raise ConfigError(
            f"there is no family {name!r}; there are "
            f"{first_few(list(known), 12)}.{did_you_mean(name, known)}"
        )
    given = {key: value for key, value in settings.items() if key != "family"}
    if name == "product":
        return known[name](*[read_bias(each) for each in _factors(given)])
    allowed = [each.name for each in fields(known[name])]  # type: ignore[arg-type]
    unknown = [key for key in given if key not in allowed]
    if unknown:
        raise ConfigError(
            f"the family {name!r} has no setting {first_few(unknown)}; it has "
            f"{first_few(allowed, 12)}.{did_you_mean(unknown[0], allowed)}"
        )
    lacking = [
        each.name
        for each in fields(known[name])  # type: ignore[arg-type]
        if each.default is MISSING and each.name not in given
    ]
    if lacking:
        raise ConfigError(f"the family {name!r} needs the setting {first_few(lacking)}, too.")
    _check_kinds(known[name], given)
    try:
        return known[name](**given)
    except TypeError as error:
        raise ConfigError(
            f"a setting of the family {name!r} has a value of the wrong kind ({error}); got "
            f"{given!r}."
        ) from error


def _check_kinds(model: type[Bias], given: Mapping[str, Any]) -> None:
    """A setting has a value of the same kind as its default; names of columns are text. (A whole
    number is a number; 1 is not true.)
    """
    for each in fields(model):  # type: ignore[arg-type]
        if each.name not in given:
            continue
        value, default = given[each.name], each.default
        expected = next((words for kind, words in _KINDS.items() if isinstance(default, kind)), "")
        is_flag, is_whole = isinstance(value, bool | np.bool_), isinstance(value, Integral)
        is_right = {
            "true or false": is_flag,
            "a whole number": is_whole and not is_flag,
            "a number": isinstance(value, Real) and not is_flag,
        }
        if each.name == "features":
            expected = "a list of column names"
            is_right[expected] = isinstance(value, list | tuple) and all(
                isinstance(name, str) for name in value
            )
        if each.name == "reference":
            expected = "the name of a source"
            is_right[expected] = (
                value is None or isinstance(value, str) or (is_whole and not is_flag)
            )
        if not is_right.get(expected, True):
            raise ConfigError(
                f"the setting {each.name} of the family {model.family!r} has a value of the wrong "
                f"kind: it is {expected}; got {value!r}."
            )


# bool before int: True is an int, too.
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def _factors(given: Mapping[str, Any]) -> list[Any]:
    factors = given.get("factors")
    if set(given) != {"factors"} or not isinstance(factors, list | tuple) or not factors:
        raise ConfigError(
            "the family 'product' has one setting, factors, a list of bias models; got "
            f"{dict(given)!r}."
        )
    return list(factors)


def written_bias(model: Bias) -> dict[str, Any]:
    """The settings that are not at their default, and the family."""
    if len(getattr(model, "factors", ())):
        return {"family": model.family, "factors": [written_bias(each) for each in model.factors]}  # type: ignore[attr-defined]
    return {"family": model.family} | {
        name: _plain(value, f"{model.family}.{name}") for name, value in model.settings().items()
    }


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, where) for each in value]
    if callable(value):
        return function_name(value)
    raise ConfigError(
        f"{where} holds a {type(value).__name__}, which a configuration cannot hold. Give columns, "
        "or a function as module:function."
    )


def function_name(function: Callable[..., Any]) -> str:
    """``module:function``; an error for what has no such name (a lambda, a function inside
    another).
    """
    module, name = (
        getattr(function, "__module__", None),
        getattr(function, "__qualname__", "<lambda>"),
    )
    if module in (None, "__main__") or "<" in name:
        raise ConfigError(
            f"the function {name} has no name that a configuration could hold. Define it at the "
            "top level of a module that can be imported."
        )
    return f"{module}:{name}"


def names_function(given: Any) -> bool:
    """Is it a text of the form ``module:function`` (and not a column or a query that happens to
    hold a colon)?
    """
    return (
        isinstance(given, str)
        and all(part.isidentifier() for part in given.replace(":", ".", 1).split("."))
        and ":" in given
    )


def import_function(text: Any) -> Callable[..., Any]:
    """The function that ``module:function`` names."""
    module, _, name = str(text).partition(":")
    if not names_function(text):
        raise ConfigError(f"a function is named module:function; got {text!r}.")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{text!r} cannot be found ({error}). Is the module installed, or on PYTHONPATH?"
        ) from error
    if not callable(found):
        raise ConfigError(f"{text!r} is a {type(found).__name__}, not a function.")
    return found  # type: ignore[no-any-return]
