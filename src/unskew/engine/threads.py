"""Threads of this machine.

The compiled sweeps release the GIL, so threads are enough and no data is copied.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any, TypeVar

Result = TypeVar("Result")

# Below this many matrix entries starting a thread costs more than the sweep.
_WORTH_A_THREAD = 1 << 18
# Partial sums of at most this many rows: they bound rounding errors and let threads finish
# together.
_ROWS_PER_TASK = 1 << 19

_blas: Any = None
_limiter: Any = None
_users = 0
_lock = threading.Lock()


def available_jobs() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_openmp_thread(limited: bool) -> AbstractContextManager[Any]:
    """Limit boosting on little data to one thread, if ``limited``: several wait for one another.

    That takes a hundred times as long on a busy machine.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp") if limited else nullcontext()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products inside our own threads from starting threads of their own.

    They would compete for the same cores.
    """
    global _blas, _limiter, _users
    with _lock:
        if _blas is None:
            from threadpoolctl import ThreadpoolController

            _blas = (
                ThreadpoolController()
            )  # looking for the libraries takes milliseconds, so only once
        if _users == 0:
            _limiter = _blas.limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:  # the last one out restores what the first one found
                _limiter.restore_original_limits()


def row_ranges(n_rows: int, width: int, jobs: int) -> list[tuple[int, int]]:
    """Cut ``n_rows`` rows of ``width`` entries into contiguous ranges, none empty.

    There are enough of them for ``jobs`` threads.
    """
    parts = max(1, -(-n_rows // _ROWS_PER_TASK))
    if jobs > 1 and n_rows * width >= _WORTH_A_THREAD:
        parts = -(-parts // jobs) * jobs
    edges = [n_rows * part // parts for part in range(parts + 1)]
    return [(start, stop) for start, stop in pairwise(edges) if stop > start]


def run_ranges(
    work: Callable[[int, int], Result], ranges: Sequence[tuple[int, int]], jobs: int
) -> list[Result]:
    """Compute ``[work(start, stop) for each range]`` on up to ``jobs`` threads.

    Results come in the order of the ranges, so that sums are reproducible.
    """
    if jobs <= 1 or len(ranges) <= 1:
        return [work(start, stop) for start, stop in ranges]
    with ThreadPoolExecutor(max_workers=min(jobs, len(ranges))) as pool:
        return list(pool.map(lambda bounds: work(*bounds), ranges))
