"""Hugging Face datasets with the real package, on local folders; nothing is fetched."""

import io
import os
import pickle
import sys

import numpy as np
import pytest
from PIL import Image

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.sources.readers import read_sources

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
)


@pytest.fixture(autouse=True)
def _offline(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def png(value):
    stream = io.BytesIO()
    Image.new("RGB", (5, 4), (value, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def small(n=4, **columns):
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "site": datasets.Value("string"),
            "age": datasets.Value("float32"),
        }
    )
    data = {
        "image": [{"bytes": png(at), "path": None} for at in range(n)],
        "label": [at % 2 for at in range(n)],
        "site": ["NA" if at % 3 else "west" for at in range(n)],
        "age": [float(at) for at in range(n)],
    }
    return datasets.Dataset.from_dict(data | columns, features=features)


def test_a_dataset_with_a_column_of_sources():
    pool = Pool.from_huggingface(small(), source="site")
    assert pool.names == ("west", "NA")
    assert pool.frame["label"].tolist() == ["cat", "dog", "cat", "dog"]
    assert pool.frame["id"].tolist() == ["west/0", "NA/1", "NA/2", "west/3"]
    assert pool.frame["age"].tolist() == [0, 1, 2, 3]
    # As stored, so that a hash and the camera's notes survive.
    assert pool.images.read(2) == png(2)
    assert pool.take([3, 1]).images.read(0) == png(3)
    assert pickle.loads(pickle.dumps(pool.images)).read(1) == png(1)


def test_reading_the_table_decodes_nothing(monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("an image was decoded")

    monkeypatch.setattr(datasets.Image, "decode_example", refuse)
    pool = Pool.from_huggingface({"a": small(), "b": small(2)})
    assert pool.names == ("a", "b")
    assert pool.images.read(5) == png(1)


def test_folders_written_by_save_to_disk(tmp_path):
    datasets.DatasetDict({"train": small(3), "test": small(2)}).save_to_disk(tmp_path / "both")
    small(2).save_to_disk(tmp_path / "one")
    pool = read_sources({"huggingface": {"x": "both", "y": "one"}}, tmp_path)
    assert pool.frame["split"].tolist()[:5] == ["train"] * 3 + ["test"] * 2
    assert pool.frame["id"].tolist() == [
        "x/train/0",
        "x/train/1",
        "x/train/2",
        "x/test/0",
        "x/test/1",
        "y/0",
        "y/1",
    ]
    assert pool.images.read(6) == png(1)


def test_a_folder_of_images_as_imagefolder_reads_it(tmp_path):
    for split, label, value in (("train", "cat", 1), ("train", "dog", 2), ("test", "dog", 3)):
        place = tmp_path / "photos" / split / label
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{value}.png").write_bytes(png(value))
    pool = read_sources({"huggingface": {"photos": "photos"}}, tmp_path)
    assert sorted(zip(pool.frame["split"], pool.frame["label"], strict=True)) == [
        ("test", "dog"),
        ("train", "cat"),
        ("train", "dog"),
    ]
    for row in range(3):
        assert pool.images.read(row) == png(
            {"cat": 1, "dog": 2}[pool.frame["label"][row]]
            if pool.frame["split"][row] == "train"
            else 3
        )


def test_lists_of_classes_unknown_labels_and_arrays():
    features = datasets.Features(
        {
            "picture": datasets.Image(),
            "label": datasets.List(datasets.ClassLabel(names=["cat", "dog"])),
            "kind": datasets.ClassLabel(names=["day", "night"]),
            "deep": {"a": datasets.Value("int32")},
        }
    )
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    rows = {
        "picture": [pixels] * 3,
        "label": [[0, 1], [], [-1, 0]],
        "kind": [1, -1, None],
        "deep": [{"a": 1}, {"a": 2}, {"a": 3}],
    }
    pool = Pool.from_huggingface({"s": datasets.Dataset.from_dict(rows, features=features)})
    assert pool.frame["label"].tolist() == [["cat", "dog"], [], ["cat"]]
    assert pool.frame["kind"].isna().tolist() == [False, True, True]
    assert "deep" not in pool.frame
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(pool.images.read(0)))), pixels)


def test_images_that_are_missing_or_whose_file_vanished(tmp_path):
    (tmp_path / "x.png").write_bytes(png(1))
    rows = {"image": [None, str(tmp_path / "x.png")]}
    dataset = datasets.Dataset.from_dict(
        rows, features=datasets.Features({"image": datasets.Image()})
    )
    pool = Pool.from_huggingface({"s": dataset})
    with pytest.raises(ImageError, match="there is no image"):
        pool.images.read(0)
    assert pool.images.read(1) == png(1)
    (tmp_path / "x.png").unlink()
    with pytest.raises(ImageError, match="there is no such file"):
        pool.images.read(1)


def test_what_cannot_work(tmp_path, monkeypatch):
    with refused(DataError, column="source", columns=["image", "label", "site", "age"]):
        Pool.from_huggingface(small())
    with refused(DataError, column="sit") as caught:
        Pool.from_huggingface(small(), source="sit")
    assert "Did you mean 'site'" in str(caught.value)
    with refused(DataError, column="img", columns=["image"]):
        Pool.from_huggingface(small(), source="site", image="img")
    with refused(DataError, columns=[]):
        Pool.from_huggingface({"a": small().remove_columns("image")})
    assert (
        Pool.from_huggingface({"a": small().remove_columns("image")}, images=False).images is None
    )
    with refused(ConfigError, value="IterableDataset"):
        Pool.from_huggingface(
            {"a": object.__new__(datasets.IterableDataset)}
        )  # made in earnest, it loads torch
    with refused(ConfigError, value="int"):
        Pool.from_huggingface({"a": 3})
    with refused(ConfigError, option="source", value="site"):
        Pool.from_huggingface({"a": small()}, source="site")
    (tmp_path / "empty").mkdir()
    with refused(DataError, path="empty"):
        read_sources({"huggingface": {"a": "empty"}}, tmp_path)
    with refused(DataError, value="somebody/something") as caught:
        read_sources({"huggingface": {"a": "somebody/something"}}, tmp_path)
    assert "network" in str(caught.value)
    # Files of the working directory, and a reader of such.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("not asked for")
    for name in ("text", "pandas", "train.txt"):
        with refused(DataError, value=name):
            read_sources({"huggingface": {"a": name}}, tmp_path / "empty")
    # A saved dataset with a pipe, which would be waited for.
    (tmp_path / "empty" / "state.json").write_text("{}")
    os.mkfifo(tmp_path / "empty" / "data.arrow")
    with refused(DataError, path=str(tmp_path / "empty" / "data.arrow")):
        read_sources({"huggingface": {"a": "empty"}}, tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with refused(ConfigError, extra="hf", package="datasets"):
        read_sources({"huggingface": {"a": "empty"}}, tmp_path)
