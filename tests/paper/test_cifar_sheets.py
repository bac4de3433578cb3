"""CIFAR as sheets: every image in its place, and what a damaged copy is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.cifar_sheets import find_data, read_sheet, read_sheets
from sheet_data import write_sheets
from unskew.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    root = tmp_path_factory.mktemp("data")
    return root, write_sheets(root / "cifar10", {"train": 2, "test": 1})


def test_every_image_is_read_from_its_tile(data: tuple[Path, dict[str, np.ndarray]]) -> None:
    root, made = data
    for split in ("train", "test"):
        found = read_sheets(root, "cifar10", split)
        np.testing.assert_array_equal(found.images, made[split])
        np.testing.assert_array_equal(found.label, np.load(root / "cifar10" / "labels.npz")[split])
        assert found.classes == tuple(f"class_{y}" for y in range(10))
        assert found.label.dtype == np.int64


def test_a_missing_sheet_and_a_damaged_one_are_named(
    data: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    source = data[0] / "cifar10"
    copied = tmp_path / "cifar10"
    copied.mkdir()
    for path in source.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    (copied / "train-001.webp").rename(copied / "elsewhere")
    with pytest.raises(DataError, match="2000 labels of train images but 1 sheets of 1000"):
        read_sheets(tmp_path, "cifar10", "train")
    (copied / "train-001.webp").write_bytes((copied / "elsewhere").read_bytes()[:1000])
    with pytest.raises(DataError, match=r"train-001\.webp cannot be read"):
        read_sheets(tmp_path, "cifar10", "train")
    Image.new("RGB", (640, 800)).save(copied / "train-001.webp", lossless=True)
    with pytest.raises(DataError, match="640 × 800 pixels; a sheet has 1280 × 800"):
        read_sheet(copied / "train-001.webp")
    (copied / "classes.txt").write_text("one\ntwo\n")
    with pytest.raises(DataError, match="labels up to 9 and names of 2 classes"):
        read_sheets(tmp_path, "cifar10", "test")
    with pytest.raises(DataError, match=r"no labels\.npz"):
        read_sheets(tmp_path, "cifar100", "train")


def test_where_the_data_are(
    data: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named folders come first and must hold the data; a guess may be wrong."""
    monkeypatch.delenv("UNSKEW_DATA", raising=False)
    assert find_data() is None
    assert find_data(fallback=tmp_path) is None
    assert find_data(fallback=data[0]) == data[0]
    with pytest.raises(ConfigError, match="holds neither"):
        find_data(tmp_path, fallback=data[0])
    monkeypatch.setenv("UNSKEW_DATA", str(data[0]))
    assert find_data() == data[0]
    assert find_data(fallback=tmp_path) == data[0]
