"""Classes that train cannot teach: splits are changed with words, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from raising import refused
from run_data import error_of
from training_runs import FEW, write_training_run
from unskew import Pool
from unskew.errors import DataError
from unskew.training.learnable import check_learnable, teach_every_class

Captured = pytest.CaptureFixture[str]


def _pool(label: str, group: str, split: str) -> Pool:
    names = {"t": "train", "v": "validation"}
    pool = Pool.from_arrays(["s"] * len(label), label=list(label), group=list(group))
    return pool.with_columns({"split": [names[sign] for sign in split]})


def test_a_class_that_train_lacks_is_moved_there_with_all_that_belongs_to_it() -> None:
    #             class c has the groups 4 (two images) and 5 (three): the smaller one is moved.
    pool, words = teach_every_class(
        _pool("aabbbcccccb", "11223445552", "tttttvvvvvv"), "train", "validation"
    )
    assert "c" in words
    frame = pool.frame
    assert frame["split"][frame["group"] == "4"].unique().tolist() == ["train"]
    assert frame["split"][frame["group"] == "5"].unique().tolist() == ["validation"]
    same, nothing = teach_every_class(_pool("abab", "1234", "ttvv"), "train", "validation")
    assert (same.frame["split"].tolist(), nothing) == (["train"] * 2 + ["validation"] * 2, "")


def test_persons_that_stay_together_leave_nothing_to_judge() -> None:
    persons = _pool("aabbcc", "112233", "ttttvv")
    with refused(DataError, column="label", count=1, levels=["c"]):
        teach_every_class(persons, "train", "validation")
    label = np.array([0, 0, 1, 1])
    names = ("train", "test")
    check_learnable(persons, "ab", label, np.array([0, 2]), np.array([1]), names)
    with refused(DataError, column="label", levels=["b"], count=1):
        check_learnable(persons, "ab", label, np.array([0, 1]), np.array([2, 3]), names)


def _split_by_hand(folder: Path, held_out: dict[str, list[str]]) -> Path:
    """A table of splits that hands these classes of these sources to validation."""
    configuration = write_training_run(folder)
    rows = ["id,split"]
    for source in ("day", "night"):
        for image in sorted((folder / source).rglob("*.png")):
            is_held_out = image.parent.name in held_out[source]
            name = image.relative_to(folder).as_posix()
            rows.append(f"{name},{'validation' if is_held_out else 'train'}")
    (folder / "splits.csv").write_text("\n".join(rows) + "\n")
    text = configuration.read_text().replace(
        "[sources]", '[sources]\nsplit = { file = "splits.csv" }'
    )
    configuration.write_text(text)
    return configuration


def test_splits_without_a_common_class_are_refused_before_the_training(
    tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("torch")
    configuration = _split_by_hand(tmp_path, {"day": ["disc"], "night": ["disc"]})
    out = tmp_path / "out"
    error = error_of(["train", str(configuration), "-o", str(out), *FEW], capsys)
    assert (error["exit_code"], error["facts"]["levels"]) == (4, ["disc"])
    assert not (out / "metrics.json").exists()
