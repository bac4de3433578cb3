"""Weights over parts are those in memory: by any engine, in any blocks, from any subsample."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import unskew
from parted_pools import (
    BOX,
    BY_LABEL,
    KNOWN,
    PRODUCT,
    STRATA,
    TILT,
    in_memory,
    make_frame,
    read_parts,
    write_parts,
)
from unskew import ConfigError, OverlapError, Pool, Target, bias


def weights_over_parts(folder: Path, case: Any, **options: Any) -> pd.DataFrame:
    roles = {name: options.pop(name) for name in ("block_rows", "design_weight") if name in options}
    weights = unskew.debias(Pool.from_parquet(folder / "pool", **roles), *case, **options)
    weights.to_parquet(folder / "weights")
    weights.close()
    return read_parts(folder / "weights")


@pytest.mark.parametrize(
    "case",
    [STRATA, KNOWN, TILT, PRODUCT, BOX, BY_LABEL],
    ids=["strata", "known", "tilt", "product", "box", "by label"],
)
def test_they_equal_those_in_memory(tmp_path: Path, case: Any) -> None:
    frame = write_parts(tmp_path / "pool")
    table = weights_over_parts(tmp_path, case, subsample=900, block_rows=700)
    weights = unskew.debias(in_memory(frame), *case)
    assert table["id"].tolist() == frame["id"].tolist()
    # The ridge of 1e-6 of a tilt is on features as the subsample scales them; it matters more
    # where strata share the images.
    rtol = 1e-8 if case is BY_LABEL else 1e-10 if case in (STRATA, KNOWN) else 1e-9
    np.testing.assert_allclose(table["weight"], weights.weight, rtol=rtol)


def test_up_to_the_subsample_they_are_those_in_memory_for_every_family(tmp_path: Path) -> None:
    frame = write_parts(tmp_path / "pool")
    case = bias.Propensity(["z"], folds=2), Target.source("a")
    table = weights_over_parts(tmp_path, case, block_rows=700)
    np.testing.assert_allclose(
        table["weight"], unskew.debias(in_memory(frame), *case).weight, rtol=1e-10
    )


@pytest.mark.parametrize(
    "case",
    [
        (bias.SoftBox(["z_0"]), None),
        (bias.Box(["z_0"], quantile=0.05), None),
        (bias.Propensity(["z"], classifier=GaussianNB(), folds=2), Target.source("a")),
    ],
    ids=["soft box", "quantiles", "classifier"],
)
def test_a_model_of_the_subsample_is_solved_over_all_images(tmp_path: Path, case: Any) -> None:
    frame = write_parts(tmp_path / "pool")
    weights = unskew.debias(Pool.from_parquet(tmp_path / "pool"), *case, subsample=900)
    weights.to_parquet(tmp_path / "weights")
    omega = sum(factor.log_omega(frame) for factor in weights.fit.weigher.known)
    code = [weights.names.index(name) for name in frame["source"]]
    inside = np.isfinite(omega[np.arange(len(frame)), code])
    kept = in_memory(frame[inside].reset_index(drop=True))
    expected = unskew.debias(kept, bias.Known(omega[inside], log=True))
    weight = read_parts(tmp_path / "weights")["weight"].to_numpy()
    np.testing.assert_allclose(weight[inside], expected.weight, rtol=1e-10)
    assert not weight[~inside].any()
    assert sum(weights.left_out.values()) == np.count_nonzero(~inside)
    # The fit's own noise comes on top.
    known = expected.mean(kept.frame["y"].to_numpy())
    assert weights.mean("y").value == pytest.approx(known.value, rel=1e-10)
    assert weights.mean("y").stderr >= known.stderr * (1 - 1e-9)
    assert "fitted to a subsample" in str(weights.describe())


def test_shares_of_classes_are_estimated_on_the_subsample(tmp_path: Path) -> None:
    frame = write_parts(tmp_path / "pool")
    sample = frame.iloc[::5][["id", "z_0", "z_1"]].assign(source="t")
    case = bias.ClassShift(["z"]), Target.sample(Pool.from_frame(sample, id="id"))
    table = weights_over_parts(tmp_path, case, subsample=900)
    share = table["weight"].groupby(frame["label"]).sum()
    expected = unskew.debias(in_memory(frame), *case)
    assert share["x"] == pytest.approx(expected.weight[frame["label"] == "x"].sum(), abs=0.05)


@pytest.mark.parametrize("case", [STRATA, TILT, BY_LABEL], ids=["strata", "tilt", "by label"])
def test_with_design_weights_too(tmp_path: Path, case: Any) -> None:
    frame = make_frame()
    frame.loc[::7, "drawn"] = 0.0
    write_parts(tmp_path / "pool", frame)
    table = weights_over_parts(tmp_path, case, subsample=900, design_weight="drawn")
    weights = unskew.debias(in_memory(frame, design_weight="drawn"), *case)
    np.testing.assert_allclose(table["weight"], weights.weight, rtol=1e-8, atol=1e-15)


def test_with_a_sample_of_the_target(tmp_path: Path) -> None:
    frame = write_parts(tmp_path / "pool")
    rng = np.random.default_rng(1)
    sample = pd.DataFrame({"id": np.arange(200), "source": "t", "z_0": rng.normal(size=200)})
    case = bias.Tilt(["z_0"]), Target.sample(Pool.from_frame(sample, id="id"))
    table = weights_over_parts(tmp_path, case, subsample=900, check_sample=False)
    weights = unskew.debias(in_memory(frame), *case, check_sample=False)
    np.testing.assert_allclose(table["weight"], weights.weight, rtol=1e-9)


def test_a_part_a_thousand_times_larger_and_one_without_rows_change_nothing(tmp_path: Path) -> None:
    frame = make_frame(2002)
    (tmp_path / "pool").mkdir()
    for at, rows in enumerate((slice(0, 2), slice(2, 2002), slice(0, 0))):
        frame.iloc[rows].to_parquet(tmp_path / "pool" / f"part-{at}.parquet", index=False)
    table = weights_over_parts(tmp_path, STRATA, subsample=900, block_rows=300)
    weights = unskew.debias(in_memory(frame), *STRATA)
    np.testing.assert_allclose(table["weight"], weights.weight, rtol=1e-10)
    assert len(read_parts(tmp_path / "weights")) == 2002


def test_engines_blocks_and_workers_make_no_difference(tmp_path: Path) -> None:
    write_parts(tmp_path / "pool")
    base = weights_over_parts(tmp_path, TILT, subsample=900)["weight"]
    with ThreadPoolExecutor(3) as pool:
        for engine, block_rows in (("local", 300), (pool, 1000)):
            other = weights_over_parts(
                tmp_path, TILT, subsample=900, engine=engine, block_rows=block_rows
            )
            np.testing.assert_allclose(other["weight"], base, rtol=1e-10)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (bias.Known(np.ones((1500, 3))), None),
        (bias.Tilt(["z_0"]), Target.source("a", holdout=0.5)),
        (bias.Strata("label"), Target.source("a")),
    ],
)
def test_what_cannot_be_streamed_says_so_and_works_up_to_the_subsample(
    tmp_path: Path, model: Any, target: Any
) -> None:
    write_parts(tmp_path)
    with pytest.raises(ConfigError, match="parts"):
        unskew.debias(Pool.from_parquet(tmp_path), model, target, subsample=900)


def test_a_link_that_the_subsample_misses_is_no_verdict_on_all_images(tmp_path: Path) -> None:
    frame = make_frame()
    frame["in_b"] = (frame["source"] == "b").astype(float)
    write_parts(tmp_path, frame)
    with pytest.raises(OverlapError, match="larger subsample"):
        unskew.debias(Pool.from_parquet(tmp_path), *KNOWN, subsample=900)


def test_several_targets_are_compared_in_memory(tmp_path: Path) -> None:
    write_parts(tmp_path)
    with pytest.raises(ConfigError, match="sample"):
        unskew.debias_targets(Pool.from_parquet(tmp_path), STRATA[0], {"one": STRATA[1]})
