"""Tables that list images: types, missing fields, ids, groups, paths that climb out; mistakes are
named by their line.
"""

import gzip
import json

import pandas as pd
import pytest

from raising import refused
from sources.image_files import put, table
from unskew import DataError, Pool
from unskew.errors import ImageError
from unskew.sources.readers import TARGET_SAMPLE, read_sample, read_sources


def test_a_table_of_all_sources(tmp_path):
    put(tmp_path, "img/1.jpg", "img/2.jpg", "img/3.jpg")
    table(
        tmp_path,
        "path,source,label,group,split,age,note\nimg/1.jpg,n,cat,g1,train,3,\nimg/2.jpg,n,NA,g1,test,,x\nimg/3.jpg,s,,g2,train,5,NA\n",
    )
    pool = read_sources({"manifest": "m.csv"}, tmp_path)
    assert list(pool.frame.columns) == [
        "id",
        "source",
        "label",
        "group",
        "split",
        "path",
        "age",
        "note",
    ]
    assert pool.frame["id"].tolist() == ["img/1.jpg", "img/2.jpg", "img/3.jpg"]
    assert pool.frame["label"].isna().tolist() == [False, False, True]
    assert pool.frame["label"].tolist()[:2] == ["cat", "NA"]
    assert pool.frame["note"].isna().tolist() == [True, False, False]
    assert pool.frame["age"].tolist()[::2] == [3, 5]
    assert [pool.images.read(row) for row in range(3)] == [b"img/1.jpg", b"img/2.jpg", b"img/3.jpg"]
    assert pool.set_aside is None


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "csv.gz", "jsonl.gz"])
def test_every_kind_of_table_says_the_same(tmp_path, kind):
    put(tmp_path, "a.jpg", "b.jpg")
    frame = pd.DataFrame(
        {"path": ["a.jpg", "b.jpg"], "source": ["n", "NA"], "label": ["é", "NA"], "age": [1.5, 2.0]}
    )
    records = frame.to_dict("records")
    lines = "".join(json.dumps(record) + "\n" for record in records)
    file = tmp_path / f"m.{kind}"
    match kind:
        case "parquet":
            frame.to_parquet(file)
        case "json":
            file.write_text(json.dumps(records))
        case "jsonl":
            file.write_text(lines)
        case "jsonl.gz":
            file.write_bytes(gzip.compress(lines.encode()))
        case "csv.gz":
            file.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
        case _:
            frame.to_csv(file, index=False, sep="\t" if kind == "tsv" else ",")
    pool = Pool.from_manifest(file)
    assert pool.frame[["id", "source", "label", "age"]].astype(object).values.tolist() == [
        ["a.jpg", "n", "é", 1.5],
        ["b.jpg", "NA", "NA", 2.0],
    ]
    assert pool.images.read(1) == b"b.jpg"


def test_one_table_for_each_source(tmp_path):
    put(tmp_path, "north/x.jpg", "south/x.jpg", "south/y.jpg")
    table(tmp_path, "path,label\nx.jpg,cat\n", "north/m.csv")
    table(tmp_path, "path,label,source\nx.jpg,dog,web\ny.jpg,dog,web\n", "south/m.csv")
    pool = read_sources({"manifest": {"n": "north/m.csv", "s": "south/m.csv"}}, tmp_path)
    assert pool.names == ("n", "s")
    assert pool.frame["id"].tolist() == ["n/x.jpg", "s/x.jpg", "y.jpg"]
    assert pool.frame["path"].tolist() == ["north/x.jpg", "south/x.jpg", "south/y.jpg"]
    assert pool.images.read(1) == b"south/x.jpg"
    assert pool.attributes == ("other_source",)


def test_ids(tmp_path):
    put(tmp_path, "a.jpg", "b.jpg")
    table(tmp_path, "path,source,code\na.jpg,n,007\nb.jpg,n,8\n")
    assert read_sources({"manifest": "m.csv", "id": "code"}, tmp_path).frame["id"].tolist() == [
        "007",
        "8",
    ]
    # The same image in two sources is two rows: the source tells them apart.
    table(tmp_path, "path,source\na.jpg,n\na.jpg,s\nb.jpg,s\n")
    assert read_sources({"manifest": "m.csv"}, tmp_path).frame["id"].tolist() == [
        "n/a.jpg",
        "s/a.jpg",
        "b.jpg",
    ]
    table(tmp_path, "source,age\nn,1\ns,2\n")
    assert read_sources({"manifest": "m.csv", "images": False}, tmp_path).frame["id"].tolist() == [
        0,
        1,
    ]
    assert read_sources(
        {"manifest": {"a": "m.csv", "b": "m.csv"}, "images": False}, tmp_path
    ).frame["id"].tolist() == [
        "a/0",
        "a/1",
        "b/0",
        "b/1",
    ]


def test_the_same_image_twice_is_named_by_its_lines(tmp_path):
    put(tmp_path, "a.jpg")
    table(tmp_path, "path,source,label\na.jpg,n,cat\n\n./a.jpg,n,dog\n")
    with refused(DataError, source="n", path="./a.jpg") as caught:
        read_sources({"manifest": "m.csv"}, tmp_path)
    assert all(text in str(caught.value) for text in ("line 4", "line 2", "label_separator"))
    table(tmp_path, "path,source,id\na.jpg,n,crop1\na.jpg,n,crop2\n")
    assert len(read_sources({"manifest": "m.csv"}, tmp_path)) == 2


@pytest.mark.parametrize(
    "path", ["../secret.jpg", "sub/../../secret.jpg", "{root}/secret.jpg", "..\\secret.jpg"]
)
def test_paths_that_climb_out_are_set_aside_unless_allowed(tmp_path, path):
    put(tmp_path, "secret.jpg", "data/ok.jpg")
    path = path.format(root=tmp_path)
    rows = [{"path": "ok.jpg", "source": "n"}, {"path": path, "source": "n"}]
    table(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "data/m.jsonl")
    pool = read_sources({"manifest": "data/m.jsonl"}, tmp_path)
    assert pool.frame["id"].tolist() == ["ok.jpg"]
    assert pool.set_aside[["id", "source"]].values.tolist() == [[path, "n"]]
    assert "leads out of 'data' (allow_outside = true accepts it)" in pool.set_aside["reason"][0]
    allowed = read_sources({"manifest": "data/m.jsonl", "allow_outside": True}, tmp_path)
    assert len(allowed) == 2
    assert allowed.images.read(1) == b"secret.jpg"


def test_absolute_paths_within_the_root_are_fine(tmp_path):
    put(tmp_path, "data/ok.jpg")
    table(tmp_path, f"path,source\n{tmp_path}/data/ok.jpg,n\n")
    pool = read_sources({"manifest": "m.csv", "root": "data"}, tmp_path)
    assert pool.images.read(0) == b"data/ok.jpg"


def test_links_are_followed_because_they_are_the_owners(tmp_path):
    put(tmp_path, "blobs/x", "data/ok.jpg")
    (tmp_path / "data/linked.jpg").symlink_to(tmp_path / "blobs/x")
    table(tmp_path, "path,source\nlinked.jpg,n\n", "data/m.csv")
    assert Pool.from_manifest(tmp_path / "data/m.csv").images.read(0) == b"blobs/x"


def test_the_root_of_the_paths(tmp_path):
    put(tmp_path, "photos/a.jpg", "tables/a.jpg")
    table(tmp_path, "path,source\na.jpg,n\n", "tables/m.csv")
    assert read_sources({"manifest": "tables/m.csv"}, tmp_path).images.read(0) == b"tables/a.jpg"
    pool = read_sources({"manifest": "tables/m.csv", "root": "photos"}, tmp_path)
    assert pool.images.read(0) == b"photos/a.jpg"
    assert pool.frame[["id", "path"]].values.tolist() == [["a.jpg", "photos/a.jpg"]]


def test_files_that_are_missing_say_so_when_they_are_read(tmp_path):
    put(tmp_path, "a.jpg")
    table(tmp_path, "path,source\na.jpg,n\ngone.jpg,n\n")
    pool = read_sources({"manifest": "m.csv"}, tmp_path)
    with pytest.raises(ImageError, match=r"^there is no such file$"):
        pool.images.read(1)
    table(tmp_path, "path,source\ngone.jpg,n\nlost.jpg,n\n")
    with refused(DataError, path="gone.jpg", count=2) as caught:
        read_sources({"manifest": "m.csv"}, tmp_path)
    assert all(text in str(caught.value) for text in ("'m.csv'", "root", "images = false"))


def test_rows_without_a_path_and_addresses_are_set_aside(tmp_path):
    put(tmp_path, "a.jpg")
    table(tmp_path, "path,source\na.jpg,n\n,n\nhttps://example.org/x.jpg,n\n")
    pool = read_sources({"manifest": "m.csv"}, tmp_path)
    assert pool.set_aside["reason"].tolist() == [
        "the table gives no path",
        "the address is not within the folder of the table (allow_outside = true accepts it)",
    ]
    table(tmp_path, "path,source\nhttps://example.org/x.jpg,n\n")
    with refused(DataError, path="https://example.org/x.jpg", count=1):
        read_sources({"manifest": "m.csv"}, tmp_path)


def test_the_sample_of_a_target(tmp_path):
    put(tmp_path, "p/a.jpg")
    table(tmp_path, "file_name,age\na.jpg,3\n", "p/m.csv")
    sample = read_sample("p/m.csv", tmp_path)
    assert sample.names == (TARGET_SAMPLE,)
    assert sample.frame[["id", "path", "age"]].values.tolist() == [["a.jpg", "p/a.jpg", 3]]
