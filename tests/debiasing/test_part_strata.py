from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from parted_pools import in_memory, make_frame, write_parts
from unskew import CoverageError, Pool, Target, bias


def test_raked_margins_bins_and_levels_outside_are_as_in_memory(tmp_path: Path) -> None:
    frame = make_frame()
    frame.loc[:40, "label"] = "odd"
    write_parts(tmp_path, frame)
    target = Target.margins(
        {"label": {"x": 0.6, "y": 0.4}, "z_0": {"[-9, 0)": 0.3, "[0, 9]": 0.7}},
        bins={"z_0": [-9, 0, 9]},
        outside={"label": {"odd": "drop"}},
    )
    model = bias.Strata(["label", "z_0"])
    weights = unskew.debias(in_memory(frame), model, target)
    streamed = unskew.debias(Pool.from_parquet(tmp_path), model, target, subsample=900)
    assert streamed.passes == 1
    assert streamed.ess == pytest.approx(weights.ess, rel=1e-9)
    assert streamed.left_out == {"outside the target": 41}
    assert streamed.overlap.message == weights.overlap.message
    assert weights.estimation is not None
    assert streamed.describe().notes == weights.describe().notes[: len(streamed.describe().notes)]


def test_a_stratum_without_images_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path)
    target = Target.table(pd.DataFrame({"label": ["x", "y", "w"], "mass": [0.5, 0.4, 0.1]}))
    with pytest.raises(CoverageError) as raised:
        unskew.debias(Pool.from_parquet(tmp_path), bias.Strata("label"), target, subsample=900)
    assert raised.value.facts["levels"] == ["label = w"]


def test_a_stratum_of_one_image_is_judged_as_in_memory(tmp_path: Path) -> None:
    frame = make_frame()
    frame.loc[5, "label"] = "lone"
    write_parts(tmp_path, frame)
    target = Target.margins({"label": {"x": 0.5, "y": 0.4, "lone": 0.1}})
    with pytest.warns(unskew.WeakOverlapWarning):
        weights = unskew.debias(in_memory(frame), bias.Strata("label"), target)
    pool = Pool.from_parquet(tmp_path)
    with pytest.warns(unskew.WeakOverlapWarning):
        streamed = unskew.debias(pool, bias.Strata("label"), target, subsample=900)
    assert streamed.overlap.verdict == weights.overlap.verdict == "weak"
    assert streamed.overlap.lone == pytest.approx(weights.overlap.lone, rel=1e-9)
    np.testing.assert_array_equal(
        streamed.overlap.link_count.sum(), weights.overlap.link_count.sum()
    )
