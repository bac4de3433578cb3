"""The bias model: its assumptions and estimates, its fit, and omega along each feature."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import UnskewError
from unskew.records import Diagnostics, Floats
from unskew.records.holm import OBJECTION
from unskew.records.levels import level_text
from unskew.report.summary.columns import column_numbers
from unskew.report.summary.privacy import private_sentences, without_counts
from unskew.report.summary.record import BiasPanel, Curve, FitRow
from unskew.report.summary.weighted_pool import Described, WeightedPool, fitted_columns
from unskew.target.facts import bin_labels

if TYPE_CHECKING:
    import pandas as pd

_POINTS = 61
_MOST_FEATURES = 24
_MOST_SOURCES = 12
_MOST_LEVELS = 24


def draw_curves(weighed: WeightedPool, described: list[Described]) -> tuple[tuple[Curve, ...], str]:
    """Return one curve for each feature, and a note if there are more.

    A stratum's factor is drawn as its mean over the target within each level of an attribute, Σ_c
    p_c ω_ck/Σ_c p_c; all other factors together along each feature, the others at the median (or
    most frequent level) of the source whose curve it is.
    """
    if weighed.fitted is None:
        return (), ""
    sources = _largest_sources(weighed)
    curves = [*_strata_curves(weighed, sources), *_feature_curves(weighed, described, sources)]
    if weighed.private:
        # Levels of strata hold counts, and a hard edge is the value of one image.
        curves = [
            curve
            for curve in curves
            if curve.at and all(value for row in curve.omega.values() for value in row)
        ]
    notes = (
        [f"{_MOST_FEATURES} of {len(curves)} features are drawn."]
        if len(curves) > _MOST_FEATURES
        else []
    )
    notes += (
        [f"Curves of the {len(sources)} largest sources are drawn."]
        if len(sources) < len(weighed.names)
        else []
    )
    return tuple(curves[:_MOST_FEATURES]), " ".join(notes)


def _largest_sources(weighed: WeightedPool) -> list[int]:
    size_k = np.bincount(weighed.source_n, minlength=len(weighed.names))
    return sorted(np.argsort(-size_k, kind="stable")[:_MOST_SOURCES].tolist())


def _strata_curves(weighed: WeightedPool, sources: list[int]) -> list[Curve]:
    fitted = weighed.fitted
    if fitted is None or fitted.strata is None:
        return []
    target, curves = fitted.strata.target, []
    with np.errstate(over="ignore"):
        omega_ck = np.exp(fitted.strata.log_factor[:, : len(fitted.names)])
    for attribute, name in enumerate(target.by):
        ordered = bin_labels(fitted.strata.bins[name]) if name in fitted.strata.bins else []
        present = {cell[attribute] for cell in target.strata}
        levels = [level for level in ordered if level in present]
        levels = [*levels, *sorted(present - set(ordered))][:_MOST_LEVELS]
        level_c = np.array([cell[attribute] for cell in target.strata], dtype=object)
        rows = {level: (level_c == level) & (target.mass > 0) for level in levels}
        rows = {level: own_c for level, own_c in rows.items() if own_c.any()}
        mean_lk = np.array(
            [
                np.average(omega_ck[own_c], axis=0, weights=target.mass[own_c])
                for own_c in rows.values()
            ]
        )
        shown = {fitted.names[k]: _scaled(mean_lk[:, k]) for k in sources}
        curves.append(Curve(feature=name, at=(), levels=tuple(rows), omega=shown))
    return curves


def _feature_curves(
    weighed: WeightedPool, described: list[Described], sources: list[int]
) -> list[Curve]:
    fitted = weighed.fitted
    strata = () if weighed.strata is None else weighed.strata.by
    if fitted is None or not fitted.factors:
        return []
    # The columns that hold known ω themselves are no features.
    read = {
        name
        for part in fitted.model.parts
        if part.family not in ("known", "strata")
        for name in part.columns
    }
    names = [
        name
        for name in fitted_columns(weighed)
        if name not in strata and any(name == stem or name.startswith(f"{stem}_") for stem in read)
    ]
    known = {column.column.name: column for column in described}
    curves = []
    for name in names:
        if name in known:
            curve = _curve(weighed, known[name], names, sources)
            curves += [] if curve is None else [curve]
    return curves


def _curve(
    weighed: WeightedPool, described: Described, names: list[str], sources: list[int]
) -> Curve | None:
    fitted = weighed.fitted
    assert fitted is not None
    column = described.column
    at: Any = (
        np.linspace(column.edges[0], column.edges[-1], _POINTS)
        if column.is_number
        else _levels(weighed.frame[column.name])
    )
    omega: dict[str, tuple[float | None, ...]] = {}
    for k in sources:
        frame = _typical_rows(weighed, names, k, len(at))
        frame[column.name] = at
        try:
            log_mk = sum(
                (factor.log_omega(frame) for factor in fitted.factors), np.zeros((len(at), 1))
            )
        except (UnskewError, KeyError, TypeError, ValueError):
            # ω that is known for the pool's own images only, or a function that wants more than a
            # table like this one.
            return None
        top = float(np.max(log_mk[:, k]))
        with np.errstate(under="ignore", invalid="ignore"):
            omega[fitted.names[k]] = _scaled(
                np.exp(log_mk[:, k] - top) if np.isfinite(top) else np.zeros(len(at))
            )
    return Curve(
        feature=column.name,
        at=tuple(map(float, at)) if column.is_number else (),
        levels=() if column.is_number else tuple(map(level_text, at)),
        omega=omega,
    )


def _levels(column: pd.Series[Any]) -> list[Any]:
    """Return the most frequent levels, unchanged."""
    return list(column.value_counts().index[:_MOST_LEVELS])


def _typical_rows(
    weighed: WeightedPool, names: list[str], source: int, n_rows: int
) -> pd.DataFrame:
    """Return ``n_rows`` copies of a typical image of the source."""
    own = np.flatnonzero(weighed.source_n == source)
    rows: pd.DataFrame = weighed.frame.iloc[np.full(n_rows, own[0])].reset_index(drop=True)
    for name in names:
        column = weighed.frame[name].iloc[own]
        number = column_numbers(column)
        common = column.mode()
        value = (
            float(np.nanmedian(number))
            if number is not None and np.isfinite(number).any()
            else common.iloc[0]
            if len(common)
            else None
        )
        rows[name] = [value] * n_rows
    return rows


def _scaled(omega_m: Floats) -> tuple[float | None, ...]:
    top = float(np.max(omega_m))
    if not np.isfinite(top):
        return tuple(None for _ in omega_m)
    return tuple((omega_m / top if top > 0 else omega_m).tolist())


_MOST_PARAMETERS = 200
_NO_MODEL = "The biasing functions were handed in as numbers; what they rest on is not known here."


def show_bias(
    weighed: WeightedPool,
    described: list[Described],
    diagnostics: Diagnostics,
    hidden: Sequence[str],
) -> tuple[BiasPanel, str]:
    """Return the panel and a note on its curves; ``hidden``: names of strata that are withheld."""
    fit = diagnostics.fit
    shown = None if weighed.fitted is None else weighed.fitted.describe()
    curves, note = draw_curves(weighed, described)
    private = weighed.private

    def sentences(texts: Sequence[str]) -> tuple[str, ...]:
        return private_sentences(texts, hidden) if private else tuple(texts)

    panel = BiasPanel(
        family="Known omega" if shown is None else shown.family,
        assumed=(_NO_MODEL,) if shown is None else sentences(shown.assumed),
        estimated=() if shown is None else sentences(shown.estimated),
        anchor="given with the biasing functions" if shown is None else shown.anchor,
        notes=() if shown is None else sentences(shown.notes),
        # Edges of boxes are values of single images, masses of strata may be counts.
        parameters=() if shown is None or private else tuple(_first_parameters(shown.parameters)),
        curves=curves,
        fit_p_value=None if fit is None else fit.p_value,
        fit_message=diagnostics.fit_note if fit is None else _fit_message(fit, private),
        fit_rows=() if fit is None else _fit_rows(fit, private),
        fit_joint=None if fit is None else _fit_joint(fit, private),
        fit_notes=() if fit is None else sentences(fit.notes),
    )
    return panel, note


def _fit_message(fit: Any, private: bool) -> str:
    if not private or not fit.p_value < OBJECTION:
        return without_counts(fit.message) if private else fit.message
    feature, source = worst_of_fit(fit, private)
    return (
        f"The bias model does not describe the sources (p = {fit.p_value:.2g}): {feature} "
        f"of `{source}` is off most."
    )


def worst_of_fit(fit: Any, private: bool) -> tuple[str, str]:
    """Name what is off most, a feature or a product of two, and the source."""
    worst = min(fit.features, key=lambda check: (check.p_value, -check.statistic), default=None)
    joint = fit.joint
    if joint is not None and (worst is None or joint.p_value < worst.p_value):
        # The place may name a rare level.
        return ("all columns together" if private else joint.place), joint.source
    assert worst is not None
    return worst.feature, worst.source


def _fit_joint(fit: Any, private: bool) -> FitRow | None:
    return None if fit.joint is None else _fit_row(fit.joint, ", ".join(fit.joint.columns), private)


def _fit_row(check: Any, feature: str, private: bool) -> FitRow:
    # A threshold is the value of an image, and a level may be a rare one.
    place, excess = ("", round(check.excess, 2)) if private else (check.place, check.excess)
    return FitRow(feature, check.p_value, check.source, place, excess)


def _fit_rows(fit: Any, private: bool) -> tuple[FitRow, ...]:
    rows = sorted(fit.features, key=lambda check: (check.p_value, check.feature))
    return tuple(_fit_row(row, row.feature, private) for row in rows[:_MOST_PARAMETERS])


def _first_parameters(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the first parameters by name, with their values as texts."""
    first = heapq.nsmallest(_MOST_PARAMETERS, _parameters(parameters), key=itemgetter(0))
    for name, value in first:
        yield name, _value_text(value)


def _parameters(parameters: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        full = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _parameters(value, f"{full} · ")
        else:
            yield full, value


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_value_text(entry) for entry in value[:20])
    return str(value)
