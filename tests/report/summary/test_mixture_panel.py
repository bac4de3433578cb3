"""In which ratio to mix the sources: shares of the weights, and what they miss."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from summary_pools import strata_weights, summary_of
from unskew.report.summary.mixture_panel import even_weights, share_error


def test_the_bias_of_one_number_per_source_by_hand() -> None:
    """North: 80 cats, 20 dogs; south: 30 and 30; the target has 30% cats."""
    label = ["cat"] * 80 + ["dog"] * 20 + ["cat"] * 30 + ["dog"] * 30
    source = ["north"] * 100 + ["south"] * 60
    frame = pd.DataFrame({"id": range(160), "source": source, "label": label}).astype({"id": str})
    pool = unskew.Pool.from_frame(frame)
    panel = summary_of(pool, strata_weights(pool)).mixture
    assert panel is not None
    north = 0.3 * 80 / 110 + 0.7 * 20 / 50
    assert [row.weighted for row in panel.sources] == pytest.approx([north, 1 - north])
    assert [row.pool for row in panel.sources] == pytest.approx([100 / 160, 60 / 160])
    left = dict(panel.bias_left)
    cats = north * 0.8 + (1 - north) * 0.5
    assert left["the strata of the target"] == pytest.approx(cats - 0.3)
    assert left["the distribution of label"] == pytest.approx(cats - 0.3)
    # Nobody is further off than the images themselves.
    assert left["any group of images"] >= left["the strata of the target"]
    shares = {(row.source, row.label): row.weighted for row in panel.classes}
    assert shares["north", "cat"] == pytest.approx(0.3 * 80 / 110)
    assert sum(shares.values()) == pytest.approx(1)
    assert max(abs(row.weighted - row.pool) for row in panel.classes) == pytest.approx(
        abs(panel.classes[0].weighted - panel.classes[0].pool)
    )


def test_a_private_page_has_no_table_of_sources_by_class() -> None:
    rng = np.random.default_rng(0)
    pool = unskew.Pool.from_arrays(
        np.repeat(["north", "south"], 100), label=rng.choice(["cat", "dog"], 200)
    )
    panel = summary_of(pool, strata_weights(pool), privacy="aggregate").mixture
    assert panel is not None
    assert panel.classes == ()


def test_weights_that_are_even_in_each_cell_leave_nothing() -> None:
    weight_n = np.array([0.1, 0.1, 0.3, 0.3, 0.2])
    cell_n = np.array([0, 0, 1, 1, -1])
    assert even_weights(weight_n, cell_n).tolist() == pytest.approx([0.1, 0.1, 0.3, 0.3, 0.0])
    # What is in no cell is missed altogether.
    assert share_error(weight_n, even_weights(weight_n, cell_n)) == pytest.approx(0.1)
