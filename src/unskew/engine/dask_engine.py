"""Blocks computed by Dask: an existing scheduler's address or `Client`, or a local cluster.

Importing this loads Dask, an extra.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew.engine.block_engines import Engine, EngineSettings, call_block
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError, DataError, UnskewError, missing_extra
from unskew.files.leftovers import remove_path

# Seconds to wait for a scheduler: a user sees words within ten.
_PATIENCE = 7
_AHEAD = 8


class DaskEngine(Engine):
    """Computes blocks on the workers of a Dask cluster; nothing is kept in Dask's own memory."""

    def __init__(self, place: Any, settings: EngineSettings) -> None:
        super().__init__(settings)
        self.cluster: Any = None
        self._is_ours = isinstance(place, str)
        if not self._is_ours:
            self.client = place
        else:
            address = settings.address if place == "dask" else place
            self.client = self._start(settings) if address is None else _connect(address)
        try:
            _check_versions(self.client)
        except UnskewError:
            self.close()
            raise
        except (OSError, RuntimeError, TimeoutError) as error:
            self.close()
            raise _lost(error) from error

    def _start(self, settings: EngineSettings) -> Any:
        distributed = _import_distributed()
        try:
            self.cluster = distributed.LocalCluster(
                n_workers=settings.workers or available_jobs(),
                threads_per_worker=1,
                dashboard_address=None,
                memory_limit=0,  # blocks bound the memory; spilling and killing are not needed
            )
            return distributed.Client(self.cluster)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise _lost(error) from error

    def each_block(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        state: Any,
        *,
        setup: Callable[[], Any] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> Iterator[Any]:
        name, numbers = f"unskew-{secrets.token_hex(6)}", itertools.count()
        # Sent once to each worker, not with each block; and a task, which is computed again where
        # all workers that held it have died: scattered data would be lost.
        sent = self.client.submit(_hand_over, state, key=f"{name}-state", pure=False)
        options = {
            "pure": False,
            "retries": self.settings.retries,
            "resources": None if resources is None else dict(resources),
        }
        ahead = _AHEAD * max(1, len(self.client.nthreads()))
        left, waiting = iter(blocks), deque[Any]()
        try:
            while True:
                for block in left:
                    key = f"{name}-{next(numbers)}"
                    arguments = (call_block, function, block, sent, setup)
                    waiting.append((block, self.client.submit(*arguments, key=key, **options)))
                    if len(waiting) >= ahead:
                        break
                if not waiting:
                    return
                block, future = waiting.popleft()
                yield _result(block, future)
        finally:
            self.client.cancel([future for _, future in waiting])

    def close(self) -> None:
        """Remove the decoded columns of this run from the workers; end what was started here."""
        if self._own_cache is not None:
            # A scheduler that has gone takes its workers' temporary files along.
            with contextlib.suppress(Exception):
                self.client.run(_remove_folder, self._own_cache)
        if self._is_ours:
            self.client.close()
        if self.cluster is not None:
            self.cluster.close()
        super().close()


def _result(block: Any, future: Any) -> Any:
    distributed = _import_distributed()
    try:
        return future.result()
    except distributed.scheduler.KilledWorker as error:
        where = f" {block.path!r}" if hasattr(block, "path") else " a block"
        raise DataError(
            f"several workers of the cluster died while they computed{where}. Most often memory "
            "ran out: set a smaller block_rows, or give workers more memory.",
            option="block_rows",
        ) from error
    except distributed.client.CancelledError as error:
        raise DataError(
            f"the Dask cluster went away, or gave up the computation ({error}). What was written "
            "is complete: start again when the scheduler runs.",
            option="address",
        ) from error


def _lost(error: Exception) -> DataError:
    return DataError(
        f"a worker of the Dask cluster died before it had computed anything ({error}). Most often "
        "it was killed, or memory or open files ran out. Start again, or with fewer workers.",
        option="workers",
    )


def _connect(address: str) -> Any:
    distributed = _import_distributed()
    try:
        return distributed.Client(address, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError, ImportError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {address!r} ({error or type(error).__name__}). Start "
            "one (`dask scheduler`, `dask worker`), or correct address under [engine].",
            option="address",
            value=address,
        ) from error


def _check_versions(client: Any) -> None:
    """Refuse a scheduler or workers of another version: what they cannot read fails in odd ways."""
    from unskew.files.fingerprints import find_versions

    distributed = _import_distributed()
    versions = client.get_versions(check=False)
    scheduler = versions["scheduler"]["packages"]["distributed"]
    if scheduler != distributed.__version__:
        raise ConfigError(
            f"the scheduler has distributed {scheduler}, this process {distributed.__version__}. "
            "Install the same version on both sides.",
            option="address",
            value=scheduler,
            allowed=[distributed.__version__],
        )
    own = find_versions()["unskew"]
    others = {name: version for name, version in client.run(_version).items() if version != own}
    if others:
        worker, version = next(iter(others.items()))
        raise ConfigError(
            f"{len(others)} workers have another unskew than this process ({own}), such as "
            f"{worker}: {version}. Install the same version there.",
            option="address",
            value=version,
            allowed=[own],
        )


def _hand_over(state: Any) -> Any:
    return state


def _version() -> str:
    from unskew.files.fingerprints import find_versions

    return find_versions()["unskew"]


def _remove_folder(folder: str) -> None:
    remove_path(Path(folder))


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise missing_extra("dask", "the engine dask", error) from error
    return distributed
