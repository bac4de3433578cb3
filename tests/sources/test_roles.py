"""Roles of columns, and patterns on file names."""

import json
import logging

import pandas as pd
import pytest

from raising import refused
from sources.image_files import put, table
from unskew import ConfigError, DataError, Pool
from unskew.sources.readers import read_sources


def column(pool, name):
    return dict(
        zip(
            pool.frame["id"],
            pool.frame[name].astype(object).where(pool.frame[name].notna(), None),
            strict=True,
        )
    )


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


def test_columns_that_have_the_name_of_another_role(tmp_path, caplog):
    table(tmp_path, "id,group,patient,source,site\n1,control,p1,web,n\n2,treated,p2,web,s\n")
    with caplog.at_level(logging.WARNING):
        pool = read_sources(
            {"manifest": "m.csv", "images": False, "group": "patient", "source": "site"}, tmp_path
        )
    assert pool.frame["group"].tolist() == ["p1", "p2"]
    assert pool.frame["other_group"].tolist() == ["control", "treated"]
    assert pool.frame["other_source"].tolist() == ["web", "web"]
    assert "the column 'group' becomes the attribute 'other_group'" in caplog.text


def test_groups_by_column_are_the_same_across_sources_and_by_name_are_not(tmp_path, caplog):
    put(tmp_path, "sku1_a.jpg", "sku1_b.jpg", "sku2.jpg")
    table(tmp_path, "path,source,product\nsku1_a.jpg,n,p\nsku1_b.jpg,s,p\nsku2.jpg,s,\n")
    with caplog.at_level(logging.WARNING):
        by_column = read_sources({"manifest": "m.csv", "group": "product"}, tmp_path)
    assert by_column.frame["group"].tolist() == ["p", "p", "sku2.jpg"]
    assert "1 of 3 images have no group; each is a group of its own" in caplog.text
    by_name = read_sources({"manifest": "m.csv", "group": {"regex": r"^(sku\d+)"}}, tmp_path)
    assert by_name.frame["group"].tolist() == ["n/sku1", "s/sku1", "s/sku2"]


def test_lists_records_and_bytes_are_no_attributes(tmp_path, caplog):
    rows = [
        {"id": 1, "source": "n", "boxes": [1, 2], "meta": {"a": 1}, "mixed": 3, "age": 1},
        {"id": 2, "source": "s", "boxes": [], "mixed": "x"},
    ]
    table(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "m.jsonl")
    with caplog.at_level(logging.INFO):
        pool = read_sources({"manifest": "m.jsonl", "images": False}, tmp_path)
    assert pool.attributes == ("mixed", "age")
    assert pool.frame["mixed"].tolist() == ["3", "x"]
    assert "left out: boxes, meta" in caplog.text
    pool.frame.to_parquet(tmp_path / "out.parquet")
    pd.DataFrame(
        {"id": [1, 2], "source": "n", "raw": [b"x", b"y"], "at": [[1.0], [2.0]]}
    ).to_parquet(tmp_path / "m.parquet")
    assert read_sources({"manifest": "m.parquet", "images": False}, tmp_path).attributes == ()


@pytest.mark.parametrize("role", ["id", "source", "group", "split", "path"])
def test_roles_are_single_values(tmp_path, role):
    row = {"id": 1, "source": "n", "group": "g", "split": "train", "path": "a.jpg"} | {role: ["x"]}
    table(tmp_path, json.dumps(row) + "\n", "m.jsonl")
    with refused(DataError, column=role, value="list"):
        read_sources({"manifest": "m.jsonl"}, tmp_path)


def test_no_labels_where_none_are_wanted(tmp_path):
    table(tmp_path, "source,label,split\nn,cat,train\n")
    pool = read_sources(
        {"manifest": "m.csv", "images": False, "label": False, "split": False}, tmp_path
    )
    assert list(pool.frame.columns) == ["id", "source", "other_label", "other_split"]


def test_a_column_content_of_the_users_own_makes_no_copies(tmp_path, caplog):
    (tmp_path / "m.csv").write_text("source,id,content\na,1,indoor\na,2,indoor\nb,3,outdoor\n")
    pool = read_sources({"manifest": "m.csv", "images": False}, tmp_path)
    assert pool.frame["other_content"].tolist() == ["indoor", "indoor", "outdoor"]
    assert "content" not in pool.frame
    assert "holds no hashes" in caplog.text
    hashes = ["0" * 32, "0" * 32, "a" * 32]
    (tmp_path / "m.csv").write_text(
        "source,id,content\n" + "".join(f"a,{at},{each}\n" for at, each in enumerate(hashes))
    )
    assert (
        read_sources({"manifest": "m.csv", "images": False}, tmp_path).frame["content"].tolist()
        == hashes
    )
