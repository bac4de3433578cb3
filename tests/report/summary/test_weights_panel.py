"""Weights and links as panels: plain NumPy says the same, and few images are never shown alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
from unskew.records import Overlap
from unskew.report.summary.record import Summary, WeightsPanel
from unskew.report.summary.weights_panel import show_overlap


@pytest.fixture(scope="module")
def panel(summary: Summary) -> WeightsPanel:
    assert summary.weights is not None
    return summary.weights


def test_quantiles_and_bins_are_those_of_numpy(
    panel: WeightsPanel, weights: unskew.Weights
) -> None:
    sample_n = weights.sample_weight
    for name, value in panel.quantiles.items():
        level = float(name.removesuffix("%")) / 100
        assert value == pytest.approx(np.quantile(sample_n, level), rel=1e-9)
    log_n = np.log10(sample_n[sample_n > 0])
    edges = np.array(panel.histogram.edges)
    assert edges[0] <= log_n.min() <= log_n.max() <= edges[-1]
    assert panel.zero_weights == np.sum(sample_n == 0)
    below = [np.sum(log_n < edge - 1e-9) for edge in edges[1:-1]]
    at_most = [np.sum(log_n <= edge + 1e-9) for edge in edges[1:-1]]
    # An edge may be a weight, up to rounding.
    for low, found, high in zip(
        below, np.cumsum([count or 0 for count in panel.histogram.count]), at_most, strict=False
    ):
        assert low <= found <= high


def test_concentration_is_the_share_of_the_heaviest(
    panel: WeightsPanel, weights: unskew.Weights
) -> None:
    falling = np.sort(weights.weight)[::-1]
    n = falling.size
    assert panel.concentration[0] == (0.0, 0.0)
    assert panel.concentration[-1] == (1.0, 1.0)
    for share, carried in panel.concentration[1:-1]:
        assert carried == pytest.approx(falling[: round(share * n)].sum(), abs=1e-9)
    assert list(panel.concentration) == sorted(panel.concentration)


def test_spreads_by_source_and_class_are_those_of_their_images(
    panel: WeightsPanel, pool: unskew.Pool, weights: unskew.Weights
) -> None:
    for spreads, column in ((panel.by_source, "source"), (panel.by_label, "label")):
        value_n = pool.frame[column].astype(str).to_numpy()
        assert {spread.name for spread in spreads} == set(value_n)
        for spread in spreads:
            own = weights.sample_weight[value_n == spread.name]
            assert spread.images == own.size
            assert (spread.low, spread.lower, spread.median, spread.upper, spread.high) == (
                pytest.approx(tuple(np.quantile(own, (0.05, 0.25, 0.5, 0.75, 0.95))), rel=1e-9)
            )
            assert spread.largest == pytest.approx(own.max(), rel=1e-9)


def test_aggregates_show_no_single_image() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(300))
    weights = strata_weights(pool)
    panel = summary_of(pool, weights, privacy="aggregate").weights
    assert panel is not None
    assert panel.largest_sample_weight is None
    # The heaviest 1% of 300 are three images.
    assert panel.top_percent_share is None
    assert panel.quantiles["1%"] is panel.quantiles["99%"] is None
    assert panel.quantiles["50%"] == pytest.approx(np.median(weights.sample_weight), rel=0.1)
    assert all(count is None or count == 0 or count >= 10 for count in panel.histogram.count)
    assert panel.histogram.by == {}
    for share, _ in panel.concentration[1:-1]:
        assert 10 <= round(share * 300) <= 290
    assert all(spread.largest is None for spread in (*panel.by_source, *panel.by_label))


def _overlap(size: int, **further: Any) -> Overlap:
    omega = np.ones((20 * size, size))
    source = np.repeat([f"s{k:02}" for k in range(size)], 20)
    found = unskew.check_overlap(omega, source)
    return replace(found, **further)


def test_counts_of_links_are_rounded_to_tens_and_small_ones_withheld() -> None:
    overlap = _overlap(
        3,
        link_count=np.array([[34, 7, 0], [26, 10, 9], [15, 44, 60]]),
        weakest_link=("s00", "s01"),
        weakest_count=7,
    )
    open_panel, _ = show_overlap(overlap, 60, np.full(3, 20), np.zeros(3, bool), False)
    assert open_panel.link_count == ((34, 7, 0), (26, 10, 9), (15, 44, 60))
    assert open_panel.weakest_count == 7
    panel, note = show_overlap(overlap, 60, np.full(3, 20), np.zeros(3, bool), True)
    assert panel.link_count == ((30, None, 0), (30, 10, None), (20, 40, 60))
    assert panel.weakest_count is panel.epsilon is None
    assert note == ""
    hidden, _ = show_overlap(overlap, 60, np.full(3, 20), np.array([True, False, False]), True)
    assert hidden.link_count == ((None, None, None), (None, 10, None), (None, 40, 60))


def test_of_many_sources_the_weakest_link_and_the_largest_are_shown() -> None:
    size_k = np.arange(70, 0, -1)
    overlap = _overlap(70, weakest_link=("s66", "s68"), weakest_count=20)
    panel, note = show_overlap(overlap, 1400, size_k, np.zeros(70, bool), False)
    assert panel.names == (*(f"s{k:02}" for k in range(58)), "s66", "s68")
    assert "60 of 70" in note
    assert panel.link_count is not None
    assert len(panel.link_count) == len(panel.link_count[0]) == 60


def test_a_sparse_table_is_shown_like_a_dense_one() -> None:
    table = np.array([[34.0, 0.0, 3.0], [0.0, 10.0, 9.0], [15.0, 44.0, 60.0]])
    panels = [
        show_overlap(_overlap(3, link_count=given), 60, np.full(3, 20), np.zeros(3, bool), False)[0]
        for given in (table, sp.csr_array(table))
    ]
    assert panels[0].link_count == panels[1].link_count == tuple(map(tuple, table.tolist()))
    none, _ = show_overlap(
        _overlap(3, link_count=None), 60, np.full(3, 20), np.zeros(3, bool), False
    )
    assert none.link_count is None
