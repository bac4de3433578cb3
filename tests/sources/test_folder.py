"""Folders of images: labels, splits, metadata, order; loops, hostile names, files that cannot be
read; nothing is opened.
"""

import builtins
import logging
import os
import pickle
import socket
import tempfile
import time
import unicodedata
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd  # here, because nobody but its owner may be allowed to load it
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.sources.files import FileImages, is_outside
from unskew.sources.listing import list_images
from unskew.sources.settings import read_sources


def put(root, *names, content=b"image"):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


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


def test_images_beside_the_folders_of_classes_are_told(tmp_path, caplog):
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
    assert pool.images.read(0) == b"image"


def test_other_files_are_counted_and_told(tmp_path, caplog):
    put(
        tmp_path / "n",
        "1.jpg",
        "Thumbs.db",
        "a.txt",
        "b.TXT",
        "README",
        ".DS_Store",
        "._1.jpg",
        ".git/x.jpg",
    )
    with caplog.at_level(logging.INFO):
        pool = Pool.from_folders({"n": tmp_path / "n"})
    assert len(pool) == 1
    assert (
        "7 files are not images and were ignored: 3 hidden, 2 .txt, 1 .db, 1 no extension"
        in caplog.text
    )


def test_extensions_in_any_case_and_of_many_kinds(tmp_path):
    put(tmp_path / "n", "a.jpg", "b.JPG", "c.JpEg", "d.png", "e.tiff", "f.WEBP", "g.HEIC", "h.svg")
    assert [name[-4:] for name in Pool.from_folders({"n": tmp_path / "n"}).frame["id"]] == [
        ".jpg",
        ".JPG",
        "JpEg",
        ".png",
        "tiff",
        "WEBP",
        "HEIC",
    ]


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


# Whatever a file may be called: quotes, tags, newlines, other alphabets, but neither "/" nor a
# leading dot.
NAMES = st.text(
    st.characters(blacklist_characters="/\x00", blacklist_categories=["Cs"]),
    min_size=1,
    max_size=30,
).filter(lambda name: not name.startswith(".") and len(name.encode()) < 200)


@settings(max_examples=40, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_any_name_is_read_and_kept(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("names")
    for at, name in enumerate(names):
        put(root / "s", f"{name}.jpg", content=b"%d" % at)
    pool = Pool.from_folders({"s": root / "s"})
    found = {id: pool.images.read(row) for row, id in enumerate(pool.frame["id"])}
    assert found == {f"s/{name}.jpg": b"%d" % at for at, name in enumerate(names)}


@pytest.mark.parametrize(
    "name",
    [
        'a"b.jpg',
        "a'b.jpg",
        "<script>alert(1)</script>.jpg",
        "two\nlines.jpg",
        "tab\t.jpg",
        "\u202egpj.exe.jpg",
        "😀.jpg",
        "; rm -rf.jpg",
    ],
)
def test_hostile_names(tmp_path, name):
    if "/" in name:
        name = name.replace("/", "∕")
    put(tmp_path / "s", name)
    pool = Pool.from_folders({"s": tmp_path / "s"})
    assert pool.frame["id"].tolist() == [f"s/{name}"]
    assert pool.images.read(0) == b"image"
    pool.frame.to_parquet(tmp_path / "out.parquet")


def test_names_that_are_no_utf_8_are_shown_in_ascii(tmp_path):
    place = os.fsencode(tmp_path / "s")
    os.mkdir(place)
    with open(place + b"/caf\xe9.jpg", "wb") as stream:
        stream.write(b"latin")
    pool = Pool.from_folders({"s": tmp_path / "s"})
    assert pool.frame["id"].tolist() == ["s/caf\\xe9.jpg"]
    assert pool.images.read(0) == b"latin"
    pool.frame.to_parquet(tmp_path / "out.parquet")


def test_loops_of_links_end_and_images_are_listed_once(tmp_path, caplog):
    put(tmp_path, "n/cat/1.jpg", "s/2.jpg", "elsewhere/3.jpg")
    (tmp_path / "n" / "cat" / "up").symlink_to(tmp_path / "n")
    (tmp_path / "n" / "above").symlink_to(tmp_path)
    (tmp_path / "n" / "acat").symlink_to(tmp_path / "n" / "cat")
    (tmp_path / "n" / "self.jpg").symlink_to("self.jpg")
    (tmp_path / "n" / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "n" / "linked.jpg").symlink_to(tmp_path / "s" / "2.jpg")
    (tmp_path / "n" / "zoo").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(tmp_path / "n" / "zoo")
    with caplog.at_level(logging.WARNING):
        pool = Pool.from_folders({"n": tmp_path / "n"})
    assert column(pool, "label") == {
        "n/cat/1.jpg": "cat",
        "n/linked.jpg": None,
        "n/zoo/3.jpg": "zoo",
    }
    assert (
        "links to folders that are listed anyway, or a loop, were not followed: above, acat, "
        "cat/up, zoo/round" in caplog.text
    )
    aside = pool.set_aside.set_index("id")["reason"].to_dict()
    assert aside.pop("n/gone.jpg") == "a link that leads nowhere"
    assert aside.pop("n/self.jpg") in ("a loop of symbolic links", "a link that leads nowhere")
    assert not aside
    assert isinstance(pool.set_aside, pd.DataFrame)
    assert pool.set_aside.columns.tolist() == ["id", "source", "path", "reason"]


def test_pipes_and_sockets_called_images_are_set_aside(tmp_path, monkeypatch):
    put(tmp_path / "n", "1.jpg")
    os.mkfifo(tmp_path / "n" / "pipe.jpg")
    monkeypatch.chdir(tmp_path / "n")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.png")
        pool = Pool.from_folders({"n": tmp_path / "n"})
    assert pool.set_aside["id"].tolist() == ["n/pipe.jpg", "n/socket.png"]
    assert pool.set_aside["reason"].str.startswith("not a regular file").all()
    # Nor does a table get a process to wait for a pipe.
    with pytest.raises(ImageError, match="not a regular file"):
        FileImages(tmp_path / "n", ["pipe.jpg"]).read(0)


@pytest.fixture
def open_folder():
    """A folder that others may enter; pytest closes its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def unprivileged():
    """As somebody who may not read everything: root may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_and_folders_that_may_not_be_read(open_folder):
    put(open_folder, "n/1.jpg", "n/secret.jpg", "n/locked/2.jpg", "closed/3.jpg")
    for name in ("n/secret.jpg", "n/locked", "closed"):
        (open_folder / name).chmod(0)
    with unprivileged():
        pool = Pool.from_folders({"n": open_folder / "n"})
        with pytest.raises(ImageError, match=r"^permission denied$"):
            pool.images.read(1)
        with refused(DataError, path=str(open_folder / "closed")):
            Pool.from_folders({"c": open_folder / "closed"})
    assert pool.frame["id"].tolist() == ["n/1.jpg", "n/secret.jpg"]
    assert pool.set_aside[["id", "reason"]].values.tolist() == [
        ["n/locked", "the folder cannot be listed: permission denied"]
    ]
    for name in ("n/locked", "closed"):
        (open_folder / name).chmod(0o700)


def test_reasons_are_given_when_an_image_is_read(tmp_path):
    put(tmp_path, "n/empty.jpg", content=b"")
    put(tmp_path, "n/gone.jpg", "n/large.jpg")
    pool = Pool.from_folders({"n": tmp_path / "n"})
    (tmp_path / "n/gone.jpg").unlink()
    (tmp_path / "n/folder").mkdir()
    with pytest.raises(ImageError, match=r"^the file is empty \(0 bytes\)$"):
        pool.images.read(0)
    with pytest.raises(ImageError, match=r"^there is no such file$"):
        pool.images.read(1)
    others = FileImages(
        tmp_path, ["n/folder", "nul\0.jpg", "x" * 300 + ".jpg", "n/large.jpg/x.jpg"]
    )
    for row, message in enumerate(
        (
            "a folder, not a file",
            "not a name that a file can have",
            "too long",
            "there is no such file",
        )
    ):
        with pytest.raises(ImageError, match=message):
            others.read(row)
    with pytest.raises(ImageError, match="more than the limit"):
        FileImages(tmp_path, ["n/large.jpg"], max_bytes=3).read(0)


def test_the_images_travel_to_other_processes_and_folders(tmp_path, monkeypatch):
    put(tmp_path, "n/1.jpg", content=b"one")
    put(tmp_path, "n/2.jpg", content=b"two")
    monkeypatch.chdir(tmp_path)
    pool = Pool.from_folders({"n": "n"})
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(pool.images.take(np.array([1]))))
    assert again.read(0) == b"two"
    assert pool.frame["path"].tolist() == ["n/1.jpg", "n/2.jpg"]


def test_the_same_letters_in_another_unicode_form_are_found(tmp_path):
    put(tmp_path, unicodedata.normalize("NFD", "café.jpg"), content=b"nfd")
    put(tmp_path, "folder/x.jpg", content=b"slash")
    images = FileImages(
        tmp_path, [unicodedata.normalize("NFC", "café.jpg"), "folder\\x.jpg", "other.jpg"]
    )
    assert images.read(0) == b"nfd"
    assert images.read(1) == b"slash"
    assert images.place(2) == str(tmp_path / "other.jpg")


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("a/b.jpg", False),
        ("../b.jpg", True),
        ("a/../b.jpg", False),
        ("a/../../b.jpg", True),
        ("..\\b.jpg", True),
        ("..b.jpg", False),
        ("a/..", False),
        ("..", True),
    ],
)
def test_paths_that_climb_out(path, outside):
    assert is_outside(path) == outside


def test_groups_from_file_names(tmp_path, caplog):
    put(tmp_path, "n/sku1_a.jpg", "n/x/sku1_b.jpg", "n/y/other.jpg", "s/sku1_a.jpg")
    folders = {"n": tmp_path / "n", "s": tmp_path / "s"}
    with caplog.at_level(logging.WARNING):
        pool = Pool.from_folders(folders, group={"regex": r"^(sku\d+)"})
    assert column(pool, "group") == {
        "n/sku1_a.jpg": "n/sku1",
        "n/x/sku1_b.jpg": "n/sku1",
        "n/y/other.jpg": "n/y/other.jpg",
        "s/sku1_a.jpg": "s/sku1",
    }
    assert (
        "does not match 1 of 4 file names; each is a group of its own: 'other.jpg'" in caplog.text
    )
    by_path = Pool.from_folders(folders, group={"regex": "^(.)/", "on": "path"})
    assert by_path.frame["group"].tolist() == ["n/sku1_a.jpg", "n/x", "n/y", "s/sku1_a.jpg"]


@pytest.mark.parametrize(
    ("group", "facts", "hint"),
    [
        ({"regex": "sku"}, {"option": "group.regex", "value": "sku"}, "(sku)"),
        ({"regex": "(sku"}, {"option": "group.regex", "value": "(sku"}, "missing )"),
        ({"regx": "(sku)"}, {"option": "group", "value": {"regx": "(sku)"}}, ""),
        ({"regex": "(a)", "at": "x"}, {"option": "group", "key": "at"}, ""),
        ({"regex": "(a)", "on": "file"}, {"option": "group.on", "value": "file"}, ""),
        (3, {"option": "group", "value": 3}, ""),
    ],
)
def test_patterns_that_cannot_work(tmp_path, group, facts, hint):
    put(tmp_path, "n/1.jpg")
    with refused(ConfigError, **facts) as caught:
        Pool.from_folders({"n": tmp_path / "n"}, group=group)
    assert hint in str(caught.value)


def test_a_source_within_another_would_count_twice(tmp_path):
    put(tmp_path, "all/a.png", "all/north/b.png")
    with refused(ConfigError, sources=["all", "north"], path=str(tmp_path / "all/north")):
        Pool.from_folders({"all": tmp_path / "all", "north": tmp_path / "all" / "north"})
    with refused(ConfigError, sources=["one", "two"]):
        Pool.from_folders({"one": tmp_path / "all", "two": tmp_path / "all" / "."})


def test_metadata_beside_the_images(tmp_path):
    put(tmp_path, "n/a/1.jpg", "n/a/2.jpg", "n/3.jpg", "s/4.jpg")
    (tmp_path / "n/metadata.csv").write_text(
        "\ufefffile_name,species,patient,age\na/1.jpg,NA,007,4\n./a\\2.jpg,fox,007,\n3.jpg,fox,08,5\n",
        encoding="utf-8",
    )
    (tmp_path / "s/metadata.jsonl").write_text(
        '{"file_name": "4.jpg", "species": "hare", "patient": "x", "source": "the web"}\n\n'
    )
    pool = Pool.from_folders(
        {"n": tmp_path / "n", "s": tmp_path / "s"}, label="species", group="patient"
    )
    assert column(pool, "label") == {
        "n/3.jpg": "fox",
        "n/a/1.jpg": "NA",
        "n/a/2.jpg": "fox",
        "s/4.jpg": "hare",
    }
    assert pool.frame["group"].tolist() == ["08", "007", "007", "x"]
    assert pool.frame["age"].tolist()[:2] == [5, 4]
    assert pool.frame["other_source"].tolist()[3] == "the web"
    assert pool.names == ("n", "s")


def test_labels_of_the_metadata_go_before_the_folders(tmp_path):
    put(tmp_path, "n/a/1.jpg", "n/a/2.jpg")
    (tmp_path / "n/metadata.csv").write_text("file_name,label,id\na/1.jpg,fox,seven\n")
    pool = Pool.from_folders({"n": tmp_path / "n"})
    assert column(pool, "label") == {"seven": "fox", "n/a/2.jpg": None}
    assert Pool.from_folders({"n": tmp_path / "n"}, label="folder").frame["label"].tolist() == [
        "a",
        "a",
    ]
    assert "label" not in Pool.from_folders({"n": tmp_path / "n"}, label=False).frame


def test_metadata_with_several_labels(tmp_path):
    put(tmp_path, "n/1.jpg", "n/2.jpg")
    (tmp_path / "n/metadata.jsonl").write_text(
        '{"file_name": "1.jpg", "label": ["fox", "hare"]}\n{"file_name": "2.jpg", "label": []}\n'
    )
    assert Pool.from_folders({"n": tmp_path / "n"}).frame["label"].tolist() == [["fox", "hare"], []]


def test_metadata_about_images_that_are_not_there(tmp_path):
    put(tmp_path, "n/1.jpg", "outside.jpg")
    (tmp_path / "n/metadata.csv").write_text("file_name,age\n1.jpg,1\n2.jpg,2\n../outside.jpg,3\n")
    pool = Pool.from_folders({"n": tmp_path / "n"})
    assert pool.set_aside[["id", "reason"]].values.tolist() == [
        ["n/2.jpg", "listed in metadata.csv, but there is no such image"],
        ["n/../outside.jpg", "listed in metadata.csv, but outside of the folder"],
    ]


@pytest.mark.parametrize(
    ("files", "call", "facts", "hint"),
    [
        ({"metadata.csv": "name,age\n1.jpg,2\n"}, {}, {"column": "file_name"}, "metadata.csv"),
        (
            {"metadata.csv": "file_name,age\n1.jpg,2\n1.jpg,3\n"},
            {},
            {"line": 3, "value": "1.jpg"},
            "before in metadata.csv, line 2",
        ),
        (
            {"metadata.csv": "file_name,age\n,2\n"},
            {},
            {"line": 2, "column": "file_name"},
            "metadata.csv",
        ),
        (
            {"metadata.csv": "file_name,age\n1.jpg,2\n", "metadata.jsonl": "{}"},
            {},
            {"value": ["metadata.csv", "metadata.jsonl"]},
            "",
        ),
        (
            {"metadata.csv": "file_name,age\n1.jpg,2\n"},
            {"label": "specis"},
            {"column": "specis"},
            "the metadata of",
        ),
        ({}, {"label": "species"}, {"column": "species"}, "metadata.csv"),
    ],
)
def test_metadata_that_cannot_work(tmp_path, files, call, facts, hint):
    put(tmp_path, "n/1.jpg")
    for name, text in files.items():
        (tmp_path / "n" / name).write_text(text)
    with refused(DataError, **facts) as caught:
        Pool.from_folders({"n": tmp_path / "n"}, **call)
    assert hint in str(caught.value)


@pytest.mark.slow
def test_a_hundred_thousand_files_are_listed_in_seconds(tmp_path):
    for folder in range(100):
        (tmp_path / f"c{folder}").mkdir()
        for at in range(1000):
            os.close(os.open(tmp_path / f"c{folder}" / f"{at:04d}.jpg", os.O_CREAT | os.O_WRONLY))
    start = time.process_time()
    found = list_images(str(tmp_path))
    listed = time.process_time() - start
    pool = Pool.from_folders({"all": tmp_path})
    assert len(found.files) == len(pool) == 100_000
    assert listed < 5
    assert time.process_time() - start < 15
