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
    """Yields a path beside ``path`` to write to; it takes the place of ``path`` when the block ends
    well and is removed when not.

    A full disk, a read-only folder and a missing one are a `DataError` in words.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {str(target.parent)!r}.")
    # Threads of one process may write the same file at the same time; the last one wins, whole.
    beside = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield beside
        beside.replace(target)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); what was there before is "
            "untouched."
        ) from error
    finally:
        # The folder itself may be read-only, or gone; the first error is the one to show.
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def written_together(folder: str | os.PathLike[str], names: Iterable[str]) -> Iterator[Path]:
    """Yields a new folder inside ``folder`` to write to; when the block ends well, its files take
    their places in ``folder``, one after the other and at once, and those of ``names`` that were
    not written go: files of two runs are never mixed. Other files are left alone.
    """
    target = Path(folder)
    beside, is_new = target / ".unfinished", not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        yield beside
        written = sorted(each.name for each in beside.iterdir())
        for name in written:
            (beside / name).replace(target / name)
        for name in set(names) - set(written):
            (target / name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); what was there before is "
            "untouched."
        ) from error
    except DataError as error:
        # The folder within is nobody's business, and gone.
        raise DataError(str(error).replace(str(beside), str(target))) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # it is not empty where all went well
                target.rmdir()


def nearest_existing(path: str | os.PathLike[str]) -> Path:
    """The path itself, or the first above it that is there."""
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    return place


def may_write(folder: str | os.PathLike[str]) -> bool:
    """May files be written into this folder, or it be made?"""
    return os.access(nearest_existing(folder), os.W_OK | os.X_OK)


@contextmanager
def folder_written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a new folder beside ``path`` to fill; it takes the place of ``path`` when the block
    ends well and is removed when not.

    What was at ``path`` before is moved aside and deleted only when the new folder is in its place.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {str(target.parent)!r}.")
    beside, old = (
        target.with_name(f".{target.name}.{os.getpid()}.{word}") for word in ("part", "old")
    )
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        yield beside
        if target.exists():
            target.replace(old)
        try:
            beside.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); what was there before is "
            "untouched."
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


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
