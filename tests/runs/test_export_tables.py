"""Weights in other formats: each is read back by what would read it, nothing is half-written,
nothing is overwritten unasked.
"""

import csv
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from export_pools import Held, export_pool, picture, shard_members, weights_of
from raising import refused
from unskew import ConfigError, DataError, Pool, Target
from unskew.bias import Strata
from unskew.debiasing.pool_weights import weigh_splits
from unskew.runs.export_tables import PLACES, export_run, export_weights
from unskew.weigh.weights_table import (
    COLUMNS,
    read_weights_table,
    write_weights_table,
)


def test_csv_and_jsonl_hold_every_row_and_digit(tmp_path):
    table = weights_of(export_pool())
    for to in ("csv", "jsonl"):
        assert export_weights(table, to, tmp_path / to, guard_formulas=False).images == 8
    with (tmp_path / "csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    records = [
        json.loads(line) for line in (tmp_path / "jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert list(rows[0]) == list(records[0]) == list(COLUMNS)
    for read in (rows, records):
        assert [row["id"] for row in read] == table["id"].tolist()
        assert [float(row["weight"]) for row in read] == table["weight"].tolist()
        assert [float(row["sample_weight"]) for row in read] == table["sample_weight"].tolist()
    assert records[0]["group"] is None
    assert rows[0]["group"] == ""


def test_lists_of_labels_are_json_in_a_cell_and_lists_in_jsonl(tmp_path):
    table = weights_of(export_pool()).assign(
        label=pd.Series([["cat", "dog"], [], None, ["owl"]] * 2, dtype=object)
    )
    export_weights(table, "csv", tmp_path / "w.csv")
    export_weights(table, "jsonl", tmp_path / "w.jsonl")
    assert pd.read_csv(tmp_path / "w.csv")["label"].tolist()[:2] == ['["cat", "dog"]', "[]"]
    read = [
        json.loads(line)["label"]
        for line in (tmp_path / "w.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert read[:4] == [["cat", "dog"], [], None, ["owl"]]


def test_cells_that_a_spreadsheet_would_run_are_made_harmless(tmp_path):
    hostile = ["=1+1", "+cmd", "-2+3", "@sum", "\tx", "-1", "+2.5e3", "a=b"]
    table = weights_of(export_pool()).assign(label=hostile)
    done = export_weights(table, "csv", tmp_path / "w.csv")
    with (tmp_path / "w.csv").open(newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert [row["label"] for row in read] == [
        "'=1+1",
        "'+cmd",
        "'-2+3",
        "'@sum",
        "'\tx",
        "-1",
        "+2.5e3",
        "a=b",
    ]
    assert read[2]["id"] == "'" + table["id"][2]
    # Five labels, one id and its path.
    (note,) = done.notes
    assert note.startswith("7 cells")
    assert export_weights(table, "csv", tmp_path / "raw.csv", guard_formulas=False).notes == ()
    assert "'=1+1" not in (tmp_path / "raw.csv").read_text(encoding="utf-8")


def test_class_weights_are_the_closed_form_in_every_split(tmp_path):
    """Post-stratified weights are n p(y)/N_y: two labels, half of the images each, p = 0.8 and
    0.2.
    """
    table = weights_of(export_pool())
    export_weights(table, "class-weights", tmp_path / "c.json")
    found = json.loads((tmp_path / "c.json").read_text())
    assert list(found) == ["train", "validation", "test"]
    for weights in found.values():
        assert weights == {"cat": pytest.approx(1.6), "dog": pytest.approx(0.4)}
    export_weights(table, "class-weights", tmp_path / "c.csv")
    read = pd.read_csv(tmp_path / "c.csv")
    assert read[["split", "label"]].to_numpy().tolist()[:2] == [["train", "cat"], ["train", "dog"]]
    assert read["weight"][0] == found["train"]["cat"]
    export_weights(weights_of(export_pool(splits=None)), "class-weights", tmp_path / "one.json")
    assert list(json.loads((tmp_path / "one.json").read_text())) == ["all"]


def test_weights_that_depend_on_more_than_the_label_have_no_class_weights(tmp_path):
    table = weights_of(export_pool())
    changed = table.assign(
        sample_weight=np.where(table["id"] == "a/x.png", 0.9, table["sample_weight"])
    )
    with refused(DataError, column="label", levels=["dog"]) as caught:
        export_weights(changed, "class-weights", tmp_path / "c.json")
    for words in ("'train'", "1 of 2", "0.4 to 0.9", "2 images"):
        assert words in str(caught.value)
    # Rounding is no difference, a millionth is one.
    for factor, differs in ((1 + 1e-12, False), (1 + 1e-6, True)):
        close = table.assign(
            sample_weight=table["sample_weight"] * np.where(np.arange(8) < 2, factor, 1.0)
        )
        if differs:
            with refused(DataError, column="label", levels=["cat", "dog"]):
                export_weights(close, "class-weights", tmp_path / "c.json")
        else:
            export_weights(close, "class-weights", tmp_path / "c.json", overwrite=True)
            (tmp_path / "c.json").unlink()
    with refused(DataError, column="label", count=1):
        export_weights(table.assign(label=[None, *"abcdefg"]), "class-weights", tmp_path / "c.json")
    with refused(DataError, column="label"):
        export_weights(
            table.assign(label=pd.Series([["a", "b"]] * 8)), "class-weights", tmp_path / "c.json"
        )
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced_unasked_and_a_failed_export_leaves_it_as_it_was(tmp_path):
    pool = export_pool()
    table = weights_of(pool)
    for to in PLACES:
        place = tmp_path / to
        export_weights(table, to, place, pool=pool)
        before = {
            path.name: path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()
        }
        with refused(DataError, path=str(place)):
            export_weights(table, to, place, pool=pool)
        export_weights(table, to, place, pool=pool, overwrite=True)
        assert {
            path.name: path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()
        } == before
    broken = Pool(pool.frame, Held([*pool.images.held[:7], None]))
    for to in ("hf", "webdataset"):
        with refused(DataError, id="<script>") as caught:
            export_weights(table, to, tmp_path / to, pool=broken, overwrite=True)
        assert "the file is gone" in str(caught.value)
        with refused(DataError, id="<script>"):
            export_weights(table, to, tmp_path / f"{to} again", pool=broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PLACES)
    assert len(list((tmp_path / "hf").rglob("*.*"))) == 8 + 3 + 1


@dataclass
class Interrupted(Held):
    """The user presses Ctrl-C at the last image."""

    def read(self, row):
        if self.held[row] is None:
            raise KeyboardInterrupt
        return self.held[row]

    def take(self, rows):
        return Interrupted([self.held[row] for row in rows])


def test_an_interrupted_export_leaves_nothing(tmp_path):
    pool = export_pool()
    table = weights_of(pool)
    stopped = Pool(pool.frame, Interrupted([*pool.images.held[:7], None]))
    for to in ("hf", "webdataset"):
        with pytest.raises(KeyboardInterrupt):
            export_weights(table, to, tmp_path / to, pool=stopped)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_refused(tmp_path):
    pool = export_pool()
    table = weights_of(pool)
    with refused(ConfigError, value="json", allowed=list(PLACES)) as caught:
        export_weights(table, "json", tmp_path / "x")
    assert "Did you mean 'jsonl'?" in str(caught.value)
    with refused(DataError, option="--to", value="hf"):
        export_weights(table, "hf", tmp_path / "x", pool=Pool(pool.frame))
    with refused(DataError, ids=["b/../c", "<script>"], count=2):
        export_weights(table, "hf", tmp_path / "x", pool=pool.take(range(6)))
    with refused(DataError, path=str(tmp_path / "nowhere")):
        export_weights(table, "csv", tmp_path / "nowhere" / "w.csv")
    with refused(DataError, path=str(tmp_path / "nowhere")):
        export_weights(table, "hf", tmp_path / "nowhere" / "hf", pool=pool)
    with refused(DataError, path=str(tmp_path)):
        export_weights(table, "csv", tmp_path, overwrite=True)
    text = Held([*pool.images.held[:7], b"hello"])
    with refused(DataError, id="<script>"):
        export_weights(table, "webdataset", tmp_path / "x", pool=Pool(pool.frame, text))
    with refused(DataError, column="split", levels=["a b", "a-b"]):
        export_weights(
            table.assign(split=["a b", "a-b"] * 4), "webdataset", tmp_path / "x", pool=pool
        )
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_exported_into_its_own_folder(tmp_path):
    pool = export_pool()
    table = weights_of(pool)
    write_weights_table(pool, table, tmp_path / "weights.parquet")
    for to, name in PLACES.items():
        assert export_run(tmp_path, to, read_pool=lambda: pool).path == tmp_path / name
        assert (tmp_path / name).exists()
    assert read_weights_table(tmp_path / "weights.parquet")["id"].tolist() == table["id"].tolist()
    with pytest.raises(DataError, match=r"weights\.parquet"):
        export_run(tmp_path / "huggingface", "csv")


def test_images_of_a_run_are_found_by_its_configuration(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    for at, source in enumerate(["north", "south"]):
        for label in ("cat", "dog"):
            for number in range(3):
                (data / source / label).mkdir(parents=True, exist_ok=True)
                (data / source / label / f"{number}.jpg").write_bytes(
                    picture(10 + 100 * at + number)
                )
    out.mkdir()
    (out / "run.toml").write_text(
        'folder = "../data"\n[sources]\nfolders = { north = "north", south = "south" }\n'
        '[target]\nuniform = "label"\n[bias]\nfamily = "strata"\n'
    )
    pool = Pool.from_folders({"north": data / "north", "south": data / "south"})
    write_weights_table(
        pool,
        weigh_splits(pool, Strata("label"), Target.uniform("label")).frame(),
        out / "weights.parquet",
    )
    export_run(out, "webdataset")
    members = shard_members(out / "webdataset" / "train-000000.tar")
    assert len(members) == 36
    images = {
        json.loads(data)["id"]: key.split(".")[0] for key, data in members if key.endswith(".json")
    }
    held = dict(members)
    assert held[f"{images['south/dog/2.jpg']}.jpg"] == (data / "south/dog/2.jpg").read_bytes()


def test_paths_work_from_where_the_file_is_and_data_may_have_moved(tmp_path):
    moved, out = tmp_path / "moved", tmp_path / "deep" / "out"
    (moved / "north").mkdir(parents=True)
    (moved / "north" / "1.jpg").write_bytes(picture(10))
    out.mkdir(parents=True)
    (out / "run.toml").write_text(
        'folder = "../../data"\n[sources]\nfolders = { north = "north" }\n'
        '[bias]\nfamily = "subpopulation"\nqueries.north = "all"\n'
    )
    paths = ["north/1.jpg", None, "/x/2.jpg", "north/3.jpg"]
    frame = pd.DataFrame({"id": list("abcd"), "source": "north", "path": paths})
    pool = Pool.from_frame(frame.assign(label=["cat", "cat", "dog", "dog"]))
    write_weights_table(pool, weights_of(pool), out / "weights.parquet")
    for to, folder in (("csv", out), ("csv", tmp_path), ("mixture", out / "mixture")):
        place = folder if to == "mixture" else folder / "w.csv"
        export_run(out, to, place, data=moved)
        file = next(folder.rglob("*.csv")) if to == "mixture" else place
        assert file.is_file()
    table = pd.read_csv(out / "w.csv")
    assert (out / table["path"][0]).samefile(moved / "north" / "1.jpg")
    assert table["path"][2] == "/x/2.jpg"
    assert (tmp_path / pd.read_csv(tmp_path / "w.csv")["path"][0]).is_file()
    with refused(ConfigError, option="--data"):
        export_run(out, "hf", tmp_path / "hf", data=tmp_path / "nothing")
