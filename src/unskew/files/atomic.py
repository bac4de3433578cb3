"""Files written atomically: to a temporary name in the same folder, then renamed."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unskew.errors import ConfigError, DataError
from unskew.files.checksums import (
    UNFINISHED,
    check_listing,
    finish_publishing,
    publish,
    unfinished_folder,
)
from unskew.files.leftovers import name_owner, remove_leftovers, remove_path, unfinished_path
from unskew.files.locks import folder_locked, path_locked


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` if the block succeeds.

    If the block fails, the temporary file is removed and ``path`` stays as it was. A full disk or
    a missing or read-only folder raises a `DataError`. Several threads or processes may write the
    same file at the same time: the last one wins. What killed processes left is removed.
    """
    target = Path(path)
    _check_parent(target)
    temporary = unfinished_path(target)
    try:
        yield temporary
        temporary.replace(target)
        remove_leftovers(target.parent, f".{target.name}.")
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        # The folder itself may be read-only or gone: the first error is the one to show.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def written_together(
    folder: str | os.PathLike[str], names: Iterable[str], folders: Collection[str] = ()
) -> Iterator[Path]:
    """Yield a temporary folder whose files move into ``folder`` if the block succeeds.

    Those of ``names``, and of ``folders``, that were not written are deleted from ``folder``, so
    that files of two runs are never mixed. Other files stay as they are. If the block fails,
    nothing changes. Checksums of all files written in this way are in ``files.json``
    (`unskew.files.checksums`). While another process writes into the folder, a `LockedError` is
    raised.
    """
    target = Path(folder)
    temporary = target / f"{UNFINISHED}-{name_owner()}"
    with folder_locked(target):
        try:
            target.mkdir(parents=True, exist_ok=True)
            check_listing(target)
            finish_publishing(target)
            temporary.mkdir()
            yield temporary
            publish(temporary, target, names, folders)
        except OSError as error:
            raise _cannot_write(target, error) from error
        except DataError as error:
            # The temporary folder is gone, and its name would only puzzle.
            error.args = (str(error).replace(str(temporary), str(target)),)
            if "path" in error.facts:
                error.facts["path"] = error.facts["path"].replace(str(temporary), str(target))
            raise
        finally:
            if unfinished_folder(target) != temporary.name:  # else the next writer moves the rest
                remove_path(temporary)


@contextmanager
def folder_written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder to fill, which replaces ``path`` if the block succeeds.

    Where the file system can, the two change places in one step. Else what was at ``path`` is moved
    aside first, and a run that is killed between the two moves has the next one move it back. While
    another process writes the same folder, a `LockedError` is raised.
    """
    target = Path(path)
    _check_parent(target)
    temporary, old = (unfinished_path(target, suffix) for suffix in ("part", "old"))
    with path_locked(target):
        try:
            _clear_exchange(target)
            temporary.mkdir()
            yield temporary
            _put_in_place(temporary, target, old)
        except OSError as error:
            raise _cannot_write(target, error) from error
        finally:
            remove_path(temporary)
            remove_path(old)


def _put_in_place(temporary: Path, target: Path, old: Path) -> None:
    if not target.exists():
        temporary.replace(target)
        return
    if exchange_paths(temporary, target):
        return
    target.replace(old)
    try:
        temporary.replace(target)
    except OSError:
        old.replace(target)
        raise


def _clear_exchange(target: Path) -> None:
    """Move back what a killed process had moved aside, and remove what else such ones left.

    The caller holds the lock: nobody else writes ``target``.
    """
    of_target = re.compile(
        rf"\.{re.escape(target.name)}\.[0-9a-f]{{6}}-\d+-[0-9a-f]{{8}}\.(part|old)"
    )
    left = [path for path in target.parent.iterdir() if of_target.fullmatch(path.name)]
    for path in left:
        if path.suffix == ".old" and not target.exists():
            path.replace(target)
        remove_path(path)


def exchange_paths(one: Path, other: Path) -> bool:
    """Let two paths of one file system change places in one step; False where that is impossible.

    By ``renameat2`` with ``RENAME_EXCHANGE``: Linux since 3.15, on most local file systems.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0  # type: ignore[no-any-return]


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise DataError(
            f"{target} cannot be written: there is no folder {str(target.parent)!r}.",
            path=str(target.parent),
        )


def _cannot_write(target: Path, error: OSError) -> DataError:
    # Arrow's words name the unfinished file, which is gone.
    reason = os.strerror(error.errno) if error.errno else error
    return DataError(
        f"{target} cannot be written ({reason}); what was there before is unchanged.",
        path=str(target),
    )


def nearest_existing(path: str | os.PathLike[str]) -> Path:
    """Return the path itself, or the nearest one above it that exists."""
    existing = Path(path).absolute()
    while not existing.exists():
        existing = existing.parent
    return existing


def may_write(folder: str | os.PathLike[str]) -> bool:
    """Tell whether files may be written into this folder, or the folder be created."""
    return os.access(nearest_existing(folder), os.W_OK | os.X_OK)


def check_new_file(path: Path, overwrite: bool) -> None:
    """Refuse, before the work, a file that cannot or must not be written."""
    if path.is_dir():
        raise ConfigError(
            f"{str(path)!r} is a folder; give the name of a file with -o.", path=str(path)
        )
    if path.exists() and not overwrite:
        raise ConfigError(
            f"{str(path)!r} exists already. Add --overwrite to replace it, or give another name "
            "with -o.",
            path=str(path),
        )
    if not path.parent.is_dir():
        raise ConfigError(
            f"{str(path)!r} cannot be written: there is no folder {str(path.parent)!r}. Create it "
            "first.",
            path=str(path.parent),
        )
