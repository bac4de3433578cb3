"""Every baseline against its closed form; what each needs and says when it is not there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baseline_pools import TARGET, small_pool
from raising import refused
from unskew import ConfigError, DataError, Pool, Target, UnskewError
from unskew.learn import BASELINES, make_baseline, make_baselines


def test_all_side_by_side_and_what_the_others_lack() -> None:
    pool = small_pool(x=lambda n: np.linspace(0, 1, n))
    found = make_baselines(pool)
    of_networks = ["classifier_retraining", "deferred_weighting", "vs_loss"]
    assert list(found.made) == [
        *("naive", "subsample", "class_balanced", "logit_adjustment"),
        *of_networks,
    ]
    assert "needs a target" in found.unavailable["one_source"]
    assert "sample of the target" in found.unavailable["density_ratio"]
    assert sorted(found.table()["baseline"]) == sorted(BASELINES)
    sample = Pool.from_arrays(["t"] * 6, ["car", "bus", "truck"] * 2, x=np.linspace(0.3, 0.9, 6))
    every = make_baselines(
        pool, Target.sample(sample), options={"density_ratio": {"features": ["x"]}}
    )
    assert list(every.made) == list(BASELINES)
    assert not every.unavailable
    for each in every.made.values():
        assert each.weight.sum() == pytest.approx(1.0)
        assert each.sample_weight.mean() == pytest.approx(1.0)
        assert (each.weight >= 0).all()
        assert len(each.describe()) >= 2
    assert list(make_baselines(pool, names=["naive"]).made) == ["naive"]
    with refused(ConfigError, option="target"):
        make_baselines(pool, names=["naive", "one_source"])
    with pytest.raises(ConfigError, match=r"no option 'feature'.*Did you mean 'features'"):
        make_baselines(pool, Target.sample(sample), options={"density_ratio": {"feature": ["x"]}})


UNIFORM, DAY = Target.uniform("label"), Target.source("day")


@pytest.mark.parametrize(
    ("name", "target", "options", "error", "facts"),
    [
        ("nave", None, {}, ConfigError, {"value": "nave", "allowed": list(BASELINES)}),
        ("naive", None, {"seed": 1}, ConfigError, {"option": "seed", "allowed": []}),
        ("naive", {"label": TARGET}, {}, ConfigError, {"option": "target"}),
        ("one_source", UNIFORM, {"source": "dya"}, DataError, {"source": "dya"}),
        ("one_source", None, {}, ConfigError, {"option": "target"}),
        ("subsample", None, {"by": "lable"}, DataError, {"option": "by", "column": "lable"}),
        ("subsample", None, {"by": []}, ConfigError, {"option": "by"}),
        ("logit_adjustment", None, {"form": "post-hoc"}, ConfigError, {"value": "post-hoc"}),
        ("logit_adjustment", None, {"tau": math.inf}, ConfigError, {"option": "tau"}),
        ("logit_adjustment", None, {"tau": "1"}, ConfigError, {"option": "tau", "value": "1"}),
        ("vs_loss", None, {"gamma": -0.1}, ConfigError, {"option": "gamma", "value": -0.1}),
        ("deferred_weighting", None, {"epochs": 1}, ConfigError, {"option": "epochs"}),
        ("density_ratio", UNIFORM, {"features": ["x"]}, ConfigError, {"value": "uniform"}),
        ("density_ratio", DAY, {}, ConfigError, {"option": "features"}),
        ("density_ratio", DAY, {"features": ["y"]}, DataError, {"column": "y"}),
        ("density_ratio", DAY, {"features": ["x"], "C": 0}, ConfigError, {"option": "C"}),
        ("density_ratio", Target.source("dusk"), {"features": ["x"]}, DataError, {}),
        (
            "density_ratio",
            Target.sample(Pool.from_arrays(["t"], ["car"])),
            {"features": ["x"]},
            DataError,
            {"column": "x", "columns": ["id", "source", "label"]},
        ),
    ],
)
def test_bad_input(
    name: str,
    target: object,
    options: dict[str, object],
    error: type[UnskewError],
    facts: dict[str, object],
) -> None:
    with refused(error, **facts):
        make_baseline(name, small_pool(x=lambda n: np.linspace(0, 1, n)), target, **options)


def test_a_misspelt_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'naive'"):
        make_baseline("nave", small_pool())
    with pytest.raises(DataError, match="Did you mean 'day'"):
        make_baseline("one_source", small_pool(), UNIFORM, source="dya")
    with pytest.raises(DataError, match="Did you mean 'label'"):
        make_baseline("subsample", small_pool(), by="lable")


def test_bad_labels_features_and_pools() -> None:
    with refused(DataError, option="pool", value="DataFrame"):
        make_baseline("naive", small_pool().frame)
    with refused(DataError, column="label"):
        make_baseline("class_balanced", Pool.from_arrays(["a", "b"]))
    with refused(DataError, column="label", count=1):
        make_baseline("subsample", Pool.from_arrays(["a", "b"], ["x", None]))
    for bad, facts in ((np.nan, {"column": "x", "count": 1}), (np.inf, {"columns": ["x"]})):
        pool = Pool.from_arrays(["a", "b"], x=[0.0, bad])
        with refused(DataError, **facts):
            make_baseline("density_ratio", pool, Target.source("a"), features=["x"])
