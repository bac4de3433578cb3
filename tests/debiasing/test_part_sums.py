from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unskew
from parted_pools import KNOWN, TILT, make_frame, write_parts
from unskew import DataError, Pool


def test_the_solution_has_the_identities_of_one(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    weights = unskew.debias(Pool.from_parquet(tmp_path), *KNOWN, subsample=900)
    omega = frame[[f"in_{name}" for name in weights.names]].to_numpy()
    weight = weights.weigh(frame) / len(frame)
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(weight @ omega, weights.normalizer, rtol=1e-10)
    share = weights.solution.share
    np.testing.assert_allclose(
        len(frame) * weight * (omega * share / weights.normalizer).sum(axis=1), 1.0, rtol=1e-10
    )
    assert weights.passes <= 7


def test_an_image_that_its_source_cannot_select_is_named_with_its_part(tmp_path: Path) -> None:
    frame = make_frame()
    row = int(np.flatnonzero(frame["source"] == "b")[-1])
    frame.loc[row, "in_b"] = 0.0
    write_parts(tmp_path, frame)
    with pytest.raises(DataError) as raised:
        unskew.debias(Pool.from_parquet(tmp_path), *KNOWN, subsample=900)
    assert raised.value.facts["source"] == "b"


def test_a_missing_feature_is_an_error(tmp_path: Path) -> None:
    frame = make_frame()
    frame.loc[1490, "z_1"] = np.nan
    write_parts(tmp_path, frame)
    with pytest.raises(DataError, match="z_1"):
        unskew.debias(Pool.from_parquet(tmp_path), *TILT, subsample=900)
