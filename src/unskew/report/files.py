"""The files of a report: `report.html` and `report.json`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from unskew.errors import ConfigError
from unskew.files.atomic import write_text
from unskew.report.summary.plain import summary_to_json
from unskew.report.summary.record import Summary


def write_summary(summary: Summary, path: str | PathLike[str]) -> None:
    """Write the page of a summary to ``path`` and the summary as JSON, each atomically."""
    from unskew.report.page.html import render_page

    target = check_page_path(path)
    page = render_page(summary)
    write_text(target.with_suffix(".json"), summary_to_json(summary))
    write_text(target, page)


def check_page_path(path: str | PathLike[str]) -> Path:
    """Refuse a path that is not an HTML file's."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(
            f"a report is an HTML file, whose name ends in .html; got {str(target)!r}.",
            path=str(target),
        )
    return target
