"""Targets that cannot be meant: every message names what is wrong, by how much, and the way out."""

import numpy as np
import pandas as pd
import pytest

from unskew import ConfigError, DataError, Pool, Target

ANIMALS = {"cat": 0.5, "dog": 0.3, "fox": 0.2}


def pool():
    return Pool.from_arrays(
        ["a", "a", "b", "b", "b", "b"],
        ["cat", "dog", "fox", "fox", "cat", "dog"],
        light=["day", "night"] * 3,
    )


@pytest.mark.parametrize(
    ("masses", "message"),
    [
        (
            {"cat": 0.5, "dog": 0.3},
            "margin of 'label': probabilities must sum to 1; these sum to 0.8, 0.2 too little",
        ),
        ({"cat": 0.5, "dog": 0.6}, "these sum to 1.1, 0.1 too much"),
        ({"cat": 0.333, "dog": 0.333, "fox": 0.333}, "these sum to 0.999, 0.001 too little"),
        ({"cat": 40.5, "dog": 59.5}, "99 too much. .*divide weighted counts or percentages"),
        ({"cat": 1.5, "dog": -0.5}, "not negative; got -0.5 for label = dog"),
        ({"cat": 10, "dog": -1}, "not negative; got -1 for label = dog"),
        ({"cat": float("nan"), "dog": 1}, "finite and not negative; got nan for label = cat"),
        ({"cat": float("inf"), "dog": 1}, "got inf for label = cat"),
        ({"cat": 0, "dog": 0}, "margin of 'label' has no mass at all"),
        ({}, "margin of 'label' has no mass at all"),
        ({"cat": "many"}, "a mass is a number; got 'many'"),
        ({1: 0.5, "1": 0.5}, "names a level twice"),
    ],
)
def test_numbers_that_are_no_distribution(masses, message):
    with pytest.raises(DataError, match=message):
        Target.margins({"label": masses})


def test_ten_digits_are_enough():
    third = 0.3333333333
    assert sum(
        Target.margins({"label": dict.fromkeys(ANIMALS, third)}).facts[0].mass
    ) == pytest.approx(1, abs=1e-15)


def test_a_level_of_the_data_that_the_target_does_not_name():
    with pytest.raises(
        DataError,
        match=r"images have label = fox \(2 images\), which the target does not name; it names "
        r"cat, dog\. .*'keep'",
    ):
        Target.margins({"label": {"cat": 1, "dog": 1}}).stratify(pool())


def test_a_level_of_the_target_that_the_data_do_not_know_is_taken_for_a_misspelling():
    with pytest.raises(
        DataError, match=r"images have label = fox .* The target names fx, which no image has"
    ):
        Target.margins({"label": {"cat": 1, "dog": 1, "fx": 1}}).stratify(pool())
    with pytest.raises(
        DataError, match=r"outside names label = fux, but no image has that; .* Did you mean 'fox'"
    ):
        Target.uniform("label", outside={"label": {"fux": "drop"}}).stratify(pool())


def test_columns_that_are_not_there():
    with pytest.raises(DataError, match=r"speaks of 'lable', but .* Did you mean 'label'"):
        Target.uniform("lable").stratify(pool())
    with pytest.raises(ConfigError, match=r"counts groups .* no column 'group'"):
        Target.uniform("label", unit="group").stratify(pool())
    frame = pool().frame.assign(group=[1, 1, None, 2, 2, 2])
    with pytest.raises(DataError, match="group is missing for 1 images"):
        Target.uniform("label", unit="group").stratify(frame)


def test_references_that_are_not_there():
    with pytest.raises(DataError, match="the target is the source 'c', but the sources are a, b"):
        Target.source("c").resolve(pool())
    with pytest.raises(DataError, match="no column 'source'"):
        Target.source("a").resolve(pool().frame[["label"]])
    with pytest.raises(ConfigError, match="lies in 'phones/' and has not been read"):
        Target.sample("phones/").resolve(pool())
    with pytest.raises(ConfigError, match="a sample of the target is a Pool"):
        Target.sample(pool().frame)


def test_masses_and_references_are_not_taken_for_one_another():
    with pytest.raises(ConfigError, match="this target is a source, which has no masses of strata"):
        Target.source("a").stratify(pool())
    with pytest.raises(ConfigError, match=r"given by masses .uniform., which is no sample"):
        Target.uniform("label").compare(pool())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "patient"}, "unit is one of 'image', 'group'; got 'patient'"),
        ({"uncovered": "ignore"}, "uncovered is one of 'error', 'restrict'"),
        ({"missing": {"label": "lump"}}, "missing for 'label' is one of .*; got 'lump'"),
        ({"missing": {"sex": "drop"}}, "missing names 'sex', which is no attribute of the target"),
        ({"outside": {"label": {"empty": "lump"}}}, "outside for label = empty is one of"),
        ({"outside": {"label": "lump"}}, "outside for 'label' is one of"),
        ({"outside": {"label": {"cat": "keep"}}}, "gives label = cat a mass and calls it outside"),
        ({"bins": {"label": [3, 2]}}, "edges in increasing order"),
        ({"bins": {"label": [3]}}, "two or more edges"),
        ({"bin": {"label": [3]}}, "no option 'bin'; .* Did you mean 'bins'"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(ConfigError, match=message):
        Target.margins({"label": ANIMALS}, **options)


def test_attributes_that_cannot_be():
    for by in ([], ["label", "label"], [3]):
        with pytest.raises(ConfigError, match="one or more attributes, each once"):
            Target.uniform(by)
    with pytest.raises(ConfigError, match="there is no margin"):
        Target.margins({})
    with pytest.raises(ConfigError, match="which level each number belongs to"):
        Target.margins({"label": [0.5, 0.5]})
    with pytest.raises(ConfigError, match="gives missing values of 'label' a mass"):
        Target.margins({"label": {"cat": 0.5, None: 0.5}})


def test_holdouts_that_cannot_be():
    for holdout in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="at least 0 and below 1"):
            Target.source("a", holdout=holdout)


def test_bins_that_do_not_fit():
    with pytest.raises(DataError, match=r"2 bins .*, but its margin has 3 numbers"):
        Target.margins({"age": [1, 2, 3]}, bins={"age": [0, 40, 80]})
    with pytest.raises(DataError, match="beyond its bins"):
        Target.margins({"age": {20: 5, 99: 5}}, bins={"age": [0, 40, 80]})
    with pytest.raises(DataError, match="not negative; got -5 for 20"):
        Target.margins({"age": {20: -5, 21: 10}}, bins={"age": [0, 40, 80]})
    with pytest.raises(
        DataError, match=r"must be numbers or the labels of the bins .*; got cat, dog, fox"
    ):
        Target.uniform("label", bins={"label": [0, 1]}).stratify(pool())


def test_survey_errors_that_cannot_be():
    with pytest.raises(ConfigError, match="both n and stderr"):
        Target.margins({"label": {"mass": ANIMALS, "n": 4, "stderr": ANIMALS}})
    for n in (0, -3, float("nan"), "many"):
        with pytest.raises(ConfigError, match="n is the size of the sample"):
            Target.margins({"label": {"mass": ANIMALS, "n": n}})
    with pytest.raises(ConfigError, match="may have mass, n and stderr; got size"):
        Target.margins({"label": {"mass": ANIMALS, "size": 3}})
    with pytest.raises(DataError, match="must name the same levels; only one has fox"):
        Target.margins({"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": 0.1}}})
    with pytest.raises(DataError, match="not negative; label has dog"):
        Target.margins(
            {"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": -0.1, "fox": 0.1}}}
        )
    with pytest.raises(
        DataError,
        match=r"label = cat has 0.1 and all others together 0.02 .* Two levels have the same",
    ):
        Target.margins(
            {"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": 0.01, "fox": 0.01}}}
        )


def test_tables_that_cannot_be():
    with pytest.raises(DataError, match="exactly one column of numbers"):
        Target.table(pd.DataFrame({"label": ["cat"], "number": [1]}))
    with pytest.raises(DataError, match="exactly one column of numbers"):
        Target.table(pd.DataFrame({"label": ["cat"], "count": [1], "share": [1.0]}))
    with pytest.raises(DataError, match="no column sex"):
        Target.table(pd.DataFrame({"label": ["cat"], "count": [1]}), by=["sex"])
    with pytest.raises(DataError, match="no rows"):
        Target.table(pd.DataFrame({"label": [], "count": []}))
    with pytest.raises(DataError, match=r"table of label: .* got -1 for label = dog"):
        Target.table(pd.DataFrame({"label": ["cat", "dog"], "count": [1, -1]}))
    with pytest.raises(DataError, match=r"table of label: .* 0.25 too little"):
        Target.table(pd.DataFrame({"label": ["cat", "dog"], "share": [0.5, 0.25]}))


def test_combinations_that_a_table_leaves_out():
    table = pd.DataFrame(
        [("cat", "day", 1), ("dog", "night", 1), ("fox", "day", 1)],
        columns=["label", "light", "count"],
    )
    with pytest.raises(
        DataError,
        match="the joint table has no row for label = fox × light = night, which images have",
    ):
        Target.table(table).stratify(pool())
    with pytest.raises(
        DataError, match="the table of interactions has no row for label = fox × light = night"
    ):
        Target.margins(
            {"label": ANIMALS, "light": {"day": 1, "night": 1}}, interactions=table
        ).stratify(pool())


def test_a_table_of_interactions_that_speaks_of_other_levels():
    table = pd.DataFrame(
        [("cat", "day", 1), ("cow", "night", 1)], columns=["label", "light", "count"]
    )
    margins = {"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 1}}
    with pytest.raises(DataError, match="table of interactions has label = cow"):
        Target.margins(margins, interactions=table)
    target = Target.margins(margins, interactions=table.replace("cow", "cat"))
    with pytest.raises(
        DataError,
        match="the table of interactions has no row for label = dog, which the margin gives mass to",
    ):
        target.stratify(pd.DataFrame({"label": ["cat", "cat"], "light": ["day", "night"]}))


def test_values_that_read_the_same():
    frame = pd.DataFrame({"label": np.array([3, "3"], dtype=object)})
    with pytest.raises(DataError, match="label has values that differ but read the same, '3'"):
        Target.uniform("label").stratify(frame)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Target.margins([("label", {"a": 1})]),
            r"margins is a table \{attribute: \{level: number\}\}.*got \[\('label'",
        ),
        (
            lambda: Target.uniform("label", missing="drop"),
            r"missing is said for each attribute: missing=\{'label': 'drop'\}",
        ),
        (
            lambda: Target.uniform("age", bins=[0, 40, 90]),
            r"bins is said for each attribute: bins=\{'age': \[0, 40, 90\]\}",
        ),
        (
            lambda: Target.uniform("label", outside="keep"),
            r"outside is said for each attribute: outside=\{'label': 'keep'\}",
        ),
        (
            lambda: Target.table({"label": ["a"], "share": [1.0]}),
            "a joint table is a DataFrame .* got a dict",
        ),
        (
            lambda: Target.table(pd.Series([1, 2], name="count")),
            r"got a Series. .*rename\('count'\).reset_index\(\)",
        ),
        (
            lambda: Target.table(pd.DataFrame({"age": [3], "count": [1]}), bins=[0, 5]),
            r"bins is said for each attribute",
        ),
        (lambda: Target.source("a", holdout="half"), "below 1; got 'half'"),
    ],
)
def test_what_is_of_the_wrong_kind_is_shown_as_it_should_be(make, message):
    with pytest.raises((ConfigError, DataError), match=message):
        make()
