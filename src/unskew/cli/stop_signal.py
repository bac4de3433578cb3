"""SIGTERM (timeout, SLURM, docker stop) ends a command as Ctrl-C does; its exit code is 143."""

from __future__ import annotations

import signal
import threading
from typing import Any

STOPPED, TERMINATED = 130, 143
_terminated = threading.Event()


def stop_on_sigterm() -> None:
    """Let SIGTERM raise what Ctrl-C raises, once; a parent's wish to ignore it is respected."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def _stop(*_: Any) -> None:
    # Once is enough: a second one would cut short what the first has set off.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _terminated.set()
    raise KeyboardInterrupt


def stop_code() -> int:
    """Return the exit code of a command that was stopped: by Ctrl-C, or by SIGTERM."""
    return TERMINATED if _terminated.is_set() else STOPPED
