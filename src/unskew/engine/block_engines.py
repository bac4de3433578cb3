"""Engines: where blocks are computed. `Engine.map_blocks` is the whole contract.

A stage hands a module-level pure function, references to its input, and a small state to
`map_blocks`, and gets small results in the order of the input. No stage knows which engine runs.

- `LocalEngine`: threads of this process (the default; compiled sweeps, decoding and most of NumPy
  release the interpreter's lock, and nothing is copied), or processes.
- `ExecutorEngine`: any `concurrent.futures.Executor`, so that other clusters need no code of ours.
- `unskew.engine.dask_engine`: Dask.

In memory is at most one block for each worker, whatever the number of blocks.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.engine.blocks import BLOCK_ROWS
from unskew.engine.parent_watch import end_with_parent
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError, DataError, UnskewError, did_you_mean
from unskew.files.leftovers import name_owner, remove_path

ENGINES = ("local", "dask")
# Tasks handed to an executor ahead of the one whose result is waited for: for each worker.
_AHEAD = 4
_NOTHING = object()


@dataclass(frozen=True)
class EngineSettings:
    """What a user may change of an engine.

    Attributes
    ----------
    workers : threads or processes; None: one for each core.
    processes : whether `local` starts processes instead of threads.
    address : of a Dask scheduler; None: a cluster on this machine.
    cache : folder, on each worker's own disk, for decoded columns; None: a temporary one, which is
        removed in the end.
    block_rows : rows of a block.
    retries : how often a block is computed again after a worker or a file system failed.
    """

    workers: int | None = None
    processes: bool = False
    address: str | None = None
    cache: str | None = None
    block_rows: int = BLOCK_ROWS
    retries: int = 3


def call_block(
    function: Callable[..., Any], block: Any, state: Any, setup: Callable[[], Any] | None
) -> Any:
    """Compute one block, wherever this is called; what ``setup`` makes is made once and kept."""
    if setup is None:
        return function(block, state)
    return function(block, state, _prepared(setup))


_made: dict[Any, Any] = {}
_making = threading.Lock()


def _prepared(setup: Callable[[], Any]) -> Any:
    with _making:
        made = _made.get(setup, _NOTHING)
        if made is _NOTHING:
            made = _made[setup] = setup()
        return made


class Engine(ABC):
    """Computes functions of blocks."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._own_cache: str | None = None
        if settings.cache is None:
            self._own_cache = str(Path(tempfile.gettempdir()) / f"unskew-blocks-{name_owner()}")

    @property
    def cache(self) -> str:
        """The folder on a worker's own disk where it keeps decoded columns."""
        return self._own_cache or str(self.settings.cache)

    @abstractmethod
    def each_block(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        state: Any,
        *,
        setup: Callable[[], Any] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> Iterator[Any]:
        """Yield what `map_blocks` returns, one result after the other, in order."""

    def map_blocks(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        state: Any,
        *,
        setup: Callable[[], Any] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> list[Any]:
        """Compute ``function(block, state)`` of every block: small results, in order.

        Parameters
        ----------
        function : a function of a module, without side effects but files it writes atomically.
        blocks : references to the input, such as `FileBlock`; data never travel with them.
        state : what the function needs besides; small.
        setup : makes what is expensive, such as a network, once on each worker; the function is
            then called as ``function(block, state, made)``.
        resources : what a task needs of its worker, such as {"GPU": 1}, where workers differ.
        """
        return list(self.each_block(function, blocks, state, setup=setup, resources=resources))

    def close(self) -> None:
        """Remove what was kept for this engine only; end workers that it started."""
        if self._own_cache is not None:
            remove_path(Path(self._own_cache))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ExecutorEngine(Engine):
    """Any `concurrent.futures.Executor`; it stays the caller's to shut down."""

    def __init__(self, executor: Executor, settings: EngineSettings) -> None:
        super().__init__(settings)
        self.executor = executor
        self.ahead = _AHEAD * (settings.workers or available_jobs())

    def each_block(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        state: Any,
        *,
        setup: Callable[[], Any] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> Iterator[Any]:
        waiting: deque[tuple[Any, Future[Any]]] = deque()
        left = iter(blocks)
        try:
            while True:
                for block in left:
                    waiting.append((block, self._submit(function, block, state, setup)))
                    if len(waiting) >= self.ahead:
                        break
                if not waiting:
                    return
                block, future = waiting.popleft()
                yield self._result(future, function, block, state, setup, waiting)
        finally:
            # What runs already would otherwise write behind the back of whoever comes next.
            wait([future for _, future in waiting if not future.cancel()])

    def _submit(
        self, function: Callable[..., Any], block: Any, state: Any, setup: Any
    ) -> Future[Any]:
        try:
            return self.executor.submit(call_block, function, block, state, setup)
        except BrokenExecutor as error:
            # Workers died since the last block; `_result` starts new ones.
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def _result(
        self,
        future: Future[Any],
        function: Callable[..., Any],
        block: Any,
        state: Any,
        setup: Any,
        waiting: deque[tuple[Any, Future[Any]]],
    ) -> Any:
        """Wait for a block; compute it again where a worker died or a file system failed."""
        for left in range(self.settings.retries, -1, -1):
            try:
                return future.result()
            except UnskewError:
                raise
            except BrokenExecutor as error:
                if not left or not self.renew():
                    raise DataError(
                        f"the processes that computed {_named(block)} died {self.settings.retries} "
                        "times. Most often memory ran out: set a smaller block_rows or fewer "
                        "workers.",
                        option="block_rows",
                        value=self.settings.block_rows,
                    ) from error
                # All that was handed out is lost with the workers.
                for at, (other, lost) in enumerate(waiting):
                    if not lost.done() or lost.cancelled() or lost.exception() is not None:
                        waiting[at] = (other, self._submit(function, other, state, setup))
                future = self._submit(function, block, state, setup)
            except OSError:
                if not left:
                    raise
                future = self._submit(function, block, state, setup)
        raise AssertionError

    def renew(self) -> bool:
        """Start new workers in place of dead ones, if they are ours to start."""
        return False


class LocalEngine(ExecutorEngine):
    """Threads, or processes, of this machine."""

    def __init__(self, settings: EngineSettings) -> None:
        self.workers = settings.workers or available_jobs()
        super().__init__(_start_workers(self.workers, settings.processes), settings)
        self.ahead = _AHEAD * self.workers

    def renew(self) -> bool:
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = _start_workers(self.workers, self.settings.processes)
        return True

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        super().close()


def _start_workers(workers: int, processes: bool) -> Executor:
    if not processes:
        return ThreadPoolExecutor(workers, thread_name_prefix="unskew-block")
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with_parent,
        initargs=(os.getpid(),),
    )


def _named(block: Any) -> str:
    return f"{block.path!r}" if hasattr(block, "path") else "a block"


def open_engine(engine: Any = None, settings: EngineSettings | None = None) -> Engine:
    """Open an engine: its name, an address of Dask's, an Executor, a Dask Client, or one that is.

    None is `local`. An engine that is handed in stays open when a caller closes what it got.
    """
    settings = settings or EngineSettings()
    check_engine(engine)
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, Executor):
        return ExecutorEngine(engine, settings)
    is_local = engine is None or engine == "local"
    unread = ("address", settings.address) if is_local else ("processes", settings.processes)
    if unread[1]:
        raise ConfigError(
            f"the engine {engine or 'local'!r} does not read {unread[0]}: leave it out, or set "
            f"engine.name to {ENGINES[is_local]!r}.",
            option=unread[0],
            value=unread[1],
        )
    if is_local:
        return LocalEngine(settings)
    from unskew.engine.dask_engine import DaskEngine

    return DaskEngine(engine, settings)


def check_engine(engine: Any) -> None:
    """Refuse what `open_engine` cannot open, without opening anything."""
    is_text = isinstance(engine, str)
    if engine is None or isinstance(engine, Engine | Executor) or (is_text and engine in ENGINES):
        return
    if (is_text and "://" in engine) or type(engine).__module__.split(".")[0] == "distributed":
        return
    raise ConfigError(
        f"engine is one of {', '.join(ENGINES)}, the address of a Dask scheduler (tcp://…), a Dask "
        f"Client or a concurrent.futures.Executor; got {engine!r}."
        f"{did_you_mean(engine, ENGINES) if is_text else ''}",
        option="engine",
        value=repr(engine),
        allowed=list(ENGINES),
    )


@contextlib.contextmanager
def opened_engine(engine: Any, settings: EngineSettings | None = None) -> Iterator[Engine]:
    """Open an engine as `open_engine` does, and close it afterwards unless it was handed in."""
    opened = open_engine(engine, settings)
    try:
        yield opened
    finally:
        if opened is not engine:
            opened.close()
