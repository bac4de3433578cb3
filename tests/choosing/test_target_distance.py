"""How far the weighted pool is from known facts about the target."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from choosing_pools import labelled_pool, tilted_pool
from unskew.bias import Box, Known, Strata
from unskew.choosing.target_distance import distance_to_target, known_facts


class TestFacts:
    def test_strata_agree_exactly_with_the_margin_they_used(self) -> None:
        pool = labelled_pool()
        target = unskew.Target.margins({"label": {"a": 0.2, "b": 0.5, "c": 0.3}})
        facts = known_facts(pool, [target], [])
        assert [(fact.name, fact.expected) for fact in facts] == [
            ("label = b", 0.5),
            ("label = c", 0.3),
            ("label = a", 0.2),
        ]
        distance = distance_to_target(unskew.debias(pool, Strata("label"), target), facts)
        assert distance.largest == pytest.approx(0.0, abs=1e-12)
        assert distance.p_value == 1.0

    def test_naive_pooling_is_off_by_what_the_shares_differ(self) -> None:
        pool = labelled_pool()
        target = unskew.Target.margins({"label": {"a": 0.05, "b": 0.5, "c": 0.45}})
        naive = unskew.debias(pool, Known({"0": 1.0, "1": 1.0}))
        distance = distance_to_target(naive, known_facts(pool, [target], []))
        share = (pool.frame["label"] == "a").mean()
        assert distance.fact == "label = a"
        assert distance.largest == pytest.approx((share - 0.05) / np.sqrt(share * (1 - share)))
        assert distance.p_value < 1e-6

    def test_margins_are_compared_one_by_one_also_those_that_the_fit_did_not_use(self) -> None:
        frame = labelled_pool().frame.assign(site=np.tile(["n", "s"], 300))
        target = unskew.Target.margins(
            {"label": {"a": 0.3, "b": 0.4, "c": 0.3}, "site": {"n": 0.9, "s": 0.1}}
        )
        pool = unskew.Pool(frame)
        distance = distance_to_target(
            unskew.debias(pool, Strata("label"), target), known_facts(pool, [target], [])
        )
        assert distance.n_facts == 5
        assert distance.fact.startswith("site")

    def test_means_of_an_unbiased_source(self) -> None:
        pool = tilted_pool()
        (fact,) = known_facts(pool, [unskew.Target.source("0")], ["x"])
        own = pool.frame["x"][pool.source == 0]
        assert fact.expected == pytest.approx(own.mean())
        assert fact.stderr == pytest.approx(own.std(ddof=0) / 20)

    def test_of_a_sample_the_shared_numbers_are_compared_where_no_candidate_names_a_column(
        self,
    ) -> None:
        rng = np.random.default_rng(0)
        pool = tilted_pool(y=np.full(800, 2.0), kind=["k"] * 800, z=rng.normal(size=800))
        sample = unskew.Target.sample(
            unskew.Pool.from_arrays(
                ["t"] * 500, x=rng.normal(size=500), y=np.full(500, 2.0), kind=["k"] * 500
            )
        )
        assert [fact.name for fact in known_facts(pool, [sample], ["x"])] == ["mean of x"]
        assert [fact.name for fact in known_facts(pool, [sample], [])] == ["mean of x", "mean of y"]
        assert [fact.name for fact in known_facts(pool, [sample], ["z"])] == [
            "mean of x",
            "mean of y",
        ]
        # Both describe the sources equally; the sample tells that source 0 is the unbiased one.
        first = Known({"0": 1.0, "1": lambda table: np.exp(table["x"])})
        second = Known({"0": lambda table: np.exp(-table["x"]), "1": 1.0})
        choice = unskew.choose_bias(
            pool, {"second": second, "first": first}, facts=[sample], check=False
        )
        assert choice.table["distance"].notna().all()
        assert choice.name == "first"
        assert "contradicting it: second" in choice.reason

    def test_the_population_of_facts_and_results_is_named(self) -> None:
        known = unskew.Target.margins(
            {"label": {"a": 0.3, "b": 0.3, "c": 0.3, "z": 0.1}}, uncovered="restrict"
        )
        without = known.stratify(labelled_pool()).population
        assert "label = z (0.1)" in without
        stratified = unskew.choose_bias(labelled_pool(), [Strata("label")], known, check=False)
        assert stratified.population == without
        assert without in str(stratified)
        boxed = unskew.choose_bias(
            labelled_pool(), [Box(["x"])], facts=[known], check=False, baseline=False
        )
        assert any(without in note for note in boxed.notes)
        assert boxed.population not in (without, "the target")
        assert boxed.population in str(boxed)

    def test_without_facts_there_is_no_distance(self) -> None:
        pool = tilted_pool()
        assert distance_to_target(unskew.debias(pool, Known({"0": 1.0, "1": 1.0})), ()) is None
