"""Evidence of a change: exact martingales, by enumeration of everything that can happen."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from unskew.monitoring.change_evidence import (
    CELLS,
    log_rank_evidence,
    log_share_evidence,
    share_interval_sequence,
    start_weights,
)


def _counts(*cells_by_look: tuple[int, ...]) -> np.ndarray:
    return np.stack([np.bincount(cells, minlength=CELLS) for cells in cells_by_look])


def test_expected_evidence_is_the_evidence_before_the_look() -> None:
    # Under the null every cell is equally likely; the next look has one rank.
    for past in (((3,),), ((3, 3, 60),), ((3,), (), (5, 9))):
        before = np.exp(log_rank_evidence(_counts(*past))[0])
        after = [np.exp(log_rank_evidence(_counts(*past, (cell,)))[0]) for cell in range(CELLS)]
        # Sums of a few hundred products of Γ: rounding only.
        assert np.mean(after) == pytest.approx(before, rel=1e-10)


def test_two_ranks_of_the_first_look_have_expectation_one() -> None:
    pairs = [_counts((a, b)) for a in range(CELLS) for b in range(CELLS)]
    evidence = np.exp(log_rank_evidence(np.stack(pairs))[0])
    assert evidence.mean() == pytest.approx(1.0, rel=1e-10)


def test_processes_side_by_side_are_those_alone() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.2, (3, 5, CELLS))
    together, terms = log_rank_evidence(counts)
    assert terms.shape == (3, 5)
    for k in range(3):
        assert log_rank_evidence(counts[k])[0] == pytest.approx(together[k], rel=1e-12)


def test_capital_is_shared_out_among_the_starts() -> None:
    for looks in (0, 1, 7, 4000):
        weight, rest = start_weights(looks)
        assert weight.sum() + rest == pytest.approx(1.0, rel=1e-12)
        assert (weight > 0).all()


def test_the_change_is_dated_by_the_strongest_bettor() -> None:
    rng = np.random.default_rng(1)
    cells = [tuple(rng.integers(0, CELLS if look < 12 else 12, 30)) for look in range(20)]
    log_e, term = log_rank_evidence(_counts(*cells))
    assert abs(int(np.argmax(term)) - 12) <= 1
    assert log_e > np.log(20)


@pytest.mark.parametrize("share", [0.05, 0.03, 0.0])
def test_share_evidence_expects_at_most_one(share: float) -> None:
    x = np.arange(13)
    evidence = [np.exp(log_share_evidence(np.array([k]), np.array([12 - k]), 0.05)[0]) for k in x]
    mean = float(scipy.stats.binom.pmf(x, 12, share) @ evidence)
    if share == 0.05:
        assert mean == pytest.approx(1.0, rel=1e-9)
    else:
        assert mean < 1.0


def test_interval_holds_the_shares_that_no_bettor_has_refuted() -> None:
    low, high = share_interval_sequence(7, 50, 0.95)
    assert low < 7 / 50 < high
    for p, inside in (
        (low * 0.99, False),
        (low * 1.01, True),
        (high * 0.99, True),
        (high * 1.01, False),
    ):
        mixture = scipy.special.beta(7.5, 43.5) / scipy.special.beta(0.5, 0.5)
        assert (mixture / (p**7 * (1 - p) ** 43) < 20) == inside
    assert share_interval_sequence(0, 0, 0.95) == (0.0, 1.0)
    assert share_interval_sequence(0, 40, 0.95)[0] == 0.0
    assert share_interval_sequence(40, 40, 0.95)[1] == 1.0
