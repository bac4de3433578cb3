"""Files written atomically: to a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unskew.errors import ConfigError, DataError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` if the block succeeds.

    If the block fails, the temporary file is removed and ``path`` stays as it was. A full disk or
    a missing or read-only folder raises a `DataError`.
    """
    target = Path(path)
    _check_parent(target)
    # Threads of one process may write the same file at the same time: the last one wins.
    thread = f"{os.getpid()}-{threading.get_ident()}"
    temporary = target.with_name(f".{target.name}.{thread}.part")
    try:
        yield temporary
        temporary.replace(target)
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
def written_together(folder: str | os.PathLike[str], names: Iterable[str]) -> Iterator[Path]:
    """Yield a temporary folder whose files move into ``folder`` if the block succeeds.

    Those of ``names`` that were not written are deleted from ``folder``, so that files of two runs
    are never mixed. Other files stay as they are. If the block fails, nothing changes.
    """
    target = Path(folder)
    temporary, is_new = target / ".unfinished", not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        written = sorted(file.name for file in temporary.iterdir())
        for name in written:
            (temporary / name).replace(target / name)
        for name in set(names) - set(written):
            (target / name).unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(target, error) from error
    except DataError as error:
        # The temporary folder is gone, and its name would only puzzle.
        message = str(error).replace(str(temporary), str(target))
        if "path" in error.facts:
            error.facts["path"] = error.facts["path"].replace(str(temporary), str(target))
        raise DataError(message, **error.facts) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # not empty after a success
                target.rmdir()


@contextmanager
def folder_written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder to fill, which replaces ``path`` if the block succeeds.

    What was at ``path`` is moved aside first and deleted only after the new folder has replaced it.
    """
    target = Path(path)
    _check_parent(target)
    temporary, old = (
        target.with_name(f".{target.name}.{os.getpid()}.{suffix}") for suffix in ("part", "old")
    )
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.replace(old)
        try:
            temporary.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise DataError(
            f"{target} cannot be written: there is no folder {str(target.parent)!r}.",
            path=str(target.parent),
        )


def _cannot_write(target: Path, error: OSError) -> DataError:
    return DataError(
        f"{target} cannot be written ({error.strerror or error}); what was there before is "
        "unchanged.",
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
