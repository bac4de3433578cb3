"""CIFAR as sheets: every image is read from its tile, and damaged copies are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.cifar_data import find_data, read_split
from paper.cifar_sheets import read_sheet
from raising import refused
from sheet_data import write_sheets
from unskew.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    root = tmp_path_factory.mktemp("data")
    return root, write_sheets(root / "cifar10", {"train": 2, "test": 1})


def test_every_image_is_read_from_its_tile(data: tuple[Path, dict[str, np.ndarray]]) -> None:
    root, made = data
    for split in ("train", "test"):
        sheets = read_split(root, "cifar10", split)
        np.testing.assert_array_equal(sheets.images, made[split])
        np.testing.assert_array_equal(sheets.label, np.load(root / "cifar10" / "labels.npz")[split])
        assert sheets.classes == tuple(f"class_{y}" for y in range(10))
        assert sheets.label.dtype == np.int64


def test_a_missing_sheet_and_a_damaged_one_are_named(
    data: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    source = data[0] / "cifar10"
    copied = tmp_path / "cifar10"
    copied.mkdir()
    for path in source.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    (copied / "train-001.webp").rename(copied / "elsewhere")
    with refused(DataError, path=str(copied), count=1, limit=2000):
        read_split(tmp_path, "cifar10", "train")
    (copied / "train-001.webp").write_bytes((copied / "elsewhere").read_bytes()[:1000])
    with refused(DataError, path=str(copied / "train-001.webp")):
        read_split(tmp_path, "cifar10", "train")
    Image.new("RGB", (640, 800)).save(copied / "train-001.webp", lossless=True)
    with refused(DataError, value=[640, 800], allowed=[1280, 800]):
        read_sheet(copied / "train-001.webp")
    (copied / "classes.txt").write_text("one\ntwo\n")
    with refused(DataError, value=9, count=2):
        read_split(tmp_path, "cifar10", "test")
    with refused(DataError, path=str(tmp_path), value="cifar100"):
        read_split(tmp_path, "cifar100", "train")


def test_a_named_folder_comes_first_then_the_variable_then_the_fallback(
    data: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named folder must have the data; the fallback may lack them."""
    monkeypatch.delenv("UNSKEW_DATA", raising=False)
    assert find_data() is None
    assert find_data(fallback=tmp_path) is None
    assert find_data(fallback=data[0]) == data[0]
    with refused(ConfigError, path=str(tmp_path)):
        find_data(tmp_path, fallback=data[0])
    monkeypatch.setenv("UNSKEW_DATA", str(data[0]))
    assert find_data() == data[0]
    assert find_data(fallback=tmp_path) == data[0]
