"""Processes that end when the one that started them does, also where that is killed."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unskew.files.leftovers import remove_path

_EVERY = 0.5  # seconds
_watching = threading.Event()


def end_with_parent(parent: int, folder: str | None = None) -> None:
    """End this process within a second of ``parent``, which started it; delete ``folder`` then.

    A process that is killed (SIGKILL, out of memory) cannot end those that it started, which would
    wait for work for ever. Called in the process ``parent`` itself, this does nothing.
    """
    if parent != os.getpid() and not _watching.is_set():
        _watching.set()
        threading.Thread(target=_watch, args=(parent, folder), daemon=True).start()


def call_watched(parent: int, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function in a process that ends with ``parent``: for pools that joblib starts.

    Workers of a cluster, which are not processes of ``parent``, are left alone.
    """
    if os.getppid() == parent:
        end_with_parent(parent)
    return function(*args, **options)


@contextmanager
def children_ended() -> Iterator[None]:
    """End the processes that the block started by `multiprocessing`, if an exception leaves it.

    Python waits for them when it ends itself: after Ctrl-C or SIGTERM it would wait for ever.
    """
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        raise


@contextmanager
def nothing_from_here() -> Iterator[None]:
    """Let processes that the block starts import nothing from the working directory.

    ``python -m`` and ``python -c``, by which loky and `multiprocessing` start them, have it first
    on their import path.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _watch(parent: int, folder: str | None) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    if folder is not None:
        remove_path(Path(folder))
    os._exit(1)
