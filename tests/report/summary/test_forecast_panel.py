"""A forecast, as its file holds it, as a panel; nothing of few images where only aggregates are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from raising import refused
from unskew.errors import DataError
from unskew.report.summary.forecast_panel import show_forecast


def _estimate(value: float | None, stderr: float | None = 0.0123456) -> dict[str, Any]:
    low, high = (None, None) if value is None or stderr is None else (value - 0.02, value + 0.02)
    return {"value": value, "stderr": stderr, "interval": [low, high], "level": 0.95}


def _arm(name: str, gain: float | None, cat: float, dog: float, owl: float) -> dict[str, Any]:
    return {
        "name": name,
        "accuracy": _estimate(0.7123456),
        "gain": None if gain is None else _estimate(gain),
        "held_out": 0.7,
        "by_class": {"cat": _estimate(cat), "dog": _estimate(dog), "owl": _estimate(owl)},
        "worst_class": "owl",
        "ess": 123.456,
        "way": None if gain is None else "half",
        "ridge": 0.03,
    }


RECORD: dict[str, Any] = {
    "verdict": "reweight",
    "recommendation": "reweight: +4.1 ± 1.2 points expected, worst class 31 → 61 (owl)",
    "gain": _estimate(0.0412345),
    "arms": [_arm("naive", None, 0.9, 0.8, 0.31), _arm("debiased", 0.0412345, 0.85, 0.84, 0.61)],
    "choice": {"way": "half", "ridge": 0.03, "reason": "half: 98.8 images are worth too few."},
    "class_share": {"cat": 0.5, "dog": 0.3, "owl": 0.2},
    "class_ess": {"cat": 50.5, "dog": 40.5, "owl": 4.5},
    "class_size": {"cat": 60, "dog": 50, "owl": 5},
    "images": 115,
    "ess": 98.765,
    "design_effect": 1.1643,
    "ess_units": None,
    "heavy_share": 0.5,
    "pareto_k": 0.345,
    "condition": "All of this is conditional on the bias model.",
    "objection": None,
    "fit_p_value": 0.4,
    "method": "Trained on 4 of 5 folds.",
    "notes": ["class_balanced does as well.", "5 images of owl are few."],
    "learner": "a linear probe",
    "asked": ["naive", "debiased"],
    "learner_reference": None,
    "asked_way": None,
}


def test_the_panel_has_the_numbers_of_the_file() -> None:
    panel = show_forecast(RECORD)
    assert (panel.verdict, panel.recommendation) == (RECORD["verdict"], RECORD["recommendation"])
    assert (panel.images, panel.ess, panel.pareto_k) == (115, 98.765, 0.345)
    naive, debiased = panel.arms
    assert (naive.gain, naive.gain_interval) == (None, (None, None))
    assert debiased.gain == pytest.approx(0.0412345)
    assert debiased.gain_interval == pytest.approx((0.0212345, 0.0612345))
    assert (debiased.worst_class, debiased.worst) == ("owl", 0.61)
    assert [each.label for each in panel.classes] == ["cat", "dog", "owl"]
    assert panel.classes[1].accuracy == (0.8, 0.84)
    assert (panel.classes[1].share, panel.classes[1].ess) == (0.3, 40.5)
    assert panel.notes == tuple(RECORD["notes"])
    assert panel.choice == RECORD["choice"]["reason"]
    assert (debiased.way, debiased.ridge, naive.way) == ("half", 0.03, None)


def test_aggregates_hide_small_classes_and_round_the_rest() -> None:
    panel = show_forecast(RECORD, "aggregate")
    labels = [each.label for each in panel.classes]
    # Five owls are too few, and one more class is hidden, so that they cannot be subtracted.
    assert "owl" not in labels
    assert len(labels) <= 1
    assert all(each.share is None and each.ess is None for each in panel.classes)
    assert all(arm.worst_class in (*labels, None) for arm in panel.arms)
    assert panel.arms[0].accuracy == 0.712
    assert panel.choice == "half"
    # Rounded down, so that there are never more effective images than images.
    assert (panel.ess, panel.design_effect) == (98.0, 1.2)
    assert panel.recommendation == "reweight: +4.1 ± 1.2 points expected for a linear probe"
    assert "owl" not in " ".join([panel.recommendation, panel.condition, *panel.notes])
    assert not any(character.isdigit() for note in panel.notes for character in note)


def test_aggregates_say_nothing_of_fewer_than_ten_images() -> None:
    few = {**RECORD, "images": 9, "heavy_share": 0.9}
    panel = show_forecast(few, "aggregate")
    assert (panel.images, panel.heavy_share) == (None, None)
    assert show_forecast({**RECORD, "heavy_share": 9 / 115}, "aggregate").heavy_share is None
    assert show_forecast({**RECORD, "heavy_share": 10 / 115}, "aggregate").heavy_share == 0.087
    assert show_forecast(few).images == 9


def test_an_objection_is_shown_and_put_in_general_words() -> None:
    doubted = {**RECORD, "objection": "5 owls are too many.", "fit_p_value": 0.00123}
    assert show_forecast(doubted).objection == doubted["objection"]
    private = show_forecast(doubted, "aggregate")
    assert private.objection is not None
    assert "owl" not in private.objection
    assert "p = 0.0012" in private.objection
    assert private.recommendation.endswith("to which the test of its fit objects")


def test_a_loss_and_an_unknown_error_in_words() -> None:
    lost = {**RECORD, "gain": _estimate(-0.031, None), "verdict": "don't"}
    assert show_forecast(lost, "aggregate").recommendation.startswith("don't: −3.1 ± ? points")


def test_numbers_that_do_not_exist_are_none() -> None:
    record = copy.deepcopy(RECORD)
    record["arms"][1]["by_class"]["owl"] = _estimate(None, None)
    del record["arms"][1]["by_class"]["dog"]
    panel = show_forecast(record)
    assert panel.arms[1].worst_class == "cat"
    assert [each.accuracy for each in panel.classes] == [(0.9, 0.85), (0.8, None), (0.31, None)]


@pytest.mark.parametrize("key", sorted(set(RECORD) - {"class_size"}))
def test_a_file_of_another_version_is_refused(key: str) -> None:
    record = {name: value for name, value in RECORD.items() if name != key}
    if key == "gain":
        # It is read for aggregates only: with each arm there is its own.
        assert show_forecast(record).arms == show_forecast(RECORD).arms
        with refused(DataError):
            show_forecast(record, "aggregate")
        return
    with refused(DataError):
        show_forecast(record)
