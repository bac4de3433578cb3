"""The files below a folder: names, links, pipes, what may not be read."""

import logging
import os
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pandas as pd  # here, because nobody but its owner may be allowed to load it
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import refused
from sources.image_files import put
from unskew import DataError, Pool
from unskew.errors import ImageError
from unskew.sources.files import FileImages, list_images


def column(pool, name):
    return dict(
        zip(
            pool.frame["id"],
            pool.frame[name].astype(object).where(pool.frame[name].notna(), None),
            strict=True,
        )
    )


def test_other_files_are_counted_and_logged(tmp_path, caplog):
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
    assert pool.images.read(0) == name.encode()
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
