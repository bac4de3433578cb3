"""Small tests of what a review of the public interface found."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from unskew import Pool, Target
from unskew.bias import Box, Product, Propensity, SoftBox, Strata, Tilt
from unskew.errors import DataError, WeakOverlapWarning


def _frame(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    source = np.repeat(["p", "q"], n // 2)
    x = rng.normal(size=n) + np.where(source == "q", 0.5, 0.0)
    return pd.DataFrame(
        {
            "source": source,
            "label": rng.choice(["a", "b", "c"], size=n),
            "x": x,
            "z": rng.normal(size=n),
        }
    )


HALVES = Target.margins({"label": {"a": 0.5, "b": 0.5}})
TILTED = Product(Strata("label"), Tilt(["x"], reference="p"))


def test_a_stratum_without_mass_in_a_product_equals_a_pool_without_it():
    frame = _frame()
    inside = (frame["label"] != "c").to_numpy()
    whole = unskew.debias(
        Pool.from_frame(frame), TILTED, Target.margins({"label": {"a": 0.5, "b": 0.5, "c": 0.0}})
    )
    part = unskew.debias(Pool.from_frame(frame[inside]), TILTED, HALVES)
    np.testing.assert_allclose(whole.weight[inside], part.weight, rtol=1e-12)
    assert whole.weight[~inside].sum() == 0
    value = frame["x"].to_numpy()
    assert whole.mean(value).stderr == pytest.approx(part.mean(value[inside]).stderr, rel=1e-12)


def test_a_level_that_the_sample_does_not_have_has_no_mass_in_a_product():
    frame, sample = _frame(), _frame(120, seed=1)
    target = Target.sample(Pool.from_frame(sample[sample["label"] != "c"]))
    weights = unskew.debias(
        Pool.from_frame(frame), Product(Strata("label"), Tilt(["x"])), target, judge=False
    )
    assert weights.weight[(frame["label"] == "c").to_numpy()].sum() == 0


@pytest.mark.parametrize(
    "model", [SoftBox(["x"]), TILTED, Product(Strata("label"), SoftBox(["x"])), Box(["x"])]
)
def test_weights_survive_pickling(model):
    frame = _frame()
    value = frame["x"].to_numpy()
    target = Target.uniform("label") if isinstance(model, Product) else None
    weights = unskew.debias(Pool.from_frame(frame), model, target)
    again = pickle.loads(pickle.dumps(weights))
    assert again.mean(value) == weights.mean(value)


def test_one_source_that_is_its_own_reference_needs_no_classifier():
    pool = Pool.from_frame(_frame().query("source == 'p'"))
    weights = unskew.debias(pool, Propensity(["x"], "boosting"), Target.source("p"), judge=False)
    np.testing.assert_allclose(weights.sample_weight, 1.0)


def test_second_degree_of_categories_alone_is_the_first():
    pool = Pool.from_frame(_frame())
    first, second = (
        unskew.debias(pool, Tilt(["label"], reference="p", degree=degree)) for degree in (1, 2)
    )
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize("model", [Strata("label"), Tilt(["label"])])
def test_a_column_that_pool_or_sample_lacks_is_named_with_the_one_that_lacks_it(model):
    frame, sample = _frame(), _frame(120, seed=1)
    with pytest.raises(DataError, match="the pool has no column 'label'"):
        unskew.debias(
            Pool.from_frame(frame.drop(columns="label")),
            model,
            Target.sample(Pool.from_frame(sample)),
        )
    with pytest.raises(DataError, match="the target's sample has no column 'label'"):
        unskew.debias(
            Pool.from_frame(frame),
            model,
            Target.sample(Pool.from_frame(sample.drop(columns="label"))),
        )


def test_missing_labels_beside_a_sample_are_an_error_with_a_way_out_that_exists():
    frame, sample = _frame(), _frame(120, seed=1)
    sample.loc[3, "label"] = None
    with pytest.raises(DataError, match="missing for 1 of 120 images of the target's sample"):
        unskew.debias(
            Pool.from_frame(frame), Strata("label"), Target.sample(Pool.from_frame(sample))
        )


def test_a_product_whose_sources_share_no_stratum_is_weak():
    frame = _frame()
    frame["label"] = np.where(frame["source"] == "p", "a", "b")
    with pytest.warns(WeakOverlapWarning, match="`p`, `q`"):
        weights = unskew.debias(Pool.from_frame(frame), TILTED, HALVES)
    assert weights.overlap.verdict == "weak"
    # Strata alone need no link.
    assert unskew.debias(Pool.from_frame(frame), Strata("label"), HALVES).overlap.verdict == "ok"


@pytest.mark.parametrize("model", [TILTED, Product(Strata("label"), Box(["x"]))])
def test_weak_links_within_strata_are_named(model):
    # Of 200 images of each source, about 8 lie where the other has images.
    frame = pd.DataFrame(
        {
            "source": np.repeat(["p", "q"], 200),
            "label": np.tile(["a", "b"], 200),
            "x": [*np.linspace(0, 100, 200), *np.linspace(96, 196, 200)],
        }
    )
    with pytest.warns(unskew.errors.UnskewWarning) as caught:
        weights = unskew.debias(Pool.from_frame(frame), model, HALVES)
    assert weights.overlap.verdict == "weak"
    assert weights.overlap.message.startswith("Within strata: ")
    assert sum(issubclass(each.category, WeakOverlapWarning) for each in caught) == 1


def test_a_weak_link_is_warned_of_once():
    frame = _frame()
    frame["x"] += np.where(frame["source"] == "q", 6.0, 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unskew.debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    assert sum(issubclass(each.category, WeakOverlapWarning) for each in caught) == 1


@pytest.mark.parametrize("values", ["one", 1.0, pd.Timestamp("2020-01-01")])
def test_constant_features_are_named_whatever_their_type(values):
    pool = Pool.from_frame(_frame().assign(same=values))
    with pytest.raises(DataError, match="every feature of the bias model is constant: same"):
        unskew.debias(pool, Tilt(["same"], reference="p"))
    with pytest.warns(unskew.errors.UnskewWarning, match="same: constant"):
        beside = unskew.debias(pool, Tilt(["same", "x"], reference="p"))
    np.testing.assert_allclose(
        beside.weight, unskew.debias(pool, Tilt(["x"], reference="p")).weight, rtol=1e-9
    )


def test_weigh_and_refit_say_what_they_take():
    frame = _frame()
    weights = unskew.debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    with refused(DataError, option="table", value="list"):
        weights.weigh([1.0, 2.0])
    with refused(DataError, option="pool", value="DataFrame"):
        weights.refit(frame)


def test_a_negative_omega_is_shown_as_a_plain_number():
    with pytest.raises(DataError, match=r"row 0 has -1\.0\."):
        unskew.debias(
            Pool.from_frame(_frame().assign(chance=-1.0)),
            unskew.bias.Known({"p": "chance", "q": 1.0}),
        )


def test_one_image_in_every_stratum_shows_no_spread() -> None:
    frame = pd.DataFrame(
        {"source": list("ppqqq"), "label": list("abcde"), "x": [1.0, 5.0, 2.0, 9.0, 4.0]}
    )
    weights = unskew.debias(Pool.from_frame(frame), Strata("label"), Target.uniform("label"))
    assert weights.mean(frame["x"]).stderr == np.inf
    assert weights.mean(np.ones(5)).stderr == 0.0


def test_check_fit_takes_the_fitted_model_and_says_when_nothing_can_be_tested() -> None:
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["p", "q"], 100), label=rng.choice(["a", "b"], 200), x=rng.normal(size=200)
    )
    weights = unskew.debias(pool, Strata("label"), Target.uniform("label"))
    assert (
        "fits these features exactly"
        in unskew.check_fit(pool, weights.estimation.fitted, weights=weights).message
    )
    assert unskew.check_fit(pool, None, weights=weights, features=["x"]).p_value > 0.001


def test_errors_of_quantile_boxes_come_from_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 0.8, 150), rng.uniform(0.2, 1, 150)])
    pool = Pool.from_arrays(np.repeat(["p", "q"], 150), x=x)
    weights = unskew.debias(pool, unskew.bias.Box(["x"], quantile=0.02))
    replicates = weights.bootstrap(100, rng=0, values=x)
    assert weights.mean(x) == replicates.estimate()
