"""`unskew compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import Common, Results, taking


@taking("as_json", "quiet", "overwrite", "force")
def compare_results(
    first: Results,
    second: Results,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "compare.html"
    ),
    *,
    common: Common,
) -> None:
    """Compare two runs on one page: verdict, settings that changed, weights, balance, forecast."""
    from unskew.cli import terminal
    from unskew.files.atomic import check_new_file, write_text
    from unskew.files.locks import path_locked
    from unskew.runs.comparison import compare_runs

    page = None if common.as_json else output
    with path_locked(page), remarks(common.quiet):
        if page is not None:
            check_new_file(page, common.overwrite)
        comparison = compare_runs(first, second, force=common.force)
        if common.as_json:
            print_json(comparison.to_dict())
            return
        write_text(output, comparison.page())
    if common.quiet:
        return
    console = terminal.open_console()
    for letter, summary in zip("AB", comparison.summaries, strict=True):
        terminal.print_paragraph(console, f"{letter}: {terminal.visible(summary.verdict.headline)}")
    for key, a, b in comparison.settings[:20]:
        values = (terminal.visible(value or "(not set)")[:60] for value in (a, b))
        terminal.print_paragraph(console, f"{terminal.visible(key)}: {' → '.join(values)}")
    weights = comparison.weights
    if weights is not None and weights.distance is not None:
        terminal.print_paragraph(
            console, f"{weights.distance:.1%} of the weight moves from some images to others."
        )
    terminal.print_paragraph(console, f"The page: {terminal.visible(output)}")
