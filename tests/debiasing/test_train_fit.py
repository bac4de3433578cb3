"""A split weighed as train was: equal splits alike, on target in each, unbiased for known ω."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from raising import refused
from split_pools import CASES, MARGINS, labelled_frame, twice
from unskew import CoverageError, DataError, Pool, Target
from unskew.bias import Box, Known, Product, Strata, Subpopulation, Tilt
from unskew.debiasing.pool_weights import weigh_splits
from unskew.debiasing.train_fit import TrainFit, masses_text
from unskew.splits.assignment import split_pool


@pytest.mark.parametrize("case", CASES)
def test_a_split_equal_to_train_gets_trains_memberships(case):
    bias, target = CASES[case]
    pool = Pool(twice(labelled_frame(400, groups="group" in case)))
    split = weigh_splits(pool, bias, target, check_sample=False)
    table = split.memberships()
    names = [f"membership_{name}" for name in split.weights.names]
    assert list(table.columns) == ["id", *names]
    own_n = table[names].to_numpy()
    weighed = split.weight > 0
    np.testing.assert_allclose(own_n[weighed].sum(axis=1), 1.0, atol=1e-6)
    # An image's own source could have taken it.
    assert (own_n[weighed, pool.source[weighed]] > 0).all()
    train, copy = (
        table[(pool.frame["split"] == name) & weighed].assign(id=lambda rows: rows["id"] % 10**6)
        for name in ("train", "copy")
    )
    both = train.merge(copy, on="id", suffixes=("", "_copy"))
    assert len(both) >= 0.9 * len(train)
    np.testing.assert_allclose(both[names], both[[f"{name}_copy" for name in names]], atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_split_equal_to_train_gets_trains_weights(case):
    bias, target = CASES[case]
    pool = Pool(twice(labelled_frame(400, groups="group" in case)))
    split = weigh_splits(pool, bias, target, check_sample=False)
    assert split.train == "train"
    frame = split.frame().assign(split=pool.frame["split"], original=pool.frame["id"] % 10**6)
    train, copy = (
        frame[frame["split"] == name].set_index("original") for name in ("train", "copy")
    )
    alone = unskew.debias(
        pool.take(pool.frame["split"] == "train"), bias, target, check_sample=False
    )
    np.testing.assert_array_equal(train["weight"], alone.weight)
    # The same numbers summed in another order.
    np.testing.assert_allclose(copy.loc[train.index, "weight"], train["weight"], rtol=1e-11, atol=0)
    assert split.part("copy").ess == pytest.approx(alone.ess, rel=1e-11)
    assert (
        split.part("copy").zero.keys()
        == {"beyond what their own source selects, as fitted on train"}
        & split.part("copy").zero.keys()
    )
    for part in split.parts:
        assert part.weight.sum() == pytest.approx(1.0, abs=1e-12)
        assert part.sample_weight.mean() == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), by_group=st.booleans(), tilted=st.booleans())
def test_with_strata_every_split_has_the_targets_shares(seed, by_group, tilted):
    frame = labelled_frame(300, seed, groups=by_group)
    pool = split_pool(Pool(frame), {"train": 0.6, "test": 0.4}, rng=seed)
    target = Target.margins({"label": MARGINS}, unit="group" if by_group else "image")
    bias = Product(Strata("label"), Tilt(["x"], reference="a")) if tilted else Strata("label")
    split = weigh_splits(pool, bias, target)
    table = pool.frame.assign(weight=split.weight)
    for name in ("train", "test"):
        share = table[table["split"] == name].groupby("label")["weight"].sum()
        for label, mass in MARGINS.items():
            assert share[label] == pytest.approx(mass, abs=1e-12)
        assert split.part(name).uncovered == {}


def test_groups_share_their_weight_in_every_split():
    """Post-stratification with groups as units: in each split and stratum every group has the same
    weight (groups lie in one stratum).
    """
    pool = split_pool(Pool(labelled_frame(500, groups=True)), {"train": 0.5, "validation": 0.5})
    split = weigh_splits(pool, Strata("label"), Target.margins({"label": MARGINS}, unit="group"))
    table = pool.frame.assign(weight=split.weight)
    for (_, label), cell in table.groupby(["split", "label"]):
        by_group = cell.groupby("group")["weight"].sum()
        np.testing.assert_allclose(by_group, MARGINS[label] / len(by_group), rtol=1e-12)


def test_a_stratum_without_images_in_a_split_is_named_with_its_mass():
    frame = labelled_frame(300).assign(
        split=lambda f: np.where(np.arange(300) % 3 > 0, "train", "test")
    )
    frame = frame[(frame["split"] == "train") | (frame["label"] != "owl")]
    split = weigh_splits(Pool(frame), *CASES["strata"])
    part = split.part("test")
    assert part.uncovered == {"label = owl": pytest.approx(0.2)}
    assert (
        "excluding strata with no images in this split: label = owl (0.2); 0.2 of it in all"
        in part.population
    )
    share = (
        frame.assign(weight=split.weight).query("split == 'test'").groupby("label")["weight"].sum()
    )
    assert share["cat"] == pytest.approx(0.5 / 0.8)


def test_images_of_a_stratum_that_train_lacks_get_weight_0_and_are_counted():
    frame = labelled_frame(300).assign(
        split=lambda f: np.where(np.arange(300) % 3 > 0, "train", "test")
    )
    n_owls = int(((frame["label"] == "owl") & (frame["split"] == "test")).sum())
    frame = frame[(frame["split"] == "test") | (frame["label"] != "owl")]
    target = Target.margins({"label": MARGINS}, uncovered="restrict")
    split = weigh_splits(Pool(frame), Strata("label"), target)
    assert split.part("test").zero == {"train has no image of their label": n_owls}
    assert split.weight[(frame["label"] == "owl").to_numpy()].sum() == 0
    assert (
        f"{n_owls} images get weight 0: train has no image of their label."
        in split.part("test").note
    )
    assert "label = owl (0.2)" in split.part("test").note
    with pytest.raises(CoverageError, match=r"'train'.*label = owl"):
        weigh_splits(Pool(frame), *CASES["strata"])


def test_levels_outside_the_target_are_kept_at_trains_share_in_every_split_or_dropped():
    frame = labelled_frame(600).assign(
        split=lambda f: np.where(np.arange(600) % 3 > 0, "train", "test")
    )
    target = Target.margins({"label": {"cat": 0.6, "dog": 0.4}}, outside={"label": {"owl": "keep"}})
    split = weigh_splits(Pool(frame), Strata("label"), target)
    in_train = float((frame[frame["split"] == "train"]["label"] == "owl").mean())
    share = frame.assign(weight=split.weight).groupby(["split", "label"])["weight"].sum()
    for name in ("train", "test"):
        assert share[name, "owl"] == pytest.approx(in_train, abs=1e-12)
        assert share[name, "cat"] == pytest.approx(0.6 * (1 - in_train), abs=1e-12)
    dropping = Target.margins(
        {"label": {"cat": 0.6, "dog": 0.4}}, outside={"label": {"owl": "drop"}}
    )
    split = weigh_splits(Pool(frame), Strata("label"), dropping)
    assert split.part("test").zero == {
        "outside the target": int(((frame["label"] == "owl") & (frame["split"] == "test")).sum())
    }
    none = Target.margins({"label": {"cat": 0.6, "dog": 0.4, "owl": 0.0}})
    split = weigh_splits(Pool(frame), Strata("label"), none)
    assert split.part("test").zero == {
        "their label has no mass in the target": int(
            ((frame["label"] == "owl") & (frame["split"] == "test")).sum()
        )
    }


def test_missing_values_are_kept_at_their_share_in_every_split():
    frame = labelled_frame(600).assign(
        split=lambda f: np.where(np.arange(600) % 3 > 0, "train", "test")
    )
    frame.loc[::10, "label"] = None
    target = Target.margins({"label": MARGINS}, missing={"label": "keep"})
    share = frame.assign(
        weight=weigh_splits(Pool(frame), Strata("label"), target).weight,
        missing=frame["label"].isna(),
    )
    by_split = share.groupby(["split", "missing"])["weight"].sum()
    assert by_split["test", True] == pytest.approx(
        float(frame[frame["split"] == "train"]["label"].isna().mean()), abs=1e-12
    )


def test_images_beyond_their_own_sources_box_get_weight_0_and_leave_before_the_shares():
    frame = labelled_frame(400).assign(
        split=lambda f: np.where(np.arange(400) % 2 > 0, "train", "test")
    )
    frame["x"] = np.clip(frame["x"], -2.0, 2.0)
    far = frame["id"].isin(frame[frame["split"] == "test"]["id"].iloc[:5])
    without = weigh_splits(Pool(frame[~far]), Box(["x"]), None)
    split = weigh_splits(Pool(frame.assign(x=np.where(far, 50.0, frame["x"]))), Box(["x"]), None)
    extra = split.part("test").zero["beyond what their own source selects, as fitted on train"]
    assert (
        extra
        == without.part("test").zero.get(
            "beyond what their own source selects, as fitted on train", 0
        )
        + 5
    )
    kept = split.weight[~far.to_numpy()]
    np.testing.assert_allclose(kept, without.weight, rtol=1e-12)
    assert (split.weight[far.to_numpy()] == 0).all()


def test_an_image_that_contradicts_a_given_omega_is_an_error_that_names_split_and_image():
    x = np.tile([0.0, 1.0, 1.0, 2.0], 20)
    frame = pd.DataFrame(
        {
            "id": np.arange(80),
            "source": np.tile(list("aabb"), 20),
            "x": x,
            "split": np.repeat(["train", "test"], 40),
        }
    )
    frame.loc[43, "x"] = 0.0
    bias = Subpopulation({"a": "x <= 1", "b": "x >= 1"})
    with refused(DataError, source="b", id=43, count=1) as caught:
        weigh_splits(Pool(frame), bias)
    assert str(caught.value).startswith("in the split 'test': ")


def test_a_source_that_another_split_lacks_leaves_what_only_it_selects_uncovered():
    x = np.tile([0.0, 1.0, 1.0, 2.0], 20)
    frame = pd.DataFrame(
        {
            "id": np.arange(80),
            "source": np.tile(list("aabb"), 20),
            "x": x,
            "split": np.repeat(["train", "test"], 40),
        }
    )
    bias = Subpopulation({"a": "x <= 1", "b": "x >= 1"})
    whole = weigh_splits(Pool(frame), bias)
    np.testing.assert_allclose(whole.part("test").weight, whole.part("train").weight, rtol=1e-12)
    only_a = weigh_splits(Pool(frame[(frame["split"] == "train") | (frame["source"] == "a")]), bias)
    part = only_a.part("test")
    lost = float(whole.part("train").weight[x[:40] == 2].sum())
    assert "excluding what only b selects" in part.population
    assert f"{lost:.4g} of the target" in part.population
    np.testing.assert_allclose(
        part.weight, 1 / 20, rtol=1e-12
    )  # a alone selects all alike where it selects


def test_a_source_in_a_stratum_where_train_has_none_of_it_counts_with_its_own_normalizer():
    """Source b has no cats in train, but a tilt: its Ω among cats is the mean of ω_b over train's
    weighted cats.
    """
    frame = labelled_frame(600, seed=3).assign(
        split=lambda f: np.where(np.arange(600) % 2 > 0, "train", "test")
    )
    frame = frame[(frame["split"] == "test") | (frame["source"] == "a") | (frame["label"] != "cat")]
    bias, target = CASES["strata and tilt"]
    split = weigh_splits(Pool(frame), bias, target)
    fitted = split.weights.estimation.fitted
    cats = frame[frame["label"] == "cat"]
    train_cats, test_cats = (cats[cats["split"] == name] for name in ("train", "test"))
    b = fitted.names.index("b")
    slope = (
        fitted.factors[0].log_omega(test_cats)[:, b],
        fitted.factors[0].log_omega(train_cats)[:, b],
    )
    # Train's cats come from a alone, whose omega is 1: all weigh alike, and Ω_b is a plain mean.
    normalizer_b = np.exp(slope[1]).mean()
    n_a, n_b = ((test_cats["source"] == name).sum() for name in "ab")
    expected = 1 / (n_a + n_b * np.exp(slope[0]) / normalizer_b)
    weight = split.weight[
        (frame["split"] == "test").to_numpy() & (frame["label"] == "cat").to_numpy()
    ]
    np.testing.assert_allclose(weight, MARGINS["cat"] * expected / expected.sum(), rtol=1e-9)


@pytest.mark.slow
def test_with_known_omega_the_mean_of_every_split_is_unbiased():
    """z uniform on {0 … 3}, source a selects ∝ 1, 2, 3, 4 and b ∝ 4, 1, 1, 1: E z = 1.5 in both
    splits, whatever their mix of sources.
    """
    omega = np.array([[1.0, 4.0], [2.0, 1.0], [3.0, 1.0], [4.0, 1.0]])
    means = {"train": [], "test": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        parts = []
        for name, size in {"train": (300, 100), "test": (60, 240)}.items():
            for k, n in enumerate(size):
                z = rng.choice(4, n, p=omega[:, k] / omega[:, k].sum())
                parts.append(pd.DataFrame({"z": z, "source": "ab"[k], "split": name}))
        frame = pd.concat(parts, ignore_index=True).assign(id=lambda f: np.arange(len(f)))
        frame["omega_a"], frame["omega_b"] = omega[frame["z"]].T
        split = weigh_splits(Pool(frame), Known({"a": "omega_a", "b": "omega_b"}))
        for part in split.parts:
            means[part.name].append(float(part.weight @ frame["z"].to_numpy()[part.row]))
    for name, found in means.items():
        stderr = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found) - 1.5) < 3.5 * stderr, name
        assert abs(np.mean(found) - 1.5) < 0.03


def test_a_split_of_nothing_the_target_has_is_an_error_that_names_it():
    frame = labelled_frame(200).assign(
        split=lambda f: np.where(f["label"] == "owl", "test", "train")
    )
    target = Target.margins({"label": {"cat": 0.6, "dog": 0.4}}, outside={"label": {"owl": "drop"}})
    with pytest.raises(CoverageError, match=r"'test'.*\d+ images: outside the target"):
        weigh_splits(Pool(frame), Strata("label"), target)
    with refused(DataError, value="x", allowed=["train", "test"]):
        weigh_splits(
            Pool(labelled_frame(200).assign(split=["train", "test"] * 100)), *CASES["strata"]
        ).part("x")


def test_masses_are_written_largest_first_with_their_sum():
    text = masses_text({"label = owl": 0.125, "label = cat": 0.25})
    assert text == "label = cat (0.25), label = owl (0.125); 0.375 of it in all"


def test_weights_follow_the_splits_own_counts_of_sources():
    """Known ω of two levels: 1/Σ_k n_k ω_k/Ω_k by hand, Ω_k from train."""
    omega = np.array([[1.0, 3.0], [1.0, 1.0]])
    z = np.repeat([0, 0, 0, 1, 0, 1, 1, 1, 1], 10)
    source = np.repeat([1, 1, 1, 1, 0, 0, 0, 0, 0], 10)
    train = Pool.from_arrays(np.array(["a", "b"])[source], a=omega[z, 0], b=omega[z, 1])
    weights = unskew.debias(train, Known({"a": "a", "b": "b"}))
    fit = TrainFit("train", weights.estimation.fitted, weights, None)
    normalizer = weights.weight @ weights.estimation.fitted.omega(train)
    rows = np.array([0, 30, 40])  # two images of b, one of a
    outcome = fit.weigh(rows, train.take(rows))
    size = np.array([{"a": 1, "b": 2}[name] for name in train.names])
    column = [["a", "b"].index(name) for name in train.names]
    expected = 1 / (omega[z[rows]][:, column] * size / normalizer).sum(axis=1)
    np.testing.assert_allclose(outcome.weight, expected / expected.sum(), rtol=1e-6)
    assert (outcome.zero, outcome.uncovered, outcome.population) == ({}, {}, "the target")
