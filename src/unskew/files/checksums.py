"""`files.json`: checksums, by which the files of a results folder are known to be of one run.

Files that belong together are published in three steps. First ``files.json`` gets the checksums of
all files as they will be, and the name of the hidden folder that holds the new ones: from then on
the new files count. Then they are moved, and what is not part of them any more is deleted. At last
``files.json`` is written without that name. A process that is killed before the first step changed
nothing; after it, whoever opens the folder next makes the remaining moves.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, MixedResultsError
from unskew.files.fingerprints import fingerprint_file
from unskew.files.leftovers import remove_leftovers, remove_path, unfinished_path
from unskew.files.locks import folder_locked
from unskew.files.reading import check_whole

LISTING = "files.json"
UNFINISHED = ".unfinished"
_FORMAT = 1
# Where the data are, the cache, the number of jobs and the engine are no claims of a run: these
# lines of its settings may be edited.
_SETTINGS = "run.toml"
_FREE_LINE = re.compile(
    rb"(folder|cache|jobs|name|address|workers|processes|block_rows|retries) *="
)
_log = logging.getLogger(__name__)


def publish(
    staging: Path, target: Path, names: Iterable[str], folders: Collection[str] = ()
) -> None:
    """Move all files from ``staging`` into ``target``, delete the others of ``names``, list them.

    Those of ``folders`` that are in ``target`` are replaced, or deleted, in the same way; they are
    not listed. The caller holds the lock of ``target``.
    """
    written = sorted(file.name for file in staging.iterdir())
    for name in written:
        if (target / name).is_dir() and name not in folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target / name))
    removed = sorted(name for name in set(names) - set(written) if (target / name).is_file())
    removed += [name for name in folders if name not in written and (target / name).is_dir()]
    listed = {
        name: digest
        for name, digest in _listed_before(target).items()
        if name not in removed and (target / name).is_file()
    }
    listed |= {name: _digest(staging / name) for name in written if (staging / name).is_file()}
    _write(target, listed, {"folder": staging.name, "removed": removed})
    _move(staging, target, removed)
    _write(target, listed)
    remove_path(staging)


def finish_publishing(target: Path) -> None:
    """Make the moves that a killed process did not come to, and remove what others left.

    The caller holds the lock of ``target``.
    """
    pending = unfinished_folder(target)
    if pending and (target / pending).is_dir() and not (target / pending).is_symlink():
        listing = _read(target) or {}
        _move(target / pending, target, listing["unfinished"]["removed"])
        _write(target, listing["files"])
    for rest in target.glob(f"{UNFINISHED}*"):
        remove_path(rest)
    remove_leftovers(target, ".")


def unfinished_folder(folder: Path) -> str | None:
    """Return the hidden folder with files that a process has not come to move; None: all are."""
    try:
        journal = (_read(folder) or {}).get("unfinished")
    except MixedResultsError:  # nothing is known about the moves
        return None
    return None if journal is None else str(journal["folder"])


def check_files(
    folder: str | os.PathLike[str], names: Iterable[str], *, force: bool = False
) -> None:
    """Refuse files of a results folder that are not those that its run wrote.

    Of ``names`` those that exist are compared with ``files.json``. A publication that was cut short
    is finished first. ``force`` only warns.

    Raises
    ------
    MixedResultsError : a file differs from its checksum, or ``files.json`` is damaged.
    LockedError : the folder is being written.
    """
    out = Path(folder)
    if not out.is_dir():
        return
    try:
        if unfinished_folder(out):
            if not os.access(out, os.W_OK):
                raise _mixed(
                    out,
                    LISTING,
                    "a run was killed while it wrote, and what it did not "
                    "come to cannot be done in a folder that is read-only",
                )
            with folder_locked(out):
                finish_publishing(out)
        unlisted = _check(out, [name for name in dict.fromkeys(names) if (out / name).is_file()])
    except MixedResultsError as error:
        if not force:
            raise
        _log.warning("%s It is used all the same.", str(error).partition(". ")[0] + ".")
        return
    if unlisted:
        _log.warning(
            "there is no checksum of %s in %s, as an earlier version of unskew leaves it: whether "
            "all files are of one run is not known. `unskew verify %s` finds out.",
            ", ".join(unlisted),
            out / LISTING,
            out,
        )


def find_changes(folder: Path) -> dict[str, str] | None:
    """Return what is wrong with each file that ``files.json`` lists; None: there is no list.

    Nothing is written; files that were deleted are not named.
    """
    listing = _read(folder)
    if listing is None:
        return None
    wrong = {
        name: "is not the file that the run wrote"
        for name, digest in listing["files"].items()
        if (folder / name).is_file() and _digest(folder / name) != digest
    }
    return wrong | ({LISTING: "is of an unfinished publication"} if "unfinished" in listing else {})


def _check(out: Path, names: Iterable[str]) -> list[str]:
    """Compare files with their checksums; return those that have none."""
    listing = _read(out)
    if listing is not None and listing.get("unfinished"):
        raise _mixed(out, LISTING, "a run was killed while it wrote, and its new files are gone")
    listed = {} if listing is None else listing["files"]
    for name in names:
        if name in listed and _digest(out / name) != listed[name]:
            raise _mixed(out, name, "its checksum differs: it was changed, damaged or replaced")
    return [name for name in names if name not in listed]


def _mixed(out: Path, name: str, reason: str) -> MixedResultsError:
    return MixedResultsError(
        f"{out / name} is not of the run in {str(out)!r} ({reason}). Restore it from a copy, or "
        f"write all files again: `unskew weigh run.toml -o {out} --overwrite` (a training: "
        "`unskew train` with --force). --force uses it all the same, where a command has it.",
        path=str(out / name),
    )


def _listed_before(target: Path) -> Mapping[str, str]:
    try:
        listing = _read(target)
    except MixedResultsError:  # of a damaged list nothing is known
        return {}
    return {} if listing is None else listing["files"]


def check_listing(target: Path) -> None:
    """Refuse a folder whose ``files.json`` is the user's own."""
    try:
        record = _load(target / LISTING)
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ConfigError(
            f"{str(target)!r} contains a {LISTING} that unskew did not write, and would replace. "
            "Name another folder with -o, or move the file away.",
            path=str(target / LISTING),
        )


def _read(folder: Path) -> dict[str, Any] | None:
    """Read ``files.json``; None where there is none. Names in it are of files in the folder."""
    path = folder / LISTING
    try:
        record = _load(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _mixed(folder, LISTING, f"it cannot be read: {error}") from error
    if not _is_listing(record):
        raise _mixed(folder, LISTING, "it is no list of checksums")
    return dict(record)


def _load(path: Path) -> Any:
    check_whole(path)
    return json.loads(path.read_bytes())


def _is_listing(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        return False
    files, journal = record.get("files"), record.get("unfinished")
    if not isinstance(files, dict) or not all(map(_is_name, files)):
        return False
    return journal is None or (
        isinstance(journal, dict)
        and _is_name(journal.get("folder"))
        and journal["folder"].startswith(UNFINISHED)
        and isinstance(journal.get("removed"), list)
        and all(map(_is_name, journal["removed"]))
    )


def _is_name(value: Any) -> bool:
    if not isinstance(value, str) or value in ("", ".", "..") or "\0" in value:
        return False
    try:
        return bool(os.fsencode(value)) and Path(value).name == value
    except UnicodeEncodeError:  # a name that no file can have
        return False


def _write(
    target: Path, listed: Mapping[str, str], unfinished: Mapping[str, Any] | None = None
) -> None:
    record: dict[str, Any] = {"format": _FORMAT, "files": dict(sorted(listed.items()))}
    if unfinished is not None:
        record["unfinished"] = unfinished
    temporary = unfinished_path(target / LISTING)
    try:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        temporary.replace(target / LISTING)
    finally:
        temporary.unlink(missing_ok=True)


def _move(staging: Path, target: Path, removed: Iterable[str]) -> None:
    for file in sorted(staging.iterdir()):
        if file.is_dir():  # a folder that is full cannot be replaced
            remove_path(target / file.name)
        file.replace(target / file.name)
    for name in removed:
        remove_path(target / name)


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; of settings, without the lines that may be edited."""
    if path.name != _SETTINGS:
        return fingerprint_file(path)
    lines = path.read_bytes().splitlines(keepends=True)
    return hashlib.sha256(
        b"".join(line for line in lines if not _FREE_LINE.match(line))
    ).hexdigest()
