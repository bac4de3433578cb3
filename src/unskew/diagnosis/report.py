"""Diagnose and report in one call: `write_report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.engine.arguments import CountOrZero, checked
from unskew.errors import ConfigError, first_few
from unskew.files.fingerprints import find_versions
from unskew.records import Diagnostics, Pool, Weights
from unskew.report.files import check_page_path, write_summary
from unskew.report.summary.record import Privacy, SplitRow, Summary
from unskew.report.summary.summarize import summarize_run


@checked
def write_report(
    pool: Pool,
    weights: Weights,
    path: str | PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    title: str = "Debiasing report",
    privacy: Privacy = "full",
    provenance: Mapping[str, Any] | None = None,
    splits: Sequence[SplitRow] | Mapping[str, Weights] = (),
    adjustments: Sequence[Any] = (),
    thumbnails: CountOrZero = 120,
    **diagnosing: Any,
) -> Summary:
    """Write a report about the weights: one self-contained HTML file, and its data as JSON.

    Parameters
    ----------
    pool : the images that were weighed.
    weights : from `unskew.debias` or `unskew.debias_weights`.
    path : of the page, such as ``report.html``; the data go to ``report.json``.
    diagnostics : from `unskew.diagnosis.pool_diagnostics.diagnose`; None: computed here.
    title, privacy, provenance, splits, adjustments, thumbnails : as for
        `unskew.report.summary.summarize.summarize_run`; default provenance: versions of packages.
    **diagnosing : outcomes, fit_check, replicates and seed, as for `diagnose`; only without
        ``diagnostics``.

    Returns
    -------
    Summary
        What the page shows.
    """
    check_page_path(path)
    if diagnostics is None:
        diagnostics = diagnose(pool, weights, privacy=privacy, **diagnosing)
    elif diagnosing:
        raise ConfigError(
            f"{first_few(list(diagnosing))} would change the diagnostics, which were passed ready; "
            "pass one or the other.",
            option=next(iter(diagnosing)),
        )
    summary = summarize_run(
        pool,
        weights,
        diagnostics,
        title=title,
        privacy=privacy,
        provenance={"versions": find_versions()} if provenance is None else provenance,
        splits=splits,
        adjustments=adjustments,
        thumbnails=thumbnails,
    )
    write_summary(summary, path)
    return summary
