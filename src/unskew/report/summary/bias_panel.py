"""The bias model in words: what was assumed, what estimated, where c(z) comes from, and whether the
sources look as it expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unskew.errors import UnskewError
from unskew.report.summary.columns_against_target import Described
from unskew.report.summary.omega_curves import draw_curves
from unskew.report.summary.record import BiasPanel, FitRow
from unskew.report.summary.weighted_pool import Weighed
from unskew.report.summary.wording import private_sentences, without_counts

_MOST_PARAMETERS = 200
_REPLICATES = 999
_FEWEST_REPLICATES = 99
# Signs of the multiplier bootstrap (replicates × images) and influence functions (images × sources
# × thresholds) held in memory at once.
_MOST_SIGNS = 2e7
_MOST_INFLUENCES = 3e7
_THRESHOLDS = 15
_NO_MODEL = "The biasing functions were handed in as numbers; what they rest on is not known here."


def show_bias(
    weighed: Weighed, described: list[Described], fit: Any, fit_note: str, hidden: Sequence[str]
) -> tuple[BiasPanel, str]:
    """(the panel, a note on its curves); ``hidden``: names of strata that are withheld."""
    shown = None if weighed.fitted is None else weighed.fitted.describe()
    curves, note = draw_curves(weighed, described)
    private = weighed.private
    sentences = (lambda given: private_sentences(given, hidden)) if private else tuple
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
        fit_message=fit_note if fit is None else _fit_message(fit, private),
        fit_rows=() if fit is None else _fit_rows(fit, private),
    )
    return panel, note


def run_fit_check(weighed: Weighed, seed: int) -> tuple[Any, str]:
    """(`FitCheck` of all images or None, why it was not run)."""
    replicates = affordable_replicates(weighed.n, len(weighed.names))
    if replicates == 0:
        return (
            None,
            "Not tested, for it would take too much memory for data of this size: weigh a part of "
            "the images and call unskew.check_fit.",
        )
    from unskew.bias.fit_check import check_fit

    try:
        fit = check_fit(weighed.pool, weighed.fitted, weighed.weights, n=replicates, seed=seed)
        return fit, ""
    except UnskewError as error:
        return None, f"Not tested: {error}"


def affordable_replicates(n_images: int, n_sources: int) -> int:
    """999 bootstrap replicates, fewer for large data, none where fewer than 99 fit in memory."""
    if n_images * n_sources * _THRESHOLDS > _MOST_INFLUENCES:
        return 0
    replicates = min(_REPLICATES, int(_MOST_SIGNS / n_images))
    return replicates if replicates >= _FEWEST_REPLICATES else 0


def _fit_message(fit: Any, private: bool) -> str:
    if not private or not fit.p_value < 0.05:
        return without_counts(fit.message) if private else fit.message
    worst = min(fit.features, key=lambda each: (each.p_value, -each.statistic))
    return (
        f"The bias model does not describe the sources (p = {fit.p_value:.2g}): "
        f"{worst.feature} "
        f"of `{worst.source}` is off most."
    )


def _fit_rows(fit: Any, private: bool) -> tuple[FitRow, ...]:
    rows = sorted(fit.features, key=lambda each: (each.p_value, each.feature))
    # A threshold is the value of an image, and a level may be a rare one.
    return tuple(
        FitRow(
            each.feature,
            each.p_value,
            each.source,
            "" if private else each.place,
            round(each.excess, 2) if private else each.excess,
        )
        for each in rows[:_MOST_PARAMETERS]
    )


def _parameters(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        full = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _parameters(value, f"{full} · ")
        else:
            yield full, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_value_text(each) for each in value[:20])
    return str(value)
