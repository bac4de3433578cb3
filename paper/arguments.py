"""Check what both commands accept: names from a list, the number of runs, the output folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.files.atomic import may_write


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is not known; the error suggests the nearest one."""
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no {kind} {name!r}; there are "
                f"{', '.join(known)}.{did_you_mean(name, known)}",
                value=name,
                allowed=list(known),
            )


def check_runs(runs: int) -> None:
    """Refuse fewer than one draw of the databases."""
    if runs < 1:
        raise ConfigError(
            f"runs is the number of draws of the databases, at least 1; got {runs}.",
            option="runs",
            value=runs,
        )


def check_output_folder(out: Path, content: str) -> None:
    """Refuse a file, or a folder that cannot be written; ``content`` is "figures" or "tables"."""
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; {content} are written into a folder. Choose another one with "
            "-o.",
            path=str(out),
        )
    if not may_write(out):
        raise DataError(
            f"{str(out)!r} is read-only for you, so nothing can be written there. Choose another "
            "folder with -o.",
            path=str(out),
        )
