"""Folders of images: labels, splits, metadata, order; loops, hostile names, files that cannot be
read; nothing is opened.
"""

import builtins
import logging
import os

from raising import refused
from sources.image_files import put
from unskew import ConfigError, Pool
from unskew.sources.readers import read_sources


def column(pool, name):
    return dict(
        zip(
            pool.frame["id"],
            pool.frame[name].astype(object).where(pool.frame[name].notna(), None),
            strict=True,
        )
    )


def test_labels_are_the_first_folder_below_the_source(tmp_path):
    put(tmp_path, "n/cat/1.jpg", "n/cat/old/dog/2.jpg", "n/dog/3.jpg", "s/4.jpg", "s/NA/5.jpg")
    pool = Pool.from_folders({"n": tmp_path / "n", "s": tmp_path / "s"})
    expected = {
        "n/cat/1.jpg": "cat",
        "n/cat/old/dog/2.jpg": "cat",
        "n/dog/3.jpg": "dog",
        "s/4.jpg": None,
        "s/NA/5.jpg": "NA",
    }
    assert column(pool, "label") == expected
    assert pool.frame["path"].tolist()[0] == f"{tmp_path}/n/cat/1.jpg"
    assert "label" not in Pool.from_folders({"n": tmp_path / "n"}, label=False).frame
    assert Pool.from_folders({"cats": tmp_path / "n" / "cat"}, label={"regex": r"(\d)"}).frame[
        "label"
    ].tolist() == ["1", "2"]


def test_images_outside_the_folders_of_classes_are_logged(tmp_path, caplog):
    put(tmp_path, "n/cover.jpg", "n/cat/1.jpg")
    with caplog.at_level(logging.WARNING):
        pool = Pool.from_folders({"n": tmp_path / "n"})
    assert column(pool, "label") == {"n/cat/1.jpg": "cat", "n/cover.jpg": None}
    assert "1 of 2 images are outside the folders of the classes" in caplog.text


def test_folders_called_train_and_test_are_splits(tmp_path):
    put(tmp_path, "n/train/cat/1.jpg", "n/val/cat/2.jpg", "n/test/dog/3.jpg", "n/test/4.jpg")
    pool = Pool.from_folders({"n": tmp_path / "n"})
    assert column(pool, "split") == {
        "n/train/cat/1.jpg": "train",
        "n/val/cat/2.jpg": "validation",
        "n/test/dog/3.jpg": "test",
        "n/test/4.jpg": "test",
    }
    assert column(pool, "label") == {
        "n/test/4.jpg": None,
        "n/test/dog/3.jpg": "dog",
        "n/train/cat/1.jpg": "cat",
        "n/val/cat/2.jpg": "cat",
    }
    classes = Pool.from_folders({"n": tmp_path / "n"}, split=False)
    assert sorted(set(classes.frame["label"])) == ["test", "train", "val"]
    assert "split" not in classes.frame
    # A class may be called train if others are not.
    put(tmp_path, "v/train/1.jpg", "v/car/2.jpg")
    assert Pool.from_folders({"v": tmp_path / "v"}).frame["label"].tolist() == ["car", "train"]
    assert Pool.from_folders({"v": tmp_path / "v"}, split="folder").frame["split"].tolist() == [
        "car",
        "train",
    ]


def test_split_by_folder_needs_folders(tmp_path):
    put(tmp_path, "n/train/1.jpg", "n/2.jpg")
    with refused(ConfigError, option="split", path="2.jpg"):
        Pool.from_folders({"n": tmp_path / "n"}, split="folder")


def test_order_does_not_depend_on_the_disk(tmp_path):
    names = [f"{label}/{name}.jpg" for label in "cab" for name in ("b", "a", "B", "10", "9", "ä")]
    put(tmp_path / "s", *names)
    assert Pool.from_folders({"s": tmp_path / "s"}).frame["id"].tolist() == [
        f"s/{name}" for name in sorted(names)
    ]


def test_ids_do_not_depend_on_the_machine(tmp_path):
    for place in ("here", "there/deep"):
        put(tmp_path / place, "photos/cat/1.jpg")
    ids = [
        read_sources({"folders": {"n": "photos"}}, tmp_path / place)
        .frame[["id", "path"]]
        .values.tolist()
        for place in ("here", "there/deep")
    ]
    assert ids[0] == ids[1] == [["n/cat/1.jpg", "photos/cat/1.jpg"]]


def test_nothing_is_opened(tmp_path, monkeypatch):
    put(tmp_path, "n/cat/1.jpg", "n/2.PNG", "n/notes.txt")

    def refuse(*_args, **_options):
        raise AssertionError("a file was opened")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    pool = Pool.from_folders({"n": tmp_path / "n"}, group={"regex": "(.)"})
    monkeypatch.undo()
    assert len(pool) == 2
    assert pool.images.read(0) == b"n/2.PNG"


def test_names_of_sources_stay_as_they_are(tmp_path):
    put(tmp_path, "x/1.jpg")
    for name in (
        "Zürich/西",
        "<script>alert(1)</script>",
        'a "b"',
        " padded ",
        "new\nline",
        "NA",
        "0",
    ):
        pool = Pool.from_folders({name: tmp_path / "x"})
        assert pool.names == (name,)
        assert pool.frame["id"].tolist() == [f"{name}/1.jpg"]


def test_a_source_within_another_would_count_twice(tmp_path):
    put(tmp_path, "all/a.png", "all/north/b.png")
    with refused(ConfigError, sources=["all", "north"], path=str(tmp_path / "all/north")):
        Pool.from_folders({"all": tmp_path / "all", "north": tmp_path / "all" / "north"})
    with refused(ConfigError, sources=["one", "two"]):
        Pool.from_folders({"one": tmp_path / "all", "two": tmp_path / "all" / "."})
