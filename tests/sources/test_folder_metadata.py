"""Metadata tables in the folders of images."""

import pytest

from raising import refused
from sources.image_files import put
from unskew import DataError, Pool


def column(pool, name):
    return dict(
        zip(
            pool.frame["id"],
            pool.frame[name].astype(object).where(pool.frame[name].notna(), None),
            strict=True,
        )
    )


def test_metadata_in_the_folders_of_images(tmp_path):
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
