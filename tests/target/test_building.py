"""Targets that contradict themselves are refused before any pool is seen."""

import pandas as pd
import pytest

from raising import refused
from target_pools import ANIMALS
from unskew import ConfigError, DataError, Target


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (
            {"unit": "patient"},
            {"option": "unit", "value": "patient", "allowed": ["image", "group"]},
        ),
        ({"uncovered": "ignore"}, {"option": "uncovered", "allowed": ["error", "restrict"]}),
        ({"missing": {"label": "lump"}}, {"option": "missing", "value": "lump"}),
        ({"missing": {"sex": "drop"}}, {"option": "missing", "column": "sex"}),
        ({"outside": {"label": {"empty": "lump"}}}, {"option": "outside", "value": "lump"}),
        ({"outside": {"label": "lump"}}, {"option": "outside", "value": "lump"}),
        (
            {"outside": {"label": {"cat": "keep"}}},
            {"option": "outside", "column": "label", "levels": ["cat"]},
        ),
        ({"bins": {"label": [3, 2]}}, {"option": "bins", "column": "label", "value": [3, 2]}),
        ({"bins": {"label": [3]}}, {"option": "bins", "column": "label", "value": [3]}),
        ({"bin": {"label": [3]}}, {"option": "bin"}),
    ],
)
def test_impossible_options_are_refused(options, facts):
    with refused(ConfigError, **facts):
        Target.margins({"label": ANIMALS}, **options)


def test_an_unknown_option_comes_with_a_suggestion():
    with pytest.raises(ConfigError, match="Did you mean 'bins'"):
        Target.margins({"label": ANIMALS}, bin={"label": [3]})


def test_an_option_for_one_level_names_the_level():
    with pytest.raises(ConfigError, match="label = empty"):
        Target.margins({"label": ANIMALS}, outside={"label": {"empty": "lump"}})


def test_impossible_attributes_are_refused():
    for by in ([], ["label", "label"], [3]):
        with refused(ConfigError, option="by", value=by):
            Target.uniform(by)
    with refused(ConfigError, option="margins"):
        Target.margins({})
    with refused(ConfigError, column="label", value=[0.5, 0.5]):
        Target.margins({"label": [0.5, 0.5]})
    with refused(ConfigError, option="missing", column="label"):
        Target.margins({"label": {"cat": 0.5, None: 0.5}})


def test_impossible_holdouts_are_refused():
    for holdout in (-0.1, 1.0, float("nan")):
        with refused(ConfigError, option="holdout", value=holdout):
            Target.source("a", holdout=holdout)


def test_a_table_of_interactions_must_have_the_levels_of_the_margins():
    table = pd.DataFrame(
        [("cat", "day", 1), ("cow", "night", 1)], columns=["label", "light", "count"]
    )
    margins = {"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 1}}
    with refused(DataError, option="interactions", column="label", levels=["cow"]):
        Target.margins(margins, interactions=table)
    target = Target.margins(margins, interactions=table.replace("cow", "cat"))
    with refused(DataError, column="label", levels=["label = dog"]):
        target.stratify(pd.DataFrame({"label": ["cat", "cat"], "light": ["day", "night"]}))


def test_interactions_are_within_sources_of_the_pool_or_a_table():
    margins = {"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 1}}
    for interactions in (None, "within"):
        assert Target.margins(margins, interactions=interactions).interactions is None
    assert Target.margins(margins, interactions="pool").interactions == "pool"
    with refused(ConfigError, option="interactions", allowed=["within", "pool"]):
        Target.margins(margins, interactions="pooled")


@pytest.mark.parametrize(
    ("make", "right_form"),
    [
        (lambda: Target.margins([("label", {"a": 1})]), r"\{attribute: \{level: number\}\}"),
        (lambda: Target.uniform("label", missing="drop"), r"missing=\{'label': 'drop'\}"),
        (lambda: Target.uniform("age", bins=[0, 40, 90]), r"bins=\{'age': \[0, 40, 90\]\}"),
        (lambda: Target.uniform("label", outside="keep"), r"outside=\{'label': 'keep'\}"),
        (
            lambda: Target.table(pd.Series([1, 2], name="count")),
            r"got a Series. .*rename\('count'\).reset_index\(\)",
        ),
        (
            lambda: Target.table(pd.DataFrame({"age": [3], "count": [1]}), bins=[0, 5]),
            r"bins=\{'age': \[0, 5\]\}",
        ),
        (lambda: Target.source("a", holdout="half"), "'half'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_answered_with_the_right_form(make, right_form):
    with pytest.raises((ConfigError, DataError), match=right_form):
        make()


@pytest.mark.parametrize(
    ("name", "levels"),
    [(("age", "sex"), {("old", "f"): 1}), ("age*sex", {"old*f": 1, "young*m": 1})],
)
def test_a_joint_distribution_is_no_margin(name, levels):
    with refused(ConfigError, option="margins", attributes=["age", "sex"]) as caught:
        Target.margins({name: levels})
    assert "Target.table" in str(caught.value)
