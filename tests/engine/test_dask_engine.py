"""Dask: errors, and one small case where it is installed; `make test-cluster` has real clusters."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unskew
from parted_pools import TILT, read_parts, write_parts
from raising import refused
from unskew import Pool
from unskew.engine import dask_engine
from unskew.engine.block_engines import open_engine
from unskew.errors import ConfigError, DataError
from unskew.files.fingerprints import find_versions

HAS_DASK = importlib.util.find_spec("distributed") is not None


@pytest.mark.skipif(HAS_DASK, reason="Dask is installed")
def test_without_dask_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"unskew\[dask\]") as raised:
        open_engine("dask")
    assert raised.value.facts["extra"] == "dask"


def test_a_worker_that_dies_while_a_cluster_starts_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_to_start(**options: Any) -> Any:
        raise RuntimeError("Nanny failed to start.")

    distributed = SimpleNamespace(LocalCluster=fail_to_start)
    monkeypatch.setattr(dask_engine, "_import_distributed", lambda: distributed)
    with refused(DataError, option="workers"):
        open_engine("dask")


@pytest.mark.skipif(not HAS_DASK, reason="Dask is not installed")
@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there_is_named_within_ten_seconds() -> None:
    begin = time.monotonic()
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9") as raised:
        open_engine("tcp://127.0.0.1:9")
    assert time.monotonic() - begin < 10
    assert raised.value.facts["option"] == "address"


@pytest.mark.parametrize(
    ("scheduler", "worker", "value"),
    [("2.0", "own", "2.0"), ("1.0", "0.0.1", "0.0.1"), ("1.0", "own", None)],
    ids=["scheduler", "worker", "alike"],
)
def test_other_versions_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, scheduler: str, worker: str, value: str | None
) -> None:
    monkeypatch.setattr(
        dask_engine, "_import_distributed", lambda: SimpleNamespace(__version__="1.0")
    )
    own = find_versions()["unskew"] if worker == "own" else worker
    client: Any = SimpleNamespace(
        get_versions=lambda check: {"scheduler": {"packages": {"distributed": scheduler}}},
        run=lambda function: {"tcp://w": own},
    )
    if value is None:
        dask_engine._check_versions(client)
        return
    with refused(ConfigError, option="address", value=value):
        dask_engine._check_versions(client)


@pytest.mark.skipif(not HAS_DASK, reason="Dask is not installed")
@pytest.mark.filterwarnings("default")
def test_a_cluster_gives_the_weights_of_threads(tmp_path: Path) -> None:
    import distributed

    write_parts(tmp_path / "pool")
    with distributed.Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as client:
        for name, engine in (("dask", client), ("threads", None)):
            pool = Pool.from_parquet(tmp_path / "pool", block_rows=400)
            unskew.debias(pool, *TILT, subsample=900, engine=engine).to_parquet(tmp_path / name)
    one, other = (read_parts(tmp_path / name)["weight"] for name in ("dask", "threads"))
    np.testing.assert_allclose(one, other, rtol=1e-10)
