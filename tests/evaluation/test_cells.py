"""Cells of a breakdown that have no weight, or groups that cannot vary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import judge, make_case


def test_a_subgroup_without_weight_has_unweighted_figures_only(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    zero = table.assign(sample_weight=table["sample_weight"].where(table["source"] == "a", 0.0))
    cell = judge(zero, predictions, replicates=20).breakdown("source").cells[1]
    assert (cell.name, cell.weight_share, cell.ess, cell.few) == ("b", 0.0, 0.0, True)
    assert cell.figures["accuracy"].value is None
    assert cell.figures["accuracy"].unweighted == 1.0


def test_one_group_in_every_source_has_no_interval(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    evaluation = judge(table.assign(group=table["source"]), predictions, replicates=20)
    assert evaluation.overall.figures["accuracy"].interval is None
    assert any("no intervals" in note for note in evaluation.notes)


def test_few_effective_images_are_flagged() -> None:
    table, predictions = make_case(n=400)
    table["sample_weight"] = np.where(table["source"] == "north", 1.0, 1e-6)
    heavy = table.index[table["source"] == "south"][:5]
    table.loc[heavy, "sample_weight"] = 1.0
    cells = {cell.name: cell for cell in judge(table, predictions).breakdown("source").cells}
    assert cells["south"].few
    assert cells["south"].ess == pytest.approx(5, rel=0.01)
    assert cells["south"].figures["accuracy"].few
    assert not cells["north"].few
    assert cells["north"].weight_share > 0.9
