"""Addresses (s3://…) among the arguments: results are fetched before, outputs uploaded after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from unskew.errors import ConfigError

# Commands that read a folder of results and write nothing into it.
_READS_RESULTS = ("compare", "evaluate", "export", "verify")
_OUTPUT = ("-o", "--output", "--out")


@contextmanager
def local_arguments(arguments: list[str]) -> Iterator[list[str]]:
    """Yield the arguments with local folders in the place of addresses."""
    if not any("://" in argument for argument in arguments):
        yield arguments
        return
    with ExitStack() as stack:
        yield [
            _local(argument, arguments[: at + 1], arguments, stack)
            for at, argument in enumerate(arguments)
        ]


@contextmanager
def _uploaded(address: str, overwrite: bool) -> Iterator[Path]:
    from unskew.files.addresses import uploaded_folder

    with uploaded_folder(address, overwrite=overwrite) as made:
        yield made
    typer.echo(f"Uploaded to {address}", err=True)


def _local(argument: str, before: list[str], arguments: list[str], stack: ExitStack) -> str:
    from unskew.files.addresses import is_address, local_folder

    option, equals, value = argument.partition("=")
    if equals and option in _OUTPUT and is_address(value):
        return f"{option}={_local(value, [option, value], arguments, stack)}"
    # What is allowed by its name, such as a scheduler, is not fetched.
    if not is_address(argument) or before[-2:-1] == ["--allow-code"]:
        return argument
    command = arguments[0]
    if command != "init" and len(before) > 1 and before[-2] in _OUTPUT:
        if "--resume" in arguments:
            raise ConfigError(
                "a training is resumed from a local folder: copy it, and upload it at the end.",
                option="--resume",
            )
        overwrite = not {"--overwrite", "--force"}.isdisjoint(arguments)
        return str(stack.enter_context(_uploaded(argument, overwrite)))
    if command in _READS_RESULTS and not before[-2].startswith("-"):
        return str(stack.enter_context(local_folder(argument)))
    raise ConfigError(
        f"{command} takes no address here. Addresses may be the results to read, the output "
        "(-o), and, in the configuration, sources.folders, sources.manifest, sources.parquet, "
        "sources.root and target.sample.",
        value=argument.partition("?")[0].rpartition("@")[2],
    )
