"""Images with several labels."""

import json

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from sources.image_files import put, table
from unskew import ConfigError, DataError, Pool
from unskew.sources.label_sets import label_indicators
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
