"""Tables in files: read without guessing; errors name the line."""

import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import refused
from sources.image_files import put, table
from unskew import ConfigError, DataError
from unskew.sources import tables
from unskew.sources.readers import read_sources
from unskew.sources.tables import read_table


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
        ("m.parquet", "no", {}, "m.parquet'"),
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


def test_tables_that_would_be_their_size_squared(tmp_path, monkeypatch):
    """Records that share no name; more columns than anybody has; the same name twice."""
    lines = [json.dumps({"source": "a", f"k{at}": 1}) for at in range(400)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert read_table(str(tmp_path / "t.jsonl"), "t.jsonl").frame.shape == (400, 401)
    monkeypatch.setenv("UNSKEW_MAX_UNPACKED", "1e6")
    with refused(DataError, limit=1_000_000):
        read_table(str(tmp_path / "t.jsonl"), "t.jsonl")
    monkeypatch.setattr(tables, "_MOST_COLUMNS", 3)
    (tmp_path / "t.csv").write_text("a,b,c,d\n1,2,3,4\n")
    with refused(DataError, count=4, limit=3):
        read_table(str(tmp_path / "t.csv"), "t.csv")
    columns = [pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.table(columns, names=["label", "label"]), tmp_path / "t.parquet")
    with refused(DataError, columns=["label"]):
        read_table(str(tmp_path / "t.parquet"), "t.parquet")


def test_names_that_are_documents_or_ids_and_numbers_that_are_codes(tmp_path):
    def write(**columns):
        (tmp_path / "t.json").write_text(json.dumps([dict(row) for row in zip_columns(columns)]))
        return read_sources({"manifest": "t.json", "images": False}, tmp_path)

    def zip_columns(columns):
        values = zip(*columns.values(), strict=True)
        return [zip(columns, row, strict=True) for row in values]

    with refused(DataError, column="label", count=20_000):
        write(source=["a", "b"], label=["x" * 20_000, "y"])
    with refused(DataError, column="source", count=2500):
        write(source=[f"s{at}" for at in range(2500)], label=["x"] * 2500)
    pool = write(source=["a", "b"], label=["x", "y"], code=[10**400, 3])
    assert list(pool.frame["code"]) == [str(10**400), "3"]
