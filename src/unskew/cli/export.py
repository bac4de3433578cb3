"""`unskew export`: weights in the formats of other tools."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import Common, Data, MostCells, Results, taking
from unskew.errors import ConfigError
from unskew.files.leftovers import temporary_folder

if TYPE_CHECKING:
    from unskew.runs.export_tables import Export

_STANDARD_OUTPUT = Path("-")


class Format(StrEnum):
    """What `unskew export` writes."""

    csv = "csv"
    jsonl = "jsonl"
    class_weights = "class-weights"
    hf = "hf"
    webdataset = "webdataset"
    mixture = "mixture"


# One file each, which may go to standard output.
_ONE_FILE = (Format.csv, Format.jsonl, Format.class_weights)


@taking("target", "as_json", "quiet", "allow_code", "overwrite", "force")
def export_results(
    results: Results,
    to: Annotated[Format, typer.Option("--to", help="The format.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File or folder to write, - for standard output; default: next to the weights.",
        ),
    ] = None,
    cells: MostCells = None,
    data: Data = None,
    *,
    common: Common,
) -> None:
    """Export weights: tables, class weights, image datasets, or the shares of a mixture."""
    from unskew.cli import terminal
    from unskew.runs.export_tables import export_run

    def write(path: Path | None, paths_from: Path | None = None) -> Export:
        return export_run(
            results,
            to.value,
            path,
            overwrite=common.overwrite,
            target=common.target,
            force=common.force,
            data=data,
            allow_code=common.allowed,
            paths_from=paths_from,
            cells=cells,
            progress=common.bar,
        )

    with remarks(common.quiet):
        if output == _STANDARD_OUTPUT:
            _check_printable(to, common.as_json)
            with temporary_folder() as folder:
                written = write(Path(folder, f"weights.{to.value}"), Path.cwd())
                with written.path.open("rb") as content:
                    sys.stdout.flush()
                    shutil.copyfileobj(content, sys.stdout.buffer)
            return
        written = write(output)
    if common.as_json:
        print_json(
            {"path": str(written.path), "images": written.images, "notes": list(written.notes)}
        )
    elif not common.quiet:
        terminal.print_export(terminal.open_console(), written)


def _check_printable(to: Format, as_json: bool) -> None:
    if to not in _ONE_FILE:
        raise ConfigError(
            f"{to.value} is a folder; -o - prints {', '.join(_ONE_FILE)}.",
            option="--output",
            value="-",
            allowed=[str(one) for one in _ONE_FILE],
        )
    if as_json:
        raise ConfigError("-o - prints the weights; --json has no place then.", option="--json")
