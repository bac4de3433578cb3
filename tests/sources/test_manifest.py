"""Tables that list images: types, missing fields, ids, groups, paths that climb out; mistakes are
named by their line.
"""

import gzip
import json
import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.sources.labels import label_indicators
from unskew.sources.settings import TARGET_SAMPLE, read_sample, read_sources
from unskew.sources.tables import read_table


def put(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def table(root, text, name="m.csv", encoding="utf-8"):
    (root / name).write_text(text, encoding=encoding)
    return root / name


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
        "an address on the network, not a file; images are not fetched",
    ]
    table(tmp_path, "path,source\nhttps://example.org/x.jpg,n\n")
    with refused(DataError, path="https://example.org/x.jpg", count=1):
        read_sources({"manifest": "m.csv"}, tmp_path)


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


def test_the_sample_of_a_target(tmp_path):
    put(tmp_path, "p/a.jpg")
    table(tmp_path, "file_name,age\na.jpg,3\n", "p/m.csv")
    sample = read_sample("p/m.csv", tmp_path)
    assert sample.names == (TARGET_SAMPLE,)
    assert sample.frame[["id", "path", "age"]].values.tolist() == [["a.jpg", "p/a.jpg", 3]]


@pytest.mark.parametrize(
    ("text", "facts", "hint"),
    [
        (
            "path;source\na.jpg;n\n",
            {"path": "m.csv", "line": 1, "option": "delimiter", "value": ";"},
            'delimiter = ";"',
        ),
        ("path\tsource\na.jpg\tn\n", {"option": "delimiter", "value": "\t"}, ""),
        (
            "path,source\na.jpg,n\nb.jpg,n,x\n",
            {"path": "m.csv", "line": 3, "count": 3, "limit": 2},
            "b.jpg, n, x",
        ),
        ("path,source\na.jpg\n", {"line": 2, "count": 1, "limit": 2}, ""),
        ('path,source\n"a.jpg,n\nb.jpg,n\n', {"path": "m.csv", "line": 3}, "quotation mark"),
        ("path,source,path\na.jpg,n,b\n", {"line": 1, "columns": ["path"]}, ""),
        ("", {"path": "m.csv", "line": 1}, "names of the columns"),
        ("path,source\n", {"path": "m.csv", "count": 0}, ""),
        ("file,site\na.jpg,n\n", {"column": "source", "columns": ["file", "site"]}, "'m.csv'"),
        ("file,source\na.jpg,n\n", {"column": "path", "path": "m.csv"}, "images = false"),
        ("path,source\na.jpg,\n", {"column": "source", "count": 1}, "'m.csv', line 2"),
    ],
)
def test_csv_that_cannot_work(tmp_path, text, facts, hint):
    put(tmp_path, "a.jpg", "b.jpg")
    table(tmp_path, text)
    with refused(DataError, **facts) as caught:
        read_sources({"manifest": "m.csv"}, tmp_path)
    assert hint in str(caught.value)


def test_csv_of_other_programs(tmp_path):
    put(tmp_path, "a.jpg")
    table(tmp_path, '\ufeffpath,source,label\r\na.jpg,"n ""1""","two\r\nlines"\r\n')
    pool = read_sources({"manifest": "m.csv"}, tmp_path)
    assert pool.names == ('n "1"',)
    assert pool.frame["label"].tolist() == ["two\r\nlines"]
    table(tmp_path, ",path,source\n0,a.jpg,n\n")  # pandas wrote its index
    assert read_sources({"manifest": "m.csv"}, tmp_path).attributes == ()
    table(tmp_path, "path;source\na.jpg;n\n")
    assert len(read_sources({"manifest": "m.csv", "delimiter": ";"}, tmp_path)) == 1
    table(tmp_path, "path,source\na.jpg,Zürich\n", encoding="latin-1")
    with refused(DataError, path="m.csv", line=2):
        read_sources({"manifest": "m.csv"}, tmp_path)
    table(tmp_path, "path,source\na.jpg,n\n", encoding="utf-16")
    with refused(DataError, path="m.csv") as caught:
        read_sources({"manifest": "m.csv"}, tmp_path)
    assert "save it as UTF-8" in str(caught.value)
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(b"path,source\n" + b"a.jpg,n\n" * 1000)[:40])
    with refused(DataError, path=str(tmp_path / "m.csv.gz")):
        read_sources({"manifest": "m.csv.gz"}, tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "facts", "hint"),
    [
        (
            "m.jsonl",
            '{"path": "a.jpg", "source": "n"}\n{"path": \n',
            {"path": "m.jsonl", "line": 2},
            "column 9",
        ),
        ("m.jsonl", '["a.jpg"]\n', {"path": "m.jsonl", "line": 1}, "line 1"),
        ("m.json", '{"path": "a.jpg"}', {"path": "m.json"}, "neither COCO nor"),
        ("m.json", "[1]", {"path": "m.json", "line": 1}, "record 1"),
        ("m.json", "[" * 100_000, {"path": "m.json"}, "JSON"),
        ("m.parquet", "no", {}, "'m.parquet'"),
    ],
)
def test_other_tables_that_cannot_work(tmp_path, name, text, facts, hint):
    table(tmp_path, text, name)
    with refused(DataError, **facts) as caught:
        read_sources({"manifest": name}, tmp_path)
    assert hint in str(caught.value)


def test_columns_become_numbers_only_where_nothing_is_lost(tmp_path):
    columns = {
        "whole": ["1", "-2", "3"],
        "real": ["1.5", "2e3", ".5"],
        "zip": ["01234", "56789", "1"],
        "zero": ["0", "0.5", "-0.25"],
        "long": ["12345678901234567890", "1", "2"],
        "truth": ["true", "False", "TRUE"],
        "word": ["1", "NA", "3"],
        "nan": ["1", "nan", "2"],
        "code": ["1", "2", "3"],
    }
    file = table(tmp_path, pd.DataFrame(columns).to_csv(index=False))
    frame = read_table(str(file), "m.csv", text=("code",)).frame
    assert frame["whole"].tolist() == [1, -2, 3]
    assert frame["real"].tolist() == [1.5, 2000.0, 0.5]
    assert frame["zero"].tolist() == [0, 0.5, -0.25]
    assert frame["truth"].tolist() == [True, False, True]
    for name in ("zip", "long", "word", "nan", "code"):
        assert frame[name].tolist() == columns[name]


FIELDS = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00\r"), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8))
def test_any_text_in_csv_comes_back_as_it_was(tmp_path_factory, rows):
    """pandas writes, we read; an empty field is missing."""
    file = tmp_path_factory.mktemp("csv") / "m.csv"
    frame = pd.DataFrame(rows, columns=["a", "b"])
    frame.to_csv(file, index=False, quoting=1)
    back = read_table(str(file), "m.csv", text=("a", "b")).frame
    assert back.astype(object).where(back.notna(), "").values.tolist() == frame.values.tolist()


def several(tmp_path):
    put(tmp_path, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    table(
        tmp_path,
        "path,source,label\na.jpg,n,cat|dog\nb.jpg,n,dog\nc.jpg,s,\nd.jpg,s,cat| dog|cat\n",
    )
    return read_sources({"manifest": "m.csv", "label_separator": "|"}, tmp_path)


def test_several_labels(tmp_path):
    truth = [["cat", "dog"], ["dog"], [], ["cat", "dog"]]
    assert several(tmp_path).frame["label"].tolist() == truth
    frame = pd.DataFrame(
        {"path": ["a.jpg", "b.jpg", "c.jpg", "d.jpg"], "source": "n", "label": truth}
    )
    frame.to_parquet(tmp_path / "m.parquet")
    assert read_sources({"manifest": "m.parquet"}, tmp_path).frame["label"].tolist() == truth
    (tmp_path / "m.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in frame.to_dict("records"))
    )
    assert read_sources({"manifest": "m.jsonl"}, tmp_path).frame["label"].tolist() == truth
    with refused(ConfigError, option="label_separator", value="|"):
        read_sources(
            {
                "manifest": "m.csv",
                "label_separator": "|",
                "label": {"regex": "(.)"},
                "path": "label",
            },
            tmp_path,
        )


def test_indicators_of_labels_are_calibrated_to_known_shares(tmp_path):
    generator = np.random.default_rng(3)
    shows = generator.random((400, 3)) < [0.2, 0.5, 0.7]
    labels = [[name for name, shown in zip("abc", row, strict=True) if shown] for row in shows]
    pool = label_indicators(Pool.from_arrays(generator.choice(["n", "s"], 400), labels))
    indicator = pool.frame[["label=a", "label=b", "label=c"]].to_numpy()
    assert np.array_equal(indicator, shows)
    wanted = {"label=a": 0.4, "label=b": 0.35, "label=c": 0.8}
    by_mean = unskew.calibrate_weights(
        np.ones(400), means={name: (pool.frame[name], share) for name, share in wanted.items()}
    )
    assert by_mean.weight @ indicator == pytest.approx(list(wanted.values()), abs=1e-10)
    margins = {name: {1.0: share, 0.0: 1 - share} for name, share in wanted.items()}
    by_margin = unskew.calibrate_weights(np.ones(400), by=pool.frame[list(wanted)], margins=margins)
    assert by_margin.weight == pytest.approx(by_mean.weight, rel=1e-8)


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["path", "source", "label", "group", "split", "id", "x", "images", "annotations", "categories"]
)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        KEYS,
        JSON
        | st.lists(
            st.dictionaries(
                st.sampled_from(["id", "image_id", "category_id", "name", "file_name"]), JSON
            ),
            max_size=3,
        ),
    ),
    st.sampled_from(["m.jsonl", "m.json"]),
)
def test_any_table_gives_a_pool_or_an_error_of_ours(tmp_path_factory, record, name):
    root = tmp_path_factory.mktemp("json")
    table(root, json.dumps(record) + "\n", name)
    try:
        pool = read_sources(
            {"manifest": name, "images": False} | ({} if "source" in record else {"source": "x"}),
            root,
        )
    except (DataError, ConfigError):
        return
    assert len(pool) >= 1


def test_lists_are_no_strata(tmp_path):
    with refused(DataError, column="label") as caught:
        unskew.debias(
            several(tmp_path), unskew.bias.Strata(by=["label"]), unskew.Target.uniform("label")
        )
    assert "label_indicators" in str(caught.value)


def test_no_labels_where_none_are_wanted(tmp_path):
    table(tmp_path, "source,label,split\nn,cat,train\n")
    pool = read_sources(
        {"manifest": "m.csv", "images": False, "label": False, "split": False}, tmp_path
    )
    assert list(pool.frame.columns) == ["id", "source", "other_label", "other_split"]


def test_indicators_need_labels():
    with refused(DataError, column="label"):
        label_indicators(Pool.from_arrays(["a"]))
    with refused(DataError, column="label", ids=[1]):
        label_indicators(Pool.from_arrays(["a", "a"], ["x", None]))
    assert label_indicators(Pool.from_arrays(["a", "a"], ["x", "y"])).frame["label=y"].tolist() == [
        0,
        1,
    ]


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
