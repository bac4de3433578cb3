"""A target as the ``[target]`` part of a configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Pool, Target
from unskew.target.building import (
    margins_target,
    sample_target,
    source_target,
    table_target,
    uniform_target,
)
from unskew.target.facts import VALUE_COLUMNS, Distribution

if TYPE_CHECKING:
    import pandas as pd

_KINDS = ("uniform", "margins", "table", "sample", "source")
_OPTIONS = ("bins", "outside", "missing", "unit", "uncovered")
# The keys that each kind of target allows in addition.
_ALLOWED = {
    "uniform": _OPTIONS,
    "margins": ("interactions", *_OPTIONS),
    "table": _OPTIONS,
    "sample": ("holdout",),
    "source": ("holdout",),
}


def read_target(settings: Mapping[str, Any], folder: str | PathLike[str]) -> Target:
    """Read one of uniform, margins, table, sample or source, and the options it allows."""
    kinds = [kind for kind in _KINDS if kind in settings]
    if len(kinds) != 1:
        raise ConfigError(
            f"[target] needs exactly one of {', '.join(_KINDS)}; got {first_few(kinds) or 'none'} "
            f"among {first_few(list(settings))}.",
            key="target",
            value=kinds,
            allowed=list(_KINDS),
        )
    (kind,) = kinds
    for key in settings:
        if key != kind and key not in _ALLOWED[kind]:
            raise ConfigError(
                f"[target] has {key!r}, which does not go with {kind}; {', '.join(_ALLOWED[kind])} "
                f"do.{did_you_mean(key, _ALLOWED[kind])}",
                key=key,
                allowed=list(_ALLOWED[kind]),
            )
    base, value = Path(folder), settings[kind]
    options: dict[str, Any] = {key: settings[key] for key in _OPTIONS if key in settings}
    if kind == "uniform":
        return uniform_target(value, options)
    if kind == "margins":
        interactions = (
            _read_joint(settings["interactions"], base)[0] if "interactions" in settings else None
        )
        margins = {name: _read_margin(name, margin, base) for name, margin in value.items()}
        return margins_target(margins, interactions, options)
    if kind == "table":
        frame, n = _read_joint(value, base)
        return table_target(frame, None, n, options)
    holdout = settings.get("holdout", 0.0)
    return sample_target(value, holdout) if kind == "sample" else source_target(value, holdout)


def _read_margin(name: str, margin: Any, base: Path) -> Any:
    """Read the masses of ``{file = "survey.csv", n = 400}``; return everything else unchanged."""
    if isinstance(margin, str):
        margin = {"file": margin}
    if not isinstance(margin, Mapping) or not isinstance(margin.get("file"), str):
        return margin
    unknown = sorted(set(margin) - {"file", "n"})
    if unknown:
        raise ConfigError(
            f"margins.{name} may have file and n; got {first_few(unknown)}. Standard errors are a "
            "column stderr of the file.",
            key=f"margins.{name}",
            value=unknown,
            allowed=["file", "n"],
        )
    file = margin["file"]
    frame = _read_csv(base / file)
    levels = [column for column in frame.columns if column not in VALUE_COLUMNS]
    column = name if name in frame.columns else next(iter(levels), None)
    values = [other for other in frame.columns if other in VALUE_COLUMNS and other != "stderr"]
    if column is None or len(values) != 1:
        raise DataError(
            f"{file} must have a column {name!r} of levels and one of numbers, called count, mass, "
            f"probability or share; its columns are {first_few(list(frame.columns), 12)}.",
            path=file,
            column=name,
            columns=list(frame.columns),
        )
    twice = frame[column][frame[column].duplicated()].tolist()
    if twice:
        raise DataError(
            f"{file} lists {name} = {first_few(twice)} twice.", path=file, column=name, levels=twice
        )
    masses = {"mass": dict(zip(frame[column], frame[values[0]], strict=True)), "n": margin.get("n")}
    if "stderr" in frame.columns:
        masses["stderr"] = dict(zip(frame[column], frame["stderr"], strict=True))
    return masses


def _read_joint(table: Any, base: Path) -> tuple[pd.DataFrame, float | None]:
    """Read a file name, ``{file = …, n = …}``, or ``{by = […], rows = [[level, …, mass], …]}``."""
    import pandas as pd

    if isinstance(table, str):
        return _read_csv(base / table), None
    if isinstance(table, Mapping) and isinstance(table.get("file"), str):
        return _read_csv(base / table["file"]), table.get("n")
    if not isinstance(table, Mapping) or not {"by", "rows"} <= set(table):
        raise ConfigError(
            f"a joint table is a file, or {{by = [attributes], rows = [[level, …, mass], …]}}; got "
            f"{table!r}.",
            key="table",
            value=table,
        )
    by, rows = table["by"], table["rows"]
    for at, row in enumerate(rows):
        if len(row) != len(by) + 1:
            raise ConfigError(
                f"every row of the joint table has one level for each of {first_few(by)}, then its "
                f"mass; got {row!r}.",
                key="table",
                row=at,
                value=row,
            )
    levels = {name: [row[at] for row in rows] for at, name in enumerate(by)}
    return pd.DataFrame({**levels, "mass": [row[-1] for row in rows]}), table.get("n")


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise ConfigError(
            f"[target] names the file {str(path)!r}, which does not exist.", path=str(path)
        )
    try:
        # Only an empty field is missing: NA is a country. And 01 is a code, not the number 1.
        frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
        text = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=str)
        coded = [
            name
            for name in text.columns
            if name not in VALUE_COLUMNS and text[name].str.fullmatch(r"0\d+").any()
        ]
        return frame.assign(**{name: text[name] for name in coded})
    except (ValueError, OSError) as error:  # empty, ragged, not UTF-8, not to be read
        raise DataError(
            f"{str(path)!r} cannot be read as a CSV table: {str(error).strip()}.", path=str(path)
        ) from error


def written_target(target: Target) -> dict[str, Any]:
    """Return the target as plain values; options at their defaults are left out."""
    if target.kind in ("sample", "source"):
        if isinstance(target.reference, Pool):
            raise ConfigError(
                "a sample held in memory cannot be written to a configuration; give Target.sample "
                "the path of its file or folder.",
                key="sample",
            )
        written: dict[str, Any] = {target.kind: target.reference}
        return written | ({"holdout": target.holdout} if target.holdout else {})
    written = {target.kind: _written_facts(target)}
    if target.interactions is not None:
        written["interactions"] = _written_joint(target.interactions)
    if target.bins:
        written["bins"] = {name: list(edges) for name, edges in target.bins.items()}
    if target.outside:
        written["outside"] = {
            name: rule if isinstance(rule, str) else dict(rule)
            for name, rule in target.outside.items()
        }
    if target.missing:
        written["missing"] = dict(target.missing)
    defaults = {"unit": "image", "uncovered": "error"}
    return written | {
        option: getattr(target, option)
        for option, default in defaults.items()
        if getattr(target, option) != default
    }


def _written_facts(target: Target) -> Any:
    if target.kind == "uniform":
        return list(target.by)
    if target.kind == "table":
        return _written_joint(target.facts[0])
    return {fact.by[0]: _written_margin(fact) for fact in target.facts}


def _written_margin(fact: Distribution) -> dict[str, Any]:
    levels = [cell[0] for cell in fact.cells]
    written: dict[str, Any] = {"mass": dict(zip(levels, fact.mass, strict=True))}
    if fact.n is not None:
        written["n"] = fact.n
    if fact.stderr is not None:
        written["stderr"] = dict(zip(levels, fact.stderr, strict=True))
    return written


def _written_joint(fact: Distribution) -> dict[str, Any]:
    rows = [[*cell, mass] for cell, mass in zip(fact.cells, fact.mass, strict=True)]
    return {"by": list(fact.by), "rows": rows} | ({} if fact.n is None else {"n": fact.n})
