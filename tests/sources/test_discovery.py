"""Folders and files named on the command line become the sources of a configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from raising import refused
from sources.small_tables import TABLE, written
from unskew.errors import ConfigError, DataError
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_each_folder_is_a_source_named_like_it(tmp_path: Path) -> None:
    touch(tmp_path / "north/a.jpg", tmp_path / "south/b.jpg")
    settings = find_sources([tmp_path / "north", tmp_path / "south"], tmp_path)
    assert settings == {"folders": {"north": "north", "south": "south"}}


def test_paths_start_at_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "photos/north/a.jpg")
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_sources([Path("photos/north")], Path("runs")) == {
        "folders": {"north": "../photos/north"}
    }
    assert find_sources([Path("photos/../photos/north/")], Path()) == {
        "folders": {"north": "photos/north"}
    }
    monkeypatch.chdir(tmp_path / "photos/north")
    assert find_sources([Path()], Path()) == {"folders": {"north": "."}}


def test_one_folder_of_folders_of_classes_is_taken_apart(tmp_path: Path) -> None:
    touch(
        tmp_path / "all/north/cat/a.jpg",
        tmp_path / "all/south/cat/b.jpg",
        tmp_path / "all/.cache/c",
    )
    assert find_sources([tmp_path / "all"], tmp_path) == {
        "folders": {"north": "all/north", "south": "all/south"}
    }


def test_one_folder_of_folders_with_metadata_is_taken_apart(tmp_path: Path) -> None:
    touch(
        tmp_path / "all/north/a.jpg",
        tmp_path / "all/north/metadata.csv",
        tmp_path / "all/south/metadata.jsonl",
    )
    assert list(find_sources([tmp_path / "all"], tmp_path)["folders"]) == ["north", "south"]


def test_one_folder_of_classes_is_one_source(tmp_path: Path) -> None:
    touch(tmp_path / "all/cat/a.jpg", tmp_path / "all/dog/b.jpg")
    assert find_sources([tmp_path / "all"], tmp_path) == {"folders": {"all": "all"}}


def test_splits_of_classes_are_not_sources(tmp_path: Path) -> None:
    touch(*[tmp_path / f"all/{name}/cat/a.jpg" for name in ("train", "Validation", "test")])
    settings = find_sources([tmp_path / "all"], tmp_path)
    assert settings == {"folders": {"all": "all"}}
    assert set(read_sources(settings, tmp_path).frame["split"]) == {"train", "validation", "test"}


def test_folders_of_the_same_name_get_that_above_them(tmp_path: Path) -> None:
    touch(tmp_path / "a/images/x.jpg", tmp_path / "b/images/x.jpg")
    settings = find_sources([tmp_path / "a/images", tmp_path / "b/images"], tmp_path)
    assert settings == {"folders": {"a/images": "a/images", "b/images": "b/images"}}
    with refused(ConfigError, path=str(tmp_path / "a/images")):
        find_sources([tmp_path / "a/images", tmp_path / "a/images"], tmp_path)


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    touch(tmp_path / "north/a.jpg")
    with refused(ConfigError, path=str(tmp_path / "nrth")) as caught:
        find_sources([tmp_path / "nrth"], tmp_path)
    assert "Did you mean 'north'" in str(caught.value)
    with refused(ConfigError, path=str(tmp_path / "x/y/z")):
        find_sources([tmp_path / "x/y/z"], tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    with refused(DataError, path=str(closed)):
        find_sources([closed], tmp_path)


def test_folders_and_files_do_not_mix(tmp_path: Path) -> None:
    touch(tmp_path / "north/a.jpg")
    table = written(tmp_path / "t.csv", TABLE)
    with refused(ConfigError, value=[str(tmp_path / "north"), str(table)]):
        find_sources([tmp_path / "north", table], tmp_path)
    touch(tmp_path / "arrays.npz")
    with refused(ConfigError, value=["arrays", "manifest"]):
        find_sources([tmp_path / "arrays.npz", table], tmp_path)
    with refused(ConfigError, path="notes.txt"):
        find_sources([written(tmp_path / "notes.txt", "x")], tmp_path)


def test_a_table_that_names_no_sources_is_one(tmp_path: Path) -> None:
    settings = find_sources([written(tmp_path / "clinic.csv", "label,x\ncat,1\ndog,2\n")], tmp_path)
    assert settings == {"manifest": {"clinic": "clinic.csv"}, "label": "label", "images": False}
    assert read_sources(settings, tmp_path).names == ("clinic",)


def test_several_tables_are_a_source_each(tmp_path: Path) -> None:
    one, other = (written(tmp_path / name, TABLE) for name in ("one.csv", "other.csv"))
    settings = find_sources([one, other], tmp_path)
    assert settings == {
        "manifest": {"one": "one.csv", "other": "other.csv"},
        "label": "label",
        "images": False,
    }
    assert read_sources(settings, tmp_path).names == ("one", "other")


BROKEN = {
    "empty.csv": b"",
    "binary.csv": bytes(range(256)),
    "empty.jsonl": b"",
    "broken.jsonl": b'{"a": 1}\nnot json\n',
    "numbers.jsonl": b"1\n2\n",
    "broken.json": b'{"images": [1, 2',
    "numbers.json": b"[1, 2]",
    "nothing.json": b"{}",
    "no-list.json": b'{"images": {"a": 1}}',
    "no-images.json": b'{"images": [1, 2]}',
    "text.parquet": b"nope",
    "text.csv.gz": b"nope",
    "text.npz": b"nope",
    "text.tar.gz": b"nope",
    "sheet.xlsx": b"nope",
}


@pytest.mark.parametrize("name", BROKEN)
def test_errors_name_the_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(BROKEN[name])
    with pytest.raises((DataError, ConfigError), match=name.split(".")[0]):
        read_sources(find_sources([path], tmp_path), tmp_path)


def test_arrays_and_archives(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", images=np.zeros((2, 4, 4, 3), dtype=np.uint8))
    assert find_sources([tmp_path / "one.npz"], tmp_path) == {"arrays": {"one": "one.npz"}}
    np.savez(
        tmp_path / "two.npz",
        images=np.zeros((2, 4, 4, 3), dtype=np.uint8),
        source=["a", "b"],
        labels=[0, 1],
    )
    settings = find_sources([tmp_path / "two.npz"], tmp_path)
    assert settings == {"arrays": "two.npz", "source": "source", "label": "labels"}
    assert read_sources(settings, tmp_path).frame["label"].tolist() == [0, 1]
    touch(tmp_path / "cifar-10-python.tar.gz", tmp_path / "other.tar.gz")
    assert find_sources([tmp_path / "cifar-10-python.tar.gz"], tmp_path) == {
        "cifar": "cifar-10-python.tar.gz"
    }
    names = find_sources(
        [tmp_path / "cifar-10-python.tar.gz", tmp_path / "other.tar.gz"], tmp_path
    )["cifar"]
    assert list(names) == ["cifar-10-python", "other"]


def test_unpacked_archives_and_saved_datasets(tmp_path: Path) -> None:
    touch(
        tmp_path / "cifar-10-batches-py/batches.meta", tmp_path / "cifar-10-batches-py/data_batch_1"
    )
    assert find_sources([tmp_path / "cifar-10-batches-py"], tmp_path) == {
        "cifar": "cifar-10-batches-py"
    }
    described = {
        "features": {
            "image": {"_type": "Image"},
            "label": {"_type": "ClassLabel"},
            "site": {"_type": "Value"},
        }
    }
    touch(tmp_path / "hf/dataset_info.json", tmp_path / "hf/state.json")
    assert find_sources([tmp_path / "hf"], tmp_path) == {"huggingface": {"hf": "hf"}}
    written(tmp_path / "hf/dataset_info.json", json.dumps(described))
    assert find_sources([tmp_path / "hf"], tmp_path) == {
        "huggingface": "hf",
        "source": "site",
        "label": "label",
    }
    touch(tmp_path / "splits/train/dataset_info.json")
    written(tmp_path / "splits/dataset_dict.json", json.dumps({"splits": ["train"]}))
    written(tmp_path / "splits/train/dataset_info.json", json.dumps(described))
    settings = find_sources([tmp_path / "hf", tmp_path / "splits"], tmp_path)
    assert settings == {"huggingface": {"hf": "hf", "splits": "splits"}, "label": "label"}
    with refused(ConfigError, value=["cifar", "huggingface"]):
        find_sources([tmp_path / "hf", tmp_path / "cifar-10-batches-py"], tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes")
def test_a_name_that_no_configuration_can_hold(tmp_path: Path) -> None:
    for name in (b"\xff\xfe", b"south"):
        os.makedirs(os.fsencode(tmp_path) + b"/all/" + name + b"/cat")
    with refused(DataError) as caught:
        find_sources([tmp_path / "all"], tmp_path)
    assert "xff" in str(caught.value)
