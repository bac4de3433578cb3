"""What `privacy = "aggregate"` means; the arithmetic is in `unskew.report.summary.suppression`.

Where it holds:

- sources, strata, splits, unreadable images, classes, levels and bins: by `hidden_cells`, one table
  at a time; shares, weights and effective sizes of a withheld cell go with its count. A level of a
  stratum's attribute is shown only if none of its strata is withheld, so that no margin gives a
  cell away; there is no table of sources by anything else.
- levels that fewer than ten have are joined, because their names could identify them; edges of bins
  are round numbers with at least ten images beyond them; maxima and quantiles with fewer than ten
  images on one side are left out; effective sizes have two digits.
- links between sources overlap, so that their differences may be small: their counts are rounded to
  tens.
- sentences lose their counts.

It does not protect against other publications about the same images, nor against columns that
determine one another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from unskew.errors import ConfigError
from unskew.records import Pool
from unskew.report.summary.record import Privacy

PRIVACY_RULE = (
    "Only aggregates are shown: no images, paths or ids. A cell of 1 to 9 groups (images where "
    "there are no groups) is withheld with "
    "everything computed from it; since tables add up to known totals, the next smallest cells are "
    "withheld, too, until at least two "
    "are and have ten or more together. Rare levels are joined, largest weights and outer "
    "quantiles left out, effective sizes rounded "
    "to two digits, counts of links between sources to tens."
)

_WORD = re.compile(r"[\s\"'`,;()\[\]{}<>=|]+")


def check_privacy(privacy: object) -> None:
    """Refuse anything but the two settings."""
    if privacy not in get_args(Privacy):
        raise ConfigError(
            f"privacy is {' or '.join(map(repr, get_args(Privacy)))}; got {privacy!r}.",
            option="privacy",
            value=privacy,
            allowed=list(get_args(Privacy)),
        )


def shown_provenance(
    provenance: Mapping[str, Any] | None, pool: Pool, private: bool
) -> dict[str, Any]:
    """Return the provenance as it may be shown."""
    return private_provenance(provenance or {}, pool) if private else dict(provenance or {})


def private_provenance(provenance: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    """Return the provenance without texts that name an image of the pool, by id, path or group."""
    named: set[str] = set()
    for role in ("id", "path", "group", "content"):
        if role in pool.frame.columns:
            named |= {
                str(text)
                for text in pool.frame[role].dropna().unique().tolist()
                if isinstance(text, str)
            }
    if pool.set_aside is not None:
        named |= {
            str(text)
            for role in ("id", "path")
            if role in pool.set_aside.columns
            for text in pool.set_aside[role].tolist()
        }
    return {
        str(key): _cleaned(value, named)
        for key, value in provenance.items()
        if not _names(str(key), named)
    }


def _cleaned(value: Any, named: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _cleaned(entry, named)
            for key, entry in value.items()
            if not _names(str(key), named)
        }
    if isinstance(value, list | tuple):
        return tuple(_cleaned(entry, named) for entry in value)
    return "(withheld)" if isinstance(value, str) and _names(value, named) else value


def _names(text: str, named: set[str]) -> bool:
    return text in named or any(word in named for word in _WORD.split(text))
