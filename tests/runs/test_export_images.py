"""Images with their weights as other tools read them: Hugging Face folders, WebDataset shards."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from export_pools import Held, export_pool, shard_members, weights_of
from raising import refused
from unskew import DataError, Pool
from unskew.runs.export_tables import export_weights
from unskew.weigh.weights_table import (
    COLUMNS,
)


@pytest.mark.parametrize(
    "splits", [("train", "train", "validation", "test"), ("fit", "fit", "judge", "judge"), None]
)
@pytest.mark.filterwarnings("ignore")
def test_hugging_face_reads_the_folder_with_images_and_weights(tmp_path, splits, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pool = export_pool(splits)
    table = weights_of(pool)
    export_weights(table, "hf", tmp_path / "out", pool=pool)
    loads = [datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))]
    if splits is None or "test" in splits:  # the names that imagefolder knows
        loads.append(
            datasets.load_dataset(
                "imagefolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache2")
            )
        )
    names = dict.fromkeys(splits or ["train"])
    for loaded in loads:
        assert set(loaded) == set(names)
        rows = {row["id"]: row for name in names for row in loaded[name]}
        assert set(rows) == set(table["id"])
        for at, expected in enumerate(table.to_dict("records")):
            row = rows[expected["id"]]
            assert row["weight"] == expected["weight"]
            assert row["label"] == expected["label"]
            assert row["sample_weight"] == expected["sample_weight"]
            assert splits is None or row["split"] == expected["split"]
            assert (
                abs(int(np.asarray(row["image"].convert("RGB"))[0, 0, 0]) - 10 * (at + 1)) <= 4
            )  # JPEG and WebP lose a little


def test_shards_follow_the_rules_of_webdataset(tmp_path):
    """Files of one image lie side by side and share what stands before the first dot; .cls is a
    number, .json has id and weight.
    """
    pool = export_pool()
    table = weights_of(pool).set_index("id")
    export_weights(table.reset_index(), "webdataset", tmp_path / "out", pool=pool)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("classes.json", "test-000000.tar", "train-000000.tar", "validation-000000.tar"),
    ]
    classes = json.loads((tmp_path / "out/classes.json").read_text())
    assert classes == ["cat", "dog"]
    seen = []
    for name in ("train", "validation", "test"):
        members = shard_members(tmp_path / f"out/{name}-000000.tar")
        keys = [each.split(".")[0] for each, _ in members]
        assert all(re.fullmatch(r"[0-9a-f]{20}\.(cls|json|jpg|png)", each) for each, _ in members)
        assert [key for at, key in enumerate(keys) if at == 0 or keys[at - 1] != key] == sorted(
            set(keys)
        )
        for key in sorted(set(keys)):
            files = {each.split(".")[1]: data for each, data in members if each.startswith(key)}
            row = json.loads(files["json"])
            assert len(files) == 3
            assert classes[int(files["cls"])] == row["label"] == table.loc[row["id"], "label"]
            assert row["weight"] == table.loc[row["id"], "weight"]
            assert row["split"] == name
            seen.append(row["id"])
            raw = pool.images.read(pool.frame["id"].tolist().index(row["id"]))
            if isinstance(raw, bytes) and raw[:3] == b"\xff\xd8\xff":
                assert files["jpg"] == raw
    assert sorted(seen) == sorted(table.index)


def test_the_same_images_give_the_same_shards_whatever_their_order_and_no_shard_is_too_large(
    tmp_path,
):
    rng = np.random.default_rng(0)
    pool = Pool(
        pd.DataFrame({"id": range(60), "source": "s"}),
        Held([rng.integers(0, 256, (12, 12, 3), dtype=np.uint8) for _ in range(60)]),
    )
    table = pd.DataFrame(
        {"id": range(60), "weight": 1 / 60, "sample_weight": 1.0, "source": "s"}
    ).reindex(columns=list(COLUMNS))
    export_weights(table, "webdataset", tmp_path / "a", pool=pool, shard_bytes=20_000)
    order = rng.permutation(60)
    export_weights(
        table.iloc[order].reset_index(drop=True),
        "webdataset",
        tmp_path / "b",
        pool=pool.take(rng.permutation(60)),
        shard_bytes=20_000,
    )
    shards = sorted(path.name for path in (tmp_path / "a").glob("*.tar"))
    assert shards == [f"train-{number:06d}.tar" for number in range(len(shards))]
    assert len(shards) > 3
    for name in shards:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        members = shard_members(tmp_path / "a" / name)
        assert sum(512 + -(-len(data) // 512) * 512 for _, data in members) <= 20_000
        assert not any(each.endswith(".cls") for each, _ in members)  # no labels
    assert sum(len(shard_members(tmp_path / "a" / name)) for name in shards) == 120


def _eps() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (6, 4)).save(file, format="EPS")
    return file.getvalue()


@pytest.mark.parametrize(
    "raw", [_eps(), b"QOIF", np.zeros((4, 4, 5), np.uint8), np.zeros((4, 4), complex)]
)
def test_an_image_that_is_none_starts_no_program_and_is_a_typed_error(tmp_path, raw, monkeypatch):
    started = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: started.append(1))
    pool = export_pool()
    pool.images.held[0] = raw
    with refused(DataError, id=pool.frame["id"][0]):
        export_weights(weights_of(pool), "hf", tmp_path / "out", pool=pool)
    assert not started
