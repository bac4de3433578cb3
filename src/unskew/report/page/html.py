"""The page: a `Summary` as one HTML file that requests nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import itertools
from functools import cache, partial
from typing import Any

from markupsafe import Markup

from unskew.report.page import (
    mixture_tables,
    model_tables,
    overlap_tables,
    panels,
    plots_columns,
    plots_forecast,
    plots_outcomes,
    plots_overlap,
    plots_rows,
    plots_targets,
    plots_weights,
    tables,
)
from unskew.report.page.svg import SERIES
from unskew.report.summary.record import Summary

# The page's size in bytes stays below this, whatever was pooled.
LARGEST_PAGE = 5_000_000
# No name and no sentence takes more characters than this.
_LONGEST_TEXT = 2000


def render_page(summary: Summary) -> str:
    """Return the page of a summary: one HTML document of at most 5 MB that requests nothing.

    Everything that came from outside (names, paths, labels) is escaped and made visible; a
    Content-Security-Policy forbids every request and every script and style but the page's own, by
    their hashes. If galleries would make the page too large, pictures are left out and counted; if
    that is not enough, small multiples are.
    """
    budget = min(panels.PICTURE_BUDGET, panels.picture_cost(summary))
    while True:
        page = _render(summary, budget)
        over = len(page.encode()) - LARGEST_PAGE
        if over <= 0:
            return page
        if budget > 0:
            budget = max(0, budget - over - 10_000)
        elif (thinner := panels.thin_out(summary)) != summary:
            summary = thinner
        else:
            return page


def _render(summary: Summary, budget: int) -> str:
    galleries, pictures_left_out = panels.group_galleries(summary, budget)
    return render_template(
        "page.html",
        summary=summary,
        galleries=galleries,
        pictures_left_out=pictures_left_out,
        series=SERIES,
        mixture_tables=mixture_tables,
        overlap_tables=overlap_tables,
        plots_columns=plots_columns,
        plots_forecast=plots_forecast,
        plots_outcomes=plots_outcomes,
        plots_overlap=plots_overlap,
        plots_rows=plots_rows,
        plots_targets=plots_targets,
        plots_weights=plots_weights,
        model_tables=model_tables,
        panels=panels,
    )


def render_template(name: str, **content: Any) -> str:
    """Render a template with the page's style and script, and the policy that allows only these."""
    environment = _environment()
    style, script = (_file(environment, name) for name in ("style.css", "script.js"))
    page: str = environment.get_template(name).render(
        style=style,
        script=script,
        policy=_policy(style, script),
        next_id=partial(next, itertools.count(1)),
        **content,
    )
    return page


@cache
def _environment() -> Any:
    """Compile the templates, once; a page gets everything else when it is rendered."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unskew.report.page", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=tables.show_count,
        number=tables.show_number,
        share=tables.show_share,
        signed=tables.show_signed,
        p_value=tables.show_p_value,
        short=tables.shorten,
        path=tables.shorten_path,
        sentence=tables.quote_names,
        lines=_lines,
        plot_distribution=plots_columns.plot_distribution,
        plot_omega=plots_columns.plot_omega,
    )
    return environment


def _finalize(value: Any) -> Any:
    """Make invisible characters visible and cut long texts, in every expression of a template."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return tables.MISSING if value is None else value
    return tables.shorten(value, _LONGEST_TEXT)


def _lines(text: str) -> Markup:
    """Escape text whose line breaks are meant (settings) line by line."""
    return Markup("\n").join(tables.show_name(line) for line in text.split("\n"))


def _file(environment: Any, name: str) -> Markup:
    source, _, _ = environment.loader.get_source(environment, name)
    return Markup(source)


def _policy(style: str, script: str) -> str:
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashes[0]}'; script-src "
        f"'sha256-{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )
