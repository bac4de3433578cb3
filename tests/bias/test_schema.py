"""Bias models <-> TOML and JSON."""

import json
import tomllib

import numpy as np
import pytest

from unskew import ConfigError
from unskew.bias import Bias, Box, Known, Product, Propensity, Strata, Subpopulation, Tilt
from unskew.bias.schema import families, import_function, names_function

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
    assert {model.family for model in MODELS} >= set(families()) - {"soft_box"} - {
        name for name in families() if name.startswith("test")
    }
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
    ("settings", "message"),
    [
        ({}, "says which family"),
        ({"features": ["x"]}, "says which family"),
        ({"family": ["tilt"]}, "says which family"),
        ({"family": "tlit"}, r"no family 'tlit'.*Did you mean 'tilt'"),
        ({"family": "tilt", "feature": ["x"]}, r"no setting feature; .*Did you mean 'features'"),
        ({"family": "tilt"}, "needs the setting features"),
        ({"family": "tilt", "features": 3}, "wrong kind"),
        ({"family": "tilt", "features": ["x"], "ridge": "strong"}, "wrong kind"),
        (
            {"family": "strata", "by": ["x"], "bins": [0, 1]},
            r"such as \{'x': \[0, 40, 60, 75\]\}; got \[0, 1\]",
        ),
        (
            {"family": "strata", "by": ["x"], "bins": {"x": 3}},
            r"bins\['x'\] must be a list of numbers.*got 3",
        ),
        (
            {"family": "strata", "by": ["x"], "bins": {"x": ["low", "high"]}},
            r"bins\['x'\] must be a list of numbers",
        ),
        ({"family": "strata", "by": 3}, "by is the name of an attribute.*got 3"),
        (
            {"family": "soft_box", "features": ["x"], "standardise": "yes"},
            "wrong kind: it is true or false; got 'yes'",
        ),
        (
            {"family": "soft_box", "features": ["x"], "standardise": 1},
            "wrong kind: it is true or false",
        ),
        ({"family": "known", "omega": {"a": 1}, "log": "no"}, "wrong kind: it is true or false"),
        ({"family": "box", "features": ["x"], "quantile": True}, "wrong kind: it is a number"),
        ({"family": "tilt", "features": ["x"], "degree": 1.5}, "wrong kind: it is a whole number"),
        ({"family": "tilt", "features": "x"}, "wrong kind: it is a list of column names; got 'x'"),
        (
            {"family": "tilt", "features": ["x"], "reference": ["a"]},
            "wrong kind: it is the name of a source",
        ),
        (
            {"family": "propensity", "features": ["x"], "folds": "many"},
            "wrong kind: it is a whole number",
        ),
        ({"family": "subpopulation", "queries": ["all"]}, "queries is a table"),
        ({"family": "product", "factors": []}, "a list of bias models"),
        ({"family": "product", "factors": ["tilt"]}, "says which family"),
        ({"family": "product", "parts": [{"family": "strata"}]}, "one setting, factors"),
        (
            {"family": "propensity", "features": ["x"], "classifier": "logstic"},
            "Did you mean 'logistic'",
        ),
    ],
)
def test_wrong_settings_are_explained(settings, message):
    with pytest.raises(ConfigError, match=message):
        Bias.from_dict(settings)


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
        with pytest.raises(ConfigError, match="configuration c"):
            model.to_dict()
    with pytest.raises(ConfigError, match="the family 'tilt', not 'strata'"):
        Strata.from_dict({"family": "tilt", "features": ["x"]})


def test_names_of_functions():
    assert names_function("numpy.linalg:norm")
    assert not any(map(names_function, ("hour > '12:30'", "omega:", ":f", "a:b c", "column", 3)))
    assert import_function("numpy.linalg:norm") is np.linalg.norm
    for text, message in (
        ("numpy:nothing", "cannot be found"),
        ("numpy:pi", "not a function"),
        ("column", "module:function"),
    ):
        with pytest.raises(ConfigError, match=message):
            import_function(text)
