"""Targets applied to pools, against closed forms: masses, weights and references."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from raising import refused
from target_pools import ANIMALS, LIGHT, animal_pool, margin_of, mass_of, small_pool, with_empty
from unskew import ConfigError, DataError, Pool, Target


def test_uniform_gives_each_of_m_levels_one_mth():
    assert mass_of(Target.uniform("label").stratify(animal_pool())) == pytest.approx(
        dict.fromkeys(ANIMALS, 1 / 3)
    )
    joint = mass_of(Target.uniform(["label", "light"]).stratify(animal_pool()))
    assert joint == pytest.approx(dict.fromkeys(itertools.product(ANIMALS, LIGHT), 1 / 6))


def test_one_margin_is_itself_and_the_weights_are_post_stratification():
    data = animal_pool()
    strata = Target.margins({"label": ANIMALS}).stratify(data)
    assert mass_of(strata) == pytest.approx(ANIMALS, abs=1e-15)
    count = data.frame["label"].value_counts()
    np.testing.assert_allclose(
        strata.weight, [ANIMALS[level] / count[level] for level in data.frame["label"]], rtol=1e-13
    )
    assert [strata.strata[c][0] for c in strata.code] == data.frame["label"].tolist()
    assert strata.population == "the target"
    assert strata.covariance is None


def test_a_joint_table_has_the_masses_and_margins_of_its_counts():
    data = animal_pool()
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
    data, phones = animal_pool(), Pool.from_arrays(["phone"] * 5, brightness=np.arange(5.0))
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
        sentence == "Kept at its pool share, 0.2: label = empty (150 images)."
        for sentence in strata.describe()
    )
    assert (
        strata.population
        == "the target, with images outside its scope added at their pool share (0.2)"
    )


def test_a_level_of_mass_zero_takes_its_images_out_and_says_so():
    strata = Target.margins({"label": {"cat": 1, "dog": 1, "fox": 0}}).stratify(animal_pool())
    fox_n = animal_pool().frame["label"] == "fox"
    assert not strata.weight[fox_n].any()
    assert f"{fox_n.sum()} images get weight 0: the target has no label = fox." in strata.describe()


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


def test_references_that_do_not_exist_are_refused():
    with refused(DataError, source="c", sources=["a", "b"]):
        Target.source("c").resolve(small_pool())
    with refused(DataError, source="a", column="source"):
        Target.source("a").resolve(small_pool().frame[["label"]])
    with refused(ConfigError, option="sample", value="phones/"):
        Target.sample("phones/").resolve(small_pool())
    with refused(ConfigError, option="sample", value="DataFrame"):
        Target.sample(small_pool().frame)


def test_masses_and_references_are_not_taken_for_one_another():
    with refused(ConfigError, option="target", value="source"):
        Target.source("a").stratify(small_pool())
    with refused(ConfigError, option="target", value="uniform"):
        Target.uniform("label").compare(small_pool())
