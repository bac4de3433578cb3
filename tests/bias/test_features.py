"""Columns read as numbers or levels, whatever their type; what cannot be used is named."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from two_sources import two_sources
from unskew import ConfigError, DataError, Pool, debias
from unskew.bias import Box, Propensity, SoftBox, Strata, Tilt
from unskew.bias.features import learn_features
from unskew.errors import UnskewWarning

rng = np.random.default_rng(0)
SOURCE = rng.choice(["a", "b"], 200)
X = rng.normal(size=200) + (SOURCE == "a")
MODELS = [Tilt(["x"], reference="a"), Propensity(["x"], reference="a"), Box(["x"])]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
@pytest.mark.parametrize(
    "dtype", ["Float64", "float32", "double[pyarrow]", "object", "Int64", "int64[pyarrow]", "int8"]
)
def test_numbers_are_numbers_in_every_type(model, dtype):
    value = np.round(3 * X) if "nt" in dtype else X.astype(np.float32)
    plain = debias(Pool.from_arrays(SOURCE, x=value.astype(float)), model).weight
    typed = pd.DataFrame({"source": SOURCE, "x": pd.Series(value).astype(dtype)})
    np.testing.assert_allclose(debias(Pool.from_frame(typed), model).weight, plain, rtol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
@pytest.mark.parametrize(
    "dtype", ["bool", "boolean", "bool[pyarrow]", "category", "string", "string[pyarrow]", "object"]
)
def test_levels_are_levels_in_every_type(model, dtype):
    value = X > 0 if "bool" in dtype else np.where(X > 0, "sunny", "cloudy")
    plain = debias(Pool.from_arrays(SOURCE, x=np.where(X > 0, "B", "A")), model).weight
    typed = pd.DataFrame({"source": SOURCE, "x": pd.Series(value).astype(dtype)})
    np.testing.assert_allclose(debias(Pool.from_frame(typed), model).weight, plain, rtol=1e-3)


@pytest.mark.parametrize(
    ("column", "message", "facts"),
    [
        (np.where(np.arange(200) == 5, np.nan, X), "of 200", {"count": 1, "row": 5}),
        (
            pd.array(np.where(np.arange(200) == 5, np.nan, X), dtype="Float64"),
            "of 200",
            {"count": 1, "row": 5},
        ),
        (np.where(np.arange(200) < 2, -np.inf, X), "infinite", {"count": 2}),
        (
            pd.Series(np.where(X > 0, "p", "q")).where(np.arange(200) > 2),
            "fillna",
            {"count": 3, "row": 0},
        ),
        ([f"{value:.3f}" for value in X], "to_numeric", {}),
        (pd.date_range("2020-01-01", periods=200), "days", {"count": 200}),
        ([f"image{k}.jpg" for k in range(200)], "image0.jpg", {"count": 200}),
    ],
)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
def test_values_that_cannot_be_used_are_refused(model, column, message, facts):
    with refused(DataError, column="x", **facts) as caught:
        debias(Pool.from_arrays(SOURCE, x=column), model)
    caught.match(message)


@pytest.mark.parametrize("family", [Tilt, Propensity, Box])
def test_names_of_features(family):
    pool = Pool.from_arrays(SOURCE, hsv=np.column_stack([X, X**2]), text=["p", "q"] * 100)
    kwargs = {} if family is Box else {"reference": "a"}
    for error, features, facts in (
        (ConfigError, [], {"option": "features", "value": []}),
        (ConfigError, "hsv", {"option": "features", "value": "hsv"}),
        (DataError, ["hvs"], {"columns": ["hvs"]}),
        (ConfigError, ["hsv", "hsv_0"], {"option": "features", "columns": ["hsv_0"]}),
    ):
        with refused(error, **facts):
            debias(pool, family(features, **kwargs))
    fitted = family(["hsv", "text"], **kwargs).fit(pool)
    with refused(DataError, columns=["text"]):
        fitted.omega(pool.frame.drop(columns="text"))
    if family is not Box:
        with refused(DataError, column="text", levels=["r"]) as caught:
            fitted.omega(pool.frame.assign(text="r"))
        caught.match(r"r \(200 images\).*p, q")


def test_columns_that_say_nothing_are_left_out_with_a_warning():
    frame = pd.DataFrame(
        {"x": X, "twice": 2 * X + 1, "same": 3.0, "far": 1e9 + X**2, "kind": ["p", "q"] * 100}
    )
    with pytest.warns(UnskewWarning, match="twice, same"):
        kept, notes = learn_features(frame, ["x", "twice", "same", "far", "kind"])
    assert kept.labels == ("x", "far", "kind = q")
    assert "left out of the bias model" in notes[0]
    with refused(DataError, columns=["same"]):
        learn_features(frame, ["same"])
    clean, notes = learn_features(frame, ["x", "kind"], degree=2)
    assert clean.labels == ("x", "kind = q", "x × x")
    assert notes == ()
    np.testing.assert_allclose(
        clean.read(frame)[:, 2], np.square((X - X.mean()) / X.std()), rtol=1e-9
    )


def test_degree_2_of_levels_alone_is_degree_1():
    frame = pd.DataFrame({"kind": ["p", "q"] * 100})
    assert learn_features(frame, ["kind"], degree=2)[0].read(frame).shape == (200, 1)


@pytest.mark.parametrize(
    ("make", "option", "value"),
    [
        (lambda: Tilt(None), "features", None),
        (lambda: Box([0]), "features", [0]),
        (lambda: Tilt(["x"], ridge=None), "ridge", None),
        (lambda: Box(["x"], quantile="0.1"), "quantile", "0.1"),
        (lambda: Propensity(["x"], folds=2.5), "folds", 2.5),
        (lambda: Propensity(["x"], floor="small"), "floor", "small"),
        (lambda: Strata([]), "by", []),
    ],
)
def test_settings_of_the_wrong_kind_are_refused(make, option, value):
    with refused(ConfigError, option=option, value=value):
        make()


def test_columns_that_are_numbered_are_named_by_text():
    pool = Pool.from_frame(pd.DataFrame(np.column_stack([X, X])).assign(source=SOURCE))
    expected = debias(Pool.from_arrays(SOURCE, x=X), Tilt(["x"], reference="a")).weight
    np.testing.assert_allclose(
        debias(pool, Tilt(["0"], reference="a")).weight, expected, rtol=1e-12
    )


@pytest.mark.parametrize("family", [Box, SoftBox, Tilt])
@pytest.mark.parametrize("extra", ["twice", "sum"])
def test_a_combination_of_features_is_named(family, extra):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(size=(2, 400))
    columns = {"x": x, "z": z, "twice": 2 * x + 3, "sum": x + z}
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 200), **{name: columns[name] for name in ("x", "z", extra)}
    )
    model = (
        family(["x", "z", extra], reference="a") if family is Tilt else family(["x", "z", extra])
    )
    with pytest.warns(UnskewWarning, match=extra):
        fitted = model.fit(pool)
    assert any(extra in note for note in fitted.describe().notes)
    plain = family(["x", "z"], reference="a") if family is Tilt else family(["x", "z"])
    plain.fit(pool)


@pytest.mark.parametrize("values", ["one", 1.0, pd.Timestamp("2020-01-01")])
def test_constant_features_are_named_whatever_their_type(values):
    pool = Pool.from_frame(two_sources().assign(same=values))
    with pytest.raises(DataError, match="constant: same"):
        debias(pool, Tilt(["same"], reference="p"))
    with pytest.warns(UnskewWarning, match="same: constant"):
        beside = debias(pool, Tilt(["same", "x"], reference="p"))
    np.testing.assert_allclose(
        beside.weight, debias(pool, Tilt(["x"], reference="p")).weight, rtol=1e-9
    )
