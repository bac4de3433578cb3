"""A bias model <-> the ``[bias]`` part of a configuration, as values of TOML and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from unskew.bias.base import Bias
from unskew.errors import ConfigError, did_you_mean, first_few


def families() -> dict[str, type[Bias]]:
    """Return every bias model by its family name, those of the user among them."""
    import unskew.bias

    for name in unskew.bias.__all__:  # each is loaded when it is asked for
        getattr(unskew.bias, name)
    by_name: dict[str, type[Bias]] = {}
    waiting = list(Bias.__subclasses__())
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.family:
            by_name[model.family] = model
    return dict(sorted(by_name.items()))


def read_bias(settings: Any) -> Bias:
    """Make the model that the settings describe."""
    if not isinstance(settings, Mapping) or not isinstance(settings.get("family"), str):
        raise ConfigError(
            "a bias model names its family: family = one of "
            f"{first_few(list(families()), 12)}; got {settings!r}.",
            key="family",
            value=settings,
            allowed=list(families()),
        )
    name = settings["family"]
    known = families()
    if name not in known:
        raise ConfigError(
            f"there is no family {name!r}; there are "
            f"{first_few(list(known), 12)}.{did_you_mean(name, known)}",
            key="family",
            value=name,
            allowed=list(known),
        )
    values = {key: value for key, value in settings.items() if key != "family"}
    if name == "product":
        return known[name](*[read_bias(factor) for factor in _factors(values)])
    _check_keys(known[name], values)
    _check_kinds(known[name], values)
    try:
        return known[name](**values)
    except TypeError as error:
        raise ConfigError(
            f"a setting of the family {name!r} has a value of the wrong kind ({error}); got "
            f"{values!r}.",
            key="family",
            value=values,
        ) from error


def _check_keys(model: type[Bias], values: Mapping[str, Any]) -> None:
    """Refuse unknown settings, and missing ones that have no default."""
    settings = fields(model)  # type: ignore[arg-type]
    allowed = [setting.name for setting in settings]
    unknown = [key for key in values if key not in allowed]
    if unknown:
        raise ConfigError(
            f"the family {model.family!r} has no setting {first_few(unknown)}; it has "
            f"{first_few(allowed, 12)}.{did_you_mean(unknown[0], allowed)}",
            key=unknown[0],
            allowed=allowed,
        )
    lacking = [
        setting.name
        for setting in settings
        if setting.default is MISSING and setting.name not in values
    ]
    if lacking:
        raise ConfigError(
            f"the family {model.family!r} needs the setting {first_few(lacking)}, too.",
            key=lacking[0],
        )


def _check_kinds(model: type[Bias], values: Mapping[str, Any]) -> None:
    """Refuse a value of another kind than its default; names of columns are text."""
    for setting in fields(model):  # type: ignore[arg-type]
        if setting.name not in values:
            continue
        value, default = values[setting.name], setting.default
        expected = next((words for kind, words in _KINDS.items() if isinstance(default, kind)), "")
        is_flag, is_whole = isinstance(value, bool | np.bool_), isinstance(value, Integral)
        is_right = {
            "true or false": is_flag,
            "a whole number": is_whole and not is_flag,
            "a number": isinstance(value, Real) and not is_flag,
        }
        if setting.name == "features":
            expected = "a list of column names"
            is_right[expected] = isinstance(value, list | tuple) and all(
                isinstance(name, str) for name in value
            )
        if setting.name == "reference":
            expected = "the name of a source"
            is_right[expected] = (
                value is None or isinstance(value, str) or (is_whole and not is_flag)
            )
        if not is_right.get(expected, True):
            raise ConfigError(
                f"the setting {setting.name} of the family {model.family!r} has a value of the "
                f"wrong kind: it is {expected}; got {value!r}.",
                key=setting.name,
                value=value,
            )


# bool before int: True is an int, too.
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def _factors(values: Mapping[str, Any]) -> list[Any]:
    factors = values.get("factors")
    if set(values) != {"factors"} or not isinstance(factors, list | tuple) or not factors:
        raise ConfigError(
            "the family 'product' has one setting, factors, a list of bias models; got "
            f"{dict(values)!r}.",
            key="factors",
            value=dict(values),
        )
    return list(factors)


def written_bias(model: Bias) -> dict[str, Any]:
    """Return the family and the settings that are not at their default."""
    if len(getattr(model, "factors", ())):
        factors = [written_bias(factor) for factor in model.factors]  # type: ignore[attr-defined]
        return {"family": model.family, "factors": factors}
    return {"family": model.family} | {
        name: _plain(value, f"{model.family}.{name}") for name, value in model.settings().items()
    }


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if callable(value):
        return function_name(value)
    raise ConfigError(
        f"{where} holds a {type(value).__name__}, which a configuration cannot hold. Give columns, "
        "or a function as module:function.",
        key=where,
        value=type(value).__name__,
    )


def function_name(function: Callable[..., Any]) -> str:
    """Return ``module:function``; a lambda or an inner function has no such name."""
    module, name = (
        getattr(function, "__module__", None),
        getattr(function, "__qualname__", "<lambda>"),
    )
    if module in (None, "__main__") or "<" in name:
        raise ConfigError(
            f"the function {name} has no name that a configuration could hold. Define it at the "
            "top level of a module that can be imported.",
            value=name,
        )
    return f"{module}:{name}"
