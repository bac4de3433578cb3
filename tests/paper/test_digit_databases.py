"""Figure 1: folders of the user, and the two kinds of bias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper import digit_databases as digits
from paper.experiment import Folders
from raising import refused
from unskew.errors import ConfigError, DataError


def _write(folder: Path, inverted: bool) -> Path:
    """Two classes, a bar on the left or on the right, dark on bright or the reverse."""
    rng = np.random.default_rng(0)
    for at, name in enumerate(("left", "right")):
        (folder / name).mkdir(parents=True)
        for number in range(60):
            pixels = rng.integers(0, 120, (20, 20)).astype(np.uint8)
            pixels[:, 10 * at : 10 * at + 10] += 60
            Image.fromarray(255 - pixels if inverted else pixels).save(
                folder / name / f"{number}.png"
            )
    return folder


def test_weights_mend_selection_and_not_another_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "N_TRAIN", 200)
    folders = {
        "bright": _write(tmp_path / "a", inverted=False),
        "dark": _write(tmp_path / "b", inverted=True),
    }
    assert digits.parse_folders([f"{name}={path}" for name, path in folders.items()]) == folders
    lines = "\n".join(f"{name}={path}" for name, path in folders.items())
    rows = digits.kinds_of_bias({"folders": lines, "runs": 1}, Folders(None, tmp_path))
    found = {
        (row["kind"], row["source"], row["arm"]): row["accuracy"] for row in rows["accuracies"]
    }
    assert found["selection", "bright", "weights"] >= found["selection", "bright", "naive"]
    assert found["looks", "bright", "unbiased"] > 90
    assert found["looks", "bright", "weights"] < 60


def test_folders_that_are_none_are_named(tmp_path: Path) -> None:
    for word in ("mine", f"mine={tmp_path / 'nowhere'}"):
        with refused(ConfigError, option="--digits", value=word):
            digits.parse_folders([word])
    with refused(DataError, path=str(tmp_path), count=0):
        digits.read_digits("mine", str(tmp_path))
    assert digits.names_of_databases({"mine": tmp_path})[0] == "digits"
