"""Advice as text and as JSON."""

from __future__ import annotations

import json

from unskew.diagnosis.advice_record import Advice, CollectOption, Goal, MissingLink

GOALS = (Goal("stderr", "v", 0.2, 0.1), Goal("ess", "", 300.0, 200.0))
OPTIONS = (
    CollectOption("source", "north", 1234, 1234.0, {"standard error of v": 0.1}),
    CollectOption("target", "target", 2000, 2000.0),
    CollectOption("source", "so\nuth", None, None, {}, "not there"),
)
ADVICE = Advice(("north", "so\nuth"), 500, GOALS, OPTIONS, {"north": 600, "west": 300}, 900.0)


def test_goals_know_their_direction() -> None:
    assert [goal.reached for goal in GOALS] == [False, True]
    assert not ADVICE.reached
    assert Advice(("a",), 10, (Goal("ess", "", 300.0, 200.0),)).reached


def test_the_text_has_every_number_on_lines_of_its_own() -> None:
    lines = ADVICE.lines()
    assert any("1,234" in line and "north" in line for line in lines)
    assert any("not there" in line for line in lines)
    assert any("600 north + 300 west" in line for line in lines)
    assert not any("\n" in line for line in lines)


def test_the_sentence_rounds_up_to_two_digits() -> None:
    sentence = ADVICE.sentence()
    assert "1,300 more images of north" in sentence
    assert "0.2 to 0.1" in sentence
    assert Advice(("a",), 10).sentence() == ""


def test_json_holds_it_all() -> None:
    link = MissingLink(("a",), ("b", "c"))
    refused = Advice(("a", "b", "c"), None, links=(link,), obstacle="no link")
    record = json.loads(json.dumps(refused.to_dict()))
    assert record["identifiable"] is False
    assert record["links"] == [{"image_of": ["a"], "selectable_by": ["b", "c"]}]
    record = json.loads(json.dumps(ADVICE.to_dict()))
    assert [option["images"] for option in record["options"]] == [1234, 2000, None]
    assert record["mix"] == {"north": 600, "west": 300}
