"""Anybody's CIFAR: every layout gives the same images, labels and names; downloads are checked."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from PIL import Image

from paper import cifar_data
from paper.__main__ import run_paper
from paper.cifar_data import download_sets, find_copy, present_sets, read_split
from paper.figures import write_figures
from paper.populations import read_population
from raising import refused
from sources.cifar_archives import NAMES_10, batches_10, members_10, members_100, pack, unpack
from unskew.errors import ConfigError, DataError
from unskew.sources import cifar_files


def _batches(split: str) -> tuple[np.ndarray, list[int]]:
    """Images (n, 32, 32, 3) and codes of the archives that `members_10` makes."""
    files = [name for name in batches_10() if name.startswith("test") == (split == "test")]
    planes = np.concatenate([batches_10()[file][0] for file in files])
    codes = [code for file in files for code in batches_10()[file][1]]
    return planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), codes


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _table(split: str) -> pa.Table:
    """A split as Hugging Face stores it: encoded images, codes, names in the schema."""
    images, codes = _batches(split)
    struct = pa.array([{"bytes": _png(pixels), "path": None} for pixels in images])
    table = pa.table({"img": struct, "label": pa.array(codes, pa.int64())})
    features = {"label": {"names": NAMES_10, "_type": "ClassLabel"}}
    kept = json.dumps({"info": {"features": features}}).encode()
    return table.replace_schema_metadata({b"huggingface": kept})


def _pickled(folder: Path) -> Path:
    pack(folder / "cifar-10-python.tar.gz", members_10("python"))
    return folder


def _one_binary_file(folder: Path) -> Path:
    return pack(folder / "renamed.tgz", members_10("binary"))


def _unpacked_binary(folder: Path) -> Path:
    return unpack(folder, members_10("binary")) / "cifar-10-batches-bin"


def _torchvision(folder: Path) -> Path:
    """Both forms of both data sets: what `download=True` leaves."""
    for name, members in (("10", members_10("python")), ("100", members_100("python"))):
        pack(folder / f"cifar-{name}-python.tar.gz", members)
        unpack(folder, members)
    return folder


def _hub(folder: Path) -> Path:
    place = folder / "datasets--uoft-cs--cifar10" / "snapshots" / "0b27149" / "plain_text"
    place.mkdir(parents=True)
    for split in ("train", "test"):
        pyarrow.parquet.write_table(_table(split), place / f"{split}-00000-of-00001.parquet")
    return folder


def _converted(folder: Path) -> Path:
    """The branch refs/convert/parquet, with the training images in two files."""
    train = _table("train")
    parts = {"train/0000": train[:8], "train/0001": train[8:], "test/0000": _table("test")}
    for name, table in parts.items():
        file = folder / "cifar10" / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, file)
    return folder


def _saved_to_disk(folder: Path) -> Path:
    for split in ("train", "test"):
        (folder / split).mkdir()
        table = _table(split)
        with pa.ipc.new_stream(folder / split / "data-00000-of-00001.arrow", table.schema) as file:
            file.write_table(table)
    return folder


def _image_folders(folder: Path) -> Path:
    for split in ("train", "test"):
        images, codes = _batches(split)
        for name in NAMES_10:
            (folder / split / name).mkdir(parents=True)
        for at, (pixels, code) in enumerate(zip(images, codes, strict=True)):
            (folder / split / NAMES_10[code] / f"{at:05d}.png").write_bytes(_png(pixels))
    return folder


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "packed, pickled": _pickled,
    "a renamed file, binary": _one_binary_file,
    "unpacked, binary": _unpacked_binary,
    "torchvision": _torchvision,
    "the hub's cache": _hub,
    "converted to Parquet": _converted,
    "saved to disk": _saved_to_disk,
    "a folder for each class": _image_folders,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(layout: str, tmp_path: Path) -> None:
    data = LAYOUTS[layout](tmp_path)
    assert "cifar10" in present_sets(data)
    for split in ("train", "test"):
        images, codes = _batches(split)
        if layout == "a folder for each class":
            # The files of a class follow one another.
            order = np.argsort(codes, kind="stable")
            images, codes = images[order], np.array(codes)[order].tolist()
        found = read_split(data, "cifar10", split)
        np.testing.assert_array_equal(found.images, images)
        assert found.label.tolist() == codes
        assert found.classes == tuple(NAMES_10)


def test_both_data_sets_are_told_apart(tmp_path: Path) -> None:
    data = _torchvision(tmp_path)
    assert present_sets(data) == ("cifar10", "cifar100")
    fine = read_split(data, "cifar100", "test")
    assert (len(fine.label), len(fine.classes)) == (2, 100)
    assert find_copy(data / "cifar-100-python.tar.gz", "cifar10") is None


def test_a_copy_is_read_once_and_said_to_be_unofficial(tmp_path: Path) -> None:
    data = _one_binary_file(tmp_path)
    population = read_population(data, "cifar10", tmp_path / "cache")
    assert population.label.tolist() == _batches("train")[1]
    assert population.border.shape == (15, 3)
    assert not population.is_official
    assert len(list((tmp_path / "cache").glob("population-cifar10-*.npz"))) == 1
    done = write_figures(data, tmp_path / "out", only=["9"], runs=1)
    assert [figure.number for figure in done.figures] == ["9"]
    assert any("not the official" in note for note in done.notes)


def test_damaged_copies_are_named(tmp_path: Path) -> None:
    data = _converted(tmp_path)
    odd = pa.table({"img": [{"bytes": _png(np.zeros((8, 9, 3), np.uint8))}], "label": [0]})
    pyarrow.parquet.write_table(odd, data / "cifar10" / "train" / "0000.parquet")
    with refused(DataError, value=[9, 8], allowed=[32, 32]):
        read_split(data, "cifar10", "train")
    (data / "cifar10" / "test" / "0000.parquet").write_bytes(b"PAR1")
    with refused(DataError, path=str(data / "cifar10" / "test" / "0000.parquet")):
        present_sets(data)


def test_a_download_is_checked_and_only_fetches_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, data = tmp_path / "served", tmp_path / "data"
    served.mkdir()
    forms = []
    for form in cifar_files.DISTRIBUTIONS:
        if not form.pickled:
            members = members_10("binary") if form.data == "cifar-10" else members_100("binary")
            archive = pack(served / form.archive, members)
            forms.append(replace(form, md5=hashlib.md5(archive.read_bytes()).hexdigest()))
    monkeypatch.setattr(cifar_files, "ADDRESS", f"file://{served}/")
    # The archive is complete, but not the official one.
    with refused(DataError, allowed="c32a1d4ab5d03f1284b67883e8d87530"):
        download_sets(data, ["cifar10"])
    assert list(data.iterdir()) == []
    monkeypatch.setattr(cifar_files, "DISTRIBUTIONS", tuple(forms))
    monkeypatch.setattr(cifar_data, "DISTRIBUTIONS", tuple(forms))
    assert download_sets(data, ["cifar10"]) == ["cifar10"]
    assert download_sets(data) == ["cifar100"]
    assert download_sets(data) == []
    assert present_sets(data) == ("cifar10", "cifar100")
    with refused(ConfigError, option="--data"):
        download_sets(data / "cifar-10-binary.tar.gz")


def test_figures_without_images_need_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "out"), "--json"]
    assert run_paper(["figures", "--only", "3", *out]) == 0
    assert json.loads(capsys.readouterr().out)["figures"][0]["number"] == "3"
    for words in (["--only", "3,5"], ["--only", "3", "--download"]):
        assert run_paper(["figures", *words, *out]) == 2
        assert "--data" in json.loads(capsys.readouterr().out)["error"]["message"]
