"""Ranks of new units: their definition, and uniformity over every order of the units."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unskew.monitoring.conformal_ranks import count_cells, rank_in_turn, rank_known_shares


def _by_definition(old: list[float], new: list[float], uniform: list[float]) -> list[float]:
    bag, ranks = list(old), []
    for x, u in zip(new, uniform, strict=True):
        below, same = sum(y < x for y in bag), sum(y == x for y in bag)
        bag.append(x)
        ranks.append((below + u * (1 + same)) / len(bag))
    return ranks


def test_ranks_are_those_of_the_definition_across_blocks() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 9, 40).astype(float), rng.integers(0, 9, 700).astype(float)
    uniform = rng.random(700)
    expected = _by_definition(old.tolist(), new.tolist(), uniform.tolist())
    assert rank_in_turn(old, new, uniform) == pytest.approx(expected, abs=1e-15)


def test_ranks_are_uniform_and_uncorrelated_over_all_orders() -> None:
    # All orders of five units with ties are equally likely. Ranks are linear in U, so that the
    # ends of U give every cell's probability: P(p ≤ c) for c on a grid, exactly.
    grid = np.linspace(0.0, 1.0, 11)
    below = np.zeros((grid.size, 2))
    product = 0.0
    orders = list(itertools.permutations([1.0, 1.0, 2.0, 3.0, 3.0]))
    for order in orders:
        old, new = np.array(order[:3]), np.array(order[3:])
        low, high = (rank_in_turn(old, new, np.full(2, u)) for u in (0.0, 1.0))
        below += np.clip((grid[:, None] - low) / (high - low), 0.0, 1.0) / len(orders)
        product += float(np.prod((low + high) / 2)) / len(orders)
    assert below == pytest.approx(np.column_stack([grid, grid]), abs=1e-12)
    assert product == pytest.approx(0.25, abs=1e-12)


def test_texts_rank_by_the_alphabet_and_missing_numbers_lowest() -> None:
    texts = rank_in_turn(
        np.array(["b", "d"], dtype=object), np.array(["a", "c", "e"], dtype=object), np.full(3, 0.5)
    )
    assert texts == pytest.approx([0.5 / 3, 2.5 / 4, 4.5 / 5])
    assert rank_in_turn(np.array([0.0, 1.0]), np.array([np.nan]), np.array([0.5])) == pytest.approx(
        [0.5 / 3]
    )
    assert rank_in_turn(np.zeros(0), np.array([3.0]), np.array([0.3])) == pytest.approx([0.3])


def test_known_shares_give_each_level_its_interval() -> None:
    levels = np.array(["b", "a", "c"], dtype=object)
    ranks = rank_known_shares(levels, {"c": 0.3, "a": 0.2, "b": 0.5}, np.array([0.0, 1.0, 0.5]))
    assert ranks == pytest.approx([0.2, 0.2, 0.85])


def test_cells_are_counted_by_look_and_missing_ranks_are_not() -> None:
    count = count_cells(np.array([0.0, 1.0, np.nan, 0.5]), np.array([0, 1, 1, 1]), 3)
    assert count.shape == (3, 64)
    assert count.sum(axis=1).tolist() == [1, 2, 0]
    assert count[0, 0] == count[1, 63] == count[1, 32] == 1
