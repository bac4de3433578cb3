"""Numba without the settings of the working directory."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

_LOCK = threading.Lock()


def import_njit() -> Any:
    """Import Numba's ``njit``; where this is the first import, forget what a file told it.

    Numba takes settings from ``.numba_config.yaml`` in the working directory, and one of them is
    the folder of its cache, whose pickles it loads: a stranger's folder could run anything. Those
    of the environment are the user's, and stay.
    """
    with _LOCK:
        is_first = "numba" not in sys.modules
        from numba import njit

        if is_first:
            from numba.core import config

            config._config_fname = os.devnull  # no regular file, so it is not read
            config.reload_config()  # type: ignore[no-untyped-call]
    return njit
