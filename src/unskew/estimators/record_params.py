"""Parameters that are plain dataclasses, whose fields a grid search reaches by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from unskew.errors import ConfigError, first_few

_RECORDS = ("bias", "target")


class RecordParams:
    """A base before scikit-learn's: ``bias`` and ``target`` show their fields as parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        With ``deep`` also those of the inner estimator, and the fields of bias and target
        (bias__features).
        """
        params: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        for name in _RECORDS if deep else ():
            record = params[name]
            if is_dataclass(record):
                params |= {
                    f"{name}__{part.name}": getattr(record, part.name)
                    for part in fields(record)
                    if part.init
                }
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        A field of bias or target is set in a copy: they are frozen, and may be shared.
        """
        for name in _RECORDS:
            if name in params:
                setattr(self, name, params.pop(name))
            changed = {
                key.partition("__")[2]: params.pop(key)
                for key in list(params)
                if key.startswith(f"{name}__")
            }
            if changed:
                setattr(self, name, _replaced(getattr(self, name), name, changed))
        super().set_params(**params)  # type: ignore[misc]
        return self


def _replaced(record: Any, name: str, changed: Mapping[str, Any]) -> Any:
    known = (
        [part.name for part in fields(record) if part.init]
        if is_dataclass(record) and not isinstance(record, type)
        else []
    )
    unknown = [key for key in changed if key not in known]
    if unknown:
        raise ConfigError(
            f"Invalid parameter {name}__{unknown[0]}: {name} is {record!r}, whose fields are "
            f"{first_few(known) or 'none'}.",
            option=f"{name}__{unknown[0]}",
            allowed=known,
        )
    return replace(record, **changed)
