"""Breakdowns by columns of all tables, and what privacy withholds of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.judging import N, judge
from raising import refused
from unskew.errors import ConfigError
from unskew.evaluation.subgroups import View, withhold_cells


def test_subgroups_by_columns_of_all_tables(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    attributes = pd.DataFrame(
        {
            "id": table["id"][::-1],
            "age": np.arange(N)[::-1] * 1.0,
            "sex": ["f", "m", None] * (N // 3),
        }
    )
    evaluation = judge(
        table,
        predictions.assign(scanner="x"),
        attributes=attributes,
        by=["sex", "age", "scanner"],
        split="all",
    )
    assert [part.column for part in evaluation.breakdowns] == [
        "source",
        "label",
        "sex",
        "age",
        "scanner",
    ]
    assert [cell.name for cell in evaluation.breakdown("sex").cells] == ["f", "m", "(missing)"]
    assert [cell.name for cell in evaluation.breakdown("age").cells] == [
        "< 14.8",
        "[14.8, 29.5)",
        "[29.5, 44.2]",
        "> 44.2",
    ]
    assert [cell.images for cell in evaluation.breakdown("age").cells] == [15] * 4
    binned = judge(
        table,
        predictions,
        attributes=attributes,
        by=["age"],
        bins={"age": [0, 30, 59]},
        split="all",
    )
    assert [(cell.name, cell.images) for cell in binned.breakdown("age").cells] == [
        ("[0, 30)", 30),
        ("[30, 59]", 30),
    ]
    for part in evaluation.breakdowns:
        assert sum(cell.images for cell in part.cells) == N
        assert sum(cell.weight_share for cell in part.cells) == pytest.approx(1)
    with pytest.raises(ConfigError, match="Did you mean 'sex'"):
        judge(table, predictions, attributes=attributes, by=["sexe"])


def test_privacy_withholds_small_cells_and_what_would_reveal_them(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    site = np.array(["big"] * 30 + ["middle"] * 25 + ["tiny"] * 5)
    evaluation = judge(table, predictions.assign(site=site), by=["site"], split="all", private=True)
    part = evaluation.breakdown("site")
    # The total is known: the next smallest goes, too.
    assert [cell.name for cell in part.cells] == ["big"]
    assert part.withheld == 2
    assert "tiny" not in str(evaluation.to_dict())
    # By group: 30 images of three patients are three.
    patients = table.assign(group=[f"p{at // 10}" for at in range(N)])
    with refused(ConfigError, count=6, limit=10):
        judge(patients, predictions, split="all", private=True)
    zero = table.assign(sample_weight=table["sample_weight"].where(table.index > 2, 0.0))
    assert judge(zero, predictions, split="all").coverage.zero == 3
    assert judge(zero, predictions, split="all", private=True).coverage.zero is None
    lacking = judge(table, predictions[3:], split="all", allow_missing=True, private=True)
    assert (lacking.coverage.missing, lacking.coverage.images) == (None, None)
    assert any(note.startswith("A few images have no prediction") for note in lacking.notes)
    rare = table.assign(label=["cat"] * 55 + ["dog"] * 5)
    figures = judge(rare, predictions, split="all", private=True).overall.figures
    assert "accuracy" in figures
    assert not {"balanced_accuracy", "worst_class", "sensitivity", "specificity"} & set(figures)


@given(
    light=st.lists(st.integers(0, 2), min_size=60, max_size=60),
    kind=st.lists(st.integers(0, 1), min_size=60, max_size=60),
    grouped=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_small_cell_follows_from_two_views(
    light: list[int], kind: list[int], grouped: bool
) -> None:
    """Cells by light and class add up to the class and to the light: what is left of a shown one is
    nobody, or ten and more.
    """
    light_n, kind_n = np.array(light), np.array(kind)
    group_n = np.arange(60) // 2 if grouped else None
    crossed = View(
        "kind*light", tuple(f"{a} {b}" for a in range(2) for b in range(3)), 3 * kind_n + light_n
    )
    views = [View("kind", ("a", "b"), kind_n), crossed, View("light", ("x", "y", "z"), light_n)]
    kind_view, fine, light_view = withhold_cells(views, group_n)
    for coarse, code_n in ((kind_view, kind_n), (light_view, light_n)):
        for level in np.unique(code_n[coarse.code >= 0]):
            rest_n = (code_n == level) & (fine.code < 0)
            units = rest_n.sum() if group_n is None else np.unique(group_n[rest_n]).size
            assert units == 0 or units >= 10
