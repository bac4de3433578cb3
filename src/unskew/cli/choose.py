"""`unskew choose`: bias models ranked on the data, the best written into a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks, speak_commands
from unskew.cli.options import Common, Configuration, taking


@taking("target", "as_json", "quiet", "seed", "allow_code", "jobs", "overwrite")
def choose_model(
    configuration: Configuration,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The copy to write; default: RUN-chosen.toml next to it."
        ),
    ] = None,
    *,
    common: Common,
) -> int:
    """Rank bias models on the data, and write the chosen one into a copy of the configuration.

    Compared are the model of the configuration and others on the features that it names, by how
    well they predict the source of images that were not in the fit. Exit code 3: none can be used.
    """
    from unskew.cli import terminal
    from unskew.files.atomic import check_new_file
    from unskew.files.locks import path_locked
    from unskew.files.plain_json import json_value
    from unskew.runs.choose import choose_for_run, default_path, write_choice

    path = default_path(configuration) if output is None else output
    with path_locked(path), remarks(common.quiet):
        check_new_file(path, common.overwrite)
        config = common.load(configuration)
        choice = choose_for_run(config, progress=common.bar)
        if choice.best is not None:
            write_choice(choice, config, configuration, path)
    if common.as_json:
        bias = None if choice.best is None else choice.best.to_dict()
        table = json_value(choice.table.to_dict("records"))
        print_json({"bias": bias, "name": choice.name, "reason": choice.reason, "table": table})
    elif not common.quiet:
        console = terminal.open_console()
        terminal.print_lines(console, speak_commands(str(choice)).splitlines())
        if choice.best is not None:
            shown = terminal.visible(path)
            terminal.print_paragraph(console, f"\nWritten: {shown}. Next: unskew check {shown}")
    return DONE if choice.best is not None else NOT_IDENTIFIABLE
