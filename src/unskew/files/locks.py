"""One writer at a time: a folder or a path is locked, and a second writer is told who the first is.

The lock is the operating system's (``flock``) on a small hidden file, which names its holder: a
process that dies, however it does, loses the lock, and the next one takes the file over. Network
file systems: those that pass ``flock`` on to the server (NFS since Linux 2.6.12, CephFS, Lustre
mounted with ``flock``) keep writers on other machines out, too. Where ``flock`` is refused, the
existence of the file is the lock. It is then taken over only if it names a dead process of the same
machine; the lock of another machine has to be deleted by hand, and the error says so.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from unskew.errors import DataError, LockedError
from unskew.files.leftovers import is_alive

LOCK = ".unskew.lock"
# A lock is taken before its holder is named in it, and may be gone a moment later.
_ATTEMPTS, _PAUSE = 20, 0.01
# What is not there, or is something else, its writer names.
_NAMED_LATER = (FileExistsError, FileNotFoundError, NotADirectoryError)
_log = logging.getLogger(__name__)
# Which thread of which process holds a lock: within it, the same lock may be taken again.
_held: dict[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class _Owner:
    """Who holds a lock, and since when (UTC)."""

    pid: int
    host: str
    since: str

    @property
    def is_dead(self) -> bool:
        return self.host == socket.gethostname() and not is_alive(self.pid)


@contextmanager
def folder_locked(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep everybody else from writing into ``folder`` during the block; None: nothing is written.

    The folder is created, and removed if it is empty in the end. A folder that another process, or
    another thread, is writing into raises a `LockedError`, which names it. A folder that is
    read-only raises a `DataError`, before the work. Where there can be no such folder nothing is
    locked: the writer's own error says why.
    """
    if folder is None:
        yield
        return
    target = Path(folder)
    is_new = not target.exists()
    with suppress(*_NAMED_LATER), _read_only_named(target):
        target.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(target / LOCK, target):
            yield
    finally:
        if is_new:
            with suppress(OSError):  # not empty after a success
                target.rmdir()


@contextmanager
def path_locked(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep everybody else from writing a file or folder during the block, as `folder_locked`."""
    if path is None:
        yield
        return
    folder, name = os.path.split(os.path.abspath(path))
    with _locked(Path(folder, f".{name}.lock"), Path(path)):
        yield


@contextmanager
def _locked(file: Path, target: Path) -> Iterator[None]:
    key, me = os.path.realpath(file), (os.getpid(), threading.get_ident())
    if _held.get(key) == me:
        yield
        return
    handle = _acquire(file, target)
    if handle is not None:
        _held[key] = me
    try:
        yield
    finally:
        if handle is not None:
            del _held[key]
            with suppress(OSError):  # the folder may be gone
                file.unlink()
            os.close(handle)


def _acquire(file: Path, target: Path) -> int | None:
    """Return an open file that is locked; None where there is no folder for it."""
    mode, links = _status(file)
    if not stat.S_ISREG(mode) or links > 1:
        # What a link leads to would be overwritten.
        raise DataError(
            f"{str(file)!r} is no file but a link, a pipe or the like, which unskew does not leave "
            "there. Delete it.",
            path=str(file),
        )
    owner = None
    for attempt in range(_ATTEMPTS):
        opened: tuple[int, bool] | None = None
        with suppress(*_NAMED_LATER), _read_only_named(target):
            opened = _open(file)
        if opened is None:
            return None
        handle, is_new = opened
        is_locked = _lock(handle)
        owner = _read_owner(handle)
        if is_locked is False or (is_locked is None and not is_new):
            if owner is not None and (is_locked is False or not owner.is_dead):
                os.close(handle)
                break
            if is_locked is None and (owner is not None or attempt == _ATTEMPTS // 2):
                _remove_same(handle, file)  # of a dead process; one that had no time to write
            time.sleep(_PAUSE)
        elif _is_same(handle, file):
            if owner is not None:
                _log.info("%s: process %d of %s left its lock.", target, owner.pid, owner.host)
            _write_owner(handle)
            return handle
        # Else the holder before has just deleted it.
        os.close(handle)
    raise _locked_by(target, file, owner)


@contextmanager
def _read_only_named(target: Path) -> Iterator[None]:
    """Refuse a place where nothing can be created."""
    try:
        yield
    except _NAMED_LATER:
        raise
    except OSError as error:
        folder = os.path.dirname(os.path.abspath(error.filename or target))
        raise DataError(
            f"nothing can be written into {folder!r} ({error.strerror}). Name another place with "
            "-o.",
            path=folder,
        ) from error


def _status(file: Path) -> tuple[int, int]:
    """Return the kind of a file, and how many names it has."""
    try:
        status = os.lstat(file)
    except OSError:  # it is not there yet
        return stat.S_IFREG, 1
    return status.st_mode, status.st_nlink


def _open(file: Path) -> tuple[int, bool]:
    """Open the file of a lock, and no link; tell whether it was created."""
    no_link = getattr(os, "O_NOFOLLOW", 0)
    with suppress(FileExistsError):
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    return os.open(file, os.O_RDWR | os.O_CREAT | no_link, 0o666), False


def _lock(handle: int) -> bool | None:
    """Lock a file: True, False where another holds it, None where that is not supported."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without it
        return None
    return True


def _is_same(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except OSError:
        return False


def _remove_same(handle: int, file: Path) -> None:
    if _is_same(handle, file):
        with suppress(OSError):
            file.unlink()


def _write_owner(handle: int) -> None:
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    owner = _Owner(os.getpid(), socket.gethostname(), since)
    with suppress(OSError):  # a full disk: the lock holds without words, too
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(asdict(owner)).encode(), 0)


def _read_owner(handle: int) -> _Owner | None:
    try:
        record = json.loads(os.pread(handle, 4096, 0))
        return _Owner(int(record["pid"]), str(record["host"]), str(record["since"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _locked_by(target: Path, file: Path, owner: _Owner | None) -> LockedError:
    who = "another process" if owner is None else f"process {owner.pid} on {owner.host}"
    since = "" if owner is None else f" since {owner.since}"
    facts = {} if owner is None else asdict(owner)
    return LockedError(
        f"{str(target)!r} is being written by {who}{since}. Wait until that has ended, or name "
        f"another place with -o. If it has ended and this stays (some network file systems): "
        f"delete {str(file)!r}.",
        path=str(target),
        **facts,
    )
