"""Cells of nearly one weight, and the shares that make them the target again."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from raising import refused
from unskew.errors import ConfigError
from unskew.report.summary.mixture_panel import even_weights, share_error
from unskew.runs.export_mixture import SPREAD, cut_cells

RNG = np.random.default_rng(0)


def _drawn(n: int = 400, n_sources: int = 3) -> tuple[np.ndarray, np.ndarray]:
    weight = RNG.lognormal(sigma=1.0, size=n) * (RNG.random(n) > 0.1)
    return weight / weight.sum(), RNG.integers(0, n_sources, n)


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_a_cell_is_of_one_source_and_nearly_one_weight(seed: int, n_sources: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    weight_n = np.exp(rng.normal(scale=2.0, size=n)) * (rng.random(n) > 0.3)
    weight_n[0] = 1.0
    source_n = rng.integers(0, n_sources, n)
    cell_n = cut_cells(weight_n, source_n)
    assert np.array_equal(cell_n < 0, weight_n == 0)
    assert sorted(set(cell_n[cell_n >= 0])) == list(range(cell_n.max() + 1))
    for cell in range(cell_n.max() + 1):
        own = cell_n == cell
        assert len(set(source_n[own])) == 1
        assert weight_n[own].max() <= weight_n[own].min() * (1 + SPREAD) * (1 + 1e-9)
    # Fewest cells: no two neighbours of a source would fit into one.
    for source in set(source_n[weight_n > 0]):
        cells = set(cell_n[source_n == source]) - {-1}
        low = sorted(weight_n[cell_n == cell].min() for cell in cells)
        assert all(later > first * (1 + SPREAD) for first, later in itertools.pairwise(low))


def test_fewer_cells_leave_more_bias_down_to_that_of_one_number_per_source() -> None:
    weight_n, source_n = _drawn()

    def left(most: int | None) -> float:
        cell_n = cut_cells(weight_n, source_n, most=most)
        assert most is None or cell_n.max() + 1 <= most
        return share_error(weight_n, even_weights(weight_n, cell_n))

    # A mean is within 5% of each of its weights, so cells leave less than 2.5% in all.
    assert left(None) < SPREAD / 2
    biases = [left(most) for most in (200, 40, 12, 6, 3)]
    assert biases == sorted(biases)
    positive = np.where(weight_n > 0, source_n, -1)
    assert biases[-1] == pytest.approx(share_error(weight_n, even_weights(weight_n, positive)))
    with refused(ConfigError, option="--cells", value=2, limit=3):
        cut_cells(weight_n, source_n, most=2)


def test_two_well_separated_weights_are_the_two_cells_of_a_source() -> None:
    weight_n = np.array([1.0, 1.1, 5.0, 5.2, 1.05, 4.9])
    assert cut_cells(weight_n, np.zeros(6, dtype=np.int64), most=2).tolist() == [0, 0, 1, 1, 0, 1]


def _table(tmp_path: Path) -> pd.DataFrame:
    """Two sources whose classes are mixed in other ratios than the target's."""
    label = ["cat"] * 80 + ["dog"] * 20 + ["cat"] * 30 + ["dog"] * 30
    pool = unskew.Pool.from_arrays(["=north"] * 100 + ["south"] * 60, label=label)
    target = unskew.Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
    weights = unskew.weigh_splits(pool, unskew.bias.Strata("label"), target)
    unskew.write_weights_table(pool, weights.frame(), tmp_path / "weights.parquet")
    return unskew.read_weights_table(tmp_path / "weights.parquet")


def test_mixture_json_has_the_shares_of_cells_that_are_listed(tmp_path: Path) -> None:
    table = _table(tmp_path)
    written = unskew.export_weights(table, "mixture", tmp_path / "mixture")
    record = json.loads((tmp_path / "mixture/mixture.json").read_text())["all"]
    # By hand: 110 cats share ½, 50 dogs share ½.
    shares = {"=north": [80 / 220, 20 / 100], "south": [30 / 220, 30 / 100]}
    assert [cell["source"] for cell in record["cells"]] == ["=north", "=north", "south", "south"]
    expected = [share for both in shares.values() for share in both]
    np.testing.assert_allclose([cell["share"] for cell in record["cells"]], expected)
    assert record["bias_left"] == pytest.approx(0, abs=1e-12)
    for spelling in (
        record["tools"]["webdataset"]["RandomMix"]["probs"],
        record["tools"]["datasets"]["interleave_datasets"]["probabilities"],
        [one["proportion"] for one in record["tools"]["mosaicml_streaming"]["Stream"]],
        list(record["tools"]["torchdata"]["MultiNodeWeightedSampler"]["weights"].values()),
        record["tools"]["litdata"]["CombinedStreamingDataset"]["weights"],
    ):
        np.testing.assert_allclose(spelling, expected)
    np.testing.assert_allclose(record["tools"]["repeat"]["factor"], [1, 2.2, 1, 2.2])
    assert record["tools"]["repeat"]["times"] == [1, 2, 1, 2]
    # One number per source: north 0.5636 of it with 80% cats, south 0.4364 with half of each.
    whole = record["one_number_per_source"]
    north = sum(shares["=north"])
    left = abs(north * 0.8 + (1 - north) * 0.5 - 0.5)
    assert whole["bias_left"]["the distribution of label"] == pytest.approx(left)
    assert whole["today"] == [100 / 160, 60 / 160]
    listed = [
        row["id"]
        for cell in record["cells"]
        for row in csv.DictReader((tmp_path / "mixture" / cell["list"]).read_text().splitlines())
    ]
    assert sorted(listed) == sorted(map(str, table["id"]))
    assert any("one number per source" in note for note in written.notes)


def test_cells_belong_to_mixture(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with refused(ConfigError, option="--cells", value=4):
        unskew.export_weights(table, "csv", tmp_path / "weights.csv", cells=4)
    unskew.export_weights(table, "mixture", tmp_path / "few", cells=2)
    record = json.loads((tmp_path / "few/mixture.json").read_text())["all"]
    whole = record["one_number_per_source"]
    assert record["bias_left"] == pytest.approx(whole["bias_left"]["any group of images"])
