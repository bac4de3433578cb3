"""Which way is chosen from held-out scores, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn.ways import (
    HeldOutHits,
    WayChoice,
    WayScore,
    check_way,
    choose_way,
    join_choices,
    way_of,
)

TAUS = np.array([0.0, 0.5, 1.0])


def _judged(accuracies: list[float], n: int = 2000, seed: int = 0) -> HeldOutHits:
    """Three ways whose hits are nested: what a weaker one hits the stronger one hits, too."""
    luck_n = np.random.default_rng(seed).random(n)
    hit_cn = np.array([luck_n < accuracy for accuracy in accuracies])
    return HeldOutHits(TAUS, np.full(3, np.nan), hit_cn, np.ones(n), np.arange(n))


def test_a_tie_stays_at_half() -> None:
    choice = choose_way(_judged([0.8, 0.8, 0.8]))
    assert choice.way == "half"
    assert choice.tau == 0.5
    assert {row.way: row.gain for row in choice.scores} == {"weights": 0, "half": 0, "logit": 0}


def test_a_way_that_is_clearly_better_is_taken() -> None:
    choice = choose_way(_judged([0.7, 0.8, 0.85]))
    assert choice.way == "logit"
    assert "logit" in choice.reason
    assert choice.score is not None
    assert choice.score <= 0.86


def test_less_than_one_standard_error_is_not_enough() -> None:
    n = 2000
    rng = np.random.default_rng(0)
    half_n = rng.random(n) < 0.8
    # One image more right than wrong among a hundred that differ.
    other_n = half_n.copy()
    wrong, right = np.flatnonzero(~half_n)[:51], np.flatnonzero(half_n)[:50]
    other_n[wrong], other_n[right] = True, False
    hits = np.array([half_n, half_n, other_n])
    choice = choose_way(HeldOutHits(TAUS, np.full(3, np.nan), hits, np.ones(n), np.arange(n)))
    assert choice.way == "half"


def test_errors_are_clustered_by_unit() -> None:
    alone = _judged([0.7, 0.8, 0.815], n=1500)
    together = HeldOutHits(TAUS, alone.ridge, alone.hit, alone.weight, np.arange(1500) // 5 * 1)
    by_way = {
        kind: {row.way: row.stderr for row in choose_way(judged, least_ess=0).scores}
        for kind, judged in (("alone", alone), ("together", together))
    }
    copies = HeldOutHits(
        TAUS, alone.ridge, np.tile(alone.hit, 2), np.ones(3000), np.tile(np.arange(1500), 2)
    )
    stderr = {row.way: row.stderr for row in choose_way(copies).scores}
    # Copies are one unit: they change no error.
    assert stderr["logit"] == pytest.approx(by_way["alone"]["logit"])
    assert by_way["together"]["logit"] > 0


def test_few_effective_images_choose_nothing() -> None:
    choice = choose_way(_judged([0.5, 0.6, 0.9], n=200))
    assert choice.way == "half"
    assert choice.scores == ()
    assert "300" in choice.reason


def test_without_a_choice_the_ridge_is_the_default() -> None:
    ridge_c = np.array([0.001, 0.01, 0.1])
    hits = np.zeros((3, 50))
    judged = HeldOutHits(np.full(3, 0.5), ridge_c, hits, np.ones(50), np.arange(50))
    assert choose_way(judged).ridge == 0.01


def test_a_single_way_has_its_ridge_chosen() -> None:
    luck_n = np.random.default_rng(0).random(1000)
    hits = np.array([luck_n < 0.7, luck_n < 0.8])
    judged = HeldOutHits(np.zeros(2), np.array([0.01, 0.1]), hits, np.ones(1000), np.arange(1000))
    choice = choose_way(judged)
    assert (choice.way, choice.ridge, choice.tau) == ("weights", 0.1, 0.0)
    few = choose_way(judged, least_ess=2000, alone="asked for")
    assert (few.way, few.ridge) == ("weights", 0.01)
    assert few.reason == (
        "weights: asked for. Its ridge is the usual one: the held-out images are worth 1000 "
        "equally weighted ones, and a choice needs 2000."
    )
    for one in (choice, few):
        assert WayChoice.from_dict(one.to_dict()) == one


def test_a_power_of_the_weights_is_a_way_of_its_own() -> None:
    rows = (WayScore("weights", None, 0.7, 0.0, 0.0), WayScore("weights", None, 0.8, 0.1, 0.0, 0.0))
    choice = WayChoice("weights", None, "…", rows, 0.78, power=0.0)
    assert [row.name for row in rows] == ["weights", "equal weights"]
    assert (choice.name, choice.own) == ("equal weights", rows[1])
    assert choice.optimism == pytest.approx(0.02)
    assert "is 78.0%" in choice.sentence
    assert WayChoice.from_dict(choice.to_dict()) == choice
    middle = replace(choice, power=0.5, score=None)
    assert (middle.name, middle.own) == ("square roots of the weights", None)
    assert (middle.optimism, middle.sentence) == (0.0, "…")


def test_of_equal_ridges_the_one_next_to_the_default_is_taken() -> None:
    hit_n = np.random.default_rng(0).random(2000) < 0.8
    hits = np.array([hit_n, hit_n, hit_n, ~hit_n])
    judged = HeldOutHits(
        np.full(4, 0.5), np.array([0.1, 0.03, 0.001, 0.01]), hits, np.ones(2000), np.arange(2000)
    )
    assert choose_way(judged).ridge == 0.03


def test_of_a_single_way_only_the_ridge_is_chosen() -> None:
    luck_n = np.random.default_rng(0).random(2000)
    hits = np.array([luck_n < 0.7, luck_n < 0.9])
    judged = HeldOutHits(np.zeros(2), np.array([0.01, 0.1]), hits, np.ones(2000), np.arange(2000))
    choice = choose_way(judged)
    assert (choice.way, choice.ridge) == ("weights", 0.1)
    assert "no other way was tried" in choice.reason
    # One candidate is so much better that choosing it flatters nobody: what is left is the scatter
    # of 200 replicates, 0.0004.
    assert choice.optimism == pytest.approx(0.0, abs=2e-3)
    # One row is no comparison, and its score is corrected for the ridge.
    alone = replace(choice, score=choice.scores[0].score - 0.01)
    assert choice.compared == ()
    assert "choice of its ridge" in alone.sentence
    few = HeldOutHits(np.zeros(2), judged.ridge, hits[:, :100], np.ones(100), np.arange(100))
    assert (choose_way(few).way, choose_way(few).ridge) == ("weights", 0.01)
    assert choose_way(few).optimism == 0.0


def test_ridges_are_compared_by_log_loss_and_ways_by_hits() -> None:
    """The ridge with lower losses is taken, though its hits are no better; τ then by hits."""
    rng = np.random.default_rng(0)
    n = 2000
    hit_n = rng.random(n) < 0.8
    more_n = hit_n | (rng.random(n) < 0.3)
    # Both ridges of τ = ½ hit alike; the second of τ = 1 has better losses and better hits.
    hits = np.array([hit_n, hit_n, hit_n, more_n])
    loss_n = rng.exponential(size=n)
    losses = np.array([loss_n, 0.9 * loss_n, loss_n, 0.5 * loss_n])
    tau_c, ridge_c = np.array([0.5, 0.5, 1.0, 1.0]), np.array([0.01, 0.1, 0.01, 0.1])
    judged = HeldOutHits(tau_c, ridge_c, hits, np.ones(n), np.arange(n), losses)
    choice = choose_way(judged)
    assert (choice.way, choice.ridge) == ("logit", 0.1)
    assert {row.way: row.ridge for row in choice.scores} == {"half": 0.1, "logit": 0.1}
    # Losses alone move no way: with equal hits it stays at half.
    same = HeldOutHits(tau_c, ridge_c, hits[[0, 0, 0, 0]], np.ones(n), np.arange(n), losses)
    assert (choose_way(same).way, choose_way(same).ridge) == ("half", 0.1)


@pytest.mark.slow
def test_the_score_of_the_best_of_many_equals_is_corrected() -> None:
    """Fifteen candidates of accuracy 0.8: the best looks better than it is."""
    gaps = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        hit_cn = rng.random((15, 600)) < 0.8
        judged = HeldOutHits(
            np.repeat(TAUS, 5),
            np.tile(np.arange(1.0, 6.0), 3),
            hit_cn,
            np.ones(600),
            np.arange(600),
        )
        choice = choose_way(judged, seed=seed)
        best = max(row.score for row in choice.scores if row.way == choice.way)
        gaps.append((best - 0.8, choice.score - 0.8))
        assert choice.optimism == pytest.approx(best - choice.score)
    plain, corrected = np.mean(gaps, axis=0)
    assert plain > 0.015
    # Standard error of the mean of 40 scores: 0.0026.
    assert abs(corrected) < 0.008


def test_an_unknown_way_is_refused_with_the_nearest() -> None:
    with refused(ConfigError, option="way", value="weight"):
        check_way("weight")


def test_a_way_that_the_learner_cannot_take_is_refused() -> None:
    with refused(ConfigError, option="way", value="head"):
        check_way("head", ("auto", "weights"), why="a forest has no last layer")


def test_names_of_the_dial() -> None:
    assert [way_of(tau) for tau in TAUS] == ["weights", "half", "logit"]


def test_a_ridge_is_left_only_for_a_better_one() -> None:
    n, rng = 3000, np.random.default_rng(1)
    luck_n = rng.random(n)
    ridge_c = np.array([0.001, 0.01, 0.1])

    def chosen(accuracies: list[float]) -> float | None:
        hits = np.array([luck_n < accuracy for accuracy in accuracies])
        judged = HeldOutHits(np.full(3, 0.5), ridge_c, hits, np.ones(n), np.arange(n))
        return choose_way(judged).ridge

    assert chosen([0.8, 0.8, 0.8]) == 0.01
    assert chosen([0.8, 0.8, 0.83]) == 0.1


def test_of_several_labels_too_few_images_are_said() -> None:
    few, many = (WayChoice("half", 0.01, "half.", ess=ess) for ess in (90.0, 400.0))
    assert "Of 1 the held-out images" in join_choices({"a": few, "b": many}).reason
    assert "too few" not in join_choices({"a": many, "b": many}).reason
    assert join_choices({}).ess is None
