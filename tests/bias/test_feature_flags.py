"""Features that identify the source, and labels that are codes of classes, come with a warning."""

import numpy as np
import pandas as pd
import pytest

from unskew import Pool, debias
from unskew.bias import Box, Propensity, Tilt
from unskew.bias.feature_flags import flag_identifiers
from unskew.errors import UnskewWarning

rng = np.random.default_rng(0)
SOURCE = rng.choice(["a", "b"], 200)
X = rng.normal(size=200) + (SOURCE == "a")


def test_a_feature_that_identifies_the_source_is_flagged_by_name_and_no_other():
    code = (SOURCE == "a").astype(np.int64)
    frame = pd.DataFrame(
        {"x": X, "mark": code + 0.01 * rng.normal(size=200), "file": np.where(code, "png", "jpg")}
    )
    with pytest.warns(UnskewWarning, match="identifies the source") as caught:
        notes = flag_identifiers(frame, ["x", "mark", "file"], code, ["b", "a"])
    assert len(caught) == 2
    assert [note.split()[0] for note in notes] == ["mark", "file"]


def test_a_large_table_is_screened_on_some_rows_and_flagged_on_all() -> None:
    rng = np.random.default_rng(0)
    source = rng.integers(2, size=70_000)
    frame = pd.DataFrame(
        {"x": rng.normal(size=source.size), "mark": source + 0.1 * rng.uniform(size=source.size)}
    )
    with pytest.warns(UnskewWarning, match="identifies the source") as caught:
        notes = flag_identifiers(frame, ["x", "mark"], source, ["b", "a"])
    assert len(notes) == len(caught) == 1
    assert notes[0].startswith("mark identifies the source of 100.0%")


def test_a_number_that_identifies_one_of_many_sources_is_flagged_though_its_values_are_spread() -> (
    None
):
    rng = np.random.default_rng(1)
    source = rng.integers(10, size=5000)
    frame = pd.DataFrame(
        {"x": rng.normal(size=source.size), "stamp": source + 0.9 * rng.uniform(size=source.size)}
    )
    with pytest.warns(UnskewWarning, match="stamp identifies the source of (100|99)") as caught:
        flag_identifiers(frame, ["x", "stamp"], source, [f"s{k}" for k in range(10)])
    assert len(caught) == 1


def test_a_label_of_a_few_whole_numbers_is_asked_about():
    label = np.repeat([0, 1, 2, 1], 50)
    pool = Pool.from_arrays(SOURCE, label=label)
    for model in (
        Tilt(["label"], reference="a"),
        Propensity(["label"], reference="a"),
        Box(["label"]),
    ):
        with pytest.warns(
            UnskewWarning,
            match=r"3 whole numbers.*astype\(str\)",
        ):
            assert any("3 whole numbers" in note for note in debias(pool, model).describe().notes)
        debias(Pool.from_arrays(SOURCE, label=label.astype(str)), model)
        debias(Pool.from_arrays(SOURCE, label=np.minimum(label, 1)), model)
