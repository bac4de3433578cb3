"""Design weights in the fit: ones, scaling, repetition, removal, and the target that is met.

An image of design weight 2 is one that is repeated, both copies in one group, where the design
weights of all sources have the same mean, so that sources keep their shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from simulation_measures import measure_coverage
from unskew import Pool, Target
from unskew.bias import Box, Known, Product, Propensity, SoftBox, Strata, Subpopulation, Tilt
from unskew.errors import ConfigError, DataError
from worlds_design import DESIGNS

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

N = 75
SHARES = Target.margins({"label": {"a": 0.3, "b": 0.7}})
BOTH = Target.margins({"label": {"a": 0.3, "b": 0.7}, "light": {"u": 0.6, "v": 0.4}})


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    source = np.repeat([0, 1, 2], [30, 25, 20])
    x = rng.normal(np.array([0.5, -0.4, 0.0])[source])
    design = [rng.permutation(np.resize([1, 2, 3, 1, 3], size)) for size in (30, 25, 20)]
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "source": np.array(["p", "q", "w"])[source],
            "label": rng.choice(["a", "b"], N),
            "x": x,
            "light": rng.choice(["u", "v"], N),
            "value": x + rng.normal(size=N),
            "design_weight": np.concatenate(design).astype(float),
        }
    )


TABLE = _table()
SAMPLE = pd.DataFrame(
    {
        "id": np.arange(40),
        "source": "t",
        "x": np.random.default_rng(4).normal(size=40),
        "label": np.random.default_rng(5).choice(["a", "b"], 40),
        "design_weight": np.resize([1.0, 3.0, 2.0, 2.0], 40),
    }
)


def _omega(frame: pd.DataFrame) -> np.ndarray:
    x = frame["x"].to_numpy()
    return np.exp(np.column_stack([0.5 * x, -0.4 * x, 0.1 * x**2]))


def _repeated(frame: pd.DataFrame) -> pd.DataFrame:
    at = np.repeat(np.arange(len(frame)), frame["design_weight"].astype(int))
    copies = frame.iloc[at].drop(columns="design_weight")
    return copies.assign(group=at + frame["id"].max() * (frame["source"].iloc[0] == "t") * 9)


def _fit(frame: pd.DataFrame, bias: Any, target: Any) -> Any:
    numbered = frame.assign(id=np.arange(len(frame)))
    bias = Known(_omega(frame)) if bias == "known" else bias
    if isinstance(target, pd.DataFrame):
        target = Target.sample(Pool(target.assign(id=np.arange(len(target)))))
    return unskew.debias(Pool(numbered), bias, target, check_sample=False)


# The model, the target with design weights, the same target with repeated images, and a tolerance:
# a tilt has a tiny ridge in units of the features' scale, which repetition changes; in the error of
# raked masses the sizes of groups vary, where a source's design weights have a fixed sum.
CASES = [
    pytest.param("known", None, None, 1e-12, id="known"),
    pytest.param(
        Subpopulation({"p": "all", "q": "x < 9", "w": "all"}), None, None, 1e-12, id="sub"
    ),
    pytest.param(Strata("label"), SHARES, SHARES, 1e-12, id="strata"),
    pytest.param(Strata(["label", "light"]), BOTH, BOTH, 1e-4, id="raked"),
    pytest.param(Strata("label"), SAMPLE, _repeated(SAMPLE), 1e-12, id="strata_sample"),
    pytest.param(Box(["x"]), None, None, 1e-12, id="box"),
    pytest.param(Tilt(["x"]), SAMPLE, _repeated(SAMPLE), 1e-6, id="tilt"),
    pytest.param(Tilt(["x"]), Target.source("w"), Target.source("w"), 1e-6, id="tilt_source"),
    pytest.param(
        Product(Strata("label"), Tilt(["x"], reference="w")), SHARES, SHARES, 1e-6, id="product"
    ),
]


@pytest.mark.parametrize(("bias", "target", "again", "tolerance"), CASES)
def test_a_design_weight_of_2_is_an_image_that_is_there_twice(
    bias: Any, target: Any, again: Any, tolerance: float
) -> None:
    copies = _repeated(TABLE)
    weights, repeated = _fit(TABLE, bias, target), _fit(copies, bias, again)
    total_n = np.bincount(copies["group"], weights=repeated.weight)
    np.testing.assert_allclose(weights.weight, total_n, rtol=tolerance, atol=1e-9)
    one, two = weights.mean(TABLE["value"]), repeated.mean(copies["value"].to_numpy())
    assert one.value == pytest.approx(two.value, abs=tolerance)
    assert one.stderr == pytest.approx(two.stderr, rel=tolerance)
    assert one.interval == pytest.approx(two.interval, rel=10 * tolerance)
    if not isinstance(bias, Box):  # which is compared by cells of so many images
        assert one.agreement_p == pytest.approx(two.agreement_p, rel=100 * tolerance)


@pytest.mark.parametrize(("bias", "target", "again", "tolerance"), CASES)
def test_ones_are_none_and_scaling_a_source_changes_nothing(
    bias: Any, target: Any, again: Any, tolerance: float
) -> None:
    factor = TABLE["source"].map({"p": 1e-6, "q": 5.0, "w": 1e9})
    weights = _fit(TABLE, bias, target)
    scaled = _fit(TABLE.assign(design_weight=TABLE["design_weight"] * factor), bias, target)
    np.testing.assert_allclose(weights.weight, scaled.weight, rtol=1e-8)
    assert weights.mean(TABLE["value"]).stderr == pytest.approx(
        scaled.mean(TABLE["value"]).stderr, rel=1e-8
    )
    none = _fit(TABLE.drop(columns="design_weight"), bias, target)
    ones = _fit(TABLE.assign(design_weight=factor), bias, target)
    np.testing.assert_array_equal(none.weight, ones.weight)
    assert none.mean(TABLE["value"]) == ones.mean(TABLE["value"])


@pytest.mark.parametrize(("bias", "target", "again", "tolerance"), CASES)
def test_a_design_weight_of_0_leaves_an_image_out(
    bias: Any, target: Any, again: Any, tolerance: float
) -> None:
    kept = TABLE["design_weight"] > 1
    zeros = TABLE.assign(design_weight=TABLE["design_weight"].where(kept, 0.0))
    weights, less = _fit(zeros, bias, target), _fit(TABLE[kept], bias, target)
    np.testing.assert_allclose(weights.weight[kept], less.weight, rtol=1e-9)
    assert not weights.weight[~kept].any()
    one, two = weights.mean(TABLE["value"]), less.mean(TABLE["value"][kept].to_numpy())
    assert one.stderr == pytest.approx(two.stderr, rel=1e-6)
    assert one.interval == pytest.approx(two.interval, rel=1e-6)
    assert weights.estimation.fitted.left_out["design weight 0"] == int((~kept).sum())


def test_the_weighted_pool_meets_the_target() -> None:
    strata = _fit(TABLE, Strata("label"), SHARES)
    assert strata.weight[TABLE["label"] == "a"].sum() == pytest.approx(0.3, rel=1e-14)
    raked = _fit(TABLE, Strata(["label", "light"]), BOTH)
    assert raked.weight[TABLE["label"] == "a"].sum() == pytest.approx(0.3, rel=1e-9)
    assert raked.weight[TABLE["light"] == "u"].sum() == pytest.approx(0.6, rel=1e-9)
    # Within a stratum the images keep the ratios of their design weights.
    ratio = strata.weight / TABLE["design_weight"]
    scale = TABLE.groupby("source")["design_weight"].transform("mean")
    for _, own in (ratio * scale).groupby(TABLE["label"]):
        assert own.max() == pytest.approx(own.min(), rel=1e-12)


def test_a_tilt_fits_the_weighted_means_of_every_source() -> None:
    """The score equations: Σ_i d_i q_ik x_i = Σ_{i in k} d_i x_i, the sample among the sources."""
    fitted = _fit(TABLE, Tilt(["x"]), SAMPLE).estimation.fitted
    profile, x = fitted.profile, fitted.data.frame["x"].to_numpy()
    q = profile.memberships(np.arange(x.size))
    for k in range(4):
        own = fitted.data.source == k
        expected = (fitted.data.design * q[:, k]) @ x
        assert expected == pytest.approx(fitted.data.design[own] @ x[own], rel=1e-6)


def test_numbers_of_omega_take_them_too() -> None:
    weights = _fit(TABLE, "known", None)
    raw = unskew.debias_weights(
        _omega(TABLE), TABLE["source"].to_numpy(), design_weight=TABLE["design_weight"].to_numpy()
    )
    np.testing.assert_allclose(raw.weight, weights.weight, rtol=1e-10)
    assert raw.mean(TABLE["value"]).stderr == pytest.approx(
        weights.mean(TABLE["value"]).stderr, rel=1e-9
    )
    solution = unskew.solve_normalizers(
        _omega(TABLE), TABLE["source"].to_numpy(), design_weight=TABLE["design_weight"].to_numpy()
    )
    np.testing.assert_allclose(solution.normalizer, raw.weight @ _omega(TABLE), rtol=1e-9)
    # Vardi's iteration knows nothing of Newton's.
    slow = unskew.debias_weights(
        _omega(TABLE),
        TABLE["source"].to_numpy(),
        design_weight=TABLE["design_weight"].to_numpy(),
        method="fixed_point",
        tol=1e-12,
    )
    np.testing.assert_allclose(slow.weight, raw.weight, rtol=1e-9)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_a_design_weight_of_a_row_of_omega_is_above_0(wrong: float) -> None:
    design = TABLE["design_weight"].to_numpy().copy()
    design[31] = wrong
    with refused(DataError, row=31, source="q", option="design_weight"):
        unskew.debias_weights(_omega(TABLE), TABLE["source"].to_numpy(), design_weight=design)


def test_who_cannot_take_them_says_so() -> None:
    for bias, name in (
        (SoftBox(["x"]), "SoftBox"),
        (Box(["x"], quantile=0.05), "Box with a quantile"),
    ):
        with refused(ConfigError, option="design_weight", value=name):
            _fit(TABLE, bias, None)
    with refused(ConfigError, option="method", value="sgd"):
        unskew.debias(Pool(TABLE), Known(_omega(TABLE)), method="sgd")


def test_propensity_counts_by_them() -> None:
    logistic = _fit(TABLE, Propensity(["x"], folds=2), SAMPLE)
    plain = _fit(TABLE.drop(columns="design_weight"), Propensity(["x"], folds=2), SAMPLE)
    assert not np.allclose(logistic.weight, plain.weight * TABLE["design_weight"], rtol=0.01)
    from sklearn.neighbors import KNeighborsClassifier

    with refused(ConfigError, option="classifier"):
        _fit(TABLE, Propensity(["x"], classifier=KNeighborsClassifier(), folds=2), SAMPLE)


def test_replicates_keep_the_design_weights_of_their_images() -> None:
    known = _fit(TABLE, "known", None)
    strata = _fit(TABLE, Strata("label"), SHARES)
    for weights in (known, strata):
        drawn = weights.bootstrap(80, 1, TABLE["value"])
        # 80 replicates know a standard error to 8%, and the two formulas differ by 1/n.
        assert drawn.estimate().stderr == pytest.approx(
            weights.mean(TABLE["value"]).stderr, rel=0.3
        )
    # All images of a source alike: each replicate counts as many of it as were drawn.
    one = unskew.debias_weights(
        np.ones((30, 1)), np.zeros(30, dtype=int), design_weight=TABLE["design_weight"][:30]
    )
    np.testing.assert_allclose(one.bootstrap(5, 0).log_normalizer, 0.0, atol=1e-12)


def test_a_split_that_equals_train_gets_its_weights() -> None:
    twice = pd.concat([TABLE.assign(split="train"), TABLE.assign(split="test")])
    pool = Pool(twice.assign(id=np.arange(2 * N)))
    tilt = Product(Strata("label"), Tilt(["x"], reference="w"))
    for bias, target in ((Strata("label"), SHARES), (tilt, SHARES), (Tilt(["x"]), SAMPLE)):
        aim = Target.sample(Pool(target)) if isinstance(target, pd.DataFrame) else target
        split = unskew.weigh_splits(pool, bias, aim, check_sample=False)
        np.testing.assert_allclose(split.weight[:N], split.weight[N:], rtol=1e-9)


def test_an_image_of_a_split_that_is_left_out_is_counted() -> None:
    frame = pd.concat([TABLE.assign(split="train"), TABLE.assign(split="test")])
    design = frame["design_weight"].to_numpy().copy()
    design[[N, N + 1]] = 0.0
    pool = Pool(frame.assign(id=np.arange(2 * N), design_weight=design))
    split = unskew.weigh_splits(pool, Strata("label"), SHARES)
    assert split.part("test").zero == {"design weight 0": 2}
    assert not split.weight[[N, N + 1]].any()


def test_a_new_image_is_weighed_as_one_of_design_weight_1() -> None:
    weights = _fit(TABLE, Tilt(["x"]), SAMPLE)
    scaled = Pool(TABLE).design_weight
    np.testing.assert_allclose(
        weights.weigh(TABLE.drop(columns="design_weight")) * scaled,
        weights.sample_weight,
        rtol=1e-8,
    )
    np.testing.assert_allclose(weights.refit(Pool(TABLE)).weight, weights.weight, rtol=1e-8)


def test_a_test_of_fit_counts_by_them() -> None:
    weights, copies = _fit(TABLE, "known", None), _repeated(TABLE)
    repeated = _fit(copies, "known", None)
    one = unskew.check_fit(
        Pool(TABLE), None, weights=weights, features=["label", "light"], replicates=99
    )
    two = unskew.check_fit(
        Pool(copies.assign(id=np.arange(len(copies)))),
        None,
        weights=repeated,
        features=["label", "light"],
        replicates=99,
    )
    for first, second in zip(one.features, two.features, strict=True):
        # Influences are in single precision.
        assert first.statistic == pytest.approx(second.statistic, rel=1e-4)
        # Two levels have the same excess but for the sign.
        assert abs(first.excess) == pytest.approx(abs(second.excess), rel=1e-9)


def test_models_are_compared_with_them() -> None:
    sample = Target.sample(Pool(SAMPLE.drop(columns="design_weight")))
    quick: Any = {"folds": 2, "check": False, "baseline": False}
    choice = unskew.choose_bias(Pool(TABLE), [Tilt(["x"])], sample, **quick)
    plain = unskew.choose_bias(
        Pool(TABLE.drop(columns="design_weight")), [Tilt(["x"])], sample, **quick
    )
    assert repr(choice) != repr(plain)


def test_the_fit_says_that_images_count_by_them() -> None:
    notes = " ".join(_fit(TABLE, Strata("label"), SHARES).describe().notes)
    assert "design weight" in notes


@pytest.mark.slow
@pytest.mark.parametrize("recipe", DESIGNS)
def test_coverage_with_design_weights(recipe: Any) -> None:
    coverage = measure_coverage(recipe, 300, 13)
    # 95%, less three binomial errors of 1.26%; some 120 images with weights of 1 to 6.
    assert coverage.share > 0.91
    assert abs(coverage.bias) < 0.3 * coverage.spread
