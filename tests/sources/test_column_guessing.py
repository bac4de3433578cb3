"""The likely roles of columns, by their names and, of paths, by what they hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sources.small_tables import TABLE, written
from unskew.sources.column_guessing import common_columns
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources


def test_columns_of_a_table_by_their_names(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "Image_ID,hospital,Patient_ID,fold,species,file_name\n")
    settings = find_sources([table], tmp_path)
    roles = {
        "id": "Image_ID",
        "source": "hospital",
        "group": "Patient_ID",
        "split": "fold",
        "label": "species",
    }
    assert settings == {"manifest": "t.csv", **roles}


def test_a_table_without_paths_needs_no_images(tmp_path: Path) -> None:
    settings = find_sources([written(tmp_path / "t.csv", TABLE)], tmp_path)
    assert settings == {"manifest": "t.csv", "source": "source", "label": "label", "images": False}
    assert len(read_sources(settings, tmp_path)) == 2


def test_a_column_of_paths_in_capitals_is_named(tmp_path: Path) -> None:
    assert (
        find_sources([written(tmp_path / "t.csv", "Source,Path\na,b.jpg\n")], tmp_path)["path"]
        == "Path"
    )


def test_semicolons_are_seen(tmp_path: Path) -> None:
    settings = find_sources([written(tmp_path / "t.csv", TABLE.replace(",", ";"))], tmp_path)
    assert settings["delimiter"] == ";"
    assert settings["source"] == "source"
    assert len(read_sources(settings, tmp_path)) == 2


def records() -> list[dict[str, Any]]:
    return [{"source": "a", "label": "cat", "x": 1}, {"source": "b", "label": "dog", "x": 2}]


@pytest.mark.parametrize(
    "name",
    [
        "t.csv",
        "t.tsv",
        "t.csv.gz",
        "t.jsonl",
        "t.jsonl.gz",
        "t.ndjson",
        "t.json",
        "t.parquet",
        "t.pq",
    ],
)
def test_every_format_of_a_table(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith(("parquet", "pq")):
        pd.DataFrame(records()).to_parquet(path)
    else:
        kind = name.split(".")[1]
        lines = "\n".join(json.dumps(each) for each in records())
        text = {"csv": TABLE, "tsv": TABLE.replace(",", "\t"), "json": json.dumps(records())}.get(
            kind, lines
        )
        path.write_bytes(
            gzip.compress(text.encode())
            if name.endswith(".gz")
            else b"\xef\xbb\xbf" * (kind == "csv") + text.encode()
        )
    settings = find_sources([path], tmp_path)
    assert settings == {"manifest": name, "source": "source", "label": "label", "images": False}
    assert read_sources(settings, tmp_path).names == ("a", "b")


def test_coco(tmp_path: Path) -> None:
    coco = {
        "images": [{"id": 1, "file_name": "a.jpg", "location": "site1", "seq_id": "s"}],
        "annotations": [],
        "categories": [],
    }
    settings = find_sources([written(tmp_path / "all.json", json.dumps(coco))], tmp_path)
    assert settings == {"manifest": "all.json", "source": "location", "group": "seq_id"}


def test_only_what_all_files_agree_on_is_a_role(tmp_path: Path) -> None:
    first = written(tmp_path / "one.csv", "site,label,patient\n")
    other = written(tmp_path / "two.csv", "camera,label,patient\n")
    third = written(tmp_path / "three.csv", "site;label;path\n")
    assert common_columns("manifest", [first, other]) == {
        "label": "label",
        "group": "patient",
        "images": False,
    }
    assert common_columns("manifest", [first, third]) == {"source": "site", "label": "label"}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_marks_between_columns_are_named(mark: str, tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", f'"site"{mark}"label"{mark}path\n')
    assert common_columns("manifest", [table]) == {
        "source": "site",
        "label": "label",
        "delimiter": mark,
    }


def test_the_first_usual_name_wins_whatever_the_order_of_the_columns(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "vendor,SPECIES,site,label,path\n")
    assert common_columns("manifest", [table]) == {"source": "site", "label": "label"}


def test_fields_that_coco_has_of_its_own_have_no_role(tmp_path: Path) -> None:
    images = [{"id": 1, "path": "a.jpg", "label": 3, "site": "x", "patient": 7, "fold": 1}]
    table = written(tmp_path / "t.json", json.dumps({"images": images}))
    assert common_columns("manifest", [table]) == {
        "source": "site",
        "group": "patient",
        "split": "fold",
    }


def test_fields_may_be_missing_from_the_first_record(tmp_path: Path) -> None:
    table = written(tmp_path / "t.jsonl", '{"path": "a"}\n\n{"path": "b", "site": "x"}\n')
    assert common_columns("manifest", [table]) == {"source": "site"}


def test_arrays_and_datasets_have_roles_but_for_their_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros(2), Labels=np.zeros(2), camera=["a", "b"])
    assert common_columns("arrays", [tmp_path / "a.npz"]) == {"source": "camera", "label": "Labels"}
    folder = tmp_path / "hf"
    (folder / "first").mkdir(parents=True)
    written(folder / "dataset_dict.json", json.dumps({"splits": ["first", "second"]}))
    features = {"label": {"_type": "Image"}, "category": {"_type": "ClassLabel"}}
    written(folder / "first" / "dataset_info.json", json.dumps({"features": features}))
    assert common_columns("huggingface", [folder]) == {"label": "category"}


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.json", "t.jsonl", "gone.csv"])
def test_a_file_that_cannot_be_read_has_no_columns(name: str, tmp_path: Path) -> None:
    if not name.startswith("gone"):
        written(tmp_path / name, "nothing of the kind")
    assert common_columns("manifest", [tmp_path / name]) == {}


@pytest.mark.parametrize("name", ["file", "image", "image_path", "filepath", "img", "Bild"])
@pytest.mark.parametrize("format", ["csv", "jsonl", "json", "parquet"])
def test_paths_are_recognised_by_their_content(name: str, format: str, tmp_path: Path) -> None:
    rows = [{"source": "ab"[at % 2], "label": "x", name: f"p/{at}.JPG"} for at in range(12)]
    table = tmp_path / f"t.{format}"
    frame = pd.DataFrame(rows)
    if format == "csv":
        frame.to_csv(table, index=False)
    elif format == "parquet":
        frame.to_parquet(table)
    else:
        frame.to_json(table, orient="records", lines=format == "jsonl")
    assert find_sources([table], tmp_path)["path"] == name


def test_names_that_are_no_files_are_no_paths(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "source,image,label\na,scan 1,x\nb,scan 2,y\n")
    assert find_sources([table], tmp_path)["images"] is False


def test_the_folder_that_paths_start_from_is_found(tmp_path: Path) -> None:
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    (tmp_path / "data" / "pictures" / "1.png").touch()
    (tmp_path / "data" / "lists").mkdir()
    table = written(tmp_path / "data" / "lists" / "t.csv", "source,file\na,1.png\n")
    assert find_sources([table], tmp_path)["root"] == "data/pictures"
