"""When loops are compiled, how, and where the machine code is kept.

Every loop that is compiled has a twin in plain NumPy with the same arguments and results, which
small problems take: Numba is then not even imported. `pays_to_compile` is the one place that
decides. The code that Numba makes is kept in the user's cache folder, never in the package's.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# Numbers that are read again and again (images × sources) up to which plain NumPy is used:
# compiling takes seconds, loading what was compiled half a second, and NumPy hundredths of one.
PLAIN_NUMBERS = 1_000_000
TILE_ROWS = 256  # rows per tile of a compiled loop: 256 x 24 doubles stay in the second-level cache
# Sums may be reordered and fused, but NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_LOCK = threading.Lock()
_log = logging.getLogger(__name__)
_announced = False


def pays_to_compile(numbers: float) -> bool:
    """Tell whether a problem of so many numbers (images × sources) is worth compiled loops."""
    return numbers > PLAIN_NUMBERS


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, without the GIL; sums are reordered so that they vectorise."""
    return compile_loop(function, fastmath=_FAST, error_model="numpy")


def compile_loop(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile on first use, without the GIL; kept on disk where a folder can be written."""
    with _LOCK:
        njit, config = _import_numba()
        # Numba would take the package's own folder where the user named none: that outlives
        # `pip uninstall`, and belongs to others where the package is shared.
        named = config.CACHE_DIR
        folder = named or _cache_folder()
        try:
            config.CACHE_DIR = folder
            kept = njit(nogil=True, cache=_is_writable(folder), **options)(function)
        finally:
            config.CACHE_DIR = named
    return kept  # type: ignore[no-any-return]


def _import_numba() -> tuple[Any, Any]:
    """Import Numba without the YAML by which it reads ``.numba_config.yaml``, where it is there.

    That is a file of the working directory, and one of its settings the folder of a cache, whose
    pickles Numba loads: a stranger's folder could run anything. Settings of the environment are
    the user's, and stay.
    """
    if "numba" not in sys.modules:
        before = {name: sys.modules[name] for name in ("yaml",) if name in sys.modules}
        sys.modules["yaml"] = None  # type: ignore[assignment]
        try:
            import numba  # noqa: F401
        finally:
            sys.modules.pop("yaml", None)
            sys.modules.update(before)
    from numba import njit
    from numba.core import config

    _listen()
    return njit, config


@cache
def _listen() -> None:
    """Log one line when the first loop of ours is compiled, and not loaded from the cache."""
    from numba.core import event

    class Announcement(event.Listener):
        def on_start(self, event: Any) -> None:
            global _announced
            dispatcher = event.data["dispatcher"]
            module: str = dispatcher.py_func.__module__
            if not _announced and module.startswith("unskew."):
                _announced = True
                _log.info(
                    "compiling once, for a few seconds. %s",
                    "Later runs find what was compiled in the cache."
                    if getattr(dispatcher._cache, "cache_path", None)
                    else "It is not kept: the folder for it is read-only (NUMBA_CACHE_DIR "
                    "names another).",
                )

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]


def _cache_folder() -> str:
    """Return the folder of the user's cache; empty where the environment names no absolute one."""
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        parent = os.path.expanduser("~/Library/Caches")
    else:
        parent = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return str(Path(parent, "unskew", "compiled")) if Path(parent).is_absolute() else ""


def _is_writable(folder: str) -> bool:
    if not folder:
        return False
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
