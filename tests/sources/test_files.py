"""Files read one at a time: reasons, other spellings of names, other processes."""

import pickle
import unicodedata

import numpy as np
import pytest

from sources.image_files import put
from unskew import Pool
from unskew.errors import ImageError
from unskew.sources.files import FileImages, is_outside


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
