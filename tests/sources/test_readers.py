"""The [sources] parts of the design's three configurations; settings that cannot work."""

import json

import pandas as pd
import pytest
from PIL import Image

from raising import refused
from unskew import ConfigError, DataError
from unskew.sources.readers import TARGET_SAMPLE, read_sample, read_sources


def write_image(path, value=128):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (value, value, value)).save(path)


def test_camera_traps(tmp_path):
    images = [
        {
            "id": f"i{at}",
            "file_name": f"site{at % 2}/{at}.jpg",
            "location": f"site{at % 2}",
            "seq_id": f"q{at // 2}",
            "split": "train",
        }
        for at in range(6)
    ]
    annotations = [{"id": at, "image_id": f"i{at}", "category_id": at % 3} for at in range(6)]
    categories = [{"id": 0, "name": "empty"}, {"id": 1, "name": "fox"}, {"id": 2, "name": "NA"}]
    (tmp_path / "all.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    for image in images:
        write_image(tmp_path / image["file_name"])
    pool = read_sources(
        {"manifest": "all.json", "source": "location", "group": "seq_id", "split": "split"},
        tmp_path,
    )
    assert list(pool.frame.columns) == ["id", "source", "label", "group", "split", "path"]
    assert pool.names == ("site0", "site1")
    assert pool.frame["id"].tolist() == [f"i{at}" for at in range(6)]
    assert pool.frame["label"].tolist() == ["empty", "fox", "NA"] * 2
    assert pool.frame["group"].tolist() == ["q0", "q0", "q1", "q1", "q2", "q2"]
    assert pool.frame["path"].tolist() == [image["file_name"] for image in images]
    assert pool.images.read(3) == (tmp_path / "site1/3.jpg").read_bytes()
    assert pool.images.place(3) == str(tmp_path / "site1/3.jpg")


def test_product_photos(tmp_path):
    for at, vendor in enumerate(("north", "south", "east", "west")):
        write_image(tmp_path / vendor / "shoe" / "sku12_1.jpg", at)
        write_image(tmp_path / vendor / "shoe" / "deep" / "sku12_2.JPG", at)
        write_image(tmp_path / vendor / "hat" / "unnamed.png", at)
    write_image(tmp_path / "phones" / "p1.jpg")
    settings = {
        "folders": {name: name for name in ("north", "south", "east", "west")},
        "group": {"regex": "^(sku\\d+)"},
    }
    pool = read_sources(settings, tmp_path)
    assert pool.names == ("north", "south", "east", "west")
    assert pool.frame["id"].tolist()[:3] == [
        "north/hat/unnamed.png",
        "north/shoe/deep/sku12_2.JPG",
        "north/shoe/sku12_1.jpg",
    ]
    assert pool.frame["path"].tolist()[-1] == "west/shoe/sku12_1.jpg"
    assert pool.frame["label"].tolist()[:3] == ["hat", "shoe", "shoe"]
    # The same number in two sources is two products; what has no number is a group of its own.
    assert pool.frame["group"].tolist()[:4] == [
        "north/hat/unnamed.png",
        "north/sku12",
        "north/sku12",
        "south/hat/unnamed.png",
    ]
    sample = read_sample("phones/", tmp_path)
    assert sample.names == (TARGET_SAMPLE,)
    assert sample.frame["path"].tolist() == ["phones/p1.jpg"]
    assert sample.images.read(0) == (tmp_path / "phones/p1.jpg").read_bytes()


def test_hospitals(tmp_path):
    (tmp_path / "scans.csv").write_text(
        "hospital,patient_id,split,age,sex\nwest,007,train,55,f\nwest,007,train,55,f\nNA,12,test,,NA\n",
        encoding="utf-8",
    )
    pool = read_sources(
        {
            "manifest": "scans.csv",
            "images": False,
            "source": "hospital",
            "group": "patient_id",
            "split": "split",
        },
        tmp_path,
    )
    assert pool.images is None
    assert pool.names == ("west", "NA")
    assert pool.frame["group"].tolist() == ["007", "007", "12"]
    assert pool.frame["sex"].tolist() == ["f", "f", "NA"]
    assert pool.frame["age"].isna().tolist() == [False, False, True]
    assert pd.api.types.is_numeric_dtype(pool.frame["age"])
    assert pool.frame["id"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "error", "facts", "hint"),
    [
        ({"folder": {"a": "a"}}, ConfigError, {"key": "sources"}, "Did you mean 'folders'"),
        ({}, ConfigError, {"key": "sources", "value": []}, ""),
        (
            {"folders": {"a": "a"}, "manifest": "m.csv"},
            ConfigError,
            {"key": "sources", "value": ["folders", "manifest"]},
            "",
        ),
        (
            {"folders": {"a": "a"}, "grop": "b"},
            ConfigError,
            {"key": "grop"},
            "Did you mean 'group'",
        ),
        (
            {"folders": {"a": "a"}, "root": "b"},
            ConfigError,
            {"key": "root"},
            "root goes with manifest",
        ),
        ({"folders": {"a": "hous"}}, ConfigError, {"path": "hous"}, "Did you mean 'house'"),
        ({"folders": {"a": "nowhere/at/all"}}, ConfigError, {"path": "nowhere/at/all"}, "Nor does"),
        ({"folders": {"a": "file.txt"}}, ConfigError, {"path": "file.txt"}, "`manifest`"),
        ({"folders": {"a": "empty"}}, DataError, {"path": "empty", "count": 0}, "source 'a'"),
        ({"folders": {"a": "notes"}}, DataError, {"path": "notes"}, "2 .txt, 1 hidden"),
        (
            {"folders": {"a": "house", "b": "./house"}},
            ConfigError,
            {"sources": ["a", "b"], "path": "./house"},
            "",
        ),
        ({"folders": {}}, ConfigError, {"key": "folders", "value": {}}, ""),
        ({"folders": {"": "house"}}, ConfigError, {"key": "folders"}, ""),
        (
            {"manifest": "imges.csv"},
            ConfigError,
            {"path": "imges.csv"},
            "Did you mean 'images.csv'",
        ),
        ({"manifest": "house"}, ConfigError, {"path": "house"}, ".parquet"),
        ({"manifest": "book.xlsx"}, ConfigError, {"path": "book.xlsx"}, "CSV"),
    ],
)
def test_settings_that_cannot_work(tmp_path, settings, error, facts, hint):
    write_image(tmp_path / "house" / "x.jpg")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    for name in ("notes/a.txt", "notes/b.TXT", "notes/.c.jpg", "file.txt", "images.csv"):
        (tmp_path / name).write_text("x")
    with refused(error, **facts) as caught:
        read_sources(settings, tmp_path)
    assert hint in str(caught.value)


def test_a_sample_that_does_not_exist(tmp_path):
    (tmp_path / "phones").mkdir()
    with refused(ConfigError, path="phone") as caught:
        read_sample("phone", tmp_path)
    assert "Did you mean 'phones'" in str(caught.value)
