"""Where the assumptions end: boxes, the learned rule, missing links; each against its truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paper import theorem_limits as limits
from paper.experiment import Folders

NOWHERE = Folders(None, Path("nowhere"))


def _means(rows: list[dict], value: str) -> dict[tuple[str, int], float]:
    keys = {(row["arm"], row["n"]) for row in rows}
    return {
        key: np.mean(
            [row[value] for row in rows if (row["arm"], row["n"]) == key and row[value] is not None]
        )
        for key in keys
    }


@pytest.mark.parametrize("kind", ["box", "soft"])
def test_boxes_are_far_from_omega_at_every_n_and_yet_learn_where_omega_is_a_box(kind: str) -> None:
    rows = []
    for n in (400, 6400):
        cell = {"omega": kind, "n": n, "first": 0, "draws": 12}
        rows += limits.box_errors(cell, NOWHERE)["errors"]
    error = _means(rows, "error")
    assert {row["sup"] for row in rows if row["arm"] == "boxes"} == {1.0}
    # √16 = 4 if the error falls like 1/√n.
    assert error["true", 400] / error["true", 6400] > 2.5
    if kind == "box":
        assert error["boxes", 400] / error["boxes", 6400] > 2.5
        # The first source never shows what is above 0.5.
        assert error["one_source", 6400] == pytest.approx(0.5, abs=0.02)
    else:
        assert error["boxes", 6400] > 2 * error["true", 6400]


def test_the_learned_threshold_is_that_of_a_search() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=30), rng.integers(0, 2, 30)
    weight = rng.dirichlet(np.ones(30))

    def risk(t: float) -> float:
        return float(weight[(x >= t) != (y == 1)].sum())

    found = limits.learn_threshold(x, y, weight)
    assert risk(found) == pytest.approx(min(risk(t) for t in np.linspace(0, 1.0001, 4001)))


def test_the_debiased_rule_is_nearly_as_good_as_that_of_an_unbiased_sample() -> None:
    cell = {"n": 3200, "first": 0, "draws": 25}
    excess = _means(limits.rule_risks(cell, NOWHERE)["risks"], "excess")
    assert excess["true", 3200] < 3 * excess["fair_ref", 3200]
    assert excess["naive", 3200] > 3 * excess["true", 3200]


@pytest.mark.parametrize("constant", ["kappa", "epsilon"])
def test_the_share_of_draws_without_a_link_is_that_of_the_closed_form(constant: str) -> None:
    cell = {"constant": constant, "value": 0.03, "n": 40, "draws": 120}
    (row,) = limits.missing_links(cell, NOWHERE)["links"]
    spread = np.sqrt(row["expected"] * (1 - row["expected"]) / 120)
    assert 0.1 < row["expected"] < 0.9
    assert row["unconnected"] == pytest.approx(row["expected"], abs=4 * spread)
