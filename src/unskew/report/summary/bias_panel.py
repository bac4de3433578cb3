"""The bias model: what was assumed and estimated, where c(z) comes from, and how it fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unskew.records import Diagnostics
from unskew.report.summary.columns_against_target import Described
from unskew.report.summary.omega_curves import draw_curves
from unskew.report.summary.record import BiasPanel, FitRow
from unskew.report.summary.weighted_pool import WeightedPool
from unskew.report.summary.wording import private_sentences, without_counts

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
        parameters=()
        if shown is None or private
        else tuple(sorted(_parameters(shown.parameters))[:_MOST_PARAMETERS]),
        curves=curves,
        fit_p_value=None if fit is None else fit.p_value,
        fit_message=diagnostics.fit_note if fit is None else _fit_message(fit, private),
        fit_rows=() if fit is None else _fit_rows(fit, private),
    )
    return panel, note


def _fit_message(fit: Any, private: bool) -> str:
    if not private or not fit.p_value < 0.05:
        return without_counts(fit.message) if private else fit.message
    worst = min(fit.features, key=lambda check: (check.p_value, -check.statistic))
    return (
        f"The bias model does not describe the sources (p = {fit.p_value:.2g}): "
        f"{worst.feature} "
        f"of `{worst.source}` is off most."
    )


def _fit_rows(fit: Any, private: bool) -> tuple[FitRow, ...]:
    rows = sorted(fit.features, key=lambda check: (check.p_value, check.feature))
    # A threshold is the value of an image, and a level may be a rare one.
    return tuple(
        FitRow(
            feature=row.feature,
            p_value=row.p_value,
            source=row.source,
            place="" if private else row.place,
            excess=round(row.excess, 2) if private else row.excess,
        )
        for row in rows[:_MOST_PARAMETERS]
    )


def _parameters(parameters: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in parameters.items():
        full = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _parameters(value, f"{full} · ")
        else:
            yield full, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_value_text(entry) for entry in value[:20])
    return str(value)
