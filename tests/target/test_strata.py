"""Masses of cells: raking, coverage and restriction, against closed forms."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from target_pools import (
    ANIMALS,
    LIGHT,
    WITH_OKAPI,
    animal_pool,
    counts,
    margin_of,
    mass_of,
    small_pool,
)
from unskew import CoverageError, DataError, Pool, Target


def odds(strata, a=("cat", "dog"), b=("day", "night")):
    mass = mass_of(strata)
    return mass[a[0], b[0]] * mass[a[1], b[1]] / (mass[a[0], b[1]] * mass[a[1], b[0]])


def test_uniform_over_bins_counts_every_bin():
    data = Pool.from_arrays(["a"] * 3, age=[1, 2, 50])
    target = Target.uniform("age", bins={"age": [0, 40, 60, 100]}, uncovered="restrict")
    strata = target.stratify(data)
    assert strata.uncovered == pytest.approx({"age = [60, 100]": 1 / 3})
    assert mass_of(strata) == pytest.approx({"[0, 40)": 0.5, "[40, 60)": 0.5})


def test_raking_meets_the_margins_and_keeps_the_pools_odds_ratios():
    data = animal_pool()
    strata = Target.margins({"label": ANIMALS, "light": LIGHT}, interactions="pool").stratify(data)
    assert margin_of(strata, "label") == pytest.approx(ANIMALS, abs=1e-12)
    assert margin_of(strata, "light") == pytest.approx(LIGHT, abs=1e-12)
    own = Target.table(counts(data.frame, "label", "light")).stratify(data)
    for pair in itertools.combinations(ANIMALS, 2):
        assert odds(strata, pair) == pytest.approx(odds(own, pair), rel=1e-9)
    assert any(
        "interactions (odds ratios) are assumed to be those of the pool" in sentence
        for sentence in strata.describe()
    )


def test_margins_that_hold_already_change_nothing():
    data = animal_pool()
    own = {name: (data.frame[name].value_counts()).to_dict() for name in ("label", "light")}
    strata = Target.margins(own, interactions="pool").stratify(data)
    assert mass_of(strata) == pytest.approx(
        mass_of(Target.table(counts(data.frame, "label", "light")).stratify(data)), abs=1e-14
    )
    np.testing.assert_allclose(strata.weight, 1 / 600, rtol=1e-12)


def test_a_table_named_by_the_user_gives_its_own_odds_ratios():
    data = animal_pool()
    independent = pd.DataFrame(
        [(a, b, 1) for a, b in itertools.product(ANIMALS, LIGHT)],
        columns=["label", "light", "count"],
    )
    target = Target.margins({"label": ANIMALS, "light": LIGHT}, interactions=independent)
    strata = target.stratify(data)
    assert mass_of(strata) == pytest.approx(
        {(a, b): ANIMALS[a] * LIGHT[b] for a, b in itertools.product(ANIMALS, LIGHT)}, abs=1e-12
    )
    assert any("the table given for them" in sentence for sentence in target.describe())


@given(st.integers(0, 10**6))
def test_raking_keeps_odds_ratios_whatever_the_margins(seed):
    rng = np.random.default_rng(seed)
    data = animal_pool(seed=3)
    margins = {
        "label": dict(zip(ANIMALS, rng.integers(1, 100, 3).tolist(), strict=True)),
        "light": dict(zip(LIGHT, rng.integers(1, 100, 2).tolist(), strict=True)),
    }
    strata = Target.margins(margins, interactions="pool").stratify(data)
    own = Target.table(counts(data.frame, "label", "light")).stratify(data)
    assert odds(strata) == pytest.approx(odds(own), rel=1e-8)
    for name, margin in margins.items():
        assert margin_of(strata, name) == pytest.approx(
            {level: number / sum(margin.values()) for level, number in margin.items()}, abs=1e-12
        )


def test_mass_without_images_is_an_error_that_names_it():
    with refused(CoverageError, levels=["label = okapi"]) as caught:
        Target.margins({"label": WITH_OKAPI}).stratify(animal_pool())
    caught.match(r"label = okapi \(0.1\); 0.1 .*'restrict'")
    frame = animal_pool().frame
    frame = frame[(frame["label"] != "cat") | (frame["light"] != "day")]
    with pytest.raises(CoverageError, match=r"label = cat × light = day \(0.1667\)"):
        Target.uniform(["label", "light"]).stratify(frame)
    with pytest.raises(CoverageError, match=r"label = okapi \(0.1\)"):
        Target.margins({"label": WITH_OKAPI, "light": LIGHT}).stratify(animal_pool())


def test_restriction_renormalises_and_says_which_population_is_left():
    strata = Target.margins({"label": WITH_OKAPI}, uncovered="restrict").stratify(animal_pool())
    assert mass_of(strata) == pytest.approx({"cat": 4 / 9, "dog": 3 / 9, "fox": 2 / 9})
    assert strata.uncovered == {"label = okapi": 0.1}
    assert (
        strata.population
        == "the target excluding strata with no images in any source: label = okapi (0.1)"
    )
    assert strata.describe()[-1] == f"Results describe {strata.population}."


def test_restriction_of_raked_margins():
    strata = Target.margins({"label": WITH_OKAPI, "light": LIGHT}, uncovered="restrict").stratify(
        animal_pool()
    )
    assert margin_of(strata, "label") == pytest.approx(
        {"cat": 4 / 9, "dog": 3 / 9, "fox": 2 / 9}, abs=1e-12
    )
    assert margin_of(strata, "light") == pytest.approx(LIGHT, abs=1e-12)
    assert "the other margins taken as unchanged" in strata.population


def test_restriction_of_a_table_that_margins_are_raked_from():
    """Raked over the whole table, then conditioned on what is covered."""
    data = animal_pool()
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
    with refused(CoverageError, levels=["label = okapi"]):
        Target.margins(
            {"label": {"okapi": 1.0, "cat": 0.0, "dog": 0.0, "fox": 0.0}}, uncovered="restrict"
        ).stratify(animal_pool())
    with refused(CoverageError, columns=["label"]):
        Target.margins({"label": {"okapi": 1.0}}, outside={"label": "keep"}).stratify(animal_pool())
    with refused(DataError, columns=["label"]):
        Target.margins({"label": {"okapi": 1.0}}, outside={"label": "drop"}).stratify(animal_pool())


def test_combinations_that_a_table_leaves_out():
    table = pd.DataFrame(
        [("cat", "day", 1), ("dog", "night", 1), ("fox", "day", 1)],
        columns=["label", "light", "count"],
    )
    with refused(DataError, columns=["label", "light"], levels=["label = fox × light = night"]):
        Target.table(table).stratify(small_pool())
    with pytest.raises(DataError, match=r"interactions .* label = fox × light = night"):
        Target.margins(
            {"label": ANIMALS, "light": {"day": 1, "night": 1}}, interactions=table
        ).stratify(small_pool())
