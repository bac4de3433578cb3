"""Names of unfinished files that no other process has, and what dead processes left of them."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# Of another machine nothing is known: what it left is removed after a week.
_FORGOTTEN = 7 * 24 * 3600.0
_TEMPORARY = "unskew-"
_OWNER = re.compile(r"(?P<host>[0-9a-f]{6})-(?P<pid>\d+)-[0-9a-f]{8}")


def name_owner() -> str:
    """Return a name for something unfinished: machine, process, and a random part."""
    return f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def unfinished_path(target: Path, suffix: str = "part") -> Path:
    """Return a hidden path in the same folder that no other process or thread uses."""
    return target.with_name(f".{target.name}.{name_owner()}.{suffix}")


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder; those that killed processes left are removed."""
    remove_leftovers(Path(tempfile.gettempdir()), _TEMPORARY)
    return tempfile.TemporaryDirectory(prefix=f"{_TEMPORARY}{name_owner()}-")


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove what begins with ``prefix`` and has the name of a dead process (`name_owner`).

    Dead are processes of this machine that do not run any more, and after a week those of others.
    Only files of the same user are removed, and no link is followed.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _is_leftover(entry):
                remove_path(Path(entry.path))


def remove_path(path: Path) -> None:
    """Remove a file or a folder, if it exists and may be removed."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine runs; True where that cannot be known."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def _is_leftover(entry: os.DirEntry[str]) -> bool:
    owner = _OWNER.search(entry.name)
    if owner is None:
        return False
    with suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            return False
        if owner["host"] == _machine():
            return not is_alive(int(owner["pid"]))
        return time.time() - status.st_mtime > _FORGOTTEN
    return False


def _machine() -> str:
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=3).hexdigest()
