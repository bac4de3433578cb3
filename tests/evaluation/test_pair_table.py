"""Tables of pairs: what is refused, what is left out and counted, what a pair counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError, evaluate_pairs
from unskew.evaluation.pair_table import person_weights, read_pairs

TABLE = pd.DataFrame(
    {
        "id": list("abcdefgh"),
        "source": "s",
        "group": [1, 1, 2, 2, 3, 3, 4, 4],
        "split": ["test"] * 6 + ["train"] * 2,
        "sample_weight": [1.0, 1, 1, 1, 1, 0, 1, 1],
    }
)
PAIRS = pd.DataFrame(
    [("a", "b", True, 0.9), ("c", "d", True, 0.8), ("a", "c", False, 0.1), ("b", "d", False, 0.3)],
    columns=["id_a", "id_b", "same", "score"],
)


def add(*rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.concat([PAIRS, pd.DataFrame(rows, columns=PAIRS.columns)], ignore_index=True)


def test_pairs_that_say_nothing_are_refused() -> None:
    with refused(DataError, count=1, ids=["a"]):
        read_pairs(add(("a", "a", True, 1.0)))
    for repeated in (("a", "b", True, 0.7), ("b", "a", True, 0.7)):
        with refused(DataError, count=1, ids=["a and b"]):
            read_pairs(add(repeated))
    with refused(DataError, column="score", count=1, row=5):
        read_pairs(add(("a", "d", False, np.nan)))
    with refused(DataError, column="score", row=5):
        read_pairs(add(("a", "d", False, np.inf)))
    with refused(DataError, column="same", count=1):
        read_pairs(add(("a", "d", "maybe", 0.2)))
    with refused(DataError, column="same", row=5):
        read_pairs(add(("a", "d", None, 0.2)))
    with refused(DataError, column="score"):
        read_pairs(PAIRS.drop(columns="score"))
    with refused(DataError, column="weight", row=1):
        read_pairs(PAIRS.assign(weight=-1.0))
    with refused(DataError, count=0):
        read_pairs(PAIRS[:0])


@pytest.mark.parametrize(
    ("yes", "no"), [(True, False), (1, 0), ("TRUE", "false"), ("1", "0"), (1.0, 0.0)]
)
def test_same_is_read_however_it_is_written(yes: Any, no: Any) -> None:
    same = [yes if value else no for value in PAIRS["same"]]
    read = read_pairs(PAIRS.assign(same=pd.Series(same, dtype=object)))
    assert read["same"].tolist() == PAIRS["same"].tolist()


def test_unknown_images_are_refused_or_counted() -> None:
    pairs = add(("a", "nobody", False, 0.2))
    with refused(DataError, option="allow_extra", ids=["nobody"], count=1):
        evaluate_pairs(TABLE, pairs)
    result = evaluate_pairs(TABLE, pairs, allow_extra=True, roc=False)
    assert result.coverage.extra == 1
    with refused(DataError):
        evaluate_pairs(TABLE, PAIRS.assign(id_b=["x", "y", "z", "w"]), allow_extra=False)


def test_other_splits_and_weights_of_zero_are_left_out_and_counted() -> None:
    pairs = add(("a", "g", False, 0.2), ("e", "f", True, 0.2))
    result = evaluate_pairs(TABLE, pairs, roc=False)
    coverage = result.coverage
    assert (coverage.genuine, coverage.impostor) == (2, 2)
    assert (coverage.elsewhere, coverage.zero, coverage.extra) == (1, 1, 0)
    assert coverage.weight == pytest.approx(4 / 5)
    assert len(coverage.notes()) == 3
    assert result.overall.points[0].fmr.value == 0.0


def test_an_impostor_pair_within_a_group_is_noted() -> None:
    result = evaluate_pairs(TABLE.drop(columns="split"), add(("g", "h", False, 0.2)), roc=False)
    assert any("1 impostor pairs" in note for note in result.notes)


def test_the_weight_of_a_person() -> None:
    person = np.repeat(np.arange(200), 4)
    rng = np.random.default_rng(0)
    own = rng.exponential(size=200)[person]
    np.testing.assert_allclose(person_weights(own, person), own)
    np.testing.assert_allclose(person_weights(np.ones(800), person), 1.0)
    alone = rng.exponential(size=800)
    # No variance between persons: at most a tenth of the spread of means, σ/√4, is left (the
    # estimate of σ_b² has a standard error of about σ²/60).
    assert person_weights(alone, person).std() < 0.3 * alone.std()
