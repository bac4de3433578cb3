"""Targets in configurations: what is written reads back the same; the design's examples read."""

import itertools
import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from unskew import ConfigError, DataError, Pool, Target

TABLE = pd.DataFrame(
    [
        (a, s, 1 + i)
        for i, (a, s) in enumerate(itertools.product(["[0, 40)", "[40, 90]"], ["f", "m"]))
    ],
    columns=["age", "sex", "count"],
)
TARGETS = {
    "uniform": Target.uniform(["label", "light"], missing={"label": "level"}),
    "counts": Target.margins(
        {"label": {"cat": 1, "dog": 6}},
        outside={"label": {"empty": "keep"}},
        unit="group",
        uncovered="restrict",
    ),
    "sixths": Target.margins({"label": dict.fromkeys("abcdef", 1)}),
    "numbers": Target.margins({"label": {0: 0.5, 1: 0.5}}, outside={"label": "drop"}),
    "errors": Target.margins(
        {
            "label": {"mass": {"n": 0.5, "mass": 0.5}, "n": 400},
            "sex": {"mass": {"f": 0.5, "m": 0.5}, "stderr": {"f": 0.1, "m": 0.1}},
        }
    ),
    "raked": Target.margins(
        {"age": [1, 2], "sex": {"f": 1, "m": 1}}, interactions=TABLE, bins={"age": [0, 40, 90]}
    ),
    "table": Target.table(TABLE[::-1], n=250, bins={"age": [0, 40, 90]}, missing={"sex": "keep"}),
    "sample": Target.sample("phones/", holdout=0.5),
    "source": Target.source("north"),
}


def toml(value):
    """As much of TOML as the targets need: inline tables, arrays, text and numbers."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_written_reads_back_the_same(name):
    target = TARGETS[name]
    assert Target.from_dict(target.to_dict()) == target
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target
    assert Target.from_dict(tomllib.loads("target = " + toml(target.to_dict()))["target"]) == target


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz")),
        st.integers(1, 1000),
        min_size=1,
    )
)
def test_tables_with_gaps_read_back_the_same(counts):
    target = Target.table(
        pd.DataFrame(
            [(a, b, count) for (a, b), count in counts.items()], columns=["label", "sex", "count"]
        )
    )
    assert list(target.facts[0].cells) == list(counts)
    assert Target.from_dict(target.to_dict()) == target


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_describes_itself_in_sentences(name):
    sentences = TARGETS[name].describe()
    assert sentences
    assert all(
        sentence.endswith(".")
        and (sentence[0].isupper() or sentence[0].isdigit() or sentence.startswith("age"))
        for sentence in sentences
    )


def test_camera_traps(tmp_path):
    (tmp_path / "survey.csv").write_text("label,count\ndeer,300\nfox,90\nokapi,10\n")
    settings = """
        unit = "group"
        margins.label = { file = "survey.csv", n = 400 }
        outside.label = { empty = "keep" }
        uncovered = "restrict"
    """
    target = Target.from_dict(tomllib.loads(settings), tmp_path)
    data = Pool.from_arrays(
        ["s1", "s1", "s1", "s2", "s2"],
        ["deer", "deer", "empty", "fox", "fox"],
        group=[1, 1, 2, 3, 4],
    )
    strata = target.stratify(data)
    mass = dict(zip(strata.strata, strata.mass.tolist(), strict=True))
    # 4 groups: 1 deer, 1 empty, 2 fox.
    assert mass == pytest.approx(
        {("deer",): 0.75 * 300 / 390, ("empty",): 0.25, ("fox",): 0.75 * 90 / 390}
    )
    assert strata.uncovered == {"label = okapi": 0.025}
    # Half an image more in both levels, and n − 1.
    assert strata.covariance[0, 0] == pytest.approx(0.75**2 * (300.5 / 391) * (90.5 / 391) / 389)


def test_hospitals(tmp_path):
    rows = [f"{age},{sex},{10 + age}" for age in (5, 39, 40, 70, 80) for sex in "fm"]
    (tmp_path / "registry.csv").write_text("\n".join(["age,sex,count", *rows]))
    settings = """
        unit = "group"
        table = "registry.csv"
        bins.age = [0, 40, 60, 75, 120]
        missing.sex = "keep"
    """
    target = Target.from_dict(tomllib.loads(settings), tmp_path)
    ages = [1, 1, 45, 45, 61, 61, 120, 120, 50]
    data = Pool.from_arrays(["h"] * 9, age=ages, sex=["f", "m"] * 4 + [None], group=range(9))
    strata = target.stratify(data)
    mass = dict(zip(strata.strata, strata.mass.tolist(), strict=True))
    assert mass["[0, 40)", "f"] == pytest.approx(8 / 9 * (15 + 49) / (2 * (15 + 49 + 50 + 80 + 90)))
    assert mass["[40, 60)", "(missing)"] == pytest.approx(1 / 9)
    assert strata.mass.sum() == pytest.approx(1)


def test_product_photos():
    target = Target.from_dict(tomllib.loads('sample = "phones/"\nholdout = 0.5'))
    assert (target.kind, target.reference, target.holdout) == ("sample", "phones/", 0.5)


def test_files_may_carry_standard_errors_and_levels_called_na(tmp_path):
    (tmp_path / "survey.csv").write_text("country,share,stderr\nNA,0.25,0.02\nZA,0.75,0.02\n")
    target = Target.from_dict({"margins": {"country": {"file": "survey.csv"}}}, tmp_path)
    assert target.facts[0].cells == (("NA",), ("ZA",))
    assert target.facts[0].stderr == (0.02, 0.02)
    assert Target.from_dict({"margins": {"country": "survey.csv"}}, tmp_path) == target


def test_a_joint_file_may_carry_its_sample_size(tmp_path):
    (tmp_path / "table.csv").write_text("label,sex,count\na,f,1\nb,m,3\n")
    assert Target.from_dict({"table": {"file": "table.csv", "n": 40}}, tmp_path).facts[0].n == 40


@pytest.mark.parametrize(
    ("settings", "message", "facts"),
    [
        ({}, "uniform, margins, table, sample, source", {"key": "target", "value": []}),
        (
            {"uniform": ["label"], "source": "a"},
            "exactly one",
            {"key": "target", "value": ["uniform", "source"]},
        ),
        ({"uniform": ["label"], "holdout": 0.5}, "uniform", {"key": "holdout"}),
        (
            {"uniform": ["label"], "uncoverd": "error"},
            "Did you mean 'uncovered'",
            {"key": "uncoverd"},
        ),
        ({"table": "nowhere.csv"}, "nowhere.csv", {}),
        ({"table": {"rows": [[1]]}}, "by = ", {"key": "table", "value": {"rows": [[1]]}}),
        (
            {"table": {"by": ["label"], "rows": [["a", "b", 1]]}},
            "label",
            {"key": "table", "row": 0, "value": ["a", "b", 1]},
        ),
        (
            {"margins": {"label": {"file": "x.csv", "size": 4}}},
            "file and n",
            {"key": "margins.label", "value": ["size"]},
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message, facts, tmp_path):
    with refused(ConfigError, **facts) as caught:
        Target.from_dict(settings, tmp_path)
    caught.match(message)


def test_a_missing_file_is_named(tmp_path):
    with refused(ConfigError, path=str(tmp_path / "nowhere.csv")):
        Target.from_dict({"table": "nowhere.csv"}, tmp_path)


def test_impossible_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("label,number\ncat,1\n")
    with refused(DataError, path="a.csv", column="label", columns=["label", "number"]):
        Target.from_dict({"margins": {"label": "a.csv"}}, tmp_path)
    (tmp_path / "b.csv").write_text("label,count\ncat,1\ncat,2\n")
    with refused(DataError, path="b.csv", column="label", levels=["cat"]):
        Target.from_dict({"margins": {"label": "b.csv"}}, tmp_path)


def test_a_sample_in_memory_cannot_be_written():
    with refused(ConfigError, key="sample"):
        Target.sample(Pool.from_arrays(["a"])).to_dict()


def test_codes_with_leading_zeros_stay_codes(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text("zone,count\n01,3\n10,1\n")
    target = Target.from_dict({"margins": {"zone": {"file": "zones.csv"}}}, tmp_path)
    assert target.facts[0].cells == (("01",), ("10",))


def test_interactions_of_the_pool_are_written_and_read():
    settings = """
        interactions = "pool"
        margins.label = { cat = 1, dog = 3 }
        margins.light = { day = 1, night = 1 }
    """
    target = Target.from_dict(tomllib.loads(settings))
    assert target.to_dict()["interactions"] == "pool"
    assert Target.from_dict(target.to_dict()) == target
    assert any("those of the pool" in sentence for sentence in target.describe())
    within = Target.from_dict(tomllib.loads(settings.replace("pool", "within")))
    assert "interactions" not in within.to_dict()
    assert any("that the sources share" in sentence for sentence in within.describe())
