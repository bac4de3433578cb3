"""A target as the `[target]` part of a configuration, and in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.reading import read_csv
from unskew.records import Pool, Target
from unskew.records.arrays import Bools
from unskew.records.levels import level_text
from unskew.records.target import THE_TARGET
from unskew.target.building import (
    OPTIONS,
    WITHIN,
    margins_target,
    sample_target,
    source_target,
    table_target,
    uniform_target,
)
from unskew.target.facts import VALUE_COLUMNS, Distribution, cell_text
from unskew.target.interactions import agreement_sentences
from unskew.target.predictions import read_scored_target, written_scored_target

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata

_MISSING = {
    "level": "are a level of their own",
    "drop": "are dropped",
    "keep": "are kept at their pool share",
    "error": "are an error",
}
_INTERACTIONS = {
    None: "that the sources share, whose sampling error enters every interval (a source that "
    "selects by one attribute at a time has the target's)",
    "pool": "of the pool, whose sampling error enters every interval",
}
_OUTSIDE = {"keep": "kept at their pool share", "drop": "dropped"}


def target_sentences(target: Target) -> tuple[str, ...]:
    """Return what was given and what is assumed, before any pool is seen."""
    if target.kind in ("sample", "source"):
        return tuple(_reference(target))
    if target.label_shift is not None:
        return (*target.label_shift.describe(target.by[0]), *_options(target))
    return (*_given(target), *_assumed(target), *_options(target))


def _reference(target: Target) -> list[str]:
    if target.kind == "source":
        sentences = [
            f"The target is the population that source {target.reference} was drawn from; that it "
            "is unbiased is assumed."
        ]
    elif isinstance(target.reference, Pool):
        sentences = [
            f"The target is the population that a sample of {len(target.reference)} images was "
            "drawn from."
        ]
        sentences += _assumed_labels(labels_lacking(target.reference.frame, None, "The sample"))
    else:
        sentences = [
            f"The target is the population that the images in {target.reference} were drawn from."
        ]
    if target.holdout:
        sentences.append(f"{target.holdout:.0%} of the reference is held out to judge.")
    return sentences


def labels_lacking(frame: pd.DataFrame, is_reference: Bools | None, which: str) -> str:
    """Say that the reference has no labels, or how many of its images have none; "" otherwise."""
    if "label" not in frame.columns:
        return f"{which} has no labels"
    lacks_n = frame["label"].isna().to_numpy()
    lacks_n = lacks_n if is_reference is None else lacks_n[is_reference]
    n = int(lacks_n.sum())
    if n == lacks_n.size:
        return f"{which} has no labels"
    return f"{which} has {n} of {lacks_n.size} images without a label" if n else ""


def _assumed_labels(lacking: str) -> list[str]:
    if lacking:
        return [
            f"{lacking}: that the labels follow from the features as in the sources is assumed."
        ]
    return []


def _given(target: Target) -> list[str]:
    if target.kind == "uniform":
        what = (
            f"every level of {target.by[0]}"
            if len(target.by) == 1
            else f"every combination of levels of {' × '.join(target.by)}"
        )
        return [f"In the target, {what} has the same mass."]
    word = "margin" if target.kind == "margins" else "joint distribution"
    parts = "levels" if target.kind == "margins" else "cells"
    sentences = [
        f"Given: the {word} of {fact.name} ({len(fact.cells)} {parts}), {_error(fact)}."
        for fact in target.facts
    ]
    if target.within:
        sets = [f"{level} {low:.3g} to {high:.3g}" for level, (low, high) in target.within.items()]
        sentences.append(f"The masses may be anywhere in a set: {first_few(sets, 12)}.")
    return sentences


def _error(fact: Distribution) -> str:
    if fact.n is not None:
        return (
            f"from a sample of {level_text(fact.n)}, whose multinomial error enters every interval"
        )
    if fact.stderr is not None:
        return (
            "with standard errors, which enter every interval; that they are correlated as "
            "independent errors with a fixed sum is assumed"
        )
    return "taken as exact"


def _assumed(target: Target) -> list[str]:
    if len(target.facts) < 2:
        return []
    table = "of the table given for them"
    if not isinstance(target.interactions, Distribution):
        table = _INTERACTIONS[target.interactions]
    sentences = [
        f"The joint distribution of {' × '.join(target.by)} is not given, only its margins: their "
        f"interactions (odds ratios) are assumed to be those {table}, and the rest is raked."
    ]
    if sum(fact.n is not None or fact.stderr is not None for fact in target.facts) > 1:
        sentences.append("The errors of different margins are assumed to be independent.")
    return sentences


def _options(target: Target) -> list[str]:
    sentences = [
        f"{name} is cut at {', '.join(map(level_text, edges))}."
        for name, edges in target.bins.items()
    ]
    for name, rule in target.outside.items():
        if isinstance(rule, Mapping):
            sentences += [
                f"Outside the target's scope: {name} = {level}, {_OUTSIDE[choice]}."
                for level, choice in rule.items()
            ]
        else:
            sentences.append(f"Levels of {name} outside the target's scope are {_OUTSIDE[rule]}.")
    sentences += [
        f"Missing values of {name} {_MISSING[rule]}." for name, rule in target.missing.items()
    ]
    if target.unit == "group":
        sentences.append(
            "The target counts groups: a group counts once in every stratum it has images in, and "
            "they share that."
        )
    return sentences


def _count_images(strata: TargetStrata, is_one_n: Bools) -> int:
    """Count the images of the rows where ``is_one_n``."""
    return int(is_one_n.sum() if strata.images is None else strata.images[is_one_n].sum())


def strata_sentences(
    target: Target, strata: TargetStrata, n_split_groups: int
) -> tuple[str, tuple[str, ...]]:
    """(which population results describe, all sentences)."""
    sentences = list(target_sentences(target))
    n = _count_images(strata, strata.code >= -1)
    if n_split_groups:
        sentences.append(
            f"{n_split_groups} groups have images in several strata and count once in each."
        )
    if strata.counted is not None and strata.counted.raked is not None:
        common, sources = strata.counted.raked.common, strata.counted.names
        sentences += agreement_sentences(common, strata.disagreement, sources)
    for reason, count in strata.dropped.items():
        sentences.append(f"Dropped: {count} of {n} images, {reason}.")
    for at in np.flatnonzero(~strata.in_scope):
        count = _count_images(strata, strata.code == at)
        sentences.append(
            f"Kept at its pool share, {strata.mass[at]:.4g}: "
            f"{cell_text(strata.by, strata.strata[at])} ({count} images)."
        )
    empty_c = strata.mass == 0
    if empty_c.any():
        names = [cell_text(strata.by, strata.strata[at]) for at in np.flatnonzero(empty_c)]
        count = _count_images(strata, (strata.code >= 0) & empty_c[strata.code])
        sentences.append(f"{count} images get weight 0: the target has no {first_few(names)}.")
    population = _population(target, strata)
    return population, (*sentences, f"Results describe {population}.")


def _population(target: Target, strata: TargetStrata) -> str:
    population = THE_TARGET
    if strata.uncovered:
        names = first_few([f"{name} ({mass:.4g})" for name, mass in strata.uncovered.items()])
        population += f" excluding strata with no images in any source: {names}"
        if len(target.facts) > 1:
            population += ", the other margins taken as unchanged"
    outside = float(strata.mass[~strata.in_scope].sum())
    if outside:
        population += f", with images outside its scope added at their pool share ({outside:.4g})"
    return population


def reference_sentences(target: Target, pool: Pool | pd.DataFrame) -> tuple[str, ...]:
    """Return `target_sentences`, labels that the source lacks and others have, and its size."""
    sentences = target_sentences(target)
    if target.kind == "sample" or not isinstance(pool, Pool):
        return sentences
    at = pool.names.index(str(target.reference))
    if "label" in pool.frame.columns:
        sentences = (
            *sentences,
            *_assumed_labels(labels_lacking(pool.frame, pool.source == at, "That source")),
        )
    return (*sentences, f"That source has {int(pool.sizes[at])} of {len(pool)} images.")


# What is known of the population: exactly one of them, with the keys that go with it.
TARGET_KINDS: dict[str, tuple[str, ...]] = {
    "uniform": OPTIONS,
    "margins": ("interactions", *OPTIONS, WITHIN),
    "table": (*OPTIONS, WITHIN),
    "sample": ("holdout",),
    "source": ("holdout",),
    "predictions": OPTIONS,
}


def read_target(settings: Mapping[str, Any], folder: str | PathLike[str]) -> Target:
    """Read a target of one kind, and the options it allows."""
    kinds = [kind for kind in TARGET_KINDS if kind in settings]
    if len(kinds) != 1:
        raise ConfigError(
            f"[target] needs exactly one of {', '.join(TARGET_KINDS)}; got "
            f"{first_few(kinds) or 'none'} among {first_few(list(settings))}.",
            key="target",
            value=kinds,
            allowed=list(TARGET_KINDS),
        )
    (kind,) = kinds
    allowed = TARGET_KINDS[kind]
    for key in settings:
        if key != kind and key not in allowed:
            raise ConfigError(
                f"[target] has {key!r}, which does not go with {kind}; {', '.join(allowed)} "
                f"do.{did_you_mean(key, allowed)}",
                key=key,
                allowed=list(allowed),
            )
    base, value = Path(folder), settings[kind]
    options: dict[str, Any] = {key: settings[key] for key in (*OPTIONS, WITHIN) if key in settings}
    if kind == "uniform":
        return uniform_target(value, options)
    if kind == "margins":
        interactions = settings.get("interactions", "within")
        if interactions not in ("within", "pool"):
            interactions = _read_joint(interactions, base)[0]
        margins = {name: _read_margin(name, margin, base) for name, margin in value.items()}
        return margins_target(margins, interactions, options)
    if kind == "predictions":
        return read_scored_target(value, base, options)
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
    if not path.is_file():
        raise ConfigError(
            f"[target] names the file {str(path)!r}, which does not exist.", path=str(path)
        )
    # Only an empty field is missing: NA is a country. And 01 is a code, not the number 1.
    frame = read_csv(path, keep_default_na=False, na_values=[""])
    text = read_csv(path, keep_default_na=False, na_values=[""], dtype=str)
    coded = [
        name
        for name in text.columns
        if name not in VALUE_COLUMNS and text[name].str.fullmatch(r"0\d+").any()
    ]
    return frame.assign(**{name: text[name] for name in coded})


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
        written["interactions"] = (
            _written_joint(target.interactions)
            if isinstance(target.interactions, Distribution)
            else target.interactions
        )
    if target.bins:
        written["bins"] = {name: list(edges) for name, edges in target.bins.items()}
    if target.outside:
        written["outside"] = {
            name: rule if isinstance(rule, str) else dict(rule)
            for name, rule in target.outside.items()
        }
    if target.missing:
        written["missing"] = dict(target.missing)
    if target.within:
        written[WITHIN] = {name: list(ends) for name, ends in target.within.items()}
    defaults = {"unit": "image", "uncovered": "error"}
    return written | {
        option: getattr(target, option)
        for option, default in defaults.items()
        if getattr(target, option) != default
    }


def _written_facts(target: Target) -> Any:
    if target.kind == "uniform":
        return list(target.by)
    if target.kind == "predictions":
        return written_scored_target(target)
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
