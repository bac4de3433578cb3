"""Real local clusters and real kills: ``make test-cluster``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew
from part_runs import BEYOND, save, write_pool
from parted_pools import STRATA, TILT, kill_first_holder, read_parts, write_parts
from unskew import ConfigError, DataError, Pool
from unskew.engine.block_engines import EngineSettings, open_engine, opened_engine

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def weights_of(pool: Pool, case: Any, engine: Any, folder: Path) -> np.ndarray:
    weights = unskew.debias(pool, *case, subsample=900, engine=engine)
    weights.to_parquet(folder)
    return read_parts(folder)["weight"].to_numpy()


@pytest.mark.parametrize("case", [STRATA, TILT], ids=["strata", "tilt"])
def test_dask_and_processes_give_the_weights_of_threads(
    tmp_path: Path, client: Any, case: Any
) -> None:
    write_parts(tmp_path / "pool")
    pool = Pool.from_parquet(tmp_path / "pool", block_rows=500)
    base = weights_of(pool, case, None, tmp_path / "threads")
    other = Pool.from_parquet(tmp_path / "pool", block_rows=1300)
    np.testing.assert_allclose(weights_of(other, case, client, tmp_path / "dask"), base, rtol=1e-10)
    with opened_engine(None, EngineSettings(workers=2, processes=True)) as engine:
        processes = weights_of(other, case, engine, tmp_path / "processes")
    np.testing.assert_allclose(processes, base, rtol=1e-10)


def test_a_configuration_names_a_scheduler(tmp_path: Path, client: Any) -> None:
    write_pool(tmp_path)
    address = client.scheduler.address
    engine = f'{BEYOND}name = "dask"\naddress = "{address}"\n'
    path = save(tmp_path, "run.toml", engine=engine)
    with pytest.raises(ConfigError):  # its answers run code
        unskew.run(path)
    unskew.run(path, tmp_path / "dask", allow_code=[address])
    unskew.run(save(tmp_path, "threads.toml"), tmp_path / "threads")
    one, other = (read_parts(tmp_path / name / "weights") for name in ("dask", "threads"))
    np.testing.assert_allclose(one["weight"], other["weight"], rtol=1e-10)


def test_a_killed_worker_that_holds_a_task_changes_no_result(tmp_path: Path) -> None:
    with opened_engine("dask", EngineSettings(workers=2)) as engine:
        results = engine.map_blocks(kill_first_holder, range(12), str(tmp_path))
    assert (tmp_path / "killed-3").exists()
    assert results == [block * block for block in range(12)]


def test_what_the_passes_need_outlives_the_workers_that_held_it(tmp_path: Path) -> None:
    with opened_engine("dask", EngineSettings(workers=1)) as engine:
        results = engine.map_blocks(kill_first_holder, range(3, 5), str(tmp_path))
    assert results == [9, 16]


def test_a_cluster_that_shrinks_finishes_on_the_workers_that_are_left(tmp_path: Path) -> None:
    write_parts(tmp_path / "pool")
    pool = Pool.from_parquet(tmp_path / "pool", block_rows=200)
    base = weights_of(pool, TILT, None, tmp_path / "threads")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scale(1)
        weights = weights_of(pool, TILT, client, tmp_path / "dask")
    np.testing.assert_allclose(weights, base, rtol=1e-10)


def test_an_error_of_a_worker_names_the_part(tmp_path: Path, client: Any) -> None:
    write_parts(tmp_path)
    pool = Pool.from_parquet(tmp_path)
    (tmp_path / "part-1.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError) as raised:
        unskew.debias(pool, *STRATA, subsample=900, engine=client)
    assert raised.value.facts["path"].endswith("part-1.parquet")


def test_a_scheduler_that_is_not_there_is_told_in_words_within_ten_seconds() -> None:
    begin = time.monotonic()
    with pytest.raises(ConfigError) as raised:
        open_engine("tcp://127.0.0.1:9")
    assert time.monotonic() - begin < 10
    assert raised.value.facts["option"] == "address"


DRIVER = """
import sys, time
import unskew
from unskew.debiasing import part_weights
from parted_pools import STRATA
from pathlib import Path
write = part_weights.write_part
def slow(file, state, path):
    time.sleep(0.4)
    return write(file, state, path)
part_weights.write_part = slow
pool = unskew.Pool.from_parquet(sys.argv[1])
unskew.debias(pool, *STRATA, subsample=900).to_parquet(sys.argv[2])
"""


def test_a_driver_that_is_killed_leaves_whole_parts_and_a_rerun_the_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unskew.debiasing import part_weights

    frame = write_parts(tmp_path / "pool", parts=12)
    out = tmp_path / "weights"
    arguments = [sys.executable, "-c", DRIVER, str(tmp_path / "pool"), str(out)]
    paths = os.pathsep.join(map(str, [Path(__file__).parents[1], *sys.path]))
    driver = subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": paths})
    while not list(out.glob(".complete/*.json")):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    complete = {path.name.removesuffix(".json") for path in out.glob(".complete/*.json")}
    assert 0 < len(complete) < 12
    written, write = [], part_weights.write_part
    monkeypatch.setattr(
        part_weights,
        "write_part",
        lambda file, *rest: written.append(file.name) or write(file, *rest),
    )
    pool = Pool.from_parquet(tmp_path / "pool")
    unskew.debias(pool, *STRATA, subsample=900).to_parquet(out)
    assert set(written) == {f"part-{at}.parquet" for at in range(12)} - complete
    table = read_parts(out).set_index("id").loc[frame["id"]]
    assert table["weight"].sum() == pytest.approx(1.0, abs=1e-12)
