"""Cells of a pool: scope, missing values, groups as units."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from target_pools import (
    ANIMALS,
    animal_pool,
    margin_of,
    mass_of,
    small_pool,
    with_empty,
    with_gaps,
)
from unskew import ConfigError, DataError, Pool, Target
from unskew.target.resolution import find_pool_cells


def test_levels_outside_are_dropped():
    strata = Target.margins({"label": ANIMALS}, outside={"label": {"empty": "drop"}}).stratify(
        with_empty()
    )
    assert mass_of(strata) == pytest.approx(ANIMALS)
    assert (strata.code[-150:] == -1).all()
    assert not strata.weight[-150:].any()
    assert strata.dropped == {"label = empty": 150}
    assert "Dropped: 150 of 750 images, label = empty." in strata.describe()


def test_one_rule_may_hold_for_all_levels_outside_an_attribute():
    target = Target.margins({"label": ANIMALS}, outside={"label": "drop"})
    assert target.stratify(with_empty()).dropped == {"label = empty": 150}
    uniform = Target.uniform("label", outside={"label": {"empty": "keep"}}).stratify(with_empty())
    assert mass_of(uniform) == pytest.approx({**dict.fromkeys(ANIMALS, 0.8 / 3), "empty": 0.2})


def test_values_beyond_the_bins_are_an_error_or_follow_the_rule():
    data = Pool.from_arrays(["a"] * 4, age=[-1, 10, 50, 200])
    bins = {"age": [0, 40, 100]}
    with refused(DataError, column="age", levels=["< 0", "> 100"]):
        Target.uniform("age", bins=bins).stratify(data)
    assert Target.uniform("age", bins=bins, outside={"age": "drop"}).stratify(
        data
    ).code.tolist() == [-1, 0, 1, -1]
    strata = Target.margins(
        {"age": [1, 3]}, bins=bins, outside={"age": {"< 0": "drop", "> 100": "keep"}}
    ).stratify(data)
    assert mass_of(strata) == pytest.approx({"[0, 40)": 1 / 6, "[40, 100]": 1 / 2, "> 100": 1 / 3})


def test_missing_values_are_an_error_unless_the_user_says_what_they_are():
    with refused(DataError, column="label", count=1):
        Target.uniform("label").stratify(with_gaps())


def test_missing_values_may_be_a_level_of_their_own():
    strata = Target.uniform("label", missing={"label": "level"}).stratify(with_gaps())
    assert mass_of(strata) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "(missing)": 1 / 3})
    for nothing in (None, float("nan"), "(missing)"):
        strata = Target.margins(
            {"label": {"x": 1, "y": 2, nothing: 1}}, missing={"label": "level"}
        ).stratify(with_gaps())
        assert mass_of(strata) == {"x": 0.25, "y": 0.5, "(missing)": 0.25}
    with refused(DataError, column="label", levels=["(missing)"]):
        Target.margins({"label": {"x": 1, "y": 2}}, missing={"label": "level"}).stratify(
            with_gaps()
        )


def test_missing_values_may_be_dropped_or_kept_at_their_pool_share():
    dropped = Target.margins({"label": {"x": 1, "y": 3}}, missing={"label": "drop"}).stratify(
        with_gaps()
    )
    assert mass_of(dropped) == {"x": 0.25, "y": 0.75}
    assert dropped.dropped == {"label = (missing)": 1}
    kept = Target.margins({"label": {"x": 1, "y": 3}}, missing={"label": "keep"}).stratify(
        with_gaps()
    )
    assert mass_of(kept) == pytest.approx({"x": 0.75 / 4, "y": 0.75 * 3 / 4, "(missing)": 0.25})


def test_a_row_is_in_scope_only_if_all_its_attributes_are():
    target = Target.margins(
        {"label": {"x": 1, "y": 1}, "sex": {"f": 1, "m": 1}},
        missing={"label": "drop", "sex": "keep"},
    )
    strata = target.stratify(with_gaps())
    assert mass_of(strata) == pytest.approx(
        {("x", "f"): 1 / 3, ("x", "(missing)"): 1 / 3, ("y", "m"): 1 / 3}
    )
    assert strata.code[3] == -1
    assert margin_of(strata, "label") == pytest.approx({"x": 2 / 3, "y": 1 / 3})


def test_groups_as_units_share_their_weight_among_their_images():
    data = animal_pool()
    strata = Target.margins({"label": ANIMALS}, unit="group").stratify(data)
    frame = data.frame.assign(weight=strata.weight)
    n_groups = frame.groupby("label")["group"].nunique()
    assert dict(
        zip([cell[0] for cell in strata.strata], strata.size.tolist(), strict=True)
    ) == pytest.approx(n_groups.to_dict())
    by_group = frame.groupby(["label", "group"])["weight"]
    for (label, _), weight in by_group.sum().items():
        assert weight == pytest.approx(ANIMALS[label] / n_groups[label])
    assert by_group.nunique().max() == 1


def test_pool_shares_count_groups_too():
    data = with_empty()
    strata = Target.margins(
        {"label": ANIMALS}, unit="group", outside={"label": {"empty": "keep"}}
    ).stratify(data)
    assert mass_of(strata)["empty"] == pytest.approx(50 / data["group"].nunique())


def test_more_images_of_a_group_change_no_mass():
    data = with_empty()
    target = Target.margins({"label": ANIMALS}, unit="group", outside={"label": {"empty": "keep"}})
    once, twice = target.stratify(data), target.stratify(pd.concat([data, data], ignore_index=True))
    assert mass_of(once) == pytest.approx(mass_of(twice))
    np.testing.assert_allclose(twice.weight[:750] + twice.weight[750:], once.weight)


def test_a_group_in_several_strata_counts_once_in_each():
    data = Pool.from_arrays(
        ["a"] * 5, ["deer", "deer", "empty", "deer", "fox"], group=[1, 1, 1, 2, 3]
    )
    strata = Target.margins(
        {"label": {"deer": 1, "fox": 1}}, unit="group", outside={"label": "keep"}
    ).stratify(data)
    np.testing.assert_allclose(strata.unit, [0.5, 0.5, 1, 1, 1])
    assert mass_of(strata) == pytest.approx({"deer": 0.375, "empty": 0.25, "fox": 0.375})
    assert "1 groups have images in several strata and count once in each." in strata.describe()


def test_a_level_of_the_data_that_the_target_does_not_name_is_refused_with_the_way_out():
    with pytest.raises(DataError, match=r"fox \(2 images\).* cat, dog\. .*'keep'"):
        Target.margins({"label": {"cat": 1, "dog": 1}}).stratify(small_pool())


def test_a_level_of_the_target_that_the_data_do_not_know_is_taken_for_a_misspelling():
    with refused(DataError, column="label", levels=["fox"]) as caught:
        Target.margins({"label": {"cat": 1, "dog": 1, "fx": 1}}).stratify(small_pool())
    caught.match("names fx, which no image has")
    with refused(DataError, option="outside", column="label", levels=["fux"]) as caught:
        Target.uniform("label", outside={"label": {"fux": "drop"}}).stratify(small_pool())
    caught.match("Did you mean 'fox'")


def test_columns_that_the_pool_lacks_are_named():
    with refused(DataError, column="lable") as caught:
        Target.uniform("lable").stratify(small_pool())
    caught.match("Did you mean 'label'")
    with refused(ConfigError, option="unit", column="group"):
        Target.uniform("label", unit="group").stratify(small_pool())
    frame = small_pool().frame.assign(group=[1, 1, None, 2, 2, 2])
    with refused(DataError, column="group", count=1):
        Target.uniform("label", unit="group").stratify(frame)


def test_the_design_effect_of_groups_is_how_alike_their_images_are():
    rng = np.random.default_rng(0)
    label = rng.choice(list("abc"), 400)
    light = rng.choice(["day", "night"], 400)
    frame = pd.DataFrame({"source": np.repeat(["p", "q"], 200), "label": label, "light": light})
    target = Target.uniform(["label", "light"])
    np.testing.assert_array_equal(find_pool_cells(target, frame).effect_k, [1, 1])
    alone = find_pool_cells(target, frame.assign(group=np.arange(400))).effect_k
    np.testing.assert_allclose(alone, 1)
    # Three copies of every image of the first source.
    copied = frame.assign(group=np.arange(400)).loc[
        np.repeat(np.arange(400), [3] * 200 + [1] * 200)
    ]
    np.testing.assert_allclose(find_pool_cells(target, copied).effect_k, [3, 1])
    # Images that share a group at random: 1, to 10% for 5 cells and 50 groups.
    mixed = find_pool_cells(target, frame.assign(group=np.arange(400) // 4)).effect_k
    np.testing.assert_allclose(mixed, 1, atol=0.3)
