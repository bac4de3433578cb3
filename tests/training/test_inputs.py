"""What a training reads: splits by name, settings for few images, the numbers of a probe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from raising import refused
from training_runs import FEW
from unskew import DataError, Pool
from unskew.cli.app import run_command
from unskew.training.inputs import Splits, find_splits

Captured = pytest.CaptureFixture[str]


def test_splits_are_known_by_their_names() -> None:
    def pool(*names: str) -> Pool:
        return Pool.from_arrays(["a"] * len(names), label=list(names), split=list(names))

    assert find_splits(pool("test", "val", "Train")) == Splits("Train", "val", "test")
    assert find_splits(pool("train", "test")).held_out == "test"
    with refused(DataError, column="split", levels=["a", "test"]):
        find_splits(pool("a", "test"))
    with refused(DataError, column="split", levels=["train", "other"]):
        find_splits(pool("train", "other"))


def test_few_images_get_smaller_batches_and_more_epochs_unless_these_are_set() -> None:
    from unskew.training.inputs import _for_few_images

    assert _for_few_images(50_000, {}) == {"batch": 512, "epochs": 4}
    assert _for_few_images(1105, {}) == {"batch": 32, "epochs": 12}
    assert _for_few_images(40, {}) == {"batch": 32, "epochs": 40}
    assert _for_few_images(40, {"epochs": 1, "batch": 512}) == {"batch": 512, "epochs": 1}


def test_a_probe_names_the_numbers_it_leaves_out_and_mentions_no_epoch(
    tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 120)
    table = pd.DataFrame(
        {
            "id": [f"p{at}" for at in range(120)],
            "label": label,
            "source": ["a", "b"] * 60,
            "age": rng.normal(50 + label, 9),
        }
    )
    table.assign(height=np.where(table.index == 3, np.nan, 1.7)).to_csv(
        tmp_path / "table.csv", index=False
    )
    (tmp_path / "run.toml").write_text(
        '[sources]\nmanifest = "table.csv"\nimages = false\nsource = "source"\nlabel = '
        '"label"\n[target]\nuniform = "label"\n'
        '[bias]\nfamily = "strata"\nby = ["label"]\n[learn]\npreset = "probe"\n'
    )
    assert (
        run_command(["train", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), *FEW]) == 0
    )
    shown = capsys.readouterr()
    assert "height (1 of 120 images have none)" in shown.err
    assert "chose the epoch" not in shown.out + (tmp_path / "out" / "model-card.md").read_text()
