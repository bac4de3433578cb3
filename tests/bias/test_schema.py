"""Bias models <-> TOML and JSON."""

import json
import tomllib

import numpy as np
import pytest

from raising import refused
from unskew import ConfigError
from unskew.bias import (
    Bias,
    Box,
    ClassShift,
    ClassTilt,
    Known,
    Product,
    Propensity,
    Strata,
    Subpopulation,
    Tilt,
)
from unskew.bias.schema import families

MODELS = [
    Known({"a": "chance", "b": 1.0}),
    Known({"a": np.linalg.norm, "b": 0.5}, log=True),
    Subpopulation({"a": "hour > '12:30' and x < 3", "b": "all"}),
    Strata(),
    Strata("label"),
    Strata(["label", "age"], bins={"age": (0, 40, 80)}),
    Box(["x", "y"], quantile=0.05),
    Tilt(["x"]),
    Tilt(("x", "y"), reference="a", degree=2, ridge=0.5),
    Propensity(["x"], classifier="boosting", folds=3),
    Propensity(["x"], classifier="sklearn.naive_bayes:GaussianNB", reference="a", floor=1e-4),
    ClassShift(["x"]),
    ClassTilt(["x"], components=4, directions=0, reference="a"),
    Product(Strata("label"), Tilt(["x"], reference="a")),
    Product(Product(Known({"a": 1, "b": 2}), Box(["x"])), Product(Tilt(["y"], reference="b"))),
]


def as_toml(value):
    """The little TOML that settings need: inline."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {as_toml(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
def test_settings_survive_json_and_toml(model):
    settings = model.to_dict()
    for read in (
        json.loads(json.dumps(settings)),
        tomllib.loads(f"bias = {as_toml(settings)}")["bias"],
    ):
        again = Bias.from_dict(read)
        assert type(again) is type(model)
        assert again.to_dict() == settings
        assert type(model).from_dict(read).to_dict() == settings


def test_every_family_of_the_package_is_covered_and_equal_settings_are_equal_models():
    ours = {name for name, kind in families().items() if kind.__module__.startswith("unskew.")}
    assert {model.family for model in MODELS} >= ours - {"soft_box"}
    assert Strata("age", bins={"age": [0, 40]}) == Strata(["age"], bins={"age": (0, 40)})
    assert Tilt(["x"]) == Bias.from_dict({"family": "tilt", "features": ["x"]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('family = "strata"\nby = ["label"]', Strata(["label"])),
        ('family = "strata"\nby = ["age", "sex"]', Strata(["age", "sex"])),
        (
            'family = "tilt"\nfeatures = ["mean_hsv", "brightness"]',
            Tilt(["mean_hsv", "brightness"]),
        ),
    ],
    ids=["camera traps", "hospitals", "product photos"],
)
def test_the_three_configurations(text, expected):
    assert Bias.from_dict(tomllib.loads(text)) == expected


@pytest.mark.parametrize(
    ("settings", "message", "facts"),
    [
        ({}, "family = ", {"key": "family", "value": {}}),
        ({"features": ["x"]}, "family = ", {"key": "family", "value": {"features": ["x"]}}),
        ({"family": ["tilt"]}, "family = ", {"key": "family", "value": {"family": ["tilt"]}}),
        ({"family": "tlit"}, "Did you mean 'tilt'", {"key": "family", "value": "tlit"}),
        ({"family": "tilt", "feature": ["x"]}, "Did you mean 'features'", {"key": "feature"}),
        ({"family": "tilt"}, "'tilt'", {"key": "features"}),
        ({"family": "tilt", "features": 3}, "'tilt'", {"key": "features", "value": 3}),
        (
            {"family": "tilt", "features": ["x"], "ridge": "strong"},
            "a number",
            {"key": "ridge", "value": "strong"},
        ),
        (
            {"family": "strata", "by": ["x"], "bins": [0, 1]},
            "a mapping of attributes to edges",
            {"option": "bins", "value": [0, 1]},
        ),
        (
            {"family": "strata", "by": ["x"], "bins": {"x": 3}},
            "list of numbers",
            {"option": "bins", "column": "x", "value": 3},
        ),
        (
            {"family": "strata", "by": ["x"], "bins": {"x": ["low", "high"]}},
            "list of numbers",
            {"option": "bins", "column": "x", "value": ["low", "high"]},
        ),
        ({"family": "strata", "by": 3}, "a text", {"option": "by", "value": 3}),
        (
            {"family": "soft_box", "features": ["x"], "standardise": "yes"},
            "true or false",
            {"key": "standardise", "value": "yes"},
        ),
        (
            {"family": "soft_box", "features": ["x"], "standardise": 1},
            "true or false",
            {"key": "standardise", "value": 1},
        ),
        (
            {"family": "known", "omega": {"a": 1}, "log": "no"},
            "true or false",
            {"key": "log", "value": "no"},
        ),
        (
            {"family": "box", "features": ["x"], "quantile": True},
            "a number",
            {"key": "quantile", "value": True},
        ),
        (
            {"family": "tilt", "features": ["x"], "degree": 1.5},
            "a whole number",
            {"key": "degree", "value": 1.5},
        ),
        (
            {"family": "tilt", "features": "x"},
            "a list of column names",
            {"key": "features", "value": "x"},
        ),
        (
            {"family": "tilt", "features": ["x"], "reference": ["a"]},
            "the name of a source",
            {"key": "reference", "value": ["a"]},
        ),
        (
            {"family": "propensity", "features": ["x"], "folds": "many"},
            "a whole number",
            {"key": "folds", "value": "many"},
        ),
        (
            {"family": "subpopulation", "queries": ["all"]},
            "a mapping",
            {"option": "queries", "value": ["all"]},
        ),
        (
            {"family": "product", "factors": []},
            "factors",
            {"key": "factors", "value": {"factors": []}},
        ),
        (
            {"family": "product", "factors": ["tilt"]},
            "family = ",
            {"key": "family", "value": "tilt"},
        ),
        ({"family": "product", "parts": [{"family": "strata"}]}, "factors", {"key": "factors"}),
        (
            {"family": "propensity", "features": ["x"], "classifier": "logstic"},
            "Did you mean 'logistic'",
            {"option": "classifier", "value": "logstic"},
        ),
    ],
)
def test_wrong_settings_are_explained(settings, message, facts):
    with refused(ConfigError, **facts) as caught:
        Bias.from_dict(settings)
    caught.match(message)


def test_numbers_of_numpy_are_numbers():
    settings = Known({"a": np.int64(1), "b": np.float32(0.5)}, log=np.bool_(True)).to_dict()
    assert json.loads(json.dumps(settings)) == {
        "family": "known",
        "omega": {"a": 1, "b": 0.5},
        "log": True,
    }
    model = Tilt(["x"], reference=np.int64(0), ridge=np.float64(2.0), degree=np.int32(2))
    assert Bias.from_dict(json.loads(json.dumps(model.to_dict()))) == Tilt(
        ["x"], reference="0", ridge=2.0, degree=2
    )


def test_what_a_configuration_cannot_hold():
    from sklearn.linear_model import LogisticRegression

    for model in (
        Known({"a": lambda frame: 1}),
        Known(np.ones((2, 2))),
        Propensity(["x"], classifier=LogisticRegression()),
    ):
        with pytest.raises(ConfigError, match="configuration"):
            model.to_dict()
    with refused(ConfigError, option="family", value="tilt", allowed=["strata"]):
        Strata.from_dict({"family": "tilt", "features": ["x"]})
