"""Files in the folder of a run that have a panel on its page: forecast.json, rehearsal.json."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.run_config import FORECAST_SECTIONS, effective_settings
from unskew.errors import DataError, MixedResultsError, UnskewError, first_few
from unskew.files.atomic import written_together
from unskew.files.checksums import check_files
from unskew.files.plain_json import write_json
from unskew.files.reading import damage_named, read_json, read_text
from unskew.report.files import write_summary
from unskew.report.page.html import render_page
from unskew.report.summary.forecast_panel import show_forecast
from unskew.report.summary.plain import plain_value, summary_from_json
from unskew.report.summary.record import Summary
from unskew.report.summary.rehearsal_panel import show_rehearsal
from unskew.runs.output import FORECAST, PAGE, REHEARSAL, SUMMARY

if TYPE_CHECKING:
    from unskew.runs.pipeline import Run

log = logging.getLogger(__name__)


def with_forecast(summary: Summary, record: Mapping[str, Any]) -> Summary:
    """Return the summary with the panel of a forecast."""
    notes = {name: note for name, note in summary.notes.items() if name != "forecast"}
    return replace(summary, forecast=show_forecast(record, summary.privacy), notes=notes)


def with_rehearsal(summary: Summary, record: Mapping[str, Any]) -> Summary:
    """Return the summary with the panel of a rehearsal."""
    return replace(summary, rehearsal=show_rehearsal(record, summary.privacy))


@dataclass(frozen=True)
class _Part:
    file: str
    noun: str
    add: Callable[[Summary, Mapping[str, Any]], Summary]


_PARTS = (
    _Part(FORECAST, "forecast", with_forecast),
    _Part(REHEARSAL, "rehearsal", with_rehearsal),
)


def join_panels(run: Run, folder: Path) -> Run:
    """Add forecast and rehearsal of the same inputs, if they are in the folder already.

    A run with a forecast of its own keeps that.
    """
    for part in _PARTS:
        if part.file == FORECAST and (
            run.forecast is not None or run.inputs.config.report.forecast
        ):
            continue
        try:
            check_files(folder, (part.file,))
        except MixedResultsError as error:
            log.warning("%s is not shown on the page: %s", folder / part.file, error)
            continue
        run = replace(run, summary=_with_part(run.summary, folder, part))
    return run


def write_with_panel(record: Mapping[str, Any], folder: Path, file: str) -> Path | None:
    """Write forecast.json or rehearsal.json; add it to the page of a run of the same inputs.

    Returns the page, or None where there is no such run.
    """
    page = None
    with written_together(folder, ()) as temporary:
        write_json(temporary / file, record)
        summary = _find_summary(folder)
        if summary is not None and _belongs(record, summary, folder / file):
            for part in _PARTS:
                if part.file == file:
                    summary = part.add(summary, record)
            write_summary(summary, temporary / PAGE)
            page = folder / PAGE
    return page


def write_page_again(folder: Path, *, force: bool = False) -> Path:
    """Write the page again: report.json, forecast and rehearsal in the folder; return its path.

    ``force``: also if these are not the files that the run wrote.
    """
    if not (folder / SUMMARY).is_file():
        raise DataError(
            f"{str(folder)!r} contains no {SUMMARY}, which `unskew weigh run.toml -o {folder}` "
            "writes.",
            path=str(folder / SUMMARY),
        )
    path = folder / SUMMARY
    with written_together(folder, ()) as temporary, damage_named(path, "a report"):
        check_files(folder, (SUMMARY, *(part.file for part in _PARTS)), force=force)
        summary = summary_from_json(read_text(path))
        for part in _PARTS:
            summary = _with_part(summary, folder, part)
        write_summary(summary, temporary / PAGE)
    return folder / PAGE


def page_of(path: Path) -> str:
    """Return the page of a report.json; one that contradicts itself is a `DataError`."""
    with damage_named(path, "a report"):
        return render_page(summary_from_json(read_text(path)))


def _find_summary(folder: Path) -> Summary | None:
    """Return the summary of the run in a folder; None if there is none, or it cannot be read."""
    if not (folder / SUMMARY).is_file():
        return None
    try:
        check_files(folder, (SUMMARY,))
        return summary_from_json(read_text(folder / SUMMARY))
    except UnskewError as error:
        log.warning("the page in %s stays as it is: %s cannot be read (%s)", folder, SUMMARY, error)
        return None


def _with_part(summary: Summary, folder: Path, part: _Part) -> Summary:
    """Add the panel of a file in the folder if it belongs to the run; else warn, if it is there."""
    path = folder / part.file
    if not path.is_file() or summary.weights is None:
        return summary
    try:
        with damage_named(path, f"a {part.noun}"):
            record = read_json(path)
            if not isinstance(record, dict):
                raise DataError(f"it contains a {type(record).__name__}", path=str(path))
            return part.add(summary, record) if _belongs(record, summary, path) else summary
    except UnskewError as error:
        log.warning("%s is not shown on the page: %s", path, error)
        return summary


def _belongs(record: Mapping[str, Any], summary: Summary, path: Path) -> bool:
    """Tell whether file and run have the same images, files and settings; warn if not."""
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


def _differences(of_file: Any, of_run: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs between two origins, of what a forecast or rehearsal depends on."""
    if not isinstance(of_file, Mapping) or not isinstance(of_file.get("settings"), Mapping):
        yield "the file does not say what it was made from"
        return
    one, other = plain_value(of_file), plain_value(of_run)
    if one.get("fingerprints") != other.get("fingerprints"):
        yield "images or files have changed"
    before, now = (
        effective_settings(settings) if isinstance(settings, Mapping) else {}
        for settings in (one.get("settings"), other.get("settings"))
    )
    for section in FORECAST_SECTIONS:
        if before.get(section) != now.get(section):
            yield f"[{section}] differs"
    # Of [learn] both read these two.
    for key in ("way", "ridge"):
        if before.get("learn", {}).get(key) != now.get("learn", {}).get(key):
            yield f"{key} of [learn] differs"
