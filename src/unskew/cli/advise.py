"""The command advise: what to collect next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks
from unskew.cli.options import Common, Configuration, taking


@taking("target", "as_json", "quiet", "seed", "allow_code", "jobs")
def advise_run(
    configuration: Configuration,
    stderr: Annotated[
        float | None,
        typer.Option(
            "--stderr",
            help="Wanted standard error of target means. Default: half of today's.",
        ),
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--of", help="Column whose mean (or shares) should be known so well; may be repeated."
        ),
    ] = None,
    ess: Annotated[
        float | None,
        typer.Option("--ess", help="Wanted effective number of images; up to 1, a share of all."),
    ] = None,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Links and weights that the verdict no longer calls weak."),
    ] = False,
    link_error: Annotated[
        float | None,
        typer.Option(
            "--link-error",
            help="Share of the target that weakly linked sources may misplace.",
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost",
            help="Cost of an image of a source, as north=2.5; may be repeated. Default: 1.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for advice.json; created if necessary."),
    ] = None,
    *,
    common: Common,
) -> int:
    """Advise what to collect next: which source or kind of image, and how many.

    Predicted from the solved problem, for a wanted standard error, effective number of images or
    overlap. Where there is no solution today (exit code 3): the smallest collection that makes one
    possible.
    """
    from unskew.cli import terminal
    from unskew.files.atomic import written_together
    from unskew.files.locks import folder_locked
    from unskew.files.plain_json import write_json
    from unskew.runs.advice import advise_inputs, read_costs
    from unskew.runs.inputs import read_inputs

    with folder_locked(output), remarks(common.quiet):
        costs = read_costs(cost or [])
        config = common.load(configuration)
        inputs = read_inputs(config, progress=common.bar, beyond="sample")
        advice = advise_inputs(
            inputs,
            stderr=stderr,
            outcomes=of or (),
            ess=ess,
            overlap=link_error if link_error is not None else (overlap or None),
            cost=costs,
        )
        if output is not None:
            with written_together(output, ()) as folder:
                write_json(folder / "advice.json", advice.to_dict())
    if common.as_json:
        print_json(advice.to_dict())
    else:
        terminal.print_lines(terminal.open_console(common.quiet), advice.lines())
    return DONE if advice.identifiable else NOT_IDENTIFIABLE
