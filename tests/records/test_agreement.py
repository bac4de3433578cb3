"""The comparison of sources in words: what disagrees, without whom, and when nothing is said."""

import math
from dataclasses import replace

from unskew.records import Agreement, Estimate, SourceEstimate, WithoutSource


def _own(value: float) -> SourceEstimate:
    return SourceEstimate(value, 0.01, (value - 0.02, value + 0.02), 100, 1.0, 1.0)


def _without(name: str, disagree: bool) -> WithoutSource:
    return WithoutSource(name, 0.3, 0.01, 0.001 if disagree else 0.4, 0.2, disagree)


THREE = Agreement(
    by_source={"north": _own(0.3), "south": _own(0.31), "night": _own(0.6)},
    p=1e-9,
    between_sd=0.7,
    scale="logit",
    margin=0.05,
    disagree=True,
    agreed=(0.38, 0.42),
    new_source=(0.1, 0.8),
    shared=1.0,
    without=(_without("north", True), _without("south", True), _without("night", False)),
)


def test_the_one_source_without_which_the_others_agree_is_named() -> None:
    assert THREE.odd_source == "night"
    assert "night" in THREE.message
    several = replace(THREE, without=(_without("north", False), _without("night", False)))
    assert several.odd_source is None
    assert replace(THREE, disagree=False).odd_source is None


def test_the_words_name_the_ends() -> None:
    assert "0.3 (north)" in THREE.message
    assert "0.6 (night)" in THREE.message
    assert "agree" in replace(THREE, disagree=False, p=0.4).message


def test_a_part_of_the_target_is_said() -> None:
    assert "40%" in replace(THREE, shared=0.4).message
    assert "%" not in replace(THREE, disagree=False).message


def test_two_sources_cannot_say_for_a_third() -> None:
    two = replace(
        THREE,
        by_source={"north": _own(0.3), "night": _own(0.6)},
        new_source=None,
        without=(),
    )
    assert "2 sources cannot say" in two.message


def test_sources_without_an_estimate_are_not_compared() -> None:
    lone = SourceEstimate(math.nan, math.nan, (math.nan, math.nan), 5, 0.1, 0.0)
    agreement = replace(THREE, by_source={**THREE.by_source, "moon": lone})
    assert agreement.compared == ("north", "south", "night")
    assert "moon" in agreement.not_compared
    assert THREE.not_compared == ""


def test_a_reason_takes_the_place_of_the_words() -> None:
    assert replace(THREE, reason="There is one source.").message == "There is one source."


def test_an_estimate_without_a_comparison_says_nothing_of_sources() -> None:
    plain = Estimate(0.5, 0.01, (0.48, 0.52))
    assert plain.by_source == {}
    assert math.isnan(plain.agreement_p)
    assert math.isnan(plain.between_sd)
    assert plain.agreed == plain.interval
    assert plain.new_source is None
    assert not plain.sources_disagree
    assert "source" not in repr(plain)


def test_an_estimate_prints_that_sources_disagree() -> None:
    estimate = Estimate(0.4, 0.01, (0.1, 0.8), agreement=THREE)
    assert estimate.agreed == (0.38, 0.42)
    assert estimate.new_source == (0.1, 0.8)
    assert "0.1 to 0.8" in str(estimate)
    assert "disagree" in repr(estimate)
    # The comparison is beside the number, no part of it.
    assert estimate == Estimate(0.4, 0.01, (0.1, 0.8))
    assert f"{estimate:.2f}" == "0.40 ± 0.01"


def test_what_is_withheld_cannot_be_computed_from_the_rest() -> None:
    hidden = THREE.withhold(["night", "south", "unknown"])
    assert hidden.withheld == ("south", "night")
    assert math.isnan(hidden.by_source["night"].value)
    assert math.isnan(hidden.by_source["night"].interval[0])
    assert hidden.by_source["north"] == THREE.by_source["north"]
    assert all(math.isnan(rest.value) for rest in hidden.without)
    assert hidden.compared == THREE.compared
    assert hidden.not_compared == ""
    assert hidden.odd_source == "night"
    assert "0.6" not in hidden.message
    assert repr(THREE.withhold(["unknown"])) == repr(THREE)  # NaN makes equal records unequal
