"""Images behind parts: representations by an engine are those in memory."""

from __future__ import annotations

import io
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unskew
from unskew import ConfigError, DataError, Pool
from unskew.represent.user_functions import read_representations
from unskew.runs import part_images
from unskew.runs.part_images import represent_parts

FEATURES = ["border_hsv", "exif"]


def write_images(folder: Path, n: int = 30, as_bytes: bool = False) -> pd.DataFrame:
    """Write small JPEGs, and three parts of a manifest, the last without rows."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    encoded = []
    for row in range(n):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (16, 20, 3), dtype=np.uint8)).save(buffer, "jpeg")
        encoded.append(buffer.getvalue())
        (folder / "images" / f"{row}.jpg").write_bytes(encoded[-1])
    frame = pd.DataFrame({"id": [f"i{row}" for row in range(n)], "source": ["a", "b"] * (n // 2)})
    frame["image" if as_bytes else "path"] = (
        encoded if as_bytes else [f"images/{row}.jpg" for row in range(n)]
    )
    (folder / "pool").mkdir()
    for at, rows in enumerate((slice(0, 13), slice(13, n), slice(n, n))):
        frame.iloc[rows].to_parquet(folder / "pool" / f"{at}.parquet", index=False)
    return frame


@pytest.mark.parametrize("as_bytes", [False, True], ids=["paths", "bytes"])
def test_numbers_are_those_in_memory(
    tmp_path: Path, as_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_images, "CHUNK", 7)
    frame = write_images(tmp_path, as_bytes=as_bytes)
    pool = Pool.from_parquet(tmp_path / "pool")
    represented = represent_parts(pool, FEATURES, tmp_path / "cache", base=tmp_path)
    table = represented.sample(100).frame.set_index("id").loc[frame["id"]]
    paths = [f"images/{row}.jpg" for row in range(len(frame))]
    manifest = pd.DataFrame({"path": paths, "id": frame["id"], "source": frame["source"]})
    manifest.to_csv(tmp_path / "manifest.csv", index=False)
    own = Pool.from_manifest(tmp_path / "manifest.csv", id="id")
    expected = unskew.represent_images(own, FEATURES).frame.set_index("id").loc[frame["id"]]
    names = [name for one in read_representations(FEATURES) for name in one.columns]
    for name in names:
        if expected[name].dtype.kind == "f":
            np.testing.assert_array_equal(table[name].astype(float), expected[name])
    assert not list(tmp_path.glob("cache/*/chunks"))


def test_what_is_there_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path)
    monkeypatch.setattr(part_images, "CHUNK", 7)
    pool = Pool.from_parquet(tmp_path / "pool")
    options = {"base": tmp_path}
    with monkeypatch.context() as broken:
        written = []

        def stopped(file, *rest):
            if len(written) == 2:
                raise KeyboardInterrupt
            written.append(file.name)
            return write(file, *rest)

        write = part_images._write_chunk
        broken.setattr(part_images, "_write_chunk", stopped)
        with pytest.raises(KeyboardInterrupt):
            represent_parts(pool, ["border_hsv"], tmp_path / "cache", **options)
    again = []
    monkeypatch.setattr(
        part_images,
        "_write_chunk",
        lambda file, *rest: again.append(file.name) or write(file, *rest),
    )
    represent_parts(pool, ["border_hsv"], tmp_path / "cache", **options)
    assert len(again) == 5 - len(written)
    represent_parts(pool, ["border_hsv"], tmp_path / "cache", **options)
    assert len(again) == 5 - len(written)


def test_unusable_images_get_weight_0_up_to_the_tolerance(tmp_path: Path) -> None:
    frame = write_images(tmp_path)
    (tmp_path / "images" / "4.jpg").write_bytes(b"no image")
    pool = Pool.from_parquet(tmp_path / "pool")
    with pytest.raises(DataError) as raised:
        represent_parts(pool, ["border_hsv"], tmp_path / "c", base=tmp_path)
    assert raised.value.facts["count"] == 1
    features = represent_parts(pool, ["border_hsv"], tmp_path / "c", base=tmp_path, tolerance=0.1)
    design = features.sample(100).frame.set_index("id")["design_weight"]
    assert (design == (frame.set_index("id").index != "i4")).all()


def test_paths_stay_below_their_root(tmp_path: Path) -> None:
    frame = write_images(tmp_path)
    (tmp_path / "root").mkdir()
    frame["path"] = "../" + frame["path"]
    frame.to_parquet(tmp_path / "root" / "0.parquet", index=False)
    pool = Pool.from_parquet(tmp_path / "root")
    with pytest.raises(DataError, match="leads out of"):
        represent_parts(pool, ["border_hsv"], tmp_path / "c", base=tmp_path / "root")


def test_what_needs_all_images_at_once_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path)
    pool = Pool.from_parquet(tmp_path / "pool")
    feature = {"name": "embedding", "components": 2}
    with pytest.raises(ConfigError, match="components"):
        represent_parts(pool, [feature], tmp_path / "c", base=tmp_path)


def test_a_network_is_loaded_once_in_each_process() -> None:
    from unskew.engine.block_engines import call_block

    prepare = part_images.Prepare('["border_hsv"]')
    first = call_block(_made, None, None, prepare)
    assert call_block(_made, None, None, part_images.Prepare('["border_hsv"]')) is first


def _made(block: None, state: None, made: object) -> object:
    return made


@pytest.mark.slow  # two processes import everything
def test_the_first_image_of_a_process_is_read_too(tmp_path: Path) -> None:
    write_images(tmp_path)
    pool = Pool.from_parquet(tmp_path / "pool")
    with ProcessPoolExecutor(2) as engine:
        other = represent_parts(
            pool, FEATURES, tmp_path / "c", base=tmp_path, engine=engine, tolerance=0
        )
    own = represent_parts(pool, FEATURES, tmp_path / "d", base=tmp_path)
    assert other.sample(99).frame.equals(own.sample(99).frame)


def test_a_run_computes_what_it_asks_for(tmp_path: Path) -> None:
    write_images(tmp_path)
    (tmp_path / "run.toml").write_text(
        '[sources]\nparquet = "pool"\n[represent]\nfeatures = ["border_hsv"]\n'
        '[target]\nsource = "a"\n[bias]\nfamily = "tilt"\nfeatures = ["border_hsv_v"]\n'
        "[engine]\nsubsample = 20\n"
    )
    run = unskew.run(tmp_path / "run.toml", tmp_path / "out")
    assert run.weights.weights.images == 30
    assert (tmp_path / "out" / "weights" / "0.parquet").exists()
