"""A target as the ``[target]`` part of a configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Pool, Target
from unskew.target.facts import VALUE_COLUMNS, Distribution

if TYPE_CHECKING:
    import pandas as pd

_KINDS = ("uniform", "margins", "table", "sample", "source")
_OPTIONS = ("bins", "outside", "missing", "unit", "uncovered")
_BESIDE = {
    "uniform": _OPTIONS,
    "margins": ("interactions", *_OPTIONS),
    "table": _OPTIONS,
    "sample": ("holdout",),
    "source": ("holdout",),
}


def read_target(settings: Mapping[str, Any], folder: str | PathLike[str]) -> Target:
    """One of uniform, margins, table, sample or source, and what goes with it."""
    kinds = [kind for kind in _KINDS if kind in settings]
    if len(kinds) != 1:
        raise ConfigError(
            f"[target] needs exactly one of {', '.join(_KINDS)}; got {first_few(kinds) or 'none'} "
            f"among {first_few(list(settings))}."
        )
    (kind,) = kinds
    for key in settings:
        if key != kind and key not in _BESIDE[kind]:
            raise ConfigError(
                f"[target] has {key!r}, which does not go with {kind}; {', '.join(_BESIDE[kind])} "
                f"do.{did_you_mean(key, _BESIDE[kind])}"
            )
    base, given = Path(folder), settings[kind]
    options: dict[str, Any] = {key: settings[key] for key in _OPTIONS if key in settings}
    if kind == "uniform":
        return Target.uniform(given, **options)
    if kind == "margins":
        interactions = (
            _read_joint(settings["interactions"], base)[0] if "interactions" in settings else None
        )
        return Target.margins(
            {name: _read_margin(name, each, base) for name, each in given.items()},
            interactions=interactions,
            **options,
        )
    if kind == "table":
        frame, n = _read_joint(given, base)
        return Target.table(frame, n=n, **options)
    holdout = settings.get("holdout", 0.0)
    return Target.sample(given, holdout) if kind == "sample" else Target.source(given, holdout)


def _read_margin(name: str, given: Any, base: Path) -> Any:
    """``{file = "survey.csv", n = 400}`` becomes masses; everything else is left to
    `Target.margins`.
    """
    if isinstance(given, str):
        given = {"file": given}
    if not isinstance(given, Mapping) or not isinstance(given.get("file"), str):
        return given
    unknown = sorted(set(given) - {"file", "n"})
    if unknown:
        raise ConfigError(
            f"margins.{name} may have file and n; got {first_few(unknown)}. Standard errors are a "
            "column stderr of the file."
        )
    frame = _read_csv(base / given["file"])
    column = (
        name
        if name in frame.columns
        else next((each for each in frame.columns if each not in VALUE_COLUMNS), None)
    )
    values = [each for each in frame.columns if each in VALUE_COLUMNS and each != "stderr"]
    if column is None or len(values) != 1:
        raise DataError(
            f"{given['file']} must have a column {name!r} of levels and one of numbers, called "
            "count, mass, probability or share; its "
            f"columns are {first_few(list(frame.columns), 12)}."
        )
    if frame[column].duplicated().any():
        raise DataError(
            f"{given['file']} names {name} = "
            f"{first_few(frame[column][frame[column].duplicated()].tolist())} twice."
        )
    margin = {"mass": dict(zip(frame[column], frame[values[0]], strict=True)), "n": given.get("n")}
    if "stderr" in frame.columns:
        margin["stderr"] = dict(zip(frame[column], frame["stderr"], strict=True))
    return margin


def _read_joint(given: Any, base: Path) -> tuple[pd.DataFrame, float | None]:
    """A file name, ``{file = …, n = …}``, or ``{by = […], rows = [[level, …, mass], …], n =
    …}``.
    """
    import pandas as pd

    if isinstance(given, str):
        return _read_csv(base / given), None
    if isinstance(given, Mapping) and isinstance(given.get("file"), str):
        return _read_csv(base / given["file"]), given.get("n")
    if not isinstance(given, Mapping) or not {"by", "rows"} <= set(given):
        raise ConfigError(
            f"a joint table is a file, or {{by = [attributes], rows = [[level, …, mass], …]}}; got "
            f"{given!r}."
        )
    if any(len(row) != len(given["by"]) + 1 for row in given["rows"]):
        raise ConfigError(
            f"every row of the joint table has one level for each of {first_few(given['by'])}, "
            "then its mass."
        )
    levels = {name: [row[at] for row in given["rows"]] for at, name in enumerate(given["by"])}
    return pd.DataFrame({**levels, "mass": [row[-1] for row in given["rows"]]}), given.get("n")


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise ConfigError(f"[target] names the file {str(path)!r}, which is not there.")
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
            f"{str(path)!r} cannot be read as a CSV table: {str(error).strip()}."
        ) from error


def written_target(target: Target) -> dict[str, Any]:
    """Plain values; options at their defaults are left out."""
    if target.kind in ("sample", "source"):
        if isinstance(target.reference, Pool):
            raise ConfigError(
                "a sample held in memory cannot be written to a configuration; give Target.sample "
                "the place where it lies."
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
