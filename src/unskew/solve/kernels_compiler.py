"""How loops are compiled: without the GIL, cached on disk, sums reordered so that they vectorise.

Importing this loads Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unskew.engine.numba_import import import_njit

njit = import_njit()
# Sums may be reordered and fused, but NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

TILE_ROWS = 256  # rows per tile: 256 x 24 doubles stay in the second-level cache


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use; kept on disk, unless there is no folder that can be written."""
    try:
        return njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba: no locator available
        return njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)  # type: ignore[no-any-return]
