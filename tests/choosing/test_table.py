"""The ranked table of candidates: what is near the best, order, remarks, and how it is shown."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unskew.bias import Tilt
from unskew.choosing.candidates import Candidate
from unskew.choosing.membership_score import MembershipScore
from unskew.choosing.table import ONE_PERCENT, SAME_SCORE, Standing, make_choice_table, show_table
from unskew.choosing.target_distance import TargetDistance


def weighed(verdict: str = "ok") -> Any:
    return SimpleNamespace(ess=1234.5, estimation=None, overlap=SimpleNamespace(verdict=verdict))


def candidate(name: str, mean: float, verdict: str = "ok", **facts: Any) -> Candidate:
    score = MembershipScore(np.array([mean - 1, mean + 1]), 0.25, np.array([mean - 1, mean + 1]))
    return Candidate(name, Tilt(["x"]), weighed(verdict), score, parameters=3.0, **facts)


def test_one_percent_is_that_of_the_normal_distribution() -> None:
    assert math.erfc(ONE_PERCENT / math.sqrt(2)) / 2 == pytest.approx(0.01, abs=1e-4)


@pytest.mark.parametrize(
    ("behind", "stderr", "near", "tenable"),
    [
        (0.0, 0.0, True, True),
        (SAME_SCORE, 0.0, True, True),  # the same but for rounding
        (2 * SAME_SCORE, 0.0, False, False),
        (0.1, 0.1, True, True),
        (0.2, 0.1, False, True),
        (0.24, 0.1, False, False),
        (-5.0, 0.1, True, True),
    ],
)
def test_near_is_within_one_standard_error_and_tenable_within_what_chance_explains(
    behind: float, stderr: float, near: bool, tenable: bool
) -> None:
    own = Standing(candidate("a", -1.0), behind, stderr)
    assert (own.is_near, own.is_tenable) == (near, tenable)


def ranked() -> tuple[list[Candidate], pd.DataFrame]:
    far = TargetDistance(1.5, "label = cat", 9.0, 1e-6, 2)
    every = [
        candidate("failed", -9.0, failure="no column y"),
        Candidate("unscored", Tilt(["x"])),
        candidate("weak", -0.1, "weak"),
        candidate("contradicting", -0.5, distance=far),
        candidate("worse", -0.9),
        candidate("chosen", -0.6, fit_p=0.5),
        candidate("as good", -0.55),
    ]
    behind = {"failed": 5.0, "weak": -0.4, "contradicting": 0.0, "worse": 0.4, "chosen": 0.1}
    standing = {
        each.name: Standing(each, behind.get(each.name, 0.05), 0.2)
        for each in every
        if each.score is not None
    }
    return every, make_choice_table(every, every[5], standing)


def test_the_chosen_one_is_first_then_scores_then_what_is_ruled_out() -> None:
    _, table = ranked()
    assert table["candidate"].tolist() == [
        "chosen",
        "contradicting",
        "as good",
        "worse",
        "weak",
        "failed",
        "unscored",
    ]
    assert table["remark"].tolist() == [
        "chosen",
        "contradicts what is known about the target (label = cat)",
        "as good, and not simpler",
        "describes the sources worse, by 2.0 standard errors",
        "its overlap is weak",
        "no column y",
        "its overlap is none",
    ]


def test_numbers_are_those_of_the_candidates_and_nan_where_there_are_none() -> None:
    _, table = ranked()
    row = table.set_index("candidate")
    assert row.loc["chosen", ["score", "stderr", "behind", "behind_stderr"]].tolist() == (
        pytest.approx([-0.6, 1.0, 0.1, 0.2])
    )
    assert row.loc["chosen", ["outside", "parameters", "ess", "fit_p"]].tolist() == (
        pytest.approx([0.25, 3.0, 1234.5, 0.5])
    )
    assert row.loc["contradicting", ["distance", "distance_p"]].tolist() == [1.5, 1e-6]
    assert row.loc["unscored", ["score", "behind", "ess", "fit_p", "auc"]].isna().all()


def test_nothing_is_chosen_for_itself_alone() -> None:
    only = candidate("only", -1.0)
    table = make_choice_table([only], None, {"only": Standing(only, 0.0, 0.1)})
    assert table["remark"].tolist() == ["not chosen for itself alone"]


def test_a_terminal_shows_columns_with_values_and_cuts_long_remarks() -> None:
    every, table = ranked()
    lines = show_table(table).splitlines()
    assert len(lines) == 1 + len(every)
    assert "auc" not in lines[0]
    assert all(name in lines[0] for name in ("candidate", "score", "fit_p", "remark"))
    for shown in ("-0.6000 ± 1.0000", "0.1000 ± 0.2000", "25.0%", "1,234", " 3 "):
        assert shown in lines[1]
    assert "nan" not in show_table(table)
    long = table.assign(parameters=math.inf, remark="w" * 200)
    assert "∞" in show_table(long)
    assert "w" * 89 + "…" in show_table(long)
    assert "w" * 90 not in show_table(long)
