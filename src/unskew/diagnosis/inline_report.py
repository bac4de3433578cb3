"""Weights in a notebook: their card, and the whole page inline (`Weights.report`)."""

from __future__ import annotations

from typing import Any

from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.files.fingerprints import find_versions
from unskew.records import Pool, Weights
from unskew.records.diagnostics import Diagnostics
from unskew.report.notebook import InlinePage, weights_html
from unskew.report.page.html import render_page
from unskew.report.summary.summarize import summarize_run

__all__ = ["inline_report", "weights_html"]


def inline_report(
    weights: Weights, pool: Pool, diagnostics: Diagnostics | None, title: str, privacy: Any
) -> InlinePage:
    """Diagnose the weights, and return the page that `unskew.write_report` would write."""
    summary = summarize_run(
        pool,
        weights,
        diagnose(pool, weights, privacy=privacy) if diagnostics is None else diagnostics,
        title=title,
        privacy=privacy,
        provenance={"versions": find_versions()},
    )
    return InlinePage(render_page(summary))
