"""A forecast, as `forecast.json` holds it, becomes a panel of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unskew.errors import DataError
from unskew.report.summary.plain import plain_value, rounded
from unskew.report.summary.privacy import (
    SMALLEST_CELL,
    hidden_cells,
    private_population,
    private_sentences,
    shown_size,
    without_counts,
)
from unskew.report.summary.record import ForecastArm, ForecastClass, ForecastPanel, Number, Privacy

_NO_INTERVAL = (None, None)


def show_forecast(record: Mapping[str, Any], privacy: Privacy = "full") -> ForecastPanel:
    """Return the panel of a forecast.

    With ``privacy = "aggregate"`` the classes are cells of one table by ``class_size``, the groups
    (images, without groups) in each: those withheld are left out, the others lose share and
    effective size; the worst class is the worst of those shown; sizes have two digits, accuracies
    three; sentences that count or name what is withheld are put in general words or left out.

    record : as `unskew forecast` writes it: ``Forecast.to_dict()``, and ``class_size``, ``asked``,
        ``learner_reference`` and ``asked_way``.
    privacy : of the page.
    """
    private = privacy == "aggregate"
    try:
        hidden = _hidden_classes(record) if private else ()
        shown = [name for name in record["class_share"] if name not in hidden]
        panel = ForecastPanel(
            verdict=str(record["verdict"]),
            recommendation=_plain_recommendation(record)
            if private
            else str(record["recommendation"]),
            arms=tuple(_arm(arm, shown, private) for arm in record["arms"]),
            classes=tuple(
                _class(name, record, private)
                for name in shown
                if any(name in arm["by_class"] for arm in record["arms"])
            ),
            # The reason may count images.
            choice=str(record["choice"]["way" if private else "reason"]),
            images=None if private and record["images"] < SMALLEST_CELL else int(record["images"]),
            ess=shown_size(record["ess"], private),
            ess_units=shown_size(record["ess_units"], private),
            design_effect=_size(record["design_effect"], private),
            heavy_share=_heavy_share(record, private),
            pareto_k=_size(record["pareto_k"], private),
            condition=without_counts(private_population(record["condition"]))
            if private
            else str(record["condition"]),
            objection=_objection(record, private),
            fit_p_value=record["fit_p_value"],
            method=str(record["method"]),
            notes=_notes(record, hidden) if private else tuple(map(str, record["notes"])),
            learner=str(record["learner"]),
            asked=tuple(map(str, record["asked"])),
            learner_reference=record["learner_reference"],
            asked_way=record["asked_way"],
            labels=record.get("labels"),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(
            f"this is not a forecast of this version ({type(error).__name__}: {error}); run "
            "`unskew forecast` again."
        ) from error
    plain: ForecastPanel = plain_value(panel)
    return plain


def _hidden_classes(record: Mapping[str, Any]) -> tuple[str, ...]:
    names = list(record["class_share"])
    hidden = hidden_cells([record["class_size"][name] for name in names])
    return tuple(name for name, hide in zip(names, hidden.tolist(), strict=True) if hide)


def _arm(arm: Mapping[str, Any], shown: list[str], private: bool) -> ForecastArm:
    digits = 3 if private else 10
    gain = arm["gain"]
    known = {
        name: arm["by_class"][name]
        for name in shown
        if name in arm["by_class"] and arm["by_class"][name]["value"] is not None
    }
    worst = min(known, key=lambda name: known[name]["value"]) if known else None
    return ForecastArm(
        name=str(arm["name"]),
        accuracy=_rounded(arm["accuracy"]["value"], digits),
        stderr=_rounded(arm["accuracy"]["stderr"], digits),
        interval=_interval(arm["accuracy"], digits),
        gain=None if gain is None else _rounded(gain["value"], digits),
        gain_stderr=None if gain is None else _rounded(gain["stderr"], digits),
        gain_interval=_NO_INTERVAL if gain is None else _interval(gain, digits),
        worst_class=worst,
        worst=None if worst is None else _rounded(known[worst]["value"], digits),
        worst_stderr=None if worst is None else _rounded(known[worst]["stderr"], digits),
        ess=shown_size(arm["ess"], private),
        way=arm["way"],
        ridge=arm["ridge"],
    )


def _class(name: str, record: Mapping[str, Any], private: bool) -> ForecastClass:
    digits = 3 if private else 10
    estimates = [
        arm["by_class"].get(name, {"value": None, "stderr": None}) for arm in record["arms"]
    ]
    return ForecastClass(
        label=str(name),
        share=None if private else _rounded(record["class_share"][name], digits),
        ess=None if private else _rounded(record["class_ess"][name], digits),
        accuracy=tuple(_rounded(estimate["value"], digits) for estimate in estimates),
        stderr=tuple(_rounded(estimate["stderr"], digits) for estimate in estimates),
    )


def _interval(estimate: Mapping[str, Any], digits: int) -> tuple[Number, Number]:
    low, high = estimate["interval"]
    return _rounded(low, digits), _rounded(high, digits)


def _rounded(value: float | None, digits: int) -> Number:
    return None if value is None else rounded(float(value), digits)


def _size(value: float | None, private: bool) -> Number:
    return _rounded(value, 2 if private else 10)


def _heavy_share(record: Mapping[str, Any], private: bool) -> Number:
    """Withhold the share where it is about fewer than ten images."""
    few = math.ceil(record["heavy_share"] * record["images"] - 1e-9) < SMALLEST_CELL
    return None if private and few else _size(record["heavy_share"], private)


def _plain_recommendation(record: Mapping[str, Any]) -> str:
    """Return the verdict and the gain, without classes and counts."""
    gain = record["gain"]
    error = "?" if gain["stderr"] is None else f"{100 * gain['stderr']:.1f}"
    sentence = (
        f"{record['verdict']}: {100 * gain['value']:+.1f} ± {error} points expected for "
        f"{record['learner']}{f' on {features}' if (features := record.get('features')) else ''}"
    ).replace("-", "−")
    return sentence + (
        "; if the bias model holds, to which the test of its fit objects"
        if record["objection"]
        else ""
    )


def _objection(record: Mapping[str, Any], private: bool) -> str | None:
    if record["objection"] is None or not private:
        return None if record["objection"] is None else str(record["objection"])
    return f"The bias model does not describe the sources (p = {record['fit_p_value']:.2g})."


def _notes(record: Mapping[str, Any], hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes without any number: a number there may count what is few."""
    return tuple(
        note
        for note in private_sentences(map(str, record["notes"]), hidden)
        if not any(character.isdigit() for character in note)
    )
