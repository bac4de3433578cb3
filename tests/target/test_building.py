"""Targets against closed forms: masses, raking, units, scope, coverage and their covariance."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unskew import CoverageError, DataError, Pool, Target
from unskew.target.mass_covariance import balanced_covariance, multinomial_covariance

ANIMALS = {"cat": 0.5, "dog": 0.3, "fox": 0.2}
LIGHT = {"day": 0.4, "night": 0.6}


def pool(seed=0, n=600):
    """Two attributes that depend on one another, a numeric one, groups that lie within a label."""
    rng = np.random.default_rng(seed)
    label_n = rng.choice(list(ANIMALS), n, p=[0.2, 0.3, 0.5])
    light_n = np.where(rng.random(n) < 0.3 + 0.4 * (label_n == "cat"), "day", "night")
    return Pool.from_arrays(
        rng.choice(["north", "south"], n),
        label_n,
        light=light_n,
        age=rng.uniform(0, 100, n),
        group=[f"{x}{rng.integers(20)}" for x in label_n],
    )


def mass_of(strata):
    """{level or levels: target mass}."""
    return {
        cell[0] if len(cell) == 1 else cell: mass
        for cell, mass in zip(strata.strata, strata.mass.tolist(), strict=True)
    }


def margin_of(strata, attribute):
    at = strata.by.index(attribute)
    return pd.Series(strata.mass).groupby([cell[at] for cell in strata.strata]).sum().to_dict()


def odds(strata, a=("cat", "dog"), b=("day", "night")):
    mass = mass_of(strata)
    return mass[a[0], b[0]] * mass[a[1], b[1]] / (mass[a[0], b[1]] * mass[a[1], b[0]])


def counts(frame, *by):
    return frame.groupby(list(by)).size().reset_index(name="count")


# --- the five ways
# -----------------------------------------------------------------------------------------------------------------


def test_uniform_gives_each_of_m_levels_one_mth():
    assert mass_of(Target.uniform("label").stratify(pool())) == pytest.approx(
        dict.fromkeys(ANIMALS, 1 / 3)
    )
    joint = mass_of(Target.uniform(["label", "light"]).stratify(pool()))
    assert joint == pytest.approx(dict.fromkeys(itertools.product(ANIMALS, LIGHT), 1 / 6))


def test_one_margin_is_itself_and_the_weights_are_post_stratification():
    data = pool()
    strata = Target.margins({"label": ANIMALS}).stratify(data)
    assert mass_of(strata) == pytest.approx(ANIMALS, abs=1e-15)
    count = data.frame["label"].value_counts()
    np.testing.assert_allclose(
        strata.weight, [ANIMALS[level] / count[level] for level in data.frame["label"]], rtol=1e-13
    )
    assert [strata.strata[c][0] for c in strata.code] == data.frame["label"].tolist()
    assert strata.population == "the target"
    assert strata.covariance is None


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3), st.integers(1, 1000))
def test_a_multiple_of_all_counts_changes_nothing(number, factor):
    assume(sum(number) > 0)
    once = Target.margins({"label": dict(zip(ANIMALS, number, strict=True))})
    often = Target.margins(
        {"label": dict(zip(ANIMALS, [factor * each for each in number], strict=True))}
    )
    assert once.facts[0].mass == pytest.approx(often.facts[0].mass, abs=1e-15)
    assert sum(once.facts[0].mass) == pytest.approx(1, abs=1e-15)


def test_a_joint_table_has_the_masses_and_margins_of_its_counts():
    data = pool()
    table = pd.DataFrame(
        [(a, b, 10 * i + 3) for i, (a, b) in enumerate(itertools.product(ANIMALS, LIGHT))],
        columns=["label", "light", "count"],
    )
    strata = Target.table(table).stratify(data)
    total = table["count"].sum()
    assert mass_of(strata) == pytest.approx(
        {(a, b): count / total for a, b, count in table.itertuples(index=False)}
    )
    assert margin_of(strata, "light") == pytest.approx(
        (table.groupby("light")["count"].sum() / total).to_dict()
    )
    # Over fewer attributes the others are added up.
    assert mass_of(Target.table(table, by=["light"]).stratify(data)) == pytest.approx(
        margin_of(strata, "light")
    )


def test_a_sample_and_a_source_resolve_to_themselves():
    data, phones = pool(), Pool.from_arrays(["phone"] * 5, brightness=np.arange(5.0))
    found = Target.sample(phones, holdout=0.5).resolve(data)
    assert (found.sample, found.source, found.holdout) == (phones, None, 0.5)
    assert found.describe() == (
        "The target is the population that a sample of 5 images was drawn from.",
        "The sample has no labels: that the labels follow from the features as in the sources is "
        "assumed.",
        "50% of the reference is held out to judge.",
    )
    found = Target.source("south").resolve(data)
    assert (found.sample, found.source) == (None, "south")
    assert "that it is unbiased is assumed" in found.describe()[0]
    assert f"{data.sizes[data.names.index('south')]} of 600 images" in found.describe()[-1]
    assert Target.source("south").resolve(data.frame).source == "south"


# --- levels and bins
# ---------------------------------------------------------------------------------------------------------------


def test_levels_are_compared_as_text():
    data = Pool.from_arrays(["a"] * 3, [0, 1, 1])
    as_numbers = Target.margins({"label": {0: 0.25, 1: 0.75}}).stratify(data)
    as_text = Target.margins({"label": {"0": 0.25, "1": 0.75}}).stratify(data)
    assert mass_of(as_numbers) == mass_of(as_text) == {"0": 0.25, "1": 0.75}
    with_gaps = pd.DataFrame(
        {"source": "a", "label": [0.0, 1.0, None]}
    )  # integers that a missing value made floats
    assert Target.margins({"label": {0: 0.25, 1: 0.75}}, missing={"label": "drop"}).stratify(
        with_gaps
    ).code.tolist() == [0, 1, -1]
    booleans = Pool.from_arrays(["a"] * 2, [True, False])
    assert mass_of(Target.margins({"label": {True: 0.25, False: 0.75}}).stratify(booleans)) == {
        "True": 0.25,
        "False": 0.75,
    }


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    data = Pool.from_arrays(["a"] * 5, age=[0, 39.9, 40, 60, 120])
    target = Target.margins({"age": [0.2, 0.3, 0.5]}, bins={"age": [0, 40, 60, 120]})
    strata = target.stratify(data.frame[data.frame.index != 9])
    assert [strata.strata[c][0] for c in strata.code] == [
        "[0, 40)",
        "[0, 40)",
        "[40, 60)",
        "[60, 120]",
        "[60, 120]",
    ]
    assert mass_of(strata) == pytest.approx({"[0, 40)": 0.2, "[40, 60)": 0.3, "[60, 120]": 0.5})


def test_finer_levels_are_added_up_within_bins():
    data = pool()
    bins = {"age": [0, 40, 60, 100]}
    by_year = {year: year + 1 for year in range(100)}
    coarse = {
        "[0, 40)": sum(range(1, 41)),
        "[40, 60)": sum(range(41, 61)),
        "[60, 100]": sum(range(61, 101)),
    }
    expected = mass_of(Target.margins({"age": coarse}, bins=bins).stratify(data))
    assert mass_of(Target.margins({"age": by_year}, bins=bins).stratify(data)) == pytest.approx(
        expected
    )
    table = pd.DataFrame({"age": list(by_year), "count": list(by_year.values())})
    assert mass_of(Target.table(table, bins=bins).stratify(data)) == pytest.approx(expected)


def test_uniform_over_bins_counts_every_bin():
    data = Pool.from_arrays(["a"] * 3, age=[1, 2, 50])
    target = Target.uniform("age", bins={"age": [0, 40, 60, 100]}, uncovered="restrict")
    strata = target.stratify(data)
    assert strata.uncovered == pytest.approx({"age = [60, 100]": 1 / 3})
    assert mass_of(strata) == pytest.approx({"[0, 40)": 0.5, "[40, 60)": 0.5})


# --- raking
# ------------------------------------------------------------------------------------------------------------------------


def test_raking_meets_the_margins_and_keeps_the_pools_odds_ratios():
    data = pool()
    strata = Target.margins({"label": ANIMALS, "light": LIGHT}).stratify(data)
    assert margin_of(strata, "label") == pytest.approx(ANIMALS, abs=1e-12)
    assert margin_of(strata, "light") == pytest.approx(LIGHT, abs=1e-12)
    own = Target.table(counts(data.frame, "label", "light")).stratify(data)
    for pair in itertools.combinations(ANIMALS, 2):
        assert odds(strata, pair) == pytest.approx(odds(own, pair), rel=1e-9)
    assert any(
        "interactions (odds ratios) are assumed to be those of the pool" in said
        for said in strata.describe()
    )


def test_margins_that_hold_already_change_nothing():
    data = pool()
    own = {name: (data.frame[name].value_counts()).to_dict() for name in ("label", "light")}
    strata = Target.margins(own).stratify(data)
    assert mass_of(strata) == pytest.approx(
        mass_of(Target.table(counts(data.frame, "label", "light")).stratify(data)), abs=1e-14
    )
    np.testing.assert_allclose(strata.weight, 1 / 600, rtol=1e-12)


def test_a_table_named_by_the_user_gives_its_own_odds_ratios():
    data = pool()
    independent = pd.DataFrame(
        [(a, b, 1) for a, b in itertools.product(ANIMALS, LIGHT)],
        columns=["label", "light", "count"],
    )
    target = Target.margins({"label": ANIMALS, "light": LIGHT}, interactions=independent)
    strata = target.stratify(data)
    assert mass_of(strata) == pytest.approx(
        {(a, b): ANIMALS[a] * LIGHT[b] for a, b in itertools.product(ANIMALS, LIGHT)}, abs=1e-12
    )
    assert any("those of the table given for them" in said for said in target.describe())


@given(st.integers(0, 10**6))
def test_raking_keeps_odds_ratios_whatever_the_margins(seed):
    rng = np.random.default_rng(seed)
    data = pool(seed=3)
    margins = {
        "label": dict(zip(ANIMALS, rng.integers(1, 100, 3).tolist(), strict=True)),
        "light": dict(zip(LIGHT, rng.integers(1, 100, 2).tolist(), strict=True)),
    }
    strata = Target.margins(margins).stratify(data)
    own = Target.table(counts(data.frame, "label", "light")).stratify(data)
    assert odds(strata) == pytest.approx(odds(own), rel=1e-8)
    for name, margin in margins.items():
        assert margin_of(strata, name) == pytest.approx(
            {level: number / sum(margin.values()) for level, number in margin.items()}, abs=1e-12
        )


def test_margins_that_need_empty_combinations_cannot_be_raked():
    data = Pool.from_arrays(
        ["a"] * 4, ["cat", "cat", "dog", "dog"], light=["day", "day", "night", "night"]
    )
    with pytest.raises(
        CoverageError,
        match=r"cannot be raked from the pool's own table, because combinations .* are empty",
    ):
        Target.margins({"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 3}}).stratify(
            data
        )


# --- scope: outside, missing
# -------------------------------------------------------------------------------------------------------


def with_empty(n_empty=150):
    frame = pool().frame[["source", "label", "group"]].copy()
    return pd.concat(
        [
            frame,
            pd.DataFrame(
                {
                    "source": "north",
                    "label": ["empty"] * n_empty,
                    "group": [f"e{i // 3}" for i in range(n_empty)],
                }
            ),
        ],
        ignore_index=True,
    )


def test_levels_outside_are_kept_at_their_pool_share():
    strata = Target.margins({"label": ANIMALS}, outside={"label": {"empty": "keep"}}).stratify(
        with_empty()
    )
    assert mass_of(strata) == pytest.approx(
        {**{level: 0.8 * mass for level, mass in ANIMALS.items()}, "empty": 0.2}
    )
    assert strata.in_scope.tolist() == [cell != ("empty",) for cell in strata.strata]
    assert strata.weight.sum() == pytest.approx(1)
    assert any(
        said == "Kept at its pool share, 0.2: label = empty (150 images)."
        for said in strata.describe()
    )
    assert (
        strata.population
        == "the target, with images outside its scope added at their pool share (0.2)"
    )


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
    with pytest.raises(
        DataError,
        match=r"images have age = < 0 \(1 images\), > 100 \(1 images\), .*Widen the bins, or say",
    ):
        Target.uniform("age", bins=bins).stratify(data)
    assert Target.uniform("age", bins=bins, outside={"age": "drop"}).stratify(
        data
    ).code.tolist() == [-1, 0, 1, -1]
    strata = Target.margins(
        {"age": [1, 3]}, bins=bins, outside={"age": {"< 0": "drop", "> 100": "keep"}}
    ).stratify(data)
    assert mass_of(strata) == pytest.approx({"[0, 40)": 1 / 6, "[40, 100]": 1 / 2, "> 100": 1 / 3})


def gaps():
    return pd.DataFrame(
        {"source": "a", "label": ["x", "x", "y", None], "sex": ["f", None, "m", "m"]}
    )


def test_missing_values_are_an_error_unless_the_user_says_what_they_are():
    with pytest.raises(DataError, match="label is missing for 1 of 4 images"):
        Target.uniform("label").stratify(gaps())


def test_missing_values_may_be_a_level_of_their_own():
    strata = Target.uniform("label", missing={"label": "level"}).stratify(gaps())
    assert mass_of(strata) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "(missing)": 1 / 3})
    for nothing in (None, float("nan"), "(missing)"):
        strata = Target.margins(
            {"label": {"x": 1, "y": 2, nothing: 1}}, missing={"label": "level"}
        ).stratify(gaps())
        assert mass_of(strata) == {"x": 0.25, "y": 0.5, "(missing)": 0.25}
    with pytest.raises(
        DataError,
        match=r"images have label = \(missing\) \(1 images\), which the target does not name",
    ):
        Target.margins({"label": {"x": 1, "y": 2}}, missing={"label": "level"}).stratify(gaps())


def test_missing_values_may_be_dropped_or_kept_at_their_pool_share():
    dropped = Target.margins({"label": {"x": 1, "y": 3}}, missing={"label": "drop"}).stratify(
        gaps()
    )
    assert mass_of(dropped) == {"x": 0.25, "y": 0.75}
    assert dropped.dropped == {"label = (missing)": 1}
    kept = Target.margins({"label": {"x": 1, "y": 3}}, missing={"label": "keep"}).stratify(gaps())
    assert mass_of(kept) == pytest.approx({"x": 0.75 / 4, "y": 0.75 * 3 / 4, "(missing)": 0.25})


def test_a_row_is_in_scope_only_if_all_its_attributes_are():
    target = Target.margins(
        {"label": {"x": 1, "y": 1}, "sex": {"f": 1, "m": 1}},
        missing={"label": "drop", "sex": "keep"},
    )
    strata = target.stratify(gaps())
    assert mass_of(strata) == pytest.approx(
        {("x", "f"): 1 / 3, ("x", "(missing)"): 1 / 3, ("y", "m"): 1 / 3}
    )
    assert strata.code[3] == -1
    assert margin_of(strata, "label") == pytest.approx({"x": 2 / 3, "y": 1 / 3})


# --- units
# -------------------------------------------------------------------------------------------------------------------------


def test_groups_as_units_share_their_weight_among_their_images():
    data = pool()
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


# --- coverage
# ----------------------------------------------------------------------------------------------------------------------

WITH_OKAPI = {"cat": 0.4, "dog": 0.3, "fox": 0.2, "okapi": 0.1}


def test_mass_without_images_is_an_error_that_names_it():
    with pytest.raises(
        CoverageError,
        match=r"no source has an image: label = okapi \(0.1\); 0.1 of the target in all. "
        r".*'restrict'",
    ):
        Target.margins({"label": WITH_OKAPI}).stratify(pool())
    frame = pool().frame
    frame = frame[(frame["label"] != "cat") | (frame["light"] != "day")]
    with pytest.raises(CoverageError, match=r"label = cat × light = day \(0.1667\)"):
        Target.uniform(["label", "light"]).stratify(frame)
    with pytest.raises(CoverageError, match=r"label = okapi \(0.1\)"):
        Target.margins({"label": WITH_OKAPI, "light": LIGHT}).stratify(pool())


def test_restriction_renormalises_and_says_which_population_is_left():
    strata = Target.margins({"label": WITH_OKAPI}, uncovered="restrict").stratify(pool())
    assert mass_of(strata) == pytest.approx({"cat": 4 / 9, "dog": 3 / 9, "fox": 2 / 9})
    assert strata.uncovered == {"label = okapi": 0.1}
    assert (
        strata.population
        == "the target without what no source has an image of: label = okapi (0.1)"
    )
    assert strata.describe()[-1] == f"Results speak of {strata.population}."


def test_restriction_of_raked_margins():
    strata = Target.margins({"label": WITH_OKAPI, "light": LIGHT}, uncovered="restrict").stratify(
        pool()
    )
    assert margin_of(strata, "label") == pytest.approx(
        {"cat": 4 / 9, "dog": 3 / 9, "fox": 2 / 9}, abs=1e-12
    )
    assert margin_of(strata, "light") == pytest.approx(LIGHT, abs=1e-12)
    assert "the other margins taken as unchanged" in strata.population


def test_restriction_of_a_table_that_margins_are_raked_from():
    """Raked over the whole table, then conditioned on what is covered."""
    data = pool()
    frame = data.frame[(data.frame["label"] != "cat") | (data.frame["light"] != "day")]
    table = pd.DataFrame(
        [(a, b, 1) for a, b in itertools.product(ANIMALS, LIGHT)],
        columns=["label", "light", "count"],
    )
    strata = Target.margins(
        {"label": ANIMALS, "light": LIGHT}, interactions=table, uncovered="restrict"
    ).stratify(frame)
    assert strata.uncovered == pytest.approx({"label = cat × light = day": 0.2})
    assert mass_of(strata)["dog", "day"] == pytest.approx(0.3 * 0.4 / 0.8)


def test_a_target_without_any_image_is_an_error_even_if_restricted():
    with pytest.raises(CoverageError, match="no image lies where the target has mass"):
        Target.margins(
            {"label": {"okapi": 1.0, "cat": 0.0, "dog": 0.0, "fox": 0.0}}, uncovered="restrict"
        ).stratify(pool())
    with pytest.raises(CoverageError, match="no image is within the target's scope"):
        Target.margins({"label": {"okapi": 1.0}}, outside={"label": "keep"}).stratify(pool())
    with pytest.raises(DataError, match="drops every image"):
        Target.margins({"label": {"okapi": 1.0}}, outside={"label": "drop"}).stratify(pool())


def test_a_level_of_mass_zero_takes_its_images_out_and_says_so():
    strata = Target.margins({"label": {"cat": 1, "dog": 1, "fox": 0}}).stratify(pool())
    fox_n = pool().frame["label"] == "fox"
    assert not strata.weight[fox_n].any()
    assert f"{fox_n.sum()} images get weight 0: the target has no label = fox." in strata.describe()


# --- errors of the masses
# ----------------------------------------------------------------------------------------------------------


def covariance_of(strata, levels):
    order = [
        strata.strata.index(level if isinstance(level, tuple) else (level,)) for level in levels
    ]
    return strata.covariance[np.ix_(order, order)]


def test_a_sample_size_gives_the_multinomial_covariance():
    strata = Target.margins({"label": {"mass": ANIMALS, "n": 400}}).stratify(pool())
    p = np.array(list(ANIMALS.values()))
    np.testing.assert_allclose(
        covariance_of(strata, ANIMALS), (np.diag(p) - np.outer(p, p)) / 400, rtol=1e-14
    )
    assert any(
        "from a sample of 400, whose multinomial error enters every interval" in said
        for said in strata.describe()
    )
    table = pd.DataFrame({"label": list(ANIMALS), "share": p})
    np.testing.assert_allclose(
        Target.table(table, n=400).stratify(pool()).covariance, strata.covariance
    )


def test_restriction_conditions_the_multinomial():
    """Of n drawn, nP are covered: multinomial(nP, q)."""
    strata = Target.margins(
        {"label": {"mass": WITH_OKAPI, "n": 400}}, uncovered="restrict"
    ).stratify(pool())
    q = np.array([4, 3, 2]) / 9
    np.testing.assert_allclose(
        covariance_of(strata, ANIMALS), multinomial_covariance(q, 400 * 0.9), rtol=1e-12
    )


def test_what_is_kept_at_its_pool_share_scales_the_covariance():
    given = {"label": {"mass": ANIMALS, "n": 400}}
    strata = Target.margins(given, outside={"label": {"empty": "keep"}}).stratify(with_empty())
    inner = multinomial_covariance(np.array(list(ANIMALS.values())), 400)
    np.testing.assert_allclose(covariance_of(strata, ANIMALS), 0.64 * inner)
    assert not covariance_of(strata, ["empty"]).any()


def test_raked_covariance_of_independent_attributes_has_a_closed_form():
    """p_ab = p_a p_b, so Σ = V_a ⊗ p_b p_bᵀ + p_a p_aᵀ ⊗ V_b."""
    table = pd.DataFrame(
        [(a, b, 1) for a, b in itertools.product(ANIMALS, LIGHT)],
        columns=["label", "light", "count"],
    )
    given = {
        "label": {"mass": ANIMALS, "n": 400},
        "light": {"mass": LIGHT, "stderr": {"day": 0.03, "night": 0.03}},
    }
    strata = Target.margins(given, interactions=table).stratify(pool())
    a, b = np.array(list(ANIMALS.values())), np.array(list(LIGHT.values()))
    v_b = 0.03**2 * np.array([[1, -1], [-1, 1]])
    expected = np.kron(multinomial_covariance(a, 400), np.outer(b, b)) + np.kron(
        np.outer(a, a), v_b
    )
    np.testing.assert_allclose(
        covariance_of(strata, list(itertools.product(ANIMALS, LIGHT))), expected, atol=1e-15
    )


def test_raked_covariance_agrees_with_numerical_derivatives():
    data = pool()
    levels = list(itertools.product(ANIMALS, LIGHT))

    def masses(label):
        found = mass_of(Target.margins({"label": label, "light": LIGHT}).stratify(data))
        return np.array([found[cell] for cell in levels])

    step, p = 1e-5, np.array(list(ANIMALS.values()))
    # Errors that move mass from one level to another, as rows: the multinomial covariance is a sum
    # of them.
    moves = [(i, j) for i, j in itertools.combinations(range(3), 2)]
    expected = np.zeros((6, 6))
    for i, j in moves:
        up, down = p.copy(), p.copy()
        up[[i, j]] += [step, -step]
        down[[i, j]] -= [step, -step]
        slope = (
            masses(dict(zip(ANIMALS, up, strict=True)))
            - masses(dict(zip(ANIMALS, down, strict=True)))
        ) / (2 * step)
        expected += p[i] * p[j] * np.outer(slope, slope) / 400
    strata = Target.margins({"label": {"mass": ANIMALS, "n": 400}, "light": LIGHT}).stratify(data)
    np.testing.assert_allclose(covariance_of(strata, levels), expected, rtol=1e-6, atol=1e-12)


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=8))
def test_standard_errors_become_a_covariance_that_has_them_and_sums_to_zero(numbers):
    stderr = np.array(numbers)
    top = stderr.argmax()
    stderr[top] = min(stderr[top], stderr.sum() - stderr[top])
    if len(stderr) == 2:
        stderr[:] = stderr.min()
    covariance = balanced_covariance(stderr)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), stderr, rtol=1e-6)
    np.testing.assert_allclose(covariance.sum(axis=0), 0, atol=1e-7 * stderr.max() ** 2)
    assert np.linalg.eigvalsh(covariance).min() > -1e-7 * stderr.max() ** 2


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8))
def test_standard_errors_of_a_multinomial_give_its_covariance(numbers):
    p = np.array(numbers) / np.sum(numbers)
    expected = multinomial_covariance(p, 400)
    np.testing.assert_allclose(
        balanced_covariance(np.sqrt(np.diag(expected))), expected, atol=1e-6 * expected.max()
    )


def test_errors_of_zero_are_no_errors():
    assert not balanced_covariance(np.zeros(3)).any()


# --- whatever the data
# -------------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["cat", "dog", "fox", "empty", None]),
            st.sampled_from(["day", "night", None]),
            st.integers(0, 4),
        ),
        min_size=4,
        max_size=40,
    ),
    st.sampled_from(["image", "group"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["level", "keep", "drop"]),
    st.randoms(),
)
def test_masses_and_weights_sum_to_one_and_rows_may_come_in_any_order(
    rows, unit, outside, missing, random
):
    assume(any(label in ANIMALS and light is not None for label, light, _ in rows))
    target = Target.uniform(
        ["label", "light"],
        unit=unit,
        uncovered="restrict",
        missing={"label": "drop", "light": missing},
        outside={"label": "keep"},
    )
    assert_sums(target, rows, random)
    given_label = Target.margins(
        {"label": ANIMALS},
        unit=unit,
        uncovered="restrict",
        missing={"label": "drop"},
        outside={"label": outside},
    )
    assert_sums(given_label, rows, random)


def assert_sums(target, rows, random):
    frame = pd.DataFrame(rows, columns=["label", "light", "group"])
    strata = target.stratify(frame)
    assert strata.mass.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        np.bincount(strata.code[strata.code >= 0], strata.weight[strata.code >= 0]),
        strata.mass,
        atol=1e-12,
    )
    assert sum(strata.dropped.values()) == (strata.code == -1).sum()
    order = list(range(len(rows)))
    random.shuffle(order)
    again = target.stratify(frame.iloc[order])
    np.testing.assert_allclose(again.weight, strata.weight[order], atol=1e-12)
    assert mass_of(again) == pytest.approx(mass_of(strata))


def test_categories_may_have_missing_values_and_leftovers():
    label = pd.Categorical(["y", None, "x"], categories=["x", "leftover", "y"])
    strata = Target.uniform("label", missing={"label": "level"}).stratify(
        pd.DataFrame({"label": label})
    )
    assert mass_of(strata) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "(missing)": 1 / 3})
    assert [strata.strata[c][0] for c in strata.code] == ["y", "(missing)", "x"]


def test_levels_that_are_fractions():
    strata = Target.margins({"stop": {1.4: 1, 2: 3}}).stratify(pd.DataFrame({"stop": [1.4, 2.0]}))
    assert mass_of(strata) == {"1.4": 0.25, "2": 0.75}
