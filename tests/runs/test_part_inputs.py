"""Parts as the sources of a configuration: what is read, sampled, and refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from part_runs import BEYOND, PARTS, STRATA, save, write_pool
from raising import refused
from unskew import ConfigError, DataError
from unskew.config.run_config import read_config
from unskew.runs.inputs import describe_origin, read_inputs
from unskew.sources.part_pool import PartPool


def test_the_roles_are_those_of_from_parquet(tmp_path: Path) -> None:
    write_pool(tmp_path)
    sources = 'parquet = { one = "pool/part-0.parquet", two = "pool/part-[12].parquet" }\n'
    roles = 'label = "in_a"\ndesign_weight = "drawn"\ngroup = "z_1"\n'
    path = save(tmp_path, "run.toml", sources=sources + roles, engine="")
    with refused(DataError, columns=["in_a", "label"]):  # the files have a column label, too
        read_inputs(read_config(path))
    path = save(tmp_path, "run.toml", sources=sources + roles.replace("in_a", "label"), engine="")
    pool = read_inputs(read_config(path)).pool
    assert not isinstance(pool, PartPool)
    assert pool.names == ("one", "two")
    assert {"group", "design_weight"} <= set(pool.frame.columns)


def test_memory_bounds_the_rows_of_blocks(tmp_path: Path) -> None:
    write_pool(tmp_path, 20_000)
    rows = []
    for memory in ("", "memory = 0.0005\n", "memory = 4\n"):
        path = save(tmp_path, "run.toml", engine="[engine]\nsubsample = 400\n" + memory)
        pool = read_inputs(read_config(path), beyond="parts").pool
        assert isinstance(pool, PartPool)
        rows.append(max(map(len, pool.blocks)))
    assert rows[0] == rows[2] > rows[1] >= 3000


def test_beyond_the_subsample_a_command_has_the_parts_a_sample_or_a_refusal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = read_config(write_pool(tmp_path))
    parts = read_inputs(config, beyond="parts")
    assert isinstance(parts.pool, PartPool)
    with caplog.at_level(logging.WARNING):
        sampled = read_inputs(config, beyond="sample")
    assert "of 1,500 images" in caplog.text
    assert 900 < len(sampled.pool) < 1500
    # A forecast of the subsample belongs to the run over the parts.
    origins = [describe_origin(inputs, None) for inputs in (parts, sampled)]
    assert origins[0]["fingerprints"] == origins[1]["fingerprints"]
    with refused(ConfigError, key="engine.subsample", count=1500):
        read_inputs(config)


@pytest.mark.parametrize(
    ("model", "sources", "key"),
    [
        (STRATA, PARTS + 'split = "in_a"\n', "sources.split"),
        (STRATA, PARTS + 'split = { file = "all.parquet" }\n', "sources.split"),
        (STRATA + '[solve]\nmethod = "sgd"\n', PARTS, "solve.method"),
        (
            STRATA.replace("[target]", "[targets.one]") + '[targets.two]\nuniform = "label"\n',
            *(PARTS, "targets"),
        ),
    ],
)
def test_what_is_not_done_block_by_block_is_refused(
    tmp_path: Path, model: str, sources: str, key: str
) -> None:
    write_pool(tmp_path)
    with refused(ConfigError, key=key):
        read_inputs(read_config(save(tmp_path, "run.toml", model, sources)), beyond="parts")


def test_a_file_does_not_choose_a_cache_outside_its_own_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    write_pool(home)
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    for cache, kept in (("../elsewhere", False), ("cache", True)):
        path = save(home, "run.toml", engine=f'{BEYOND}cache = "{cache}"\n')
        config = read_config(path)
        assert (config.block_cache is not None) == kept
        pool = read_inputs(config, beyond="parts").pool
        assert isinstance(pool, PartPool)
        assert (pool.engine.cache == str(home / "cache")) == kept
    assert "elsewhere: it is outside" in caplog.text
