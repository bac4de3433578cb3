"""The door of the stage: `write_report`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError
from unskew.files.atomic import write_text
from unskew.files.fingerprints import find_versions
from unskew.records import Pool, Weights
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.record import Summary
from unskew.report.summary.summarize import summarize_run

__all__ = ["summary_from_json", "summary_to_json", "write_report", "write_summary"]


def write_report(
    pool: Pool, weights: Weights, path: str | PathLike[str], **options: Any
) -> Summary:
    """Write a page about the weights to ``path``, one self-contained HTML file, and the same data
    beside it as JSON.

    Parameters
    ----------
    pool : the images that were weighed.
    weights : as `unskew.debias` or `unskew.debias_weights` gave them.
    path : of the page, such as ``report.html``; the data go to ``report.json``.
    **options : as for `unskew.report.summary.summarize.summarize_run`: title, privacy, provenance,
        splits, outcomes, adjustments, seed, bootstrap, thumbnails.

    Returns
    -------
    Summary
        What the page shows.
    """
    _check_path(path)
    summary = summarize_run(
        pool, weights, **{"provenance": {"versions": find_versions()}, **options}
    )
    write_summary(summary, path)
    return summary


def write_summary(summary: Summary, path: str | PathLike[str]) -> None:
    """Write the page of a summary to ``path`` and the summary itself beside it as JSON, each whole
    or not at all.
    """
    from unskew.report.page.html import render_page

    target = _check_path(path)
    page = render_page(summary)
    write_text(target.with_suffix(".json"), summary_to_json(summary))
    write_text(target, page)


def _check_path(path: str | PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(
            f"a report is an HTML file, whose name ends in .html; got {str(target)!r}."
        )
    return target
