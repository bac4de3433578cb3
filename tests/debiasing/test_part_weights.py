from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew
from parted_pools import BY_LABEL, STRATA, TILT, in_memory, make_frame, write_parts
from unskew import ConfigError, DataError, Pool, Target, Weights, bias

# Masses of 2 × 2 strata that follow the counts of the pool.
RAKED = (
    bias.Strata(["label", "side"]),
    Target.margins({"label": {"x": 0.7, "y": 0.3}, "side": {"left": 0.4, "right": 0.6}}),
)


@pytest.mark.parametrize(
    "case", [STRATA, RAKED, TILT, BY_LABEL], ids=["strata", "raked", "tilt", "by label"]
)
def test_totals_means_and_new_images_are_those_in_memory(tmp_path: Path, case: Any) -> None:
    frame = make_frame()
    frame["side"] = np.where(frame["z_1"] > 0.3, "left", "right")
    write_parts(tmp_path, frame)
    weights = unskew.debias(in_memory(frame), *case)
    streamed = unskew.debias(Pool.from_parquet(tmp_path, block_rows=800), *case, subsample=900)
    assert isinstance(streamed, Weights)
    assert streamed.ess == pytest.approx(weights.ess, rel=1e-9)
    share = np.bincount(weights.source, weights=weights.weight)
    index = [weights.names.index(name) for name in streamed.names]
    np.testing.assert_allclose(streamed.source_share, share[index], rtol=1e-8)
    mean, expected = streamed.mean("y"), weights.mean(frame["y"].to_numpy())
    assert mean.value == pytest.approx(expected.value, rel=1e-9)
    # Leverages are averages here, and of each image in memory: a relative difference of 1/n.
    assert mean.stderr == pytest.approx(expected.stderr, rel=2e-3)
    new = frame.iloc[:40]
    np.testing.assert_allclose(streamed.weigh(new), weights.weigh(new), rtol=1e-8)
    np.testing.assert_allclose(streamed.weigh(in_memory(new)), weights.weigh(new), rtol=1e-8)
    assert streamed.describe().family == weights.describe().family


def test_what_is_not_in_memory_points_to_files_and_to_the_subsample(tmp_path: Path) -> None:
    write_parts(tmp_path)
    weights = unskew.debias(Pool.from_parquet(tmp_path), *STRATA, subsample=900)
    for read in (lambda: weights.weight, lambda: weights.id, lambda: weights.sample_weight):
        with pytest.raises(DataError, match="to_parquet"):
            read()
    assert weights.n_sampled == 0
    assert 700 < weights.sampled.weight.size < 1400
    assert "1500 images in 3 parts" in repr(weights).replace(",", "")


def test_groups_widen_the_error_as_the_subsample_shows(tmp_path: Path) -> None:
    frame = make_frame()
    frame["source"] = np.repeat(["a", "b", "c"], 500)
    frame["group"] = np.arange(len(frame)) // 10
    frame["y"] = np.repeat(np.random.default_rng(3).normal(size=150), 10)
    write_parts(tmp_path, frame)
    weights = unskew.debias(Pool.from_parquet(tmp_path), *STRATA, subsample=1200)
    expected = unskew.debias(in_memory(frame), *STRATA).mean(frame["y"].to_numpy())
    mean = weights.mean("y")
    assert mean.value == pytest.approx(expected.value, rel=1e-9)
    assert mean.stderr == pytest.approx(expected.stderr, rel=0.25)


@pytest.mark.parametrize("column", ["no such column", "label"])
def test_a_mean_is_of_a_column_of_numbers(tmp_path: Path, column: str) -> None:
    write_parts(tmp_path)
    weights = unskew.debias(Pool.from_parquet(tmp_path), *STRATA, subsample=900)
    with pytest.raises(DataError) as raised:
        weights.mean(column)
    assert raised.value.facts["column"] == column
    with pytest.raises(ConfigError):
        weights.mean("y", "cross-fit")
