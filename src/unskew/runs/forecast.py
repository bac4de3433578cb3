"""The forecast of a run: `forecast.json`, whether it has the same inputs, its panel on the page."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.effects import FORECAST_SECTIONS, effective_settings
from unskew.errors import DataError, UnskewError, first_few
from unskew.files.atomic import written_together
from unskew.files.plain_json import json_value, write_json
from unskew.report.files import write_summary
from unskew.report.summary.forecast_panel import show_forecast
from unskew.report.summary.plain import plain_value, summary_from_json
from unskew.report.summary.privacy import private_provenance
from unskew.report.summary.record import Summary
from unskew.runs.inputs import Inputs, describe_origin
from unskew.runs.output import FORECAST, PAGE, SUMMARY
from unskew.runs.pipeline import Run
from unskew.runs.probing import forecast_inputs, images_to_train_on

if TYPE_CHECKING:
    from unskew.forecasting.record import Forecast

log = logging.getLogger(__name__)


def forecast_record(
    inputs: Inputs,
    arms: Sequence[str],
    learner: str | None = None,
    *,
    command: str | None = None,
    progress: bool | None = None,
) -> tuple[Forecast, dict[str, Any]]:
    """Return the forecast, and what `forecast.json` contains.

    That is the forecast, the arms and the learner that were asked for, how many groups (images,
    without groups) each class has, and where it comes from.
    """
    forecast = forecast_inputs(inputs, arms, learner, progress=progress)
    origin = describe_origin(inputs, command)
    if inputs.config.report.privacy == "aggregate":
        origin = private_provenance(origin, inputs.pool)
    frame = images_to_train_on(inputs.pool).frame
    unit = frame["group" if "group" in frame.columns else "id"]
    size = {
        str(name): int(count)
        for name, count in unit.groupby(frame["label"].astype(str)).nunique().items()
    }
    record: dict[str, Any] = json_value(
        {
            **forecast.to_dict(),
            "class_size": {name: size.get(name, 0) for name in forecast.class_share},
            "asked": list(arms),
            "learner_reference": learner,
            "provenance": origin,
        }
    )
    return forecast, record


def add_forecast(
    run: Run,
    arms: Sequence[str] = ("naive", "debiased"),
    learner: str | None = None,
    *,
    progress: bool | None = None,
) -> Run:
    """Add a forecast to a run, or a note on its page that says why there is none.

    Weights are never lost because of a forecast.
    """
    try:
        command = run.summary.provenance.get("command")
        _, record = forecast_record(run.inputs, arms, learner, command=command, progress=progress)
        return replace(run, summary=_with_panel(run.summary, record), forecast=record)
    except Exception as error:  # whatever happens in a probe, the weights shall be written
        known = isinstance(error, UnskewError)
        log.warning(
            "no forecast: %s",
            error if known else f"{type(error).__name__}: {error}",
            exc_info=not known and log.isEnabledFor(10),
        )
        # The message may name an image or count some.
        reason = (
            str(error)
            if known and run.summary.privacy == "full"
            else "`unskew forecast` with the same configuration says why"
        )
        note = f"A forecast was asked for, and none can be made: {reason.rstrip('.')}."
        notes = {**run.summary.notes, "forecast": note}
        return replace(run, summary=replace(run.summary, notes=notes))


def join_forecast(run: Run, folder: Path) -> Run:
    """Add the forecast that is in the folder already to a run of the same inputs."""
    record = _find_forecast(run.summary, folder)
    return run if record is None else replace(run, summary=_with_panel(run.summary, record))


def write_forecast(record: Mapping[str, Any], folder: Path) -> Path | None:
    """Write `forecast.json`, and add it to the page of a run of the same inputs in the folder.

    Returns the page, or None where there is no such run.
    """
    page = None
    with written_together(folder, ()) as temporary:
        write_json(temporary / FORECAST, record)
        summary = _find_summary(folder)
        if summary is not None and _belongs(record, summary, folder / FORECAST):
            write_summary(_with_panel(summary, record), temporary / PAGE)
            page = folder / PAGE
    return page


def write_page_again(folder: Path) -> Path:
    """Write the page again, from report.json and the forecast in the folder; return its path."""
    if not (folder / SUMMARY).is_file():
        raise DataError(
            f"{str(folder)!r} contains no {SUMMARY}, which `unskew weigh run.toml -o {folder}` "
            "writes.",
            path=str(folder / SUMMARY),
        )
    summary = summary_from_json((folder / SUMMARY).read_text(encoding="utf-8"))
    record = _find_forecast(summary, folder)
    with written_together(folder, ()) as temporary:
        shown = summary if record is None else _with_panel(summary, record)
        write_summary(shown, temporary / PAGE)
    return folder / PAGE


def _with_panel(summary: Summary, record: Mapping[str, Any]) -> Summary:
    notes = {name: note for name, note in summary.notes.items() if name != "forecast"}
    return replace(summary, forecast=show_forecast(record, summary.privacy), notes=notes)


def _find_summary(folder: Path) -> Summary | None:
    """Return the summary of the run in a folder; None if there is none, or it cannot be read."""
    if not (folder / SUMMARY).is_file():
        return None
    try:
        return summary_from_json((folder / SUMMARY).read_text(encoding="utf-8"))
    except (UnskewError, OSError, ValueError) as error:
        log.warning("the page in %s stays as it is: %s cannot be read (%s)", folder, SUMMARY, error)
        return None


def _find_forecast(summary: Summary, folder: Path) -> Mapping[str, Any] | None:
    """Return the forecast in a folder if it belongs to ``summary``; else None, with a warning."""
    path = folder / FORECAST
    if not path.is_file() or summary.weights is None:
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise DataError(f"it contains a {type(record).__name__}", path=str(path))
        if not _belongs(record, summary, path):
            return None
        show_forecast(record, summary.privacy)
    except (UnskewError, OSError, ValueError) as error:
        log.warning("%s is not shown on the page: %s", path, error)
        return None
    return record


def _belongs(record: Mapping[str, Any], summary: Summary, path: Path) -> bool:
    """Tell whether forecast and run have the same images, files and settings; warn if not."""
    other = (
        list(_differences(record.get("provenance"), summary.provenance))
        if summary.weights is not None
        else ["there are no weights"]
    )
    if other:
        log.warning(
            "%s is not shown on the page, which is of other inputs: %s", path, first_few(other)
        )
    return not other


def _differences(of_forecast: Any, of_run: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs between two origins, of what a forecast depends on."""
    if not isinstance(of_forecast, Mapping) or not isinstance(of_forecast.get("settings"), Mapping):
        yield "the forecast does not say what it was made from"
        return
    one, other = plain_value(of_forecast), plain_value(of_run)
    if one.get("fingerprints") != other.get("fingerprints"):
        yield "images or files have changed"
    before, now = (
        effective_settings(settings) if isinstance(settings, Mapping) else {}
        for settings in (one.get("settings"), other.get("settings"))
    )
    for section in FORECAST_SECTIONS:
        if before.get(section) != now.get(section):
            yield f"[{section}] differs"
