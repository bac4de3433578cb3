"""`unskew choose`: bias models ranked on the data, the best written into a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks, speak_commands
from unskew.cli.options import (
    AllowCode,
    AsJson,
    Configuration,
    Jobs,
    OneTarget,
    Overwrite,
    Quiet,
    Seed,
    shows_progress,
)


def choose_model(
    configuration: Configuration,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The copy to write; default: RUN-chosen.toml next to it."
        ),
    ] = None,
    overwrite: Overwrite = False,
    target: OneTarget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    allow_code: AllowCode = None,
    jobs: Jobs = None,
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
    from unskew.runs.inputs import load_config

    path = default_path(configuration) if output is None else output
    with path_locked(path), remarks(quiet):
        check_new_file(path, overwrite)
        config = load_config(
            configuration, seed=seed, jobs=jobs, target=target, allow_code=allow_code or ()
        )
        choice = choose_for_run(config, progress=shows_progress(quiet, as_json))
        if choice.best is not None:
            write_choice(choice, config, configuration, path)
    if as_json:
        bias = None if choice.best is None else choice.best.to_dict()
        table = json_value(choice.table.to_dict("records"))
        print_json({"bias": bias, "name": choice.name, "reason": choice.reason, "table": table})
    elif not quiet:
        console = terminal.open_console()
        terminal.print_lines(console, speak_commands(str(choice)).splitlines())
        if choice.best is not None:
            shown = terminal.visible(path)
            terminal.print_paragraph(console, f"\nWritten: {shown}. Next: unskew check {shown}")
    return DONE if choice.best is not None else NOT_IDENTIFIABLE
