"""Blocks that are written: one file for each, with a marker that says it is complete.

A marker is written after its file, and names what the file was computed from. A run that was killed
and is started again computes only the files that have no marker, or one of something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unskew.engine.block_engines import Engine
from unskew.engine.blocks import FileBlock
from unskew.errors import DataError
from unskew.files.atomic import write_text, written_whole
from unskew.files.locks import folder_locked

_MARKERS = ".complete"


@dataclass(frozen=True)
class OutputFile:
    """One file to be written.

    Attributes
    ----------
    name : its path within the folder.
    key : a fingerprint of all that its content follows from.
    blocks : the input.
    """

    name: str
    key: str
    blocks: tuple[FileBlock, ...]


def write_files(
    engine: Engine,
    function: Callable[..., Any],
    files: Sequence[OutputFile],
    state: Any,
    folder: Path,
    *,
    setup: Callable[[], Any] | None = None,
) -> list[Any]:
    """Let ``function(file, state, path)`` write every file that is not complete.

    It returns something small that JSON can hold; all of that is returned, in order, also of the
    files that an earlier run wrote. With ``setup`` (`Engine.map_blocks`) it gets a fourth argument.
    """
    folder = folder.absolute()
    for parent in {(folder / file.name).parent for file in files} | {folder}:
        for needed in (parent, parent / _MARKERS):
            try:
                needed.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(
                    f"the folder {str(needed)!r} cannot be made ({error.strerror or error}).",
                    path=str(needed),
                ) from error
    with folder_locked(folder):
        markers = {file.name: _read_marker(folder, file) for file in files}
        missing = [file for file in files if markers[file.name] is None]
        write = partial(_write_one, function, str(folder))
        written = engine.each_block(write, missing, state, setup=setup)
        for file, marker in zip(missing, written, strict=True):
            markers[file.name] = marker
    return [markers[file.name]["result"] for file in files]  # type: ignore[index]


def missing_files(files: Sequence[OutputFile], folder: Path) -> list[OutputFile]:
    """List the files that `write_files` would compute."""
    return [file for file in files if _read_marker(folder.absolute(), file) is None]


def _write_one(
    function: Callable[..., Any], folder: str, file: OutputFile, state: Any, *made: Any
) -> dict[str, Any]:
    target = Path(folder) / file.name
    with written_whole(target) as beside:
        result = function(file, state, beside, *made)
    marker = {"key": file.key, "size": target.stat().st_size, "result": result}
    write_text(_marker(Path(folder), file), json.dumps(marker))
    return marker


def _marker(folder: Path, file: OutputFile) -> Path:
    target = folder / file.name
    return target.parent / _MARKERS / f"{target.name}.json"


def _read_marker(folder: Path, file: OutputFile) -> dict[str, Any] | None:
    """Return the marker of a file that is there and complete; None of any other."""
    try:
        marker: dict[str, Any] = json.loads(_marker(folder, file).read_text(encoding="utf-8"))
        is_whole = (folder / file.name).stat().st_size == marker["size"]
        return marker if is_whole and marker["key"] == file.key and "result" in marker else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
