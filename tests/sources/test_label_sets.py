"""Images with several labels."""

import json

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from sources.image_files import put, table
from unskew import ConfigError, DataError, Pool
from unskew.sources.label_sets import label_indicators, label_matrix
from unskew.sources.readers import read_sources


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


def test_lists_are_no_strata(tmp_path):
    with refused(DataError, column="label") as caught:
        unskew.debias(
            several(tmp_path), unskew.bias.Strata(by=["label"]), unskew.Target.uniform("label")
        )
    assert "label_indicators" in str(caught.value)


def test_indicators_need_labels():
    with refused(DataError, column="label"):
        label_indicators(Pool.from_arrays(["a"]))
    with refused(DataError, column="label", ids=[1]):
        label_indicators(Pool.from_arrays(["a", "a"], ["x", None]))
    assert label_indicators(Pool.from_arrays(["a", "a"], ["x", "y"])).frame["label=y"].tolist() == [
        0,
        1,
    ]


def columns(tmp_path, text, **settings):
    table(tmp_path, text)
    settings = {"manifest": "m.csv", "labels": ["cat", "dog"], "images": False} | settings
    return read_sources(settings, tmp_path)


def test_columns_of_0_and_1_are_labels_and_gaps_are_unknown(tmp_path, caplog):
    pool = columns(
        tmp_path, "id,source,cat,dog\na,n,1,0\nb,n,1,1\nc,s,0,\nd,s,,\ne,n,0,0\n", label=None
    )
    assert pool.frame["label"].tolist() == [["cat"], ["cat", "dog"], [], None, []]
    labels, present = label_matrix(pool)
    nan = np.nan
    assert labels == ("cat", "dog")
    assert np.array_equal(present, [[1, 0], [1, 1], [0, nan], [nan, nan], [0, 0]], equal_nan=True)
    # The gaps are said, and of which source all are.
    assert "cat (1)" in caplog.text
    assert "dog (2, all of s)" in caplog.text
    known = label_indicators(pool.take(np.array([0, 1, 2, 4])))
    assert np.array_equal(known.frame["label=dog"], [0, 1, nan, 0], equal_nan=True)


def test_labels_of_a_source_without_the_column_are_unknown(tmp_path):
    (tmp_path / "n.csv").write_text("id,cat,dog\na,1,0\nb,0,1\n")
    (tmp_path / "s.csv").write_text("id,cat\nc,1\n")
    tables = {"n": "n.csv", "s": "s.csv"}
    pool = read_sources({"manifest": tables, "labels": ["cat", "dog"], "images": False}, tmp_path)
    assert np.isnan(label_matrix(pool)[1][2, 1])


@pytest.mark.parametrize("value", ["-1", "2", "cat|dog"])
def test_other_values_of_a_label_are_refused(tmp_path, value):
    with refused(DataError, column="dog", id="b", value=value):
        columns(tmp_path, f"id,source,cat,dog\na,n,1,0\nb,n,1,{value}\n")


def test_wrong_names_of_labels_are_refused(tmp_path):
    text = "id,source,cat,dgo\na,n,1,0\n"
    with refused(DataError, column="dog") as caught:
        columns(tmp_path, text)
    assert "'dgo'" in str(caught.value)
    with refused(ConfigError, option="labels"):
        columns(tmp_path, text, labels=["cat", "cat"])
    with refused(ConfigError, option="labels"):
        columns(tmp_path, text, labels=["cat"], label="dgo")


def test_a_missing_list_is_unknown_and_an_empty_one_is_none(tmp_path):
    rows = [{"id": "a", "source": "n", "label": label} for label in (["cat"], [], None)]
    text = "".join(json.dumps(row | {"id": at}) + "\n" for at, row in enumerate(rows))
    (tmp_path / "m.jsonl").write_text(text)
    pool = read_sources({"manifest": "m.jsonl", "images": False}, tmp_path)
    assert np.array_equal(label_matrix(pool)[1][:, 0], [1, 0, np.nan], equal_nan=True)
