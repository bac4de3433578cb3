"""The ways to define a target by facts, and their options, checked before any pool is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from unskew.engine.arguments import LevelName
from unskew.errors import ConfigError, DataError, did_you_mean, first_few, wrong_option
from unskew.records import Pool, Target
from unskew.records.levels import MISSING, level_text
from unskew.target.facts import Distribution, cell_text, check_edges, read_margin, read_target_table
from unskew.target.margin_set import name_bounds, only_fact
from unskew.target.mass_covariance import mass_error

if TYPE_CHECKING:
    import pandas as pd

_CHOICES = {
    "outside": ("keep", "drop"),
    "missing": ("error", "level", "drop", "keep"),
    "unit": ("image", "group"),
    "uncovered": ("error", "restrict"),
}


OPTIONS = ("bins", "outside", "missing", "unit", "uncovered")
# Of targets of known masses only.
WITHIN = "within"


def uniform_target(by: str | Sequence[str], options: Mapping[str, Any]) -> Target:
    return Target(
        kind="uniform",
        **read_target_options(_attributes([by] if isinstance(by, str) else by), options),
    )


def margins_target(
    margins: Mapping[str, Any], interactions: pd.DataFrame | str | None, options: Mapping[str, Any]
) -> Target:
    value: Any = margins  # of any kind where it comes from a user
    if not isinstance(value, Mapping):
        raise wrong_option(
            "margins is a table {attribute: {level: number}}, such as {'label': {'cat': 0.6, "
            "'dog': 0.4}}",
            margins=value,
        )
    if not margins:
        raise ConfigError(
            "margins is empty: pass at least one, as {attribute: {level: number}}.",
            option="margins",
        )
    for name, margin in value.items():
        _refuse_joint(name, margin)
    options, within = _without_set(options)
    read = read_target_options(_attributes(margins), options)
    facts = tuple(
        read_margin(name, margin, read["bins"].get(name)) for name, margin in margins.items()
    )
    table = _read_interactions(interactions, read)
    made = _checked(Target(kind="margins", facts=facts, interactions=table, **read))
    return _with_set(made, within)


def _refuse_joint(name: Any, margin: Any) -> None:
    """Refuse the joint distribution of several attributes, which margins cannot hold."""
    names: list[str] = []
    if isinstance(name, tuple):
        names = [str(part) for part in name]
    elif isinstance(name, str) and isinstance(margin, Mapping) and margin:
        sign = next((mark for mark in ("*", "×") if mark in name), None)
        mass = margin.get("mass")
        levels = mass if isinstance(mass, Mapping) else margin
        if sign and all(sign in str(level) or isinstance(level, tuple) for level in levels):
            names = [part.strip() for part in name.split(sign)]
    if names:
        columns = ", ".join([*names, "mass"])
        raise ConfigError(
            f"margins has one attribute for each key; {name!r} is a joint distribution, which "
            f"Target.table(frame) takes, with the columns {columns} ([target] table in a "
            "configuration).",
            option="margins",
            value=name,
            attributes=names,
        )


def _read_interactions(
    interactions: pd.DataFrame | str | None, read: Mapping[str, Any]
) -> Distribution | Literal["pool"] | None:
    """Read a table, "pool", or "within", which is what None means."""
    if interactions is None or isinstance(interactions, str):
        if interactions in (None, "within"):
            return None
        if interactions == "pool":
            return "pool"
        raise wrong_option(
            "interactions is 'within' (the odds ratios that the sources share), 'pool' (those of "
            "all images together), or a joint table",
            interactions=interactions,
            allowed=["within", "pool"],
        )
    return read_target_table(interactions, read["by"], read["bins"])


def table_target(
    table: pd.DataFrame, by: Sequence[str] | None, n: float | None, options: Mapping[str, Any]
) -> Target:
    options, within = _without_set(options)
    bins = {
        name: check_edges(name, edges)
        for name, edges in _by_attribute("bins", options.get("bins"), tuple(by or ("age",))).items()
    }
    fact = read_target_table(table, by, bins, n)
    read = read_target_options(fact.by, options)
    return _with_set(_checked(Target(kind="table", facts=(fact,), **read)), within)


def _without_set(options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Take the set of margins out of the options."""
    return {name: value for name, value in options.items() if name != WITHIN}, options.get(WITHIN)


def _with_set(target: Target, within: Any) -> Target:
    if within is None:
        return target
    return replace(target, within=name_bounds(only_fact(target), within))


def sample_target(sample: Pool | str, holdout: float) -> Target:
    return Target(kind="sample", reference=sample, holdout=_read_holdout(holdout))


def source_target(name: LevelName, holdout: float) -> Target:
    return Target(kind="source", reference=level_text(name), holdout=_read_holdout(holdout))


def _attributes(by: Any) -> tuple[str, ...]:
    names = tuple(by)
    if (
        not names
        or len(set(names)) < len(names)
        or not all(isinstance(name, str) for name in names)
    ):
        raise wrong_option("by names one or more attributes, each once, as text", by=list(names))
    return names


def _read_holdout(holdout: Any) -> float:
    if not isinstance(holdout, Real) or not 0 <= float(holdout) < 1:
        raise wrong_option(
            "holdout is the share of the reference that judges and does not fit, at least 0 and "
            "below 1",
            holdout=holdout,
        )
    return float(holdout)


def read_target_options(by: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a target of masses; return the fields of `Target` that they fill."""
    for option in options:
        if option not in OPTIONS:
            raise ConfigError(
                f"a target has no option {option!r}; it has "
                f"{first_few(OPTIONS)}.{did_you_mean(option, OPTIONS)}",
                option=option,
                allowed=list(OPTIONS),
            )
    per_attribute = {
        option: _by_attribute(option, options.get(option), by)
        for option in ("bins", "outside", "missing")
    }
    for option, settings in per_attribute.items():
        for name in settings:
            if name not in by:
                raise ConfigError(
                    f"{option} names {name!r}, which is no attribute of the target; it has "
                    f"{first_few(by)}.{did_you_mean(name, by)}",
                    option=option,
                    column=name,
                    columns=list(by),
                )
    return {
        "by": by,
        "bins": {name: check_edges(name, edges) for name, edges in per_attribute["bins"].items()},
        "outside": {
            name: _read_outside(name, rule) for name, rule in per_attribute["outside"].items()
        },
        "missing": {
            name: _choice("missing", rule, f" for {name!r}")
            for name, rule in per_attribute["missing"].items()
        },
        "unit": _choice("unit", options.get("unit", "image")),
        "uncovered": _choice("uncovered", options.get("uncovered", "error")),
    }


def _by_attribute(option: str, value: Any, by: tuple[str, ...]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{option} is set for each attribute: {option}={{{by[0]!r}: {value!r}}}; got "
            f"{value!r}.",
            option=option,
            value=value,
        )
    return dict(value)


def _read_outside(name: str, rule: Any) -> str | dict[str, str]:
    if isinstance(rule, Mapping):
        return {
            level_text(level): _choice("outside", choice, f" for {name} = {level_text(level)}")
            for level, choice in rule.items()
        }
    return _choice("outside", rule, f" for {name!r}")


def _choice(option: str, value: Any, where: str = "") -> str:
    if value not in _CHOICES[option]:
        raise ConfigError(
            f"{option}{where} is one of {', '.join(map(repr, _CHOICES[option]))}; got {value!r}.",
            option=option,
            value=value,
            allowed=list(_CHOICES[option]),
        )
    return str(value)


def _checked(target: Target) -> Target:
    """Refuse facts and options that contradict one another."""
    for fact in target.facts:
        mass_error(fact)
        for attribute in fact.by:
            _check_scope(target, fact, attribute)
    if isinstance(target.interactions, Distribution):
        _check_interactions(target, target.interactions)
    return target


def _check_scope(target: Target, fact: Distribution, attribute: str) -> None:
    levels = fact.levels(attribute)
    rule = target.outside.get(attribute, {})
    both = [level for level in levels if level in rule] if isinstance(rule, Mapping) else []
    if both:
        raise ConfigError(
            f"the target gives {attribute} = {first_few(both)} a mass, and outside names it, too; "
            "only one of the two can hold.",
            option="outside",
            column=attribute,
            levels=both,
        )
    if MISSING in levels and target.missing.get(attribute) != "level":
        raise ConfigError(
            f"the target gives missing values of {attribute!r} a mass; pass "
            f"missing={{{attribute!r}: 'level'}} if that is intended.",
            option="missing",
            column=attribute,
        )
    edges = target.bins.get(attribute)
    beyond = [level for level in levels if level.startswith(("< ", "> "))] if edges else []
    if beyond:
        raise DataError(
            f"the target gives mass to {attribute} {first_few(beyond)}, beyond its bins "
            f"{list(edges or ())}. Widen the bins.",
            option="bins",
            column=attribute,
            levels=beyond,
        )


def _check_interactions(target: Target, table: Distribution) -> None:
    for fact in target.facts:
        (attribute,) = fact.by
        unknown = [
            level for level in table.levels(attribute) if level not in fact.levels(attribute)
        ]
        if unknown:
            raise DataError(
                f"the table of interactions has {cell_text(fact.by, unknown[:1])}, which the "
                f"margin of {attribute!r} does not name; both must have the same levels.",
                option="interactions",
                column=attribute,
                levels=unknown,
            )
