"""WebDataset shards as parts: what is in them, and where."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import unskew
from unskew import DataError, Pool
from unskew.engine.block_engines import opened_engine
from unskew.sources.shards import index_shards


def write_shard(path: Path, first: int, n: int, **facts: Any) -> None:
    """Write n images with labels and facts."""
    rng = np.random.default_rng(first)
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for row in range(first, first + n):
            buffer = io.BytesIO()
            pixels = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(buffer, "png")
            source = "ab"[row % 2]
            files = {
                "png": buffer.getvalue(),
                "cls": str(row % 3).encode(),
                "json": json.dumps({"source": source, "speed": row} | facts).encode(),
            }
            for ending, content in files.items():
                member = tarfile.TarInfo(f"train/{row:05d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def index(folder: Path) -> list[str]:
    with opened_engine(None) as engine:
        shards = sorted(map(str, (folder / "shards").glob("*.tar")))
        return index_shards(engine, shards, folder / "index")


def test_a_row_is_an_image_with_its_facts(tmp_path: Path) -> None:
    write_shard(tmp_path / "shards" / "0.tar", 0, 20, nested={"no": "column"}, note="x")
    write_shard(tmp_path / "shards" / "1.tar", 20, 10, nested={}, note="y")
    frame = Pool.from_parquet(index(tmp_path)).sample(100).frame
    assert sorted(frame["id"]) == [f"train/{row:05d}" for row in range(30)]
    assert {"label", "source", "speed", "note"} <= set(frame.columns) - {"nested"}
    assert frame.set_index("id")["speed"].to_dict()["train/00021"] == 21.0
    place = frame.set_index("id")["image"]["train/00003"]
    with open(place["path"], "rb") as stream:
        stream.seek(place["offset"])
        assert Image.open(io.BytesIO(stream.read(place["size"]))).size == (16, 12)


@pytest.mark.parametrize("content", [b"no archive" * 100, b""])
def test_what_is_no_shard_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "0.tar").write_bytes(content)
    with pytest.raises(DataError) as raised:
        index(tmp_path)
    assert raised.value.facts["path"].endswith("0.tar")


def test_a_run_reads_shards(tmp_path: Path) -> None:
    for shard in range(2):
        write_shard(tmp_path / "shards" / f"{shard}.tar", 30 * shard, 30)
    (tmp_path / "run.toml").write_text(
        '[sources]\nparquet = "shards/*.tar"\n[represent]\nfeatures = ["border_hsv"]\n'
        '[target]\nsource = "a"\n[bias]\nfamily = "tilt"\nfeatures = ["border_hsv_v"]\n'
        "[engine]\nsubsample = 40\n"
    )
    run = unskew.run(tmp_path / "run.toml", tmp_path / "out")
    assert run.weights.weights.images == 60
    assert len(list((tmp_path / "out" / "weights").glob("*.parquet"))) == 2
