"""SIGTERM (timeout, SLURM, docker stop) and SIGHUP (a closed terminal) end a command like Ctrl-C.

The exit codes are 143 and 129.
"""

from __future__ import annotations

import signal
from typing import Any

STOPPED = 130
# Windows has no SIGHUP.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_received: list[int] = []


def stop_on_signals() -> None:
    """Let these signals raise what Ctrl-C raises, once.

    A parent's wish to ignore one (`nohup`) is respected.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, _frame: Any) -> None:
    # Once is enough: a second one would cut short what the first has set off.
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    _received.append(number)
    raise KeyboardInterrupt


def stop_code() -> int:
    """Return the exit code of a command that was stopped: by Ctrl-C, or by one of the signals."""
    return 128 + _received[0] if _received else STOPPED
