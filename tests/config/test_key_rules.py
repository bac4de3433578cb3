"""Rules of single keys: expressions on file names, shares, and keys without an effect."""

import pytest
from pydantic import TypeAdapter, ValidationError

from unskew.config.key_rules import ColumnRule, Share, SplitRule, Text, learn_problems, unread_keys
from unskew.config.learn_section import LearnSection


@pytest.mark.parametrize(
    "rule",
    ["patient", {"regex": "(p[0-9]+)_"}, {"regex": "^([^/]+)/", "on": "path"}],
)
def test_a_column_is_named_or_matched_in_the_name_of_the_file(rule):
    assert TypeAdapter(ColumnRule).validate_python(rule) == rule
    assert TypeAdapter(SplitRule).validate_python(rule) == rule


@pytest.mark.parametrize(
    "rule",
    [
        "",
        {},
        {"on": "path"},
        {"regex": "(a)", "of": "name"},
        {"regex": "(a)", "on": "folder"},
        {"regex": "(a"},
        {"regex": "a+"},
        {"regex": "(?:a)"},
    ],
    ids=str,
)
def test_a_rule_that_finds_nothing_is_refused(rule):
    for kind in (ColumnRule, SplitRule):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(rule)


def test_splits_alone_may_come_from_a_table():
    rule = {"file": "splits.csv"}
    assert TypeAdapter(SplitRule).validate_python(rule) == rule
    with pytest.raises(ValidationError):
        TypeAdapter(ColumnRule).validate_python(rule)
    with pytest.raises(ValidationError):
        TypeAdapter(SplitRule).validate_python({"file": "splits.csv", "on": "name"})


@pytest.mark.parametrize("value", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_share_is_from_0_to_1(value):
    with pytest.raises(ValidationError):
        TypeAdapter(Share).validate_python(value)
    assert [TypeAdapter(Share).validate_python(end) for end in (0, 1)] == [0.0, 1.0]
    with pytest.raises(ValidationError):
        TypeAdapter(Text).validate_python("")


PIXELS = {"size": 64, "resize": "pad"}
EPOCHS = {"epochs": 3, "batch": 7, "patience": 2}
PROBE = {"ridge": 0.25}


@pytest.mark.parametrize(
    ("model", "unread"),
    [
        ({}, {*PROBE}),
        ({"preset": "article"}, {*PROBE}),
        ({"preset": "fast", "model": "probe"}, set()),
        ({"preset": "probe"}, {*PIXELS, *EPOCHS}),
        ({"preset": "probe", "model": "probe"}, {*PIXELS, *EPOCHS}),
        ({"preset": "probe", "model": "nets:small"}, {*PIXELS, *PROBE}),
    ],
)
def test_keys_that_go_with_another_model_are_found(model, unread):
    learn = {**model, **PIXELS, **EPOCHS, **PROBE}
    assert set(unread_keys(learn)) == unread
    problems = learn_problems(LearnSection(**learn))
    assert {problem.path for problem in problems} == {("learn", key) for key in unread}


def test_a_default_is_no_key_of_the_file():
    defaults = {name: field.default for name, field in LearnSection.model_fields.items()}
    for preset in ("fast", "article", "probe"):
        assert unread_keys({**defaults, "preset": preset}) == {}
    assert learn_problems(LearnSection()) == []
