from __future__ import annotations

import os
import signal
import warnings
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from parted_pools import write_parts
from raising import refused
from unskew import Pool
from unskew.engine.block_engines import EngineSettings, open_engine, opened_engine
from unskew.engine.blocks import read_block
from unskew.errors import ConfigError, DataError, UnskewError

MADE = []


def square(block: int, state: int) -> int:
    return state * block * block


def make() -> str:
    MADE.append(1)
    return "made"


def with_made(block: int, state: str, made: str) -> str:
    return f"{made} {state} {block}"


def refuse(block: int, state: Any) -> int:
    if block == 3:
        raise DataError("block 3 is damaged", path="three")
    return block


def fail_once(block: int, folder: str) -> int:
    mark = Path(folder) / str(block)
    if block == 2 and not mark.exists():
        mark.touch()
        raise OSError("the network was away")
    return block


def process_id(block: int, state: Any) -> int:
    return os.getpid()


def kill_once(block: int, folder: str) -> int:
    mark = Path(folder) / str(block)
    if block == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block * 10


class InThisThread(Executor):
    """An executor as another package might have one."""

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **options))
        return future


@pytest.mark.parametrize("engine", [None, "local", InThisThread()])
def test_results_come_in_order_from_every_engine(engine: Any) -> None:
    with opened_engine(engine) as opened:
        assert opened.map_blocks(square, range(100), 2) == [2 * n * n for n in range(100)]
        assert opened.map_blocks(square, [], 2) == []


def test_what_is_expensive_is_made_once() -> None:
    MADE.clear()
    with opened_engine("local", EngineSettings(workers=3)) as opened:
        results = opened.map_blocks(with_made, range(20), "with", setup=make)
    assert results[7] == "made with 7"
    assert len(MADE) == 1


def test_an_error_of_ours_comes_as_it_was_raised_and_ends_the_rest() -> None:
    with opened_engine(None) as opened, pytest.raises(DataError, match="block 3") as raised:
        opened.map_blocks(refuse, range(1000), None)
    assert raised.value.facts["path"] == "three"


def test_a_file_system_that_fails_is_asked_again(tmp_path: Path) -> None:
    with opened_engine(None) as opened:
        assert opened.map_blocks(fail_once, range(5), str(tmp_path)) == list(range(5))
    (tmp_path / "2").unlink()
    with (
        opened_engine(None, EngineSettings(retries=0)) as opened,
        pytest.raises(OSError, match="away"),
    ):
        opened.map_blocks(fail_once, range(5), str(tmp_path))


@pytest.mark.slow
def test_a_killed_process_costs_its_block_only(tmp_path: Path) -> None:
    settings = EngineSettings(workers=2, processes=True)
    with opened_engine(None, settings) as opened:
        results = opened.map_blocks(kill_once, range(12), str(tmp_path))
    assert (tmp_path / "2").exists()
    assert results == [10 * n for n in range(12)]


def test_workers_that_died_while_nothing_was_asked_of_them_are_replaced() -> None:
    with open_engine("local", EngineSettings(workers=1, processes=True)) as opened:
        (worker,) = opened.map_blocks(process_id, range(1), None)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(BrokenExecutor):  # from here on nothing can be handed out
            opened.executor.submit(process_id, 0, None).result()
        assert opened.map_blocks(square, range(3), 1) == [0, 1, 4]


def test_an_engine_that_was_handed_in_stays_open() -> None:
    with ThreadPoolExecutor(1) as pool:
        engine = open_engine(pool)
        with opened_engine(engine) as opened:
            assert opened is engine
        assert engine.map_blocks(square, [3], 1) == [9]


@pytest.mark.parametrize("engine", ["locl", 3, object])
def test_what_is_no_engine_is_refused(engine: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        open_engine(engine)
    assert raised.value.facts["option"] == "engine"


def test_the_temporary_cache_is_removed(tmp_path: Path) -> None:
    with opened_engine(None) as opened:
        Path(opened.cache).mkdir()
        cache = Path(opened.cache)
    assert not cache.exists()
    with opened_engine(None, EngineSettings(cache=str(tmp_path))) as opened:
        assert opened.cache == str(tmp_path)
    assert tmp_path.exists()
    assert issubclass(ConfigError, UnskewError)


def test_threads_leave_the_filters_of_warnings_alone(tmp_path: Path) -> None:
    write_parts(tmp_path)
    before = list(warnings.filters)
    with opened_engine(None, EngineSettings(workers=8)) as opened:
        for _ in range(5):
            blocks = Pool.from_parquet(tmp_path, engine=opened, block_rows=300).blocks
            opened.map_blocks(read_block, blocks, ["id", "y"])
    assert warnings.filters == before


def test_no_stage_knows_which_engine_runs() -> None:
    """An engine's name is a value of a key outside of `unskew.engine`, and never compared."""
    import ast
    from typing import get_args

    import unskew
    from unskew.config.sections import EngineSection
    from unskew.engine.block_engines import ENGINES

    key = EngineSection.model_fields["name"].annotation
    assert get_args(get_args(key)[0]) == ENGINES
    room = Path(unskew.__file__).parent
    compared = [
        f"{path.relative_to(room)}:{node.lineno}"
        for path in room.rglob("*.py")
        if path.parent.name != "engine"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for value in ast.walk(node)
        if isinstance(value, ast.Constant) and value.value == ENGINES[1]
    ]
    assert not compared


def test_a_setting_that_the_engine_does_not_read_is_refused() -> None:
    with refused(ConfigError, option="address"):
        open_engine("local", EngineSettings(address="tcp://127.0.0.1:1"))
    with refused(ConfigError, option="processes"):
        open_engine("dask", EngineSettings(processes=True))
